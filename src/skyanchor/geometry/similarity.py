"""Similarity transforms b_from_a: closed form, robust, and whether the points determine one at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skyanchor.geometry import rigid, robust
from skyanchor.types import Bools, Floats, Ints, Pose, Similarity


@dataclass(frozen=True, eq=False)
class RobustSimilarity:
    """A similarity and the correspondences that agree with it."""

    b_from_a: Similarity
    inliers: Bools
    """(N,)."""
    rmse: float
    """Over the inliers, in units of frame b."""


# --- group ------------------------------------------------------------------------------------------------------


def identity() -> Similarity:
    """The transform that changes nothing."""
    return Similarity(1.0, np.eye(3), np.zeros(3))


def transform_camera(b_from_a: Similarity, cam_from_a: Pose) -> Pose:
    """cam_from_b of the same camera when its world moves from frame a to frame b: R' = R_c Rᵀ, c' = s R c + t."""
    centre = b_from_a(rigid.centre_in_world(cam_from_a))
    return rigid.from_centre(cam_from_a.rotation @ b_from_a.rotation.T, centre)


# --- estimation -------------------------------------------------------------------------------------------------


def umeyama(points_a: Floats, points_b: Floats, weights: Floats | None = None, with_scale: bool = True) -> Similarity:
    """The similarity that minimises Σ wᵢ |s R aᵢ + t - bᵢ|², points (N, 3), N >= 3 (Umeyama 1991)."""
    scale, rotation, translation = _umeyama_batch(
        np.asarray(points_a, dtype=np.float64)[None],
        np.asarray(points_b, dtype=np.float64)[None],
        None if weights is None else np.asarray(weights, dtype=np.float64)[None],
        with_scale,
    )
    return Similarity(float(scale[0]), rotation[0], translation[0])


def _umeyama_batch(a: Floats, b: Floats, weights: Floats | None, with_scale: bool) -> tuple[Floats, Floats, Floats]:
    """Scales (B,), rotations (B, 3, 3), translations (B, 3) for batches of correspondences (B, N, 3).

    Σ = Σ wᵢ (bᵢ - b̄)(aᵢ - ā)ᵀ = U D Vᵀ;  R = U S Vᵀ, S = diag(1, 1, det U det V);  s = tr(D S) / Σ wᵢ |aᵢ - ā|²
    """
    w = np.full(a.shape[:2], 1.0 / a.shape[1]) if weights is None else weights / weights.sum(axis=1, keepdims=True)
    mean_a, mean_b = np.einsum("bn,bni->bi", w, a), np.einsum("bn,bni->bi", w, b)
    from_mean_a, from_mean_b = a - mean_a[:, None], b - mean_b[:, None]
    covariance = np.einsum("bn,bni,bnj->bij", w, from_mean_b, from_mean_a)
    u, d, vt = np.linalg.svd(covariance)
    sign = np.ones_like(d)
    sign[:, 2] = np.sign(np.linalg.det(u) * np.linalg.det(vt))
    rotation = (u * sign[:, None]) @ vt
    variance = np.einsum("bn,bni->b", w, from_mean_a**2)
    scale = np.ones(len(a))
    if with_scale:
        scale = (d * sign).sum(axis=1) / np.maximum(variance, 1e-300)
    return scale, rotation, mean_b - scale[:, None] * np.einsum("bij,bj->bi", rotation, mean_a)


def residuals(b_from_a: Similarity, points_a: Floats, points_b: Floats) -> Floats:
    """|b_from_a(a) - b| per correspondence, (N,), in units of frame b."""
    return np.asarray(np.linalg.norm(b_from_a(points_a) - points_b, axis=1))


def umeyama_robust(
    points_a: Floats, points_b: Floats, threshold: float, trials: int = 1000, seed: int = 0, with_scale: bool = True
) -> RobustSimilarity | None:
    """The similarity with the most agreement (MSAC over `trials` triples, refitted on inliers), or None.

    `threshold` is the largest error of an inlier in units of frame b. None when fewer than three agree.
    """
    a, b = np.asarray(points_a, dtype=np.float64), np.asarray(points_b, dtype=np.float64)
    if len(a) < 3:
        return None
    best = _best_triple(a, b, _triples(len(a), trials, seed), threshold, with_scale)
    if best is None:
        return None
    inliers = residuals(best, a, b) <= threshold
    for _ in range(10):
        if inliers.sum() < 3 or spread_ratio(a[inliers]) < 1e-6:
            return None
        weights = robust.soft_l1_weights(residuals(best, a[inliers], b[inliers]), threshold / 2.0)
        best = umeyama(a[inliers], b[inliers], weights, with_scale)
        again = residuals(best, a, b) <= threshold
        if np.array_equal(again, inliers):
            break
        inliers = again
    error = residuals(best, a[inliers], b[inliers])
    return RobustSimilarity(best, inliers, float(np.sqrt(np.mean(error**2)))) if inliers.sum() >= 3 else None


def _triples(count: int, trials: int, seed: int) -> Ints:
    """Random triples of different indices, (trials, 3)."""
    rng = np.random.default_rng(seed)
    return np.argsort(rng.random((trials, count)), axis=1)[:, :3] if count <= 64 else _distinct(rng, count, trials)


def _distinct(rng: np.random.Generator, count: int, trials: int) -> Ints:
    drawn = rng.integers(0, count, (trials + trials // 4 + 16, 3))
    different = (drawn[:, 0] != drawn[:, 1]) & (drawn[:, 1] != drawn[:, 2]) & (drawn[:, 0] != drawn[:, 2])
    return np.asarray(drawn[different][:trials])


def _best_triple(a: Floats, b: Floats, triples: Ints, threshold: float, with_scale: bool) -> Similarity | None:
    """The hypothesis with the least truncated squared error; flat triples and wild scales are passed over."""
    scale, rotation, translation = _umeyama_batch(a[triples], b[triples], None, with_scale)
    usable = np.flatnonzero(np.isfinite(scale) & (scale > 1e-9))
    best, best_cost = None, np.inf
    for block in np.array_split(usable, max(1, len(usable) * len(a) // 2_000_000)):
        moved = scale[block, None, None] * np.einsum("bij,nj->bni", rotation[block], a) + translation[block, None]
        cost = np.minimum(((moved - b) ** 2).sum(axis=2), threshold**2).sum(axis=1)
        if len(cost) and cost.min() < best_cost:
            best, best_cost = int(block[np.argmin(cost)]), float(cost.min())
    if best is None:
        return None
    return Similarity(float(scale[best]), rotation[best], translation[best])


# --- degeneracy -------------------------------------------------------------------------------------------------


def spread_ratio(points: Floats) -> float:
    """Second over first singular value of the centred points (N, 3): 0 for points on a line or in one place."""
    if len(points) < 3:
        return 0.0
    values = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    return float(values[1] / values[0]) if values[0] > 0 else 0.0


def is_degenerate(points: Floats, least_ratio: float = 0.1) -> bool:
    """Whether a similarity from these centres would leave a rotation about their line undetermined.

    Centres on one flight line are collinear; a five-camera head shares one centre.
    """
    return spread_ratio(points) < least_ratio


def with_orientation_points(cams_from_world: Sequence[Pose], arm: float) -> Floats:
    """Centres and, per camera, points at `arm` along its x, y and z axis, (4 N, 3).

    Correspondences of these fix the rotation where the centres alone do not. `arm` must be the same physical length
    on both sides, so scale it by the ratio of the two frames (see `align_cameras`).
    """
    centres = rigid.centres_in_world(list(cams_from_world))
    axes = np.stack([pose.rotation for pose in cams_from_world])  # rows: camera axes in the world
    tips = centres[:, None] + arm * axes
    return np.concatenate([centres, tips.reshape(-1, 3)])


def align_cameras(
    cams_from_a: Sequence[Pose], cams_from_b: Sequence[Pose], arm_b: float | None = None, least_ratio: float = 0.1
) -> Similarity:
    """b_from_a from the same cameras posed in both frames; orientations help where the centres are nearly collinear.

    Scale comes from the centres alone (ratio of their spreads) in the degenerate case; there must be two places at
    least. `arm_b` is the length of the pseudo-points in frame b, by default the spread of the centres.
    """
    centres_a = rigid.centres_in_world(list(cams_from_a))
    centres_b = rigid.centres_in_world(list(cams_from_b))
    if not is_degenerate(centres_a, least_ratio) and not is_degenerate(centres_b, least_ratio):
        return umeyama(centres_a, centres_b)
    spread_a, spread_b = _spread(centres_a), _spread(centres_b)
    if min(spread_a, spread_b) <= 0:
        raise ValueError("all camera centres coincide: they determine no scale")
    scale = spread_b / spread_a
    arm = arm_b if arm_b is not None else spread_b
    a = with_orientation_points(cams_from_a, arm / scale)
    b = with_orientation_points(cams_from_b, arm)
    aligned = umeyama(a * scale, b, with_scale=False)
    return Similarity(scale, aligned.rotation, aligned.translation)


def _spread(points: Floats) -> float:
    """Root mean square distance to the mean."""
    return float(np.sqrt(((points - points.mean(axis=0)) ** 2).sum(axis=1).mean()))
