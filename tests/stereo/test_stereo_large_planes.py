"""Large planes of a depth map: noise goes from a front, what stands before it stays, and motion says what is sure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skyanchor.geometry import cameras
from skyanchor.geometry.depth import lift
from skyanchor.stereo.large_planes import LargePlaneConfig, on_large_planes
from skyanchor.stereo.planes import pixel_grid
from skyanchor.stereo.precision import across_sigma, inverse_sigma
from skyanchor.types import Camera, DepthMap, Floats, Pose

CAMERA = Camera("PINHOLE", 160, 120, (150.0, 150.0, 80.0, 60.0))
HERE = Pose(np.eye(3), np.zeros(3))
OTHERS = [Pose(np.eye(3), np.array([-x, 0.0, 0.0])) for x in (-1.0, 0.5, 1.0)]
"""Cameras to the left and to the right, which look the same way."""
FRONT = np.array([0.3, 0.0, 0.9]) / np.hypot(0.3, 0.9)
"""Across the front, away from the camera; the front lies 10 m along it."""
UP = np.array([0.0, -1.0, 0.0])
BOX = np.s_[50:70, 60:90]
"""A box before the front, half a metre nearer."""


def true_depth() -> Floats:
    x, y = pixel_grid(CAMERA)
    rays = cameras.unproject(CAMERA, np.stack([x.ravel(), y.ravel()], axis=1)).reshape(*x.shape, 3)
    depth = 10.0 / (rays @ FRONT)
    depth[BOX] -= 0.5
    return np.asarray(depth)


def noisy(noise_px: float) -> DepthMap:
    """The front and the box as three cameras measure them with this error."""
    depth = true_depth()
    one = _map(depth)
    w = 1.0 / depth + noise_px * inverse_sigma(one, OTHERS) * np.random.default_rng(3).normal(size=depth.shape)
    return replace(one, depth=(1.0 / w).astype(np.float32))


def _map(depth: Floats) -> DepthMap:
    shape = depth.shape
    normal = np.broadcast_to(np.array([0.0, 0.0, -1.0], np.float32), (*shape, 3)).copy()
    return DepthMap(
        "a", CAMERA, HERE, depth.astype(np.float32), np.full(shape, 0.8, np.float32), np.zeros(shape, bool), normal
    )


def test_a_noisy_front_is_put_on_its_plane() -> None:
    before = noisy(0.06)
    found = on_large_planes(before, OTHERS, UP, LargePlaneConfig())
    front = np.zeros(before.depth.shape, np.bool_)
    front[:, 20:-20] = True  # what all cameras see
    front[45:75, 55:95] = False
    was, now = (np.abs(one.depth - true_depth())[front] for one in (before, found))
    assert np.median(now) < 0.1 * np.median(was)
    assert (now < 0.02).mean() > 0.95
    np.testing.assert_allclose(np.median(found.normal[front], axis=0), -FRONT, atol=0.01)


def test_a_box_before_the_front_has_a_plane_of_its_own_or_stays() -> None:
    """Half a metre is more than a pixel of motion; whether the box is a plane is a matter of its size."""
    before = noisy(0.05)
    found = on_large_planes(before, OTHERS, UP, LargePlaneConfig(fewest=300))
    np.testing.assert_array_equal(found.depth[BOX], before.depth[BOX])
    own = on_large_planes(before, OTHERS, UP, LargePlaneConfig(fewest=30, reach_px=15.0))
    inner = np.s_[55:65, 66:84]
    was, now = (np.median(np.abs(one.depth - true_depth())[inner]) for one in (before, own))
    assert now < 0.7 * was


def test_level_planes_are_left_as_they_are() -> None:
    before = noisy(0.06)
    found = on_large_planes(before, OTHERS, FRONT, LargePlaneConfig())
    np.testing.assert_array_equal(found.depth, before.depth)


def test_depths_off_by_more_than_their_neighbours_noise_stay() -> None:
    """A sill of 10 cm on a front that is measured to a few millimetres."""
    before = noisy(0.01)
    before.depth[100:103, 20:60] -= 0.1
    found = on_large_planes(before, OTHERS, UP, LargePlaneConfig())
    np.testing.assert_array_equal(found.depth[100:103, 20:60], before.depth[100:103, 20:60])
    assert not np.array_equal(found.depth[80:90], before.depth[80:90])


def test_parts_of_one_plane_that_are_too_small_or_too_far_are_left() -> None:
    before = noisy(0.1)
    small = replace(before, depth=np.where(np.indices(before.depth.shape)[0] < 12, before.depth, np.float32(0)))
    for one, config in ((small, LargePlaneConfig(fewest=300)), (before, LargePlaneConfig(farthest=5.0))):
        np.testing.assert_array_equal(on_large_planes(one, OTHERS, UP, config).depth, one.depth)
    assert (on_large_planes(small, OTHERS, UP, LargePlaneConfig()).depth[12:] == 0).all()


def test_the_same_map_gives_the_same_planes() -> None:
    one, again = (on_large_planes(noisy(0.06), OTHERS, UP, LargePlaneConfig()) for _ in range(2))
    np.testing.assert_array_equal(one.depth, again.depth)


def test_sigma_is_the_inverse_depth_that_moves_a_place_by_a_pixel() -> None:
    """A camera 1 m to the side sees 1/z move by focal x 1 m; one that looks elsewhere adds nothing."""
    one = _map(true_depth())
    side = Pose(np.eye(3), np.array([-1.0, 0.0, 0.0]))
    sigma = inverse_sigma(one, [side])
    assert np.isclose(sigma[60, 80], 1.0 / 150.0, rtol=1e-3)
    assert np.isclose(inverse_sigma(one, [side, side])[60, 80], sigma[60, 80] / np.sqrt(2.0), rtol=1e-3)
    behind = Pose(np.diag([-1.0, 1.0, -1.0]), np.array([1.0, 0.0, 0.0]))
    np.testing.assert_allclose(inverse_sigma(one, [side, behind]), sigma)
    moved = lift(CAMERA, HERE, np.array([[80.5, 60.5]]), np.array([1.0 / (1.0 / one.depth[60, 80] + sigma[60, 80])]))
    start = lift(CAMERA, HERE, np.array([[80.5, 60.5]]), one.depth[60, 80:81].astype(float))
    there = [cameras.project(CAMERA, side(point)) for point in (start, moved)]
    assert np.isclose(np.linalg.norm(there[1] - there[0]), 1.0, rtol=0.01)


def test_across_a_surface_seen_at_a_low_angle_depth_is_surer() -> None:
    """By |n . ray|: along the optical axis 1 across a front that faces the camera, 0.95 across this one."""
    one = _map(true_depth())
    facing = across_sigma(one, OTHERS)
    slanted = across_sigma(replace(one, normal=np.broadcast_to(-FRONT, one.normal.shape).astype(np.float32)), OTHERS)
    assert np.isclose(facing[60, 80], inverse_sigma(one, OTHERS)[60, 80] * one.depth[60, 80] ** 2, rtol=0.01)
    assert np.isclose(slanted[60, 80] / facing[60, 80], FRONT[2], rtol=0.01)
