"""Numba kernels: hashed lattices and band-limited noise. Pure functions of position and seed."""

from __future__ import annotations

import math

from skyanchor.compiled import njit


@njit(cache=True)
def cell(ix: int, iy: int, seed: int) -> float:
    """A number in [0, 1) for a lattice cell; 64-bit integer mix."""
    h = ix * 374761393 + iy * 668265263 + seed * 2246822519
    h = (h ^ (h >> 13)) * 1274126177
    h = (h ^ (h >> 17)) * 2654435761
    return ((h >> 15) & 0xFFFFFF) * (1.0 / 16777216.0)


@njit(cache=True, fastmath=True)
def smooth(x: float, y: float, seed: int) -> float:
    """Value noise in [0, 1) with unit cells and cubic blending."""
    ix, iy = math.floor(x), math.floor(y)
    fx, fy = x - ix, y - iy
    fx, fy = fx * fx * (3.0 - 2.0 * fx), fy * fy * (3.0 - 2.0 * fy)
    a, b = cell(ix, iy, seed), cell(ix + 1, iy, seed)
    c, d = cell(ix, iy + 1, seed), cell(ix + 1, iy + 1, seed)
    return (a + (b - a) * fx) * (1.0 - fy) + (c + (d - c) * fx) * fy


@njit(cache=True, fastmath=True)
def smooth3(x: float, y: float, z: float, seed: int) -> float:
    """Value noise in [0, 1) over space."""
    iz = math.floor(z)
    f = z - iz
    low, high = smooth(x, y, seed + iz * 7919), smooth(x, y, seed + (iz + 1) * 7919)
    return low + (high - low) * f * f * (3.0 - 2.0 * f)


@njit(cache=True, fastmath=True)
def grain(x: float, y: float, seed: int, wavelength: float, octaves: int, foot: float) -> float:
    """Sum of noise octaves in about [-0.6, 0.6]; octaves finer than the footprint `foot` (metres) fade out."""
    total, gain, scale = 0.0, 0.5, 1.0 / wavelength
    for k in range(octaves):
        weight = min(1.0, 0.5 / (scale * foot) - 0.5)
        if weight <= 0.0:
            break
        total += gain * weight * (smooth(x * scale + 17.3 * k, y * scale - 9.1 * k, seed + k) - 0.5)
        gain *= 0.68
        scale *= 2.4
    return total


@njit(cache=True, fastmath=True)
def stripe(distance: float, half: float, foot: float) -> float:
    """Share, 0..1, of a footprint at signed `distance` from a line's axis that the line of `half` width covers."""
    low, high = max(distance - 0.5 * foot, -half), min(distance + 0.5 * foot, half)
    return max(0.0, high - low) / foot


@njit(cache=True, fastmath=True)
def wrap(x: float, period: float) -> float:
    """x moved into [-period/2, period/2)."""
    return x - period * math.floor(x / period + 0.5)
