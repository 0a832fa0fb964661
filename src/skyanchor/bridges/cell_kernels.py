"""Numba kernels of the cells of a horizontal grid: which one each point lies in, and the ball round those of one."""

from __future__ import annotations

import math

import numpy as np
from numba import prange

from skyanchor.compiled import njit
from skyanchor.types import Floats, Floats32, Ints


@njit(cache=True, parallel=True)
def cell_places(points: Floats32, across: Floats, cell: float) -> Ints:
    """(N, 2), the cell of a horizontal grid that each point lies in."""
    out = np.empty((len(points), 2), np.int64)
    for i in prange(len(points)):
        for axis in range(2):
            along = points[i, 0] * across[axis, 0] + points[i, 1] * across[axis, 1] + points[i, 2] * across[axis, 2]
            out[i, axis] = math.floor(along / cell)
    return out


@njit(cache=True, parallel=True)
def cell_balls(points: Floats32, edges: Ints) -> tuple[Floats, Floats]:
    """(C, 3) mean of the points of every cell, and (C,) the distance of its farthest; cell c is edges[c : c + 2]."""
    count = len(edges) - 1
    centres, radius = np.zeros((count, 3)), np.zeros(count)
    for cell in prange(count):
        centre = centres[cell]
        for i in range(edges[cell], edges[cell + 1]):
            for c in range(3):
                centre[c] += points[i, c]
        for c in range(3):
            centre[c] /= edges[cell + 1] - edges[cell]
        for i in range(edges[cell], edges[cell + 1]):
            x, y, z = points[i, 0] - centre[0], points[i, 1] - centre[1], points[i, 2] - centre[2]
            radius[cell] = max(radius[cell], math.sqrt(x * x + y * y + z * z))
    return centres, radius
