"""How sure a depth is by geometry: how far the cameras that look at a place see it move with its depth.

A walk looks where it goes: what lies ahead hardly moves from view to view, what it passes moves much. True errors of
street depth are about so many pixels everywhere, whatever the distance and the place in the picture.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyanchor.geometry import cameras
from skyanchor.stereo.planes import pixel_grid
from skyanchor.types import Camera, DepthMap, Floats, Pose

LEAST_SLANT = 0.05
"""Of a ray across a surface: no surface is seen flatter."""


def inverse_sigma(one: DepthMap, others: Sequence[Pose]) -> Floats:
    """(H, W), standard deviation of the inverse depth for an error of one pixel in each camera that sees the place.

    With q the place in a camera, σ = (Σ |dq / dz|²)^-1/2 / z², the sum over the cameras; huge where none sees it.
    """
    rays = _rays(one.camera)
    z = np.maximum(one.depth.ravel().astype(np.float64), 1e-3)
    known = np.full(len(z), 1e-12)
    for other in others:
        known += _motion(one.camera, other @ one.cam_from_world.inverse, rays, z) ** 2
    return np.asarray((1.0 / (np.sqrt(known) * z**2)).reshape(one.depth.shape))


def _motion(camera: Camera, other_from_cam: Pose, rays: Floats, z: Floats) -> Floats:
    """(N,), |dq / dz| of the points z ray in another camera, pixels per metre, 0 where it does not see them."""
    turned = rays @ other_from_cam.rotation.T
    there = turned * z[:, None] + other_from_cam.translation
    ahead = np.maximum(there[:, 2:], 1e-6)
    q = there[:, :2] / ahead
    rate = cameras.focal_px(camera) * np.linalg.norm((turned[:, :2] - q * turned[:, 2:]) / ahead, axis=1)
    K = cameras.calibration(camera)
    xy = q * np.diag(K)[:2] + K[:2, 2]
    seen = (there[:, 2] > 0.1) & ((xy > 0) & (xy < [camera.width, camera.height])).all(axis=1)
    return np.asarray(rate * seen)


def across_sigma(one: DepthMap, others: Sequence[Pose]) -> Floats:
    """(H, W), metres across the surface for an error of one pixel: σ z² |n . ray|, n its normal, σ of 1/z as above."""
    turned = _rays(one.camera).reshape(*one.depth.shape, 3) @ one.cam_from_world.rotation
    slant = np.maximum(np.abs((turned * one.normal).sum(axis=-1)), LEAST_SLANT)
    return np.asarray(inverse_sigma(one, others) * np.maximum(one.depth, 1e-3).astype(np.float64) ** 2 * slant)


def _rays(camera: Camera) -> Floats:
    """(H W, 3), of all pixels, z = 1."""
    x, y = pixel_grid(camera)
    return cameras.unproject(camera, np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float64))
