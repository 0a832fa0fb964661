"""How fine the depth of a flight is measured."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from box_world import eyes

from skyanchor.events import silent
from skyanchor.geometry import cameras
from skyanchor.stages import scaffold
from skyanchor.stages.scaffold import (
    PHOTO_BYTES,
    PHOTOS,
    PHOTOS_HELD,
    SMALLEST_DEPTH,
    UNSAMPLED_DEPTH,
    GeometryConfig,
    depth_megapixels,
    depth_width,
    photo_room,
)
from skyanchor.stereo import StereoConfig
from skyanchor.storage import codec
from skyanchor.types import Tracks, View


def flight(width: int, focal_over_width: float = 1.0) -> SimpleNamespace:
    """Eight photos from 20 m over level ground, without tracks."""
    camera = cameras.pinhole(width, width * 3 // 4, focal_over_width * width)
    views = tuple(View(f"{k}.jpg", Path(f"{k}.jpg"), camera, pose) for k, pose in enumerate(eyes(8)))
    x, y = np.meshgrid(np.linspace(-5, 5, 21), np.linspace(-5, 5, 21))
    none = np.empty(0, np.int64)
    points = np.stack([x.ravel(), y.ravel(), np.zeros(x.size)], axis=1)
    return SimpleNamespace(views=views, points=points, tracks=Tracks(none, none, np.empty((0, 2))))


@pytest.mark.parametrize("width", [1200, 4800])
def test_it_follows_the_ground_and_not_the_photos(width: int) -> None:
    asked = GeometryConfig(sample_m=0.05, stereo=StereoConfig(width=10_000))
    assert depth_width(flight(width), asked) == pytest.approx(20.5 / 0.05, rel=0.06)


def test_it_has_bounds() -> None:
    assert depth_width(flight(1200), GeometryConfig(sample_m=0.001)) == StereoConfig().width
    assert depth_width(flight(1200), GeometryConfig(sample_m=0.0)) == StereoConfig().width
    assert depth_width(flight(1200), GeometryConfig(sample_m=5.0)) == SMALLEST_DEPTH
    nothing_seen = flight(1200)
    nothing_seen.points = nothing_seen.points[:0]
    assert depth_width(nothing_seen, GeometryConfig()) == UNSAMPLED_DEPTH


def test_the_photos_that_are_kept_go_by_their_size() -> None:
    """Forty at both sizes, 1280 and 640 px wide here; no more than half a gigabyte of larger ones."""
    photo, config = cameras.pinhole(2400, 1800, 2000.0), StereoConfig(width=640)
    assert photo_room(photo, config) == PHOTOS_HELD * 3 * (1280 * 960 + 640 * 480)
    assert photo_room(cameras.pinhole(800, 600, 700.0), config) == PHOTOS_HELD * 3 * (800 * 600 + 640 * 480)
    assert photo_room(cameras.pinhole(8000, 6000, 7000.0), StereoConfig(width=1600)) == PHOTO_BYTES


def test_a_job_makes_that_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before it reads any photo."""
    held, config = flight(1200), StereoConfig(width=320)
    held.ground, rooms = None, []
    monkeypatch.setattr(scaffold, "load_scaffold_file", lambda _: held)
    monkeypatch.setattr(scaffold, "estimate_depth", lambda *given: rooms.append(given[3].limit_bytes))
    monkeypatch.setattr(scaffold, "save_depth", lambda *_, **__: None)
    monkeypatch.setattr(PHOTOS, "limit_bytes", 1)
    scaffold.measure_depth_job(str(tmp_path / "a.npz"), "", 0, [1], codec.to_json(config), silent)
    assert rooms == [photo_room(held.views[0].camera, config)]


def test_the_work_is_told_by_the_pixels_of_all_depth() -> None:
    """Photos of 1200 pixels that show 20.5 m, at 5 cm: 416 by 312 each; none is wider than its photo."""
    few, config = flight(1200), GeometryConfig(sample_m=0.05)
    width, shape = depth_width(few, config), few.views[0].camera.height / few.views[0].camera.width
    assert depth_megapixels(few, config) == pytest.approx(len(few.views) * width**2 * shape / 1e6)
    coarse = depth_megapixels(flight(300), GeometryConfig(sample_m=0.001))
    assert coarse == pytest.approx(sum(v.camera.width * v.camera.height for v in flight(300).views) / 1e6)
