"""metrics.json of a made-up run: the schema, the georeference, names, alignment, renders."""

from __future__ import annotations

import json
import math
from pathlib import Path

import cv2
import numpy as np
import pycolmap
import pytest

from skyanchor.cli.main import main
from skyanchor.errors import InputError
from skyanchor.evaluation.metrics import evaluate_run, write_metrics
from skyanchor.events import ANCHORS, SCENE, TRAJECTORY
from skyanchor.geometry import cameras, rigid
from skyanchor.run.inputs import Inputs
from skyanchor.run.recipe import Recipe
from skyanchor.run.records import AnchorsRecord, TrajectoryRecord
from skyanchor.run.results import Run, open_run
from skyanchor.storage import files
from skyanchor.types import (
    AnchorGroup,
    AnchorPose,
    Anchors,
    Frame,
    Georeference,
    LocalisedGroup,
    Pose,
    PosedFrame,
    Reason,
    Refusal,
    Sequence,
    Support,
)

OFFSET = np.array([450_000.0, 5_400_000.0, 200.0])
NAMES = tuple(f"frame{index:02}.jpg" for index in range(12))
CAMERA = cameras.pinhole(64, 48, 50.0)


def _true(index: int) -> Pose:
    eye = np.array([index * 0.8, math.sin(index / 3.0) * 4.0, 1.6])
    return rigid.look_at(eye, eye + np.array([1.0, 0.2 * index, 0.0]), np.array([0.0, 0.0, 1.0]))


def _moved(pose: Pose, shift: np.ndarray, scale: float = 1.0) -> Pose:
    return rigid.from_centre(pose.rotation, rigid.centre_in_world(pose) * scale + shift)


def _write_truth(folder: Path, offset: np.ndarray, prefix: str = "") -> Path:
    model = pycolmap.Reconstruction()
    camera = pycolmap.Camera(model="PINHOLE", width=64, height=48, params=[50, 50, 32, 24], camera_id=1)
    model.add_camera_with_trivial_rig(camera)
    for index, name in enumerate(NAMES):
        pose = _moved(_true(index), offset)
        rigid3d = pycolmap.Rigid3d(pycolmap.Rotation3d(pose.rotation), pose.translation)
        image = pycolmap.Image(name=prefix + name, camera_id=1, image_id=index + 1)
        model.add_image_with_trivial_frame(image, rigid3d)
    folder.mkdir(parents=True)
    model.write(str(folder))
    return folder


def _write_run(root: Path, shift: np.ndarray, scale: float = 1.0) -> Run:
    """Frame 7 has no pose; the second anchor group was refused."""
    frames = tuple(
        PosedFrame(k, Support.KEYFRAME, _moved(_true(k), shift, scale), 100, 0.05)
        if k != 7
        else PosedFrame(k, Support.MISSING, None, 0, math.nan, Refusal(Reason.TOO_FEW_POINTS, "too blurred"))
        for k in range(len(NAMES))
    )
    poses = tuple(AnchorPose(k, _moved(_true(k), 2 * shift, scale), np.eye(6)) for k in range(3))
    good = LocalisedGroup(AnchorGroup(0, (0, 1, 2), (0,)), poses, None)
    bad = LocalisedGroup(AnchorGroup(1, (9, 10, 11), (0,)), (), Refusal(Reason.NO_PLACE, "nowhere"))
    files.save(
        root / "2-anchors/anchors.json", AnchorsRecord(NAMES, Georeference(OFFSET), Anchors((good, bad), CAMERA))
    )
    files.save(root / "3-trajectory/trajectory.json", TrajectoryRecord(NAMES, Georeference(OFFSET), CAMERA, frames))
    for stage in (ANCHORS, TRAJECTORY):
        files.save(root / stage / "recipe.json", Recipe(stage, {}, {}, (), {}))
    files.write_bytes(root / "timings.json", b'{"2-anchors": 1.5}')
    files.save(root / ".state/inputs.json", Inputs(root / "aerial", root / "ground"))
    return open_run(root)


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    return _write_truth(tmp_path / "truth/sparse/0", OFFSET).parent.parent


def test_the_schema_and_the_figures(tmp_path: Path, truth: Path) -> None:
    run = _write_run(tmp_path / "run", np.array([0.0, 0.3, 0.4]))
    document = json.loads(write_metrics(run, evaluate_run(run, truth)).read_text())
    assert list(document) == ["anchors", "trajectory", "render", "seconds", "memory", "stated"]
    for part in ("anchors", "trajectory"):
        assert list(document[part]) == ["registered", "total", "ate_m", "rpe_t_m", "rpe_r_deg"]
    assert list(document["render"]) == ["aerial", "ground"]
    assert document["render"]["aerial"] == {"psnr": None, "ssim": None, "lpips": None}
    assert document["seconds"] == {"2-anchors": 1.5}
    assert (document["anchors"]["registered"], document["anchors"]["total"]) == (3, 6)
    assert (document["trajectory"]["registered"], document["trajectory"]["total"]) == (11, 12)
    assert document["anchors"]["ate_m"] == pytest.approx(1.0, abs=1e-6)
    assert document["trajectory"]["ate_m"] == pytest.approx(0.5, abs=1e-6)
    assert document["trajectory"]["rpe_t_m"] == pytest.approx(0.0, abs=1e-6)
    assert document["trajectory"]["rpe_r_deg"] == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize(
    ("shift", "below", "within"), [((0.0, 0.04, 0.13), 2 / 3, 1.0), ((0.06, 0.06, 0.12), 0.0, 0.0)]
)
def test_what_is_stated_is_held_against_the_errors(
    tmp_path: Path, truth: Path, shift: tuple[float, ...], below: float, within: float
) -> None:
    """Sigma is 0.05 m, the radius 0.14 m; the errors are 0.136 and 0.147 m long."""
    run = _write_run(tmp_path / "run", np.array(shift))
    held = evaluate_run(run, truth).stated
    assert held is not None and held.sigma_m == 0.05 and held.radius_95_m == pytest.approx(0.1398, abs=1e-4)
    assert (held.below_sigma, held.within_radius) == (pytest.approx(below), within)


def test_frames_that_a_group_lost_count_as_asked_for(tmp_path: Path, truth: Path) -> None:
    """The first group was cut with four frames and kept three."""
    run = _write_run(tmp_path / "run", np.zeros(3))
    frames = tuple(Frame(k, name, tmp_path / name, None) for k, name in enumerate(NAMES))
    groups = (AnchorGroup(0, (0, 1, 2, 3), (0,)), AnchorGroup(1, (9, 10, 11), (0,)))
    files.save(run.root / ".state/sequence.json", Sequence(tmp_path, frames, CAMERA, False, (), groups))
    anchors = evaluate_run(open_run(run.root), truth).anchors
    assert (anchors.registered, anchors.total) == (3, 7)


def test_a_group_that_was_moved_along_the_walk_counts_where_it_went(tmp_path: Path, truth: Path) -> None:
    """The first group was cut at frames 4 to 6 and found at 0 to 2."""
    run = _write_run(tmp_path / "run", np.zeros(3))
    frames = tuple(Frame(k, name, tmp_path / name, None) for k, name in enumerate(NAMES))
    groups = (AnchorGroup(0, (4, 5, 6), (0,)), AnchorGroup(1, (9, 10, 11), (0,)))
    files.save(run.root / ".state/sequence.json", Sequence(tmp_path, frames, CAMERA, False, (), groups))
    anchors = evaluate_run(open_run(run.root), truth).anchors
    assert (anchors.registered, anchors.total) == (3, 6)


def test_alignment_takes_a_similarity_out_and_only_on_request(tmp_path: Path, truth: Path) -> None:
    run = _write_run(tmp_path / "run", np.array([5.0, -3.0, 4.0]), scale=1.7)
    metrics = evaluate_run(run, truth, align=True)
    assert metrics.aligned is not None and metrics.trajectory.ate_m is not None and metrics.trajectory.ate_m > 5.0
    assert metrics.aligned.trajectory.ate_m == pytest.approx(0.0, abs=1e-6)
    assert metrics.aligned.anchors.ate_m == pytest.approx(0.0, abs=1e-6)
    assert metrics.aligned.trajectory.registered == 11


def test_names_may_differ_by_their_folder(tmp_path: Path) -> None:
    run = _write_run(tmp_path / "run", np.array([0.0, 0.3, 0.4]))
    truth = _write_truth(tmp_path / "other", OFFSET, prefix="street/")
    assert evaluate_run(run, truth).trajectory.ate_m == pytest.approx(0.5, abs=1e-6)


def test_renders_are_scored_apart(tmp_path: Path, truth: Path) -> None:
    run = _write_run(tmp_path / "run", np.zeros(3))
    photo = np.full((32, 32, 3), 100, np.uint8)
    for kind, offset in (("aerial", 5), ("ground", 51)):
        for role, image in (("photo", photo), ("render", photo + np.uint8(offset))):
            folder = run.root / "4-scene/test" / kind / role
            folder.mkdir(parents=True)
            assert cv2.imwrite(str(folder / "a.png"), image)
    unfinished = evaluate_run(run, truth).render
    assert unfinished.aerial.psnr is None and unfinished.ground.psnr is None
    files.save(run.root / SCENE / "recipe.json", Recipe(SCENE, {}, {}, (), {}))
    render = evaluate_run(run, truth, perceptual=lambda a, b: 0.25).render
    assert render.aerial.psnr == pytest.approx(20 * math.log10(255 / 5))
    assert render.ground.psnr == pytest.approx(20 * math.log10(5.0))
    assert render.aerial.lpips == 0.25 and render.aerial.ssim is not None and render.ground.ssim is not None
    assert 0.5 < render.ground.ssim < render.aerial.ssim < 1.0


def test_bad_arguments_are_one_line(tmp_path: Path, truth: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = _write_run(tmp_path / "run", np.zeros(3))
    with pytest.raises(InputError, match="holds neither anchors nor a trajectory"):
        evaluate_run(Run(tmp_path / "nowhere"), truth)
    with pytest.raises(InputError, match="holds no COLMAP model"):
        evaluate_run(run, tmp_path)
    foreign = _write_truth(tmp_path / "foreign", OFFSET)
    renamed = pycolmap.Reconstruction(str(foreign))
    for image in renamed.images.values():
        image.name = f"x{image.name}"
    renamed.write(str(foreign))
    with pytest.raises(InputError, match="lies in the run, which would be compared with itself"):
        evaluate_run(run, run.root / "3-trajectory")
    (run.root / ".state").mkdir(exist_ok=True)
    (run.root / ".state/inputs.json").write_text("{}")
    assert main(["report", str(run.root), "--truth", str(foreign)]) == 2
    assert "shares no image name" in capsys.readouterr().err and not (run.root / "report.html").exists()
    with pytest.raises(InputError, match="shares no image name"):
        evaluate_run(run, foreign)
    (foreign / "images.bin").write_bytes(b"short")
    with pytest.raises(InputError, match="is truncated"):
        evaluate_run(run, foreign)
