"""Compiled loop over tracks: triangulate, drop what does not fit, judge."""

from __future__ import annotations

import numpy as np

from skyanchor.compiled import njit
from skyanchor.types import Bools, Floats, Ints


@njit(cache=True)
def _nearest(
    first: int, last: int, keep: Bools, slot: Ints, rays: Floats, centres: Floats, weight: Floats, out: Floats
) -> bool:
    """The point nearest to the kept rays, min Σ w |(I - d dᵀ)(x - c)|², by Cramer; False when they are parallel."""
    a = b = c = d = e = f = 0.0  # the symmetric matrix [a b c; b d e; c e f]
    u = v = w = 0.0
    for k in range(first, last):
        if not keep[k]:
            continue
        x, y, z = rays[k, 0], rays[k, 1], rays[k, 2]
        g = weight[k]
        xx, xy, xz = g * (1.0 - x * x), -g * x * y, -g * x * z
        yy, yz, zz = g * (1.0 - y * y), -g * y * z, g * (1.0 - z * z)
        p, q, r = centres[slot[k], 0], centres[slot[k], 1], centres[slot[k], 2]
        a, b, c, d, e, f = a + xx, b + xy, c + xz, d + yy, e + yz, f + zz
        u, v, w = u + xx * p + xy * q + xz * r, v + xy * p + yy * q + yz * r, w + xz * p + yz * q + zz * r
    m0, m1, m2 = d * f - e * e, c * e - b * f, b * e - c * d
    determinant = a * m0 + b * m1 + c * m2
    scale = (a + d + f) / 3.0
    if determinant <= 1e-12 * scale * scale * scale:
        return False
    out[0] = (m0 * u + m1 * v + m2 * w) / determinant
    out[1] = (m1 * u + (a * f - c * c) * v + (b * c - a * e) * w) / determinant
    out[2] = (m2 * u + (b * c - a * e) * v + (a * d - b * b) * w) / determinant
    return True


@njit(cache=True)
def fit_tracks(
    starts: Ints,
    slot: Ints,
    xy: Floats,
    rays: Floats,
    rotations: Floats,
    translations: Floats,
    centres: Floats,
    focal: Floats,
    error_px: float,
    least_angle: float,
    most_depth: float,
) -> tuple[Floats, Bools]:
    """((P, 3) points, (K,) observations that stay); a point that fails keeps no observation.

    Observations of point p are rows starts[p] to starts[p + 1]; xy (K, 2) are undistorted pixels over the focal
    lengths, rays (K, 3) their unit directions in the world. Tolerance shrinks from 8 to 1 times `error_px`.
    """
    count = len(starts) - 1
    points = np.zeros((count, 3))
    keep = np.ones(len(slot), dtype=np.bool_)
    weight = np.ones(len(slot))
    for p in range(count):
        first, last = starts[p], starts[p + 1]
        good = _fit(
            first, last, keep, slot, xy, rays, rotations, translations, centres, focal, error_px, most_depth, weight,
            points[p],
        )  # fmt: skip
        if not good or _angle(first, last, keep, slot, centres, points[p]) < least_angle:
            keep[first:last] = False
    return points, keep


@njit(cache=True)
def _fit(
    first: int,
    last: int,
    keep: Bools,
    slot: Ints,
    xy: Floats,
    rays: Floats,
    rotations: Floats,
    translations: Floats,
    centres: Floats,
    focal: Floats,
    error_px: float,
    most_depth: float,
    weight: Floats,
    point: Floats,
) -> bool:
    """Triangulate one track and drop observations that do not fit, widest tolerance first; False when it fails."""
    for factor in (8.0, 2.0, 1.0):
        for _ in range(2):
            if not _nearest(first, last, keep, slot, rays, centres, weight, point):
                return False
            for k in range(first, last):
                squared = 0.0
                for i in range(3):
                    squared += (point[i] - centres[slot[k], i]) ** 2
                weight[k] = 1.0 / max(squared, 1e-6)
        left = 0
        for k in range(first, last):
            if not keep[k]:
                continue
            r, t = rotations[slot[k]], translations[slot[k]]
            z = r[2, 0] * point[0] + r[2, 1] * point[1] + r[2, 2] * point[2] + t[2]
            if z <= 0.05 or z > most_depth:
                if factor == 1.0 and z > most_depth:
                    return False
                keep[k] = z > most_depth
                left += int(keep[k])
                continue
            x = (r[0, 0] * point[0] + r[0, 1] * point[1] + r[0, 2] * point[2] + t[0]) / z - xy[k, 0]
            y = (r[1, 0] * point[0] + r[1, 1] * point[1] + r[1, 2] * point[2] + t[1]) / z - xy[k, 1]
            keep[k] = (x * focal[0]) ** 2 + (y * focal[1]) ** 2 <= (factor * error_px) ** 2
            left += int(keep[k])
        if left < 2:
            return False
    return True


@njit(cache=True)
def _angle(first: int, last: int, keep: Bools, slot: Ints, centres: Floats, point: Floats) -> float:
    """Largest angle at the point between the first or the last kept ray and any other, radians."""
    smallest = 1.0
    for outer in range(2):
        anchor = -1
        for n in range(first, last):
            k = n if outer == 0 else last - 1 - (n - first)
            if not keep[k]:
                continue
            if anchor < 0:
                anchor = k
                continue
            dot = near = far = 0.0
            for i in range(3):
                a, b = centres[slot[anchor], i] - point[i], centres[slot[k], i] - point[i]
                dot, near, far = dot + a * b, near + a * a, far + b * b
            smallest = min(smallest, dot / max(np.sqrt(near * far), 1e-12))
    return float(np.arccos(max(-1.0, min(1.0, smallest))))
