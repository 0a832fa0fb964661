"""Numba kernels of observations: their residuals, their derivatives, and how much they count."""

from __future__ import annotations

import math

import numpy as np

from skyanchor.compiled import njit
from skyanchor.types import Floats, Ints

BEHIND = 1e3
"""Residual along each axis of a point behind its camera, sigmas."""


@njit(cache=True)
def residuals(
    rotations: Floats,
    translations: Floats,
    calibrations: Floats,
    points: Floats,
    camera: Ints,
    point: Ints,
    xy: Floats,
    sigma: Floats,
) -> Floats:
    """(K, 2), reprojection residuals in sigmas; BEHIND where the point lies behind the camera."""
    out = np.empty((len(camera), 2))
    for k in range(len(camera)):
        r, t, c, p = rotations[camera[k]], translations[camera[k]], calibrations[camera[k]], points[point[k]]
        z = r[2, 0] * p[0] + r[2, 1] * p[1] + r[2, 2] * p[2] + t[2]
        if not z > 1e-3:
            out[k, 0] = BEHIND
            out[k, 1] = BEHIND
            continue
        x = r[0, 0] * p[0] + r[0, 1] * p[1] + r[0, 2] * p[2] + t[0]
        y = r[1, 0] * p[0] + r[1, 1] * p[1] + r[1, 2] * p[2] + t[1]
        out[k, 0] = (x / z * c[0] + c[2] - xy[k, 0]) / sigma[k]
        out[k, 1] = (y / z * c[1] + c[3] - xy[k, 1]) / sigma[k]
    return out


@njit(cache=True)
def observation(r: Floats, t: Floats, c: Floats, p: Floats, xy: Floats, sigma: float, jac: Floats, res: Floats) -> bool:
    """Fill jac (2, 10) = [pose 6 | log focal | point 3] and res (2,), in sigmas; False when the point lies behind.

    u = f x/z + c; du/dX = f/z [1, 0, -x/z]; X moves by -[X]ₓ w + v under the pose step (w, v) on the left.
    """
    x = r[0, 0] * p[0] + r[0, 1] * p[1] + r[0, 2] * p[2] + t[0]
    y = r[1, 0] * p[0] + r[1, 1] * p[1] + r[1, 2] * p[2] + t[1]
    z = r[2, 0] * p[0] + r[2, 1] * p[1] + r[2, 2] * p[2] + t[2]
    if not z > 1e-3:
        return False
    fx, fy = c[0] / sigma / z, c[1] / sigma / z
    res[0] = (x / z * c[0] + c[2] - xy[0]) / sigma
    res[1] = (y / z * c[1] + c[3] - xy[1]) / sigma
    for i in range(2):
        d0, d1 = (fx, 0.0) if i == 0 else (0.0, fy)
        d2 = -fx * x / z if i == 0 else -fy * y / z
        jac[i, 0] = -d1 * z + d2 * y
        jac[i, 1] = d0 * z - d2 * x
        jac[i, 2] = -d0 * y + d1 * x
        jac[i, 3] = d0
        jac[i, 4] = d1
        jac[i, 5] = d2
        jac[i, 6] = fx * x if i == 0 else fy * y
        for j in range(3):
            jac[i, 7 + j] = d0 * r[0, j] + d1 * r[1, j] + d2 * r[2, j]
    return True


@njit(cache=True)
def robust_weight(res: Floats, loss_scale: float) -> float:
    """1 / (1 + r²/s²), what an observation of residual r (2,) sigmas counts under the Cauchy loss of scale s."""
    return 1.0 / (1.0 + (res[0] * res[0] + res[1] * res[1]) / (loss_scale * loss_scale))


@njit(cache=True)
def cauchy(res: Floats, loss_scale: float) -> float:
    """Σ s² log(1 + r²/s²)."""
    total, s2 = 0.0, loss_scale * loss_scale
    for k in range(len(res)):
        total += s2 * math.log1p((res[k, 0] * res[k, 0] + res[k, 1] * res[k, 1]) / s2)
    return total
