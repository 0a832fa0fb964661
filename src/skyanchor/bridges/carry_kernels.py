"""Numba kernel that finds a small surface patch of one photo in another photo of known pose."""

from __future__ import annotations

import math

import numpy as np
from numba import prange

from skyanchor.bridges.rounding import ROUNDED
from skyanchor.compiled import njit
from skyanchor.types import Bytes, Floats, Floats32, Ints

HALF = 5
"""Patches are (2 HALF + 1)² samples."""
SAMPLES = (2 * HALF + 1) ** 2
LANES = 16
"""Shifts along a row that are worked on at once; as many rows of them at most."""
ROW, SQUARES, CROSSES = np.uint64(2 * LANES), np.uint64(LANES**2), np.uint64(2 * LANES**2)
"""Where rows of a sample's surroundings begin, and sums of squares and products: fixed, so that they are vectorised."""
ONE = np.uint64(1)


@njit(cache=True, fastmath=ROUNDED, inline="always")
def _project(R: Floats, t: Floats, K: Floats, x: float, y: float, w: float) -> tuple[float, float, float]:
    z = R[2, 0] * x + R[2, 1] * y + R[2, 2] * w + t[2]
    if z < 0.05:
        return -1e9, -1e9, z
    u = (R[0, 0] * x + R[0, 1] * y + R[0, 2] * w + t[0]) / z * K[0] + K[2]
    v = (R[1, 0] * x + R[1, 1] * y + R[1, 2] * w + t[1]) / z * K[1] + K[3]
    return u, v, z


@njit(cache=True, fastmath=ROUNDED, inline="always")
def _sample(image: Bytes, height: int, width: int, u: float, v: float) -> float:
    """Bilinear grey value at a pixel position; negative outside."""
    a, b = u - 0.5, v - 0.5
    i, j = math.floor(b), math.floor(a)
    if i < 0 or j < 0 or i + 1 >= height or j + 1 >= width:
        return -1.0
    fa, fb = a - j, b - i
    top = image[i, j] * (1.0 - fa) + image[i, j + 1] * fa
    low = image[i + 1, j] * (1.0 - fa) + image[i + 1, j + 1] * fa
    return top * (1.0 - fb) + low * fb


@njit(cache=True, fastmath=ROUNDED)
def _likeness(
    image: Bytes, height: int, width: int, us: Floats, vs: Floats, du: float, dv: float, wanted: Floats
) -> float:
    """Normalised cross-correlation of `wanted` (zero mean, unit length) with the image at shifted positions."""
    total, square, cross = 0.0, 0.0, 0.0
    for n in range(SAMPLES):
        value = _sample(image, height, width, us[n] + du, vs[n] + dv)
        if value < 0:
            return -1.0
        total += value
        square += value * value
        cross += value * wanted[n]
    spread = square - total * total / SAMPLES
    if spread < 1.0 * SAMPLES:
        return -1.0
    return cross / math.sqrt(spread)


@njit(cache=True, fastmath=ROUNDED)
def _all_inside(height: int, width: int, us: Floats, vs: Floats, reach: int) -> bool:
    """Whether the samples stay in the image at all shifts up to `reach`."""
    for n in range(SAMPLES):
        i, j = math.floor(vs[n] - 0.5) - reach, math.floor(us[n] - 0.5) - reach
        if i < 0 or j < 0 or i + 2 * reach + 1 >= height or j + 2 * reach + 1 >= width:
            return False
    return True


@njit(cache=True, fastmath=ROUNDED)
def _likeness_all(
    image: Bytes, us: Floats, vs: Floats, wanted: Floats, round_it: Floats32, sums: Floats32, scores: Floats
) -> None:
    """Fill scores (2 reach + 1, same) with `_likeness` at all whole shifts, which leave no sample outside.

    All shifts of a sample weigh its four neighbours alike, so a row of them is worked on at once. Sums are taken
    relative to the pixel in the middle, in single precision; those beyond the last shift are of no use.
    """
    side = scores.shape[0]
    reach = side // 2
    sums[:] = np.float32(0.0)
    level = np.float32(image[math.floor(vs[SAMPLES // 2]), math.floor(us[SAMPLES // 2])])
    one = np.float32(1.0)
    for n in range(SAMPLES):
        i, j = math.floor(vs[n] - 0.5), math.floor(us[n] - 0.5)
        fa, fb = np.float32(us[n] - 0.5 - j), np.float32(vs[n] - 0.5 - i)
        w0, w1, w2, w3 = (one - fa) * (one - fb), fa * (one - fb), (one - fa) * fb, fa * fb
        own = np.float32(wanted[n])
        for row in range(side + 1):
            seen = image[i - reach + row, j - reach : j + reach + 2]
            for k in range(side + 1):
                round_it[np.uint64(row) * ROW + np.uint64(k)] = np.float32(seen[k]) - level
        for row in range(side):
            top = np.uint64(row) * ROW
            at = np.uint64(row * LANES)
            for k in range(LANES):
                here, to = top + np.uint64(k), at + np.uint64(k)
                above = w0 * round_it[here] + w1 * round_it[here + ONE]
                value = above + w2 * round_it[here + ROW] + w3 * round_it[here + ROW + ONE]
                sums[to] += value
                sums[to + SQUARES] += value * value
                sums[to + CROSSES] += value * own
    for row in range(side):
        for column in range(side):
            at = np.uint64(row * LANES + column)
            spread = sums[at + SQUARES] - sums[at] * sums[at] / np.float32(SAMPLES)
            scores[row, column] = -1.0 if spread < 1.0 * SAMPLES else sums[at + CROSSES] / math.sqrt(spread)


@njit(cache=True, fastmath=ROUNDED)
def _patch(point: Floats, normal: Floats, step: float, R: Floats, t: Floats, K: Floats, us: Floats, vs: Floats) -> None:
    """Fill us, vs with the pixels of a square patch of surface round the point."""
    nx, ny, nz = normal[0], normal[1], normal[2]
    if abs(nz) < 0.8:
        ax, ay, az = -ny, nx, 0.0
    else:
        ax, ay, az = 0.0, -nz, ny
    length = math.sqrt(ax * ax + ay * ay + az * az) + 1e-12
    ax, ay, az = ax / length, ay / length, az / length
    bx, by, bz = ny * az - nz * ay, nz * ax - nx * az, nx * ay - ny * ax
    n = 0
    for i in range(-HALF, HALF + 1):
        for j in range(-HALF, HALF + 1):
            x = point[0] + step * (i * ax + j * bx)
            y = point[1] + step * (i * ay + j * by)
            w = point[2] + step * (i * az + j * bz)
            us[n], vs[n], _ = _project(R, t, K, x, y, w)
            n += 1


@njit(cache=True, fastmath=ROUNDED)
def _vertex(before: float, here: float, after: float) -> float:
    """Offset of the top of the parabola through three values, -0.5 .. 0.5."""
    bend = before - 2.0 * here + after
    if bend > -1e-6:
        return 0.0
    return min(0.5, max(-0.5, 0.5 * (before - after) / bend))


@njit(cache=True, fastmath=ROUNDED)
def _read(image: Bytes, height: int, width: int, us: Floats, vs: Floats, wanted: Floats) -> bool:
    """Fill `wanted` with the samples, zero mean and unit length; False where one lies outside or all look alike."""
    total, square, fine = 0.0, 0.0, True
    for i in range(SAMPLES):
        value = _sample(image, height, width, us[i], vs[i])
        fine = fine and value >= 0
        wanted[i] = value
        total += value
        square += value * value
    spread = square - total * total / SAMPLES
    if not fine or spread < 9.0 * SAMPLES:
        return False
    for i in range(SAMPLES):
        wanted[i] = (wanted[i] - total / SAMPLES) / math.sqrt(spread)
    return True


@njit(cache=True, fastmath=ROUNDED)
def _search(
    image: Bytes,
    height: int,
    width: int,
    us: Floats,
    vs: Floats,
    wanted: Floats,
    round_it: Floats32,
    sums: Floats32,
    scores: Floats,
) -> None:
    """Fill scores (2 reach + 1, same) with the likeness at all whole shifts (rows down, columns right)."""
    side = scores.shape[0]
    reach = side // 2
    if side <= LANES and _all_inside(height, width, us, vs, reach):
        _likeness_all(image, us, vs, wanted, round_it, sums, scores)
        return
    for a in range(side):
        for b in range(side):
            scores[a, b] = _likeness(image, height, width, us, vs, b - reach, a - reach, wanted)


@njit(cache=True, fastmath=ROUNDED)
def _peak(scores: Floats) -> tuple[float, float, int, int]:
    """(likeness, sharpness, row, column) of the best shift; likeness -1 where none within the edge is the best."""
    side = scores.shape[0]
    best, i, j = -1.0, 0, 0
    for a in range(side):
        for b in range(side):
            if scores[a, b] > best:
                best, i, j = scores[a, b], a, b
    if best < 0 or i == 0 or j == 0 or i == side - 1 or j == side - 1:
        return -1.0, 0.0, 0, 0
    aside = max(scores[i - 1, j], scores[i + 1, j], scores[i, j - 1], scores[i, j + 1])
    aside = max(aside, scores[i - 1, j - 1], scores[i + 1, j + 1])
    aside = max(aside, scores[i - 1, j + 1], scores[i + 1, j - 1])
    return best, best - aside, i, j


@njit(cache=True, parallel=True, fastmath=ROUNDED)
def relocate(
    points: Floats,
    normals: Floats,
    reference: Ints,
    targets: Ints,
    images: Bytes,
    sizes: Ints,
    Ks: Floats,
    Rs: Floats,
    ts: Floats,
    reach: int,
) -> tuple[Floats, Floats, Floats]:
    """(xy (N, T, 2), likeness (N, T), sharpness (N, T)): where target photos show what the reference shows.

    The patch of surface round each point is read from its reference photo and searched for in each target photo, at
    whole pixels up to `reach` from where the point would project, then at fractions. Likeness -1 = not found; sharpness
    is how much likeness falls one pixel aside, in the direction where it falls least.
    """
    count, wide = targets.shape
    xy = np.zeros((count, wide, 2))
    likeness = np.full((count, wide), -1.0)
    sharpness = np.zeros((count, wide))
    side = 2 * reach + 1
    for n in prange(count):
        us, vs, wanted = np.empty(SAMPLES), np.empty(SAMPLES), np.empty(SAMPLES)
        scores, sums = np.empty((side, side)), np.empty(3 * LANES**2, np.float32)
        round_it = np.zeros((LANES + 1) * 2 * LANES, np.float32)
        r = reference[n]
        if r < 0:
            continue
        _, _, z = _project(Rs[r], ts[r], Ks[r], points[n, 0], points[n, 1], points[n, 2])
        step = z / Ks[r, 0]
        _patch(points[n], normals[n], step, Rs[r], ts[r], Ks[r], us, vs)
        if not _read(images[r], sizes[r, 0], sizes[r, 1], us, vs, wanted):
            continue
        for k in range(wide):
            j = targets[n, k]
            if j < 0:
                continue
            u, v, _ = _project(Rs[j], ts[j], Ks[j], points[n, 0], points[n, 1], points[n, 2])
            _patch(points[n], normals[n], step, Rs[j], ts[j], Ks[j], us, vs)
            _search(images[j], sizes[j, 0], sizes[j, 1], us, vs, wanted, round_it, sums, scores)
            best, sharp, row, column = _peak(scores)
            likeness[n, k], sharpness[n, k] = best, sharp
            if best >= 0:
                right = _vertex(scores[row, column - 1], best, scores[row, column + 1])
                down = _vertex(scores[row - 1, column], best, scores[row + 1, column])
                xy[n, k, 0] = u + column - reach + right
                xy[n, k, 1] = v + row - reach + down
    return xy, likeness, sharpness
