"""Exports read back: TUM, GeoJSON, COLMAP models with the aerial part unchanged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pycolmap
import pytest
from trajectory_world import CAMERA, sequence_of, street

from skyanchor.errors import InputError
from skyanchor.geometry import cameras, colmap, rigid
from skyanchor.scaffold import colmap_files, load_scaffold
from skyanchor.trajectory import export
from skyanchor.types import Georeference, Pose, PosedFrame, Reason, Refusal, Sequence, Support, Tracks, Trajectory

KML = "{http://www.opengis.net/kml/2.2}"


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
    sure = frames[0]["properties"]
    assert sure["radius_95_m"] == pytest.approx(2.795 * sure["sigma_m"], abs=3e-4)
    names = [frame.name for frame in sequence.frames]
    kml = ElementTree.fromstring(export.frames_kml(trajectory.frames, ["<&>", *names[1:]], georef))
    whole, first, *_ = kml.iter(f"{KML}Placemark")
    spots = whole.find(f".//{KML}coordinates").text.split()
    assert len(spots) == 13 and [float(v) for v in spots[0].split(",")] == pytest.approx([lon, lat], abs=1e-9)
    assert first.find(f"{KML}name").text == "<&>"
    there = np.array([frames[-1]["geometry"]["coordinates"][:2], frames[0]["geometry"]["coordinates"][:2]])
    metres = np.diff(there, axis=0)[0] * 111_320 * np.array([np.cos(np.radians(lat)), 1.0])
    ends = [rigid.centre_in_world(trajectory.frames[k].cam_from_world) for k in (0, 13)]
    assert np.linalg.norm(metres) == pytest.approx(np.linalg.norm((ends[1] - ends[0])[:2]), rel=0.02)


def test_paths_end_at_cuts(found):
    sequence, trajectory = found
    georef = Georeference(np.zeros(3), enu_origin=(48.1, 11.5, 500.0))
    cut = replace(sequence, cuts=(5, 13))  # one frame alone after the second
    features = json.loads(export.geojson_text(trajectory, cut, georef))["features"]
    lines = [f["geometry"]["coordinates"] for f in features if f["geometry"]["type"] == "LineString"]
    assert [len(line) for line in lines] == [4, 8] and len(features) == 2 + 13  # frame 2 has no pose
    names = [frame.name for frame in sequence.frames]
    kml = ElementTree.fromstring(export.frames_kml(trajectory.frames, names, georef, cut.cuts))
    paths = [path.find(f".//{KML}coordinates").text.split() for path in kml.iter(f"{KML}LineString")]
    assert [len(path) for path in paths] == [4, 8]


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
    street = export.write_street_model(tmp_path / "street", scaffold, sequence, trajectory)
    street_model = pycolmap.Reconstruction(str(street))
    assert street_model.num_images() == 13 and street_model.num_points3D() == 2
    merged = pycolmap.Reconstruction(str(export.write_merged_model(tmp_path / "both", scaffold, sequence, trajectory)))
    before = pycolmap.Reconstruction(str(tmp_path / "aerial" / "sparse"))
    assert merged.num_images() == 17 and merged.num_points3D() == 42
    for image_id, image in before.images.items():
        same = merged.images[image_id]
        assert same.name == image.name
        assert np.array_equal(same.cam_from_world().matrix(), image.cam_from_world().matrix())
    frame = next(image for image in merged.images.values() if image.name == "0003.jpg")
    pose = trajectory.frames[3].cam_from_world
    assert np.allclose(frame.cam_from_world().matrix(), np.c_[pose.rotation, pose.translation], atol=1e-9)


def rigged_model(folder: Path, text: bool) -> Path:
    """Two aerial cameras on one rig, three moments of it; the second camera looks a little aside."""
    model = pycolmap.Reconstruction()
    for camera_id in (3, 4):
        model.add_camera(colmap.to_camera(cameras.pinhole(64, 48, 50.0), camera_id))
    aside = Pose(rigid.rotation_exp(np.array([0.0, 0.2, 0.0])), np.array([0.3, 0.0, 0.1]))
    rig = pycolmap.Rig(rig_id=6)
    rig.add_ref_sensor(sensor(3))
    rig.add_sensor(sensor(4), colmap.to_rigid3d(aside))
    model.add_rig(rig)
    (folder / "images").mkdir(parents=True)
    for k in range(3):
        eye = np.array([6.0 * k - 9.0, 2.0 * (k % 2), 40.0])
        pose = rigid.look_at(eye, eye - np.array([0.0, 0.0, 40.0]), np.array([0.0, 1.0, 0.0]))
        frame = pycolmap.Frame(frame_id=20 + k, rig_id=6)
        for camera_id in (3, 4):
            frame.add_data_id(pycolmap.data_t(sensor(camera_id), 10 * camera_id + k))
        frame.rig_from_world = colmap.to_rigid3d(pose)
        model.add_frame(frame)
        for camera_id in (3, 4):
            image = pycolmap.Image(
                name=f"{camera_id}-{k}.png",
                keypoints=np.full((40, 2), 20.0),
                camera_id=camera_id,
                image_id=10 * camera_id + k,
            )
            image.frame_id = 20 + k
            model.add_image(image)
            pycolmap.Bitmap.from_array(np.full((48, 64, 3), 90, np.uint8)).write(str(folder / "images" / image.name))
        model.register_frame(20 + k)
    rng = np.random.default_rng(0)
    for p in range(40):
        track = pycolmap.Track()
        for k in range(3):
            track.add_element(30 + k, p)
        model.add_point3D(np.array([*rng.uniform(-20, 20, 2), 0.0]), track)
    (folder / "sparse").mkdir()
    (model.write_text if text else model.write_binary)(str(folder / "sparse"))
    return folder


def sensor(camera_id: int) -> pycolmap.sensor_t:
    return pycolmap.sensor_t(pycolmap.SensorType.CAMERA, camera_id)


def rows(matrix: pycolmap.Rigid3d) -> np.ndarray:
    return np.asarray(matrix.matrix())


@pytest.mark.parametrize("text", [False, True], ids=["binary", "text"])
def test_a_merged_model_keeps_the_rigs_of_the_flight(found, tmp_path, text):
    sequence, trajectory = found
    aerial = rigged_model(tmp_path / "aerial", text)
    scaffold = load_scaffold(aerial)
    written = export.write_merged_model(tmp_path / "both", scaffold, sequence, trajectory)
    before, merged = (pycolmap.Reconstruction(str(path)) for path in (aerial / "sparse", written))
    assert merged.num_images() == 6 + 13 and merged.num_frames() == 3 + 13 and merged.num_rigs() == 1 + 1
    rig, same = before.rigs[6], merged.rigs[6]
    assert same.is_ref_sensor(sensor(3)) and same.num_sensors() == 2
    assert np.array_equal(rows(same.sensor_from_rig(sensor(4))), rows(rig.sensor_from_rig(sensor(4))))
    for frame_id, frame in before.frames.items():
        again = merged.frames[frame_id]
        assert again.rig_id == 6
        assert np.array_equal(rows(again.rig_from_world), rows(frame.rig_from_world))
        assert {d.id for d in again.data_ids} == {d.id for d in frame.data_ids}
    for image_id, image in before.images.items():
        assert np.array_equal(rows(merged.images[image_id].cam_from_world()), rows(image.cam_from_world()))
    street = [image for image in merged.images.values() if image.image_id not in before.images]
    assert {merged.rigs[merged.frames[image.frame_id].rig_id].num_sensors() for image in street} == {1}
    for image in street:
        pose = trajectory.frames[int(Path(image.name).stem)].cam_from_world
        assert np.allclose(rows(image.cam_from_world()), np.c_[pose.rotation, pose.translation], atol=1e-9)


def test_the_aerial_files_of_rigs_come_back_byte_for_byte(tmp_path):
    sparse = rigged_model(tmp_path / "aerial", text=False) / "sparse"
    colmap_files.write_model(tmp_path / "again", colmap_files.read_model(sparse))
    for name in ("rigs.bin", "frames.bin"):
        assert (tmp_path / "again" / name).read_bytes() == (sparse / name).read_bytes()
    single = aerial_model(tmp_path / "single") / "sparse"
    for name in ("rigs.bin", "frames.bin"):
        (single / name).unlink()
    colmap_files.write_model(tmp_path / "again", colmap_files.read_model(single))
    assert not (tmp_path / "again" / "rigs.bin").exists() and not (tmp_path / "again" / "frames.bin").exists()


@pytest.mark.parametrize("name", ["rigs.bin", "frames.bin"])
def test_broken_files_of_rigs_are_named(tmp_path, name):
    sparse = rigged_model(tmp_path / "aerial", text=False) / "sparse"
    whole = (sparse / name).read_bytes()
    (sparse / name).write_bytes(whole[:-3])
    with pytest.raises(InputError, match=name):
        colmap_files.read_model(sparse)
    (sparse / name).unlink()
    with pytest.raises(InputError, match=f"{name}.*missing"):
        colmap_files.read_model(sparse)


def test_frames_of_another_model_are_seen(tmp_path):
    sparse = rigged_model(tmp_path / "aerial", text=False) / "sparse"
    other = aerial_model(tmp_path / "single") / "sparse"
    for name in ("rigs.bin", "frames.bin"):
        (sparse / name).write_bytes((other / name).read_bytes())
    with pytest.raises(InputError, match="no frame for image"):
        colmap_files.read_model(sparse)
