"""Polygons in the plane: what lies inside, how far the edge is, and whether a ring crosses itself.

A ring is (N, 2), its corners in order, the first not repeated at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyanchor.types import Bools, Floats


def inside(rings: Sequence[Floats], points: Floats) -> Bools:
    """(P,), whether points (P, 2) lie in the polygon of these rings: inside an odd number of them, so holes are out."""
    within = np.zeros(len(points), bool)
    for ring in rings:
        for a, b in zip(ring, np.roll(ring, -1, axis=0), strict=True):
            spans = (a[1] > points[:, 1]) != (b[1] > points[:, 1])
            rise = b[1] - a[1] if b[1] != a[1] else 1.0
            crossing = a[0] + (points[:, 1] - a[1]) / rise * (b[0] - a[0])
            within ^= spans & (points[:, 0] < crossing)
    return within


def edge_distance(rings: Sequence[Floats], points: Floats) -> Floats:
    """(P,), distance of points (P, 2) to the nearest edge: |p - (a + t (b - a))| with t the foot, clipped to [0, 1]."""
    nearest = np.full(len(points), np.inf)
    for ring in rings:
        for a, b in zip(ring, np.roll(ring, -1, axis=0), strict=True):
            along = b - a
            foot = np.clip((points - a) @ along / max(float(along @ along), 1e-30), 0.0, 1.0)
            nearest = np.minimum(nearest, np.linalg.norm(points - a - foot[:, None] * along, axis=1))
    return nearest


def area(ring: Floats) -> float:
    """Enclosed area, |Σ x_i y_{i+1} - x_{i+1} y_i| / 2, in squared units of the corners."""
    x, y = (ring - ring[0]).T
    return abs(float(x @ np.roll(y, -1) - np.roll(x, -1) @ y)) / 2.0


def first_crossing(ring: Floats) -> tuple[int, int] | None:
    """Two edges that cross, by their first corners; None for a simple ring. Edges that only touch do not cross."""
    start, end = ring, np.roll(ring, -1, axis=0)
    for i in range(len(ring) - 2):
        across = _side(start[i], end[i], start) * _side(start[i], end[i], end) < 0.0
        along = _side(start, end, start[i]) * _side(start, end, end[i]) < 0.0
        later = np.flatnonzero((across & along)[i + 2 :])
        if len(later):
            return i, i + 2 + int(later[0])
    return None


def _side(a: Floats, b: Floats, p: Floats) -> Floats:
    """Sign of the side of the line a -> b on which p lies: (b - a) x (p - a)."""
    along, out = b - a, p - a
    return np.sign(along[..., 0] * out[..., 1] - along[..., 1] * out[..., 0])
