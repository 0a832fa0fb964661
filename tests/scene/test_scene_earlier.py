"""A second walk in a scene that holds a first one: whose photos guard and judge it, and whose patch comes off alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from PIL import Image
from test_scene_stage import MOVED, measured, posed, scaffold, walk
from update_world import GAIN, World, inputs_of, quick, traced_depth

from skyanchor.events import Event
from skyanchor.gaussians.ply import read_bytes
from skyanchor.gaussians.seeding import splats_from_cloud
from skyanchor.gaussians.splats import concat, owned, to_tensors, with_sh_degree
from skyanchor.gaussians.split import split
from skyanchor.photos import PhotoCache
from skyanchor.run import records
from skyanchor.run.earlier import EarlierRun
from skyanchor.run.executor import InProcess
from skyanchor.run.folder import STATE, RunFolder
from skyanchor.run.inputs import Inputs
from skyanchor.run.records import PATCH_FILE, SCENE_FILE, UPDATED_PLY, SceneRecord
from skyanchor.run.results import Run
from skyanchor.scene import patch as patches
from skyanchor.scene.config import UpdateConfig
from skyanchor.scene.earlier import EarlierViews, found_exposures, galleries, guard_pool, held_already
from skyanchor.scene.ground_points import GroundPointConfig
from skyanchor.scene.inputs import UpdateInputs
from skyanchor.scene.schedule import CurvePoint, Phase, _is_good
from skyanchor.scene.scoring import Judge, Quality, WalkQuality, losses
from skyanchor.scene.seeds import ground_seeds
from skyanchor.scene.since import otherwise
from skyanchor.scene.update import _spoilt, update_scene
from skyanchor.stages import scene
from skyanchor.stages.scene import SceneConfig
from skyanchor.stages.since import differences_since
from skyanchor.stages.work import Site, Work
from skyanchor.stereo import DepthFolder, StereoConfig
from skyanchor.storage import files
from skyanchor.types import Cloud, Scaffold

__all__ = ["scaffold"]


def first_walk(world: World) -> EarlierViews:
    return EarlierViews("first", split(world.ground_views, 4))


def of(aerial: float, *walks: float) -> Quality:
    return Quality(aerial, 0.9, 20.0, 0.8, 20.0, tuple(WalkQuality(f"w{k}", psnr, 0.9) for k, psnr in enumerate(walks)))


def test_exposures_are_found_on_the_scene_as_it_is(world: World) -> None:
    walk = first_walk(world)
    (maps,) = found_exposures((walk,), world.whole, 64, world.engine, PhotoCache())
    assert maps.shape == (len(walk.views.training), 3, 4)
    np.testing.assert_allclose(np.einsum("vii->vi", maps[:, :, :3]), GAIN, atol=0.03)
    assert found_exposures((), world.whole, 64, world.engine, PhotoCache()) == ()


def test_an_earlier_walk_is_scored_through_its_own_exposures(world: World) -> None:
    walk, street = first_walk(world), split(world.ground_views, 4)
    maps = found_exposures((walk,), world.whole, 64, world.engine, PhotoCache())
    hung = galleries((walk,), maps, "test", 5, "cpu")
    judge = Judge((), (), street.training, 64, world.engine, PhotoCache(), earlier=hung)
    whole, bare = (judge.quality(to_tensors(one), None).earlier for one in (world.whole, world.aerial))
    assert whole[0].name == "first" and whole[0].psnr > 28.0 > bare[0].psnr + 5.0
    rows = guard_pool((walk,), 5, 4.0, exposures=True)
    assert [one.exposure for one in rows] == list(range(5, 5 + len(walk.views.training)))
    assert {one.weight for one in rows} == {4.0}


def wall(count: int, y: float) -> Cloud:
    """Points of a wall, 4 cm apart."""
    x, z = (axis.ravel() for axis in np.meshgrid(np.arange(count) * 0.04, np.arange(count) * 0.04))
    points = np.stack([x, np.full_like(x, y), z], axis=1).astype(np.float32)
    normals = np.tile(np.array([0, -1, 0], np.float32), (len(points), 1))
    return Cloud(points, normals, np.full((len(points), 3), 120, np.uint8), np.full(len(points), 0.04, np.float32))


def test_a_later_walk_seeds_what_is_new_and_not_the_wall_that_is_there() -> None:
    first = owned(splats_from_cloud(wall(20, 5.0)), 1)
    assert held_already(wall(20, 5.03), first).all()  # two walks are never off by nothing
    assert not held_already(wall(20, 4.6), first).any()
    assert not held_already(wall(20, 5.03), owned(first, 0)).any(), "what the flight shows is blurred from the street"
    far_apart = replace(wall(20, 4.6), spacing=np.full(400, 0.3, np.float32))
    assert not held_already(far_apart, first).any(), (
        "a thing before the wall is not the wall, however few points it has"
    )
    coarse = replace(first, log_scales=first.log_scales + np.float32(np.log(6.0)))
    assert not held_already(wall(20, 5.03), coarse).any()


def test_the_second_update_adds_less_where_the_first_has_been(world: World) -> None:
    inputs = inputs_of(world)
    street = splats_from_cloud(inputs.cloud)
    there = replace(inputs, aerial=concat([inputs.aerial, owned(with_sh_degree(street, inputs.aerial.sh_degree), 1)]))
    config, none = replace(quick(), sky_radius=0.0), np.eye(3, 4)
    alone = len(ground_seeds(there, none, (), config))
    again = len(ground_seeds(replace(there, earlier=(first_walk(world),)), none, (), config))
    assert alone == len(ground_seeds(inputs, none, (), config)) > 100 and again < 0.1 * alone


def test_a_refinement_that_spoils_an_earlier_walk_is_rolled_back() -> None:
    start = of(30.0, 28.0, 27.0)
    assert _spoilt(start, of(30.0, 27.95, 27.2), 0.1) is None
    assert _spoilt(start, of(30.0, 28.0, 26.8), 0.1) == "0.20 dB of the earlier walk w1"
    assert _spoilt(start, of(29.7, 27.85, 27.0), 0.1) == "0.30 dB from the air", "the worst of it"


def test_a_checkpoint_is_kept_only_while_every_earlier_walk_is_held() -> None:
    phase = Phase("joint", quick().insertion, 10, 0, 0.0, 29.9, (27.9,))
    good, bad = (CurvePoint("joint", 10, of(30.0, psnr)) for psnr in (28.0, 27.8))
    assert _is_good(good, phase) and not _is_good(bad, phase)


def test_photos_of_an_earlier_walk_guard_the_scene(world: World, tmp_path: Path) -> None:
    """The second walk's photos are black, and its new Gaussians stand before the wall that the first one shows."""
    black = []
    for view in world.ground_views:
        Image.fromarray(np.zeros((48, 64, 3), np.uint8)).save(tmp_path / view.name)
        black.append(replace(view, path=tmp_path / view.name))
    inputs = replace(inputs_of(world), aerial=world.whole, ground_views=split(tuple(black), 4))
    inputs = replace(inputs, earlier=(first_walk(world),))
    short = quick(joint=None, exposures=False, finer_views=0, guard_pictures=0, most_aerial_loss_db=np.inf)
    guarded, loose = (
        update_scene(inputs, replace(short, earlier_weight=weight), world.engine) for weight in (8.0, 0.0)
    )
    lost = [one.before.earlier[0].psnr - one.after.earlier[0].psnr for one in (guarded, loose)]
    assert lost[0] < lost[1] - 1.0 and guarded.left_out == loose.left_out == 0
    assert_kept_within_the_limit(inputs, replace(short, earlier_weight=0.0, most_aerial_loss_db=0.1), world)


def assert_kept_within_the_limit(inputs: UpdateInputs, config: UpdateConfig, world: World) -> None:
    """Whatever an insertion does to an earlier walk, the update as a whole costs it no more than the limit."""
    told: list[Event] = []
    found = update_scene(inputs, config, world.engine, told.append)
    assert max(losses(found.start.guarded, found.end.guarded)) <= 0.1
    assert found.before.earlier[0].psnr - found.after.earlier[0].psnr < 0.3, "test views had no say"
    assert found.left_out > 0 and not found.change.moved.any()
    assert any("new Gaussians, those that guarded views show most, are left out" in str(event) for event in told)
    none = update_scene(inputs, replace(config, most_aerial_loss_db=0.0), world.engine)
    assert none.end.guarded >= none.start.guarded and none.left_out > found.left_out


def updated(
    root: Path,
    world: World,
    held: Scaffold,
    earlier: tuple[EarlierRun, ...],
    seeds: Literal["dense", "tracks"] = "dense",
) -> EarlierRun:
    """A run whose stage 4 was made on earlier ones."""
    points = GroundPointConfig(stereo=StereoConfig(width=64), least_motion=0.3, baselines=(0.4, 0.8))
    short = quick(joint=None, floaters=None, seeds=seeds)
    config = SceneConfig(points=points, update=replace(short, insertion=replace(short.insertion, iterations=6)))
    with RunFolder(root) as run:
        site = Site(held, measured(root / "1-scaffold"), InProcess())
        sequence = walk(world)
        files.save(root / STATE / records.SEQUENCE_FILE, sequence)
        files.save(root / STATE / "inputs.json", Inputs(held.root, sequence.root))
        scene.run(Work(run, site, sequence, InProcess(), earlier), replace(config, device="cpu"), posed(run, world))
    return EarlierRun(root.name, Run(root))


def poses_alone(root: Path, world: World) -> EarlierRun:
    """A run that came no farther than its trajectory: nothing of it is in the scene."""
    with RunFolder(root) as run:
        posed(run, world)
    return EarlierRun(root.name, Run(root))


def test_two_walks_and_the_first_patch_comes_off_again(world: World, scaffold: Scaffold, tmp_path: Path) -> None:
    first = updated(tmp_path / "june", world, scaffold, (poses_alone(tmp_path / "may", world),))
    second = updated(tmp_path / "july", world, scaffold, (first,), "tracks")  # dense ones are there already
    base = scaffold.splats_path
    assert base is not None
    one, two = (patches.load_patch(found.run.root / "4-scene" / PATCH_FILE) for found in (first, second))
    top = read_bytes(tmp_path / "july/4-scene" / UPDATED_PLY)
    assert [layer.name for layer in patches.layers(top)][1:] == [one.name, two.name] and one.name != two.name
    assert set(patches.owners(top).tolist()) == {0, 1, 2}
    patches.remove_patch(top, one, tmp_path / "without-june.ply")
    patches.apply_patch(read_bytes(base), two, tmp_path / "july-alone.ply")
    assert (tmp_path / "without-june.ply").read_bytes() == (tmp_path / "july-alone.ply").read_bytes()
    patches.remove_patch(read_bytes(tmp_path / "without-june.ply"), two, tmp_path / "bare.ply")
    assert (tmp_path / "bare.ply").read_bytes() == base.read_bytes()
    patches.remove_patch(top, two, tmp_path / "june.ply")
    assert (tmp_path / "june.ply").read_bytes() == (tmp_path / "june/4-scene" / UPDATED_PLY).read_bytes()
    record = files.load(tmp_path / "july/4-scene" / SCENE_FILE, SceneRecord)
    assert [walk.name for walk in record.before.earlier] == ["june"] and record.base.moved.tolist() == MOVED.tolist()
    assert record.end is not None and max(losses(record.start.guarded, record.end.guarded)) <= 0.1
    assert record.after.earlier[0].psnr > record.before.earlier[0].psnr - 0.1
    assert first.run.scene.before.earlier == ()


def test_the_depth_of_an_earlier_walk_beside_this_one_is_measured(
    world: World, scaffold: Scaffold, tmp_path: Path
) -> None:
    """Nothing is another way between two walks of one day; of a walk elsewhere nothing is measured."""
    earlier = poses_alone(tmp_path / "june", world)
    files.save(tmp_path / "june" / STATE / records.SEQUENCE_FILE, walk(world))
    files.save(tmp_path / "june" / STATE / "inputs.json", Inputs(scaffold.root, walk(world).root))
    points = GroundPointConfig(stereo=StereoConfig(width=64), least_motion=0.3, baselines=(0.4, 0.8))
    maps = [traced_depth(view, False) for view in split(world.ground_views).training]
    pose = maps[0].cam_from_world
    away = [replace(maps[0], cam_from_world=replace(pose, translation=pose.translation + 200.0))]
    with RunFolder(tmp_path / "july") as run:
        site = Site(scaffold, measured(tmp_path / "july/1-scaffold"), InProcess())
        work = Work(run, site, walk(world), InProcess(), (earlier,))
        stage, nothing = run.stage("4-scene", "depth", {}, {}), DepthFolder(tmp_path, ())
        flight, june = differences_since(stage, work, world.ground_views, maps, nothing, points, quick())
        elsewhere = differences_since(stage, work, world.ground_views, away, nothing, points, quick())
        none = differences_since(stage, work, world.ground_views, maps, nothing, points, quick(vanished=None))
    assert not len(flight.depth) and len(june.depth) > 4 and not len(otherwise(june))
    assert {one.name for one in june.depth} <= {one.name for one in maps}, "test views decide nothing"
    assert len(elsewhere[1].depth) == 0 and none == ()


@pytest.mark.slow
def test_a_walk_that_finds_everything_there_adds_nothing(world: World, scaffold: Scaffold, tmp_path: Path) -> None:
    first = updated(tmp_path / "june", world, scaffold, ())
    again = updated(tmp_path / "july", world, scaffold, (first,))
    assert first.run.scene.added > 100 > again.run.scene.added
