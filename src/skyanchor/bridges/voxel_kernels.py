"""Numba kernels of the voxels of a surface: a table of sums that threads fill in parts, one disc of each, smoothed."""

from __future__ import annotations

import math

import numpy as np
from numba import prange

from skyanchor.bridges.rounding import ROUNDED
from skyanchor.compiled import njit
from skyanchor.types import Floats, Floats32, Ints

SHARD_BITS = 4
SHARDS = 1 << SHARD_BITS
"""Parts of the table of voxels that threads fill independently."""
BLOCK = 8192
"""Discs that one thread smooths in a row."""


@njit(cache=True, inline="always")
def _mixed(key: int) -> np.uint64:
    """A number of 64 bits whose high bits depend on all of the key."""
    return np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, inline="always")
def _shard(key: int) -> int:
    """Which part of the table a voxel belongs to."""
    return int(_mixed(key) >> np.uint64(64 - SHARD_BITS))


@njit(cache=True)
def _bucket(key: int, keys: Ints) -> int:
    """Where the key is, or the free slot where it belongs (-1 = free), in an open table of SHARDS · 2ⁿ slots."""
    room = len(keys) // SHARDS
    first = _shard(key) * room
    place = int(_mixed(key) >> np.uint64(32)) & (room - 1)
    while keys[first + place] != -1 and keys[first + place] != key:
        place = (place + 1) & (room - 1)
    return first + place


@njit(cache=True, parallel=True)
def voxel_keys(points: Floats32, weights: Floats32, least: float, voxel: float) -> Ints:
    """(H, W), the voxel of every pixel of weight above `least`; -1 for the others."""
    out = np.full(weights.shape, -1, np.int64)
    for row in prange(points.shape[0]):
        for column in range(points.shape[1]):
            if weights[row, column] > least:
                p = points[row, column]
                i, j, k = math.floor(p[0] / voxel), math.floor(p[1] / voxel), math.floor(p[2] / voxel)
                out[row, column] = ((i + 1048576) << 42) | ((j + 1048576) << 21) | (k + 1048576)
    return out


@njit(cache=True, parallel=True)
def shard_counts(voxels: Ints) -> Ints:
    """(SHARDS,), how many pixels fall into each part of the table."""
    out = np.zeros(SHARDS, np.int64)
    for shard in prange(SHARDS):
        count = 0
        for key in voxels.flat:
            if key != -1 and _shard(key) == shard:
                count += 1
        out[shard] = count
    return out


@njit(cache=True, parallel=True)
def add_to_voxels(
    voxels: Ints, points: Floats32, normals: Floats32, weights: Floats32, voxel: float, keys: Ints, sums: Floats
) -> Ints:
    """Add pixels (H, W) with a voxel to the sums (S, 7) = weighted offset, normal, weight; (SHARDS,) new voxels.

    Offsets count from the voxel's corner, which keeps the sums small. Every part of the table must have room for its
    pixels. A part is one thread's work, pixel after pixel, so the sums do not depend on the thread count.
    """
    fresh = np.zeros(SHARDS, np.int64)
    for shard in prange(SHARDS):
        new = 0
        for row in range(voxels.shape[0]):
            for column in range(voxels.shape[1]):
                key = voxels[row, column]
                if key == -1 or _shard(key) != shard:
                    continue
                slot = _bucket(key, keys)
                if keys[slot] == -1:
                    keys[slot] = key
                    new += 1
                w = weights[row, column]
                for c in range(3):
                    corner = ((key >> (42 - 21 * c)) & 0x1FFFFF) - 1048576
                    sums[slot, c] += w * (points[row, column, c] - corner * voxel)
                for c in range(3):
                    sums[slot, 3 + c] += w * normals[row, column, c]
                sums[slot, 6] += w
        fresh[shard] = new
    return fresh


@njit(cache=True, parallel=True)
def moved_table(keys: Ints, sums: Floats, size: int) -> tuple[Ints, Floats]:
    """The same voxels in a table of another size."""
    new_keys, new_sums = np.empty(size, np.int64), np.empty((size, sums.shape[1]))
    room, new_room = len(keys) // SHARDS, size // SHARDS
    for shard in prange(SHARDS):
        new_keys[shard * new_room : (shard + 1) * new_room] = -1
        new_sums[shard * new_room : (shard + 1) * new_room] = 0.0
        for slot in range(shard * room, (shard + 1) * room):
            if keys[slot] != -1:
                target = _bucket(keys[slot], new_keys)
                new_keys[target] = keys[slot]
                new_sums[target] = sums[slot]
    return new_keys, new_sums


@njit(cache=True, inline="always")
def _mean(key: int, sums: Floats, voxel: float, point: Floats32, normal: Floats32) -> None:
    """Write the disc of one voxel: its corner and the mean offset, the mean normal."""
    for c in range(3):
        corner = ((key >> (42 - 21 * c)) & 0x1FFFFF) - 1048576
        point[c] = corner * voxel + sums[c] / sums[6]
    size = math.sqrt(sums[3] * sums[3] + sums[4] * sums[4] + sums[5] * sums[5]) + 1e-12
    for c in range(3):
        normal[c] = sums[3 + c] / size


@njit(cache=True, parallel=True)
def voxel_means(keys: Ints, sums: Floats, slots: Ints, voxel: float) -> tuple[Floats32, Floats32]:
    """(points, normals) of the voxels in these slots of the table."""
    points, normals = np.empty((len(slots), 3), np.float32), np.empty((len(slots), 3), np.float32)
    for i in prange(len(slots)):
        _mean(keys[slots[i]], sums[slots[i]], voxel, points[i], normals[i])
    return points, normals


@njit(cache=True, parallel=True)
def merged(
    points: Floats32, normals: Floats32, voxels: Ints, order: Ints, starts: Ints, voxel: float
) -> tuple[Floats32, Floats32]:
    """(points, normals) of one disc per voxel: the means of discs order[starts[i] : starts[i + 1]], in that order."""
    count = len(starts) - 1
    new_points, new_normals = np.empty((count, 3), np.float32), np.empty((count, 3), np.float32)
    for block in prange((count + BLOCK - 1) // BLOCK):
        sums = np.empty(7)
        for i in range(block * BLOCK, min(count, (block + 1) * BLOCK)):
            key = voxels[order[starts[i]]]
            sums[:] = 0.0
            for n in range(starts[i], starts[i + 1]):
                for c in range(3):
                    corner = ((key >> (42 - 21 * c)) & 0x1FFFFF) - 1048576
                    sums[c] += points[order[n], c] - corner * voxel
                    sums[3 + c] += normals[order[n], c]
                sums[6] += 1.0
            _mean(key, sums, voxel, new_points[i], new_normals[i])
    return new_points, new_normals


@njit(cache=True)
def _first_from(keys: Ints, wanted: int) -> int:
    """Index of the first of the ascending keys that is not below `wanted`."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, parallel=True, fastmath=ROUNDED)
def smooth(points: Floats32, normals: Floats32, keys: Ints, voxel: float) -> tuple[Floats32, Floats32]:
    """(points, normals) after one step towards the plane of their neighbours; edges are kept by the normals.

    Discs live one per voxel, in the order of the voxels' keys. p moves by n Σ w n·(q - p) / Σ w over the 5³ voxels
    around, w falls with distance and turn. The 5 voxels along the last axis have keys that follow each other, and the
    25 places where such rows begin only move on from disc to disc.
    """
    out, turned = np.empty_like(points), np.empty_like(normals)
    for block in prange((len(points) + BLOCK - 1) // BLOCK):
        begins = np.empty(25, np.int64)
        for n in range(25):
            begins[n] = _first_from(keys, keys[block * BLOCK] + ((n // 5 - 2) << 42) + ((n % 5 - 2) << 21) - 2)
        for i in range(block * BLOCK, min(len(points), (block + 1) * BLOCK)):
            px, py, pz = points[i, 0], points[i, 1], points[i, 2]
            nx, ny, nz = normals[i, 0], normals[i, 1], normals[i, 2]
            total, moved, sx, sy, sz = 1e-9, 0.0, 0.0, 0.0, 0.0
            for n in range(25):
                low = keys[i] + ((n // 5 - 2) << 42) + ((n % 5 - 2) << 21) - 2
                j = begins[n]
                while j < len(keys) and keys[j] < low:
                    j += 1
                begins[n] = j
                while j < len(keys) and keys[j] <= low + 4:
                    alike = nx * normals[j, 0] + ny * normals[j, 1] + nz * normals[j, 2]
                    if alike >= 0.5:
                        dx, dy, dz = points[j, 0] - px, points[j, 1] - py, points[j, 2] - pz
                        far = (dx * dx + dy * dy + dz * dz) / (voxel * voxel)
                        w = alike * alike * math.exp(-0.25 * far)
                        total += w
                        moved += w * (nx * dx + ny * dy + nz * dz)
                        sx += w * normals[j, 0]
                        sy += w * normals[j, 1]
                        sz += w * normals[j, 2]
                    j += 1
            step = moved / total
            out[i, 0], out[i, 1], out[i, 2] = px + nx * step, py + ny * step, pz + nz * step
            size = math.sqrt(sx * sx + sy * sy + sz * sz) + 1e-12
            turned[i, 0], turned[i, 1], turned[i, 2] = sx / size, sy / size, sz / size
    return out, turned
