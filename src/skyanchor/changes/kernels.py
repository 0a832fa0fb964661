"""Numba kernel that asks many depth maps whether places are free, on a surface, or hidden behind one."""

from __future__ import annotations

import math

import numpy as np

from skyanchor.compiled import njit
from skyanchor.types import Floats, Floats32, Ints

NEAREST = 0.3
"""Metres: nearer than this a camera has no opinion."""


@njit(cache=True, nogil=True)
def asked(
    points: Floats,
    poses: Floats,
    pinholes: Floats,
    depth: Floats32,
    normal: Floats32,
    weight: Floats32,
    farthest: float,
    margin: float,
    relative: Floats,
    height: float,
) -> tuple[Ints, Ints, Floats, Floats]:
    """How many of the maps look through each point (N, 3), how many see a surface there, and their weights; (N,) each.

    Points beyond `farthest` are not asked about. `relative` (V,) is what the margin grows by with each metre of depth.
    A map looks through a point if all depths around its pixel lie behind it by the margin, and it lies off the plane of
    its pixel by `height`.
    """
    through = np.zeros(len(points), np.int64)
    at = np.zeros(len(points), np.int64)
    weight_through = np.zeros(len(points), np.float64)
    weight_at = np.zeros(len(points), np.float64)
    for n in range(len(points)):
        x, y, z = points[n, 0], points[n, 1], points[n, 2]
        for v in range(len(poses)):
            opinion, row, column = _opinion(
                poses[v], pinholes[v], depth[v], normal[v], farthest, margin, relative[v], height, x, y, z
            )
            if opinion > 0:
                through[n] += 1
                weight_through[n] += weight[v, row, column]
            elif opinion < 0:
                at[n] += 1
                weight_at[n] += weight[v, row, column]
    return through, at, weight_through, weight_at


@njit(cache=True, inline="always")
def _opinion(
    pose: Floats,
    pinhole: Floats,
    depth: Floats32,
    normal: Floats32,
    farthest: float,
    margin: float,
    relative: float,
    height: float,
    x: float,
    y: float,
    z: float,
) -> tuple[int, int, int]:
    """1 for free, -1 for a surface, 0 for none: out of the picture, unknown, or behind a surface; and the pixel."""
    w = pose[6] * x + pose[7] * y + pose[8] * z + pose[11]
    if w < NEAREST or w > farthest:
        return 0, 0, 0
    u = pose[0] * x + pose[1] * y + pose[2] * z + pose[9]
    v = pose[3] * x + pose[4] * y + pose[5] * z + pose[10]
    column = math.floor(pinhole[0] * u / w + pinhole[2])
    row = math.floor(pinhole[1] * v / w + pinhole[3])
    if row < 1 or column < 1 or row >= depth.shape[0] - 1 or column >= depth.shape[1] - 1:
        return 0, 0, 0
    own = depth[row, column]
    if own <= 0.0:
        return 0, 0, 0
    nearest, last = own, own
    for i in range(row - 1, row + 2):
        for j in range(column - 1, column + 2):
            if depth[i, j] > 0.0:
                nearest = min(nearest, depth[i, j])
                last = max(last, depth[i, j])
    off = margin + relative * w
    if w > last + off:
        return 0, 0, 0
    if w >= nearest - off:
        return -1, row, column
    a, b, c = normal[row, column, 0], normal[row, column, 1], normal[row, column, 2]
    px = (column + 0.5 - pinhole[2]) / pinhole[0] * own
    py = (row + 0.5 - pinhole[3]) / pinhole[1] * own
    off_plane = a * (u - px) + b * (v - py) + c * (w - own) >= height
    return 1 if off_plane else -1, row, column
