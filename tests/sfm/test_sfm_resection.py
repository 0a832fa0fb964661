"""Resection: the pose of a camera from points, wrong ones among them."""

import numpy as np
import pytest
from trajectory_world import CAMERA, street_points, street_poses

from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import inside
from skyanchor.sfm.resection import Trials, resect

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
