"""Which way the streets run: the direction of the walkable ground round a place, from its edges.

House fronts, kerbs and rows of parked cars leave edges of the free ground that run along the street. Their directions
a, weighted by strength and nearness, are summed as waves z_m = Σ w e^(2ima), which do not tell a direction from its
opposite; Σ_m t_m Re(z_m e^(-2imd)) is then how much runs along d, within about `SPREAD_DEG` of it. Its largest value
is the street: where two streets cross the stronger one, undisturbed by the other.
"""

from __future__ import annotations

import cv2
import numpy as np

from skyanchor.bridges.ground import Ground, ground_cell
from skyanchor.types import Floats, Floats32

SMOOTH_M = 1.0
"""Standard deviation that free ground is smoothed by before its edges are taken, metres."""
AROUND_M = 6.0
"""Standard deviation of the edges' weights over their distance from the place, metres."""
COARSE_M = 2.0
"""Edges are summed up in squares of this side before they are weighted, metres."""
SPREAD_DEG = 10.0
"""Standard deviation over which edges count for a direction, degrees."""
WAVES = 6
"""What the sum is taken to: the next wave would weigh a twentieth of the first."""
LEAST_EDGE = 1e-4
"""Below this strength, per cell, the ground round a place has no direction."""


def street_directions(ground: Ground, places: Floats) -> Floats:
    """(N,), direction of the street at the places (N, 3), radians in [0, pi) from the first horizontal axis.

    nan where no edge is near.
    """
    strength, along = _edges(ground)
    index = tuple((ground_cell(ground, places)[0] // _per_square(ground)).T)
    tried = np.radians(np.arange(180.0))
    total, wave = np.zeros((len(places), len(tried))), strength.astype(np.complex64)
    for m in range(1, WAVES + 1):
        wave = wave * along
        taper = np.exp(-0.5 * (2.0 * m * np.radians(SPREAD_DEG)) ** 2)
        here = _around(np.stack([wave.real, wave.imag], axis=2), ground)[index] @ np.array([1.0, 1j])
        total += taper * (here[:, None] * np.exp(-2j * m * tried)).real
    some = _around(strength, ground)[index] > LEAST_EDGE
    return np.where(some, tried[total.argmax(axis=1)], np.nan)


def _edges(ground: Ground) -> tuple[Floats32, Floats32]:
    """((X, Y) strength of the edges of free ground, (X, Y) complex e^(2ia) of the direction a that they run along)."""
    free = ground.free.astype(np.float32)
    smooth = cv2.GaussianBlur(free, (0, 0), SMOOTH_M / ground.cell, borderType=cv2.BORDER_REPLICATE)
    rise = np.gradient(smooth, axis=0) + 1j * np.gradient(smooth, axis=1)
    strength = np.abs(rise) ** 2
    return strength, -(rise**2) / np.maximum(strength, 1e-12)  # i² = -1: a quarter turn from the rise


def _per_square(ground: Ground) -> int:
    """Cells along the side of the squares that edges are summed up in."""
    return max(1, round(COARSE_M / ground.cell))


def _around(values: Floats32, ground: Ground) -> Floats32:
    """The weighted mean of (X, Y) or (X, Y, C) round every square of `_per_square` cells."""
    side = _per_square(ground)
    room = [(0, -size % side) for size in values.shape[:2]] + [(0, 0)] * (values.ndim - 2)
    whole = np.pad(values, room)
    small = cv2.resize(whole, None, fx=1.0 / side, fy=1.0 / side, interpolation=cv2.INTER_AREA)
    sigma = AROUND_M / (side * ground.cell)
    return np.asarray(cv2.GaussianBlur(small, (0, 0), sigma, borderType=cv2.BORDER_CONSTANT))
