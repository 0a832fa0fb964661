"""Pictures of a town: linear colour and depth from any camera at any epoch."""

from __future__ import annotations

import numpy as np

from skyanchor.geometry import cameras, rigid
from skyanchor.town.town import Epoch, Town, sun
from skyanchor.types import Camera, Floats32, Pose


def render(
    town: Town, camera: Camera, cam_from_world: Pose, epoch: Epoch, samples: int = 2
) -> tuple[Floats32, Floats32]:
    """(H, W, 3) linear RGB, 1 = white in full sun, and (H, W) depth along the optical axis, metres, 0 = sky."""
    return _cast(town, camera, cam_from_world, epoch, samples)


def render_colour(town: Town, camera: Camera, cam_from_world: Pose, epoch: Epoch, samples: int = 2) -> Floats32:
    """The colour part of `render` alone, a fifth cheaper."""
    return _cast(town, camera, cam_from_world, epoch, -samples)[0]


def render_depth(town: Town, camera: Camera, cam_from_world: Pose, epoch: Epoch) -> Floats32:
    """The depth part of `render` alone."""
    return _cast(town, camera, cam_from_world, epoch, 1)[1]


def _cast(town: Town, camera: Camera, cam_from_world: Pose, epoch: Epoch, side: int) -> tuple[Floats32, Floats32]:
    from skyanchor.town import render_kernels  # compiles on first use

    k = cameras.calibration(camera)
    intrinsics = np.array([k[0, 0], k[1, 1], k[0, 2], k[1, 2]])
    rotation = np.ascontiguousarray(cam_from_world.rotation, dtype=np.float64)
    centre = rigid.centre_in_world(cam_from_world)
    pixels, depth = render_kernels.image(
        camera.width, camera.height, intrinsics, rotation, centre, side, town.geometry, int(epoch), sun(epoch)
    )
    return pixels, depth
