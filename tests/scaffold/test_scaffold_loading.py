"""Models as users bring them: every layout gives the same scaffold."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from survey_fixture import DISTORTED, GROUND, HEIGHT_M, UP, make_survey, without_points, write_survey

from skyanchor.errors import InputError
from skyanchor.geometry import cameras, planes, rigid
from skyanchor.scaffold import OrientationConfig, ScaffoldConfig, describe, load_scaffold
from skyanchor.scaffold.loading import check_model, pose_of
from skyanchor.types import Scaffold, Tracks, UpSource


def assert_is_the_survey(scaffold: Scaffold, images: int = 48) -> None:
    assert len(scaffold.views) == images
    assert len(scaffold.points) == 1500 and len(scaffold.tracks.point) > 5000
    assert planes.angle_deg(scaffold.up, UP) < 1.0
    assert scaffold.ground.offset == pytest.approx(GROUND, abs=0.1)
    for k in (0, 20, images - 1):
        own = scaffold.tracks.image == k
        view = scaffold.views[k]
        in_cam = view.cam_from_world(scaffold.points[scaffold.tracks.point[own]])
        assert np.allclose(cameras.project(view.camera, in_cam), scaffold.tracks.xy[own], atol=1e-6)


@pytest.mark.parametrize("sparse", ["sparse", "sparse/0", "0", "."])
@pytest.mark.parametrize("kind", ["legacy", "modern", "text"])
def test_layouts_and_formats(tmp_path: Path, sparse: str, kind: str) -> None:
    write_survey(tmp_path, make_survey(), sparse, text=kind == "text", modern=kind == "modern")
    assert (tmp_path / sparse / "frames.bin").exists() == (kind == "modern")
    assert_is_the_survey(load_scaffold(tmp_path))


def test_model_folder_itself_with_images_beside_or_given(tmp_path: Path) -> None:
    write_survey(tmp_path, make_survey(), "sparse/0")
    found = load_scaffold(tmp_path / "sparse" / "0")
    assert_is_the_survey(found)
    moved = tmp_path / "elsewhere"
    shutil.move(tmp_path / "images", moved)
    given = load_scaffold(tmp_path / "sparse" / "0", images=moved)
    assert given.views[0].path == moved / given.views[0].name
    with pytest.raises(InputError, match=r"s0_.\.jpg: is missing, with 47 more of the model's 48 photos"):
        load_scaffold(tmp_path)


def test_distorted_camera_and_nested_folders(tmp_path: Path) -> None:
    write_survey(tmp_path, make_survey(camera=DISTORTED, folder="flight 1/north/"))
    scaffold = load_scaffold(tmp_path)
    assert_is_the_survey(scaffold)
    assert scaffold.views[0].name == "flight 1/north/s0_f.jpg"


def test_views_are_in_natural_order(tmp_path: Path) -> None:
    write_survey(tmp_path, make_survey())
    names = [view.name for view in load_scaffold(tmp_path).views]
    assert names[:3] == ["s0_f.jpg", "s0_l.jpg", "s0_n.jpg"]
    assert names.index("s2_n.jpg") < names.index("s10_n.jpg")


def test_masks_are_found_by_image_name(tmp_path: Path) -> None:
    write_survey(tmp_path, make_survey())
    (tmp_path / "masks").mkdir()
    cv2.imwrite(str(tmp_path / "masks" / "s0_n.jpg.png"), np.zeros((48, 64), np.uint8))
    cv2.imwrite(str(tmp_path / "masks" / "s1_n.png"), np.zeros((48, 64), np.uint8))
    masks = {view.name: view.mask_path for view in load_scaffold(tmp_path).views}
    assert masks["s0_n.jpg"] == tmp_path / "masks" / "s0_n.jpg.png"
    assert masks["s1_n.jpg"] == tmp_path / "masks" / "s1_n.png"
    assert sum(path is not None for path in masks.values()) == 2


def test_without_tracks(tmp_path: Path) -> None:
    write_survey(tmp_path, make_survey(tracks=False))
    scaffold = load_scaffold(tmp_path)
    assert len(scaffold.tracks.point) == 0 and len(scaffold.points) == 1500
    assert scaffold.ground.offset == pytest.approx(GROUND, abs=0.1)
    assert any("no tracks" in text for text in describe(scaffold).warnings)


def test_without_points_the_ground_must_be_given(tmp_path: Path) -> None:
    write_survey(tmp_path, without_points(make_survey()))
    with pytest.raises(InputError, match=r"no 3D points.*--ground-height"):
        load_scaffold(tmp_path)
    config = ScaffoldConfig(OrientationConfig(ground_height=GROUND))
    scaffold = load_scaffold(tmp_path, config=config)
    assert scaffold.ground.offset == GROUND and planes.angle_deg(scaffold.up, UP) < 1.0


def test_up_and_ground_of_a_turned_model_come_from_its_cameras(tmp_path: Path) -> None:
    turn = rigid.rotation_exp(np.array([1.2, -0.7, 0.4]))
    write_survey(tmp_path, make_survey(turn=turn))
    scaffold = load_scaffold(tmp_path)
    assert scaffold.up_source is UpSource.CAMERAS
    assert planes.angle_deg(scaffold.up, turn @ UP) < 1.0
    assert scaffold.ground.offset == pytest.approx(GROUND, abs=0.3)
    centres = rigid.centres_in_world([view.cam_from_world for view in scaffold.views])
    assert np.allclose(planes.heights(scaffold.ground, centres), HEIGHT_M, atol=1.0)


def test_up_of_cameras_that_roll_comes_from_the_ground_they_see(tmp_path: Path) -> None:
    turn = rigid.rotation_exp(np.array([-0.6, 0.8, 2.0]))
    scaffold = load_scaffold(write_survey(tmp_path, make_survey(turn=turn, roll_deg=25.0)))
    assert scaffold.up_source is UpSource.POINTS
    assert planes.angle_deg(scaffold.up, turn @ UP) < 0.5


def test_up_of_one_heading_comes_from_the_ground(tmp_path: Path) -> None:
    """Obliques on one heading leave up open between ahead and down; their mean direction is 42 degrees off."""
    turn = rigid.rotation_exp(np.array([-0.6, 0.8, 2.0]))
    survey = make_survey(turn=turn)
    ahead = tuple(image for image in survey.model.images if image.name.endswith("_f.jpg"))
    write_survey(tmp_path, replace(survey, model=replace(survey.model, images=ahead)))
    scaffold = load_scaffold(tmp_path)
    assert scaffold.up_source is UpSource.POINTS
    assert planes.angle_deg(scaffold.up, turn @ UP) < 0.5


def test_up_can_be_given(tmp_path: Path) -> None:
    write_survey(tmp_path, make_survey())
    scaffold = load_scaffold(tmp_path, config=ScaffoldConfig(OrientationConfig(up=(0.0, 0.3, 3.0))))
    assert scaffold.up_source is UpSource.GIVEN
    assert np.allclose(scaffold.up, np.array([0.0, 0.3, 3.0]) / np.hypot(0.3, 3.0))


def test_points_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    survey = make_survey()
    survey.model.points.xyz[10] = np.nan
    write_survey(tmp_path, survey)
    scaffold = load_scaffold(tmp_path)
    assert len(scaffold.points) == 1499 and np.isfinite(scaffold.points).all()
    assert survey.model.points.ids[10] not in scaffold.point_ids


def test_summary_tells_the_truth(tmp_path: Path) -> None:
    write_survey(tmp_path, make_survey())
    summary = describe(load_scaffold(tmp_path))
    assert (summary.images, summary.points, summary.masks) == (48, 1500, 0)
    assert summary.altitude_m == pytest.approx(HEIGHT_M, abs=0.2)
    assert 40 / 55 < summary.ground_sample_m < 40 / 55 * 1.5  # nadir up to 45 degrees oblique
    assert summary.extent_m == pytest.approx((74.0, 74.0), abs=2.5)
    assert summary.reprojection_px < 1e-6 and summary.track_length > 3
    assert (summary.cameras[0].model, summary.cameras[0].images, summary.cameras[0].focal_px) == ("PINHOLE", 48, 55.0)
    covered = f"a pixel covers {100 * summary.ground_sample_m:.0f} cm of the ground"
    others, coarse = summary.warnings
    assert covered in coarse and "are these the photos that the model was made from?" in others, "they are noise"


def test_summary_has_nothing_to_say_of_a_fine_flight(tmp_path: Path) -> None:
    write_survey(tmp_path, make_survey())
    scaffold = load_scaffold(tmp_path)
    none = Tracks(scaffold.tracks.point[:0], scaffold.tracks.image[:0], scaffold.tracks.xy[:0])
    finer = tuple(replace(view, camera=cameras.scaled(view.camera, 10 * view.camera.width)) for view in scaffold.views)
    warnings = describe(replace(scaffold, views=finer, tracks=none)).warnings
    assert len(warnings) == 1 and "no tracks" in warnings[0]


def test_summary_warns_of_a_flight_that_looks_straight_down(tmp_path: Path) -> None:
    write_survey(tmp_path, make_survey())
    scaffold = load_scaffold(tmp_path)
    down = tuple(view for view in scaffold.views if view.name.endswith("_n.jpg"))
    none = Tracks(scaffold.tracks.point[:0], scaffold.tracks.image[:0], scaffold.tracks.xy[:0])
    assert any("straight down" in text for text in describe(replace(scaffold, views=down, tracks=none)).warnings)
    one = (*down, next(view for view in scaffold.views if not view.name.endswith("_n.jpg")))
    assert not any("straight down" in text for text in describe(replace(scaffold, views=one, tracks=none)).warnings)


def test_summary_warns_of_points_that_miss_their_pixels_and_of_other_models(tmp_path: Path) -> None:
    survey = make_survey()
    survey.model.points.xyz[:] += [0.0, 8.0, 0.0]
    write_survey(tmp_path, survey, "sparse/0")
    write_survey(tmp_path, survey, "sparse/1")
    warnings = describe(load_scaffold(tmp_path)).warnings
    assert any("points miss their pixels" in text for text in warnings)
    assert any("also holds the models 1" in text for text in warnings)


def test_poses_are_those_of_the_files() -> None:
    survey = make_survey()
    check_model(Path("nowhere"), survey.model)
    pose = pose_of(survey.model.images[0])
    assert np.allclose(rigid.centre_in_world(pose), [0.0, 0.0, GROUND + HEIGHT_M])
