"""Anchored bundle adjustment through pycolmap: anchors constant, to the bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import pycolmap

from skyanchor.geometry import colmap
from skyanchor.sfm.tracks import TrackTable
from skyanchor.types import Camera, Floats, Pose


@dataclass(frozen=True, eq=False)
class Problem:
    """What is adjusted: posed frames, points and the pixels that join them."""

    camera: Camera
    poses: Mapping[int, Pose]
    constant: frozenset[int]
    """Frames whose pose must not change."""
    table: TrackTable
    xy: Floats
    """(K, 2), pixels of the table's observations."""
    points: Floats
    """(P, 3), metres."""


@dataclass(frozen=True)
class Solver:
    """How it is adjusted."""

    loss_px: float
    iterations: int
    refine_focal: bool = False
    threads: int = -1
    most_dense: int = 150
    """Movable frames up to which the dense Schur solver is used."""


@dataclass(frozen=True, eq=False)
class Solution:
    """The problem's unknowns at the optimum."""

    camera: Camera
    poses: dict[int, Pose]
    points: Floats
    error_px: float
    """Mean reprojection error per point, pixels."""
    build_s: float
    solve_s: float


def adjust(problem: Problem, solver: Solver) -> Solution:
    """Poses and points at the robust optimum; the constant poses are returned bit-identical."""
    started = perf_counter()
    model = _model(problem)
    options, config = _options(problem, solver), _config(problem, solver)
    built = perf_counter()
    pycolmap.create_default_bundle_adjuster(options, config, model).solve()
    solved = perf_counter()
    poses = {}
    for frame, pose in problem.poses.items():
        held = problem.constant
        poses[frame] = pose if frame in held or not model.exists_image(frame + 1) else _pose(model, frame)
        if frame in held and model.exists_image(frame + 1):
            _assert_unmoved(pose, _pose(model, frame), frame)
    points = np.array([model.point3D(p + 1).xyz for p in range(len(problem.points))]).reshape(-1, 3)
    camera = colmap.from_camera(model.camera(1)) if solver.refine_focal else problem.camera
    model.update_point_3d_errors()
    error = float(model.compute_mean_reprojection_error()) if len(points) else 0.0
    return Solution(camera, poses, points, error, built - started, solved - built)


def _model(problem: Problem) -> Any:
    """The problem as a pycolmap.Reconstruction; image id = frame + 1, point id = point + 1."""
    model = pycolmap.Reconstruction()
    model.add_camera_with_trivial_rig(colmap.to_camera(problem.camera, 1))
    order = np.argsort(problem.table.frame, kind="stable")
    frames, starts = np.unique(problem.table.frame[order], return_index=True)
    index = np.empty(len(order), dtype=np.int64)
    for frame, rows in zip(frames.tolist(), np.split(order, starts[1:]), strict=True):
        index[rows] = np.arange(len(rows))
        image = pycolmap.Image(name=str(frame), keypoints=problem.xy[rows], camera_id=1, image_id=frame + 1)
        model.add_image_with_trivial_frame(image, _rigid3d(problem.poses[frame]))
    bounds = [*np.flatnonzero(np.diff(problem.table.point, prepend=-1)).tolist(), len(order)]
    images, keypoints = (problem.table.frame + 1).tolist(), index.tolist()
    for p, xyz in enumerate(problem.points):
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


def _pose(model: Any, frame: int) -> Pose:
    return colmap.from_rigid3d(model.image(frame + 1).cam_from_world())


def _assert_unmoved(before: Pose, after: Pose, frame: int) -> None:
    """Constant poses must come out of the solver as they went in; rounding of the quaternion is all that may differ."""
    turned = float(np.abs(before.rotation - after.rotation).max())
    if turned > 1e-12 or not np.array_equal(before.translation, after.translation):
        raise AssertionError(f"the solver moved the constant frame {frame} (rotation by {turned:.1e})")


def _options(problem: Problem, solver: Solver) -> Any:
    ceres = {
        "loss_function_type": "SOFT_L1",
        "loss_function_scale": solver.loss_px,
        "auto_select_solver_type": False,
        "solver_options": {
            "linear_solver_type": "DENSE_SCHUR" if _movable(problem) <= solver.most_dense else "SPARSE_SCHUR",
            "max_num_iterations": solver.iterations,
            "function_tolerance": 1e-6,
            "num_threads": solver.threads,
        },
    }
    extra = {"refine_principal_point": False, "refine_extra_params": False, "print_summary": False}
    return pycolmap.BundleAdjustmentOptions({"refine_focal_length": solver.refine_focal, **extra, "ceres": ceres})


def _movable(problem: Problem) -> int:
    return sum(frame not in problem.constant for frame in problem.poses)


def _config(problem: Problem, solver: Solver) -> Any:
    config = pycolmap.BundleAdjustmentConfig()
    for frame in np.unique(problem.table.frame).tolist():
        config.add_image(frame + 1)
        if frame in problem.constant:
            config.set_constant_rig_from_world_pose(frame + 1)
    if not solver.refine_focal:
        config.set_constant_cam_intrinsics(1)
    return config
