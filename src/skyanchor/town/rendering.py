"""Pictures of a town: linear colour and depth from any camera at any epoch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np

from skyanchor.geometry import cameras, rigid
from skyanchor.town.routes import Shot, zoomed
from skyanchor.town.town import Epoch, Town, sun
from skyanchor.types import Camera, Floats32, Pose

BAND = 8
"""Rows that a thread draws at a time."""


def render(town: Town, camera: Camera, cam_from_world: Pose, epoch: Epoch) -> tuple[Floats32, Floats32]:
    """(H, W, 3) linear RGB, 1 = white in full sun, and (H, W) depth along the optical axis, metres, 0 = sky."""
    return render_colour(town, camera, cam_from_world, epoch), render_depth(town, camera, cam_from_world, epoch)


def render_colour(town: Town, camera: Camera, cam_from_world: Pose, epoch: Epoch) -> Floats32:
    """(H, W, 3) linear RGB, 1 = white in full sun; two to four rays per pixel."""
    return render_shot(town, camera, Shot("", cam_from_world), epoch)


def render_shot(town: Town, camera: Camera, shot: Shot, epoch: Epoch, passing: int = 0) -> Floats32:
    """(H, W, 3) linear RGB of a photo to take; `passing` holds the epoch bits of what is there in this frame alone."""
    eye = zoomed(camera, shot.zoom)
    if cameras.is_pinhole(eye):
        pixels = np.zeros((eye.height, eye.width, 3), np.float32)
        _draw(town, eye, shot.ends or (shot.cam_from_world,) * 2, epoch, passing, pixels, np.zeros((0, 0), np.float32))
        return pixels
    wider, at = _around(eye)
    pixels = render_shot(town, wider, Shot("", shot.cam_from_world), epoch, passing)
    return np.asarray(cv2.remap(pixels, at[..., 0], at[..., 1], cv2.INTER_LINEAR), dtype=np.float32)


def _around(camera: Camera) -> tuple[Camera, Floats32]:
    """A pinhole that sees all that a camera with distortion sees, and (H, W, 2) where it sees each of its pixels."""
    x, y = np.meshgrid(np.arange(camera.width) + 0.5, np.arange(camera.height) + 0.5)
    seen = cameras.unproject(camera, np.stack([x.ravel(), y.ravel()], axis=1))[:, :2]
    focal = cameras.focal_px(camera)
    half = np.ceil(np.abs(seen).max(axis=0) * focal) + 2.0
    wider = cameras.pinhole(int(2 * half[0]), int(2 * half[1]), focal)
    at = (seen * focal + half - 0.5).astype(np.float32)
    return wider, at.reshape(camera.height, camera.width, 2)


def render_depth(town: Town, camera: Camera, cam_from_world: Pose, epoch: Epoch, passing: int = 0) -> Floats32:
    """(H, W) depth along the optical axis at the pixel centres, metres, 0 = sky."""
    depth = np.zeros((camera.height, camera.width), np.float32)
    _draw(town, camera, (cam_from_world,) * 2, epoch, passing, np.zeros((0, 0, 3), np.float32), depth)
    return depth


def _draw(
    town: Town, camera: Camera, ends: tuple[Pose, Pose], epoch: Epoch, passing: int, pixels: Floats32, depth: Floats32
) -> None:
    """Fill `pixels` or, where those are empty, `depth`, in bands of rows: as many threads as numba may use.

    `ends` are the poses of the first and the last row; where they differ, every row has its own.
    """
    import numba

    from skyanchor.town import ray_kernels, render_kernels  # compiles on first use

    k = cameras.calibration(camera)
    intrinsics = np.array([k[0, 0], k[1, 1], k[0, 2], k[1, 2]])
    moment = ray_kernels.Moment(town.geometry, int(epoch) | passing, sun(epoch, town.weather))
    rows = BAND if ends[0] is ends[1] else 1

    def band(first: int) -> None:
        last = min(first + rows, camera.height)
        pose = ends[0] if rows > 1 else _between(ends, first / max(1, camera.height - 1))
        rotation = np.ascontiguousarray(pose.rotation, dtype=np.float64)
        render_kernels.draw(first, last, intrinsics, rotation, rigid.centre_in_world(pose), moment, pixels, depth)

    with ThreadPoolExecutor(numba.get_num_threads()) as pool:
        list(pool.map(band, range(0, camera.height, rows)))


def _between(ends: tuple[Pose, Pose], share: float) -> Pose:
    """The pose a share of the way from the first to the second, at even speed."""
    a, b = ends
    turn = rigid.rotation_log(b.rotation @ a.rotation.T)
    centre = (1.0 - share) * rigid.centre_in_world(a) + share * rigid.centre_in_world(b)
    return rigid.from_centre(rigid.rotation_exp(share * turn) @ a.rotation, centre)
