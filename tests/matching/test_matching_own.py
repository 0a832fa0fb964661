"""A matcher of the user's own by the name of its class: from a file, from a module, refused with what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import own_matcher
import pytest

from skyanchor import pipeline
from skyanchor.errors import BackendError
from skyanchor.evaluation.ablations import matcher_variant
from skyanchor.matching import Own
from skyanchor.storage import codec

FILE = Path(own_matcher.__file__)


@pytest.mark.parametrize("where", [str(FILE), "own_matcher"])
def test_settings_reach_the_class(where: str) -> None:
    choice = Own(f"{where}:Mine", keypoints=321, longest=654)
    choice.check()
    assert choice.load("cpu").key.startswith("sift 321 654")
    assert codec.from_json(Own, codec.to_json(choice)) == choice


def test_an_ablation_takes_it_by_name() -> None:
    variant = matcher_variant(f"own:{FILE}:Mine")
    held = variant.change(pipeline.CPU).anchors.refine.matcher
    assert held == replace(Own(f"{FILE}:Mine"), longest=pipeline.CPU.anchors.refine.matcher.longest)
    variant.check()


def test_what_is_no_matcher_is_told(tmp_path: Path) -> None:
    (tmp_path / "needy.py").write_text("import unheard_of")
    told = {
        "mine": "names no matcher. Give package.module:Class",
        f"{tmp_path / 'gone.py'}:Mine": "does not exist. Give the file",
        f"{tmp_path / 'needy.py'}:Mine": "needy.py is here, but unheard_of, which it needs, is not",
        f"{FILE}:Yours": "has no Yours. Give the name of a class",
        f"{FILE}:Half": "loads no matcher: it has no key, extract",
        "unheard_of:Mine": "unheard_of is not installed. Install it: put it on PYTHONPATH",
    }
    for target, text in told.items():
        with pytest.raises(BackendError) as error:
            Own(target).check()
        assert text in str(error.value)
