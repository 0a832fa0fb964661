"""Standard deviations of the recovered poses: marginals of the anchored adjustment plus what the anchors bring in."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.sparse import bsr_matrix

from skyanchor.geometry import cameras, rigid
from skyanchor.sfm.adjustment import Problem
from skyanchor.types import AnchorPose, Floats, Ints


def pose_covariances(problem: Problem) -> dict[int, Floats]:
    """(6, 6) per movable frame, (rotation rad, translation m), left perturbation; points marginalised out.

    H = [U W; Wᵀ V] with V block diagonal over points: the marginal is σ² (U - W V⁻¹ Wᵀ)⁻¹.
    """
    frames = sorted(set(problem.table.frame.tolist()) - problem.constant)
    if not frames:
        return {}
    by_pose, by_point, residual = _jacobians(problem)
    number = np.full(int(problem.table.frame.max()) + 1, -1, dtype=np.int64)
    number[frames] = np.arange(len(frames))
    slot = number[problem.table.frame]
    moving = slot >= 0
    points = _point_blocks(by_point, problem.table.point, len(problem.points))
    lower = np.linalg.cholesky(np.linalg.inv(points))
    mixed = np.einsum("kri,krj->kij", by_pose[moving], by_point[moving]) @ lower[problem.table.point[moving]]
    carried = _blocks(mixed, slot[moving], problem.table.point[moving], len(frames), len(points))
    own = np.zeros((len(frames), 6, 6))
    np.add.at(own, slot[moving], np.einsum("kri,krj->kij", by_pose[moving], by_pose[moving]))
    reduced = -(carried @ carried.T).toarray()
    for k in range(len(frames)):
        reduced[6 * k : 6 * k + 6, 6 * k : 6 * k + 6] += own[k]
    scale = np.sqrt(np.maximum(np.diag(reduced), 1e-12))
    inverse = np.linalg.pinv(reduced / np.outer(scale, scale), rcond=1e-12, hermitian=True) / np.outer(scale, scale)
    variance = float(np.median((residual**2).sum(axis=1)) / 1.386)  # median of χ²(2) is 1.386
    return {f: variance * inverse[6 * k : 6 * k + 6, 6 * k : 6 * k + 6] for k, f in enumerate(frames)}


def _jacobians(problem: Problem) -> tuple[Floats, Floats, Floats]:
    """((K, 2, 6) by pose, (K, 2, 3) by point, (K, 2) residuals in pixels), through the undistorted camera."""
    flat = cameras.undistorted(problem.camera)
    frames, slot = np.unique(problem.table.frame, return_inverse=True)
    rotation = np.array([problem.poses[int(f)].rotation for f in frames])[slot]
    translation = np.array([problem.poses[int(f)].translation for f in frames])[slot]
    seen = np.einsum("kij,kj->ki", rotation, problem.points[problem.table.point]) + translation
    fx, fy = cameras.calibration(flat)[[0, 1], [0, 1]]
    x, y, z = seen.T
    z = np.maximum(z, 1e-3)
    zero = np.zeros_like(z)
    by_cam = np.stack([fx / z, zero, -fx * x / z**2, zero, fy / z, -fy * y / z**2], axis=1).reshape(-1, 2, 3)
    by_pose = np.concatenate([-by_cam @ rigid.skew(seen), by_cam], axis=2)
    residual = np.nan_to_num(cameras.project(problem.camera, seen) - problem.xy)
    return by_pose, by_cam @ rotation, residual


def _point_blocks(by_point: Floats, point: Ints, count: int) -> Floats:
    blocks = np.zeros((count, 3, 3))
    np.add.at(blocks, point, np.einsum("kri,krj->kij", by_point, by_point))
    trace = np.einsum("pii->p", blocks)[:, None, None]
    return blocks + (1e-9 * trace + 1e-12) * np.eye(3)


def _blocks(data: Floats, row: Ints, column: Ints, rows: int, columns: int) -> bsr_matrix:
    """A sparse matrix of 6 x 3 blocks."""
    order = np.lexsort((column, row))
    starts = np.searchsorted(row[order], np.arange(rows + 1))
    return bsr_matrix((data[order], column[order], starts), shape=(6 * rows, 3 * columns))


def centre_sigma_m(covariance: Floats) -> float:
    """Standard deviation of the camera centre along its worst axis, metres: δc = -Rᵀ v."""
    return float(np.sqrt(max(float(np.linalg.eigvalsh(covariance[3:, 3:])[-1]), 0.0)))


def anchor_sigmas(anchors: Mapping[int, AnchorPose], frames: list[int]) -> Floats:
    """(N,), standard deviation that the anchors bring to each frame: their variance, interpolated over time, metres."""
    known = sorted(anchors)
    variance = [centre_sigma_m(anchors[f].covariance) ** 2 for f in known]
    return np.sqrt(np.interp(np.array(frames, dtype=np.float64), known, variance))
