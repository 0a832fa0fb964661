"""Joint models in the layouts of the public sets, taken apart and run by the paper's protocol."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pycolmap
import pytest
from survey_fixture import PINHOLE, make_survey, write_photos

from skyanchor import pipeline
from skyanchor.cli import dataset_runs
from skyanchor.cli import runs as commands
from skyanchor.cli.main import main
from skyanchor.errors import InputError, NothingPlacedError
from skyanchor.evaluation import protocol as protocols
from skyanchor.evaluation.paper_scenes import SCENES, Choice
from skyanchor.evaluation.split_model import Protocol, SplitConfig, Walk, split_model
from skyanchor.evaluation.truth import read_truth
from skyanchor.events import ANCHORS
from skyanchor.gaussians.split import split
from skyanchor.geometry import rigid
from skyanchor.matching import LightGlue
from skyanchor.matching.global_descriptors import MegaLoc
from skyanchor.photos import natural_key
from skyanchor.run import records
from skyanchor.run.executor import Executor, InProcess, Threads
from skyanchor.run.folder import RunFolder
from skyanchor.run.inputs import Inputs
from skyanchor.run.metrics import PoseMetrics
from skyanchor.scaffold import load_scaffold
from skyanchor.scaffold.colmap_files import write_model
from skyanchor.scaffold.colmap_model import ColmapModel
from skyanchor.sequence import SubmapConfig, load_sequence
from skyanchor.storage import files
from skyanchor.types import AnchorPose, Anchors, Georeference, LocalisedGroup, Pose

STREET = 14


def _joint(root: Path, aerial: Callable[[int], str], street: Callable[[int], str], link: str | None = None) -> Path:
    """A flight of 48 photos and a walk of 14, whose points both see; `link` is a photo half way down."""
    model = make_survey().model
    images, used = [], 0
    for k, image in enumerate(model.images):
        images.append(replace(image, name=aerial(k)))
    for k in range(STREET + (link is not None)):
        eye = np.array([1.0 + 1.5 * k, 6.0, -1.4]) if k < STREET else np.array([20.0, 20.0, 9.0])
        pose = rigid.look_at(eye, eye + np.array([1.0, 0.8, -0.3]), np.array([0.0, 0.0, 1.0]))
        used = max(image.image_id for image in images) + 1
        quaternion = rigid.quaternion_from_rotation(pose.rotation)
        name = street(k) if k < STREET else str(link)
        empty = {"xy": np.zeros((0, 2)), "point_ids": np.zeros(0, np.int64)}
        moved = {"image_id": used, "camera_id": 9, "name": name, "quaternion": quaternion}
        images.append(replace(images[0], translation=pose.translation, **moved, **empty))
    cameras = {**model.cameras, 9: replace(PINHOLE, params=(60.0, 60.0, 32.0, 24.0))}
    whole = ColmapModel(cameras, tuple(images), model.points)
    write_photos(root / "images", whole)
    write_model(root / "sparse/0", whole)
    return root


LAYOUTS = {
    "horizongs": ("road", lambda k: f"aerial/DJI_{k:04}.JPG", lambda k: f"street/cam1/{k:05}.JPG"),
    "isprs": ("zeche", lambda k: f"UAV/DSC{k:05}.jpg", lambda k: f"terrestrial/IMG_{k}.jpg"),
    "alog": ("uni10k", lambda k: f"aerial_high/{k:06}.png", lambda k: f"ground/{k:06}.png"),
}


@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_public_layout_becomes_a_scene(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene, aerial, street = LAYOUTS[kind]
    joint, out = _joint(tmp_path / "joint", aerial, street), tmp_path / "scene"
    assert main(["dataset", kind, str(joint), "--scene", scene, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "48 aerial photos, 14 street frames, 0 images left out" in said and "The paper has" in said
    held = protocols.read_protocol(out)
    assert (held.submap, held.group_size) == (SCENES[kind][scene].submap, 6)
    assert held.paper == SCENES[kind][scene].row and held.walks[0].camera == "PINHOLE,60.0,60.0,32.0,24.0"
    flight = load_scaffold(out / "aerial")
    assert len(flight.views) == 48 and 1400 < len(flight.points) <= 1500 and len(flight.tracks.xy) > 5000
    assert held.held_out == tuple(view.name for view in split(flight.views).test)
    walk = load_sequence(out / "ground")
    truth = read_truth(out / "ground/truth", np.zeros(3))
    assert [frame.name for frame in walk.frames] == sorted(truth, key=natural_key) and len(truth) == STREET
    first = rigid.centre_in_world(truth[walk.frames[0].name])
    np.testing.assert_allclose(first, [1.0, 6.0, -1.4], atol=1e-9)


def test_what_the_walk_saw_is_not_in_the_flight(tmp_path: Path) -> None:
    """Poses of the walk must not leak: only its truth holds them."""
    joint = _joint(tmp_path / "joint", lambda k: f"a/{k:03}.jpg", lambda k: f"g/{k:03}.jpg")
    split_model(joint, None, tmp_path / "scene", "x", SplitConfig(Choice(("a/*",), ("g/*",)), 50))
    model = pycolmap.Reconstruction(str(tmp_path / "scene/aerial/sparse"))
    assert {image.name[0] for image in model.images.values()} == {"a"}
    assert {e.image_id for p in model.points3D.values() for e in p.track.elements} <= set(model.images)
    assert min(p.track.length() for p in model.points3D.values()) >= 2
    assert not (tmp_path / "scene/ground/sparse").exists()


def test_points_that_one_aerial_photo_sees_are_left_out(tmp_path: Path) -> None:
    joint = _joint(tmp_path / "joint", lambda k: f"a/{k:03}.jpg", lambda k: f"g/{k:03}.jpg")
    few = Choice(("a/000.jpg", "a/001.jpg", "a/047.jpg"), ("g/*",))
    split_model(joint, None, tmp_path / "scene", "x", SplitConfig(few, 50))
    held = pycolmap.Reconstruction(str(tmp_path / "scene/aerial/sparse"))
    assert held.num_reg_images() == 3 and 0 < held.num_points3D() < 1500
    assert min(point.track.length() for point in held.points3D.values()) >= 2


def test_linking_images_go_by_name_by_list_or_by_height(tmp_path: Path) -> None:
    joint = _joint(tmp_path / "joint", lambda k: f"aerial/{k:03}.jpg", lambda k: f"g/{k:03}.jpg", "aerial/low.jpg")
    (tmp_path / "list.txt").write_text("aerial/low.jpg\naerial/000.jpg\n")
    ways = (
        (SplitConfig(Choice(("aerial/*",), ("g/*",)), 50), 49),
        (SplitConfig(Choice(("aerial/*",), ("g/*",), ("*/LOW*",)), 50), 48),
        (SplitConfig(Choice(("aerial/*",), ("g/*",), (f"@{tmp_path}/list.txt",)), 50), 47),
        (SplitConfig(Choice(("aerial/*",), ("g/*",)), 50, least_height_m=20.0), 48),
    )
    for k, (config, left) in enumerate(ways):
        held = split_model(joint, None, tmp_path / f"scene{k}", "x", config)
        assert (held.aerial, held.dropped) == (left, 49 - left)
        assert len(load_scaffold(tmp_path / f"scene{k}/aerial").views) == left
    with pytest.raises(InputError, match=r"no photo 90 m above the ground.*highest is at 40 m"):
        split_model(joint, None, tmp_path / "high", "x", replace(ways[0][0], least_height_m=90.0))


def test_units_become_metres(tmp_path: Path) -> None:
    joint = _joint(tmp_path / "joint", lambda k: f"a/{k:03}.jpg", lambda k: f"g/{k:03}.jpg")
    config = SplitConfig(Choice(("a/*",), ("g/*",)), 50, metres_per_unit=2.5)
    split_model(joint, None, tmp_path / "scene", "x", config)
    truth = read_truth(tmp_path / "scene/ground/truth", np.zeros(3))
    np.testing.assert_allclose(rigid.centre_in_world(truth["000.jpg"]), [2.5, 15.0, -3.5], atol=1e-9)
    flight = load_scaffold(tmp_path / "scene/aerial")
    high = [view.cam_from_world.inverse.translation[2] - flight.ground.offset for view in flight.views]
    np.testing.assert_allclose(high, 100.0, atol=1.0)


def test_walks_that_do_not_join_are_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    joint = _joint(tmp_path / "joint", lambda k: f"uav/{k}.jpg", lambda k: f"terrestrial/{k}.jpg")
    words = ["dataset", "isprs", str(joint), "--scene", "rathaus", "--out", str(tmp_path / "scene")]
    assert main(words) == 2
    assert "3 walks that do not join: name them with --segments" in capsys.readouterr().err
    assert main([*words, "--segments", "0.jpg:5.jpg,8.jpg:13.jpg"]) == 0
    held = protocols.read_protocol(tmp_path / "scene")
    assert [(walk.folder, walk.frames) for walk in held.walks] == [("ground-1", 6), ("ground-2", 6)]
    assert held.dropped == 2
    assert [f.name for f in load_sequence(tmp_path / "scene/ground-2").frames] == [f"{k}.jpg" for k in range(8, 14)]
    with pytest.raises(InputError, match="names no stretch"):
        segments = (("5.jpg", "2.jpg"),)
        config = SplitConfig(Choice(("uav/*",), ("terr*",)), 50, segments=segments)
        split_model(joint, None, tmp_path / "other", "x", config)


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    joint = _joint(tmp_path / "joint", lambda k: f"a/{k}.jpg", lambda k: f"g/{k}.jpg")
    with pytest.raises(InputError, match=r"no ground image by the patterns.*--ground PATTERN; its images lie in a, g"):
        split_model(joint, None, tmp_path / "s", "x", SplitConfig(Choice(("a/*",), ("street/*",)), 50))
    with pytest.raises(InputError, match="photos of 2 cameras"):
        split_model(joint, None, tmp_path / "t", "x", SplitConfig(Choice(("a/1*",), ("*",)), 50))
    assert [path.name for path in tmp_path.iterdir()] == ["joint"]  # no half scene is in the way of the next try
    (tmp_path / "t").mkdir()
    (tmp_path / "t/thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="is not an empty folder"):
        split_model(joint, None, tmp_path / "t", "x", SplitConfig(Choice(("a/*",), ("g/*",)), 50))


@pytest.mark.parametrize(
    "config",
    [
        {"least_height_m": 1e6},
        {"segments": (("5.jpg", "2.jpg"),)},
        {"segments": (("0.jpg", "7.jpg"), ("7.jpg", "13.jpg"))},
    ],
)
def test_a_scene_that_cannot_be_leaves_nothing_and_is_told_by_its_own_name(
    config: dict[str, Any], tmp_path: Path
) -> None:
    joint = _joint(tmp_path / "joint", lambda k: f"a/{k}.jpg", lambda k: f"g/{k}.jpg")
    with pytest.raises(InputError, match=r"^(--segments|/.*/s/aerial: )") as told:
        split_model(joint, None, tmp_path / "s", "x", SplitConfig(Choice(("a/*",), ("g/*",)), 50, **config))
    assert files.TEMPORARY not in str(told.value) and [path.name for path in tmp_path.iterdir()] == ["joint"]


@pytest.mark.parametrize("folder", ["../victim", "/victim", "..", "a/../../b", "", "C:\\victim"])
def test_walks_of_a_protocol_lie_in_its_scene(folder: str, tmp_path: Path) -> None:
    walk = Walk(folder, "f=60", 14)
    files.save(tmp_path / "protocol.json", Protocol("x", "y", 1, 0, (walk,), 10, 6, ()))
    with pytest.raises(InputError, match="would lead out of it"):
        protocols.read_protocol(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "[" * 100_000, '{"walks": []}', "\xff\xfe"])
def test_a_protocol_that_is_none_advises_to_make_the_scene_anew(text: str, tmp_path: Path) -> None:
    (tmp_path / "protocol.json").write_text(text)
    with pytest.raises(InputError, match=r"Make the scene anew with `skyanchor dataset`\.$"):
        protocols.read_protocol(tmp_path)
    files.save(tmp_path / "protocol.json", Protocol("x", "y", 1, 0, (), 10, 6, ()))
    with pytest.raises(InputError, match=r"names no walk\. Make the scene anew"):
        protocols.read_protocol(tmp_path)


# --- the protocol -------------------------------------------------------------------------------------------------


def _stands_in(shift: float) -> Callable[..., None]:
    """Anchors at the truth, moved by metres: the pipeline without its work."""

    def run(folder: RunFolder, inputs: Inputs, config: pipeline.PipelineConfig, executor: object, upto: str) -> None:
        assert upto == ANCHORS and not config.sequence.cut.join_boundaries
        walk = load_sequence(inputs.ground, config.sequence)
        assert not walk.camera_is_guess and walk.camera.params[0] == 60.0
        true = read_truth(inputs.ground / "truth", np.zeros(3))
        groups = []
        for group in walk.groups:
            poses = [_moved(true[walk.frames[k].name], shift) for k in group.frames]
            held = tuple(AnchorPose(k, p, np.eye(6)) for k, p in zip(group.frames, poses, strict=True))
            groups.append(LocalisedGroup(group, held, None))
        stage = folder.stage(ANCHORS, "groups", {}, {})
        names = tuple(frame.name for frame in walk.frames)
        anchors = Anchors(tuple(groups), walk.camera)
        stage.save(records.ANCHORS_FILE, records.AnchorsRecord(names, Georeference(np.zeros(3)), anchors))
        stage.finish()

    return run


def _moved(pose: Pose, metres: float) -> Pose:
    return rigid.from_centre(pose.rotation, rigid.centre_in_world(pose) + np.array([0.0, 0.0, metres]))


def test_the_row_stands_beside_the_papers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    joint = _joint(tmp_path / "joint", lambda k: f"uav/{k}.jpg", lambda k: f"terrestrial/{k}.jpg")
    words = ["--segments", "0.jpg:5.jpg,6.jpg:13.jpg", "--out", str(tmp_path / "scene")]
    assert main(["dataset", "isprs", str(joint), "--scene", "rathaus", *words]) == 0
    monkeypatch.setattr(pipeline, "run", _stands_in(0.3))
    run = ["dataset", "run", str(tmp_path / "scene"), "--out", str(tmp_path / "runs"), "--upto", "anchors"]
    capsys.readouterr()
    assert main(run) == 0
    out = capsys.readouterr().out
    assert "ISPRS-Rathaus" in out and "0.300" in out and "anchors, the paper" in out and "36/36" in out
    assert main([*run, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["ours"]["anchors"]["registered"] == 14 and said["paper"]["anchors"]["ate_m"] == 0.14
    assert said["ours"]["anchors"]["ate_m"] == pytest.approx(0.3)
    with pytest.raises(InputError, match="Make the scene"):
        protocols.run_protocol(tmp_path, tmp_path, protocols.Wanted(pipeline.CPU, InProcess(), ANCHORS))


def test_the_settings_of_the_stages_are_options_of_a_scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joint = _joint(tmp_path / "joint", lambda k: f"a/{k}.jpg", lambda k: f"g/{k}.jpg")
    split_model(joint, None, tmp_path / "scene", "x", SplitConfig(Choice(("a/*",), ("g/*",)), 50))
    seen: list[pipeline.PipelineConfig] = []

    def run(folder: RunFolder, inputs: Inputs, config: pipeline.PipelineConfig, executor: Executor, upto: str) -> None:
        seen.append(config)
        folders.append(folder.redo)
        engines.append(executor)
        _stands_in(0.1)(folder, inputs, config, executor, upto)
        raise NothingPlacedError("nothing to add to the scene")

    folders: list[bool] = []
    engines: list[Executor] = []
    monkeypatch.setattr(pipeline, "run", run)
    monkeypatch.setattr(commands, "missing_for_cuda", lambda: None)  # as if there were a GPU
    monkeypatch.setattr(
        dataset_runs, "executor_of", lambda workers, engine: Threads(workers) if engine == "ray" else None
    )
    words = ["--out", str(tmp_path / "runs"), "--upto", "anchors", "--workers", "3", "--engine", "ray", "--redo"]
    choices = ["anchors.paper.matcher:light-glue", "anchors.paper.descriptor:mega-loc"]
    assert main(["dataset", "run", str(tmp_path / "scene"), *words, "--anchors.route", "paper", *choices]) == 0
    (held,) = seen
    assert held.anchors.route == "paper" and isinstance(held.anchors.paper.matcher, LightGlue)
    assert held.anchors.paper.descriptor == MegaLoc() and folders == [True] and engines == [Threads(3)]
    assert held.geometry == pipeline.GPU.geometry and held.scene.device == "cuda"  # the default is the paper, on CUDA
    assert held.scene.update == pipeline.PAPER.scene.update
    assert held.sequence.cut == SubmapConfig(50, 6, join_boundaries=False)
    assert pipeline.read_settings(tmp_path / "runs/ground") == held, "ablate and report know how it was made"


@pytest.mark.parametrize("word", ["--sequence.cut.group-size", "--sequence.camera", "--sequence.camera=f=9"])
def test_what_the_scene_says_is_no_option(word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dataset", "run", str(tmp_path), "--out", "x", word, "4"]) == 2
    assert "the scene says that itself" in capsys.readouterr().err


def test_walks_are_pooled_by_their_frames() -> None:
    both = protocols.pooled_poses([PoseMetrics(3, 4, 0.1, 0.2, None), PoseMetrics(1, 6, 0.5, None, None)])
    assert (both.registered, both.total, both.rpe_r_deg) == (4, 10, None)
    assert both.ate_m == pytest.approx(np.sqrt((3 * 0.01 + 0.25) / 4)) and both.rpe_t_m == pytest.approx(0.2)


def test_a_protocol_is_the_same_when_read_again(tmp_path: Path) -> None:
    joint = _joint(tmp_path / "joint", lambda k: f"a/{k}.jpg", lambda k: f"g/{k}.jpg")
    made: Protocol = split_model(joint, None, tmp_path / "s", "x", SplitConfig(Choice(("a/*",), ("g/*",)), 50))
    assert protocols.read_protocol(tmp_path / "s") == made
