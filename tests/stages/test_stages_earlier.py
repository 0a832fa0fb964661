"""Which runs a later walk may stand on, what it takes from them, and that their poses and photos are in its recipe."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import paper_street
import pytest
import report_run

from skyanchor.anchors.earlier_walks.keyframes import EarlierWalks
from skyanchor.errors import InputError
from skyanchor.events import SCAFFOLD
from skyanchor.matching import Features, Sift
from skyanchor.run import prepared as parts
from skyanchor.run import records
from skyanchor.run.executor import InProcess
from skyanchor.run.folder import STATE, RunFolder
from skyanchor.run.inputs import Inputs
from skyanchor.run.layout import OF_A_SCAFFOLD
from skyanchor.run.prepared import Prepared
from skyanchor.scaffold import load_scaffold
from skyanchor.sequence import SequenceConfig, load_sequence
from skyanchor.stages.digests import aerial_digests
from skyanchor.stages.earlier import describe_walks, earlier_digests, earlier_runs
from skyanchor.stages.work import Site
from skyanchor.storage import files


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("street")
    paper_street.write_scene(root, report_run.FRAMES)
    return root


def located(scene: Path, root: Path, onto: tuple[Path, ...] = ()) -> Path:
    """A run up to its trajectory, standing on others."""
    report_run.begin(scene, root)
    files.save(root / STATE / "inputs.json", Inputs(scene / "aerial", scene / "ground", onto=onto))
    sequence = load_sequence(scene / "ground", SequenceConfig(camera="f=230"), root / "frames")
    files.save(root / STATE / records.SEQUENCE_FILE, sequence)
    with RunFolder(root / SCAFFOLD, part_of=SCAFFOLD, layout=OF_A_SCAFFOLD) as folder:
        folder.stage(parts.DEPTH, "depth", {}, aerial_digests(folder, load_scaffold(scene / "aerial"))).finish()
    report_run.add_anchors(scene, root, (True, True))
    report_run.add_trajectory(root)
    return root


def site(scene: Path) -> Site:
    return Site(load_scaffold(scene / "aerial"), Prepared(scene / "prepared"), InProcess())


def test_runs_come_in_order_each_after_those_it_stands_on(scene: Path, tmp_path: Path) -> None:
    first = located(scene, tmp_path / "a/walk")
    second = located(scene, tmp_path / "b/walk", (first.resolve(),))
    with RunFolder(tmp_path / "new") as folder:
        found = earlier_runs(folder, (second, first), site(scene))
        assert [one.run.root for one in found] == [first.resolve(), second.resolve()]
        assert [one.name for one in found] == ["walk-1", "walk-2"]
        keyframes = found[0].keyframes
        assert len(keyframes) == report_run.FRAMES and keyframes[3].sigma_m == 0.04 and keyframes[3].walk == "walk-1"
        np.testing.assert_array_equal(keyframes[3].view.cam_from_world.rotation, paper_street.walk(12)[3].rotation)
        assert earlier_runs(folder, (), site(scene)) == ()


def test_their_poses_and_photos_are_in_the_recipe(scene: Path, tmp_path: Path) -> None:
    copy = tmp_path / "scene"
    shutil.copytree(scene, copy)
    run = located(copy, tmp_path / "run")
    with RunFolder(tmp_path / "new") as folder:
        before = earlier_digests(folder, earlier_runs(folder, (run,), site(copy)))
        assert list(before) == ["onto-1"] and earlier_digests(folder, ()) == {}
        photo = copy / "ground/images/g003.png"
        shutil.copy(copy / "ground/images/g004.png", photo)
        assert earlier_digests(folder, earlier_runs(folder, (run,), site(copy))) != before


def test_a_run_that_cannot_support_is_refused(scene: Path, tmp_path: Path) -> None:
    run = located(scene, tmp_path / "run")
    with RunFolder(tmp_path / "new") as folder:
        with pytest.raises(InputError, match="is no run folder"):
            earlier_runs(folder, (tmp_path / "nothing",), site(scene))
        with pytest.raises(InputError, match="would stand on itself"):
            earlier_runs(folder, (folder.root,), site(scene))
        other = tmp_path / "other"
        shutil.copytree(scene, other)
        shutil.copy(other / "aerial/images/a000.png", other / "aerial/images/a001.png")
        with pytest.raises(InputError, match="stands on another aerial model"):
            earlier_runs(folder, (run,), site(other))
        moved = load_scaffold(scene / "aerial")
        moved = replace(moved, georef=replace(moved.georef, offset=np.array([500.0, 0.0, 0.0])))
        with pytest.raises(InputError, match="stands on another aerial model"):
            earlier_runs(folder, (run,), replace(site(scene), scaffold=moved))


def test_keyframes_are_described_once_as_groups_are(scene: Path, tmp_path: Path) -> None:
    run, choice = located(scene, tmp_path / "run"), Sift(keypoints=200)
    with RunFolder(tmp_path / "new") as folder:
        stage = folder.stage("2-anchors", "places", {}, {})
        assert describe_walks(stage, (), choice, InProcess()) is None
        path = describe_walks(stage, earlier_runs(folder, (run,), site(scene)), choice, InProcess())
    assert path is not None
    walks = files.load(path, EarlierWalks)
    assert len(walks.keyframes) == len(walks.features) == len(walks.looks) == report_run.FRAMES
    assert 50 < len(files.load(walks.features[5], Features)) <= 200
    likeness = walks.looks @ walks.looks.T
    assert (likeness[np.arange(11), np.arange(1, 12)] > likeness[0, 11]).all()
