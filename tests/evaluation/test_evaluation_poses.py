"""ATE and RPE against an independent implementation with 4x4 matrices and scipy, and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from skyanchor.evaluation.poses import NOTHING, pose_metrics
from skyanchor.types import Pose

NAMES = [f"{index:04}.jpg" for index in range(30)]


def _walk(seed: int) -> list[np.ndarray]:
    """world_from_cam as 4x4 matrices along a bent path."""
    rng = np.random.default_rng(seed)
    poses = []
    for index in range(len(NAMES)):
        pose = np.eye(4)
        pose[:3, :3] = Rotation.from_euler("zyx", [4 * index, 2 * rng.normal(), rng.normal()], degrees=True).as_matrix()
        pose[:3, 3] = [index * 0.7, math.sin(index / 5) * 3, 1.6 + 0.05 * rng.normal()]
        poses.append(pose)
    return poses


def _shaken(poses: list[np.ndarray], seed: int, metres: float, degrees: float) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shaken = []
    for pose in poses:
        noise = np.eye(4)
        noise[:3, :3] = Rotation.from_rotvec(rng.normal(size=3) * np.radians(degrees)).as_matrix()
        noise[:3, 3] = rng.normal(size=3) * metres
        shaken.append(pose @ noise)
    return shaken


def _named(poses: list[np.ndarray], keep: list[int] | None = None) -> dict[str, Pose]:
    inverses = [np.linalg.inv(pose) for pose in poses]
    return {NAMES[k]: Pose(inverses[k][:3, :3], inverses[k][:3, 3]) for k in keep or range(len(poses))}


def _oracle(estimated: list[np.ndarray], true: list[np.ndarray], keep: list[int]) -> tuple[float, float, float]:
    """The definitions of the TUM benchmark, one frame at a time."""
    ate = [np.sum((estimated[k][:3, 3] - true[k][:3, 3]) ** 2) for k in keep]
    moves, turns = [], []
    for k in keep:
        if k + 1 in keep:
            step = np.linalg.inv(estimated[k]) @ estimated[k + 1]
            true_step = np.linalg.inv(true[k]) @ true[k + 1]
            error = np.linalg.inv(true_step) @ step
            moves.append(np.sum(error[:3, 3] ** 2))
            turns.append(np.degrees(Rotation.from_matrix(error[:3, :3]).magnitude()) ** 2)
    return math.sqrt(np.mean(ate)), math.sqrt(np.mean(moves)), math.sqrt(np.mean(turns))


def test_equal_to_the_oracle_with_gaps() -> None:
    true = _walk(0)
    estimated = _shaken(true, 1, 0.1, 0.5)
    keep = [k for k in range(30) if k not in (3, 4, 11, 29)]
    ate, move, turn = _oracle(estimated, true, keep)
    got = pose_metrics(_named(estimated, keep), _named(true), NAMES, NAMES)
    assert (got.registered, got.total) == (26, 30)
    assert got.ate_m == pytest.approx(ate, rel=1e-12)
    assert got.rpe_t_m == pytest.approx(move, rel=1e-12)
    assert got.rpe_r_deg == pytest.approx(turn, rel=1e-9)
    assert 0.1 < ate < 0.3 and 0.3 < turn < 2.0


def test_a_common_shift_shows_in_ate_and_not_in_rpe() -> None:
    true = _walk(0)
    moved = [pose.copy() for pose in true]
    for pose in moved:
        pose[:3, 3] += [3.0, 0.0, 4.0]
    got = pose_metrics(_named(moved), _named(true), NAMES, NAMES)
    assert got.ate_m == pytest.approx(5.0) and got.rpe_t_m == pytest.approx(0.0, abs=1e-9)
    assert got.rpe_r_deg == pytest.approx(0.0, abs=1e-6)


def test_a_known_turn_per_frame_is_measured() -> None:
    """Every camera turned 0.2 deg more than the one before, about its own axis."""
    true = _walk(0)
    turned = []
    for index, pose in enumerate(true):
        extra = np.eye(4)
        extra[:3, :3] = Rotation.from_euler("x", 0.2 * index, degrees=True).as_matrix()
        turned.append(extra @ pose)
        turned[-1][:3, 3] = pose[:3, 3]
    got = pose_metrics(_named(turned), _named(true), NAMES, NAMES)
    assert got.ate_m == pytest.approx(0.0, abs=1e-12)
    assert got.rpe_r_deg == pytest.approx(0.2, rel=1e-6)


def test_anchors_pair_only_neighbours_in_the_sequence() -> None:
    true = _walk(0)
    estimated = _shaken(true, 1, 0.1, 0.5)
    groups = [0, 1, 2, 20, 21, 22]
    asked = [NAMES[k] for k in [*groups, 28, 29]]
    got = pose_metrics(_named(estimated, groups), _named(true), NAMES, asked)
    ate, move, turn = _oracle(estimated, true, groups)
    assert (got.registered, got.total) == (6, 8)
    assert (got.ate_m, got.rpe_t_m) == (pytest.approx(ate), pytest.approx(move))
    assert got.rpe_r_deg == pytest.approx(turn)


def test_truth_of_every_third_frame_makes_those_consecutive() -> None:
    true = _walk(0)
    third = list(range(0, 30, 3))
    estimated = _shaken(true, 1, 0.1, 0.5)
    got = pose_metrics(_named(estimated), _named(true, third), NAMES, NAMES)
    ate, move, _ = _oracle([estimated[k] for k in third], [true[k] for k in third], list(range(10)))
    assert (got.ate_m, got.rpe_t_m) == (pytest.approx(ate), pytest.approx(move)) and got.registered == 30


def test_nothing_to_measure_is_none_not_zero() -> None:
    assert pose_metrics({}, _named(_walk(0)), NAMES, []) == NOTHING
    one = pose_metrics(_named(_walk(0), [5]), _named(_walk(0)), NAMES, NAMES)
    assert one.ate_m == pytest.approx(0.0) and one.rpe_t_m is None and one.registered == 1
