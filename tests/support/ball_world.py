"""Exact depth of a ball before a wall, seen from a few places: what a mesh is made of in tests."""

from __future__ import annotations

import numpy as np

from skyanchor.geometry import cameras, rigid
from skyanchor.meshing import MeshConfig
from skyanchor.types import DepthMap, Floats

UP = np.array([0.0, 0.0, 1.0])
CAMERA = cameras.pinhole(120, 90, 100.0)
CONFIG = MeshConfig(least_faces=50)
CENTRE, RADIUS = np.array([0.3, 4.1, 0.2]), 1.1


def ball_map(eye: Floats, noise: float = 0.0, seed: int = 0) -> DepthMap:
    """Exact depth and normals of a ball before a wall at y = 6, seen from `eye`."""
    pose = rigid.look_at(eye, np.array([0.0, 5.0, 0.0]), UP)
    rows, columns = (axis.ravel() for axis in np.mgrid[:90, :120])
    rays = cameras.unproject(CAMERA, np.stack([columns + 0.5, rows + 0.5], axis=1).astype(float)) @ pose.rotation
    at_wall = (6.0 - eye[1]) / rays[:, 1]
    half, rest = rays @ (eye - CENTRE), (eye - CENTRE) @ (eye - CENTRE) - RADIUS**2
    square = (rays * rays).sum(axis=1)
    inside = half**2 - square * rest
    at_ball = np.where(inside > 0, (-half - np.sqrt(np.maximum(inside, 0))) / square, np.inf)
    depth = np.minimum(at_wall, at_ball)
    points = eye + depth[:, None] * rays
    normal = np.where((at_ball < at_wall)[:, None], (points - CENTRE) / RADIUS, [[0.0, -1.0, 0.0]])
    depth = depth + np.random.default_rng(seed).normal(0, noise, depth.shape)
    shape = (90, 120)
    ones = np.ones(shape, np.float32)
    parts = depth.reshape(shape).astype(np.float32), ones, ones < 0, normal.reshape(*shape, 3).astype(np.float32)
    return DepthMap("map", CAMERA, pose, *parts)


def eyes() -> list[Floats]:
    return [np.array([x, 0.0, z]) for x in (-1.5, -0.5, 0.5, 1.5) for z in (-0.4, 0.6)]
