"""Numba kernels: what colour a surface has at a point. Linear light; `foot` is the pixel's footprint in metres."""

from __future__ import annotations

import math

from skyanchor.compiled import njit
from skyanchor.town.noise_kernels import cell, grain, smooth, smooth3, stripe, wrap
from skyanchor.types import Floats

# columns of the coat table of a facade
FINISH, WINDOW_W, WINDOW_H, SILL, BAY, BAYS, BAY_0, FLOOR_H, FLOORS, GROUND_H = 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
GROUND_KIND, DOOR_BAY, RECESS, SHUTTERS, WIDTH, FRAME = 17, 18, 19, 20, 21, 22
NO_OPENING, WINDOW, DOOR, SHOP = 0, 1, 2, 3


@njit(cache=True, fastmath=True)
def opening(u: float, v: float, c: Floats) -> tuple[int, float, float, float, float, int, int]:
    """Kind of the opening at (u, v) of a facade, its rectangle u0 v0 u1 v1, and its bay and floor."""
    bays, floors = int(c[BAYS]), int(c[FLOORS])
    bay = math.floor((u - c[BAY_0]) / c[BAY])
    if bay < 0 or bay >= bays or v < 0.0:
        return NO_OPENING, 0.0, 0.0, 0.0, 0.0, 0, 0
    floor = 0 if v < c[GROUND_H] else 1 + int((v - c[GROUND_H]) / c[FLOOR_H])
    if floor >= floors:
        return NO_OPENING, 0.0, 0.0, 0.0, 0.0, 0, 0
    base = 0.0 if floor == 0 else c[GROUND_H] + (floor - 1) * c[FLOOR_H]
    middle = c[BAY_0] + (bay + 0.5) * c[BAY]
    kind, half, low, high = WINDOW, 0.5 * c[WINDOW_W], base + c[SILL], base + c[SILL] + c[WINDOW_H]
    if floor == 0:
        if c[GROUND_KIND] == 2.0:
            return NO_OPENING, 0.0, 0.0, 0.0, 0.0, 0, 0
        if bay == int(c[DOOR_BAY]):
            kind, half, low, high = DOOR, 0.55, 0.05, 2.25
        elif c[GROUND_KIND] == 1.0:
            kind, half, low, high = SHOP, 0.5 * c[BAY] - 0.18, 0.55, c[GROUND_H] - 0.85
    if abs(u - middle) > half or v < low or v > high:
        return NO_OPENING, middle - half, low, middle + half, high, bay, floor
    return kind, middle - half, low, middle + half, high, bay, floor


@njit(cache=True, fastmath=True)
def facade(
    u: float, v: float, u0: float, v0: float, u1: float, v1: float, floor: int, c: Floats, seed: int, foot: float
) -> tuple[float, float, float]:
    """The wall around the openings: finish, plinth, trim, quoins, shutters, shop sign, dirt."""
    r, g, b = c[1], c[2], c[3]
    tone = 1.0 + 0.5 * grain(u, v, seed, 2.6, 6, foot) + 0.35 * grain(u * 3.0, v * 0.35, seed + 50, 1.1, 3, foot)
    _kind, u0, v0, u1, v1, _bay, floor = opening(u, v, c)
    r, g, b = _finish(u, v, c, seed, foot, r, g, b)
    if v < 0.65:
        r, g, b = 0.55 * r + 0.02, 0.55 * g + 0.02, 0.55 * b + 0.02
        tone *= 1.0 + 0.4 * grain(u, v, seed + 9, 0.25, 4, foot)
    tone *= 1.0 - 0.22 * max(0.0, 1.0 - v / 1.3) * (0.5 + smooth(u * 1.7, 0.3, seed + 2))
    if c[GROUND_KIND] == 1.0 and v > c[GROUND_H] - 0.75 and v < c[GROUND_H] - 0.1 and u > 0.3 and u < c[WIDTH] - 0.3:
        return letters(u - 0.5, v - c[GROUND_H] + 0.64, c[WIDTH] - 1.0, c[4], c[5], c[6], seed, foot)
    if u1 > u0 and not (floor == 0 and c[GROUND_KIND] == 1.0):
        out = max(u0 - u, u - u1, v0 - v, v - v1)  # distance outside the opening
        if out < 0.14:
            trim = 0.9 + 0.3 * grain(u, v, seed + 4, 0.4, 4, foot)
            return c[4] * trim, c[5] * trim, c[6] * trim
        if c[SHUTTERS] > 0.0 and floor > 0 and v > v0 and v < v1 and max(u0 - u, u - u1) < 0.62:
            slat = 1.0 - 0.55 * stripe(wrap(v, 0.075), 0.014, foot)
            edge = 0.6 if max(u0 - u, u - u1) > 0.57 or v - v0 < 0.05 or v1 - v < 0.05 else 1.0
            tint = 0.75 + 0.5 * cell(seed, 3, 5)
            return c[4] * 0.45 * slat * edge * tint, c[5] * 0.62 * slat * edge, c[6] * 0.5 * slat * edge / tint
        if v < v0 and v > v0 - 1.2 and u > u0 and u < u1:  # rain streaks below the sill
            tone *= 1.0 - 0.3 * smooth(u * 9.0, v * 0.5, seed + 6) * (1.0 - (v0 - v) / 1.2)
    return r * tone, g * tone, b * tone


@njit(cache=True, fastmath=True)
def _finish(
    u: float, v: float, c: Floats, seed: int, foot: float, r: float, g: float, b: float
) -> tuple[float, float, float]:
    """Wall colour with bricks, blocks or timber; plaster stays as it is."""
    if c[FINISH] == 1.0:  # bricks 24 x 7.5 cm with light joints
        row = math.floor(v / 0.075)
        shift = 0.12 if row & 1 else 0.0
        col = math.floor((u + shift) / 0.24)
        fade = min(1.0, max(0.0, 0.09 / foot - 0.4))
        k = 1.0 + fade * 0.55 * (cell(col, row, seed) - 0.5)
        joint = max(stripe(wrap(v, 0.075), 0.006, foot), stripe(wrap(u + shift, 0.24), 0.006, foot))
        r, g, b = r * k, g * k * (1.0 - 0.1 * fade * cell(col, row, seed + 1)), b * k
        return r + (0.42 - r) * joint, g + (0.40 - g) * joint, b + (0.37 - b) * joint
    if c[FINISH] == 2.0:  # stone blocks 90 x 45 cm
        row = math.floor(v / 0.45)
        shift = 0.45 if row & 1 else 0.0
        k = 1.0 + 0.28 * (cell(math.floor((u + shift) / 0.9), row, seed) - 0.5)
        joint = max(stripe(wrap(v, 0.45), 0.012, foot), stripe(wrap(u + shift, 0.9), 0.012, foot))
        k *= 1.0 - 0.55 * joint
        return r * k, g * k, b * k
    if c[FINISH] == 3.0 and v > c[GROUND_H] - 0.1:  # timber frame above the ground floor
        w = c[GROUND_H] + c[FLOOR_H] * math.floor((v - c[GROUND_H]) / c[FLOOR_H])
        lu, lv = wrap(u - c[BAY_0], c[BAY]), v - w
        beam = max(stripe(lu, 0.09, foot), stripe(lv - 0.1, 0.1, foot), stripe(lv - c[SILL] + 0.12, 0.07, foot))
        lean = lu + (0.5 if cell(seed, int(w * 3.0), 4) > 0.5 else -0.5) * c[BAY] * (lv / c[SILL] - 0.5)
        if lv < c[SILL]:
            beam = max(beam, stripe(lean, 0.08, foot))
        wood = 0.045 * (1.0 + grain(u * 4.0, v * 4.0, seed + 8, 0.5, 4, foot))
        return r + (wood * 1.5 - r) * beam, g + (wood * 1.1 - g) * beam, b + (wood * 0.8 - b) * beam
    if u < 0.35 or u > c[WIDTH] - 0.35:  # corner stones
        k = 0.88 if (math.floor(v / 0.32) & 1) == 0 else 1.06
        return r * k, g * k, b * k
    return r, g, b


@njit(cache=True, fastmath=True)
def pane(
    kind: int,
    u: float,
    v: float,
    u0: float,
    v0: float,
    u1: float,
    v1: float,
    bay: int,
    floor: int,
    c: Floats,
    seed: int,
    foot: float,
) -> tuple[float, float, float, float]:
    """The back of an opening: frame, glass with what is behind it, or a door; colour and share of mirror."""
    s = seed * 31 + bay * 7 + floor * 113
    edge = min(u - u0, u1 - u, v - v0, v1 - v)
    frame = c[FRAME] * c[FRAME] * (1.0 + 0.2 * grain(u, v, s, 0.3, 3, foot))
    if kind == DOOR:
        return _door(u, v, u0, v0, u1, v1, s, foot)
    mullion = wrap(u - 0.5 * (u0 + u1), 0.5 * (u1 - u0) if kind == SHOP else 2.0 * (u1 - u0))
    bars = max(stripe(mullion, 0.03, foot), stripe(v - (v0 + 0.66 * (v1 - v0)), 0.025, foot))
    bars = max(bars, 1.0 if edge < 0.065 else 0.0)
    if kind == SHOP:
        r, g, b = _shop_window(u, v, v0, s, foot)
    else:
        r, g, b = _room(u, v, u0, v0, u1, v1, s, foot)
    return r + (frame - r) * bars, g + (frame - g) * bars, b + (0.96 * frame - b) * bars, 0.16 * (1.0 - bars)


@njit(cache=True, fastmath=True)
def _room(
    u: float, v: float, u0: float, v0: float, u1: float, v1: float, s: Floats, foot: float
) -> tuple[float, float, float]:
    """Behind a window: blind from above, curtains at the sides, dark room."""
    if v > v1 - (v1 - v0) * max(0.0, 1.5 * cell(s, 1, 1) - 0.75):
        k = 0.55 * (0.6 + 0.5 * cell(s, 1, 2)) * (1.0 - 0.3 * stripe(wrap(v, 0.06), 0.012, foot))
        return k, k * 0.96, k * (0.75 + 0.2 * cell(s, 1, 3))
    x = (u - u0) / (u1 - u0)
    if abs(x - 0.5) > 0.5 - 0.22 * cell(s, 1, 4) and cell(s, 1, 5) > 0.35:
        k = 0.32 * (1.0 + 0.6 * math.sin(u * 55.0) * min(1.0, max(0.0, 0.04 / foot - 0.3)))
        return k, k * (0.8 + 0.2 * cell(s, 1, 6)), k * (0.65 + 0.3 * cell(s, 1, 7))
    k = 0.03 + 0.05 * max(0.0, grain(u, v, s, 0.8, 4, foot) + 0.2)
    return k, k * 1.05, k * 1.15


@njit(cache=True, fastmath=True)
def _shop_window(u: float, v: float, v0: float, s: Floats, foot: float) -> tuple[float, float, float]:
    """Goods on display: stacked coloured boxes against a dim shop."""
    col, row = math.floor(u / 0.34), math.floor((v - v0) / 0.3)
    if cell(col, row, s) > 0.25 + 0.22 * row:
        k = 0.12 + 0.3 * cell(col, row, s + 1)
        k *= 1.0 - 0.5 * max(stripe(wrap(u, 0.34), 0.02, foot), stripe(wrap(v - v0, 0.3), 0.02, foot))
        return k * (0.4 + cell(col, row, s + 2)), k * (0.4 + cell(col, row, s + 3)), k * (0.4 + cell(col, row, s + 4))
    k = 0.05 + 0.06 * (grain(u, v, s, 0.7, 4, foot) + 0.3)
    return k * 1.1, k, k * 0.85


@njit(cache=True, fastmath=True)
def _door(
    u: float, v: float, u0: float, v0: float, u1: float, v1: float, s: Floats, foot: float
) -> tuple[float, float, float, float]:
    """A panelled wooden door with a light above."""
    k = 0.1 + 0.14 * cell(s, 2, 1)
    if v > v1 - 0.38:
        bar = stripe(wrap(u - u0, 0.37), 0.02, foot)
        return 0.06 + 0.4 * bar, 0.07 + 0.4 * bar, 0.09 + 0.38 * bar, 0.12
    lu, lv = abs(wrap(u - 0.5 * (u0 + u1) - 0.27, 0.54)), abs(wrap(v - v0 - 0.45, 0.82))
    groove = max(stripe(lu - 0.19, 0.02, foot), stripe(lv - 0.31, 0.02, foot))
    k *= (1.0 - 0.5 * groove) * (1.0 + 0.6 * grain(u * 5.0, v, s, 0.5, 4, foot))
    return k * (0.3 + 0.9 * cell(s, 2, 2)), k * (0.3 + 0.7 * cell(s, 2, 3)), k * (0.25 + 0.7 * cell(s, 2, 4)), 0.02


@njit(cache=True, fastmath=True)
def letters(
    u: float, v: float, width: int, r: float, g: float, b: float, seed: int, foot: float
) -> tuple[float, float, float]:
    """A painted board with a line of made-up letters, 5 x 6 dots each, about 40 cm high."""
    dot = 0.068
    count = max(2, min(int(width / (6.0 * dot)), 4 + int(7.0 * cell(seed, 5, 0))))
    x, y = u - 0.5 * (width - count * 6.0 * dot), v - 0.05
    col, row = math.floor(x / dot), math.floor(y / dot)
    tone = 0.95 + 0.25 * grain(u, v, seed + 20, 0.6, 5, foot)
    glyph, at = col // 6, col % 6
    if 0 <= row < 6 and 0 <= col < 6 * count and at < 5:
        mirrored = at if at < 3 else 4 - at
        if cell(seed + glyph * 17, row * 3 + mirrored, 6) > 0.42 or (mirrored == 0 and cell(seed, glyph, 7) > 0.4):
            light = 0.85 if r + g + b < 0.9 else 0.04
            return light * tone, light * tone, light * 0.92 * tone
    return r * tone, g * tone, b * tone


@njit(cache=True, fastmath=True)
def tiles(u: float, v: float, c: Floats, seed: int, foot: float) -> tuple[float, float, float]:
    """Roof tiles in courses, weathered, with a few replaced ones."""
    row = math.floor(v / 0.32)
    shift = 0.11 if row & 1 else 0.0
    col = math.floor((u + shift) / 0.22)
    fade = min(1.0, max(0.0, 0.22 / foot - 0.7))
    pick = cell(col, row, seed)
    k = 1.0 + fade * 0.5 * (pick - 0.5) - 0.45 * stripe(wrap(v, 0.32), 0.035, foot)
    k *= 1.0 - 0.25 * stripe(wrap(u + shift, 0.22), 0.015, foot)
    k *= 1.0 + 0.9 * grain(u, v, seed + 3, 3.1, 5, foot)
    moss = max(0.0, grain(u, v, seed + 40, 1.4, 4, foot) - 0.12) * 2.0
    return c[1] * k * (1.0 - 0.5 * moss), c[2] * k * (1.0 + 0.5 * moss), c[3] * k


@njit(cache=True, fastmath=True)
def flat_roof(u: float, v: float, c: Floats, seed: int, foot: float) -> tuple[float, float, float]:
    """Felt sheets with seams, gravel and puddle rims."""
    sheet = math.floor(u / 1.05)
    k = 1.0 + 0.22 * (cell(sheet, 0, seed) - 0.5) - 0.4 * stripe(wrap(u, 1.05), 0.025, foot)
    k *= 1.0 + 0.8 * grain(u, v, seed, 2.2, 6, foot)
    pool = grain(u, v, seed + 77, 3.5, 3, foot)
    k *= 0.72 if pool > 0.16 else (1.2 if pool > 0.14 else 1.0)
    return c[1] * k, c[2] * k, c[3] * k


@njit(cache=True, fastmath=True)
def leaves(x: float, y: float, z: float, core: bool, c: Floats, seed: int, foot: float) -> tuple[float, float, float]:
    """Foliage: clumps of leaves, light and dark, yellow-green to blue-green."""
    clump = smooth3(x * 2.1, y * 2.1, z * 2.1, seed + 11) - 0.5
    leaf = smooth3(x * 9.0, y * 9.0, z * 9.0, seed + 23) - 0.5
    k = (1.0 + 0.9 * clump + 1.5 * leaf * min(1.0, 0.12 / foot)) * (0.45 if core else 1.0)
    return c[1] * k * (1.0 + 0.5 * clump), c[2] * k, c[3] * k * (1.0 - 0.4 * clump)
