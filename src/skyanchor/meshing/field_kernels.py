"""Numba kernel that averages the distances to the surfaces of many depth maps at the lattice points of blocks."""

from __future__ import annotations

import math

import numpy as np
from numba import prange

from skyanchor.compiled import njit
from skyanchor.types import Bytes, Floats, Floats32, Ints

EDGE = 8
"""Cells along the edge of a block."""
CORNERS = EDGE + 1
"""Lattice points along it: the last are its neighbour's first."""
LEAST_COSINE = 0.1
"""Surfaces seen flatter than this say nothing."""
FREE = 0.9
"""Of the band: where the mean distance is more, no surface passes."""


@njit(cache=True, parallel=True)
def fused(
    blocks: Ints,
    voxel: float,
    band: float,
    least_views: int,
    most_through: float,
    poses: Floats,
    pinholes: Floats,
    depth: Floats32,
    normal: Floats32,
    trust: Floats32,
    colors: Bytes,
) -> tuple[Floats32, Floats32]:
    """Distance (B, N³), metres, NaN where fewer than `least_views` maps speak, and colour (B, N³, 3) there.

    Where a surface may pass, that many must have measured it within the band, and maps that look through it may have no
    more than the share `most_through` of all weight: the mean with them would lie behind what the others measured.
    """
    count = CORNERS * CORNERS * CORNERS
    out = np.full((len(blocks), count), np.nan, np.float32)
    shown = np.zeros((len(blocks), count, 3), np.float32)
    for b in prange(len(blocks)):
        for n in range(count):
            i, j, k = n // (CORNERS * CORNERS), n // CORNERS % CORNERS, n % CORNERS
            x = (blocks[b, 0] * EDGE + i) * voxel
            y = (blocks[b, 1] * EDGE + j) * voxel
            z = (blocks[b, 2] * EDGE + k) * voxel
            total, weights, seen, near = 0.0, 0.0, 0, 0
            red, green, blue, tints = 0.0, 0.0, 0.0, 0.0
            for v in range(len(poses)):
                distance, weight, row, column = _opinion(poses[v], pinholes[v], depth[v], normal[v], trust[v], x, y, z)
                if weight <= 0.0 or distance < -band:
                    continue
                seen += 1
                total += weight * min(distance, band)
                weights += weight
                if distance < band:
                    near += 1
                    red += weight * colors[v, row, column, 0]
                    green += weight * colors[v, row, column, 1]
                    blue += weight * colors[v, row, column, 2]
                    tints += weight
            measured = near >= least_views and tints >= (1.0 - most_through) * weights
            if seen >= least_views and (measured or total >= FREE * band * weights):
                out[b, n] = total / weights
                if tints > 0.0:
                    shown[b, n, 0], shown[b, n, 1], shown[b, n, 2] = red / tints, green / tints, blue / tints
    return out, shown


@njit(cache=True, inline="always")
def _opinion(
    pose: Floats,
    pinhole: Floats,
    depth: Floats32,
    normal: Floats32,
    trust: Floats32,
    x: float,
    y: float,
    z: float,
) -> tuple[float, float, int, int]:
    """Signed distance to the plane of the pixel that a point falls on, its weight, 0 for none, and that pixel."""
    w = pose[6] * x + pose[7] * y + pose[8] * z + pose[11]
    if w < 0.05:
        return 0.0, 0.0, 0, 0
    u = pose[0] * x + pose[1] * y + pose[2] * z + pose[9]
    v = pose[3] * x + pose[4] * y + pose[5] * z + pose[10]
    column = math.floor(pinhole[0] * u / w + pinhole[2])
    row = math.floor(pinhole[1] * v / w + pinhole[3])
    if row < 0 or column < 0 or row >= depth.shape[0] or column >= depth.shape[1]:
        return 0.0, 0.0, 0, 0
    d = depth[row, column]
    if d <= 0.0:
        return 0.0, 0.0, 0, 0
    px = (column + 0.5 - pinhole[2]) / pinhole[0] * d
    py = (row + 0.5 - pinhole[3]) / pinhole[1] * d
    a, b, c = normal[row, column, 0], normal[row, column, 1], normal[row, column, 2]
    cosine = -(a * px + b * py + c * d) / math.sqrt(px * px + py * py + d * d)
    if cosine < LEAST_COSINE:
        return 0.0, 0.0, 0, 0
    distance = a * (u - px) + b * (v - py) + c * (w - d)
    return distance, trust[row, column] * cosine, row, column
