"""The large solver: bundles of hundreds of cameras through pycolmap and Ceres."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pycolmap

from skyanchor.geometry import colmap
from skyanchor.sfm.bundle import Bundle
from skyanchor.step_clock import StepClock
from skyanchor.types import Camera, Pose


@dataclass(frozen=True)
class Ceres:
    """Many movable cameras, any lens; every observation has the same sigma and no point a prior."""

    iterations: int
    """Most steps of the trust region."""
    loss_scale: float
    """Residuals beyond this many sigmas lose weight (soft L1)."""
    refine_focal: bool = False
    """Whether the focal length of every lens is estimated, and its distortion where it has any; square pixels stay so:
    a walk straight ahead hardly tells its height from their sides."""
    threads: int = -1
    """-1 takes all cores."""
    most_dense: int = 150
    """Movable cameras up to which the dense Schur complement is used."""


def solve(bundle: Bundle, solver: Ceres, clock: StepClock) -> Bundle:
    """The bundle at the optimum."""
    if bundle.prior is not None or bundle.held or len(np.unique(bundle.sigma)) > 1:
        raise ValueError("Ceres is used without priors, held poses, and with one sigma for all observations")
    lenses = {lens: _one_focal(lens) if solver.refine_focal else lens for lens in bundle.lenses}
    ids = [name + 1 for name in bundle.names or range(len(bundle.cams_from_world))]
    with clock.step("problem"):
        model = _model(bundle, lenses, ids)
        options, config = _options(bundle, solver), _config(bundle, solver, len(lenses), ids)
    with clock.step("solver"):
        pycolmap.create_default_bundle_adjuster(options, config, model).solve()
    used = set(np.unique(bundle.camera).tolist())
    poses = tuple(
        _pose(model, ids[k], pose, bool(bundle.constant[k])) if k in used else pose
        for k, pose in enumerate(bundle.cams_from_world)
    )
    points = np.array([model.point3D(p + 1).xyz for p in range(len(bundle.points))]).reshape(-1, 3)
    if solver.refine_focal:
        refined = {lens: _as_before(colmap.from_camera(model.camera(k + 1)), lens) for k, lens in enumerate(lenses)}
        bundle = replace(bundle, lenses=tuple(refined[lens] for lens in bundle.lenses))
    return replace(bundle, cams_from_world=poses, points=points)


def _one_focal(lens: Camera) -> Camera:
    """The lens with one focal length to estimate, where its pixels are square."""
    if lens.model != "PINHOLE" or lens.params[0] != lens.params[1]:
        return lens
    return replace(lens, model="SIMPLE_PINHOLE", params=lens.params[1:])


def _as_before(refined: Camera, lens: Camera) -> Camera:
    """The refined lens in the model of the one that went in."""
    if refined.model == lens.model:
        return refined
    return replace(refined, model=lens.model, params=(refined.params[0], *refined.params))


def _model(bundle: Bundle, lenses: dict[Camera, Camera], ids: list[int]) -> Any:
    """The bundle as a pycolmap.Reconstruction with images of the given ids; other ids are indices here + 1.

    `lenses` has for each lens of the bundle the one that the solver takes.
    """
    model = pycolmap.Reconstruction()
    for k, lens in enumerate(lenses.values()):
        model.add_camera_with_trivial_rig(colmap.to_camera(lens, k + 1))
    lens_ids = {lens: k + 1 for k, lens in enumerate(lenses)}
    order = np.argsort(bundle.camera, kind="stable")
    used, starts = np.unique(bundle.camera[order], return_index=True)
    index = np.empty(len(order), dtype=np.int64)
    for k, rows in zip(used.tolist(), np.split(order, starts[1:]), strict=True):
        index[rows] = np.arange(len(rows))
        lens_id = lens_ids[bundle.lenses[k]]
        image = pycolmap.Image(name=str(k), keypoints=bundle.xy[rows], camera_id=lens_id, image_id=ids[k])
        model.add_image_with_trivial_frame(image, _rigid3d(bundle.cams_from_world[k]))
    order = np.argsort(bundle.point, kind="stable")
    bounds = np.searchsorted(bundle.point[order], np.arange(len(bundle.points) + 1)).tolist()
    images, keypoints = np.array(ids)[bundle.camera[order]].tolist(), index[order].tolist()
    for p, xyz in enumerate(bundle.points):
        track = pycolmap.Track()
        for k in range(bounds[p], bounds[p + 1]):
            track.add_element(images[k], keypoints[k])
        model.add_point3D_with_id(p + 1, pycolmap.Point3D(xyz=xyz, track=track))
    return model


def _rigid3d(pose: Pose) -> Any:
    """The pose as the solver starts from it: it asks for a quaternion of unit length by its own arithmetic."""
    cam_from_world = colmap.to_rigid3d(pose)
    cam_from_world.rotation.normalize()
    return cam_from_world


def _pose(model: Any, image: int, before: Pose, constant: bool) -> Pose:
    """The camera's pose after the solver; a constant one must come out as its quaternion went in."""
    after = colmap.from_rigid3d(model.image(image).cam_from_world())
    if not constant:
        return after
    turned = float(np.abs(before.rotation - after.rotation).max())
    if turned > 1e-12 or not np.array_equal(before.translation, after.translation):
        raise AssertionError(f"the solver moved the constant camera of image {image} (rotation by {turned:.1e})")
    return before


def _options(bundle: Bundle, solver: Ceres) -> Any:
    movable = int((~bundle.constant).sum())
    ceres = {
        "loss_function_type": "SOFT_L1",
        "loss_function_scale": solver.loss_scale * float(bundle.sigma[0] if len(bundle.sigma) else 1.0),
        "auto_select_solver_type": False,
        "solver_options": {
            "linear_solver_type": "DENSE_SCHUR" if movable <= solver.most_dense else "SPARSE_SCHUR",
            "max_num_iterations": solver.iterations,
            "function_tolerance": 1e-6,
            "num_threads": solver.threads,
        },
    }
    extra = {"refine_principal_point": False, "refine_extra_params": solver.refine_focal, "print_summary": False}
    return pycolmap.BundleAdjustmentOptions({"refine_focal_length": solver.refine_focal, **extra, "ceres": ceres})


def _config(bundle: Bundle, solver: Ceres, lenses: int, ids: list[int]) -> Any:
    config = pycolmap.BundleAdjustmentConfig()
    for k in np.unique(bundle.camera).tolist():
        config.add_image(ids[k])
        if bundle.constant[k]:
            config.set_constant_rig_from_world_pose(ids[k])
    for lens in range(0 if solver.refine_focal else lenses):
        config.set_constant_cam_intrinsics(lens + 1)
    return config
