"""The sparse solver: Levenberg-Marquardt over a sparse Schur complement, for a whole walk with held poses.

A camera shares points with its neighbours on the walk and with those that came by again. The reduced matrix has a
block for every such pair alone, and its factors stay near it, so time and memory grow with the walk, not with its cube
and square as those of the dense solver do. Ceres, as pycolmap gives it, holds no poses by a covariance of several.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import bsr_matrix, coo_matrix, csc_matrix, csr_matrix, diags_array, identity
from scipy.sparse.linalg import splu

from skyanchor.sfm import sparse_kernels as kernels
from skyanchor.sfm.bundle import Bundle, from_held
from skyanchor.sfm.descent import Flat, descend, flat_of, held_rows, moved, system_of
from skyanchor.types import Floats, Ints


@dataclass(frozen=True)
class Sparse:
    """Many movable cameras, lenses without distortion; sigmas, priors and held poses count."""

    iterations: int = 20
    """Most Levenberg-Marquardt steps."""
    loss_scale: float = 2.0
    """Residuals beyond this many sigmas lose weight (Cauchy)."""
    tolerance: float = 1e-5
    """Stop when the cost falls by less than this fraction."""


@dataclass(frozen=True, eq=False)
class _Pattern:
    """Which movable cameras see a point together, row by row, each with itself."""

    row_starts: Ints
    """(M + 1,)."""
    columns: Ints
    """(B,), rising within a row."""


def solve(bundle: Bundle, solver: Sparse) -> Bundle:
    """The bundle at the optimum."""
    flat = flat_of(bundle)
    pattern, held = _pattern(flat), _held_matrix(bundle, flat.slots)

    def attempt(now: Bundle, damping: float) -> Bundle:
        matrix, gradient, kept = _reduced(now, flat, pattern, held, solver.loss_scale, damping)
        factors = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        return moved(now, flat, kept, -factors.solve(gradient), solver.loss_scale)

    return descend(bundle, attempt, solver.loss_scale, solver.iterations, solver.tolerance)


def _pattern(flat: Flat) -> _Pattern:
    """Of (cameras x points) times its transpose, with the diagonal."""
    slot, count = flat.slots[flat.camera], int(flat.slots.max()) + 1
    point = np.repeat(np.arange(len(flat.starts) - 1), np.diff(flat.starts))
    free = slot >= 0
    shape = (count, len(flat.starts) - 1)
    sees = coo_matrix((np.ones(int(free.sum()), np.int32), (slot[free], point[free])), shape=shape).tocsr()
    shared = csr_matrix(sees @ sees.T + identity(count, np.int32))
    shared.sort_indices()
    return _Pattern(shared.indptr.astype(np.int64), shared.indices.astype(np.int64))


def _held_matrix(bundle: Bundle, slots: Ints) -> csc_matrix:
    """What holds poses, as a matrix of all movable cameras: it does not depend on where they are."""
    size = 6 * (int(slots.max()) + 1)
    total = csc_matrix((size, size))
    for held in bundle.held:
        rows, moving = held_rows(held.camera, slots)
        information = held.information[np.ix_(moving, moving)]
        along, across = np.meshgrid(rows, rows, indexing="ij")
        total = total + coo_matrix((information.ravel(), (along.ravel(), across.ravel())), shape=(size, size)).tocsc()
    return total


def _reduced(
    bundle: Bundle, flat: Flat, pattern: _Pattern, held: csc_matrix, loss_scale: float, damping: float
) -> tuple[csc_matrix, Floats, Floats]:
    """(damped reduced matrix, reduced gradient, what back-substitution needs)."""
    blocks, gradient, taken, kept = kernels.reduced_blocks(
        *system_of(bundle, flat), pattern.row_starts, pattern.columns, loss_scale, damping
    )
    size = gradient.size
    matrix = bsr_matrix((blocks, pattern.columns, pattern.row_starts), shape=(size, size)).tocsc() + held
    gradient = gradient.ravel()
    for one in bundle.held:
        rows, moving = held_rows(one.camera, flat.slots)
        gradient[rows] += (one.information @ from_held(bundle, one))[moving]
    matrix = matrix + diags_array(damping * (matrix.diagonal() + taken.ravel()) + 1e-12)
    return csc_matrix(matrix), gradient, kept
