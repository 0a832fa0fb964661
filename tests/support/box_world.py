"""Level ground with a box on it, seen from above: exact depth maps, photos and the cameras that took them."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from skyanchor.geometry import cameras, rigid
from skyanchor.types import Bytes, Camera, DepthMap, Floats, Pose, View

UP = np.array([0.0, 0.0, 1.0])
LOW, HIGH = np.array([-3.0, -2.0, 0.0]), np.array([3.0, 2.0, 4.0])
"""Opposite corners of the box, metres."""
HALF = 14.0
"""The ground reaches this far from the middle, metres."""


def eyes(count: int, radius: float = 7.0) -> list[Pose]:
    """Cameras in a ring of this radius in metres, tilted inwards."""
    turns = np.arange(count) * 2.0 * np.pi / count
    places = [np.array([radius * np.cos(turn), radius * np.sin(turn), 20.0]) for turn in turns]
    return [rigid.look_at(eye, np.array([0.2 * eye[0], 0.2 * eye[1], 1.0]), np.array([0, 1.0, 0])) for eye in places]


def hits(camera: Camera, pose: Pose) -> tuple[Floats, Floats, Floats]:
    """(depth (H, W), point (H, W, 3), normal (H, W, 3)) where the pixels' rays end; depth 0 beyond the ground."""
    x, y = np.meshgrid(np.arange(camera.width) + 0.5, np.arange(camera.height) + 0.5)
    rays = cameras.unproject(camera, np.stack([x.ravel(), y.ravel()], 1)) @ pose.rotation
    centre = rigid.centre_in_world(pose)
    with np.errstate(divide="ignore"):
        one, two = (LOW - centre) / rays, (HIGH - centre) / rays
    enter, leave = np.minimum(one, two), np.maximum(one, two).min(axis=1)
    box, face = enter.max(axis=1), enter.argmax(axis=1)
    on_box = (box <= leave) & (box > 0)
    depth = np.where(on_box, box, -centre[2] / rays[:, 2])
    point = centre + rays * depth[:, None]
    normal = np.tile(UP, (len(rays), 1))
    normal[on_box] = -np.sign(rays[on_box, face[on_box]])[:, None] * np.eye(3)[face[on_box]]
    shape = (camera.height, camera.width)
    depth = np.where((np.abs(point[:, :2]) < HALF).all(axis=1), depth, 0.0)
    return depth.reshape(shape), point.reshape(*shape, 3), normal.reshape(*shape, 3)


def depth_map(name: str, camera: Camera, pose: Pose, noise: float = 0.0, seed: int = 0) -> DepthMap:
    """The exact depth, or one with relative noise; some of it marked as completed."""
    rng = np.random.default_rng(seed)
    depth, _, normal = hits(camera, pose)
    depth = (depth * (1.0 + noise * rng.normal(size=depth.shape))).astype(np.float32)
    confidence = np.where(depth > 0, rng.uniform(0.5, 1.0, depth.shape), 0.0).astype(np.float32)
    completed = rng.uniform(size=depth.shape) < 0.1
    normal = np.where(depth[..., None] > 0, normal, 0.0).astype(np.float32)
    return DepthMap(name, camera, pose, depth, confidence, completed, normal)


def photo(camera: Camera, pose: Pose) -> Bytes:
    """(H, W, 3), chequered metres whose colour says where they are: red grows with x, green with y, roofs are blue."""
    depth, point, _ = hits(camera, pose)
    red, green = (np.clip(127.0 + 8.0 * point[..., c], 0, 255) for c in (0, 1))
    blue = np.where(point[..., 2] > 0.5, 220.0, 60.0)
    return np.where(depth[..., None] > 0, np.stack([red, green, blue], axis=-1), 0.0).round().astype(np.uint8)


def view(folder: Path, name: str, camera: Camera, pose: Pose) -> View:
    """The photo on disk."""
    path = folder / name
    cv2.imwrite(str(path), photo(camera, pose)[..., ::-1])
    return View(name, path, camera, pose)
