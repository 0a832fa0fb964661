"""A run as researchers read it: errors by frame, renders, points, its text and its cell in a notebook."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import report_run
from report_run import NAMES, paper_street

import skyanchor
from skyanchor.errors import InputError
from skyanchor.evaluation.poses import PoseErrors, pose_errors
from skyanchor.events import TRAJECTORY
from skyanchor.geometry import rigid
from skyanchor.run import records
from skyanchor.run.folder import read_finished
from skyanchor.storage import files
from skyanchor.types import Pose


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("paper")
    paper_street.write_scene(root, report_run.FRAMES)
    return root


@pytest.fixture
def begun(scene: Path, tmp_path: Path) -> Path:
    report_run.begin(scene, tmp_path / "walk")
    return tmp_path / "walk"


@pytest.fixture
def anchored(scene: Path, begun: Path) -> Path:
    report_run.add_anchors(scene, begun, (True, False))
    return begun


@pytest.fixture
def updated(anchored: Path) -> Path:
    report_run.add_trajectory(anchored)
    report_run.add_scene(anchored)
    return anchored


def move(run: Path, frame: int, cam_from_world: Pose) -> None:
    """Put one frame of the finished trajectory elsewhere."""
    stage = read_finished(run / TRAJECTORY)
    assert stage is not None
    held = stage.load(records.TRAJECTORY_FILE, records.TrajectoryRecord)
    frames = list(held.frames)
    frames[frame] = replace(frames[frame], cam_from_world=cam_from_world)
    files.save(stage.path(records.TRAJECTORY_FILE), replace(held, frames=tuple(frames)))


# --- errors -------------------------------------------------------------------------------------------------------


def test_errors_are_those_that_were_made(scene: Path, updated: Path) -> None:
    true = paper_street.walk(report_run.FRAMES)[4]
    turned = rigid.rotation_exp(np.radians([0.0, 2.0, 0.0])) @ true.rotation
    move(updated, 4, rigid.from_centre(turned, rigid.centre_in_world(true) + np.array([0.3, 0.0, 0.4])))
    errors = skyanchor.open_run(str(updated)).errors(str(scene / "ground/truth"))
    assert list(errors.frames) == list(NAMES) and len(errors) == 12
    assert errors[NAMES[4]].position_m == pytest.approx(0.5, abs=1e-5)
    assert errors[NAMES[4]].rotation_deg == pytest.approx(2.0, abs=1e-4)
    assert all(
        errors[name].position_m < 1e-5 and errors[name].rotation_deg < 1e-3 for name in NAMES if name != NAMES[4]
    )
    assert errors.position_m == pytest.approx(0.5 / np.sqrt(12.0), abs=1e-5)
    assert errors.rotation_deg == pytest.approx(2.0 / np.sqrt(12.0), abs=1e-3)
    assert repr(errors) == "PoseErrors(12 frames, RMS 0.144 m, 0.577 deg; worst g004.png 0.500 m)"
    assert errors.position_m == pytest.approx(skyanchor.evaluate(updated, scene / "ground/truth").trajectory.ate_m)


def test_errors_before_the_trajectory_are_of_the_anchors(scene: Path, anchored: Path) -> None:
    errors = skyanchor.open_run(anchored).errors(scene / "ground/truth")
    assert list(errors.frames) == list(NAMES[:6]) and errors.position_m < 1e-5


def test_errors_need_poses_and_a_truth_of_the_same_photos(scene: Path, begun: Path, updated: Path) -> None:
    with pytest.raises(InputError, match="shares no image name"):
        skyanchor.open_run(updated).errors(scene / "aerial/sparse")
    assert pose_errors({}, {"a": rigid.identity()}) == PoseErrors({})
    assert "no frame" in repr(PoseErrors({}))


def test_errors_of_an_empty_run_say_what_is_missing(scene: Path, begun: Path) -> None:
    with pytest.raises(InputError, match="neither anchors nor a trajectory"):
        skyanchor.open_run(begun).errors(scene / "ground/truth")


# --- pictures and points ------------------------------------------------------------------------------------------


def test_renders_show_the_update_and_what_was_before(updated: Path) -> None:
    run = skyanchor.open_run(updated)
    before, after = run.render(3, 160, before=True), run.render(NAMES[3], 160)
    assert before.shape == after.shape == (90, 160, 3) and after.dtype == np.uint8
    assert (before != after).any()
    np.testing.assert_array_equal(after, run.render(run.poses[NAMES[3]], 160))
    away = rigid.look_at(np.array([0.0, 0.0, 500.0]), np.array([0.0, 0.0, 900.0]), np.array([1.0, 0.0, 0.0]))
    assert run.render(away, 160).std(axis=(0, 1)).max() == 0.0


def test_renders_that_cannot_be_made_say_why(anchored: Path) -> None:
    run = skyanchor.open_run(anchored)
    with pytest.raises(InputError, match=r"no finished 4-scene.*before=True"):
        run.render(0)
    with pytest.raises(InputError, match="no aerial splats yet"):
        run.render(0, before=True)


def test_frames_without_a_pose_are_not_drawn(updated: Path) -> None:
    run = skyanchor.open_run(updated)
    with pytest.raises(InputError, match=r"no pose of g099\.png"):
        run.render("g099.png")
    with pytest.raises(InputError, match=r"no frame 12.*0 to 11"):
        run.render(12)


def test_points_patch_and_splats(updated: Path) -> None:
    run = skyanchor.open_run(updated)
    np.testing.assert_array_equal(run.points.points, report_run.street_points().points)
    assert len(run.points) == len(run.points.colors) == 84 and (run.points.colors == 90).all()
    assert len(run.patch.added) == 9 and len(run.splats()) == 48
    assert set(run.sigmas) == set(run.poses) and set(run.sigmas.values()) == {0.04}


# --- how it prints ------------------------------------------------------------------------------------------------


def test_a_run_prints_itself_in_a_few_lines(updated: Path) -> None:
    assert repr(skyanchor.open_run(updated)).splitlines() == [
        f"Run({str(updated)!r})",
        "  stages  2-anchors, 3-trajectory, 4-scene",
        "  groups  1 of 2 accepted",
        "  frames  12 of 12 with a pose",
        "  sigma   0.040 m per axis; 95 % within 0.112 m",
        "  splats  40 aerial, 9 of the street",
    ]


def test_a_run_without_anchors_prints_less(begun: Path) -> None:
    run = skyanchor.open_run(begun)
    assert repr(run).splitlines()[1:] == ["  stages  nothing finished"] and run._repr_html_() is None


def test_only_anchors_have_the_sigma_of_their_covariances(anchored: Path) -> None:
    assert "  sigma   0.010 m per axis" in repr(skyanchor.open_run(anchored))


def test_a_notebook_shows_verdict_map_and_groups(updated: Path) -> None:
    cell = skyanchor.open_run(updated)._repr_html_()
    assert cell is not None and cell.startswith('<div class="skyanchor-run">') and cell.endswith("</div>")
    assert "All 12 photos located" in cell and "from 12.0 to 21.0 dB" in cell
    assert cell.count("aerial photo a0") == 21 and "<svg" in cell
    assert "A place 30 m away fits nearly as well." in cell and cell.count("<tr>") == 3
    assert "<script" not in cell and "http" not in re.sub(r'"data:[^"]*"', "", cell)
    rules = re.findall(r"([^{}]+)\{", cell[cell.index("<style>") + 7 : cell.index("</style>")])
    assert rules and all(part.strip().startswith(".skyanchor-run") for rule in rules for part in rule.split(","))


def test_seconds_stand_in_the_order_of_the_work(anchored: Path) -> None:
    run = skyanchor.open_run(anchored)
    names = ("depth", "places/72x45-06", "splats", "surface")
    files.write_text(run.prepared.root / "timings.json", json.dumps(dict.fromkeys(names, 1.0)))
    order = ["depth", "surface", "places/72x45-06", "splats"]
    assert [name for name in run.seconds if "/" in name] == [f"1-scaffold/{name}" for name in order]
