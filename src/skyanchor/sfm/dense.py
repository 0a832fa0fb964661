"""The dense solver: Levenberg-Marquardt over a dense Schur complement, for a dozen movable cameras.

Anchor groups have a dozen movable cameras and a few thousand points: whole-array steps solve them in a fraction of a
second, hold points at their priors and give the covariance of the poses for free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyanchor.sfm import dense_kernels as kernels
from skyanchor.sfm.bundle import Bundle, from_held
from skyanchor.sfm.descent import Flat, descend, flat_of, held_rows, moved, system_of
from skyanchor.types import Floats, Ints


@dataclass(frozen=True)
class Dense:
    """Few movable cameras, lenses without distortion; sigmas and priors count, covariances come with it."""

    iterations: int = 20
    """Most Levenberg-Marquardt steps."""
    loss_scale: float = 2.0
    """Residuals beyond this many sigmas lose weight (Cauchy)."""
    tolerance: float = 1e-5
    """Stop when the cost falls by less than this fraction."""
    refine_focal: bool = False
    """Whether one common focal scale of the movable cameras is estimated."""


def _add_held(bundle: Bundle, slots: Ints, matrix: Floats, gradient: Floats) -> None:
    """Add what holds poses: I and I e, e from the held pose to the camera's, whose derivative by it is near one."""
    for held in bundle.held:
        rows, moving = held_rows(held.camera, slots)
        matrix[np.ix_(rows, rows)] += held.information[np.ix_(moving, moving)]
        gradient[rows] += (held.information @ from_held(bundle, held))[moving]


def _reduced(bundle: Bundle, flat: Flat, solver: Dense, damping: float) -> tuple[Floats, Floats, Floats]:
    """(damped reduced matrix, reduced gradient, what back-substitution needs)."""
    matrix, gradient, taken, held = kernels.reduced_system(
        *system_of(bundle, flat), solver.loss_scale, solver.refine_focal, damping
    )
    _add_held(bundle, flat.slots, matrix, gradient)
    size = len(gradient)
    matrix[np.arange(size), np.arange(size)] += damping * (np.diag(matrix) + taken) + 1e-12
    return matrix, gradient, held


def solve(bundle: Bundle, solver: Dense) -> tuple[Bundle, Floats]:
    """(the bundle at the optimum, covariances of its cameras)."""
    flat = flat_of(bundle)

    def attempt(now: Bundle, damping: float) -> Bundle:
        matrix, gradient, held = _reduced(now, flat, solver, damping)
        step = np.asarray(-np.linalg.solve(matrix, gradient), dtype=np.float64)
        return moved(now, flat, held, step, solver.loss_scale, solver.refine_focal)

    bundle = descend(bundle, attempt, solver.loss_scale, solver.iterations, solver.tolerance)
    return bundle, _covariances(bundle, flat, solver)


def _covariances(bundle: Bundle, flat: Flat, solver: Dense) -> Floats:
    """(C, 6, 6), blocks of the inverse of the undamped reduced matrix; zeros for constant cameras."""
    matrix, _, _ = _reduced(bundle, flat, solver, 0.0)
    inverse = np.linalg.pinv(matrix, hermitian=True)
    covariances = np.zeros((len(flat.slots), 6, 6))
    for i, slot in enumerate(flat.slots):
        if slot >= 0:
            covariances[i] = inverse[6 * slot : 6 * slot + 6, 6 * slot : 6 * slot + 6]
    return covariances
