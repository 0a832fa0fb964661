"""Pictures of a town: linear colour and depth from any camera at any epoch."""

from __future__ import annotations

import numpy as np

from skyanchor.geometry import cameras, rigid
from skyanchor.town.town import Epoch, Town, sun
from skyanchor.types import Camera, Floats32, Pose


def render(town: Town, camera: Camera, cam_from_world: Pose, epoch: Epoch) -> tuple[Floats32, Floats32]:
    """(H, W, 3) linear RGB, 1 = white in full sun, and (H, W) depth along the optical axis, metres, 0 = sky."""
    return render_colour(town, camera, cam_from_world, epoch), render_depth(town, camera, cam_from_world, epoch)


def render_colour(town: Town, camera: Camera, cam_from_world: Pose, epoch: Epoch) -> Floats32:
    """(H, W, 3) linear RGB, 1 = white in full sun; two to four rays per pixel."""
    from skyanchor.town import render_kernels  # compiles on first use

    return render_kernels.image(*_arguments(town, camera, cam_from_world, epoch), True)[0]


def render_depth(town: Town, camera: Camera, cam_from_world: Pose, epoch: Epoch) -> Floats32:
    """(H, W) depth along the optical axis at the pixel centres, metres, 0 = sky."""
    from skyanchor.town import render_kernels

    return render_kernels.image(*_arguments(town, camera, cam_from_world, epoch), False)[1]


def _arguments(town: Town, camera: Camera, cam_from_world: Pose, epoch: Epoch) -> tuple[object, ...]:
    k = cameras.calibration(camera)
    intrinsics = np.array([k[0, 0], k[1, 1], k[0, 2], k[1, 2]])
    rotation = np.ascontiguousarray(cam_from_world.rotation, dtype=np.float64)
    centre = rigid.centre_in_world(cam_from_world)
    return camera.width, camera.height, intrinsics, rotation, centre, town.geometry, int(epoch), sun(epoch)
