"""Numba kernels of the small bundle adjustment: residuals and the point-eliminated normal equations."""

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
def inverse3(a: Floats, out: Floats) -> None:
    """Inverse of a symmetric positive definite 3x3 matrix by cofactors."""
    c00 = a[1, 1] * a[2, 2] - a[1, 2] * a[2, 1]
    c01 = a[1, 2] * a[2, 0] - a[1, 0] * a[2, 2]
    c02 = a[1, 0] * a[2, 1] - a[1, 1] * a[2, 0]
    d = a[0, 0] * c00 + a[0, 1] * c01 + a[0, 2] * c02
    if abs(d) < 1e-300:
        out[:] = 0.0
        return
    out[0, 0] = c00 / d
    out[0, 1] = out[1, 0] = c01 / d
    out[0, 2] = out[2, 0] = c02 / d
    out[1, 1] = (a[0, 0] * a[2, 2] - a[0, 2] * a[2, 0]) / d
    out[1, 2] = out[2, 1] = (a[0, 2] * a[1, 0] - a[0, 0] * a[1, 2]) / d
    out[2, 2] = (a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]) / d


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
def reduced_system(
    rotations: Floats,
    translations: Floats,
    calibrations: Floats,
    points: Floats,
    camera: Ints,
    xy: Floats,
    sigma: Floats,
    starts: Ints,
    slots: Ints,
    prior: Floats,
    information: Floats,
    loss_scale: float,
    focal: bool,
    damping: float,
) -> tuple[Floats, Floats, Floats, Floats]:
    """(S, g, D, step data): S = C - Σ M P⁻¹ Mᵀ over points, g likewise, D the undamped camera diagonal.

    Observations are sorted by point, those of point p are starts[p] .. starts[p + 1]. The step data are P⁻¹ (3x3) and
    the point gradient (3) of every point, for back-substitution.
    """
    count = 0
    for s in slots:
        count = max(count, s + 1)
    size = 6 * count + (1 if focal else 0)
    matrix, gradient, diagonal = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    held = np.zeros((len(points), 4, 3))
    jac, res = np.zeros((2, 10)), np.zeros(2)
    mixed, columns = np.zeros((size, 3)), np.zeros(size, np.int64)
    block, inverse, grad = np.zeros((3, 3)), np.zeros((3, 3)), np.zeros(3)
    for p in range(len(points)):
        used = 0
        block[:] = information[p]
        for i in range(3):
            grad[i] = 0.0
            for j in range(3):
                grad[i] += information[p, i, j] * (points[p, j] - prior[p, j])
        for k in range(starts[p], starts[p + 1]):
            c = camera[k]
            ok = observation(rotations[c], translations[c], calibrations[c], points[p], xy[k], sigma[k], jac, res)
            if not ok:
                continue
            weight = 1.0 / (1.0 + (res[0] * res[0] + res[1] * res[1]) / (loss_scale * loss_scale))
            for i in range(3):
                grad[i] += weight * (jac[0, 7 + i] * res[0] + jac[1, 7 + i] * res[1])
                for j in range(3):
                    block[i, j] += weight * (jac[0, 7 + i] * jac[0, 7 + j] + jac[1, 7 + i] * jac[1, 7 + j])
            if slots[c] < 0:
                continue
            for i in range(7 if focal else 6):
                a = 6 * slots[c] + i if i < 6 else size - 1
                gradient[a] += weight * (jac[0, i] * res[0] + jac[1, i] * res[1])
                for j in range(7 if focal else 6):
                    b = 6 * slots[c] + j if j < 6 else size - 1
                    matrix[a, b] += weight * (jac[0, i] * jac[0, j] + jac[1, i] * jac[1, j])
                known = -1
                for q in range(used):
                    if columns[q] == a:
                        known = q
                if known < 0:
                    known = used
                    columns[used] = a
                    mixed[used] = 0.0
                    used += 1
                for j in range(3):
                    mixed[known, j] += weight * (jac[0, i] * jac[0, 7 + j] + jac[1, i] * jac[1, 7 + j])
        extra = damping * (block[0, 0] + block[1, 1] + block[2, 2]) / 3.0 + 1e-9
        for i in range(3):
            block[i, i] += extra
        inverse3(block, inverse)
        held[p, :3] = inverse
        held[p, 3] = grad
        _eliminate(mixed, columns, used, inverse, grad, matrix, gradient, diagonal)
    return matrix, gradient, diagonal, held


@njit(cache=True)
def _eliminate(
    mixed: Floats,
    columns: Ints,
    used: int,
    inverse: Floats,
    grad: Floats,
    matrix: Floats,
    gradient: Floats,
    diagonal: Floats,
) -> None:
    """Take one point out: C -= M P⁻¹ Mᵀ, g -= M P⁻¹ g_p; `diagonal` remembers what was taken from C's diagonal."""
    for a in range(used):
        c0 = mixed[a, 0] * inverse[0, 0] + mixed[a, 1] * inverse[1, 0] + mixed[a, 2] * inverse[2, 0]
        c1 = mixed[a, 0] * inverse[0, 1] + mixed[a, 1] * inverse[1, 1] + mixed[a, 2] * inverse[2, 1]
        c2 = mixed[a, 0] * inverse[0, 2] + mixed[a, 1] * inverse[1, 2] + mixed[a, 2] * inverse[2, 2]
        gradient[columns[a]] -= c0 * grad[0] + c1 * grad[1] + c2 * grad[2]
        for b in range(used):
            taken = c0 * mixed[b, 0] + c1 * mixed[b, 1] + c2 * mixed[b, 2]
            matrix[columns[a], columns[b]] -= taken
            if a == b:
                diagonal[columns[a]] += taken


@njit(cache=True)
def point_steps(
    rotations: Floats,
    translations: Floats,
    calibrations: Floats,
    points: Floats,
    camera: Ints,
    xy: Floats,
    sigma: Floats,
    starts: Ints,
    slots: Ints,
    loss_scale: float,
    focal: bool,
    held: Floats,
    step: Floats,
) -> Floats:
    """(P, 3), back-substitution: dx = -P⁻¹ (g_p + Mᵀ step)."""
    out = np.zeros((len(points), 3))
    jac, res, total = np.zeros((2, 10)), np.zeros(2), np.zeros(3)
    for p in range(len(points)):
        total[:] = held[p, 3]
        for k in range(starts[p], starts[p + 1]):
            c = camera[k]
            if slots[c] < 0 or not observation(
                rotations[c], translations[c], calibrations[c], points[p], xy[k], sigma[k], jac, res
            ):
                continue
            weight = 1.0 / (1.0 + (res[0] * res[0] + res[1] * res[1]) / (loss_scale * loss_scale))
            for i in range(2):
                along = jac[i, 6] * step[-1] if focal else 0.0
                for j in range(6):
                    along += jac[i, j] * step[6 * slots[c] + j]
                for j in range(3):
                    total[j] += weight * along * jac[i, 7 + j]
        for i in range(3):
            out[p, i] = -(held[p, i, 0] * total[0] + held[p, i, 1] * total[1] + held[p, i, 2] * total[2])
    return out


@njit(cache=True)
def cauchy(res: Floats, loss_scale: float) -> float:
    """Σ s² log(1 + r²/s²)."""
    total, s2 = 0.0, loss_scale * loss_scale
    for k in range(len(res)):
        total += s2 * math.log1p((res[k, 0] * res[k, 0] + res[k, 1] * res[k, 1]) / s2)
    return total
