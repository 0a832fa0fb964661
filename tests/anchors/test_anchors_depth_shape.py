"""A group that hardly moves gets its shape from depth maps that each have a scale of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.frames import Remembered
from skyanchor.anchors.shape import choice
from skyanchor.anchors.shape.depth import depth_of_frames, shape_from_depth
from skyanchor.anchors.shape.incremental import LocalConfig, LocalGroup, reconstruct_local
from skyanchor.geometry import cameras, rigid
from skyanchor.matching import Features
from skyanchor.types import Frame, Ints, Pose, Reason, Refusal, Sequence

CAMERA = cameras.pinhole(640, 360, 450.0)
UP = np.array([0.0, 0.0, 1.0])
SCALES = (0.7, 1.3, 2.0, 0.4, 1.0, 3.0)
"""Of the frames' depth maps."""


class SameNumbers:
    """Keypoints of one number are one landmark."""

    def pairs(self, a: Features, b: Features) -> Ints:
        return np.stack([np.arange(len(a))] * 2, axis=1)


def landmarks() -> np.ndarray:
    rng = np.random.default_rng(0)
    x, z = rng.uniform(-6, 6, 240), rng.uniform(0, 5, 240)
    return np.stack([x, 9.0 + rng.uniform(0, 6, 240), z], axis=1)


def walk(step: float) -> list[Pose]:
    """Six frames that turn while they move by `step` metres each."""
    eyes = [np.array([step * k, 0.3 * step * k * k / 5, 1.7]) for k in range(6)]
    return [rigid.look_at(eye, eye + np.array([0.1 * k - 0.25, 1.0, 0.05]), UP) for k, eye in enumerate(eyes)]


def seen(poses: list[Pose], noise: float = 0.3) -> tuple[Features, ...]:
    rng = np.random.default_rng(1)
    found = []
    for pose in poses:
        xy = cameras.project(CAMERA, pose(landmarks())) + rng.normal(0, noise, (240, 2))
        ones = np.ones(240, np.float32)
        found.append(Features(xy, np.zeros((240, 2), np.float32), ones, ones, 640, 360, 0.5))
    return tuple(found)


def depth_at(poses: list[Pose], features: tuple[Features, ...], error: float):
    rng = np.random.default_rng(2)
    held = [
        scale * pose(landmarks())[:, 2] * (1 + error * rng.normal(size=240))
        for pose, scale in zip(poses, SCALES, strict=True)
    ]

    def at(frame: int, xy: np.ndarray) -> np.ndarray:
        number = np.argmin(np.linalg.norm(features[frame].xy[None] - xy[:, None], axis=2), axis=1)
        return held[frame][number]

    return at


def relative_errors(group: LocalGroup, poses: list[Pose]) -> tuple[float, float]:
    """(largest turn error in degrees, largest centre error over the mean step), frame 0 as the origin."""
    step = np.linalg.norm(np.diff(rigid.centres_in_world(poses), axis=0), axis=1).mean()
    turns, off = [], []
    for ours, theirs in zip(group.cams_from_local, poses, strict=True):
        a = ours @ group.cams_from_local[0].inverse
        b = theirs @ poses[0].inverse
        turns.append(np.degrees(rigid.angle_between(a.rotation, b.rotation)))
        off.append(np.linalg.norm(rigid.centre_in_world(a) - rigid.centre_in_world(b) / step))
    return float(max(turns)), float(max(off))


def test_depth_gives_the_shape_where_parallax_does_not() -> None:
    poses = walk(0.03)  # a degree of parallax over the whole group at most
    features, config = seen(poses), LocalConfig()
    alone = reconstruct_local(tuple(range(6)), features, CAMERA, SameNumbers(), config)
    assert isinstance(alone, Refusal)
    group = shape_from_depth(tuple(range(6)), features, CAMERA, SameNumbers(), depth_at(poses, features, 0.03), config)
    assert isinstance(group, LocalGroup) and len(group.bundle.points) > 150
    turn, off = relative_errors(group, poses)
    assert 0.0 < turn < 0.15 and 0.0 < off < 0.5  # of steps of 3 cm
    assert group.bundle.prior is None and not group.bundle.constant.any() and 0.1 < group.parallax_deg < 1.5
    step = np.linalg.norm(np.diff(rigid.centres_in_world(group.cams_from_local), axis=0), axis=1).mean()
    assert step == pytest.approx(1.0)


def test_depth_holds_a_group_that_moves_only_when_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two degrees of parallax and rough matches: depth good to 3 % knows the shape better."""
    poses = walk(0.12)
    features = seen(poses, 0.5)
    frames: Any = SimpleNamespace(
        features=lambda i, choice: features[i],
        free=lambda indices, choice: None,
        remembered=lambda choice: Remembered(choice.load()),
    )
    monkeypatch.setattr(choice, "_depth", lambda *_: depth_at(poses, features, 0.03))
    own: Any = SimpleNamespace(load=SameNumbers)
    config = AnchorConfig(ground_matcher=own)
    alone = choice.group_shape(frames, tuple(range(6)), CAMERA, config)
    assert isinstance(alone, LocalGroup) and alone.parallax_deg > config.local.low_parallax_deg
    asked = replace(config, local=replace(config.local, depth_always=True))
    held = choice.group_shape(frames, tuple(range(6)), CAMERA, asked)
    assert isinstance(held, LocalGroup)
    assert relative_errors(held, poses)[1] < 0.95 * relative_errors(alone, poses)[1]


def test_frames_from_one_place_are_refused() -> None:
    poses = [rigid.from_centre(pose.rotation, np.array([0.0, 0.0, 1.7])) for pose in walk(0.03)]
    features = seen(poses, 0.05)
    given = depth_at(poses, features, 0.01)
    found = shape_from_depth(tuple(range(6)), features, CAMERA, SameNumbers(), given, LocalConfig())
    assert isinstance(found, Refusal) and found.reason == Reason.STANDS_STILL


def test_frames_without_depth_are_refused() -> None:
    features = seen(walk(0.03))

    def nowhere(frame: int, xy: np.ndarray) -> np.ndarray:
        return np.full(len(xy), np.nan)

    found = shape_from_depth(tuple(range(6)), features, CAMERA, SameNumbers(), nowhere, LocalConfig())
    assert isinstance(found, Refusal) and found.reason == Reason.GROUP_FALLS_APART


def test_the_users_maps_are_read_in_pixels_of_the_photo(tmp_path: Path) -> None:
    frames = tuple(Frame(k, f"f{k}.jpg", tmp_path / f"f{k}.jpg") for k in range(2))
    sequence = Sequence(tmp_path, frames, CAMERA, False, (), ())
    config = LocalConfig(depth=tmp_path)
    depth = np.ones((36, 64), np.float32)
    depth[:, 32:] = 2.0
    depth[0] = 0.0
    np.save(tmp_path / "f0.npy", depth)
    assert (
        depth_of_frames(sequence, (0, 1), LocalConfig()) is None and depth_of_frames(sequence, (0, 1), config) is None
    )
    np.save(tmp_path / "f1.npy", 3.0 * depth)
    at = depth_of_frames(sequence, (0, 1), config)
    assert at is not None
    found = at(1, np.array([[100.0, 200.0], [330.0, 200.0], [639.9, 359.9], [50.0, 5.0]]))
    assert found[:3].tolist() == [3.0, 6.0, 6.0] and np.isnan(found[3])
