"""What a bundle at its optimum says of quantities that its cameras do not model: one Gauss-Newton step with these."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyanchor.sfm.bundle import Bundle, in_cameras, residuals
from skyanchor.types import Floats

FAR = 100.0
"""Residuals beyond this many sigmas say nothing."""
WORST_CONDITION = 1e14
"""Of the normal equations; beyond it something is free."""
CLUSTER_M = 3.0
"""Side of the cubes within which errors of points may be alike, metres."""


@dataclass(frozen=True, eq=False)
class Extra:
    """Quantities that were left free beside poses and points."""

    values: Floats
    """(E,), where they fit best."""
    sigmas: Floats
    """(E,), their standard deviations."""


def estimated(bundle: Bundle, pixels_by_extra: Floats, loss_scale: float = 2.0) -> Extra | None:
    """The extra quantities, from the derivative (K, 2, E) of every observed pixel by them; None where they are free.

    With r the residuals in sigmas, A their derivative by movable poses and extras, P that by points and I the priors,
    S d = -(Σ Aᵀwr - Σ M B⁻¹ g), S = Σ AᵀwA - Σ M B⁻¹ Mᵀ, B = PᵀwP + I and M = Σ AᵀwP over the observations of a point.
    Neighbours err alike, so the covariance is that of sums over cubes c of points: S⁻¹ (Σ s_c s_cᵀ) S⁻¹, s_c = Σ Aᵀwr'
    with the residuals r' after the step; S⁻¹ where that is more.
    """
    by_point, by_pose = _derivatives(bundle)
    by_all = _side_by_side(bundle, by_pose, pixels_by_extra)
    system = _reduced(bundle, by_all, by_point, loss_scale)
    if np.linalg.cond(system.matrix) > WORST_CONDITION:
        return None
    inverse = np.linalg.inv(system.matrix)
    step = -inverse @ system.gradient
    sums = _sums_over_cubes(bundle, system, by_all, by_point, step)
    variances = np.maximum(np.diag(inverse @ (sums.T @ sums) @ inverse), np.diag(inverse))
    extras = slice(len(step) - pixels_by_extra.shape[2], None)
    return Extra(np.asarray(step[extras], np.float64), np.sqrt(variances[extras]))


@dataclass(frozen=True, eq=False)
class _Reduced:
    """The normal equations with the points eliminated, and what brings the points back."""

    matrix: Floats
    gradient: Floats
    residuals: Floats
    weights: Floats
    inverse: Floats
    """(P, 3, 3), of the points' own blocks."""
    own: Floats
    """(P, 3), gradient by the points."""
    mixed: Floats
    """(P, A, 3), blocks between all others and the points."""

    def point_step(self, step: Floats) -> Floats:
        """(P, 3), how far the points move with the others, metres."""
        total = self.own + np.einsum("pai,a->pi", self.mixed, step)
        return -np.einsum("pij,pj->pi", self.inverse, total)


def _reduced(bundle: Bundle, by_all: Floats, by_point: Floats, loss_scale: float) -> _Reduced:
    res, count = residuals(bundle), len(bundle.points)
    squares = (res**2).sum(axis=1)
    weights = np.where(squares < FAR**2, 1.0 / (1.0 + squares / loss_scale**2), 0.0)
    weighted = by_all * weights[:, None, None]
    block, own, mixed = np.zeros((count, 3, 3)), np.zeros((count, 3)), np.zeros((count, by_all.shape[2], 3))
    np.add.at(block, bundle.point, np.einsum("k,kia,kib->kab", weights, by_point, by_point))
    np.add.at(own, bundle.point, np.einsum("k,kia,ki->ka", weights, by_point, res))
    np.add.at(mixed, bundle.point, np.einsum("kia,kib->kab", weighted, by_point))
    if bundle.prior is not None and bundle.prior_information is not None:
        block += bundle.prior_information
        own += np.einsum("pij,pj->pi", bundle.prior_information, np.nan_to_num(bundle.points - bundle.prior))
    inverse = np.asarray(np.linalg.inv(block + 1e-9 * np.eye(3)), np.float64)
    carried = mixed @ inverse
    matrix = np.einsum("kia,kib->ab", weighted, by_all, optimize=True)
    matrix -= np.einsum("pai,pbi->ab", carried, mixed, optimize=True)
    gradient = np.einsum("kia,ki->a", weighted, res) - np.einsum("pai,pi->a", carried, own)
    return _Reduced(matrix, gradient, res, weights, inverse, own, mixed)


def _sums_over_cubes(bundle: Bundle, system: _Reduced, by_all: Floats, by_point: Floats, step: Floats) -> Floats:
    """(C, A), what the points of each cube pull at poses and extras after the step; it adds up to nothing."""
    left = system.residuals + np.einsum("kia,a->ki", by_all, step)
    left += np.einsum("kij,kj->ki", by_point, system.point_step(step)[bundle.point])
    _, cube = np.unique(np.floor(bundle.points / CLUSTER_M), axis=0, return_inverse=True)
    sums = np.zeros((int(cube.max()) + 1, len(step)))
    np.add.at(sums, cube.ravel()[bundle.point], np.einsum("k,kia,ki->ka", system.weights, by_all, left))
    return sums


def _side_by_side(bundle: Bundle, by_pose: Floats, pixels_by_extra: Floats) -> Floats:
    """(K, 2, A), residuals in sigmas by steps of the movable poses, one after the other, and by the extras."""
    moving = ~bundle.constant
    slots, count = np.cumsum(moving) - 1, int(moving.sum())
    out = np.zeros((len(bundle.camera), 2, 6 * count + pixels_by_extra.shape[2]))
    rows = np.flatnonzero(moving[bundle.camera])
    columns = 6 * slots[bundle.camera[rows]][:, None] + np.arange(6)
    for axis in range(2):
        out[rows[:, None], axis, columns] = by_pose[rows, axis]
    out[:, :, 6 * count :] = pixels_by_extra / bundle.sigma[:, None, None]
    return out


def pixels_by_pose(bundle: Bundle) -> Floats:
    """(K, 2, 6), pixels by a step (rotation rad, translation m) of the camera on the left."""
    return _derivatives(bundle)[1] * bundle.sigma[:, None, None]


def _derivatives(bundle: Bundle) -> tuple[Floats, Floats]:
    """((K, 2, 3), (K, 2, 6)): residuals in sigmas by the point, and by a pose step (w, v) on the left.

    u = f x/z + c; du/dX = f/z [1, 0, -x/z]; X moves by -[X]ₓ w + v.
    """
    seen, lens = in_cameras(bundle), bundle.calibrations[bundle.camera]
    x, y, z = seen.T
    zero = np.zeros_like(z)
    fx, fy = lens[:, 0] / bundle.sigma / z, lens[:, 1] / bundle.sigma / z
    by_seen = np.stack([np.stack([fx, zero, -fx * x / z], 1), np.stack([zero, fy, -fy * y / z], 1)], axis=1)
    turned = np.stack([np.stack([zero, z, -y], 1), np.stack([-z, zero, x], 1), np.stack([y, -x, zero], 1)], axis=1)
    return by_seen @ bundle.rotations[bundle.camera], np.concatenate([by_seen @ turned, by_seen], axis=2)
