"""Numba kernels of the sparse solver: the point-eliminated normal equations in blocks of cameras that share points."""

from __future__ import annotations

import numpy as np

from skyanchor.compiled import njit
from skyanchor.sfm.observation_kernels import observation, robust_weight
from skyanchor.sfm.point_kernels import add_to_point, begin_point, damped_inverse
from skyanchor.types import Floats, Ints


@njit(cache=True)
def _block(row_starts: Ints, columns: Ints, row: int, column: int) -> int:
    """Where the block (row, column) is kept; it is there."""
    low, high = row_starts[row], row_starts[row + 1] - 1
    while low < high:
        middle = (low + high) // 2
        if columns[middle] < column:
            low = middle + 1
        else:
            high = middle
    return int(low)


@njit(cache=True)
def _add_to_camera(weight: float, jac: Floats, res: Floats, block: Floats, gradient: Floats, mixed: Floats) -> None:
    """What an observation says of its camera, block (6, 6) and gradient (6,), and of camera and point, (6, 3)."""
    for i in range(6):
        gradient[i] += weight * (jac[0, i] * res[0] + jac[1, i] * res[1])
        for j in range(6):
            block[i, j] += weight * (jac[0, i] * jac[0, j] + jac[1, i] * jac[1, j])
        for j in range(3):
            mixed[i, j] += weight * (jac[0, i] * jac[0, 7 + j] + jac[1, i] * jac[1, 7 + j])


@njit(cache=True)
def _eliminate(
    mixed: Floats,
    seen: Ints,
    used: int,
    inverse: Floats,
    grad: Floats,
    row_starts: Ints,
    columns: Ints,
    blocks: Floats,
    gradient: Floats,
    taken: Floats,
) -> None:
    """Take one point out: C_ab -= M_a P⁻¹ M_bᵀ, g_a -= M_a P⁻¹ g_p; `taken` adds up what the diagonal lost."""
    half = np.empty((6, 3))
    for a in range(used):
        for i in range(6):
            for j in range(3):
                half[i, j] = (
                    mixed[a, i, 0] * inverse[0, j] + mixed[a, i, 1] * inverse[1, j] + mixed[a, i, 2] * inverse[2, j]
                )
            gradient[seen[a], i] -= half[i, 0] * grad[0] + half[i, 1] * grad[1] + half[i, 2] * grad[2]
        for b in range(used):
            block = blocks[_block(row_starts, columns, seen[a], seen[b])]
            for i in range(6):
                for j in range(6):
                    lost = half[i, 0] * mixed[b, j, 0] + half[i, 1] * mixed[b, j, 1] + half[i, 2] * mixed[b, j, 2]
                    block[i, j] -= lost
                    if a == b and i == j:
                        taken[seen[a], i] += lost


@njit(cache=True)
def reduced_blocks(
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
    row_starts: Ints,
    columns: Ints,
    loss_scale: float,
    damping: float,
) -> tuple[Floats, Floats, Floats, Floats]:
    """(S as blocks (B, 6, 6), g (C, 6), D (C, 6), step data): what `dense_kernels.reduced_system` gives, in blocks.

    Blocks (row, column) lie row by row, columns rising, where two movable cameras see a point together: those of row r
    are row_starts[r] .. row_starts[r + 1]. A camera sees a point once.
    """
    count, longest = len(row_starts) - 1, 0
    for p in range(len(points)):
        longest = max(longest, starts[p + 1] - starts[p])
    blocks, gradient, taken = np.zeros((len(columns), 6, 6)), np.zeros((count, 6)), np.zeros((count, 6))
    held = np.zeros((len(points), 4, 3))
    jac, res = np.zeros((2, 10)), np.zeros(2)
    mixed, seen = np.zeros((longest, 6, 3)), np.zeros(longest, np.int64)
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
                own = _block(row_starts, columns, slots[c], slots[c])
                mixed[used] = 0.0
                _add_to_camera(weight, jac, res, blocks[own], gradient[slots[c]], mixed[used])
                seen[used] = slots[c]
                used += 1
        damped_inverse(block, damping, inverse)
        held[p, :3] = inverse
        held[p, 3] = grad
        _eliminate(mixed, seen, used, inverse, grad, row_starts, columns, blocks, gradient, taken)
    return blocks, gradient, taken, held
