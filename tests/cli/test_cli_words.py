"""Words of a command that cannot be: one line that names them, whatever the verb."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from skyanchor.cli import words
from skyanchor.cli.main import main
from skyanchor.errors import SkyAnchorError

RUN = ("--out", "RUN")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("udpate",), "udpate says nothing here. Did you mean update? `skyanchor --help`"),
        (("patch", "aply"), "aply says nothing here. Did you mean apply?"),
        (("patch",), "There are apply, remove, list, export."),
        (("patch", "apply", "a.ply"), "PATCH, --out PLY are missing. `skyanchor patch apply --help`"),
        (("evaluate",), "--truth MODEL is missing"),
        (("mesh", "RUN", "--voxle", "1"), "--voxle says nothing here. Did you mean --voxel? `skyanchor mesh --help`"),
        (("mesh", "RUN", "--voxel", "fine"), "--voxel 'fine': that is no number."),
        (("town", "OUT", "--seed", "1.5"), "--seed '1.5': that is no whole number."),
        (("scaffold", "check", "A", "--up", "0", "1"), "--up takes X Y Z."),
        (("update", *RUN, "--preset", "best"), "--preset best: there are auto, cpu, gpu, paper."),
        (("update", *RUN, "--workers"), "--workers N: a value is missing."),
        (("update", "AERIAL", "WALK"), "AERIAL says nothing here. --out RUN is missing."),
        (("update", *RUN, "--geometry.stereo.widht", "9"), "Did you mean --geometry.stereo.width?"),
        (("update", *RUN, "anchors.refine.matcher:sfit"), "anchors.refine.matcher:sfit is no choice"),
        (("update", "anchors.refine.matcher:sift", *RUN), "--out stands after a choice: what is chosen with a colon"),
        (("update", *RUN, "—ground", "WALK"), "—ground says nothing here. Did you mean --ground?"),
        (("update", *RUN, "--out", "OTHER"), "--out is given twice, with RUN and OTHER."),
        (("update", *RUN, "--onto", "A", "--onto=B"), "--onto is given twice, with A and B."),
        (("update", "--out", "run\udcff"), "is no text in UTF-8."),
        (("merge", "A", "B", "--out", "X", "--out", "Y"), "--out is given twice, with X and Y."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_words_that_cannot_be_are_one_line(
    given: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(given) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1 and captured.err.startswith("skyanchor: ")
    assert said in captured.err


def test_an_option_that_is_given_twice_alike_is_one() -> None:
    words.refuse_twice(["--redo", "--out", "a", "--redo", "--out=a"])
    with pytest.raises(SkyAnchorError, match="given twice"):
        words.refuse_twice(["--size_m", "1", "--size-m", "2"])
    words.refuse_twice([])


@pytest.mark.parametrize("name", words.NEEDED)
def test_without_that_part_of_tyro_its_boxes_are_shown(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A newer tyro may call it otherwise: no command may end for that."""
    assert words.parsing is not None
    lacking = {one: getattr(words.parsing, one) for one in words.NEEDED if one != name}
    monkeypatch.setitem(sys.modules, "tyro._errors", SimpleNamespace(**lacking))
    monkeypatch.setattr(words, "parsing", words.parsing_of_tyro())
    with pytest.raises(SystemExit) as ended:
        main(["patch"])
    assert ended.value.code == 2 and "apply" in capsys.readouterr().err
