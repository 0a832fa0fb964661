"""The dense solver: Levenberg-Marquardt over a dense Schur complement, for a dozen movable cameras.

Anchor groups have a dozen movable cameras and a few thousand points: whole-array steps solve them in a fraction of a
second, hold points at their priors and give the covariance of the poses for free.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skyanchor.geometry import rigid
from skyanchor.sfm import dense_kernels as kernels
from skyanchor.sfm.bundle import Bundle, from_held, residuals
from skyanchor.types import Camera, Floats, Ints, Pose


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


@dataclass(frozen=True, eq=False)
class _Flat:
    """A bundle as the kernels take it: observations sorted by point."""

    camera: Ints
    xy: Floats
    sigma: Floats
    starts: Ints
    slots: Ints
    prior: Floats
    information: Floats


def _prior_cost(bundle: Bundle) -> float:
    if bundle.prior is None or bundle.prior_information is None:
        return 0.0
    off = bundle.points - bundle.prior
    return float(np.einsum("pi,pij,pj->", off, bundle.prior_information, off))


def _cost(bundle: Bundle, loss_scale: float) -> float:
    """Cauchy: s² log(1 + r²/s²), summed, plus the priors and what holds poses."""
    return float(kernels.cauchy(residuals(bundle), loss_scale)) + _prior_cost(bundle) + _held_cost(bundle)


def _held_cost(bundle: Bundle) -> float:
    off = [(from_held(bundle, held), held.information) for held in bundle.held]
    return float(sum(one @ information @ one for one, information in off))


def _add_held(bundle: Bundle, slots: Ints, matrix: Floats, gradient: Floats) -> None:
    """Add what holds poses: I and I e, e from the held pose to the camera's, whose derivative by it is near one."""
    for held in bundle.held:
        moving = np.repeat(slots[held.camera] >= 0, 6)
        rows = (6 * slots[held.camera][:, None] + np.arange(6)).ravel()[moving]
        matrix[np.ix_(rows, rows)] += held.information[np.ix_(moving, moving)]
        gradient[rows] += (held.information @ from_held(bundle, held))[moving]


def _flat(bundle: Bundle) -> _Flat:
    order = np.argsort(bundle.point, kind="stable")
    count = len(bundle.points)
    slots = np.where(bundle.constant, -1, np.cumsum(~bundle.constant) - 1).astype(np.int64)
    prior = np.zeros((count, 3)) if bundle.prior is None else bundle.prior
    information = np.zeros((count, 3, 3)) if bundle.prior_information is None else bundle.prior_information
    starts = np.searchsorted(bundle.point[order], np.arange(count + 1)).astype(np.int64)
    return _Flat(
        bundle.camera[order],
        bundle.xy[order],
        bundle.sigma[order],
        starts,
        slots,
        np.nan_to_num(prior),
        information,
    )


def _reduced(bundle: Bundle, flat: _Flat, solver: Dense, damping: float) -> tuple[Floats, Floats, Floats]:
    """(damped reduced matrix, reduced gradient, what back-substitution needs)."""
    matrix, gradient, taken, held = kernels.reduced_system(
        bundle.rotations,
        bundle.translations,
        bundle.calibrations,
        bundle.points,
        flat.camera,
        flat.xy,
        flat.sigma,
        flat.starts,
        flat.slots,
        flat.prior,
        flat.information,
        solver.loss_scale,
        solver.refine_focal,
        damping,
    )
    _add_held(bundle, flat.slots, matrix, gradient)
    size = len(gradient)
    matrix[np.arange(size), np.arange(size)] += damping * (np.diag(matrix) + taken) + 1e-12
    return matrix, gradient, held


def _moved(bundle: Bundle, flat: _Flat, held: Floats, step: Floats, solver: Dense) -> Bundle:
    point_step = kernels.point_steps(
        bundle.rotations,
        bundle.translations,
        bundle.calibrations,
        bundle.points,
        flat.camera,
        flat.xy,
        flat.sigma,
        flat.starts,
        flat.slots,
        solver.loss_scale,
        solver.refine_focal,
        held,
        step,
    )
    poses = list(bundle.cams_from_world)
    for i, slot in enumerate(flat.slots):
        if slot >= 0:
            w, v = step[6 * slot : 6 * slot + 3], step[6 * slot + 3 : 6 * slot + 6]
            poses[i] = Pose(rigid.rotation_exp(w), v) @ poses[i]
    lenses = bundle.lenses
    if solver.refine_focal:
        factor = float(np.exp(np.clip(step[-1], -0.1, 0.1)))
        lenses = tuple(
            _zoomed(lens, factor) if slot >= 0 else lens for lens, slot in zip(lenses, flat.slots, strict=True)
        )
    return replace(bundle, cams_from_world=tuple(poses), lenses=lenses, points=bundle.points + point_step)


def _zoomed(lens: Camera, factor: float) -> Camera:
    fx, fy, cx, cy = lens.params
    return replace(lens, params=(fx * factor, fy * factor, cx, cy))


def solve(bundle: Bundle, solver: Dense) -> tuple[Bundle, Floats]:
    """(the bundle at the optimum, covariances of its cameras)."""
    flat = _flat(bundle)
    cost, damping = _cost(bundle, solver.loss_scale), 1e-4
    for _ in range(solver.iterations):
        before = cost
        for _attempt in range(6):
            matrix, gradient, held = _reduced(bundle, flat, solver, damping)
            step = np.asarray(-np.linalg.solve(matrix, gradient), dtype=np.float64)
            candidate = _moved(bundle, flat, held, step, solver)
            trial = _cost(candidate, solver.loss_scale)
            if trial < cost:
                bundle, cost, damping = candidate, trial, max(damping * 0.2, 1e-9)
                break
            damping *= 8.0
        if before - cost <= solver.tolerance * max(before, 1e-12):
            break
    return bundle, _covariances(bundle, flat, solver)


def _covariances(bundle: Bundle, flat: _Flat, solver: Dense) -> Floats:
    """(C, 6, 6), blocks of the inverse of the undamped reduced matrix; zeros for constant cameras."""
    matrix, _, _ = _reduced(bundle, flat, solver, 0.0)
    inverse = np.linalg.pinv(matrix, hermitian=True)
    covariances = np.zeros((len(flat.slots), 6, 6))
    for i, slot in enumerate(flat.slots):
        if slot >= 0:
            covariances[i] = inverse[6 * slot : 6 * slot + 6, 6 * slot : 6 * slot + 6]
    return covariances
