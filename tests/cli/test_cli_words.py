"""Words of a command that cannot be: one line that names them, whatever the verb."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import pytest

from skyanchor.cli import words
from skyanchor.cli.main import FAMILIES, OTHERS, main
from skyanchor.cli.options import Options
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
        (("ablate", "RUN", "--truth", "T", "--stages", "a", "b"), "b says nothing here: --stages takes one word, with"),
        (("ablate", "RUN", "--stages", "a", "b", "--truth", "T"), "with commas in it. Did you mean --stages a,b? `sky"),
        (("ablate", "RUN", "--truth", "T", "--only=a,", "b", "c,", "--redo"), "Did you mean --only a,b,c?"),
        (("ablate", "--stages", "a", "b", "RUN", "--truth", "T"), "Did you mean --stages a,b?"),
        (("ablate", "RUN", "--matchers", "a", "--descriptors", "b", "c"), "--descriptors b,c? --truth MODEL is"),
        (("ablate", "a", "RUN", "--stages", "b", "--truth", "T"), "RUN says nothing here. `skyanchor ablate --help`"),
        (("dataset", "folder", "J", "--aerial", "a/*", "b/*", "--ground", "c", "--out", "D"), "mean --aerial a/*,b/*?"),
        (("dataset", "alog", "J", "--drop", "a", "b", "--out", "D"), "Did you mean --drop a,b?"),
        (("dataset", "folder", "J", "--segments", "a:b", "c:d"), "Did you mean --segments a:b,c:d?"),
        (("update", *RUN, "--near", "120", "-35", "60"), "Did you mean --near 120,-35,60?"),
        (("update", *RUN, "--camera", "PINHOLE", "900", "900"), "Did you mean --camera PINHOLE,900,900?"),
        (("walk", "check", "W", "--camera", "PINHOLE", "9"), "Did you mean --camera PINHOLE,9?"),
        (("update", *RUN, "--ground", "A", "B"), "B says nothing here. `skyanchor update --help`"),
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


def test_every_option_with_commas_is_marked_as_one() -> None:
    """What its help says of it is what it takes: words apart are told to be one."""
    verbs = [*OTHERS.values(), *(verb for family in FAMILIES.values() for verb in family.values())]
    for verb in verbs:
        said = re.findall(r"^ {8}(\w+): (.*(?:\n {12}.*)*)", str(verb.__doc__), re.MULTILINE)
        lists = {f"--{name}" for name, text in said if re.search(r"with commas|\w,[\w<]", text)}
        assert lists <= set(words.with_commas(verb)), verb
    assert {"--stages", "--matchers", "--descriptors", "--only"} == set(words.with_commas(OTHERS["ablate"]))
    assert set(words.with_commas(Options)) == {"--near", "--camera"}


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
