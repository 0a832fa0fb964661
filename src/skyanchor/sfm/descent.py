"""What both solvers of ours share: the cost of a bundle, its observations as kernels take them, and the descent.

Levenberg-Marquardt: a step that lowers the cost is taken and the damping falls, one that does not is tried again with
more of it. How a step is found is the solver's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from skyanchor.geometry import rigid
from skyanchor.sfm import observation_kernels, point_kernels
from skyanchor.sfm.bundle import Bundle, from_held, residuals
from skyanchor.types import Camera, Floats, Ints, Pose

Attempt: TypeAlias = Callable[[Bundle, float], Bundle]
"""(the bundle, damping) -> the bundle after one step."""


@dataclass(frozen=True, eq=False)
class Flat:
    """A bundle as the kernels take it: observations sorted by point."""

    camera: Ints
    """(K,), camera of each observation."""
    xy: Floats
    """(K, 2), pixels."""
    sigma: Floats
    """(K,), pixels."""
    starts: Ints
    """(P + 1,), first observation of each point."""
    slots: Ints
    """(C,), place of each camera among the movable ones, -1 for a constant one."""
    prior: Floats
    """(P, 3), world frame, metres; any number where there is no prior."""
    information: Floats
    """(P, 3, 3), per square metre, zeros where there is no prior."""


def flat_of(bundle: Bundle) -> Flat:
    """The bundle's observations sorted by point; a bundle that moves keeps them."""
    order = np.argsort(bundle.point, kind="stable")
    count = len(bundle.points)
    slots = np.where(bundle.constant, -1, np.cumsum(~bundle.constant) - 1).astype(np.int64)
    prior = np.zeros((count, 3)) if bundle.prior is None else bundle.prior
    information = np.zeros((count, 3, 3)) if bundle.prior_information is None else bundle.prior_information
    starts = np.searchsorted(bundle.point[order], np.arange(count + 1)).astype(np.int64)
    return Flat(
        bundle.camera[order],
        bundle.xy[order],
        bundle.sigma[order],
        starts,
        slots,
        np.nan_to_num(prior),
        information,
    )


def system_of(bundle: Bundle, flat: Flat) -> tuple[Floats | Ints, ...]:
    """What the kernels that set up the normal equations take of a bundle, in their order."""
    cameras = (bundle.rotations, bundle.translations, bundle.calibrations, bundle.points)
    return (*cameras, flat.camera, flat.xy, flat.sigma, flat.starts, flat.slots, flat.prior, flat.information)


def held_rows(camera: Ints, slots: Ints) -> tuple[Ints, Ints]:
    """(rows of the held cameras that move in the system of all, the same in their own)."""
    moving = np.flatnonzero(np.repeat(slots[camera] >= 0, 6))
    return (6 * slots[camera][:, None] + np.arange(6)).ravel()[moving], moving


def cost_of(bundle: Bundle, loss_scale: float) -> float:
    """Cauchy: s² log(1 + r²/s²), summed, plus the priors and what holds poses."""
    return float(observation_kernels.cauchy(residuals(bundle), loss_scale)) + _prior_cost(bundle) + _held_cost(bundle)


def _prior_cost(bundle: Bundle) -> float:
    if bundle.prior is None or bundle.prior_information is None:
        return 0.0
    off = bundle.points - bundle.prior
    return float(np.einsum("pi,pij,pj->", off, bundle.prior_information, off))


def _held_cost(bundle: Bundle) -> float:
    off = [(from_held(bundle, held), held.information) for held in bundle.held]
    return float(sum(one @ information @ one for one, information in off))


def descend(bundle: Bundle, attempt: Attempt, loss_scale: float, iterations: int, tolerance: float) -> Bundle:
    """The bundle where its cost falls by less than a fraction, or after so many steps."""
    cost, damping = cost_of(bundle, loss_scale), 1e-4
    for _ in range(iterations):
        before = cost
        for _attempt in range(6):
            candidate = attempt(bundle, damping)
            trial = cost_of(candidate, loss_scale)
            if trial < cost:
                bundle, cost, damping = candidate, trial, max(damping * 0.2, 1e-9)
                break
            damping *= 8.0
        if before - cost <= tolerance * max(before, 1e-12):
            break
    return bundle


def moved(bundle: Bundle, flat: Flat, held: Floats, step: Floats, loss_scale: float, focal: bool = False) -> Bundle:
    """The bundle after a step of its cameras: its points follow by what the elimination kept of them."""
    point_step = point_kernels.point_steps(
        bundle.rotations,
        bundle.translations,
        bundle.calibrations,
        bundle.points,
        flat.camera,
        flat.xy,
        flat.sigma,
        flat.starts,
        flat.slots,
        loss_scale,
        focal,
        held,
        step,
    )
    poses = list(bundle.cams_from_world)
    for i, slot in enumerate(flat.slots):
        if slot >= 0:
            w, v = step[6 * slot : 6 * slot + 3], step[6 * slot + 3 : 6 * slot + 6]
            poses[i] = Pose(rigid.rotation_exp(w), v) @ poses[i]
    lenses = bundle.lenses
    if focal:
        factor = float(np.exp(np.clip(step[-1], -0.1, 0.1)))
        lenses = tuple(
            _zoomed(lens, factor) if slot >= 0 else lens for lens, slot in zip(lenses, flat.slots, strict=True)
        )
    return replace(bundle, cams_from_world=tuple(poses), lenses=lenses, points=bundle.points + point_step)


def _zoomed(lens: Camera, factor: float) -> Camera:
    fx, fy, cx, cy = lens.params
    return replace(lens, params=(fx * factor, fy * factor, cx, cy))
