"""Numba kernels that draw the discs of a surface from a camera: depth and normals, or the nearest depth alone."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from numba import prange

from skyanchor.bridges.rounding import ROUNDED
from skyanchor.compiled import njit
from skyanchor.types import Floats, Floats32, Ints

Numbers: TypeAlias = npt.NDArray[np.int32]


@njit(cache=True, fastmath=ROUNDED)
def _ray_hit(
    px: float, py: float, X: float, Y: float, Z: float, nx: float, ny: float, nz: float, tight: float
) -> tuple[float, float]:
    """(depth, squared distance to the disc's centre over radius²) of ray (px, py, 1) on a disc; depth 0 for a miss.

    `tight` is 1 / radius².
    """
    along = nx * px + ny * py + nz
    if abs(along) < 1e-3:
        return 0.0, 9.0
    z = (nx * X + ny * Y + nz * Z) / along
    dx, dy, dz = px * z - X, py * z - Y, z - Z
    return z, (dx * dx + dy * dy + dz * dz) * tight


@njit(cache=True, fastmath=ROUNDED, inline="always")
def _turned(R: Floats, x: float, y: float, z: float) -> tuple[float, float, float]:
    """R (x, y, z)."""
    return (
        R[0, 0] * x + R[0, 1] * y + R[0, 2] * z,
        R[1, 0] * x + R[1, 1] * y + R[1, 2] * z,
        R[2, 0] * x + R[2, 1] * y + R[2, 2] * z,
    )


@njit(cache=True, fastmath=ROUNDED, inline="always")
def _span(centre: float, reach: float, first: float, last: float, focal: float, middle: float) -> tuple[int, int]:
    """(first, last) of the columns or rows whose middle sees between centre ± reach at depths `first` to `last`."""
    low, high = centre - reach, centre + reach
    return (
        math.ceil(low / (first if low < 0 else last) * focal + middle - 0.5),
        math.floor(high / (first if high > 0 else last) * focal + middle - 0.5),
    )


@njit(cache=True, fastmath=ROUNDED)
def discs_in_view(
    points: Floats32,
    normals: Floats32,
    spacing: Floats32,
    starts: Ints,
    ends: Ints,
    K: Floats,
    R: Floats,
    t: Floats,
    width: int,
    height: int,
    near: float,
    far: float,
    every: int,
) -> tuple[Floats32, Numbers]:
    """Discs of the index ranges that may cover the middle of a pixel, and (M, 4) where: first column, row, last ones.

    Only one of `every` so many is looked at, as much larger that they cover what all would.
    A row of the (M, 8) discs is centre and normal in camera axes, radius, least depth. A disc of radius r reaches
    r √(1 - n²) from its centre along an axis: seen edge-on, as ground mostly is, it is flat.
    """
    total, larger = 0, math.sqrt(every)
    for r in range(len(starts)):
        total += (ends[r] - starts[r]) // every + 1
    out, boxes = np.empty((total, 8), np.float32), np.empty((total, 4), np.int32)
    count = 0
    for r in range(len(starts)):
        for i in range((starts[r] + every - 1) // every * every, ends[r], every):
            x, y, z = _turned(R, points[i, 0], points[i, 1], points[i, 2])
            X, Y, Z = x + t[0], y + t[1], z + t[2]
            if not near < Z < far:
                continue
            size = spacing[i] * larger
            u, v = X / Z * K[0] + K[2], Y / Z * K[1] + K[3]
            px, py = size * K[0] / Z, size * K[1] / Z
            if u + px < 0 or u - px > width or v + py < 0 or v - py > height:
                continue
            nx, ny, nz = _turned(R, normals[i, 0], normals[i, 1], normals[i, 2])
            x0, x1 = max(0, math.floor(u - px)), min(width - 1, math.floor(u + px))
            y0, y1 = max(0, math.floor(v - py)), min(height - 1, math.floor(v + py))
            deep = size * math.sqrt(max(0.0, 1.0 - nz * nz)) + 1e-4
            first, last = Z - deep, Z + deep
            if first > 0.05 * Z:
                wide = size * math.sqrt(max(0.0, 1.0 - nx * nx)) + 1e-4
                tall = size * math.sqrt(max(0.0, 1.0 - ny * ny)) + 1e-4
                left, right = _span(X, wide, first, last, K[0], K[2])
                top, bottom = _span(Y, tall, first, last, K[1], K[3])
                x0, x1, y0, y1 = max(x0, left), min(x1, right), max(y0, top), min(y1, bottom)
            if x0 > x1 or y0 > y1:
                continue
            row, box = out[count], boxes[count]
            row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7] = X, Y, Z, nx, ny, nz, size, first
            box[0], box[1], box[2], box[3] = x0, y0, x1, y1
            count += 1
    return out[:count], boxes[:count]


@njit(cache=True, fastmath=ROUNDED)
def _hits(
    discs: Floats32, boxes: Numbers, K: Floats, low: int, high: int, near: float, nearest: Floats32
) -> tuple[Numbers, Floats]:
    """Where discs meet the rows from `low` to `high`: (M, 3) disc, row, column and (M, 2) depth, squared distance.

    In the order of the discs. `nearest` (H, W) falls to the nearest depth. What lies behind a nearer disc by more than
    is blended with it is left out where that is known already.
    """
    room = 0
    for i in range(len(discs)):
        rows = min(high - 1, boxes[i, 3]) - max(low, boxes[i, 1]) + 1
        room += max(0, rows) * (boxes[i, 2] - boxes[i, 0] + 1)
    where, met = np.empty((room, 3), np.int32), np.empty((room, 2))
    per_pixel, count = 1.0 / K[0], 0
    for i in range(len(discs)):
        X, Y, Z, nx, ny, nz, size, first = discs[i]
        hides, tight = first - np.float32(2.0) * size, 1.0 / (size * size)
        for row in range(max(low, boxes[i, 1]), min(high - 1, boxes[i, 3]) + 1):
            ry = (row + 0.5 - K[3]) / K[1]
            for column in range(boxes[i, 0], boxes[i, 2] + 1):
                if nearest[row, column] <= hides:
                    continue
                z, off = _ray_hit((column + 0.5 - K[2]) * per_pixel, ry, X, Y, Z, nx, ny, nz, tight)
                if off > 1.0 or z < near:
                    continue
                if z < nearest[row, column]:
                    nearest[row, column] = z
                where[count, 0], where[count, 1], where[count, 2] = i, row, column
                met[count, 0], met[count, 1] = z, off
                count += 1
    return where[:count], met[:count]


@njit(cache=True, parallel=True, fastmath=ROUNDED)
def splat(
    discs: Floats32, boxes: Numbers, K: Floats, width: int, height: int, near: float, bands: int
) -> tuple[Floats32, Floats32]:
    """(depth (H, W), normal in camera axes (H, W, 3)) of oriented discs; the nearest layer's discs are blended.

    First the nearest depth is found, then the mean, weighted by the distance from the disc's centre, of everything
    within a few spacings behind it. Normals point as stored: z > 0 means that the camera sees the back of the surface.
    A band is drawn by one thread, in the order of the discs: how many there are changes nothing.
    """
    nearest = np.full((height, width), 1e9, np.float32)
    depth = np.zeros((height, width), np.float32)
    normal = np.zeros((height, width, 3), np.float32)
    total = np.zeros((height, width), np.float32)
    for band in prange(bands):
        low, high = height * band // bands, height * (band + 1) // bands
        where, met = _hits(discs, boxes, K, low, high, near, nearest)
        for k in range(len(where)):
            i, row, column = where[k, 0], where[k, 1], where[k, 2]
            z, size = met[k, 0], discs[i, 6]
            if z < nearest[row, column] + 2.0 * size and nearest[row, column] > discs[i, 7] - np.float32(2.0) * size:
                share = math.exp(-3.0 * met[k, 1])
                total[row, column] += share
                depth[row, column] += share * z
                normal[row, column, 0] += share * discs[i, 3]
                normal[row, column, 1] += share * discs[i, 4]
                normal[row, column, 2] += share * discs[i, 5]
        for row in range(low, high):
            for column in range(width):
                if total[row, column] > 0:
                    depth[row, column] /= total[row, column]
                    n = normal[row, column]
                    length = math.sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]) + 1e-9
                    for k in range(3):
                        normal[row, column, k] /= length
    return depth, normal


@njit(cache=True, fastmath=ROUNDED)
def nearest_depth(
    points: Floats32,
    starts: Ints,
    ends: Ints,
    K: Floats,
    R: Floats,
    t: Floats,
    width: int,
    height: int,
) -> Floats32:
    """(H, W), depth of the nearest point over each pixel and its neighbours, for far views; 0 = none."""
    alone = np.full((height + 2, width + 2), 1e9, np.float32)  # points beside the image count for its edge
    for r in range(len(starts)):
        for i in range(starts[r], ends[r]):
            x, y, w = points[i, 0], points[i, 1], points[i, 2]
            z = R[2, 0] * x + R[2, 1] * y + R[2, 2] * w + t[2]
            if z < 0.1:
                continue
            u = math.floor((R[0, 0] * x + R[0, 1] * y + R[0, 2] * w + t[0]) / z * K[0] + K[2])
            v = math.floor((R[1, 0] * x + R[1, 1] * y + R[1, 2] * w + t[1]) / z * K[1] + K[3])
            if -1 <= u <= width and -1 <= v <= height and z < alone[v + 1, u + 1]:
                alone[v + 1, u + 1] = z
    out = np.zeros((height, width), np.float32)
    for row in range(height):
        for column in range(width):
            z = alone[row : row + 3, column : column + 3].min()
            if z <= 1e8:
                out[row, column] = z
    return out
