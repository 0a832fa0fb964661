"""Planes: heights, robust fits, up from cameras, the ground beneath a survey."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyanchor.geometry import robust
from skyanchor.types import Bools, Floats, Ints, Plane


@dataclass(frozen=True, eq=False)
class PlaneFit:
    """A plane and the points that lie on it."""

    plane: Plane
    inliers: Bools
    """(N,)."""
    rmse: float
    """Of the inliers, metres."""


def unit(vector: Floats) -> Floats:
    """The vector at length 1."""
    vector = np.asarray(vector, dtype=np.float64)
    length = float(np.linalg.norm(vector))
    if length == 0.0:
        raise ValueError("a zero vector has no direction")
    return vector / length


def heights(plane: Plane, points: Floats) -> Floats:
    """Signed distance of points (..., 3) above the plane."""
    return np.asarray(points @ plane.normal - plane.offset)


def onto(plane: Plane, points: Floats) -> Floats:
    """Feet of points (..., 3) on the plane."""
    return np.asarray(points - heights(plane, points)[..., None] * plane.normal)


def flipped(plane: Plane) -> Plane:
    """The same plane with its normal the other way."""
    return Plane(-plane.normal, -plane.offset)


def basis(normal: Floats) -> Floats:
    """Two unit vectors (2, 3) that make a right-handed frame with the normal: e₁ × e₂ = n.

    For n = z they are x and y, so that maps of a z-up scene are the usual ones.
    """
    n = unit(normal)
    helper = np.array([1.0, 0.0, 0.0]) if abs(n[0]) < 0.9 else np.array([0.0, 1.0, 0.0])
    first = unit(helper - (helper @ n) * n)
    return np.stack([first, np.cross(n, first)])


def angle_deg(a: Floats, b: Floats) -> float:
    """Angle between two directions, degrees, accurate near 0."""
    a, b = unit(a), unit(b)
    return float(np.degrees(np.arctan2(np.linalg.norm(np.cross(a, b)), a @ b)))


def fit_plane(points: Floats, weights: Floats | None = None) -> Plane:
    """The plane with the least Σ wᵢ (n . xᵢ - d)² over points (N, 3), N >= 3; the normal's sign is arbitrary."""
    w = np.ones(len(points)) if weights is None else np.asarray(weights, dtype=np.float64)
    mean = w @ points / w.sum()
    from_mean = (points - mean) * np.sqrt(w)[:, None]
    normal = np.linalg.svd(from_mean, full_matrices=False)[2][2]
    return Plane(normal, float(normal @ mean))


def fit_plane_robust(
    points: Floats,
    threshold: float,
    towards: Floats,
    within_deg: float = 90.0,
    trials: int = 500,
    seed: int = 0,
) -> PlaneFit | None:
    """The plane with the most support among those whose normal is within `within_deg` of `towards`, or None.

    MSAC over random triples, then least squares on the inliers. `threshold` is the largest distance of an inlier.
    """
    points = np.asarray(points, dtype=np.float64)
    if len(points) < 3:
        return None
    triples = np.random.default_rng(seed).integers(0, len(points), (trials, 3))
    best = _best_plane(points, triples, threshold, unit(towards), within_deg)
    if best is None:
        return None
    inliers = np.abs(heights(best, points)) <= threshold
    for _ in range(5):
        plane = facing(fit_plane(points[inliers]), towards)
        if angle_deg(plane.normal, towards) > within_deg:
            break
        best, inliers = plane, np.abs(heights(plane, points)) <= threshold
    error = heights(best, points)[inliers]
    return PlaneFit(best, inliers, float(np.sqrt(np.mean(error**2))))


def facing(plane: Plane, towards: Floats) -> Plane:
    """The plane with its normal on the side of `towards`."""
    return plane if plane.normal @ towards >= 0 else flipped(plane)


def _best_plane(points: Floats, triples: Ints, threshold: float, towards: Floats, within_deg: float) -> Plane | None:
    a, b, c = points[triples[:, 0]], points[triples[:, 1]], points[triples[:, 2]]
    normals = np.cross(b - a, c - a)
    length = np.linalg.norm(normals, axis=1)
    normals = normals / np.maximum(length, 1e-300)[:, None]
    normals *= np.where(normals @ towards < 0, -1.0, 1.0)[:, None]
    usable = np.flatnonzero((length > 1e-12) & (normals @ towards >= np.cos(np.radians(within_deg))))
    best, best_cost = None, np.inf
    offsets = np.einsum("ij,ij->i", normals, a)
    for block in np.array_split(usable, max(1, len(usable) * len(points) // 4_000_000)):
        cost = np.minimum(np.abs(points @ normals[block].T - offsets[block]), threshold).sum(axis=0)
        if len(cost) and cost.min() < best_cost:
            best, best_cost = int(block[np.argmin(cost)]), float(cost.min())
    return None if best is None else Plane(normals[best], float(offsets[best]))


# --- up ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class UpEstimate:
    """Which way is up, and how well the evidence agrees."""

    up: Floats
    """(3,), unit."""
    spread_deg: float
    """Median deviation of the evidence from it, degrees."""
    determined: bool
    """False when the evidence leaves a direction open, e.g. all cameras on one heading."""


def perpendicular_to_all(axes: Floats, towards: Floats, least_spread: float = 0.1) -> UpEstimate:
    """The direction that is most nearly perpendicular to unit vectors (N, 3): least Σ wᵢ (aᵢ . u)², robust.

    Gimballed cameras do not roll, so their image x axes are level and up is perpendicular to all of them.
    """
    weights = np.ones(len(axes))
    for _ in range(20):
        values, vectors = np.linalg.eigh((axes * weights[:, None]).T @ axes / weights.sum())
        up = vectors[:, 0]
        residual = axes @ up
        weights = robust.cauchy_weights(residual, max(robust.residual_sigma(residual), 1e-4))
    up = up if up @ towards >= 0 else -up
    spread = float(np.degrees(np.arcsin(min(1.0, float(np.median(np.abs(residual)))))))
    return UpEstimate(up, spread, bool(np.sqrt(values[1] / max(values[2], 1e-300)) >= least_spread))


def up_from_cameras(world_from_cam_rotations: Floats) -> UpEstimate:
    """Up from the image axes of cameras (N, 3, 3) that look down and do not roll.

    Landscape cameras have level x axes, upright (portrait) ones level y axes: the set that agrees better decides.
    """
    rough = unit(-world_from_cam_rotations[:, :, 2].sum(axis=0))
    candidates = [perpendicular_to_all(world_from_cam_rotations[:, :, axis], rough) for axis in (0, 1)]
    usable = [c for c in candidates if c.determined and angle_deg(c.up, rough) < 45.0]
    if not usable:
        return UpEstimate(rough, 90.0, False)
    return min(usable, key=lambda c: c.spread_deg)


# --- ground -----------------------------------------------------------------------------------------------------


def low_points(points: Floats, up: Floats, cells: int = 48, quantile: float = 0.1) -> Floats:
    """Per occupied cell of a level grid the point at a low quantile of the heights, (C, 3).

    One vote per place: a facade or a tree full of points counts no more than a piece of bare ground.
    """
    flat = points @ basis(up).T
    low, high = np.percentile(flat, [1.0, 99.0], axis=0)
    inside = np.all((flat >= low) & (flat <= high), axis=1)
    points, flat = points[inside], flat[inside]
    size = max(float(np.sqrt(np.prod(high - low)) / cells), 1e-9)
    column, row = np.floor((flat - low) / size).astype(np.int64).T
    cell = row * (column.max() + 1) + column
    height = points @ up
    order = np.lexsort((height, cell))
    _, start, count = np.unique(cell[order], return_index=True, return_counts=True)
    return np.asarray(points[order[start + np.floor(count * quantile).astype(np.int64)]])


def ground_level(heights_of_lows: Floats, bandwidth: float, least_share: float = 0.35) -> float:
    """The lowest strong mode of heights: a level whose support is at least `least_share` of the strongest level's.

    Roofs may be the strongest level of a dense town; the ground is the lowest one that is not a few stray points.
    """
    low, high = np.percentile(heights_of_lows, [2.0, 98.0])
    steps = int(np.clip((high - low) / (bandwidth / 4.0), 16, 4000))
    levels = np.linspace(low - bandwidth, high + bandwidth, steps + 1)
    ordered = np.sort(heights_of_lows)
    support = np.searchsorted(ordered, levels + bandwidth) - np.searchsorted(ordered, levels - bandwidth)
    strong = support >= least_share * support.max()
    first = int(np.argmax(strong))
    stop = first + int(np.argmin(np.append(strong[first:], False)))
    peak = levels[first + int(np.argmax(support[first:stop]))]
    near = ordered[np.abs(ordered - peak) <= bandwidth]
    return float(np.median(near)) if len(near) else float(peak)


def ground_plane(points: Floats, up: Floats, bandwidth: float | None = None, tilt_deg: float = 12.0) -> Plane:
    """The ground of a survey as a plane, its normal up: points (N, 3) of ground, roofs and trees together.

    Level unless a plane tilted by up to `tilt_deg` explains the lowest points of many more places. `bandwidth` is how
    far ground points may lie from the plane, metres; by default a fiftieth of the height range.
    """
    points, up = np.asarray(points, dtype=np.float64), unit(up)
    lows = low_points(points, up) if len(points) >= 20 else points
    height = lows @ up
    low, high = np.percentile(height, [2.0, 98.0])
    width = bandwidth if bandwidth is not None else max(float(high - low) / 50.0, 1e-6)
    level = Plane(up, ground_level(height, width))
    tilted = fit_plane_robust(lows, width, up, tilt_deg)
    return tilted.plane if tilted is not None and _is_better_ground(tilted, level, lows, width) else level


def _is_better_ground(tilted: PlaneFit, level: Plane, lows: Floats, width: float) -> bool:
    """Whether a tilted plane carries half as many places again as the level one, and few places lie beneath it."""
    on_level = int(np.sum(np.abs(heights(level, lows)) <= width))
    beneath = float(np.mean(heights(tilted.plane, lows) < -2.0 * width))
    return bool(tilted.inliers.sum() >= max(1.5 * on_level, 0.2 * len(lows)) and beneath <= 0.1)
