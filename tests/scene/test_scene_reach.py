"""What an update is about: the photos that see the walk, and the Gaussians that its views may show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from update_world import CAMERA, UP, World, inputs_of, quick

from skyanchor.events import Event
from skyanchor.gaussians.splats import Splats, concat, select, to_tensors
from skyanchor.gaussians.split import FEWEST_APART, split
from skyanchor.gaussians.views import matrix
from skyanchor.geometry import cameras, rigid
from skyanchor.scene.config import PAPER
from skyanchor.scene.patch import Change
from skyanchor.scene.reach import change_of_all, half_angle, may_show, reach_of
from skyanchor.scene.seeds import sky_radius
from skyanchor.stages.scene import taking_part
from skyanchor.types import View

FAR = np.array([400.0, 0.0, 0.0])


def named(count: int) -> tuple[View, ...]:
    return tuple(View(str(k), Path(str(k)), CAMERA, rigid.identity()) for k in range(count))


def names(views: tuple[View, ...]) -> set[int]:
    return {int(view.name) for view in views}


@given(st.integers(10, 200), st.integers(0, 1 << 30))
@settings(max_examples=60, deadline=None)
def test_a_test_view_stays_one_whoever_takes_part(count: int, seed: int) -> None:
    views, among = named(count), np.random.default_rng(seed).random(count) < 0.5
    whole, part = split(views), split(views, among=among)
    assert names(part.test) <= names(whole.test)
    assert not names(part.test) & (names(part.training) | names(part.validation))
    taken = names(part.training) | names(part.validation) | names(part.test)
    enough = (among[::8]).any() and len(set(np.flatnonzero(among)) - names(whole.test)) >= FEWEST_APART
    assert taken == (set(np.flatnonzero(among)) if enough else set(range(count)))
    assert part.validation and part.training


def test_all_views_are_split_as_without_saying_so() -> None:
    views = named(77)
    whole, same = split(views), split(views, among=np.ones(77, np.bool_))
    assert [names(part) for part in (whole.training, whole.validation, whole.test)] == [
        names(part) for part in (same.training, same.validation, same.test)
    ]


def block_beside(world: World) -> tuple[Splats, tuple[View, ...]]:
    """The model twice, the second time 400 m away, with as many photos, none of which sees the first."""
    away = replace(world.aerial, means=(world.aerial.means + FAR).astype(np.float32))
    there = tuple(replace(view, cam_from_world=shifted(view)) for view in world.aerial_views)
    return concat([world.aerial, away]), (*world.aerial_views, *there)


def shifted(view: View) -> rigid.Pose:
    pose = view.cam_from_world
    return replace(pose, translation=pose.translation - pose.rotation @ FAR)


def test_photos_of_another_block_neither_guard_nor_judge(world: World) -> None:
    splats, flight = block_beside(world)
    inputs, here = inputs_of(world), {view.name for view in world.aerial_views}
    assert len(flight) == 18
    reach = reach_of(splats, flight, world.ground_views, inputs.cloud.points.astype(np.float64))
    taking_part = (*reach.views.training, *reach.views.validation, *reach.views.test)
    assert {view.name for view in taking_part} == here and len(taking_part) == len(here)
    assert all(view in world.aerial_views for view in taking_part)
    assert reach.rows.max() < len(world.aerial) and len(reach.rows) > 0.9 * len(world.aerial)


def test_the_papers_update_is_about_all_of_the_flight(world: World) -> None:
    splats, flight = block_beside(world)
    walks, cloud, told = (split(world.ground_views),), inputs_of(world).cloud, list[Event]()
    ours, papers = (taking_part(told.append, splats, flight, walks, cloud, held) for held in (quick(), PAPER))
    counts = [sum(len(part) for part in vars(reach.views).values()) for reach in (ours, papers)]
    assert counts == [9, 18] and len(ours.rows) < len(papers.rows) == len(splats) and len(told) == 1


def test_views_show_the_same_without_what_is_out_of_reach(world: World) -> None:
    splats, flight = block_beside(world)
    reach = reach_of(splats, flight, world.ground_views, world.wall[0])
    part = to_tensors(select(splats, reach.rows))
    for view in (*reach.views.test, *reach.views.training, *world.ground_views):
        pose = matrix(view.cam_from_world, "cpu")
        every = world.engine.rasteriser.render(to_tensors(splats), view.camera, pose).rgb
        np.testing.assert_array_equal(world.engine.rasteriser.render(part, view.camera, pose).rgb, every)


def test_a_model_that_the_walk_sees_whole_is_taken_whole(world: World) -> None:
    reach = reach_of(world.aerial, world.aerial_views, world.ground_views, world.wall[0] * [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(reach.rows, np.arange(len(world.aerial)))


def test_large_gaussians_beside_a_picture_may_show(world: World) -> None:
    view = View("one", Path("one"), CAMERA, rigid.look_at(np.zeros(3), np.array([0.0, 10.0, 0.0]), UP))
    small = replace(select(world.aerial, slice(0, 1)), means=np.array([[30.0, 10.0, 0.0]], np.float32))
    large = replace(small, log_scales=np.full((1, 3), np.log(6.0), np.float32))
    behind = replace(small, means=np.array([[0.0, -10.0, 0.0]], np.float32))
    assert [may_show(one, (view,)).item() for one in (small, large, behind)] == [False, True, False]


@pytest.mark.parametrize("model", ["PINHOLE", "OPENCV"])
def test_the_cone_holds_all_corners(model: str) -> None:
    distortion = (-0.1, 0.02, 0.0, 0.0) if model == "OPENCV" else ()
    camera = cameras.Camera(model, 640, 480, (500.0, 500.0, 300.0, 240.0, *distortion))
    corners = cameras.unproject(camera, np.array([[0.0, 0.0], [640.0, 0.0], [0.0, 480.0], [640.0, 480.0]]))
    angles = np.arctan(np.linalg.norm(corners[:, :2], axis=1))
    assert half_angle(camera) >= angles.max() - 1e-12 and half_angle(camera) < 1.3 * angles.max()


def test_a_change_in_reach_leaves_all_others(world: World) -> None:
    splats, flight = block_beside(world)
    reach = reach_of(splats, flight, world.ground_views, world.wall[0])
    part = select(splats, reach.rows)
    raised = replace(part, means=part.means + np.float32(1.0))
    moved = np.arange(len(part)) % 2 == 0
    change = change_of_all(Change(raised, moved, ~moved, select(splats, slice(0, 3))), splats, reach)
    assert len(change.aerial) == len(splats) == len(change.moved) == len(change.hidden)
    np.testing.assert_array_equal(change.aerial.means[reach.rows], raised.means)
    others = np.setdiff1d(np.arange(len(splats)), reach.rows)
    np.testing.assert_array_equal(change.aerial.means[others], splats.means[others])
    assert not change.moved[others].any() and not change.hidden[others].any()
    assert change.moved.sum() == moved.sum() and change.hidden.sum() == (~moved).sum()


def test_the_sky_lies_beyond_cameras_that_do_not_see_the_walk(world: World) -> None:
    inputs, config = inputs_of(world), quick(sky_radius=0.1)
    assert sky_radius(replace(inputs, flight=FAR[None]), config) > 3.0 * 390.0 > sky_radius(inputs, config)
