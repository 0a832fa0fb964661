"""Floaters: what ground views look through is hidden, what they see as a surface stays."""

from __future__ import annotations

import numpy as np
import pytest

from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import inside
from skyanchor.scene.floaters import FloaterConfig, floaters, free_space_opinions, seen_surface
from skyanchor.types import DepthMap, Pose

WALL_Z = 10.0
UP = np.array([0.0, -1.0, 0.0])


def wall_view(x: float, confidence: float = 1.0, completed: bool = False) -> DepthMap:
    """A camera at (x, 0, 0) that looks along z at a wall at z = 10."""
    camera = cameras.pinhole(64, 48, 50.0)
    pose = Pose(np.eye(3), np.array([-x, 0.0, 0.0]))
    shape = (48, 64)
    return DepthMap(
        "v", camera, pose, np.full(shape, WALL_Z, np.float32), np.full(shape, confidence, np.float32),
        np.full(shape, completed), np.zeros((*shape, 3), np.float32),
    )  # fmt: skip


MEANS = np.array([[0, 0, 5], [0, 0, 9.9], [0, 0, 15], [40, 0, 5], [0, 0, -3]], np.float32)
"""In the air, at the wall, behind it, beside every image, behind every camera."""


def test_only_what_is_looked_through_is_hidden() -> None:
    views = [wall_view(x) for x in (-0.5, 0.0, 0.5, 1.0)]
    opinions = free_space_opinions(MEANS, views, FloaterConfig())
    assert floaters(opinions, FloaterConfig()).tolist() == [True, False, False, False, False]
    assert opinions.at.tolist() == [0, 4, 0, 0, 0]


@pytest.mark.parametrize(
    "views", [[wall_view(0.0)] * 2, [wall_view(0.0, confidence=0.2)] * 5, [wall_view(0.0, completed=True)] * 5]
)
def test_too_few_or_unsure_views_hide_nothing(views: list[DepthMap]) -> None:
    assert not floaters(free_space_opinions(MEANS, views, FloaterConfig()), FloaterConfig()).any()


def test_views_that_see_a_surface_there_protect_it() -> None:
    """A pole that two of five views measured is not hidden by the three that missed it."""
    through = [wall_view(0.0)] * 3
    pole = rigid.look_at(np.array([0.0, 0.0, -5.0]), np.array([0.0, 0.0, 0.0]), UP)
    seen = DepthMap(
        "p", through[0].camera, pole, through[0].depth, through[0].confidence, through[0].completed, through[0].normal
    )
    opinions = free_space_opinions(MEANS[:1], [*through, seen, seen], FloaterConfig())
    assert (opinions.through[0], opinions.at[0]) == (3, 2)
    assert not floaters(opinions, FloaterConfig()).any()


def test_points_meet_the_surface_in_their_pixel_alone() -> None:
    """Against projections one by one; depth that is unsure, completed or missing is none."""
    rng = np.random.default_rng(0)
    camera, shape = cameras.pinhole(40, 30, 30.0, (19.3, 15.4)), (30, 40)
    pose = Pose(rigid.rotation_exp(np.array([0.1, -0.2, 0.3])), np.array([0.2, 0.1, 4.0]))
    depth = rng.uniform(2.0, 8.0, shape).astype(np.float32) * (rng.random(shape) > 0.3)
    sure, filled = rng.random(shape).astype(np.float32), rng.random(shape) > 0.7
    view = DepthMap("v", camera, pose, depth, sure, filled, np.zeros((*shape, 3), np.float32))
    points = rng.uniform(-6.0, 6.0, (500, 3)).astype(np.float32)
    rows, own, surface = seen_surface(points, view, 0.5)
    expected = []
    for n, point in enumerate(pose(points.astype(np.float64))):
        if point[2] > 0 and inside(camera, cameras.project(camera, point[None]))[0]:
            column, row = np.floor(cameras.project(camera, point[None])[0]).astype(int)
            if depth[row, column] > 0 and sure[row, column] >= 0.5 and not filled[row, column]:
                expected.append((n, np.float32(point[2]), depth[row, column]))
    assert len(expected) > 20 and list(zip(rows.tolist(), own, surface, strict=True)) == expected
