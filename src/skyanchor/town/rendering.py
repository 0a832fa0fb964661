"""Pictures of a town: linear colour and depth from any camera at any epoch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from skyanchor.geometry import cameras, rigid
from skyanchor.town.town import Epoch, Town, sun
from skyanchor.types import Camera, Floats32, Pose

BAND = 8
"""Rows that a thread draws at a time."""


def render(town: Town, camera: Camera, cam_from_world: Pose, epoch: Epoch) -> tuple[Floats32, Floats32]:
    """(H, W, 3) linear RGB, 1 = white in full sun, and (H, W) depth along the optical axis, metres, 0 = sky."""
    return render_colour(town, camera, cam_from_world, epoch), render_depth(town, camera, cam_from_world, epoch)


def render_colour(town: Town, camera: Camera, cam_from_world: Pose, epoch: Epoch) -> Floats32:
    """(H, W, 3) linear RGB, 1 = white in full sun; two to four rays per pixel."""
    pixels = np.zeros((camera.height, camera.width, 3), np.float32)
    _draw(town, camera, cam_from_world, epoch, pixels, np.zeros((0, 0), np.float32))
    return pixels


def render_depth(town: Town, camera: Camera, cam_from_world: Pose, epoch: Epoch) -> Floats32:
    """(H, W) depth along the optical axis at the pixel centres, metres, 0 = sky."""
    depth = np.zeros((camera.height, camera.width), np.float32)
    _draw(town, camera, cam_from_world, epoch, np.zeros((0, 0, 3), np.float32), depth)
    return depth


def _draw(town: Town, camera: Camera, cam_from_world: Pose, epoch: Epoch, pixels: Floats32, depth: Floats32) -> None:
    """Fill `pixels` or, where those are empty, `depth`, in bands of rows: as many threads as numba may use."""
    import numba

    from skyanchor.town import ray_kernels, render_kernels  # compiles on first use

    k = cameras.calibration(camera)
    intrinsics = np.array([k[0, 0], k[1, 1], k[0, 2], k[1, 2]])
    rotation = np.ascontiguousarray(cam_from_world.rotation, dtype=np.float64)
    centre = rigid.centre_in_world(cam_from_world)
    moment = ray_kernels.Moment(town.geometry, int(epoch), sun(epoch))

    def band(first: int) -> None:
        last = min(first + BAND, camera.height)
        render_kernels.draw(first, last, intrinsics, rotation, centre, moment, pixels, depth)

    with ThreadPoolExecutor(numba.get_num_threads()) as pool:
        list(pool.map(band, range(0, camera.height, BAND)))
