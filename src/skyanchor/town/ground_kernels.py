"""Numba kernels: roads, markings, pavements, squares, yards and fields. Linear light."""

from __future__ import annotations

import math

from skyanchor.compiled import njit
from skyanchor.town.noise_kernels import cell, grain, smooth, stripe, wrap
from skyanchor.types import Floats

KERB_STONE = 0.16
"""Width of the kerb's top, metres."""


@njit(cache=True, fastmath=True)
def ground_colour(x: float, y: float, streets: Floats, ground: Floats, foot: float) -> tuple[float, float, float]:
    """Colour of the ground at (x, y): the nearest road decides between road, pavement and block."""
    near, other, k_near, i, j = 1e9, 1e9, 0, 0, 0
    for k in range(streets.shape[0]):
        side = streets[k, 0] * x + streets[k, 1] * y - streets[k, 2]
        if side > 0.0:
            i, j = (i + 1, j) if streets[k, 5] == 0.0 else (i, j + 1)
        out = abs(side) - streets[k, 3]
        if out < near:
            if streets[k, 5] != streets[k_near, 5]:
                other = near
            near, k_near = out, k
        elif streets[k, 5] != streets[k_near, 5] and out < other:
            other = out
    s = streets[k_near]
    across, along = s[0] * x + s[1] * y - s[2], s[0] * y - s[1] * x
    if near < 0.0:
        return _road(x, y, across, along, other, s, k_near, foot)
    if near < ground[3]:
        return _pavement(x, y, across, along, near, s, k_near, foot)
    return _block(x, y, i, j, foot)


@njit(cache=True, fastmath=True)
def _road(
    x: float, y: float, across: float, along: float, crossing: float, s: Floats, seed: int, foot: float
) -> tuple[float, float, float]:
    """Asphalt or setts, with markings; `crossing` is the distance to the edge of the crossing road."""
    wear = grain(x, y, 301, 5.0, 7, foot)
    r, g, b = _setts(across, along, seed, foot) if s[4] > 0.0 else _asphalt(x, y, across, along, wear, seed, foot)
    lid_x, lid_y = math.floor(x / 9.0), math.floor(y / 9.0)
    dx = wrap(x - 9.0 * (lid_x + 0.25 + 0.5 * cell(lid_x, lid_y, 5)), 9.0)
    dy = wrap(y - 9.0 * (lid_y + 0.25 + 0.5 * cell(lid_x, lid_y, 6)), 9.0)
    out = math.sqrt(dx * dx + dy * dy)
    if out < 0.34:
        k = (
            0.03
            if out > 0.29
            else 0.075 + 0.06 * (stripe(wrap(dx, 0.09), 0.02, foot) + stripe(wrap(dy, 0.09), 0.02, foot))
        )
        return k * 1.1, k, k * 0.95
    paint = 0.0
    if s[4] == 0.0 and crossing > 0.0:
        if crossing > 0.9 and crossing < 3.7:
            paint = stripe(wrap(across, 1.0), 0.25, foot)
        elif crossing > 4.3 and crossing < 4.6 and across < 0.0:
            paint = 1.0
        elif crossing > 4.6:
            paint = stripe(across, 0.06, foot) * (1.0 if wrap(along, 5.0) > -0.4 else 0.0)
            paint = max(
                paint, stripe(abs(across) - (s[3] - 2.05), 0.05, foot) * (1.0 if wrap(along, 1.0) > 0.0 else 0.0)
            )
    if paint == 0.0:
        return r, g, b
    paint *= min(1.0, max(0.0, 0.95 + 1.1 * wear + 0.9 * grain(x, y, 320, 0.35, 4, foot)))
    return r + (0.55 - r) * paint, g + (0.54 - g) * paint, b + (0.5 - b) * paint


@njit(cache=True, fastmath=True)
def _asphalt(
    x: float, y: float, across: float, along: float, wear: float, seed: int, foot: float
) -> tuple[float, float, float]:
    """Asphalt with wheel tracks, repaired trenches and cracks."""
    k = 0.115 * (1.0 + 0.6 * wear + 0.5 * grain(x, y, 340, 0.05, 2, foot))
    k *= 1.0 - 0.12 * stripe(abs(across) - 0.8, 0.3, 0.4)
    bay = math.floor(along / 6.5)
    lot, at = cell(bay, seed, 41), wrap(along, 6.5)
    if lot > 0.55:  # a trench or patch
        u0, half_u, half_v = (
            (cell(bay, seed, 42) - 0.5) * 4.0,
            0.35 + 1.2 * cell(bay, seed, 43),
            0.6 + 2.2 * cell(bay, seed, 44),
        )
        du, dv = abs(across - u0) - half_u, abs(at) - half_v
        if du < 0.0 and dv < 0.0:
            k *= 0.62 + 0.7 * cell(bay, seed, 45)
            k *= 0.55 if max(du, dv) > -0.05 else 1.0
    if smooth(x * 0.3, y * 0.3, 362) > 0.55:
        crack = abs(smooth(x * 0.5, y * 0.5, 360) + 0.35 * smooth(x * 3.1, y * 3.1, 361) - 0.67)
        k *= 1.0 - 0.5 * stripe(crack, 0.008, max(0.008, foot * 0.7))
    return k * 1.02, k, k * 0.99


@njit(cache=True, fastmath=True)
def _setts(across: float, along: float, seed: int, foot: float) -> tuple[float, float, float]:
    """Granite setts 14 x 20 cm in running bond."""
    row = math.floor(along / 0.14)
    shift = 0.1 if row & 1 else 0.0
    col = math.floor((across + shift) / 0.2)
    fade = min(1.0, max(0.0, 0.14 / foot - 0.4))
    k = 0.17 * (1.0 + 0.75 * fade * (cell(col, row, seed) - 0.5) + 0.7 * grain(across, along, seed + 7, 4.0, 6, foot))
    joint = max(stripe(wrap(along, 0.14), 0.011, foot), stripe(wrap(across + shift, 0.2), 0.011, foot))
    k *= 1.0 - 0.6 * joint
    warm = 0.1 * (cell(col, row, seed + 1) - 0.5) * fade
    return k * (1.03 + warm), k, k * (0.94 - warm)


@njit(cache=True, fastmath=True)
def _pavement(
    x: float, y: float, across: float, along: float, near: float, s: Floats, seed: int, foot: float
) -> tuple[float, float, float]:
    """Kerb stones, then slabs with a band of small stones along the houses."""
    dirt = grain(x, y, 380, 1.8, 6, foot)
    if near < KERB_STONE:
        k = 0.36 * (1.0 + 0.3 * (cell(math.floor(along), seed, 51) - 0.5) + 0.6 * dirt)
        k *= 1.0 - 0.6 * stripe(wrap(along, 1.0), 0.012, foot)
        return k, k * 0.98, k * 0.94
    if near > 1.75:
        return _setts(across, along, seed + 60, foot)
    slab = 0.4
    col, row = math.floor(across / slab), math.floor(along / slab)
    k = 0.29 * (1.0 + 0.3 * (cell(col, row, 52) - 0.5) + 0.75 * dirt)
    if cell(col, row, 53) > 0.965:
        k *= 0.72
    k *= 1.0 - 0.5 * max(stripe(wrap(across, slab), 0.008, foot), stripe(wrap(along, slab), 0.008, foot))
    gum = smooth(x * 6.0, y * 6.0, 54)
    k *= 0.8 if gum > 0.86 else 1.0
    return k, k * 0.97, k * (0.89 + 0.06 * cell(seed, 0, 55))


@njit(cache=True, fastmath=True)
def _block(x: float, y: float, i: int, j: int, foot: float) -> tuple[float, float, float]:
    """Inside a block: lawn, gravel or paved yard; each block its own mix."""
    n = grain(x, y, 400, 3.0, 6, foot)
    seed = i * 13 + j * 29
    mix = grain(x, y, seed + 410, 7.0, 4, foot) + 0.35 * (cell(i, j, 61) - 0.5)
    if mix > 0.1:
        k = 0.24 * (1.0 + 0.9 * n + 0.5 * grain(x, y, 420, 0.12, 3, foot))
        return k * 1.05, k * 0.95, k * 0.78
    if mix < -0.2:
        return _setts(x, y, seed, foot)
    k = 1.0 + 1.2 * n + 0.8 * grain(x, y, 430, 0.2, 3, foot)
    dry = max(0.0, grain(x, y, 440, 4.0, 4, foot))
    return (0.075 + 0.16 * dry) * k, (0.125 + 0.1 * dry) * k, 0.04 * k
