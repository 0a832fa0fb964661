"""Numba kernels that paint a drawn view from aerial photos: which of them see it, and the colour of each pixel."""

from __future__ import annotations

import math

import numpy as np
from numba import prange

from skyanchor.bridges.rounding import ROUNDED
from skyanchor.compiled import njit
from skyanchor.types import Bytes, Floats, Floats32, Ints

BACK = 0.25
"""Cosine between ray and normal from which a surface counts as seen from behind; grazed ground must not."""
LEAST_FACING = 0.08**2
"""Square of the cosine between a surface's normal and the way to a photo that may paint it, at least."""
FRONT_PIXELS = 2.0
"""How much nearer the window of a photo's `front` may reach on a wall at 45 degrees, in pixels of it on the surface."""


@njit(cache=True, fastmath=ROUNDED)
def pixels_per_area(points: Floats, normals: Floats, K: Floats, sizes: Ints, Rs: Floats, centres: Floats) -> Floats:
    """(V,), cos(incidence) / distance of what each view sees of points (N, 3) with normals (N, 3), summed."""
    gains = np.zeros(len(centres))
    for j in range(len(centres)):
        for i in range(len(points)):
            x, y, w = points[i, 0] - centres[j, 0], points[i, 1] - centres[j, 1], points[i, 2] - centres[j, 2]
            square = max(x * x + y * y + w * w, 1e-18)
            towards = -(normals[i, 0] * x + normals[i, 1] * y + normals[i, 2] * w)
            Z = Rs[j, 2, 0] * x + Rs[j, 2, 1] * y + Rs[j, 2, 2] * w
            if towards <= 0.0 or towards * towards <= LEAST_FACING * square or Z <= 1e-9:
                continue
            u = (Rs[j, 0, 0] * x + Rs[j, 0, 1] * y + Rs[j, 0, 2] * w) / Z * K[j, 0] + K[j, 2]
            v = (Rs[j, 1, 0] * x + Rs[j, 1, 1] * y + Rs[j, 1, 2] * w) / Z * K[j, 1] + K[j, 3]
            if 0 <= u < sizes[j, 0] and 0 <= v < sizes[j, 1]:
                gains[j] += towards / square
    return gains


@njit(cache=True, fastmath=ROUNDED, inline="always")
def _best_view(
    point: tuple[float, float, float],
    normal: tuple[float, float, float],
    front: Floats32,
    slots: Ints,
    photo_K: Floats,
    sizes: Ints,
    front_K: Floats,
    Rs: Floats,
    centres: Floats,
    tolerance: float,
) -> tuple[int, float, float]:
    """(view, its pixel u, v) with the largest cos(incidence) / distance of those that see a point; view -1 for none."""
    x, y, w = point
    nx, ny, nz = normal
    best, which, bu, bv = 0.0, -1, 0.0, 0.0
    for j in range(len(slots)):
        tx, ty, tz = centres[j, 0] - x, centres[j, 1] - y, centres[j, 2] - w
        square = tx * tx + ty * ty + tz * tz
        towards = nx * tx + ny * ty + nz * tz
        if towards * photo_K[j, 0] <= best * square or towards * towards < LEAST_FACING * square:
            continue
        Z = -(Rs[j, 2, 0] * tx + Rs[j, 2, 1] * ty + Rs[j, 2, 2] * tz)
        if Z < 0.1:
            continue
        nearer = 1.0 / Z
        a = -(Rs[j, 0, 0] * tx + Rs[j, 0, 1] * ty + Rs[j, 0, 2] * tz) * nearer
        b = -(Rs[j, 1, 0] * tx + Rs[j, 1, 1] * ty + Rs[j, 1, 2] * tz) * nearer
        u, v = a * photo_K[j, 0] + photo_K[j, 2], b * photo_K[j, 1] + photo_K[j, 3]
        if u < 1 or v < 1 or u >= sizes[j, 0] - 1 or v >= sizes[j, 1] - 1:
            continue
        fu, fv = a * front_K[j, 0] + front_K[j, 2], b * front_K[j, 1] + front_K[j, 3]
        if fu < 0 or fv < 0 or fu >= front.shape[2] or fv >= front.shape[1]:
            continue
        ahead = front[slots[j], int(fv), int(fu)]
        if ahead <= 0 or Z - ahead > max(tolerance, FRONT_PIXELS * Z / front_K[j, 0]):
            continue
        best, which, bu, bv = towards / square * photo_K[j, 0], j, u, v
    return which, bu, bv


@njit(cache=True, fastmath=ROUNDED, inline="always")
def _paint(photos: Bytes, slot: int, u: float, v: float, out: Bytes, row: int, column: int) -> None:
    """Write the colour of a photo at (u, v), between its pixels, to a pixel of `out`."""
    u -= 0.5
    v -= 0.5
    iu, iv = int(u), int(v)
    au, av = u - iu, v - iv
    for k in range(3):
        top = photos[slot, iv, iu, k] * (1.0 - au) + photos[slot, iv, iu + 1, k] * au
        low = photos[slot, iv + 1, iu, k] * (1.0 - au) + photos[slot, iv + 1, iu + 1, k] * au
        out[row, column, k] = np.uint8(top * (1.0 - av) + low * av + 0.5)


@njit(cache=True, parallel=True, fastmath=ROUNDED)
def colour(
    depth: Floats32,
    normal: Floats32,
    K: Floats,
    R: Floats,
    t: Floats,
    photos: Bytes,
    front: Floats32,
    slots: Ints,
    photo_K: Floats,
    sizes: Ints,
    front_K: Floats,
    Rs: Floats,
    centres: Floats,
    tolerance: float,
) -> tuple[Bytes, Ints]:
    """(RGB (H, W, 3), aerial view of each pixel (H, W), -1 for none), from the view that sees the surface best.

    Best is the largest cos(incidence) / distance, i.e. the most pixels per area, among the views in which the point is
    not behind `front`, the nearest surface in a small window of that view, by more than `tolerance` and what a wall
    falls within the window.
    """
    height, width = depth.shape
    out = np.zeros((height, width, 3), np.uint8)
    source = np.full((height, width), -1, np.int64)
    per_x, per_y = 1.0 / K[0], 1.0 / K[1]
    for row in prange(height):
        for column in range(width):
            z = depth[row, column]
            if z <= 0:
                continue
            rx, ry = (column + 0.5 - K[2]) * per_x, (row + 0.5 - K[3]) * per_y
            n0, n1, n2 = normal[row, column, 0], normal[row, column, 1], normal[row, column, 2]
            if n0 * rx + n1 * ry + n2 > BACK * math.sqrt(rx * rx + ry * ry + 1.0):
                continue
            a, b, c = rx * z - t[0], ry * z - t[1], z - t[2]
            x = R[0, 0] * a + R[1, 0] * b + R[2, 0] * c
            y = R[0, 1] * a + R[1, 1] * b + R[2, 1] * c
            w = R[0, 2] * a + R[1, 2] * b + R[2, 2] * c
            nx = R[0, 0] * n0 + R[1, 0] * n1 + R[2, 0] * n2
            ny = R[0, 1] * n0 + R[1, 1] * n1 + R[2, 1] * n2
            nz = R[0, 2] * n0 + R[1, 2] * n1 + R[2, 2] * n2
            which, u, v = _best_view(
                (x, y, w), (nx, ny, nz), front, slots, photo_K, sizes, front_K, Rs, centres, tolerance
            )
            if which >= 0:
                source[row, column] = which
                _paint(photos, slots[which], u, v, out, row, column)
    return out, source
