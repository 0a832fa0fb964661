"""How well poses are known: marginals of an adjustment, of a resection, and what anchors bring in."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.sparse import bsr_matrix

from skyanchor.geometry import cameras, rigid
from skyanchor.sfm.bundle import Bundle, in_cameras, residuals
from skyanchor.types import AnchorPose, Floats, Ints


def pose_covariances(bundle: Bundle) -> Floats:
    """(C, 6, 6), (rotation rad, translation m), left perturbation, points marginalised out; zeros for constant cameras.

    H = [U W; Wᵀ V] with V block diagonal over points: the marginal is σ² (U - W V⁻¹ Wᵀ)⁻¹. Cameras without any
    observation have nan.
    """
    covariances = np.full((len(bundle.cams_from_world), 6, 6), np.nan)
    covariances[bundle.constant] = 0.0
    seeing = np.unique(bundle.camera)
    movable = seeing[~bundle.constant[seeing]]
    if not len(movable):
        return covariances
    by_pose, by_point, residual = _jacobians(bundle)
    number = np.full(len(bundle.constant), -1, dtype=np.int64)
    number[movable] = np.arange(len(movable))
    slot = number[bundle.camera]
    moving = slot >= 0
    points = _point_blocks(by_point, bundle.point, len(bundle.points))
    lower = np.linalg.cholesky(np.linalg.inv(points))
    mixed = np.einsum("kri,krj->kij", by_pose[moving], by_point[moving]) @ lower[bundle.point[moving]]
    carried = _blocks(mixed, slot[moving], bundle.point[moving], len(movable), len(points))
    own = np.zeros((len(movable), 6, 6))
    np.add.at(own, slot[moving], np.einsum("kri,krj->kij", by_pose[moving], by_pose[moving]))
    reduced = -(carried @ carried.T).toarray()
    for k in range(len(movable)):
        reduced[6 * k : 6 * k + 6, 6 * k : 6 * k + 6] += own[k]
    scale = np.sqrt(np.maximum(np.diag(reduced), 1e-12))
    inverse = np.linalg.pinv(reduced / np.outer(scale, scale), rcond=1e-12, hermitian=True) / np.outer(scale, scale)
    variance = float(np.median((residual**2).sum(axis=1)) / 1.386)  # median of χ²(2) is 1.386
    for k, camera in enumerate(movable):
        covariances[camera] = variance * inverse[6 * k : 6 * k + 6, 6 * k : 6 * k + 6]
    return covariances


def resected_covariance(seen: Floats, residual: Floats, focal: float) -> Floats:
    """(6, 6), σ² (Σ JᵀJ)⁻¹ of a camera that sees fixed points `seen` (N, 3) in its axes, residuals (N, 2) in pixels."""
    _, by_pose = _derivatives(seen, focal, focal)
    jacobian = by_pose.reshape(-1, 6)
    variance = float((residual**2).sum() / max(2 * len(seen) - 6, 1))
    return np.asarray(variance * np.linalg.pinv(jacobian.T @ jacobian, hermitian=True))


def _derivatives(seen: Floats, fx: Floats | float, fy: Floats | float) -> tuple[Floats, Floats]:
    """(J (K, 2, 3) of pixels by points X `seen` in camera axes, f/z [I | -x/z]; (K, 2, 6) by poses, J [-[X]ₓ | I])."""
    x, y, z = seen.T
    z = np.maximum(z, 1e-3)
    zero = np.zeros_like(z)
    by_cam = np.stack([fx / z, zero, -fx * x / z**2, zero, fy / z, -fy * y / z**2], axis=1).reshape(-1, 2, 3)
    return by_cam, np.concatenate([-by_cam @ rigid.skew(seen), by_cam], axis=2)


def _jacobians(bundle: Bundle) -> tuple[Floats, Floats, Floats]:
    """((K, 2, 6) by pose, (K, 2, 3) by point, (K, 2) residuals in pixels); distortion is left out of the first two."""
    focal = np.array([np.diag(cameras.calibration(lens))[:2] for lens in bundle.lenses])
    by_cam, by_pose = _derivatives(in_cameras(bundle), *focal[bundle.camera].T)
    return by_pose, by_cam @ bundle.rotations[bundle.camera], residuals(bundle) * bundle.sigma[:, None]


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
    """Standard deviation of the camera centre along its worst axis, metres.

    c = -Rᵀ t; under a left perturbation (w, v) the centre moves by -Rᵀ v, so its covariance is that of v, turned.
    """
    return float(np.sqrt(max(float(np.linalg.eigvalsh(covariance[3:, 3:])[-1]), 0.0)))


def anchor_sigmas(anchors: Mapping[int, AnchorPose], frames: list[int]) -> Floats:
    """(N,), standard deviation that the anchors bring to each frame: their variance, interpolated over time, metres."""
    known = sorted(anchors)
    variance = [centre_sigma_m(anchors[f].covariance) ** 2 for f in known]
    return np.sqrt(np.interp(np.array(frames, dtype=np.float64), known, variance))
