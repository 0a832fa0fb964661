"""Exports read back: TUM, GeoJSON, COLMAP models with the aerial part unchanged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pycolmap
import pytest
from trajectory_world import CAMERA, sequence_of, street

from skyanchor.geometry import rigid
from skyanchor.scaffold import load_scaffold
from skyanchor.trajectory import export
from skyanchor.types import Georeference, PosedFrame, Reason, Refusal, Sequence, Support, Tracks, Trajectory


@pytest.fixture
def found() -> tuple[Sequence, Trajectory]:
    """Four frames, one of them missing, and two points."""
    world = street(14)
    sequence = sequence_of(world)
    frames = [PosedFrame(k, Support.KEYFRAME, world.poses[k], 5, 0.01) for k in range(14)]
    frames[2] = PosedFrame(2, Support.MISSING, None, 0, float("nan"), Refusal(Reason.NOT_REACHED, "left out"))
    point, image = np.array([0, 0, 0, 1, 1]), np.array([0, 1, 3, 1, 3])
    tracks = Tracks(point, image, np.arange(10.0).reshape(5, 2))
    points = np.array([[5.0, 2.0, 1.0], [6.0, -2.0, 3.0]])
    colors = np.array([[1, 2, 3], [4, 5, 6]], np.uint8)
    return sequence, Trajectory(tuple(frames), CAMERA, points, colors, tracks)


def test_tum_gives_the_poses_back(found):
    _, trajectory = found
    georef = Georeference(np.array([1000.0, -2000.0, 0.0]))
    rows = np.loadtxt(export.tum_text(trajectory, georef).splitlines())
    assert rows[:, 0].astype(int).tolist() == [k for k in range(14) if k != 2]
    for row in rows:
        pose = trajectory.frames[int(row[0])].cam_from_world
        assert np.allclose(row[1:4] - georef.offset, rigid.centre_in_world(pose), atol=1e-6)
        turned = rigid.rotation_from_quaternion(np.roll(row[4:], 1))
        assert rigid.angle_between(turned, pose.rotation.T) < 1e-6


@pytest.mark.parametrize("crs", ["enu", "EPSG:32633", "EPSG:25833", None])
def test_geojson_where_the_place_is_known(found, crs):
    sequence, trajectory = found
    georef = Georeference(np.zeros(3))
    if crs == "enu":
        georef = replace(georef, enu_origin=(48.1, 11.5, 500.0))
    elif crs is not None:
        georef = Georeference(np.array([500000.0, 5300000.0, 0.0]), crs)
    text = export.geojson_text(trajectory, sequence, georef)
    if crs is None:
        assert text is None
        return
    document = json.loads(text)
    assert ("ellipsoid, if" if crs == "enu" else f"{crs} does not say") in document["heights"]
    path, *frames = document["features"]
    assert path["geometry"]["type"] == "LineString" and len(path["geometry"]["coordinates"]) == len(frames) == 13
    lon, lat, _ = frames[0]["geometry"]["coordinates"]
    expected = (11.5, 48.1) if crs == "enu" else (15.0, 47.85)
    assert (lon, lat) == pytest.approx(expected, abs=0.01)
    there = np.array([frames[-1]["geometry"]["coordinates"][:2], frames[0]["geometry"]["coordinates"][:2]])
    metres = np.diff(there, axis=0)[0] * 111_320 * np.array([np.cos(np.radians(lat)), 1.0])
    ends = [rigid.centre_in_world(trajectory.frames[k].cam_from_world) for k in (0, 13)]
    assert np.linalg.norm(metres) == pytest.approx(np.linalg.norm((ends[1] - ends[0])[:2]), rel=0.02)


def aerial_model(folder: Path) -> Path:
    """A small aerial model on disk, with photos."""
    model = pycolmap.Reconstruction()
    model.add_camera_with_trivial_rig(
        pycolmap.Camera(model="PINHOLE", width=64, height=48, params=[50, 50, 32, 24], camera_id=3)
    )
    rng = np.random.default_rng(0)
    points = np.c_[rng.uniform(-20, 20, (40, 2)), np.zeros(40)]
    (folder / "images").mkdir(parents=True)
    for k in range(4):
        eye = np.array([6.0 * k - 9.0, 2.0 * (k % 2), 40.0])
        pose = rigid.look_at(eye, eye - np.array([0.0, 0.0, 40.0]), np.array([0.0, 1.0, 0.0]))
        seen = pose(points)
        xy = seen[:, :2] / seen[:, 2:] * 50 + [32, 24]
        image = pycolmap.Image(name=f"a{k}.png", keypoints=xy, camera_id=3, image_id=10 + k)
        quaternion = np.roll(rigid.quaternion_from_rotation(pose.rotation), -1)
        model.add_image_with_trivial_frame(image, pycolmap.Rigid3d(pycolmap.Rotation3d(quaternion), pose.translation))
        pycolmap.Bitmap.from_array(np.full((48, 64, 3), 90, np.uint8)).write(str(folder / "images" / f"a{k}.png"))
    for p, xyz in enumerate(points):
        track = pycolmap.Track()
        for k in range(4):
            track.add_element(10 + k, p)
        model.add_point3D(xyz, track)
    (folder / "sparse").mkdir()
    model.write(str(folder / "sparse"))
    return folder


def test_models_hold_the_street_and_the_unchanged_scaffold(found, tmp_path):
    sequence, trajectory = found
    scaffold = load_scaffold(aerial_model(tmp_path / "aerial"))
    written = export.write_files(tmp_path / "out", scaffold, sequence, trajectory)
    assert all(path.exists() for path in written)
    street_model = pycolmap.Reconstruction(str(tmp_path / "out" / export.STREET_FOLDER))
    assert street_model.num_images() == 13 and street_model.num_points3D() == 2
    merged = pycolmap.Reconstruction(str(tmp_path / "out" / export.MERGED_FOLDER))
    before = pycolmap.Reconstruction(str(tmp_path / "aerial" / "sparse"))
    assert merged.num_images() == 17 and merged.num_points3D() == 42
    for image_id, image in before.images.items():
        same = merged.images[image_id]
        assert same.name == image.name
        assert np.array_equal(same.cam_from_world().matrix(), image.cam_from_world().matrix())
    frame = next(image for image in merged.images.values() if image.name == "0003.jpg")
    pose = trajectory.frames[3].cam_from_world
    assert np.allclose(frame.cam_from_world().matrix(), np.c_[pose.rotation, pose.translation], atol=1e-9)
