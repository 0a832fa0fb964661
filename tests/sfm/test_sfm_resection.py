"""Resection: the pose of a camera from points, wrong ones among them."""

from dataclasses import replace

import numpy as np
import pytest
from trajectory_world import CAMERA, street_points, street_poses

from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import inside
from skyanchor.sfm.resection import Shared, Trials, resect, resect_by_rays
from skyanchor.types import Pose

TRIALS = Trials(least=100)


def seen(wrong: float, seed: int = 0):
    """(true pose, pixels with noise 0.5, points, which of them are right)."""
    rng = np.random.default_rng(seed)
    pose, points = street_poses(5)[4], street_points(10.0, 600, seed)
    xy = cameras.project(CAMERA, pose(points))
    good = inside(CAMERA, xy)
    xy, points = xy[good] + rng.normal(0, 0.5, (good.sum(), 2)), points[good]
    right = rng.random(len(xy)) >= wrong
    xy[~right] = rng.uniform([0, 0], [CAMERA.width, CAMERA.height], (int((~right).sum()), 2))
    return pose, xy, points, right


@pytest.mark.parametrize("wrong", [0.0, 0.5])
def test_the_pose_is_found_among_wrong_points_and_adjusting_it_helps(wrong: float) -> None:
    off = []
    for sigma_px in (None, 0.5):
        pose, xy, points, right = seen(wrong)
        found = resect(xy, points, CAMERA, 2.5, TRIALS, sigma_px)
        off.append(np.linalg.norm(rigid.centre_in_world(found.cam_from_world) - rigid.centre_in_world(pose)))
        assert found.inliers[right].mean() > 0.95 and found.inliers[~right].sum() <= 3
    assert 1e-5 < off[1] < 0.03 and off[1] <= off[0] + 1e-3


def test_the_same_seed_gives_the_same_bits() -> None:
    _, xy, points, _ = seen(0.4)
    first, second = (resect(xy, points, CAMERA, 2.5, Trials(seed=3)) for _ in range(2))
    assert np.array_equal(first.cam_from_world.rotation, second.cam_from_world.rotation)


def test_points_of_nothing_in_common_agree_with_no_pose() -> None:
    rng = np.random.default_rng(1)
    _, xy, points, _ = seen(0.0)
    assert resect(rng.permutation(xy), points, CAMERA, 2.5, TRIALS).inliers.sum() < 12


# --- by rays --------------------------------------------------------------------------------------------------------

UP = np.array([0.0, 0.0, 1.0])


def _shared(count: int, rng: np.random.Generator) -> tuple[list[Shared], Pose]:
    """(what frames of a short walk share with a camera above them, its pose): half a pixel of noise, some wrong."""
    above = rigid.look_at(np.array([4.0, -15.0, 30.0]), np.array([0.0, 15.0, 2.0]), UP)
    spots = rng.uniform([-6, 8, 0], [6, 30, 7], (80, 3))
    known = [rigid.look_at(np.array([0.0, 0.5 * k, 1.7]), np.array([0.0, 20.0, 2.0]), UP) for k in range(count)]
    there = cameras.project(CAMERA, above(spots)) + rng.normal(0, 0.5, (80, 2))
    there[::10] += 40.0
    here = [cameras.project(CAMERA, pose(spots)) + rng.normal(0, 0.5, (80, 2)) for pose in known]
    return [Shared(pose, CAMERA, xy, there) for pose, xy in zip(known, here, strict=True)], above


def test_rays_of_a_short_walk_place_a_camera_above_it() -> None:
    shared, above = _shared(6, np.random.default_rng(4))
    found = resect_by_rays(shared, CAMERA, 2.0, Trials(seed=0))
    away = np.linalg.norm(rigid.centre_in_world(found.cam_from_world) - rigid.centre_in_world(above))
    assert away < 4.0 and np.degrees(rigid.angle_between(found.cam_from_world.rotation, above.rotation)) < 4.0
    right = np.tile(np.arange(80) % 10 != 0, 6)
    assert found.inliers[right].mean() > 0.8 and found.inliers[~right].mean() < 0.3


def test_one_camera_alone_or_a_few_pixels_of_each_place_nothing() -> None:
    shared, _ = _shared(6, np.random.default_rng(4))
    few = [replace(one, xy_known=one.xy_known[:4], xy=one.xy[:4]) for one in shared]
    none = replace(shared[1], xy_known=np.empty((0, 2)), xy=np.empty((0, 2)))
    for held, count in (([], 0), (shared[:1], 80), ([shared[0], none], 80), (few, 24)):
        found = resect_by_rays(held, CAMERA, 2.0, Trials())
        assert found.inliers.shape == (count,) and not found.inliers.any()
