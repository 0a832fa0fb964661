"""Every number of every option and setting has a bound; what lies outside is one line, before anything is written."""

from __future__ import annotations

import types
import typing
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

from skyanchor.bounds import Bound
from skyanchor.cli import main as verbs
from skyanchor.cli.main import main
from skyanchor.cli.options import Options, Preparation, SceneRun
from skyanchor.pipeline import PipelineConfig
from skyanchor.sequence.monocular import MonocularConfig
from skyanchor.sequence.segmentation import SegmentationConfig


def _kinds(hint: Any, seen: set[type]) -> None:
    """Collect every dataclass that settings may hold."""
    for arm in typing.get_args(hint):
        _kinds(arm, seen)
    if is_dataclass(hint) and isinstance(hint, type) and hint not in seen:
        seen.add(hint)
        for held in typing.get_type_hints(hint, include_extras=True).values():
            _kinds(held, seen)


def _all_kinds() -> list[type]:
    seen: set[type] = set()
    for root in (PipelineConfig, SegmentationConfig, MonocularConfig, Options, Preparation, SceneRun):
        _kinds(root, seen)
    return sorted(seen, key=lambda kind: f"{kind.__module__}.{kind.__name__}")


def _unbounded(hint: Any) -> bool:
    """Whether an annotation lets a number through that no bound looks at."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return not any(isinstance(held, Bound) for held in hint.__metadata__) and _unbounded(args[0])
    if origin in (typing.Union, types.UnionType, tuple):
        return any(_unbounded(arm) for arm in args)
    return hint in (int, float)


@pytest.mark.parametrize("kind", _all_kinds(), ids=lambda kind: kind.__name__)
def test_every_number_of_every_setting_has_a_bound(kind: type) -> None:
    hints = typing.get_type_hints(kind, include_extras=True)
    assert [field.name for field in fields(kind) if _unbounded(hints[field.name])] == []


VERBS = [*verbs.AERIAL.values(), *verbs.WALKS.values(), *verbs.DATASETS.values(), *verbs.PATCHES.values()]
VERBS += [*verbs.TILES.values(), *verbs.OTHERS.values()]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: f"{verb.__module__.rpartition('.')[2]}-{verb.__name__}")
def test_every_number_of_every_other_verb_has_a_bound(verb: Any) -> None:
    hints = typing.get_type_hints(verb, include_extras=True)
    assert [name for name, hint in hints.items() if _unbounded(hint)] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("update --out RUN --workers -1", "--workers -1: it must be from 0 to 1024."),
        ("update --out RUN --sequence.video.motion -1", "--sequence.video.motion -1.0: it must be above 0"),
        ("prepare AERIAL --out RUN --geometry.stereo.width 0", "--geometry.stereo.width 0: it must be from 16"),
        ("scaffold train --scaffold AERIAL --out RUN --iterations -5", "--iterations -5: it must be from 1"),
        ("scaffold check AERIAL --up 0 0 0", "--up (0.0, 0.0, 0.0): it must be a direction"),
        ("scaffold check AERIAL --ground-height nan", "--ground-height nan: it must be from"),
        ("town RUN --seed -1", "--seed -1: it must be from 0"),
        ("view RUN --port 70000", "--port 70000: it must be from 0 to 65535"),
        ("masks RUN --model AERIAL --longest 0", "--longest 0: it must be from 16"),
    ],
)
def test_the_command_says_it_in_one_line(
    words: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(tmp_path / word) if word in ("RUN", "AERIAL") else word for word in words.split()]
    assert main(given) == 2
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1 and told.startswith("skyanchor: --")
    assert list(tmp_path.iterdir()) == []
