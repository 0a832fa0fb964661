"""The group's own shape: recovered from a walk, refused where it cannot be known."""

import numpy as np
import pytest

from skyanchor.anchors.shape.incremental import LocalConfig, LocalGroup, reconstruct_local
from skyanchor.geometry import cameras, rigid, similarity
from skyanchor.matching import Features
from skyanchor.types import Floats, Ints, Pose, Refusal

CAMERA = cameras.pinhole(640, 360, 457.0)
UP = np.array([0.0, 0.0, 1.0])
SIGMA_PX = 0.6


class SameRow:
    """Keypoint k of every photo is point k; those out of view lie at nan and are not matched."""

    def pairs(self, a: Features, b: Features) -> Ints:
        both = np.flatnonzero(np.isfinite(a.xy[:, 0]) & np.isfinite(b.xy[:, 0]))
        return np.stack([both, both], axis=1)


def points_around(rng: np.random.Generator, count: int = 600) -> Floats:
    side = np.where(rng.random(count) < 0.5, -6.0, 6.0) + rng.normal(0, 0.3, count)
    return np.stack([side, rng.uniform(2, 40, count), rng.uniform(0, 7, count)], axis=1)


def photographed(poses: list[Pose], points: Floats, rng: np.random.Generator) -> tuple[Features, ...]:
    held = []
    for pose in poses:
        in_cam = pose(points)
        xy = cameras.project(CAMERA, in_cam) + rng.normal(0, SIGMA_PX, (len(points), 2))
        seen = (in_cam[:, 2] > 0.5) & (xy > 0).all(axis=1) & (xy < [CAMERA.width, CAMERA.height]).all(axis=1)
        xy[~seen] = np.nan
        ones = np.ones(len(points), np.float32)
        held.append(Features(xy, np.zeros((len(points), 4), np.float32), ones, ones, 640, 360, SIGMA_PX))
    return tuple(held)


def looking_ahead(eye: Floats, yaw: float = 0.0) -> Pose:
    return rigid.look_at(eye, eye + np.array([np.sin(yaw), np.cos(yaw), 0.02]), UP)


def test_the_shape_of_a_walk() -> None:
    rng = np.random.default_rng(3)
    poses = [looking_ahead(np.array([0.05 * k, 0.6 * k, 1.7]), 0.02 * k) for k in range(6)]
    local = reconstruct_local(
        tuple(range(6)), photographed(poses, points_around(rng), rng), CAMERA, SameRow(), LocalConfig()
    )
    assert isinstance(local, LocalGroup)
    world_from_local = similarity.align_cameras(local.cams_from_local, tuple(poses))
    found = world_from_local(rigid.centres_in_world(local.cams_from_local))
    off = np.linalg.norm(found - rigid.centres_in_world(poses), axis=1)
    assert 0.0 < off.max() < 0.05
    assert 0.3 < local.reprojection < 2.0


@pytest.mark.parametrize("turn", [0.0, 0.06])
def test_standing_still_has_no_shape(turn: float) -> None:
    """Without a baseline the similarity to the world is degenerate: no scale, no heading of the walk."""
    rng = np.random.default_rng(4)
    poses = [looking_ahead(np.array([0.0, 0.0, 1.7]), turn * k) for k in range(6)]
    local = reconstruct_local(
        tuple(range(6)), photographed(poses, points_around(rng), rng), CAMERA, SameRow(), LocalConfig()
    )
    assert isinstance(local, Refusal) or local.parallax_deg < LocalConfig().low_parallax_deg


def test_photos_of_nothing_in_common_are_refused() -> None:
    rng = np.random.default_rng(5)
    poses = [looking_ahead(np.array([0.0, 0.6 * k, 1.7])) for k in range(6)]
    strangers = tuple(photographed([pose], points_around(rng), rng)[0] for pose in poses)
    local = reconstruct_local(tuple(range(6)), strangers, CAMERA, SameRow(), LocalConfig())
    assert isinstance(local, Refusal) and local.reason
