"""Bundle adjustment: one problem, three solvers; constant cameras are the reference and keep their bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from skyanchor.sfm import ceres, dense, sparse
from skyanchor.sfm.bundle import Bundle, residual_lengths
from skyanchor.sfm.ceres import Ceres
from skyanchor.sfm.dense import Dense
from skyanchor.sfm.sparse import Sparse
from skyanchor.step_clock import StepClock
from skyanchor.types import Floats

AnySolver: TypeAlias = Dense | Sparse | Ceres


@dataclass(frozen=True, eq=False)
class Adjusted:
    """The bundle after adjustment."""

    bundle: Bundle
    residuals: Floats
    """(K,), length of each observation's residual in sigmas; beyond a thousand behind the camera."""
    covariances: Floats | None
    """(C, 6, 6) of (rotation rad, translation m), left perturbation of cam_from_world, unit variance factor, zeros for
    constant cameras; None from the solvers of whole walks: `uncertainty.pose_covariances` gives marginals."""


def adjust(bundle: Bundle, solver: AnySolver, clock: StepClock | None = None) -> Adjusted:
    """The bundle with movable cameras and points at the robust least-squares optimum; constant poses are untouched."""
    covariances: Floats | None = None
    if isinstance(solver, Dense):
        found, covariances = dense.solve(bundle, solver)
    elif isinstance(solver, Sparse):
        found = sparse.solve(bundle, solver)
    else:
        found = ceres.solve(bundle, solver, clock or StepClock())
    for k in np.flatnonzero(bundle.constant):
        before, after = bundle.cams_from_world[k], found.cams_from_world[k]
        assert np.array_equal(before.rotation, after.rotation) and np.array_equal(before.translation, after.translation)
    return Adjusted(found, residual_lengths(found), covariances)
