"""Numba kernels: where points meet the surface of a depth map, and which pixels cubes take."""

from __future__ import annotations

import math

import numpy as np

from skyanchor.compiled import njit
from skyanchor.types import Bools, Floats, Floats32

NEAREST = 1e-9
"""Metres: what is nearer lies in no picture."""


@njit(cache=True, nogil=True)
def met(points: Floats32, pose: Floats, pinhole: Floats, depth: Floats32, known: Bools) -> tuple[Floats32, Floats32]:
    """Depth of each point (N, 3) in a view, and of the surface in its pixel, (N,) each, 0 where none is known.

    `pose` (12,) is cam_from_world, the rotation row by row, then the translation; `pinhole` is fx, fy, cx, cy.
    """
    own = np.zeros(len(points), np.float32)
    surface = np.zeros(len(points), np.float32)
    for n in range(len(points)):
        x, y, z = np.float64(points[n, 0]), np.float64(points[n, 1]), np.float64(points[n, 2])
        w = pose[6] * x + pose[7] * y + pose[8] * z + pose[11]
        if not w > NEAREST:
            continue
        across = (pose[0] * x + pose[1] * y + pose[2] * z + pose[9]) / w * pinhole[0] + pinhole[2]
        down = (pose[3] * x + pose[4] * y + pose[5] * z + pose[10]) / w * pinhole[1] + pinhole[3]
        if not (0.0 <= across < depth.shape[1] and 0.0 <= down < depth.shape[0]):
            continue
        row, column = math.floor(down), math.floor(across)
        if known[row, column]:
            own[n] = w
            surface[n] = depth[row, column]
    return own, surface


@njit(cache=True, nogil=True)
def nearest(centres: Floats, pose: Floats, pinhole: Floats, half: float, height: int, width: int) -> Floats32:
    """(height, width), depth of the front of the nearest of cubes in every pixel, inf where there is none.

    The cubes have their centres (N, 3) and half their side, metres, and count as squares that face the camera.
    """
    found = np.full((height, width), np.inf, np.float32)
    for n in range(len(centres)):
        x, y, z = centres[n, 0], centres[n, 1], centres[n, 2]
        w = pose[6] * x + pose[7] * y + pose[8] * z + pose[11]
        if not w > half:
            continue
        across = (pose[0] * x + pose[1] * y + pose[2] * z + pose[9]) / w * pinhole[0] + pinhole[2]
        down = (pose[3] * x + pose[4] * y + pose[5] * z + pose[10]) / w * pinhole[1] + pinhole[3]
        beside, above = half / w * pinhole[0], half / w * pinhole[1]
        for row in range(max(0, math.floor(down - above)), min(height, math.floor(down + above) + 1)):
            for column in range(max(0, math.floor(across - beside)), min(width, math.floor(across + beside) + 1)):
                found[row, column] = min(found[row, column], w - half)
    return found
