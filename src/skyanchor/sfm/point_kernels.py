"""Numba kernels of points that are taken out of the normal equations, and put back once cameras have moved."""

from __future__ import annotations

import numpy as np

from skyanchor.compiled import njit
from skyanchor.sfm.observation_kernels import observation, robust_weight
from skyanchor.types import Floats, Ints


@njit(cache=True, inline="always")
def begin_point(point: Floats, prior: Floats, information: Floats, block: Floats, gradient: Floats) -> None:
    """Fill block (3, 3) and gradient (3,) of a point with what its prior says: I and I (x - prior)."""
    block[:] = information
    for i in range(3):
        gradient[i] = 0.0
        for j in range(3):
            gradient[i] += information[i, j] * (point[j] - prior[j])


@njit(cache=True)
def add_to_point(weight: float, jac: Floats, res: Floats, block: Floats, gradient: Floats) -> None:
    """What an observation says of its point, block (3, 3) and gradient (3,)."""
    for i in range(3):
        gradient[i] += weight * (jac[0, 7 + i] * res[0] + jac[1, 7 + i] * res[1])
        for j in range(3):
            block[i, j] += weight * (jac[0, 7 + i] * jac[0, 7 + j] + jac[1, 7 + i] * jac[1, 7 + j])


@njit(cache=True)
def _inverse3(a: Floats, out: Floats) -> None:
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


@njit(cache=True, inline="always")
def damped_inverse(block: Floats, damping: float, out: Floats) -> None:
    """P⁻¹ of a point's block P with the damping times its mean diagonal added; the block is changed."""
    extra = damping * (block[0, 0] + block[1, 1] + block[2, 2]) / 3.0 + 1e-9
    for i in range(3):
        block[i, i] += extra
    _inverse3(block, out)


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
            weight = robust_weight(res, loss_scale)
            for i in range(2):
                along = jac[i, 6] * step[-1] if focal else 0.0
                for j in range(6):
                    along += jac[i, j] * step[6 * slots[c] + j]
                for j in range(3):
                    total[j] += weight * along * jac[i, 7 + j]
        for i in range(3):
            out[p, i] = -(held[p, i, 0] * total[0] + held[p, i, 1] * total[1] + held[p, i, 2] * total[2])
    return out
