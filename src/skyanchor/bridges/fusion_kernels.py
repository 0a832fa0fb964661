"""Numba kernels that move the pixels of a depth map to where the maps beside it agree."""

from __future__ import annotations

import numpy as np
from numba import prange

from skyanchor.bridges.rounding import ROUNDED
from skyanchor.compiled import njit
from skyanchor.types import Floats, Floats32, Ints


@njit(cache=True, fastmath=ROUNDED, inline="always")
def _lifted(K: Floats, R: Floats, t: Floats, column: int, row: int, z: float) -> tuple[float, float, float]:
    """The point in the world that a pixel's middle sees at depth z."""
    a = (column + 0.5 - K[2]) / K[0] * z - t[0]
    b = (row + 0.5 - K[3]) / K[1] * z - t[1]
    c = z - t[2]
    return (
        R[0, 0] * a + R[1, 0] * b + R[2, 0] * c,
        R[0, 1] * a + R[1, 1] * b + R[2, 1] * c,
        R[0, 2] * a + R[1, 2] * b + R[2, 2] * c,
    )


@njit(cache=True, fastmath=ROUNDED, inline="always")
def _seen(
    K: Floats, R: Floats, t: Floats, height: int, width: int, x: float, y: float, z: float
) -> tuple[int, int, float]:
    """(column, row, depth) of the pixel that sees a point of the world; depth 0 where none does."""
    depth = R[2, 0] * x + R[2, 1] * y + R[2, 2] * z + t[2]
    if depth < 1e-3:
        return 0, 0, 0.0
    u = (R[0, 0] * x + R[0, 1] * y + R[0, 2] * z + t[0]) / depth * K[0] + K[2]
    v = (R[1, 0] * x + R[1, 1] * y + R[1, 2] * z + t[1]) / depth * K[1] + K[3]
    if u < 0 or v < 0 or u >= width or v >= height:
        return 0, 0, 0.0
    return int(u), int(v), depth


@njit(cache=True, parallel=True, fastmath=ROUNDED)
def fuse_map(
    depth: Floats32,
    normal: Floats32,
    weight: Floats32,
    K: Floats,
    R: Floats,
    t: Floats,
    depths: Floats32,
    weights: Floats32,
    slots: Ints,
    sizes: Ints,
    Ks: Floats,
    Rs: Floats,
    ts: Floats,
    tolerance: float,
) -> tuple[Floats32, Floats32, Floats32]:
    """(points, normals, weights) of one map's pixels, each moved along its normal to the mean of the maps that agree.

    The other maps lie in `slots` of depths and weights (S, H, W), each as large as its row of `sizes` (height, width).
    A point x with normal n that map j sees at x_j moves by n Σ w_j n·(x_j - x) / Σ w_j. The weight is the summed
    confidence of the maps that agree less that of the maps that look through the point; 0 where there is none.
    """
    rows, columns = depth.shape
    points = np.zeros((rows, columns, 3), np.float32)
    normals = np.zeros((rows, columns, 3), np.float32)
    total = np.zeros((rows, columns), np.float32)
    for row in prange(rows):
        for column in range(columns):
            if depth[row, column] <= 0:
                continue
            x, y, z = _lifted(K, R, t, column, row, depth[row, column])
            nx, ny, nz = normal[row, column, 0], normal[row, column, 1], normal[row, column, 2]
            agreed = weight[row, column]
            against = 0.0
            moved = 0.0
            for j in range(len(slots)):
                u, v, expected = _seen(Ks[j], Rs[j], ts[j], sizes[j, 0], sizes[j, 1], x, y, z)
                there, counts = depths[slots[j], v, u], weights[slots[j], v, u]
                if expected == 0 or there <= 0 or counts <= 0:
                    continue
                if abs(there - expected) < tolerance * expected:
                    ox, oy, oz = _lifted(Ks[j], Rs[j], ts[j], u, v, there)
                    agreed += counts
                    moved += counts * (nx * (ox - x) + ny * (oy - y) + nz * (oz - z))
                elif there > expected * (1.0 + 3.0 * tolerance):
                    against += counts
            step = moved / max(agreed, 1e-6)
            points[row, column, 0] = x + nx * step
            points[row, column, 1] = y + ny * step
            points[row, column, 2] = z + nz * step
            normals[row, column, 0] = nx
            normals[row, column, 1] = ny
            normals[row, column, 2] = nz
            total[row, column] = agreed - against
    return points, normals, total
