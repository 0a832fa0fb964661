"""Poses from three points: the true one is always among them, and all are right, as PoseLib's are."""

import numpy as np
import poselib
import pytest

from skyanchor.geometry import rigid
from skyanchor.sfm.p3p_kernels import p3p
from skyanchor.types import Floats


def solved(rays: Floats, points: Floats) -> list[tuple[Floats, Floats]]:
    rotations, translations = np.empty((4, 3, 3)), np.empty((4, 3))
    count = p3p(rays, points, rotations, translations)
    return [(rotations[k].copy(), translations[k].copy()) for k in range(count)]


def unit(vectors: Floats) -> Floats:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("depth_m", [4.0, 60.0])
def test_the_true_pose_is_found(depth_m: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        points, turn = rng.uniform(-3.0, 3.0, (3, 3)), rigid.rotation_exp(rng.normal(0, 1.0, 3))
        shift = np.array([0.0, 0.0, depth_m]) + rng.normal(0, 0.3, 3)
        found = solved(unit(points @ turn.T + shift), points)
        assert min(np.abs(rotation - turn).max() for rotation, _ in found) < 1e-6


def test_poses_are_those_of_poselib_that_see_the_points() -> None:
    rng = np.random.default_rng(1)
    counts = []
    for _ in range(300):
        points, rays = rng.uniform(-10.0, 10.0, (3, 3)), rng.normal(size=(3, 3))
        rays = unit(np.column_stack([rays[:, :2], np.abs(rays[:, 2]) + 1.0]))
        found = solved(rays, points)
        for rotation, translation in found:
            np.testing.assert_allclose(unit(points @ rotation.T + translation), rays, atol=1e-7)
            np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-6)
        right = [p for p in poselib.p3p(rays, points) if np.allclose(unit(points @ p.R.T + p.t), rays, atol=1e-7)]
        assert len(found) >= len(right)
        assert all(min(np.abs(p.R - rotation).max() for rotation, _ in found) < 1e-5 for p in right)
        counts.append(len(found))
    assert {0, 1, 2} <= set(counts)


def test_points_on_one_ray_have_no_pose() -> None:
    rays = unit(np.array([[0.1, 0.0, 1.0]] * 3))
    assert not solved(rays, np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 2.0], [0.0, 1.0, 3.0]]))
