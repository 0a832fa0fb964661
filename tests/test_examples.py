"""Every example runs on a run folder and says something true; without one it says how to call it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import report_run
from PIL import Image
from report_run import paper_street

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("[0-9]*.py"))
BY_NUMBER = {int(path.name[:2]): path for path in EXAMPLES}


def said(number: int, *words: object) -> str:
    """What an example prints."""
    command = [sys.executable, str(BY_NUMBER[number]), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("paper")
    paper_street.write_scene(root, report_run.FRAMES)
    return root


@pytest.fixture(scope="module")
def run(scene: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("run") / "walk"
    report_run.begin(scene, root)
    report_run.add_anchors(scene, root, (True, True))
    report_run.add_trajectory(root)
    report_run.add_scene(root)
    return root


def test_there_are_examples() -> None:
    assert list(BY_NUMBER) == list(range(1, 7))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_without_a_run_says_how_to_call_it(path: Path) -> None:
    assert f"python examples/{path.name} " in said(int(path.name[:2]))


def test_points_are_seen_where_the_pose_puts_them(run: Path) -> None:
    text = said(1, run)
    assert "half of them within 0.00 px" in text and "from the first photo to the last: 4.4" in text
    point = re.search(r"is \[ *([-\d.]+) +([-\d.]+) +([-\d.]+) *\] in the aerial frame", text)
    assert point is not None and float(point[2]) == pytest.approx(4.0, abs=1e-3), "on the left wall"


def test_every_matcher_finds_the_street(run: Path) -> None:
    found = re.findall(r"(\w+): (\d+) matches, (\d+)% right, these ([\d.]+) px off", said(2, run))
    assert [name for name, *_ in found] == ["Sift", "XFeat", "XFeatStar"]
    assert all(int(count) > 50 and int(right) > 50 and float(off) < 1.5 for _, count, right, off in found)


def test_the_patch_comes_off_and_goes_on(run: Path) -> None:
    text = said(3, run)
    assert text.count("identical") == 2 and "False" not in text and "added=9" in text


def test_a_run_is_read(scene: Path, run: Path, tmp_path: Path) -> None:
    text = said(4, run, scene / "ground/truth", tmp_path / "pair.png")
    assert "groups  2 of 2 accepted" in text and "RMS 0.000 m" in text and "48 Gaussians" in text
    assert Image.open(tmp_path / "pair.png").size == (640, 180)


def test_a_matcher_of_ones_own_takes_part(run: Path) -> None:
    text = said(5, run)
    agree = re.search(r"(\d+) matches; (\d+) agree with one pose", text)
    assert agree is not None and int(agree[2]) >= 30
    assert "05_own_matcher.py:Orb" in text.splitlines()[-1]
