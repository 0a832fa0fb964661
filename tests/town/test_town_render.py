"""The ray caster against known truth: level ground, two views of one scene, a slow twin without a tree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skyanchor.geometry import cameras, rigid
from skyanchor.town import Epoch, Town, render, render_colour, render_depth
from skyanchor.town.layout import way_point
from skyanchor.types import Camera, Floats, Pose

UP = np.array([0.0, 0.0, 1.0])


def street_view(town: Town, row: float = 0.2) -> tuple[Camera, Pose]:
    a, b = way_point(town.layout, 0.0, row), way_point(town.layout, 0.0, row + 0.4)
    eye = np.array([*a, town.layout.height(*a) + 1.7])
    return cameras.pinhole(160, 90, 114.0), rigid.look_at(eye, np.array([*b, eye[2] + 0.8]), UP)


def oblique_view(town: Town, side: float) -> tuple[Camera, Pose]:
    target = way_point(town.layout, 0.0, 0.5)
    eye = np.array([target[0] + side, target[1] - 30.0, 42.0])
    return cameras.pinhole(200, 150, 190.0), rigid.look_at(eye, np.array([*target, 0.0]), UP)


def points_of(camera: Camera, depth: Floats) -> Floats:
    """(H*W, 3) in camera axes."""
    x, y = np.meshgrid(np.arange(camera.width) + 0.5, np.arange(camera.height) + 0.5)
    rays = cameras.unproject(camera, np.stack([x.ravel(), y.ravel()], axis=1))
    return rays * depth.reshape(-1, 1)


def test_road_is_where_the_plan_says(tiny_town: Town) -> None:
    at = way_point(tiny_town.layout, 0.0, 0.5)
    eye = np.array([*at, 30.0])
    pose = rigid.look_at(eye, eye - UP, np.array([0.0, 1.0, 0.0]))
    camera = cameras.pinhole(3, 3, 300.0)  # 20 cm of road
    depth = render_depth(tiny_town, camera, pose, Epoch.LATER)
    points = pose.inverse(points_of(camera, depth))
    expected = np.array([tiny_town.layout.height(x, y) for x, y, _ in points])
    assert np.abs(points[:, 2] - expected).max() < 1e-4


def test_two_views_agree(tiny_town: Town) -> None:
    (camera, a), (_, b) = oblique_view(tiny_town, -6.0), oblique_view(tiny_town, 6.0)
    depth_a = render_depth(tiny_town, camera, a, Epoch.AERIAL)
    depth_b = render_depth(tiny_town, camera, b, Epoch.AERIAL)
    world = a.inverse(points_of(camera, depth_a)[depth_a.ravel() > 0])
    in_b = b(world)
    xy = cameras.project(camera, in_b)
    inside = (xy > 1).all(axis=1) & (xy[:, 0] < camera.width - 1) & (xy[:, 1] < camera.height - 1)
    column, row = xy[inside].astype(int).T
    # the nearest of the four pixels around, so that slanted surfaces do not count as gaps
    seen = np.stack([depth_b[row + dy, column + dx] for dy in (-1, 0, 1) for dx in (-1, 0, 1)])
    behind = in_b[inside, 2] - seen
    agree = np.abs(behind).min(axis=0) < 0.35
    through = (behind < -0.35).all(axis=0)  # b sees farther than a surface that a saw: there must be none
    assert inside.sum() > 10_000
    assert agree.mean() > 0.8
    assert through.mean() < 0.003


def test_tree_of_boxes_misses_nothing(tiny_town: Town) -> None:
    """A twin whose tree is one leaf with every solid in it draws the same picture."""
    geometry = tiny_town.geometry
    count = len(geometry.shapes)
    wide = np.array([-1e4, -1e4, -1e4, 1e4, 1e4, 1e4], np.float32)
    nodes = np.stack(
        [np.where([o >> (k % 3) & 1 for k in range(6)], wide[[3, 4, 5, 0, 1, 2]], wide)[None] for o in range(8)]
    )
    links = np.tile(np.array([1, 0, count]), (8, 1, 1))
    slow = replace(tiny_town, geometry=geometry._replace(nodes=nodes.astype(np.float32), links=links))
    camera, pose = street_view(tiny_town)
    small = cameras.scaled(camera, 40)
    for got, expected in zip(
        render(tiny_town, small, pose, Epoch.GROUND), render(slow, small, pose, Epoch.GROUND), strict=True
    ):
        assert np.mean(np.isclose(got, expected, atol=1e-5)) > 0.999


def test_street_has_sky_houses_and_road(tiny_town: Town) -> None:
    camera, pose = street_view(tiny_town)
    colour, depth = render(tiny_town, camera, pose, Epoch.GROUND)
    assert 0.03 < np.mean(depth == 0.0) < 0.5
    assert np.isfinite(colour).all()
    assert colour.min() >= 0.0
    below = depth[-1]
    assert 1.5 < np.median(below[below > 0]) < 12.0


def test_windows_are_recessed(tiny_town: Town) -> None:
    """Seen square on, a facade has a second level some 0.2 m behind its plane."""
    a, b = way_point(tiny_town.layout, 0.0, 0.45), way_point(tiny_town.layout, 0.0, 0.55)
    along = (b - a) / np.linalg.norm(b - a)
    across = np.array([-along[1], along[0]])
    eye = np.array([*a, 5.0])
    pose = rigid.look_at(eye, eye + np.array([*across, 0.0]), UP)
    depth = render_depth(tiny_town, cameras.pinhole(240, 160, 200.0), pose, Epoch.GROUND)
    wall = tiny_town.layout.plan.half_width + tiny_town.layout.plan.pavement
    on_wall = np.abs(depth - wall) < 0.03
    recessed = (depth > wall + 0.15) & (depth < wall + 0.25)
    assert on_wall.mean() > 0.2
    assert 0.02 < recessed.mean() < 0.5


@pytest.mark.parametrize("epoch", [Epoch.GROUND, Epoch.LATER])
def test_some_things_come_and_go(tiny_town: Town, epoch: Epoch) -> None:
    camera, pose = oblique_view(tiny_town, 0.0)
    before = render_depth(tiny_town, camera, pose, Epoch.AERIAL)
    after = render_depth(tiny_town, camera, pose, epoch)
    changed = np.mean(np.abs(before - after) > 0.05)
    assert 0.0005 < changed < 0.1


def test_colour_changes_little_between_near_views(tiny_town: Town) -> None:
    """Texture belongs to the surface: the same ground points have the same colour from two heights."""
    at = way_point(tiny_town.layout, 0.0, 0.5)
    shown = []
    for height in (20.0, 24.0):
        eye = np.array([*at, height])
        pose = rigid.look_at(eye, eye - UP, np.array([0.0, 1.0, 0.0]))
        camera = cameras.pinhole(60, 60, 15.0 * (height - tiny_town.layout.height(*at)))  # same scale on the road
        shown.append(render_colour(tiny_town, camera, pose, Epoch.AERIAL)[20:40, 20:40])
    assert np.corrcoef(shown[0].ravel(), shown[1].ravel())[0, 1] > 0.8
