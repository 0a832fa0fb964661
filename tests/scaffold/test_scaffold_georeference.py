"""Large coordinates: local inside, the user's own outside, to the millimetre and bit for bit where nothing changed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pycolmap
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from survey_fixture import GROUND, PINHOLE, UP, make_survey, write_survey

from skyanchor.cli import scaffold as cli
from skyanchor.errors import InputError
from skyanchor.geometry import crs, planes, rigid
from skyanchor.scaffold import ScaffoldConfig, colmap_files, describe, georeference, load_scaffold, write_back
from skyanchor.sequence import intrinsics
from skyanchor.sequence.intrinsics import Exif
from skyanchor.types import Georeference, Pose, Tracks, UpSource, View

UTM = np.array([432_123.4567, 5_212_345.6789, 512.25])


@settings(deadline=None, derandomize=True, database=None)
@given(st.floats(-9e6, 9e6), st.floats(-1e3, 1e3))
def test_moving_is_exact(centre: float, spread: float) -> None:
    original = np.array([[centre + spread, centre - spread, centre]])
    offset = georeference.local_offset(original)
    assert np.array_equal((original - offset) + offset, original)
    assert np.all(np.abs(original - offset) <= 1.1e4 + 2 * abs(spread))


def test_small_coordinates_stay() -> None:
    assert not np.any(georeference.local_offset(np.array([[500.0, -9000.0, 30.0]])))
    assert georeference.local_offset(np.array([UTM])).tolist() == [432_100.0, 5_212_300.0, 0.0]


def test_pose_round_trip_to_a_micrometre() -> None:
    pose = Pose(rigid.rotation_exp(np.array([0.3, 2.0, -1.0])), np.array([1.0, 2.0, 3.0]))
    back = georeference.to_local(georeference.to_original(pose, UTM), UTM)
    assert np.allclose(rigid.centre_in_world(back), rigid.centre_in_world(pose), atol=1e-6)


def test_utm_model_is_read_locally_with_z_up(tmp_path: Path) -> None:
    survey = make_survey(offset=UTM)
    scaffold = load_scaffold(write_survey(tmp_path, survey))
    assert scaffold.georef.offset.tolist() == [432_100.0, 5_212_400.0, 0.0]
    assert scaffold.up_source is UpSource.GEOREFERENCE and scaffold.up.tolist() == [0.0, 0.0, 1.0]
    assert np.abs(scaffold.points[:, :2]).max() < 200
    assert np.array_equal(scaffold.points + scaffold.georef.offset, survey.model.points.xyz)
    assert scaffold.ground.offset == pytest.approx(GROUND + UTM[2], abs=0.1)
    plain = make_survey()
    by_name = {image.name: image for image in plain.model.images}
    for view in scaffold.views:
        image = by_name[view.name]
        truth = rigid.centre_in_world(Pose(rigid.rotation_from_quaternion(image.quaternion), image.translation)) + UTM
        found = rigid.centre_in_world(view.cam_from_world) + scaffold.georef.offset
        assert np.allclose(found, truth, atol=1e-6)


def test_geocentric_coordinates_take_up_from_the_data(tmp_path: Path) -> None:
    turn = rigid.rotation_exp(np.array([0.0, 0.9, 0.3]))
    survey = make_survey(offset=np.array([4_000_000.0, 900_000.0, 4_800_000.0]), turn=turn)
    scaffold = load_scaffold(write_survey(tmp_path, survey))
    assert scaffold.up_source is UpSource.CAMERAS
    assert planes.angle_deg(scaffold.up, turn @ UP) < 1.0


def test_georef_file_round_trip(tmp_path: Path) -> None:
    georef = Georeference(UTM, "EPSG:32632", (47.1, 8.2, 400.0))
    path = georeference.write_georef(tmp_path, georef, np.array([0.0, 0.6, 0.8]))
    said = georeference.read_georef(path)
    assert np.array_equal(said.georef.offset, UTM) and said.georef.crs == "EPSG:32632"
    assert said.georef.enu_origin == (47.1, 8.2, 400.0)
    assert said.up is not None and np.allclose(said.up, [0.0, 0.6, 0.8])


@pytest.mark.parametrize("text", ["", "[1]", '{"offset": [1, 2]}', '{"offset": [1, 2, "x"]}', '{"up": [0, 0, 0]}'])
def test_bad_georef_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "georef.json").write_text(text)
    with pytest.raises(InputError, match=r"georef\.json: (cannot be understood|is no JSON)"):
        georeference.read_georef(tmp_path / "georef.json")


def test_own_output_is_read_again_in_the_same_place(tmp_path: Path) -> None:
    """A model written locally with its georef.json keeps the offset of the first reading."""
    write_survey(tmp_path, make_survey())
    georeference.write_georef(tmp_path / "sparse", Georeference(UTM, "EPSG:32632"))
    scaffold = load_scaffold(tmp_path)
    assert np.array_equal(scaffold.georef.offset, UTM) and scaffold.georef.crs == "EPSG:32632"
    assert not np.any(georeference.moved_by(scaffold.georef))
    assert scaffold.up_source is UpSource.GEOREFERENCE
    written = colmap_files.read_model(tmp_path / "sparse")
    assert np.array_equal(written.points.xyz, scaffold.points)


def street_views(count: int = 5) -> list[View]:
    poses = [
        rigid.look_at(np.array([k * 2.0, 20.0, GROUND + 1.7]), np.array([k * 2.0 + 9.0, 22.0, GROUND + 2.0]), UP)
        for k in range(count)
    ]
    camera = replace(PINHOLE, params=(60.0, 60.0, 32.0, 24.0))
    return [View(f"ground/frame{k}.jpg", Path(f"frame{k}.jpg"), camera, pose) for k, pose in enumerate(poses)]


def test_combined_model_leaves_the_aerial_part_alone_bit_for_bit(tmp_path: Path) -> None:
    survey = make_survey(offset=UTM)
    scaffold = load_scaffold(write_survey(tmp_path, survey))
    local = np.array([[10.0, 22.0, 510.0], [11.0, 23.0, 511.0]])
    tracks = Tracks(np.array([1, 0, 1]), np.array([0, 2, 3]), np.array([[5.0, 6.0], [7.0, 8.0], [9.0, 10.0]]))
    combined = write_back.combined_model(scaffold, street_views(), local, np.full((2, 3), 9, np.uint8), tracks)
    out = tmp_path / "out"
    write_back.write_in_original_frame(out, combined, scaffold)
    again = colmap_files.read_model(out)
    assert len(again.images) == 53 and len(again.points.ids) == 1502
    for before, after in zip(survey.model.images, again.images, strict=False):
        assert (before.image_id, before.camera_id, before.name) == (after.image_id, after.camera_id, after.name)
        assert before.quaternion.tobytes() == after.quaternion.tobytes()
        assert before.translation.tobytes() == after.translation.tobytes()
        assert np.array_equal(before.xy, after.xy) and np.array_equal(before.point_ids, after.point_ids)
    assert again.points.xyz[:1500].tobytes() == survey.model.points.xyz.tobytes()
    for view, image in zip(street_views(), again.images[48:], strict=True):
        centre = rigid.centre_in_world(Pose(rigid.rotation_from_quaternion(image.quaternion), image.translation))
        truth = rigid.centre_in_world(view.cam_from_world) + scaffold.georef.offset
        assert np.allclose(centre, truth, atol=1e-3)


def test_combined_model_is_sound_for_colmap(tmp_path: Path) -> None:
    scaffold = load_scaffold(write_survey(tmp_path, make_survey()))
    tracks = Tracks(np.array([1, 0, 1]), np.array([0, 2, 3]), np.array([[5.0, 6.0], [7.0, 8.0], [9.0, 10.0]]))
    combined = write_back.combined_model(scaffold, street_views(), np.zeros((2, 3)), None, tracks)
    write_back.write_in_original_frame(tmp_path / "out", combined, scaffold)
    model = pycolmap.Reconstruction(str(tmp_path / "out"))
    assert model.num_images() == 53 and model.num_points3D() == 1502 and model.num_cameras() == 2
    added = max(model.points3D)
    assert [(e.image_id, e.point2D_idx) for e in model.points3D[added].track.elements] == [(98, 0), (101, 0)]
    assert model.images[98].name == "ground/frame0.jpg"
    assert np.allclose(model.images[98].points2D[0].xy, [5.0, 6.0])


def test_writing_over_a_model_with_rigs_leaves_none_of_them(tmp_path: Path) -> None:
    write_survey(tmp_path, make_survey(), modern=True)
    smaller = make_survey(stations=2)
    colmap_files.write_model(tmp_path / "sparse", smaller.model)
    assert pycolmap.Reconstruction(str(tmp_path / "sparse")).num_images() == 12


def test_street_frames_may_not_take_an_aerial_name(tmp_path: Path) -> None:
    scaffold = load_scaffold(write_survey(tmp_path, make_survey()))
    views = [replace(street_views()[0], name="s0_n.jpg")]
    with pytest.raises(InputError, match=r"already has an image named s0_n\.jpg"):
        write_back.combined_model(scaffold, views)


def test_gps_lands_in_the_local_frame() -> None:
    """A hundredth of an arc minute north is 18.5 m; UTM of a known point; silence without a georeference."""
    enu = Georeference(np.array([100.0, 0.0, 0.0]), None, (47.0, 8.0, 400.0))
    north = georeference.local_from_gps(np.array([[47.0 + 1 / 6000, 8.0, 400.0]]), enu)
    assert north is not None and np.allclose(north, [[-100.0, 18.53, 0.0]], atol=0.05)
    utm = Georeference(np.array([462_000.0, 5_216_000.0, 0.0]), "EPSG:32632")
    place = georeference.local_from_gps(np.array([[47.1, 8.5, 400.0]]), utm)
    assert place is not None and np.allclose(place, [[58.23, 398.12, 400.0]], atol=0.05)
    assert georeference.local_from_gps(np.array([[47.1, 8.5, 400.0]]), georeference.nothing()) is None
    other_zone = Georeference(utm.offset, "EPSG:32633")
    assert georeference.local_from_gps(np.array([[47.1, 8.5, 400.0]]), other_zone) is None


@pytest.mark.parametrize("name", ["EPSG:25832", "EPSG:31467", "EPSG:32632"])
def test_local_points_and_places_on_earth_are_each_others_inverse(name: str) -> None:
    places = np.array([[47.1, 8.5, 400.0], [47.101, 8.502, 410.0]])
    nearby = georeference.local_from_gps(places, Georeference(np.zeros(3), name))
    assert nearby is not None
    georef = Georeference(np.round(nearby[0], -2), name)
    local = georeference.local_from_gps(places, georef)
    assert local is not None and np.abs(local).max() < 500.0
    back = georeference.on_earth(local, georef)
    assert back is not None and np.abs(back - places)[:, :2].max() < 1e-8
    assert np.allclose(back[:, 2], places[:, 2], atol=1e-6)
    assert georeference.on_earth(local, georeference.nothing()) is None


@pytest.mark.parametrize(
    ("name", "told"), [("EPSG:1", "PROJ knows"), ("EPSG:4326", "longitude and latitude"), ("EPSG:2263", "foot")]
)
def test_a_system_that_cannot_be_used_is_refused_at_once(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "georef.json").write_text(json.dumps({"crs": name}))
    with pytest.raises(InputError, match=rf"georef\.json: has a crs that cannot be used: .*{told}.*EPSG:25832"):
        georeference.read_georef(tmp_path / "georef.json")


def test_heights_are_said_as_the_system_says_them() -> None:
    assert "does not say" in georeference.heights(Georeference(UTM, "EPSG:25832"))
    assert "DHHN2016" in georeference.heights(Georeference(UTM, "EPSG:25832+7837"))
    assert "ellipsoid" in georeference.heights(Georeference(UTM, None, (47.0, 8.0, 400.0)))


def test_a_map_without_a_name_says_what_to_write(tmp_path: Path) -> None:
    scaffold = load_scaffold(write_survey(tmp_path, make_survey(offset=UTM)))
    (warning,) = [text for text in describe(scaffold).warnings if "of which system" in text]
    assert '{"crs": "EPSG:CODE"}' in warning and str(tmp_path / "sparse" / "georef.json") in warning
    centres = rigid.centres_in_world([view.cam_from_world for view in scaffold.views]) + scaffold.georef.offset
    gps = [tuple(place) for place in crs.to_wgs84(centres, "EPSG:25832")]
    fitting = georeference.fitting_systems(scaffold, [None, *gps[1:]])
    assert "EPSG:25832" in fitting and georeference.fitting_systems(scaffold, [None] * len(gps)) == ()
    document = georeference.advice(scaffold, ("EPSG:25832",)).split("save ")[1].split(" as ")[0]
    (tmp_path / "sparse" / "georef.json").write_text(document)
    again = load_scaffold(tmp_path)
    assert again.georef.crs == "EPSG:25832" and not georeference.unplaced(again)
    assert np.array_equal(again.georef.offset, scaffold.georef.offset)
    assert not [text for text in describe(again).warnings if "of which system" in text]


def test_scaffold_check_finds_the_system_by_the_photos_gps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_survey(tmp_path, make_survey(offset=UTM))
    scaffold = load_scaffold(path)
    centres = rigid.centres_in_world([view.cam_from_world for view in scaffold.views]) + scaffold.georef.offset
    places = dict(zip((view.path for view in scaffold.views), crs.to_wgs84(centres, "EPSG:25832"), strict=True))
    monkeypatch.setattr(intrinsics, "read_exif", lambda photo: Exif("", None, None, tuple(places[photo]), 1))
    cli.check(path, json=True)
    assert '{"crs": "EPSG:25832"} as' in capsys.readouterr().err
    georeference.write_georef(path / "sparse", Georeference(np.zeros(3), "EPSG:25832"))
    cli.check(path, json=True)
    assert capsys.readouterr().err == ""


def test_a_small_model_needs_no_system(tmp_path: Path) -> None:
    assert not georeference.unplaced(load_scaffold(write_survey(tmp_path, make_survey())))


def test_georef_document_is_readable_by_people(tmp_path: Path) -> None:
    document = json.loads(georeference.write_georef(tmp_path, Georeference(UTM)).read_text())
    assert document["offset"] == UTM.tolist() and "x_original" in document["meaning"]


def test_a_named_system_is_the_same_as_a_georef_file(tmp_path: Path) -> None:
    path = write_survey(tmp_path, make_survey(offset=UTM))
    named = load_scaffold(path, config=ScaffoldConfig(crs="EPSG:25832"))
    georeference.write_georef(path / "sparse", Georeference(np.zeros(3), "EPSG:25832"))
    filed = load_scaffold(path)
    assert named.georef.crs == filed.georef.crs == "EPSG:25832"
    assert np.array_equal(named.georef.offset, filed.georef.offset) and np.array_equal(named.up, filed.up)
    assert np.array_equal(georeference.moved_by(named.georef), georeference.moved_by(filed.georef))
    assert load_scaffold(path, config=ScaffoldConfig(crs="EPSG:25832")).georef.crs == "EPSG:25832"
    with pytest.raises(InputError, match=r"--crs: says EPSG:32735, but .*georef\.json says EPSG:25832"):
        load_scaffold(path, config=ScaffoldConfig(crs="EPSG:32735"))


@pytest.mark.parametrize("name", ["EPSG:4326", "EPSG:1", "nonsense"])
def test_a_named_system_that_cannot_be_used(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="--crs: cannot be used"):
        load_scaffold(write_survey(tmp_path, make_survey(offset=UTM)), config=ScaffoldConfig(crs=name))


def test_coordinates_that_are_not_of_the_named_system_are_warned_of(tmp_path: Path) -> None:
    right = load_scaffold(
        write_survey(tmp_path / "utm", make_survey(offset=UTM)), config=ScaffoldConfig(crs="EPSG:25832")
    )
    local = load_scaffold(write_survey(tmp_path / "local", make_survey()), config=ScaffoldConfig(crs="EPSG:25832"))
    said = [[text for text in describe(held).warnings if "do not lie where" in text] for held in (right, local)]
    assert said[0] == [] and len(said[1]) == 1


def test_scaffold_check_says_which_option_names_the_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_survey(tmp_path, make_survey(offset=UTM))
    cli.check(path, json=True)
    said = "\n".join(json.loads(capsys.readouterr().out)["warnings"])
    assert "give --crs EPSG:CODE, or save" in said and "look like UTM" in said
    cli.check(path, crs="EPSG:25832", json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["crs"] == "EPSG:25832" and not any("UTM" in text or "--crs" in text for text in told["warnings"])
