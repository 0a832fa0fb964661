"""A bundle with known truth: street cameras that move, aerial ones that do not, and a wall that all of them see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skyanchor.geometry import cameras, rigid
from skyanchor.sfm.bundle import Bundle
from skyanchor.types import Camera, Pose

UP = np.array([0.0, 0.0, 1.0])
LENS = cameras.pinhole(640, 360, 600.0)


def scene(seed: int, points: int = 120, noise_px: float = 0.5, lens: Camera = LENS) -> tuple[Bundle, Bundle]:
    """(truth, observed): three fixed aerial cameras, four street cameras, one wall in front of them."""
    rng = np.random.default_rng(seed)
    wall = np.stack([rng.uniform(-8, 8, points), rng.uniform(11, 14, points), rng.uniform(0, 6, points)], axis=1)
    aerial = [rigid.look_at(np.array([x, -30.0, 35.0]), np.array([0.0, 12.0, 2.0]), UP) for x in (-20.0, 0.0, 20.0)]
    street = [rigid.look_at(np.array([0.2 * k, 0.6 * k, 1.7]), np.array([0.0, 12.0, 2.5]), UP) for k in range(4)]
    poses = (*street, *aerial)
    camera = np.repeat(np.arange(7), points)
    point = np.tile(np.arange(points), 7)
    xy = np.concatenate([cameras.project(lens, pose(wall)) for pose in poses])
    constant = np.arange(7) >= 4
    truth = Bundle(poses, (lens,) * 7, constant, wall, camera, point, xy, np.full(len(xy), noise_px))
    return truth, replace(truth, xy=xy + rng.normal(0, noise_px, xy.shape))


def disturbed(bundle: Bundle, seed: int) -> Bundle:
    rng = np.random.default_rng(seed)
    poses = list(bundle.cams_from_world)
    for k in range(4):
        step = Pose(rigid.rotation_exp(rng.normal(0, 0.01, 3)), rng.normal(0, 0.2, 3))
        poses[k] = step @ poses[k]
    moved = bundle.points + rng.normal(0, 0.2, bundle.points.shape)
    return replace(bundle, cams_from_world=tuple(poses), points=moved)
