"""Small bundle adjustment with constant cameras, per-observation sigmas and point priors; dense Schur complement.

Anchor groups have a dozen movable cameras and a few thousand points: a vectorised Levenberg-Marquardt solves them in a
fraction of a second and gives the covariance of the poses for free.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skyanchor.geometry import rigid
from skyanchor.sfm import bundle_kernels as kernels
from skyanchor.types import Bools, Floats, Ints, Pose


@dataclass(frozen=True, eq=False)
class Bundle:
    """Cameras, points and the observations between them."""

    cams_from_world: tuple[Pose, ...]
    calibrations: Floats
    """(C, 4): fx, fy, cx, cy, pixels."""
    constant: Bools
    """(C,), True for cameras that must not move."""
    points: Floats
    """(P, 3), metres."""
    camera: Ints
    """(K,), camera of each observation."""
    point: Ints
    """(K,), point of each observation."""
    xy: Floats
    """(K, 2), pixels."""
    sigma: Floats
    """(K,), standard deviation of an observation, pixels."""
    prior: Floats | None = None
    """(P, 3), where points were measured independently, metres; None for no priors."""
    prior_information: Floats | None = None
    """(P, 3, 3), inverse covariance of `prior`; zeros for a point without one."""


@dataclass(frozen=True, eq=False)
class Adjusted:
    """The bundle after adjustment."""

    bundle: Bundle
    residuals: Floats
    """(K,), length of each observation's residual in sigmas; inf behind the camera."""
    covariances: Floats
    """(C, 6, 6) of (rotation rad, translation m), left perturbation of cam_from_world, unit variance factor;
    zeros for constant cameras."""
    variance_factor: float
    """Robust estimate of the squared residual in units of sigma²; 1 when the sigmas were right."""
    focal_scale: float
    """Factor applied to the movable cameras' focal lengths."""


@dataclass(frozen=True)
class AdjustConfig:
    """How to minimise."""

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

    calibrations: Floats
    camera: Ints
    xy: Floats
    sigma: Floats
    starts: Ints
    slots: Ints
    prior: Floats
    information: Floats


def _arrays(bundle: Bundle) -> tuple[Floats, Floats]:
    rotations = np.stack([pose.rotation for pose in bundle.cams_from_world])
    return np.ascontiguousarray(rotations), np.stack([pose.translation for pose in bundle.cams_from_world])


def _residuals(bundle: Bundle) -> Floats:
    rotations, translations = _arrays(bundle)
    return np.asarray(
        kernels.residuals(
            rotations,
            translations,
            bundle.calibrations,
            bundle.points,
            bundle.camera,
            bundle.point,
            bundle.xy,
            bundle.sigma,
        )
    )


def residual_lengths(bundle: Bundle) -> Floats:
    """(K,), reprojection residual of every observation in sigmas."""
    return np.asarray(np.linalg.norm(_residuals(bundle), axis=1))


def _prior_cost(bundle: Bundle) -> float:
    if bundle.prior is None or bundle.prior_information is None:
        return 0.0
    off = bundle.points - bundle.prior
    return float(np.einsum("pi,pij,pj->", off, bundle.prior_information, off))


def _cost(bundle: Bundle, loss_scale: float) -> float:
    """Cauchy: s² log(1 + r²/s²), summed, plus the priors."""
    return float(kernels.cauchy(_residuals(bundle), loss_scale)) + _prior_cost(bundle)


def _flat(bundle: Bundle) -> _Flat:
    order = np.argsort(bundle.point, kind="stable")
    count = len(bundle.points)
    slots = np.where(bundle.constant, -1, np.cumsum(~bundle.constant) - 1).astype(np.int64)
    prior = np.zeros((count, 3)) if bundle.prior is None else bundle.prior
    information = np.zeros((count, 3, 3)) if bundle.prior_information is None else bundle.prior_information
    starts = np.searchsorted(bundle.point[order], np.arange(count + 1)).astype(np.int64)
    return _Flat(
        bundle.calibrations,
        bundle.camera[order],
        bundle.xy[order],
        bundle.sigma[order],
        starts,
        slots,
        np.nan_to_num(prior),
        information,
    )


def _reduced(bundle: Bundle, flat: _Flat, config: AdjustConfig, damping: float) -> tuple[Floats, Floats, Floats]:
    """(damped reduced matrix, reduced gradient, what back-substitution needs)."""
    rotations, translations = _arrays(bundle)
    matrix, gradient, taken, held = kernels.reduced_system(
        rotations,
        translations,
        bundle.calibrations,
        bundle.points,
        flat.camera,
        flat.xy,
        flat.sigma,
        flat.starts,
        flat.slots,
        flat.prior,
        flat.information,
        config.loss_scale,
        config.refine_focal,
        damping,
    )
    size = len(gradient)
    matrix[np.arange(size), np.arange(size)] += damping * (np.diag(matrix) + taken) + 1e-12
    return matrix, gradient, held


def _moved(bundle: Bundle, flat: _Flat, held: Floats, step: Floats, config: AdjustConfig) -> Bundle:
    rotations, translations = _arrays(bundle)
    point_step = kernels.point_steps(
        rotations,
        translations,
        bundle.calibrations,
        bundle.points,
        flat.camera,
        flat.xy,
        flat.sigma,
        flat.starts,
        flat.slots,
        config.loss_scale,
        config.refine_focal,
        held,
        step,
    )
    poses = list(bundle.cams_from_world)
    for i, slot in enumerate(flat.slots):
        if slot >= 0:
            w, v = step[6 * slot : 6 * slot + 3], step[6 * slot + 3 : 6 * slot + 6]
            poses[i] = Pose(rigid.rotation_exp(w), v) @ poses[i]
    calibrations = bundle.calibrations.copy()
    if config.refine_focal:
        calibrations[flat.slots >= 0, :2] *= float(np.exp(np.clip(step[-1], -0.1, 0.1)))
    return replace(bundle, cams_from_world=tuple(poses), calibrations=calibrations, points=bundle.points + point_step)


def adjust(bundle: Bundle, config: AdjustConfig) -> Adjusted:
    """The bundle with movable cameras and points at the robust least-squares optimum; constant poses are untouched."""
    flat = _flat(bundle)
    start, cost, damping = bundle, _cost(bundle, config.loss_scale), 1e-4
    for _ in range(config.iterations):
        before = cost
        for _attempt in range(6):
            matrix, gradient, held = _reduced(bundle, flat, config, damping)
            step = np.asarray(-np.linalg.solve(matrix, gradient), dtype=np.float64)
            candidate = _moved(bundle, flat, held, step, config)
            trial = _cost(candidate, config.loss_scale)
            if trial < cost:
                bundle, cost, damping = candidate, trial, max(damping * 0.2, 1e-9)
                break
            damping *= 8.0
        if before - cost <= config.tolerance * max(before, 1e-12):
            break
    movable = ~bundle.constant
    scale = float(bundle.calibrations[movable, 0].mean() / start.calibrations[movable, 0].mean())
    return _finished(bundle, flat, config, scale)


def _finished(bundle: Bundle, flat: _Flat, config: AdjustConfig, focal_scale: float) -> Adjusted:
    lengths = residual_lengths(bundle)
    matrix, _, _ = _reduced(bundle, flat, config, 0.0)
    inverse = np.linalg.pinv(matrix, hermitian=True)
    covariances = np.zeros((len(flat.slots), 6, 6))
    for i, slot in enumerate(flat.slots):
        if slot >= 0:
            covariances[i] = inverse[6 * slot : 6 * slot + 6, 6 * slot : 6 * slot + 6]
    factor = float(np.median(lengths) ** 2 / 1.386) if len(lengths) else 1.0  # median of χ²(2) is 1.386
    return Adjusted(bundle, lengths, covariances, factor, focal_scale)


def triangulate(bundle: Bundle) -> Floats:
    """(P, 3), the point nearest to its rays: Σ (I - d dᵀ)(x - c) = 0; nan for fewer than two rays."""
    rotations = np.stack([pose.rotation for pose in bundle.cams_from_world])
    centres = rigid.centres_in_world(bundle.cams_from_world)
    k = bundle.calibrations[bundle.camera]
    rays = np.concatenate([(bundle.xy - k[:, 2:]) / k[:, :2], np.ones((len(k), 1))], axis=1)
    rays = np.einsum("kji,kj->ki", rotations[bundle.camera], rays)
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    across = np.eye(3) - rays[:, :, None] * rays[:, None, :]
    matrix, target = np.zeros((len(bundle.points), 3, 3)), np.zeros((len(bundle.points), 3))
    pulls = np.einsum("kij,kj->ki", across, centres[bundle.camera])
    for i in range(3):
        target[:, i] = np.bincount(bundle.point, pulls[:, i], len(target))
        for j in range(3):
            matrix[:, i, j] = np.bincount(bundle.point, across[:, i, j], len(target))
    enough = np.linalg.det(matrix) > 1e-9
    points = np.full((len(bundle.points), 3), np.nan)
    points[enough] = np.linalg.solve(matrix[enough], target[enough][..., None])[..., 0]
    return points


def ray_angles(bundle: Bundle) -> Floats:
    """(P,), largest angle between a point's first ray and its others, radians; 0 for single observations."""
    centres = rigid.centres_in_world(bundle.cams_from_world)
    rays = bundle.points[bundle.point] - centres[bundle.camera]
    rays /= np.linalg.norm(rays, axis=1, keepdims=True) + 1e-12
    first = np.zeros(len(bundle.points), dtype=np.int64)
    first[bundle.point[::-1]] = np.arange(len(rays))[::-1]
    cosine = np.clip((rays * rays[first[bundle.point]]).sum(axis=1), -1.0, 1.0)
    angles = np.zeros(len(bundle.points))
    np.maximum.at(angles, bundle.point, np.arccos(cosine))
    return angles


def selected(bundle: Bundle, keep: Bools) -> tuple[Bundle, Ints]:
    """(the bundle with only the kept observations and the points they see, old index of each point)."""
    used, point = np.unique(bundle.point[keep], return_inverse=True)
    smaller = replace(
        bundle,
        points=bundle.points[used],
        camera=bundle.camera[keep],
        point=point.astype(np.int64),
        xy=bundle.xy[keep],
        sigma=bundle.sigma[keep],
        prior=None if bundle.prior is None else bundle.prior[used],
        prior_information=None if bundle.prior_information is None else bundle.prior_information[used],
    )
    return smaller, used
