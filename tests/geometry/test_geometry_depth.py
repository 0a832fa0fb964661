"""Pixels and depth: which edge counts, what lies under a pixel, and points that come back to their pixels."""

from __future__ import annotations

import numpy as np
from geometry_strategies import poses
from hypothesis import given
from hypothesis import strategies as st

from skyanchor.geometry import cameras, depth
from skyanchor.types import Camera, Pose

PINHOLE = cameras.pinhole(64, 48, 50.0)
BENT = Camera("SIMPLE_RADIAL", 64, 48, (50.0, 32.0, 24.0, -0.05))


def test_the_left_and_upper_edge_belong_to_the_image_and_the_others_do_not() -> None:
    xy = np.array([[0.0, 0.0], [63.99, 47.99], [64.0, 10.0], [10.0, 48.0], [-1e-9, 5.0], [5.0, -1e-9], [np.nan, 5.0]])
    assert depth.inside(PINHOLE, xy).tolist() == [True, True, False, False, False, False, False]


@given(st.integers(0, 47), st.integers(0, 63))
def test_all_of_a_pixel_is_under_its_own_value(row: int, column: int) -> None:
    grid = np.arange(48 * 64).reshape(48, 64)
    xy = np.array([[column, row], [column + 0.5, row + 0.5], [column + 0.999, row + 0.999]])
    assert depth.inside(PINHOLE, xy).all()
    assert depth.under(grid, xy).tolist() == [grid[row, column]] * 3
    assert depth.pixel_centres(np.array([row]), np.array([column])).tolist() == [[column + 0.5, row + 0.5]]


def test_beyond_the_border_lies_the_edge() -> None:
    grid = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert depth.under(grid, np.array([[-5.0, -5.0], [2.0, 0.0], [7.0, 9.0]])).tolist() == [1.0, 2.0, 4.0]
    colours = np.stack([grid, 10 * grid, 100 * grid], axis=-1)
    assert depth.under(colours, np.array([[1.5, 1.5]])).tolist() == [[4.0, 40.0, 400.0]]


def test_a_pixel_without_depth_is_nan() -> None:
    seen = depth.sampled(np.array([[0.0, 2.5]], np.float32), np.array([[0.5, 0.5], [1.5, 0.5]]))
    assert np.isnan(seen[0]) and seen[1] == 2.5 and seen.dtype == np.float64


@given(poses(), st.sampled_from([PINHOLE, BENT]), st.integers(0, 10**6))
def test_lifted_points_are_seen_where_they_came_from(pose: Pose, camera: Camera, seed: int) -> None:
    rng = np.random.default_rng(seed)
    xy, z = rng.uniform([0, 0], [64, 48], (20, 2)), rng.uniform(0.5, 80.0, 20)
    z[0] = np.nan
    points = depth.lift(camera, pose, xy, z)
    assert np.isnan(points[0]).all()
    assert np.allclose(pose(points[1:])[:, 2], z[1:])
    assert np.allclose(cameras.project(camera, pose(points[1:])), xy[1:], atol=1e-6)
