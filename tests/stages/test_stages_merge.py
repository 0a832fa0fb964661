"""The flight and two walks as one COLMAP model: aerial part as it came, every walk under its own name."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import paper_street
import pytest
from report_run import FRAMES, street_points
from test_stages_earlier import located, scene

import skyanchor
from skyanchor.errors import InputError
from skyanchor.geometry import rigid
from skyanchor.scaffold import colmap_files, georeference
from skyanchor.stages.merge import NETWORK, NetworkRecord, merge
from skyanchor.storage import files
from skyanchor.trajectory.network import NetworkConfig
from skyanchor.types import Georeference

__all__ = ["scene"]


def test_flight_and_walks_in_one_model(scene: Path, tmp_path: Path) -> None:
    runs = tuple(located(scene, tmp_path / name) for name in ("june", "july"))
    merged = merge(runs, tmp_path / "all")
    assert merged.walks == ("june", "july") and merged.photos == 2 * FRAMES
    flight = colmap_files.read_model(scene / "aerial/sparse")
    whole = colmap_files.read_model(tmp_path / "all/sparse")
    names = [image.name for image in whole.images]
    assert names[: len(flight.images)] == [image.name for image in flight.images]
    assert names[len(flight.images) :] == [f"{run}/g{k:03}.png" for run in ("june", "july") for k in range(FRAMES)]
    for a, b in zip(flight.images, whole.images, strict=False):
        np.testing.assert_array_equal(a.translation, b.translation)
    own = street_points()
    assert merged.points == 2 * len(own.points) == len(whole.points.ids) - len(flight.points.ids)
    last = whole.images[-1]
    np.testing.assert_allclose(last.translation, paper_street.walk(FRAMES)[-1].translation, atol=1e-9)
    seen = whole.points.xyz[np.searchsorted(whole.points.ids, last.point_ids)]
    turned = rigid.rotation_from_quaternion(last.quaternion)
    in_cam = seen @ turned.T + last.translation
    pixels = in_cam[:, :2] / in_cam[:, 2:] * 230.0 + [160.0, 90.0]
    np.testing.assert_allclose(pixels, last.xy, atol=1e-6)


def test_every_walk_has_its_trajectory_and_its_photos(scene: Path, tmp_path: Path) -> None:
    runs = tuple(located(scene, tmp_path / name / "run") for name in ("a", "b"))
    killed = subprocess.Popen([sys.executable, "-c", ""])
    killed.wait()
    half = tmp_path / f".all.{killed.pid}.skyanchor.tmp"
    half.mkdir()
    assert skyanchor.merge([skyanchor.open_run(runs[0]), str(runs[1])], tmp_path / "all").walks == ("run-1", "run-2")
    tums = [(tmp_path / f"all/trajectories/run-{k}.tum").read_text() for k in (1, 2)]
    assert tums[0] == tums[1] and len(tums[0].splitlines()) == FRAMES + 1
    lines = [line.split("\t") for line in (tmp_path / "all/photos.txt").read_text().splitlines()]
    assert len(lines) == 2 * FRAMES and lines[0][0] == "run-1/g000.png"
    assert all(Path(path).is_file() for _, path in lines)
    assert not half.exists(), "what a merge that was killed left"


def test_walks_on_a_georeferenced_flight_are_on_the_map(scene: Path, tmp_path: Path) -> None:
    """The flight's coordinates are the user's, and its place on Earth goes with the model and every trajectory."""
    other = tmp_path / "scene"
    shutil.copytree(scene, other)
    georef = Georeference(np.zeros(3), enu_origin=(48.1, 11.5, 500.0))
    georeference.write_georef(other / "aerial/sparse", georef)
    merge(tuple(located(other, tmp_path / name) for name in ("june", "july")), tmp_path / "all")
    for name in ("june", "july"):
        path, *frames = json.loads((tmp_path / f"all/trajectories/{name}.geojson").read_text())["features"]
        assert path["geometry"]["coordinates"][0][:2] == pytest.approx((11.5, 48.1), abs=0.01)
        assert len(frames) == FRAMES
    assert georeference.read_georef(tmp_path / "all/sparse/georef.json").georef.enu_origin == georef.enu_origin


def test_what_cannot_be_merged_is_refused(scene: Path, tmp_path: Path) -> None:
    run = located(scene, tmp_path / "run")
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine.txt").write_text("keep")
    with pytest.raises(InputError, match="is not an empty folder"):
        merge((run,), full)
    (tmp_path / "same").symlink_to(run)
    for again in (run, tmp_path / "same", tmp_path / "full/../run"):
        with pytest.raises(InputError, match="is given twice"):
            merge((run, again), tmp_path / "all")
    other = tmp_path / "scene"
    shutil.copytree(scene, other)
    shutil.copy(other / "aerial/images/a000.png", other / "aerial/images/a001.png")
    with pytest.raises(InputError, match="stands on another aerial model"):
        merge((run, located(other, tmp_path / "foreign")), tmp_path / "all")
    assert not (tmp_path / "all").exists() and (full / "mine.txt").read_text() == "keep"


def test_walks_are_adjusted_together_on_request_and_the_runs_stay(scene: Path, tmp_path: Path) -> None:
    runs = tuple(located(scene, tmp_path / name) for name in ("june", "july"))
    before = [(run / "3-trajectory/trajectory.json").read_bytes() for run in runs]
    merged = skyanchor.merge(runs, tmp_path / "all", NetworkConfig())
    assert [one.name for one in merged.network] == ["june", "july"]
    held = files.load(tmp_path / f"all/{NETWORK}", NetworkRecord)
    assert held.walks == merged.network
    assert before == [(run / "3-trajectory/trajectory.json").read_bytes() for run in runs]
    assert not skyanchor.merge(runs, tmp_path / "apart").network and not (tmp_path / f"apart/{NETWORK}").exists()
