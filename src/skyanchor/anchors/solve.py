"""Where a rigid group of frames stands: one similarity from 2D-3D matches of all its frames, scale unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from skyanchor.anchors import solve_kernels
from skyanchor.bounds import Count, Degrees, NotNegative, Positive, Range, Rising, Seed, Share
from skyanchor.geometry import rigid, robust, similarity
from skyanchor.types import Bools, Floats, Ints, Pose, Similarity

NEAREST_M = 0.05
"""Points nearer than this in front of a camera, metres, count as behind it."""
LEAST_AGREEING = 6
"""Sightings that a similarity is refined on, at least: each gives two equations for seven unknowns."""
WIDENING = (2.0, 1.3, 1.0)
"""Factors on the threshold of an agreeing sighting, round by round of the refinement."""
FARTHEST_STEP = 0.3
"""Logarithm of the scale that one step of the refinement may change it by."""


@dataclass(frozen=True, eq=False)
class Sightings:
    """World points seen in the frames of a group, flat arrays of one length."""

    frame: Ints
    """(N,), position in the group."""
    xy: Floats
    """(N, 2), where frame sees the point: x/z, y/z in camera axes."""
    points: Floats
    """(N, 3), world, metres."""
    sigma: Floats
    """(N,), standard deviation of xy, same unit."""


@dataclass(frozen=True)
class SolveConfig:
    """Group RANSAC and its refinement."""

    threshold: Positive = 4.0
    """A sighting agrees when its residual is at most this many sigmas."""
    trials: Annotated[tuple[Count, Count], Rising()] = (200, 3000)
    """Least and most minimal samples."""
    confidence: Share = 0.9999
    """Probability that a sample without outliers was met."""
    most_sightings: Annotated[int, Range(3, 1e9)] = 2500
    """Sightings beyond this many are left out of RANSAC, at random."""
    most_tilt_deg: Degrees = 35.0
    """Hypotheses whose camera up is farther from the world's are passed over, degrees."""
    step: Annotated[tuple[NotNegative, Positive], Rising()] = (0.01, 10.0)
    """Shortest and longest mean step between frames, metres."""
    seed: Seed = 0
    """Of RANSAC."""


@dataclass(frozen=True, eq=False)
class GroupSolution:
    """The group in the world."""

    world_from_local: Similarity
    cams_from_world: tuple[Pose, ...]
    inliers: Bools
    """(N,), which sightings agree."""
    rms: float
    """Of the inliers, in sigmas."""


def _stacked(cams_from_local: tuple[Pose, ...]) -> tuple[Floats, Floats]:
    rotations = np.ascontiguousarray(np.stack([pose.rotation for pose in cams_from_local]))
    return rotations, np.stack([pose.translation for pose in cams_from_local])


def group_residuals(cams_from_world: tuple[Pose, ...], seen: Sightings) -> Floats:
    """(N,), residual of every sighting in sigmas; inf behind the camera."""
    rotations, translations = _stacked(cams_from_world)
    in_cam = np.einsum("nij,nj->ni", rotations[seen.frame], seen.points) + translations[seen.frame]
    front = in_cam[:, 2] > NEAREST_M
    off = in_cam[:, :2] / np.where(front, in_cam[:, 2], 1.0)[:, None] - seen.xy
    return np.where(front, np.linalg.norm(off, axis=1) / seen.sigma, np.inf)


def _in_world(world_from_local: Similarity, cams_from_local: tuple[Pose, ...]) -> tuple[Pose, ...]:
    return tuple(similarity.transform_camera(world_from_local, pose) for pose in cams_from_local)


@dataclass(frozen=True, eq=False)
class _Hypotheses:
    """Candidates for x_cam = R_k (A X + b) + s t_k, with R_k, t_k the pose of frame k in the group."""

    A: Floats
    """(H, 3, 3), rotations."""
    b: Floats
    """(H, 3), metres."""
    s: Floats
    """(H,), metres per unit of the group."""


def _sample_frames(rng: np.random.Generator, frame: Ints, count: int, size: int) -> Ints:
    """(size, 3), indices of three sightings of one frame each, frames drawn by how much they see."""
    seen = np.bincount(frame, minlength=count)
    chance = np.where(seen >= 3, seen, 0).astype(np.float64)
    chosen = rng.choice(count, size=size, p=chance / chance.sum())
    order = np.argsort(frame, kind="stable")
    starts = np.concatenate([[0], np.cumsum(seen)])
    draws = starts[chosen][:, None] + np.floor(rng.random((size, 3)) * seen[chosen][:, None]).astype(np.int64)
    return np.asarray(order[draws])


def _hypotheses(
    seen: Sightings, cams_from_local: tuple[Pose, ...], samples: Ints, up: Floats, config: SolveConfig, seed: int
) -> _Hypotheses:
    """P3P in one frame, the scale from a sighting in another."""
    rays = np.concatenate([seen.xy, np.ones((len(seen.xy), 1))], axis=1)
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    others = np.random.default_rng(seed).integers(len(seen.frame), size=4 * len(samples))
    least_up = float(np.cos(np.radians(config.most_tilt_deg)))
    given = (samples, others, seen.frame, rays, seen.points, up, least_up, config.step)
    return _Hypotheses(*solve_kernels.hypotheses(*_stacked(cams_from_local), *given))


def _subset(seen: Sightings, keep: Ints | Bools) -> Sightings:
    return Sightings(seen.frame[keep], seen.xy[keep], seen.points[keep], seen.sigma[keep])


def _ransac(
    seen: Sightings, cams_from_local: tuple[Pose, ...], up: Floats, config: SolveConfig
) -> tuple[Floats, Floats, float] | None:
    """The hypothesis (A, b, s) with the least truncated cost."""
    rng = np.random.default_rng(config.seed)
    local_r, local_t = _stacked(cams_from_local)
    best: tuple[float, tuple[Floats, Floats, float]] | None = None
    done, needed = 0, config.trials[1]
    while done < min(needed, config.trials[1]):
        samples = _sample_frames(rng, seen.frame, len(cams_from_local), config.trials[0])
        tried = _hypotheses(seen, cams_from_local, samples, up, config, int(rng.integers(1 << 31)))
        done += config.trials[0]
        if not len(tried.s):
            continue
        costs = solve_kernels.truncated_costs(
            local_r, local_t, tried.A, tried.b, tried.s, seen.frame, seen.xy, seen.points, seen.sigma, config.threshold
        )
        h = int(np.argmin(costs))
        if best is None or costs[h] < best[0]:
            best = (float(costs[h]), (tried.A[h], tried.b[h], float(tried.s[h])))
            share = 1.0 - best[0] / (config.threshold**2 * len(seen.frame))
            needed = 3 * robust.ransac_trials(max(share, 1e-3), 4, config.confidence, config.trials[1])
    return None if best is None else best[1]


def refine_similarity(
    seen: Sightings,
    cams_from_local: tuple[Pose, ...],
    world_from_local: Similarity,
    loss_scale: float,
    iterations: int = 12,
) -> Similarity:
    """The similarity at the robust optimum of the sightings' residuals: Gauss-Newton over 7 parameters, Cauchy weights.

    x_cam = R_k (A X + b) + s t_k; A moves by exp([w]ₓ), b by v, s by a factor exp(e).
    """
    A = world_from_local.rotation.T
    s = world_from_local.scale
    b = -A @ world_from_local.translation
    free = 7 if len(cams_from_local) > 1 else 6
    local, given = _stacked(cams_from_local), (seen.frame, seen.xy, seen.points, seen.sigma, loss_scale)
    for _ in range(iterations):
        matrix, gradient = solve_kernels.normal_equations(*local, np.ascontiguousarray(A), b, s, *given)
        try:
            step = -np.linalg.solve(matrix[:free, :free] + 1e-9 * np.eye(free), gradient[:free])
        except np.linalg.LinAlgError:  # the sightings leave something free: it stays as it is
            break
        A = rigid.rotation_exp(step[:3]) @ A
        b = b + step[3:6]
        if free == 7:
            s *= float(np.exp(np.clip(step[6], -FARTHEST_STEP, FARTHEST_STEP)))
        if np.abs(step).max() < 1e-8:
            break
    return Similarity(s, A.T, -A.T @ b)


def solve_group(
    seen: Sightings, cams_from_local: tuple[Pose, ...], up: Floats, config: SolveConfig, least: int = LEAST_AGREEING
) -> GroupSolution | None:
    """The group's place with the most agreement among its sightings; None when none has `least` that nearly agree."""
    per_frame = np.bincount(seen.frame, minlength=len(cams_from_local))
    if len(seen.frame) < LEAST_AGREEING or per_frame.max(initial=0) < 3:
        return None
    part = seen
    if len(seen.frame) > config.most_sightings:
        rng = np.random.default_rng(config.seed)
        part = _subset(seen, np.sort(rng.choice(len(seen.frame), config.most_sightings, replace=False)))
    best = _ransac(part, cams_from_local, up, config)
    if best is None:
        return None
    A, b, s = best
    first = Similarity(s, A.T.copy(), -A.T @ b)
    near = group_residuals(_in_world(first, cams_from_local), seen) < 2.0 * config.threshold
    return refined(seen, cams_from_local, first, config) if near.sum() >= least else None


def refined(
    seen: Sightings, cams_from_local: tuple[Pose, ...], world_from_local: Similarity, config: SolveConfig
) -> GroupSolution:
    """The solution near a given one, on its inliers, wide first."""
    for widen in WIDENING:
        residual = group_residuals(_in_world(world_from_local, cams_from_local), seen)
        near = residual < widen * config.threshold
        if near.sum() < LEAST_AGREEING:
            break
        world_from_local = refine_similarity(
            _subset(seen, near), cams_from_local, world_from_local, config.threshold / 2.0
        )
    poses = _in_world(world_from_local, cams_from_local)
    residual = group_residuals(poses, seen)
    inliers = residual < config.threshold
    rms = float(np.sqrt((residual[inliers] ** 2).mean() / 2.0)) if inliers.any() else float("inf")
    return GroupSolution(world_from_local, poses, inliers, rms)
