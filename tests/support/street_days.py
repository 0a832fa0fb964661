"""A road before a wall on two days: exact depth, photos with texture and light of their own, boxes that come and go."""

from __future__ import annotations

import numpy as np

from skyanchor.changes import ChangeConfig, Day
from skyanchor.changes.config import LookConfig
from skyanchor.geometry import cameras, rigid
from skyanchor.types import Bytes, DepthMap, Floats, Ints

UP = np.array([0.0, 0.0, 1.0])
CAMERA = cameras.pinhole(160, 120, 110.0)
CONFIG = ChangeConfig(margin_px=4.0, look=LookConfig(margin_px=4.0))
"""Pixels are coarse, and depth is exact."""
EYES = tuple(np.array([x, 0.0, 1.7]) for x in np.arange(-2.4, 2.5, 0.8))
WALL = 7.0
BOX = (np.array([-0.6, 4.0, 0.0]), np.array([0.6, 5.0, 1.3]))
"""Low and high corner."""


def street_day(*boxes: tuple[Floats, Floats], light: float = 1.0, shadow: float = 99.0, repainted: bool = False) -> Day:
    """A day with these boxes on the road: how bright, from which x on in shade, whether a sign has other letters."""
    seen = [view(eye, boxes, light, shadow, repainted) for eye in EYES]
    return Day([held for held, _ in seen], CONFIG.farthest_m, CONFIG.margin_px, [photo for _, photo in seen])


def view(
    eye: Floats, boxes: tuple[tuple[Floats, Floats], ...], light: float, shadow: float, repainted: bool
) -> tuple[DepthMap, Bytes]:
    """What one camera sees: exact depth, and its photo."""
    pose = rigid.look_at(eye, eye + np.array([0.05, 5.0, -0.9]), UP)
    rows, columns = (axis.ravel() for axis in np.mgrid[:120, :160])
    rays = cameras.unproject(CAMERA, np.stack([columns + 0.5, rows + 0.5], axis=1).astype(float)) @ pose.rotation
    hits = [plane_hit(eye, rays, 1, WALL), plane_hit(eye, rays, 2, 0.0), *(box_hit(eye, rays, *box) for box in boxes)]
    first = np.argmin([depth for depth, _ in hits], axis=0)
    depth, normal = (np.stack([hit[k] for hit in hits])[first, np.arange(len(rays))] for k in (0, 1))
    points = eye + depth[:, None] * rays
    photo = _painted(points, first, light, shadow, repainted).reshape(120, 160, 3)
    shape = (120, 160)
    parts = depth.reshape(shape).astype(np.float32), np.full(shape, 0.9, np.float32), np.zeros(shape, np.bool_)
    return DepthMap("view", CAMERA, pose, *parts, normal.reshape(*shape, 3).astype(np.float32)), photo


def plane_hit(eye: Floats, rays: Floats, axis: int, at: float) -> tuple[Floats, Floats]:
    with np.errstate(divide="ignore"):
        depth = (at - eye[axis]) / rays[:, axis]
    normal = np.zeros(rays.shape)
    normal[:, axis] = -np.sign(rays[:, axis])
    return np.where(depth > 0, depth, np.inf), normal


def box_hit(eye: Floats, rays: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    with np.errstate(divide="ignore"):
        ends = np.sort(np.stack([(low - eye) / rays, (high - eye) / rays]), axis=0)
    enter, leave = ends[0].max(axis=1), ends[1].min(axis=1)
    axis = ends[0].argmax(axis=1)
    normal = np.zeros(rays.shape)
    normal[np.arange(len(rays)), axis] = -np.sign(rays[np.arange(len(rays)), axis])
    return np.where((enter > 0) & (enter < leave), enter, np.inf), normal


def _painted(points: Floats, surface: Ints, light: float, shadow: float, repainted: bool) -> Bytes:
    """(N, 3): a texture fixed to the surfaces, in this light; the sign is a part of the wall."""
    sign = (surface == 0) & (np.abs(points[:, 0] - 1.0) < 0.8) & (np.abs(points[:, 2] - 1.6) < 0.5)
    number = np.where(sign & repainted, 7, surface)
    value = np.zeros(len(points))
    for k in np.unique(number):
        waves = np.random.default_rng(k).normal(0.0, 14.0, (6, 3))
        value[number == k] = np.sin(points[number == k] @ waves.T + np.arange(6)).sum(axis=1)
    grey = light * (120.0 + 18.0 * value) * np.where(points[:, 0] > shadow, 0.45, 1.0)
    return np.repeat(np.clip(grey, 0, 255)[:, None], 3, axis=1).astype(np.uint8)
