"""The first Gaussians: one per surface point, as large as the gap to its neighbours."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from skyanchor.gaussians.harmonics import SH_C0
from skyanchor.gaussians.splats import AERIAL, Splats
from skyanchor.types import Bytes, Cloud, Floats, Floats32


def splats_from_points(points: Floats, colors: Bytes, *, sh_degree: int = 3, opacity: float = 0.1) -> Splats:
    """Round Gaussians at the points (N, 3) with colours (N, 3); σ = root mean square distance to three neighbours."""
    spacing = neighbour_distance(points)
    log_scales = np.repeat(np.log(spacing)[:, None], 3, axis=1)
    quats = np.zeros((len(points), 4))
    quats[:, 0] = 1.0
    return _splats(points, quats, log_scales, colors, sh_degree, opacity)


def splats_from_cloud(cloud: Cloud, *, sh_degree: int = 3, opacity: float = 0.5, flatness: float = 0.2) -> Splats:
    """Discs in the surface: σ = 0.7 spacing along it, `flatness` of that across."""
    along = np.log(np.maximum(0.7 * cloud.spacing.astype(np.float64), 1e-6))
    log_scales = np.stack([along, along, along + np.log(flatness)], axis=1)
    quats = quaternions_with_z(cloud.normals.astype(np.float64))
    return _splats(cloud.points.astype(np.float64), quats, log_scales, cloud.colors, sh_degree, opacity)


def neighbour_distance(points: Floats, neighbours: int = 3) -> Floats:
    """Root mean square distance of each point to its nearest neighbours, (N,), metres; never zero."""
    if len(points) < 2:
        return np.ones(len(points))
    distances, _ = cKDTree(points).query(points, k=min(neighbours + 1, len(points)), workers=1)
    spacing = np.sqrt(np.mean(np.square(distances[:, 1:]), axis=1))
    return np.maximum(spacing, 1e-3 * float(np.median(spacing)) + 1e-9)


def quaternions_with_z(normals: Floats) -> Floats:
    """Quaternions wxyz (N, 4) that turn the z axis into the unit normals: q ~ (1 + n_z, -n_y, n_x, 0)."""
    quats = np.stack([1.0 + normals[:, 2], -normals[:, 1], normals[:, 0], np.zeros(len(normals))], axis=1)
    quats[normals[:, 2] < -1.0 + 1e-6] = (0.0, 1.0, 0.0, 0.0)
    return quats / np.maximum(np.linalg.norm(quats, axis=1, keepdims=True), 1e-12)


def _splats(
    points: Floats,
    quats: Floats,
    log_scales: Floats,
    colors: Bytes,
    sh_degree: int,
    opacity: float,
) -> Splats:
    sh = np.zeros((len(points), (sh_degree + 1) ** 2, 3), np.float32)
    sh[:, 0] = (colors / 255.0 - 0.5) / SH_C0
    logits: Floats32 = np.full(len(points), np.log(opacity / (1.0 - opacity)), np.float32)
    owners: npt.NDArray[np.int32] = np.full(len(points), AERIAL, np.int32)
    return Splats(
        points.astype(np.float32), quats.astype(np.float32), log_scales.astype(np.float32), logits, sh, owners
    )
