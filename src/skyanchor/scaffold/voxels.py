"""Numba kernel that keeps one point per voxel, whatever the voxels' sizes."""

from __future__ import annotations

import math

import numpy as np

from skyanchor.compiled import njit
from skyanchor.types import Bools, Floats, Floats32, Ints


@njit(cache=True, nogil=True)
def first_in_voxel(points: Floats32, side: Floats, group: Ints) -> Bools:
    """(N,), which points (N, 3) are the first in their voxel of `side` (N,) metres; groups (N,) never share one.

    A voxel is known by one number of 64 bits that no other has, but for a chance of N² / 2⁶⁵ (SplitMix64).
    """
    slots = 16
    while slots < 2 * len(points):
        slots *= 2
    taken = np.zeros(slots, np.uint64)
    first = np.zeros(len(points), np.bool_)
    for n in range(len(points)):
        key = _mixed(np.uint64(0), group[n])
        for axis in range(3):
            key = _mixed(key, math.floor(np.float64(points[n, axis]) / side[n]))
        key = max(key, np.uint64(1))
        slot = np.int64(key & np.uint64(slots - 1))
        while taken[slot] != 0 and taken[slot] != key:
            slot = (slot + 1) & (slots - 1)
        if taken[slot] == 0:
            taken[slot] = key
            first[n] = True
    return first


@njit(cache=True, inline="always")
def _mixed(key: np.uint64, value: int) -> np.uint64:
    """The key with one more number in it."""
    key += np.uint64(value) + np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))
