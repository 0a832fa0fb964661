"""The scaffold's surface: discs by cell of a horizontal grid, drawn from any camera."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from skyanchor.bridges import drawing_kernels as kernels
from skyanchor.geometry import cameras, rigid
from skyanchor.types import Camera, Floats, Floats32, Ints, Pose


@dataclass(frozen=True, eq=False)
class Surface:
    """Oriented discs on the scaffold's surface, sorted by cell of a horizontal grid."""

    points: Floats32
    """(N, 3), metres."""
    normals: Floats32
    """(N, 3), unit, towards the aerial cameras."""
    spacing: Floats32
    """(N,), radius of each disc, metres."""
    gsd: float
    """Ground sample distance of the depth maps, metres."""
    across: Floats
    """(2, 3), the horizontal axes of the grid."""
    up: Floats
    """(3,), unit."""
    cell: float
    """Side of a cell, metres."""
    cell_centres: Floats
    """(C, 3), metres; height is the cell's mean."""
    cell_radius: Floats
    """(C,), of a ball round the centre that holds the cell's discs, metres."""
    cell_starts: Ints
    """(C + 1,), discs of cell c are cell_starts[c] .. cell_starts[c + 1]."""


def horizontal_axes(up: Floats) -> Floats:
    """(2, 3), two unit vectors across `up`, the first as near to world x as possible."""
    x = np.array([1.0, 0.0, 0.0]) - up[0] * up
    if np.linalg.norm(x) < 0.1:
        x = np.array([0.0, 1.0, 0.0]) - up[1] * up
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(up, x)])


def intrinsics(camera: Camera) -> Floats:
    """(4,): fx, fy, cx, cy of a camera without distortion."""
    k = cameras.calibration(camera)
    return np.array([k[0, 0], k[1, 1], k[0, 2], k[1, 2]])


# --- drawing ------------------------------------------------------------------------------------------------------


def _cells_in_view(surface: Surface, camera: Camera, cam_from_world: Pose, far: float) -> Ints:
    """Cells whose ball touches the view's cone up to `far`, the nearest first."""
    away = np.linalg.norm(surface.cell_centres - rigid.centre_in_world(cam_from_world), axis=1)
    near = np.flatnonzero(away - surface.cell_radius < far)
    in_cam, radius = cam_from_world(surface.cell_centres[near]), surface.cell_radius[near]
    corners = cameras.unproject(camera, np.array([[0.0, 0.0], [camera.width, camera.height]]))
    half = float(np.arctan(np.max(np.linalg.norm(corners[:, :2], axis=1))))
    distance = np.linalg.norm(in_cam, axis=1)
    aside = np.arctan2(np.linalg.norm(in_cam[:, :2], axis=1), in_cam[:, 2])
    slack = np.arcsin(np.clip(radius / np.maximum(distance, 1e-9), 0.0, 1.0))
    inside = np.flatnonzero((aside < half + slack) | (distance < radius))
    return near[inside[np.argsort(distance[inside], kind="stable")]]


def render_depth(
    surface: Surface, camera: Camera, cam_from_world: Pose, near: float, far: float, every: int = 1
) -> tuple[Floats32, Floats32]:
    """(depth (H, W), normal in camera axes (H, W, 3)) of the surface from a PINHOLE camera; 0 where there is none.

    For small pictures one of `every` so many discs will do, as much larger.
    """
    cells = _cells_in_view(surface, camera, cam_from_world, far)
    k = intrinsics(camera)
    discs, boxes = kernels.discs_in_view(
        surface.points,
        surface.normals,
        surface.spacing,
        surface.cell_starts[cells],
        surface.cell_starts[cells + 1],
        k,
        cam_from_world.rotation,
        cam_from_world.translation,
        camera.width,
        camera.height,
        near,
        far,
        every,
    )
    depth, normal = kernels.splat(discs, boxes, k, camera.width, camera.height, near, numba.get_num_threads())
    return depth, normal


def render_front(surface: Surface, camera: Camera, cam_from_world: Pose) -> Floats32:
    """(H, W), the nearest surface in a 3x3 window round each pixel of an aerial view, metres; 0 = none."""
    cells = _cells_in_view(surface, camera, cam_from_world, 1e5)
    return np.asarray(
        kernels.nearest_depth(
            surface.points,
            surface.cell_starts[cells],
            surface.cell_starts[cells + 1],
            intrinsics(camera),
            cam_from_world.rotation,
            cam_from_world.translation,
            camera.width,
            camera.height,
        )
    )
