"""Textured rectangles in space and what cameras see of them: photos, exact depth, and what hides what."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cv2
import numpy as np

from skyanchor.geometry import cameras, rigid
from skyanchor.types import Bytes, Camera, DepthMap, Floats, Pose, View

TEXELS = 16.0
"""Texels per metre."""


@dataclass(frozen=True, eq=False)
class Patch:
    """A rectangle: x = corner + u first + v second with 0 <= u <= size[0], 0 <= v <= size[1]."""

    corner: Floats
    first: Floats
    second: Floats
    size: tuple[float, float]
    grey: float | None = None
    """Of a plain patch, 0..255; None = textured."""

    @property
    def normal(self) -> Floats:
        return np.cross(self.first, self.second)


@dataclass(frozen=True, eq=False)
class Shot:
    """What a camera sees."""

    view: View
    grey: Bytes
    """(H, W)."""
    depth: Floats
    """(H, W), metres; 0 = nothing."""
    patch: np.ndarray
    """(H, W), which patch; -1 = none."""


@cache
def _texture() -> Floats:
    noise = np.random.default_rng(5).uniform(0, 255, (1024, 1024)).astype(np.float32)
    smooth = sum(cv2.GaussianBlur(noise, (0, 0), s) * s for s in (1.5, 3.0))
    return np.asarray(128 + 45 * (smooth - smooth.mean()) / smooth.std(), dtype=np.float32)


def level(x: tuple[float, float], y: tuple[float, float], z: float, grey: float | None = None) -> Patch:
    """A horizontal rectangle."""
    return Patch(np.array([x[0], y[0], z]), np.eye(3)[0], np.eye(3)[1], (x[1] - x[0], y[1] - y[0]), grey)


def rays_of(camera: Camera) -> Floats:
    """(H * W, 3), through the pixel centres, at depth 1 in camera axes."""
    x, y = np.meshgrid(np.arange(camera.width) + 0.5, np.arange(camera.height) + 0.5)
    return cameras.unproject(camera, np.stack([x.ravel(), y.ravel()], 1))


def shoot(folder: Path, name: str, camera: Camera, pose: Pose, patches: tuple[Patch, ...]) -> Shot:
    """The photo of the nearest patches, on disk."""
    rays, centre = rays_of(camera) @ pose.rotation, rigid.centre_in_world(pose)
    depth, which = np.full(len(rays), np.inf), np.full(len(rays), -1)
    grey = np.full(len(rays), 128.0)
    for k, patch in enumerate(patches):
        with np.errstate(divide="ignore", invalid="ignore"):
            z = ((patch.corner - centre) @ patch.normal) / (rays @ patch.normal)
        at = centre + rays * np.nan_to_num(z, posinf=0.0, neginf=0.0)[:, None] - patch.corner
        u, v = at @ patch.first, at @ patch.second
        hit = (z > 0) & (z < depth) & (u >= 0) & (v >= 0) & (u <= patch.size[0]) & (v <= patch.size[1])
        depth[hit], which[hit] = z[hit], k
        places = [((w * TEXELS + 173.0 * k) % 1022.0).astype(np.float32)[None] for w in (u, v)]
        shade = cv2.remap(_texture(), *places, cv2.INTER_LINEAR)[0] if patch.grey is None else patch.grey
        grey = np.where(hit, shade, grey)
    shape = (camera.height, camera.width)
    image = np.clip(np.round(grey), 0, 255).astype(np.uint8).reshape(shape)
    cv2.imwrite(str(folder / name), image)
    view = View(name, folder / name, camera, pose)
    return Shot(view, image, np.where(which >= 0, depth, 0.0).reshape(shape), which.reshape(shape))


def points_of(shot: Shot) -> Floats:
    """(H, W, 3), what every pixel shows, world."""
    camera = shot.view.camera
    local = rays_of(camera) * shot.depth.reshape(-1, 1)
    return shot.view.cam_from_world.inverse(local).reshape(camera.height, camera.width, 3)


def hidden_in(shot: Shot, other: Shot) -> np.ndarray:
    """(H, W), whether what a pixel of `shot` shows is out of the other's frame or behind something there."""
    camera, local = other.view.camera, other.view.cam_from_world(points_of(shot).reshape(-1, 3))
    xy = cameras.project(camera, local)
    inside = ((xy >= 0) & (xy < [camera.width, camera.height])).all(axis=1)
    column, row = np.clip(np.nan_to_num(xy), 0, [camera.width - 1, camera.height - 1]).astype(int).T
    near = other.depth[row, column]
    return (~inside | (local[:, 2] > 1.01 * near)).reshape(shot.depth.shape)


def exact_map(shot: Shot, patches: tuple[Patch, ...], confidence: float = 0.9) -> DepthMap:
    """The depth map that a perfect stereo would give."""
    normals = np.array([patch.normal for patch in patches])[shot.patch]
    centre = rigid.centre_in_world(shot.view.cam_from_world)
    away = ((points_of(shot) - centre) * normals).sum(axis=-1, keepdims=True) > 0
    seen = shot.depth > 0
    normals = np.where(seen[..., None], np.where(away, -normals, normals), 0.0).astype(np.float32)
    sure = np.where(seen, confidence, 0.0).astype(np.float32)
    none = np.zeros(seen.shape, bool)
    view = shot.view
    return DepthMap(view.name, view.camera, view.cam_from_world, shot.depth.astype(np.float32), sure, none, normals)
