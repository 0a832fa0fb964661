"""Camera models through pycolmap: project, unproject, scale, undistort."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import cv2
import numpy as np

from skyanchor.geometry import colmap
from skyanchor.types import Bytes, Camera, Floats

PINHOLE_MODELS = ("PINHOLE", "SIMPLE_PINHOLE")


def pinhole(width: int, height: int, focal: float, centre: tuple[float, float] | None = None) -> Camera:
    """A PINHOLE camera with square pixels; the principal point is the image centre unless given."""
    cx, cy = centre or (width / 2.0, height / 2.0)
    return Camera("PINHOLE", width, height, (focal, focal, cx, cy))


def is_pinhole(camera: Camera) -> bool:
    """Whether the model has no distortion."""
    return camera.model in PINHOLE_MODELS


def calibration(camera: Camera) -> Floats:
    """K, (3, 3): focal lengths and principal point, distortion left out."""
    return np.asarray(colmap.shared_camera(camera).calibration_matrix(), dtype=np.float64)


def focal_px(camera: Camera) -> float:
    """Mean focal length, pixels."""
    k = calibration(camera)
    return float((k[0, 0] + k[1, 1]) / 2.0)


def project(camera: Camera, points_in_cam: Floats) -> Floats:
    """Pixels (N, 2) of points (N, 3) in camera axes; nan where the point is not in front of the camera."""
    points = np.asarray(points_in_cam, dtype=np.float64).reshape(-1, 3)
    z = np.where(points[:, 2:] > 1e-9, points[:, 2:], np.nan)
    if is_pinhole(camera):
        k = calibration(camera)
        return points[:, :2] / z * np.diag(k)[:2] + k[:2, 2]
    pixels = np.full((len(points), 2), np.nan)
    front = np.flatnonzero(points[:, 2] > 1e-9)
    if len(front):
        pixels[front] = np.array(colmap.shared_camera(camera).img_from_cam(points[front]), dtype=np.float64).reshape(
            -1, 2
        )
    return pixels


def unproject(camera: Camera, pixels: Floats) -> Floats:
    """Points (N, 3) at depth 1 in camera axes seen at pixels (N, 2)."""
    pixels = np.asarray(pixels, dtype=np.float64).reshape(-1, 2)
    if is_pinhole(camera):
        k = calibration(camera)
        xy = (pixels - k[:2, 2]) / np.diag(k)[:2]
    else:
        xy = np.asarray(colmap.shared_camera(camera).cam_from_img(pixels), dtype=np.float64).reshape(-1, 2)
    return np.concatenate([xy, np.ones((len(xy), 1))], axis=1)


def scaled(camera: Camera, width: int) -> Camera:
    """The same camera for the image resized to `width` pixels, aspect kept."""
    if width == camera.width:
        return camera
    other = colmap.to_camera(camera)
    other.rescale(width, max(1, round(camera.height * width / camera.width)))
    return colmap.from_camera(other)


def undistorted(camera: Camera) -> Camera:
    """The PINHOLE camera that `undistort` renders into: same size, same K."""
    if camera.model == "PINHOLE":
        return camera
    k = calibration(camera)
    return Camera("PINHOLE", camera.width, camera.height, (k[0, 0], k[1, 1], k[0, 2], k[1, 2]))


def with_bend(camera: Camera, factor: float, k1: float, k2: float = 0.0) -> Camera:
    """A PINHOLE camera of square pixels with its focal length multiplied and radial distortion.

    x' = x (1 + k1 r² + k2 r⁴): RADIAL, or SIMPLE_RADIAL without k2.
    """
    focal, _, cx, cy = camera.params
    model, bend = ("SIMPLE_RADIAL", (k1,)) if k2 == 0.0 else ("RADIAL", (k1, k2))
    return Camera(model, camera.width, camera.height, (focal * factor, cx, cy, *bend))


FOCAL_RANGE = (0.1, 100.0)
"""Focal lengths that a lens can have, over the longer side of the image: 157 to half a degree across."""
LARGEST_PARAMETER = 1e7
"""Beyond pixels and coefficients of any lens."""


def plausible_focal(focal: float, width: int, height: int) -> bool:
    """Whether a focal length is one that a lens can have, pixels."""
    return FOCAL_RANGE[0] <= focal / max(width, height) <= FOCAL_RANGE[1]


def plausible_params(params: Iterable[float]) -> bool:
    """Whether the numbers of a camera are all of a size that means something; nan is not."""
    return all(abs(value) <= LARGEST_PARAMETER for value in params)


UNDONE_PX = 1.0
"""Distortion that a model takes out of a pixel and puts in again leaves it where it was, pixels."""
NARROWEST = 0.2
"""What a lens bends towards its axis keeps this share of its tangent at least."""


def plausible_lens(camera: Camera) -> bool:
    """Whether the principal point is in or near the image, and distortion in its inner half can be undone.

    Near is less than a side of the image beyond its edge: photos are cropped. Corners may fold, lenses are calibrated
    with less than that.
    """
    size = np.array([camera.width, camera.height], dtype=np.float64)
    k = calibration(camera)
    if not np.all((k[:2, 2] >= -size) & (k[:2, 2] <= 2.0 * size)):
        return False
    steps = np.linspace(-0.25, 0.25, 5)
    pixels = k[:2, 2] + np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2) * size
    rays = unproject(camera, pixels)
    straight = np.hypot(*((pixels - k[:2, 2]) / np.diag(k)[:2]).T)
    with np.errstate(invalid="ignore"):
        undone = np.abs(project(camera, rays) - pixels).max(axis=1) <= UNDONE_PX
    return bool(np.all(undone & (np.hypot(rays[:, 0], rays[:, 1]) >= NARROWEST * straight)))


BAND = 64
"""Rows of an undistortion map that are computed at a time."""


@lru_cache(maxsize=8)
def _undistortion_map(camera: Camera) -> tuple[Any, Any]:
    """Where each pixel of the undistorted image comes from, x and y (H, W); made in bands, for large photos."""
    target = undistorted(camera)
    source = np.empty((2, target.height, target.width), np.float32)
    for top in range(0, target.height, BAND):
        band = source[:, top : top + BAND]
        x, y = np.meshgrid(np.arange(target.width) + 0.5, np.arange(top, top + band.shape[1]) + 0.5)
        rays = unproject(target, np.stack([x.ravel(), y.ravel()], axis=1))
        band[:] = (project(camera, rays) - 0.5).T.reshape(band.shape)
    return source[0], source[1]


def undistort(pixels: Bytes, camera: Camera) -> Bytes:
    """The image as `undistorted(camera)` would have taken it; black beyond the photo."""
    if is_pinhole(camera):
        return pixels
    map_x, map_y = _undistortion_map(camera)
    return np.asarray(cv2.remap(pixels, map_x, map_y, cv2.INTER_LINEAR), dtype=np.uint8)
