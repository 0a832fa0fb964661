"""The scene folder: same bytes for any thread count, true to its own geometry, whole or absent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numba
import numpy as np
import pycolmap
import pytest
from PIL import Image

from skyanchor.errors import InputError
from skyanchor.evaluation.true_depth import read_true_depths
from skyanchor.events import Event, Progress
from skyanchor.geometry import cameras, colmap, rigid
from skyanchor.photos import read_pixels
from skyanchor.scaffold import colmap_files
from skyanchor.scaffold.colmap_model import NO_POINT
from skyanchor.town import PRESETS, Epoch, Town, TownPreset, build_town, build_walks, render_depth
from skyanchor.town.build import DEPTH_UNIT, _write_depth, depth_unit, half_camera
from skyanchor.town.routes import Shot, flight_camera
from skyanchor.types import Pose


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def pose_of(image: pycolmap.Image) -> Pose:
    matrix = image.cam_from_world().matrix()
    return Pose(matrix[:, :3].copy(), matrix[:, 3].copy())


def test_same_bytes_with_another_thread_count(tiny_scene: Path, tiny: TownPreset, tmp_path: Path) -> None:
    before = numba.get_num_threads()
    numba.set_num_threads(1 if before > 1 else before)
    try:
        build_town(tmp_path / "again", tiny)
    finally:
        numba.set_num_threads(before)
    first, second = contents(tiny_scene), contents(tmp_path / "again")
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def test_layout_is_what_a_user_brings(tiny_scene: Path, tiny: TownPreset) -> None:
    assert {path.name for path in tiny_scene.iterdir()} == {
        *("aerial", "ground", "ground2", "truth_aerial_depth", "scene.json", "README.md"),
    }
    record = json.loads((tiny_scene / "scene.json").read_text())
    for folder, model, count in (
        ("aerial", "sparse", record["aerial"]["images"]),
        ("ground", "truth", tiny.walk.frames),
        ("ground2", "truth", 3),
    ):
        reconstruction = pycolmap.Reconstruction(tiny_scene / folder / model)
        photos = {path.name for path in (tiny_scene / folder / "images").iterdir()}
        assert {image.name for image in reconstruction.images.values()} == photos
        assert len(photos) == count
        camera = reconstruction.cameras[1]
        assert camera.model.name == "PINHOLE"
        pixels = read_pixels(tiny_scene / folder / "images" / min(photos))
        assert pixels.shape == (camera.height, camera.width, 3)
        assert 40.0 < pixels.mean() < 200.0
        assert pixels.std() > 15.0
    assert record["aerial"]["points"] == pycolmap.Reconstruction(tiny_scene / "aerial" / "sparse").num_points3D()


def test_depth_files_are_the_renderers(tiny_scene: Path, tiny_town: Town) -> None:
    model = pycolmap.Reconstruction(tiny_scene / "aerial" / "sparse")
    by_name = {image.name: image for image in model.images.values()}
    files = sorted((tiny_scene / "truth_aerial_depth").iterdir())
    assert len(files) == 3
    camera = half_camera(colmap.from_camera(model.cameras[1]))
    stored = np.asarray(Image.open(files[0])).astype(np.float64) * DEPTH_UNIT
    depth = render_depth(tiny_town, camera, pose_of(by_name[files[0].stem + ".jpg"]), Epoch.AERIAL)
    shown = depth < 131.0
    assert shown.mean() > 0.5
    # poses pass through a quaternion: equal to a unit, but for the odd pixel that an edge runs through
    assert np.mean(np.abs(stored - depth)[shown] <= 0.6 * DEPTH_UNIT) > 0.999


def test_depth_of_a_high_flight_reaches_all_that_it_shows(tmp_path: Path, tiny_town: Town) -> None:
    high = replace(PRESETS["city"].flight, width=64, height=48, focal=60.0)
    assert depth_unit(PRESETS["mini"].flight) == DEPTH_UNIT and depth_unit(high) == 2 * DEPTH_UNIT
    turn, eye = np.diag([1.0, -1.0, -1.0]), np.array([20.0, 20.0, 180.0])
    down = Pose(turn, -turn @ eye)
    camera = half_camera(flight_camera(high))
    _write_depth(tmp_path, tiny_town, camera, Shot("a.jpg", down), Epoch.AERIAL, depth_unit(high))
    found = read_true_depths(tmp_path, {"a.jpg": (flight_camera(high), down)})[0].depth
    depth = render_depth(tiny_town, camera, down, Epoch.AERIAL)
    assert depth.min() > 131.0
    assert np.abs(found - depth).max() <= 0.51 * depth_unit(high)


def test_points_lie_on_surfaces_and_tracks_are_real(tiny_scene: Path, tiny_town: Town) -> None:
    model = pycolmap.Reconstruction(tiny_scene / "aerial" / "sparse")
    assert model.num_points3D() > 200
    camera = colmap.from_camera(model.cameras[1])
    depths = {k: render_depth(tiny_town, camera, pose_of(im), Epoch.AERIAL) for k, im in list(model.images.items())[:4]}
    gaps, errors = [], []
    for point in model.points3D.values():
        views = [element.image_id for element in point.track.elements]
        assert len(set(views)) == len(views) >= 2
        for element in point.track.elements:
            if element.image_id in depths:
                image = model.images[element.image_id]
                in_cam = image.cam_from_world() * point.xyz
                xy = image.points2D[element.point2D_idx].xy
                errors.append(np.linalg.norm(cameras.project(camera, in_cam[None])[0] - xy))
                column, row = np.clip(xy.astype(int), 0, [camera.width - 1, camera.height - 1])
                gaps.append(abs(in_cam[2] - depths[element.image_id][row, column]))
    assert 0.02 < np.median(errors) < 0.8  # measured, not written from the truth
    # 0.2 px over a base of 10 m from 50 m with a focal length of 310 px: 50² * 0.2 / (10 * 310) = 0.16 m
    assert np.median(gaps) < 0.3
    assert np.mean(np.array(gaps) < 1.0) > 0.85


def test_every_observation_is_of_its_point_to_a_pixel(tiny_scene: Path) -> None:
    model = colmap_files.read_model(tiny_scene / "aerial" / "sparse")
    xyz = dict(zip(model.points.ids.tolist(), model.points.xyz, strict=True))
    errors = []
    for image in model.images:
        seen = image.point_ids != NO_POINT
        points = np.array([xyz[int(k)] for k in image.point_ids[seen]]).reshape(-1, 3)
        pose = Pose(rigid.rotation_from_quaternion(image.quaternion), image.translation)
        projected = cameras.project(model.cameras[image.camera_id], pose(points))
        errors.append(np.linalg.norm(projected - image.xy[seen], axis=1))
    held = np.concatenate(errors)
    assert len(held) == len(model.points.track_keypoints) > 800
    assert np.mean(held < 1.0) > 0.9 and held.max() < 5.0 and np.median(held) > 0.01


def test_walks_alone_are_those_of_the_scene(tiny_scene: Path, tiny: TownPreset, tmp_path: Path) -> None:
    build_walks(tmp_path / "walks", tiny, first=2)
    alone, whole = contents(tmp_path / "walks"), contents(tiny_scene)
    photos = {name for name in alone if name.endswith(".jpg")}
    assert photos == {f"{walk}/images/{walk}_{k:04d}.jpg" for walk in ("ground", "ground2") for k in (0, 1)}
    assert all(alone[name] == whole[name] for name in photos)


def test_refuses_a_folder_in_use(tiny: TownPreset, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(InputError, match="not an empty folder"):
        build_town(tmp_path, tiny)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_interrupted_build_leaves_no_scene(tiny: TownPreset, tmp_path: Path) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, Progress):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_town(tmp_path / "scene", tiny, listen=stop)
    assert list(tmp_path.iterdir()) == []


def test_presets_are_named() -> None:
    assert set(PRESETS) == {"mini", "town", "city", "hard-1", "hard-2", "hard-3", "hard-4"}
    assert all(name == preset.name for name, preset in PRESETS.items())
