"""Numba kernels of the dense solver: the point-eliminated normal equations of cameras and one focal scale."""

from __future__ import annotations

import numpy as np

from skyanchor.compiled import njit
from skyanchor.sfm.observation_kernels import observation, robust_weight
from skyanchor.sfm.point_kernels import add_to_point, begin_point, damped_inverse
from skyanchor.types import Floats, Ints


@njit(cache=True)
def _row_of(column: int, columns: Ints, used: int) -> int:
    """Which of the `used` rows belongs to a column of the system; `used` when none does yet."""
    for row in range(used):
        if columns[row] == column:
            return row
    return used


@njit(cache=True, inline="always")
def _add_to_camera(
    weight: float,
    jac: Floats,
    res: Floats,
    slot: int,
    focal: bool,
    matrix: Floats,
    gradient: Floats,
    mixed: Floats,
    columns: Ints,
    used: int,
) -> int:
    """What an observation says of its camera, of the focal scale, and of both with its point, (rows, 3) in `mixed`.

    Row r of `mixed` stands for columns[r] of the system; returned is how many rows are used now.
    """
    own, first = 7 if focal else 6, _row_of(6 * slot, columns, used)  # those of a camera follow each other
    for i in range(own):
        a = 6 * slot + i if i < 6 else len(gradient) - 1
        gradient[a] += weight * (jac[0, i] * res[0] + jac[1, i] * res[1])
        for j in range(own):
            b = 6 * slot + j if j < 6 else len(gradient) - 1
            matrix[a, b] += weight * (jac[0, i] * jac[0, j] + jac[1, i] * jac[1, j])
        row = first + i if i < 6 else _row_of(a, columns, used)
        if row == used:
            columns[row] = a
            mixed[row] = 0.0
            used += 1
        for j in range(3):
            mixed[row, j] += weight * (jac[0, i] * jac[0, 7 + j] + jac[1, i] * jac[1, 7 + j])
    return used


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
        begin_point(points[p], prior[p], information[p], block, grad)
        for k in range(starts[p], starts[p + 1]):
            c = camera[k]
            if not observation(rotations[c], translations[c], calibrations[c], points[p], xy[k], sigma[k], jac, res):
                continue
            weight = robust_weight(res, loss_scale)
            add_to_point(weight, jac, res, block, grad)
            if slots[c] >= 0:
                used = _add_to_camera(weight, jac, res, slots[c], focal, matrix, gradient, mixed, columns, used)
        damped_inverse(block, damping, inverse)
        held[p, :3] = inverse
        held[p, 3] = grad
        _eliminate(mixed, columns, used, inverse, grad, matrix, gradient, diagonal)
    return matrix, gradient, diagonal, held
