"""Group pose with unknown scale: known truth, noise and outliers in, error near noise out."""

import numpy as np
import pytest

from skyanchor.anchors.solve import Sightings, SolveConfig, refine_similarity, solve_group
from skyanchor.geometry import rigid, similarity
from skyanchor.types import Pose, Similarity

UP = np.array([0.0, 0.0, 1.0])
FOCAL = 457.0


def walk(frames: int, rng: np.random.Generator) -> tuple[Pose, ...]:
    """Cameras 0.6 m apart that look along y with a little sway."""
    poses = []
    for k in range(frames):
        eye = np.array([0.1 * np.sin(k), 0.6 * k, 1.7]) + rng.normal(0, 0.02, 3)
        poses.append(rigid.look_at(eye, eye + np.array([0.1 * np.cos(k), 1.0, 0.02]), UP))
    return tuple(poses)


def local_copy(poses: tuple[Pose, ...], scale: float) -> tuple[Pose, ...]:
    """The same cameras in a turned, shifted and scaled frame."""
    turn = rigid.rotation_exp(np.array([0.3, -0.8, 0.5]))
    local_from_world = Similarity(1.0 / scale, turn, np.array([3.0, -2.0, 1.0]))
    return tuple(similarity.transform_camera(local_from_world, pose) for pose in poses)


def sightings(poses, rng, count: int, noise_px: float, outliers: float) -> Sightings:
    points = np.stack([rng.uniform(-12, 12, count), rng.uniform(8, 40, count), rng.uniform(0, 8, count)], axis=1)
    frame = rng.integers(len(poses), size=count)
    in_cam = np.array([poses[k](p) for k, p in zip(frame, points, strict=True)])
    xy = in_cam[:, :2] / in_cam[:, 2:] + rng.normal(0, noise_px / FOCAL, (count, 2))
    wrong = rng.random(count) < outliers
    xy[wrong] = rng.uniform(-0.7, 0.7, (int(wrong.sum()), 2))
    return Sightings(frame, xy, points, np.full(count, 1.0 / FOCAL))


def centre_errors(solution, poses) -> np.ndarray:
    return np.linalg.norm(rigid.centres_in_world(solution.cams_from_world) - rigid.centres_in_world(poses), axis=1)


@pytest.mark.parametrize("scale", [0.25, 3.0])
@pytest.mark.parametrize("outliers", [0.0, 0.6])
def test_place_and_scale_are_found(scale: float, outliers: float) -> None:
    rng = np.random.default_rng(1)
    poses = walk(6, rng)
    seen = sightings(poses, rng, 400, 1.0, outliers)
    solution = solve_group(seen, local_copy(poses, scale), UP, SolveConfig())
    assert solution is not None
    assert solution.world_from_local.scale == pytest.approx(scale, rel=0.02)
    assert 0.0 < centre_errors(solution, poses).max() < 0.08
    assert 0.9 < solution.inliers.mean() / (1.0 - outliers) < 1.1


def test_noise_decides_the_error() -> None:
    errors = []
    for noise in (0.2, 2.0):
        rng = np.random.default_rng(2)
        poses = walk(6, rng)
        solution = solve_group(sightings(poses, rng, 400, noise, 0.2), local_copy(poses, 1.0), UP, SolveConfig())
        assert solution is not None
        errors.append(centre_errors(solution, poses).mean())
    assert 4.0 < errors[1] / errors[0] < 25.0


def test_noise_alone_gets_no_agreement() -> None:
    rng = np.random.default_rng(3)
    poses = walk(6, rng)
    solution = solve_group(sightings(poses, rng, 300, 1.0, 1.0), local_copy(poses, 1.0), UP, SolveConfig())
    assert solution is None or solution.inliers.mean() < 0.1


def test_one_frame_needs_no_scale() -> None:
    rng = np.random.default_rng(4)
    poses = walk(1, rng)
    solution = solve_group(sightings(poses, rng, 200, 1.0, 0.3), local_copy(poses, 1.0), UP, SolveConfig())
    assert solution is not None
    assert centre_errors(solution, poses).max() < 0.15


def test_what_one_frame_of_several_leaves_free_stays_as_it_is() -> None:
    rng, poses = np.random.default_rng(0), tuple(Pose(np.eye(3), np.array([1.0 + k, 0.0, 0.0])) for k in range(3))
    points = np.stack([rng.uniform(-2, 2, 20), rng.uniform(-1, 1, 20), rng.uniform(2, 6, 20)], axis=1)
    there = poses[0](points)
    seen = Sightings(np.zeros(20, np.int64), there[:, :2] / there[:, 2:], points, np.full(20, 1e-4))
    kept = refine_similarity(seen, poses, similarity.identity(), 2.0)  # scale and place move the frame alike
    assert (kept.scale, *kept.translation) == (1.0, 0.0, 0.0, 0.0)


def test_a_camera_on_its_head_is_not_found() -> None:
    rng = np.random.default_rng(5)
    poses = walk(6, rng)
    solution = solve_group(sightings(poses, rng, 300, 1.0, 0.0), local_copy(poses, 1.0), -UP, SolveConfig())
    assert solution is None or solution.inliers.mean() < 0.2


def test_same_input_same_output() -> None:
    rng = np.random.default_rng(6)
    poses = walk(6, rng)
    seen = sightings(poses, rng, 300, 1.0, 0.5)
    first, second = (solve_group(seen, local_copy(poses, 2.0), UP, SolveConfig()) for _ in range(2))
    assert first is not None and second is not None
    assert np.array_equal(first.world_from_local.rotation, second.world_from_local.rotation)
