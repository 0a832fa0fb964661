"""`skyanchor patch`: files that are not there and endings that are not known."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from skyanchor.cli.main import main
from skyanchor.gaussians.ply import write_ply
from skyanchor.gaussians.seeding import splats_from_points


@pytest.fixture
def ply(tmp_path: Path) -> Path:
    points = np.random.default_rng(0).normal(size=(20, 3))
    write_ply(tmp_path / "a.ply", splats_from_points(points, np.zeros((20, 3), np.uint8), sh_degree=0))
    return tmp_path / "a.ply"


@pytest.mark.parametrize("words", [("list",), ("export", "--out", "x.ply"), ("apply", "p.npz", "--out", "x.ply")])
def test_a_file_that_is_not_there_is_one_line(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["patch", words[0], str(tmp_path / "none.ply"), *words[1:]]) == 2
    assert capsys.readouterr().err.startswith(f"skyanchor: {tmp_path / 'none.ply'}: is no file.")


def test_the_ending_says_what_is_written(ply: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["patch", "export", str(ply), "--out", str(tmp_path / "b.ply")]) == 0
    assert main(["patch", "export", str(ply), "--out", str(tmp_path / "b.splat")]) == 0
    assert main(["patch", "export", str(ply), "--out", str(tmp_path / "b.spz")]) == 0
    assert gzip.decompress((tmp_path / "b.spz").read_bytes())[:4] == b"NGSP"
    assert (tmp_path / "b.ply").read_bytes()[:3] == b"ply" and (tmp_path / "b.splat").stat().st_size == 20 * 32
    capsys.readouterr()
    for ending in ("b.ksplat", "b"):
        assert main(["patch", "export", str(ply), "--out", str(tmp_path / ending)]) == 2
        assert "cannot be written" in capsys.readouterr().err and not (tmp_path / ending).exists()
