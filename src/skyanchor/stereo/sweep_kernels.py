"""Numba kernels of the plane sweep: matching costs on a stack of planes, semi-global aggregation, best plane.

Every kernel writes each cell from one thread only and sums integers, so the result does not depend on the thread count.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

from skyanchor.compiled import njit
from skyanchor.types import Bytes, Floats32

UNSEEN = np.float32(2.0)
OUTSIDE = np.float32(-1.0)


@njit(cache=True, fastmath=True)
def _warp(source, size, M, m, tilt, u_plane, at, fu, fv, out):
    """Source pixels seen through the plane 1/z(p) = u_plane * tilt . p; `OUTSIDE` where the plane leaves the source.

    at, fu and fv are scratch of a row: where its pixels lie in the flat source, and how far right and down of there.
    """
    height, width = out.shape
    flat = source.ravel()
    stride = np.int32(source.shape[1])
    zero = np.float32(0.0)
    right = size[0] - np.float32(1.001)
    bottom = size[1] - np.float32(1.001)
    # along a row 1/z and the three coordinates q = M p + m / z are linear: start + step x
    step, s0, s1, s2 = u_plane * tilt[0], M[0, 0], M[1, 0], M[2, 0]
    s0, s1, s2 = s0 + step * m[0], s1 + step * m[1], s2 + step * m[2]
    for y in range(height):
        py = np.float32(y + 0.5)
        w0 = u_plane * (tilt[1] * py + tilt[2])
        q0 = M[0, 1] * py + M[0, 2] + w0 * m[0]
        q1 = M[1, 1] * py + M[1, 2] + w0 * m[1]
        q2 = M[2, 1] * py + M[2, 2] + w0 * m[2]
        for x in range(width):
            px = np.float32(x) + np.float32(0.5)
            w = w0 + step * px
            z = q2 + s2 * px
            ahead = z if z > zero else np.float32(1.0)  # beside the source's eye z is 0: not seen, and not divided by
            u = (q0 + s0 * px) / ahead - np.float32(0.5)
            v = (q1 + s1 * px) / ahead - np.float32(0.5)
            seen = (w > zero) & (z > zero) & (u >= zero) & (v >= zero) & (u < right) & (v < bottom)
            iu = np.int32(u) if seen else np.int32(0)
            iv = np.int32(v) if seen else np.int32(0)
            at[x] = iv * stride + iu
            fu[x] = u - np.float32(iu) if seen else OUTSIDE
            fv[x] = v - np.float32(iv)
        for x in range(width):
            i = np.uint64(at[x])
            j = i + np.uint64(stride)
            top = flat[i] + fu[x] * (flat[i + np.uint64(1)] - flat[i])
            low = flat[j] + fu[x] * (flat[j + np.uint64(1)] - flat[j])
            out[y, x] = top + fv[x] * (low - top) if fu[x] >= zero else OUTSIDE


@njit(cache=True, fastmath=False)
def _zncc_costs(reference, warped, radius, noise, out):
    """1 - ZNCC over (2 radius + 1)² windows, 0..1, `UNSEEN` where the plane leaves the source.

    ZNCC = cov / sqrt((var_a + noise²)(var_b + noise²)): plain windows score 0 rather than chance.
    """
    height, width = reference.shape
    columns = np.zeros((6, width), np.float64)
    eps = noise * noise
    for y in range(-radius, height):
        for sign, row in ((1.0, y + radius), (-1.0, y - radius - 1)):
            if row < 0 or row >= height:
                continue
            for x in range(width):
                b = warped[row, x]
                if b >= 0.0:
                    a = reference[row, x]
                    columns[0, x] += sign
                    columns[1, x] += sign * a
                    columns[2, x] += sign * b
                    columns[3, x] += sign * a * a
                    columns[4, x] += sign * b * b
                    columns[5, x] += sign * a * b
        if y < 0:
            continue
        s0 = s1 = s2 = s3 = s4 = s5 = 0.0
        for x in range(-radius, width):
            add = x + radius
            if add < width:
                s0 += columns[0, add]
                s1 += columns[1, add]
                s2 += columns[2, add]
                s3 += columns[3, add]
                s4 += columns[4, add]
                s5 += columns[5, add]
            drop = x - radius - 1
            if drop >= 0:
                s0 -= columns[0, drop]
                s1 -= columns[1, drop]
                s2 -= columns[2, drop]
                s3 -= columns[3, drop]
                s4 -= columns[4, drop]
                s5 -= columns[5, drop]
            if x < 0:
                continue
            if warped[y, x] < 0.0 or s0 < 4.0:
                out[y, x] = UNSEEN
                continue
            share = 1.0 / s0
            ma = s1 * share
            mb = s2 * share
            va = max(s3 * share - ma * ma, 0.0)
            vb = max(s4 * share - mb * mb, 0.0)
            zncc = np.float32(s5 * share - ma * mb) / np.sqrt(np.float32((va + eps) * (vb + eps)))
            out[y, x] = min(max(np.float32(1.0) - zncc, np.float32(0.0)), np.float32(1.0))


@njit(cache=True, fastmath=True)
def _means_of_best(costs, low, out):
    """Per pixel of a row the mean of the smallest seen of its costs (S, W), as many as `low` (K, W) has room for.

    1 when nothing is seen. The costs are moved about.
    """
    low[:] = UNSEEN
    for s in range(costs.shape[0]):
        for k in range(low.shape[0]):
            for x in range(out.shape[0]):
                less = min(low[k, x], costs[s, x])
                costs[s, x] = max(low[k, x], costs[s, x])
                low[k, x] = less
    for x in range(out.shape[0]):
        total = np.float32(0.0)
        used = 0
        for k in range(low.shape[0]):
            if low[k, x] < UNSEEN:
                total += low[k, x]
                used += 1
        out[x] = total / used if used else np.float32(1.0)


@njit(cache=True, parallel=True)
def sweep_costs(reference, sources, sizes, M, m, tilt, u_planes, radius, noise, keep):
    """Matching cost (H, W, D) uint8 of every pixel on every plane: mean over the best `keep` of the sources."""
    height, width = reference.shape
    n = sources.shape[0]
    volume = np.empty((height, width, u_planes.shape[0]), np.uint8)
    for d in nb.prange(u_planes.shape[0]):
        warped = np.empty((height, width), np.float32)
        costs = np.empty((n, height, width), np.float32)
        at = np.empty(width, np.int32)
        part = np.empty((2, width), np.float32)
        for s in range(n):
            _warp(sources[s], sizes[s], M[s], m[s], tilt, u_planes[d], at, part[0], part[1], warped)
            _zncc_costs(reference, warped, radius, noise, costs[s])
        low = np.empty((min(keep, n), width), np.float32)
        for y in range(height):
            _means_of_best(costs[:, y], low, part[0])
            for x in range(width):
                volume[y, x, d] = np.uint8(part[0, x] * np.float32(255.0))
    return volume


@njit(cache=True, fastmath=True)
def _step(cost, before, after, p1, p2):
    """One step along a path: after = cost + min(before, neighbours + p1, min + p2) - min; both padded by one cell."""
    n = cost.shape[0]
    low = before[1]
    for d in range(2, n + 1):
        low = min(low, before[d])
    jump = np.int32(low + p2)
    for d in range(n):
        side = np.int32(min(before[d], before[d + 2]) + p1)
        after[d + 1] = np.int32(cost[d]) + np.int32(min(before[d + 1], side, jump) - low)


@njit(cache=True, fastmath=True)
def _follow(volume, reference, total, x, y, dx, dy, p1, p2, contrast):
    """Add the path cost along one line that starts at (x, y) and runs to the border."""
    height, width, planes = volume.shape
    before = np.zeros(planes + 2, np.int32)
    before[0] = before[-1] = 1 << 20
    after = before.copy()
    grey = reference[y, x]
    while 0 <= x < width and 0 <= y < height:
        jump = max(p1 + 1, np.int32(p2 / (1.0 + abs(reference[y, x] - grey) / contrast)))  # lower across an edge
        grey = reference[y, x]
        _step(volume[y, x], before, after, np.int32(p1), np.int32(jump))
        row = total[y, x]
        for d in range(planes):
            row[d] += np.uint16(after[d + 1])
        before, after = after, before
        x += dx
        y += dy


@njit(cache=True, parallel=True)
def _aggregate_direction(volume, reference, total, dx, dy, p1, p2, contrast):
    """Add the path costs of one direction; each line of pixels belongs to one thread."""
    height, width, _ = volume.shape
    rows = height if dx != 0 else 0
    columns = width if dy != 0 else 0
    first_x = 0 if dx > 0 else width - 1
    first_y = 0 if dy > 0 else height - 1
    for line in nb.prange(rows + columns):
        i = np.int64(line)
        if i < rows:
            _follow(volume, reference, total, first_x, i, dx, dy, p1, p2, contrast)
        elif dx == 0 or i - rows != first_x:
            _follow(volume, reference, total, i - rows, first_y, dx, dy, p1, p2, contrast)


def aggregate(volume: Bytes, reference: Floats32, p1: int, p2: int, contrast: float) -> npt.NDArray[np.uint16]:
    """Semi-global aggregation over eight paths, (H, W, D) uint16."""
    total = np.zeros(volume.shape, np.uint16)
    for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1)):
        _aggregate_direction(volume, reference, total, dx, dy, p1, p2, contrast)
    return total


@njit(cache=True, parallel=True)
def best_planes(total, u_planes):
    """Per pixel 1/distance of the best plane, refined by a parabola through its neighbours, (H, W) float32."""
    height, width, planes = total.shape
    best = np.empty((height, width), np.float32)
    step = (u_planes[-1] - u_planes[0]) / (planes - 1)
    for y in nb.prange(height):
        for x in range(width):
            k = 0
            for d in range(1, planes):
                if total[y, x, d] < total[y, x, k]:
                    k = d
            shift = 0.0
            if 0 < k < planes - 1:
                left = float(total[y, x, k - 1])
                right = float(total[y, x, k + 1])
                bend = left + right - 2.0 * float(total[y, x, k])
                if bend > 0.0:
                    shift = 0.5 * (left - right) / bend
            best[y, x] = u_planes[k] + shift * step
    return best
