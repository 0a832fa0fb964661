"""The scene stage in a run folder: files, figures, and a patch that comes off again byte for byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from update_world import CAMERA, UP, World, quick

from skyanchor.events import SCAFFOLD, TRAJECTORY
from skyanchor.gaussians.ply import read_bytes, read_splats, write_ply
from skyanchor.gaussians.splats import concat, select
from skyanchor.gaussians.split import Split
from skyanchor.report.scene_folder import scene_figures
from skyanchor.run import prepared as parts
from skyanchor.run import records
from skyanchor.run.executor import InProcess
from skyanchor.run.folder import RunFolder, Stage
from skyanchor.run.layout import OF_A_SCAFFOLD
from skyanchor.run.prepared import Prepared
from skyanchor.run.records import PATCH_FILE, SCENE_FILE, UPDATED_PLY, SceneRecord
from skyanchor.scene.ground_points import GroundPointConfig
from skyanchor.scene.patch import load_patch, remove_patch
from skyanchor.stages import scene
from skyanchor.stages.masks import without_contradicted
from skyanchor.stages.scene import SceneConfig
from skyanchor.stages.work import Site, Work
from skyanchor.stereo import StereoConfig
from skyanchor.storage import files
from skyanchor.types import (
    Frame,
    Georeference,
    Plane,
    PosedFrame,
    Scaffold,
    Sequence,
    Support,
    Tracks,
    Trajectory,
)

MOVED = np.array([300.0, -120.0, 40.0])
"""From the local frame to that of the aerial files, metres."""


@pytest.fixture(scope="module")
def scaffold(world: World, tmp_path_factory: pytest.TempPathFactory) -> Scaffold:
    """The .ply lies 300 m from the local frame, and one of its rows is no Gaussian."""
    aerial = tmp_path_factory.mktemp("aerial") / "aerial.ply"
    means = (world.aerial.means + MOVED).astype(np.float32)
    broken = replace(select(world.aerial, slice(0, 1)), means=np.full((1, 3), np.nan, np.float32))
    write_ply(aerial, concat([broken, replace(world.aerial, means=means)]))
    nothing = Tracks(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 2)))
    points = world.whole.means[::10].astype(np.float64)
    return Scaffold(
        aerial.parent, world.aerial_views, points, np.zeros((len(points), 3), np.uint8), np.arange(len(points)),
        nothing, UP, Plane(UP, 0.0), Georeference(MOVED), aerial,
    )  # fmt: skip


def walk(world: World) -> Sequence:
    frames = tuple(Frame(k, view.name, view.path) for k, view in enumerate(world.ground_views))
    return Sequence(world.ground_views[0].path.parent, frames, CAMERA, False, (), ())


def posed(run: RunFolder, world: World) -> Stage:
    frames = tuple(
        PosedFrame(k, Support.KEYFRAME, view.cam_from_world, 50, 0.01) for k, view in enumerate(world.ground_views)
    )
    points = world.wall[0]
    tracks = Tracks(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 2)))
    stage = run.stage(TRAJECTORY, "poses", {}, {})
    trajectory = Trajectory(frames, CAMERA, points, world.wall[1], tracks)
    names = tuple(view.name for view in world.ground_views)
    record, held = records.split(names, Georeference(np.zeros(3)), trajectory)
    stage.save(records.TRAJECTORY_FILE, record)
    stage.save(records.POINTS_FILE, held)
    stage.finish()
    return stage


def measured(root: Path) -> Prepared:
    """A scaffold with no depth of its photos: nothing is known to be free space."""
    with RunFolder(root, part_of=SCAFFOLD, layout=OF_A_SCAFFOLD) as folder:
        folder.stage(parts.DEPTH, "none", {}, {}).finish()
    return Prepared(root)


def test_scene_stage_end_to_end(
    world: World, scaffold: Scaffold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watched(stage: Stage, views: Split, *rest: object) -> tuple[Split, float]:
        found, share = without_contradicted(stage, views, *rest)  # type: ignore[arg-type]
        assert share == 0.0 and vars(found) == vars(views), "nothing moves here"
        return found, 0.25

    monkeypatch.setattr(scene, "without_contradicted", watched)
    points = GroundPointConfig(stereo=StereoConfig(width=64), least_motion=0.3, baselines=(0.4, 0.8))
    short = quick(joint=None)
    shorter = replace(short, insertion=replace(short.insertion, iterations=20))
    config = SceneConfig(points=points, update=shorter, device="cpu")
    with RunFolder(tmp_path / "run") as run:
        above, site = posed(run, world), Site(scaffold, measured(tmp_path / "scaffold"), InProcess())
        work = Work(run, site, walk(world), InProcess())
        stage = scene.run(work, config, above)
        written = stage.path(UPDATED_PLY).stat().st_mtime_ns
        assert scene.run(work, config, above).path(UPDATED_PLY).stat().st_mtime_ns == written
    record = stage.load(SCENE_FILE, SceneRecord)
    assert record.added > 100 and record.aerial == len(world.aerial)
    assert record.contradicted == 0.25 and "contradicted" in str(scene_figures(record)["splats"])
    assert record.after.ground_psnr > record.before.ground_psnr + 1.0
    updated = read_splats(stage.path(UPDATED_PLY))
    assert len(updated) == record.aerial + record.added
    np.testing.assert_array_equal(record.base.moved, MOVED)
    assert record.base.path == Path("aerial.ply")
    local = record.base.at(stage.path(UPDATED_PLY)).read()
    np.testing.assert_allclose(local.means[: record.aerial], world.aerial.means, atol=1e-4)
    np.testing.assert_allclose(updated.means - MOVED, local.means, atol=1e-3)
    assert np.abs(np.median(local.means[record.aerial :], axis=0) - np.median(world.wall[0], axis=0)).max() < 3.0
    base = scaffold.splats_path
    assert base is not None
    remove_patch(read_bytes(stage.path(UPDATED_PLY)), load_patch(stage.path(PATCH_FILE)), tmp_path / "back.ply")
    assert (tmp_path / "back.ply").read_bytes() == base.read_bytes()
    for kind in ("aerial", "ground"):
        names = [
            {path.name for path in stage.path(f"test/{kind}/{part}").glob("*.png")}
            for part in ("photo", "before", "render")
        ]
        assert names[0] and names[0] == names[1] == names[2]
    assert not stage.path("progress").exists()
    spent = files.load(tmp_path / "run" / records.SCENE_SECONDS_FILE, records.SceneSeconds).seconds
    assert {"street depth", "free space", "first Gaussians", "training", "scores", "patch", "pictures"} < set(spent)
    assert spent["total"] == pytest.approx(sum(spent.values()) / 2)


def test_a_walk_changes_nothing_of_a_block_that_its_views_do_not_show(
    world: World, scaffold: Scaffold, tmp_path: Path
) -> None:
    """Though every aerial Gaussian is free, those 400 m away keep their bytes and take no part; all are written."""
    away = np.array([400.0, 0.0, 0.0])
    whole = concat([world.aerial, replace(world.aerial, means=(world.aerial.means + away).astype(np.float32))])
    write_ply(tmp_path / "both.ply", whole)
    there = tuple(
        replace(view, cam_from_world=replace(pose, translation=pose.translation - pose.rotation @ away))
        for view in world.aerial_views
        for pose in [view.cam_from_world]
    )
    both = replace(
        scaffold,
        views=(*world.aerial_views, *there),
        splats_path=tmp_path / "both.ply",
        georef=Georeference(np.zeros(3)),
    )
    points = GroundPointConfig(stereo=StereoConfig(width=64), least_motion=0.3, baselines=(0.4, 0.8))
    short = quick(refined="all", most_aerial_loss_db=100.0)
    assert short.joint is not None
    few = replace(short, insertion=replace(short.insertion, iterations=5), joint=replace(short.joint, iterations=5))
    told: list[str] = []
    with RunFolder(tmp_path / "run", listen=lambda event: told.append(str(event))) as run:
        above, site = posed(run, world), Site(both, measured(tmp_path / "scaffold"), InProcess())
        stage = scene.run(
            Work(run, site, walk(world), InProcess()), SceneConfig(points, update=few, device="cpu"), above
        )
    changed = load_patch(stage.path(PATCH_FILE)).changed
    assert len(changed) > 100 and changed.max() < len(world.aerial)
    assert stage.load(SCENE_FILE, SceneRecord).aerial == len(whole)
    assert any("of 18 aerial photos see the walk" in line for line in told)
