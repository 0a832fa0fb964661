"""How well poses are known: marginals of an adjustment, of a resection, and what anchors bring in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.sparse import bsr_matrix
from scipy.special import chdtr, chdtri

from skyanchor.geometry import cameras, rigid
from skyanchor.sfm.bundle import Bundle, in_cameras, residuals
from skyanchor.types import AnchorPose, Floats, Ints

RADIUS_95 = float(np.sqrt(chdtri(3, 0.05)))
"""Radius that holds for 95 %, over the standard deviation along the worst axis: 2.795.

With the same deviation s along all axes |error|² / s² is χ² with 3 degrees of freedom, whose 95 % quantile is 7.815.
Where the other axes are better known the radius holds for more than 95 %; those of anchors differ by 2 %.
"""
MEDIAN_2 = 1.386
"""Median of χ² with 2 degrees of freedom, 2 ln 2: squared length of a residual whose two parts have variance 1."""


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
    variance = float(np.median((residual**2).sum(axis=1)) / MEDIAN_2)
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


def position_sigma_m(sigmas: Sequence[float] | Floats) -> float:
    """The one sigma of a walk: the median over its frames of the standard deviation along the worst axis, metres."""
    return float(np.nanmedian(np.asarray(sigmas, dtype=np.float64)))


def radius_95_m(sigmas: Sequence[float] | Floats) -> float:
    """Radius r within which 95 % of a walk's camera centres are expected, metres.

    mean over frames of P(χ²(3) <= (r / s)²) = 0.95, s along the worst axis; 2.795 s where all frames have the same.
    Frames of a walk are off together, so it is the share of frames over many walks.
    """
    s = np.asarray(sigmas, dtype=np.float64)
    s = np.maximum(s[np.isfinite(s)], 1e-9)
    if not len(s):
        return float("nan")
    low, high = 0.0, RADIUS_95 * float(s.max())
    for _ in range(60):
        r = 0.5 * (low + high)
        low, high = (r, high) if float(chdtr(3, (r / s) ** 2).mean()) < 0.95 else (low, r)
    return high


def anchor_sigmas(anchors: Mapping[int, AnchorPose], frames: list[int]) -> Floats:
    """(N,), standard deviation that the anchors bring to each frame: their variance, interpolated over time, metres."""
    known = sorted(anchors)
    variance = [centre_sigma_m(anchors[f].covariance) ** 2 for f in known]
    return np.sqrt(np.interp(np.array(frames, dtype=np.float64), known, variance))
