"""Anchored adjustment and relaxation against known truth."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from trajectory_world import CAMERA, street_points, street_poses

from skyanchor.geometry import cameras, rigid
from skyanchor.sfm.adjustment import Problem, Solver, adjust
from skyanchor.sfm.relaxation import Edge, EdgeSigmas, relax
from skyanchor.sfm.tracks import TrackTable
from skyanchor.sfm.uncertainty import centre_sigma_m, pose_covariances
from skyanchor.types import Camera, Pose


def shaken(pose: Pose, rng: np.random.Generator, metres: float, radians: float) -> Pose:
    turn = rigid.rotation_exp(rng.normal(0, radians, 3))
    return rigid.from_centre(turn @ pose.rotation, rigid.centre_in_world(pose) + rng.normal(0, metres, 3))


def problem(noise_px: float, seed: int = 0, camera: Camera = CAMERA, start: Camera | None = None):
    """(a problem with shaken free poses and points, true poses)."""
    rng = np.random.default_rng(seed)
    truth = dict(enumerate(street_poses(14)))
    points = street_points(7.0, 500, seed)
    rows = []
    for frame, pose in truth.items():
        seen = pose(points)
        xy = cameras.project(camera, seen)
        inside = (xy > 0).all(axis=1) & (xy[:, 0] < camera.width) & (xy[:, 1] < camera.height) & (seen[:, 2] < 18)
        rows += [(p, frame, *xy[p]) for p in np.flatnonzero(inside)]
    table = np.array(rows)
    seen_twice = np.bincount(table[:, 0].astype(int), minlength=len(points))[table[:, 0].astype(int)] >= 2
    table = table[seen_twice]
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    used, point = np.unique(table[:, 0].astype(np.int64), return_inverse=True)
    tracks = TrackTable(point.astype(np.int64), table[:, 1].astype(np.int64), np.arange(len(table)))
    constant = frozenset({0, 1, 2, 11, 12, 13})
    poses = {f: p if f in constant else shaken(p, rng, 0.1, 0.01) for f, p in truth.items()}
    xy = table[:, 2:] + rng.normal(0, noise_px, (len(table), 2))
    moved = points[used] + rng.normal(0, 0.1, (len(used), 3))
    return Problem(start or camera, poses, constant, tracks, xy, moved), truth


def free_errors(found: dict[int, Pose], truth: dict[int, Pose], constant: frozenset[int]) -> list[float]:
    centre = rigid.centre_in_world
    return [float(np.linalg.norm(centre(p) - centre(truth[f]))) for f, p in found.items() if f not in constant]


def test_free_poses_reach_the_truth_and_anchors_do_not_move_a_bit():
    given, truth = problem(0.5)
    solution = adjust(given, Solver(1.5, 100))
    for frame in given.constant:
        assert np.array_equal(solution.poses[frame].rotation, given.poses[frame].rotation)
        assert np.array_equal(solution.poses[frame].translation, given.poses[frame].translation)
    errors = free_errors(solution.poses, truth, given.constant)
    assert 1e-4 < np.mean(errors) < 0.02
    assert 0.3 < solution.error_px < 1.0


def test_no_noise_no_error():
    given, truth = problem(0.0)
    solution = adjust(given, Solver(1.5, 100))
    assert max(free_errors(solution.poses, truth, given.constant)) < 1e-4


def test_focal_length_is_found():
    start = cameras.pinhole(640, 360, 470.0)
    given, _ = problem(0.3, start=start)
    solution = adjust(given, Solver(1.5, 100, refine_focal=True))
    assert solution.camera.params[0] == pytest.approx(450.0, abs=5.0)
    assert solution.camera.params[2:] == start.params[2:]


def test_marginals_match_the_scatter_over_seeds():
    errors, sigmas = [], []
    for seed in range(6):
        given, truth = problem(0.5, seed)
        solution = adjust(given, Solver(1.5, 100))
        solved = Problem(CAMERA, solution.poses, given.constant, given.table, given.xy, solution.points)
        covariance = pose_covariances(solved)
        assert set(covariance) == set(range(14)) - given.constant
        errors += free_errors(solution.poses, truth, given.constant)
        sigmas += [centre_sigma_m(covariance[f]) for f in sorted(covariance)]
    ratio = np.sqrt(np.mean(np.square(errors)) / np.mean(np.square(sigmas)))
    assert 0.5 < ratio < 2.0


def chain(poses: list[Pose]) -> list[Edge]:
    relative = [a @ b.inverse for a, b in pairwise(poses)]
    return [Edge(k, k + 1, step) for k, step in enumerate(relative)]


def test_relaxation_undoes_scale_drift():
    truth = street_poses(40)
    drifted = [truth[0]]
    for k in range(39):
        step = truth[k + 1] @ truth[k].inverse
        longer = Pose(step.rotation, step.translation * (1.0 + 0.002 * k))
        drifted.append(longer @ drifted[-1])
    centre = rigid.centre_in_world
    before = np.linalg.norm(centre(drifted[-1]) - centre(truth[-1]))
    start = dict(enumerate(drifted)) | {39: truth[39]}
    found = relax(start, frozenset({0, 39}), chain(drifted), EdgeSigmas())
    errors = [float(np.linalg.norm(centre(found[k]) - centre(truth[k]))) for k in range(40)]
    assert before > 0.5 and max(errors) < 0.35 * before and errors[39] == 0.0 and errors[0] == 0.0


def test_relaxation_undoes_a_turn():
    truth = street_poses(30)
    drifted = [truth[0]]
    for k in range(29):
        step = truth[k + 1] @ truth[k].inverse
        bent = Pose(rigid.rotation_exp(np.array([0.0, 0.004, 0.0])) @ step.rotation, step.translation)
        drifted.append(bent @ drifted[-1])
    centre = rigid.centre_in_world
    before = np.linalg.norm(centre(drifted[-1]) - centre(truth[-1]))
    start = dict(enumerate(drifted)) | {29: truth[29]}
    found = relax(start, frozenset({0, 29}), chain(drifted), EdgeSigmas())
    errors = [float(np.linalg.norm(centre(found[k]) - centre(truth[k]))) for k in range(30)]
    assert before > 0.5 and max(errors) < 0.1 * before


def test_relaxation_leaves_a_closed_chain_alone():
    truth = street_poses(12)
    found = relax(dict(enumerate(truth)), frozenset({0, 11}), chain(truth), EdgeSigmas())
    assert all(np.allclose(found[k].translation, truth[k].translation, atol=1e-9) for k in range(12))
