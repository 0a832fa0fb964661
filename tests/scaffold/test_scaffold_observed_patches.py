"""Photos of another flight under the names of the model's own are told by what they show around shared points."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from sequence_fixture import texture

from skyanchor.geometry import cameras
from skyanchor.scaffold import warnings_of
from skyanchor.scaffold.observed_patches import FEWEST, correlations, pairs, patches_alike
from skyanchor.scaffold.summary import LEAST_ALIKE
from skyanchor.types import Georeference, Plane, Pose, Scaffold, Tracks, View

CAMERA = cameras.pinhole(640, 480, 400.0)
HEIGHT_M, STEP_PX, COUNT = 50.0, 100, 6
DOWN = np.diag([1.0, -1.0, -1.0])
PIXEL_M = HEIGHT_M / 400.0
WARNING = "are these the photos that the model was made from?"


def fly(folder: Path, seed: int, light: float = 1.0, size: int = 1) -> None:
    """Photos of a flat ground from above, each a step further on."""
    folder.mkdir(exist_ok=True)
    ground = texture(seed, width=640 + STEP_PX * COUNT, height=480)
    for k in range(COUNT):
        photo = ground[:, STEP_PX * k : STEP_PX * k + 640] * (light if k % 2 else 1.0)
        large = cv2.resize(photo.astype(np.uint8), (640 * size, 480 * size), interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(folder / f"{k}.jpg"), large)


def flight(folder: Path, size: int = 1) -> Scaffold:
    """The model of such photos, with tracks."""
    rng = np.random.default_rng(1)
    ground_px = rng.uniform([20, 20], [620 + STEP_PX * (COUNT - 1), 460], (400, 2))
    points = np.column_stack([(ground_px - [320, 240]) * [PIXEL_M, -PIXEL_M], np.zeros(len(ground_px))])
    views, seen = [], []
    camera = cameras.scaled(CAMERA, 640 * size)
    for k in range(COUNT):
        centre = np.array([STEP_PX * k * PIXEL_M, 0.0, HEIGHT_M])
        view = View(f"{k}.jpg", folder / f"{k}.jpg", camera, Pose(DOWN, -DOWN @ centre), None, k)
        xy = cameras.project(camera, view.cam_from_world(points))
        inside = np.flatnonzero((xy[:, 0] > 20) & (xy[:, 0] < 640 * size - 20))
        views.append(view)
        seen.append((inside, np.full(len(inside), k), xy[inside]))
    tracks = Tracks(*(np.concatenate(parts) for parts in zip(*seen, strict=True)))
    ids = np.arange(len(points))
    colors, up = np.zeros((len(points), 3), np.uint8), np.array([0.0, 0.0, 1.0])
    place = Georeference(np.zeros(3))
    return Scaffold(folder, tuple(views), points, colors, ids, tracks, up, Plane(up, 0.0), place)


@pytest.mark.parametrize("size", [1, 3])
def test_photos_of_another_flight_are_told(tmp_path: Path, size: int) -> None:
    fly(tmp_path, seed=0, light=0.6, size=size)
    held = flight(tmp_path, size)
    assert len(pairs(held)) == 4 and patches_alike(held) > 0.95
    assert not any(WARNING in text for text in warnings_of(held))
    for k in range(COUNT):  # another flight of the same size over another place
        fly(tmp_path / "other", seed=k + 1, size=size)
        (tmp_path / "other" / f"{k}.jpg").replace(tmp_path / f"{k}.jpg")
    assert patches_alike(held) < 0.6 * LEAST_ALIKE
    assert sum(WARNING in text for text in warnings_of(held)) == 1


def test_photos_that_changed_names_are_told(tmp_path: Path) -> None:
    fly(tmp_path, seed=0)
    held = flight(tmp_path)
    views = tuple(replace(view, path=tmp_path / f"{(k + 1) % COUNT}.jpg") for k, view in enumerate(held.views))
    views = tuple(replace(view, path=held.views[COUNT - 1 - k].path) for k, view in enumerate(views))
    assert patches_alike(replace(held, views=views)) < 0.6 * LEAST_ALIKE


def test_a_few_photos_of_another_day_are_no_warning(tmp_path: Path) -> None:
    fly(tmp_path, seed=0)
    fly(tmp_path / "other", seed=1)
    (tmp_path / "other/0.jpg").replace(tmp_path / "0.jpg")
    assert patches_alike(flight(tmp_path)) > 0.95


def test_a_pair_turned_by_half_a_turn_shows_the_same(tmp_path: Path) -> None:
    """The next line of a flight is flown the other way."""
    fly(tmp_path, seed=0)
    held = flight(tmp_path)
    turn = np.diag([-1.0, -1.0, 1.0])
    image = cv2.imread(str(tmp_path / "1.jpg"))
    cv2.imwrite(str(tmp_path / "1.jpg"), image[::-1, ::-1])
    old = held.views[1].cam_from_world
    view = replace(held.views[1], cam_from_world=Pose(turn @ old.rotation, turn @ old.translation))
    xy = np.where((held.tracks.image == 1)[:, None], [640, 480] - held.tracks.xy, held.tracks.xy)
    turned = replace(held, views=(held.views[0], view, *held.views[2:]), tracks=replace(held.tracks, xy=xy))
    assert np.mean(correlations(turned, 0, 1) > 0.5) > 0.95


def test_what_tells_nothing_is_left_alone(tmp_path: Path) -> None:
    """No tracks, photos that are not there or show nothing, too few points."""
    held, none = flight(tmp_path), Tracks(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 2)))
    assert np.isnan(patches_alike(held)) and np.isnan(patches_alike(replace(held, tracks=none)))
    for k in range(COUNT):
        cv2.imwrite(str(tmp_path / f"{k}.jpg"), np.full((480, 640, 3), 90, np.uint8))
    assert np.isnan(patches_alike(held)) and not any(WARNING in text for text in warnings_of(held))
    fly(tmp_path, seed=0)
    few = held.tracks.point < FEWEST - 1
    sparse = Tracks(held.tracks.point[few], held.tracks.image[few], held.tracks.xy[few])
    assert np.isnan(patches_alike(replace(held, tracks=sparse)))
