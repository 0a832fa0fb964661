"""A street of landmarks with known truth: keypoints with noise, clutter and descriptors, no photos."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from skyanchor.geometry import cameras, rigid
from skyanchor.matching import Features
from skyanchor.types import (
    AnchorGroup,
    AnchorPose,
    Anchors,
    Camera,
    Frame,
    Georeference,
    LocalisedGroup,
    Plane,
    Pose,
    Reason,
    Refusal,
    Scaffold,
    Sequence,
    Submap,
    Tracks,
)

CAMERA = cameras.pinhole(640, 360, 450.0)
UP = np.array([0.0, 0.0, 1.0])


def street_poses(count: int, step: float = 0.5, bend: float = 0.004, start: float = 0.0) -> list[Pose]:
    """Cameras that walk along a slightly bent street, looking ahead and a little to the side."""
    poses = []
    for k in range(count):
        s = start + k * step
        eye = np.array([s, bend * s * s, 1.7 + 0.05 * np.sin(s)])
        heading = 0.25 + 2 * bend * s
        poses.append(rigid.look_at(eye, eye + np.array([np.cos(heading), np.sin(heading), 0.0]), UP))
    return poses


def street_points(length: float, count: int, seed: int, bend: float = 0.004) -> np.ndarray:
    """Landmarks on two house fronts and on the ground, (count, 3)."""
    rng = np.random.default_rng(seed)
    s = rng.uniform(-5.0, length + 30.0, count)
    side = rng.integers(0, 3, count)
    across = np.where(side == 0, 7.0, np.where(side == 1, -7.0, rng.uniform(-6.5, 6.5, count)))
    across = across + np.where(side < 2, rng.uniform(-0.7, 0.7, count), 0.0)
    height = np.where(side < 2, rng.uniform(0.0, 7.0, count), 0.0)
    return np.stack([s, bend * s * s + across, height], axis=1)


@dataclass
class World:
    """Truth and the keypoints that cameras at the truth would see."""

    poses: list[Pose]
    points: np.ndarray
    camera: Camera = CAMERA
    noise_px: float = 0.3
    clutter: int = 40
    reach_m: float = 22.0
    seed: int = 0
    dims: int = 24
    foreign: frozenset[int] = frozenset()
    """Frames that show another place."""
    _held: dict[int, Features] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed + 1000)
        self.names = _unit(rng.normal(size=(len(self.points), self.dims)))
        self.foreign_names = _unit(rng.normal(size=(len(self.points), self.dims)))

    def features(self, frame: int) -> Features:
        if frame not in self._held:
            self._held[frame] = self._seen(frame)
        return self._held[frame]

    def colors(self, frame: int, xy: np.ndarray) -> np.ndarray:
        return np.full((len(xy), 3), frame % 256, np.uint8)

    def matched(self, i: int, j: int) -> None:
        return None

    def _seen(self, frame: int) -> Features:
        rng = np.random.default_rng(self.seed * 7919 + frame)
        seen = self.poses[frame](self.points)
        xy = cameras.project(self.camera, seen)
        inside = (xy > 2).all(axis=1) & (xy[:, 0] < self.camera.width - 2) & (xy[:, 1] < self.camera.height - 2)
        rows = np.flatnonzero(inside & (seen[:, 2] > 1.5) & (seen[:, 2] < self.reach_m))
        names = self.foreign_names if frame in self.foreign else self.names
        size = np.array([self.camera.width, self.camera.height])
        pixels = xy[rows] + rng.normal(0, self.noise_px, (len(rows), 2))
        pixels = np.concatenate([pixels, rng.uniform(0, 1, (self.clutter, 2)) * size])
        own = names[rows] + rng.normal(0, 0.05, (len(rows), self.dims))
        descriptors = _unit(np.concatenate([own, rng.normal(size=(self.clutter, self.dims))])).astype(np.float32)
        order = rng.permutation(len(pixels))
        scores = rng.uniform(0.1, 1.0, len(pixels)).astype(np.float32)
        scales = np.ones(len(pixels), np.float32)
        width, height = self.camera.width, self.camera.height
        return Features(pixels[order], descriptors[order], scores, scales, width, height, 1.0)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def street(count: int, submaps: int = 1, seed: int = 0, points_per_m: int = 25, **options: object) -> World:
    """A world of `count` frames along the street."""
    poses = street_poses(count)
    length = 0.5 * count
    return World(poses, street_points(length, int(points_per_m * (length + 35)), seed), seed=seed, **options)  # type: ignore[arg-type]


def sequence_of(world: World, submaps: int = 1, guess: bool = False, camera: Camera | None = None) -> Sequence:
    """The world's frames as an unposed sequence with boundary groups of six."""
    count = len(world.poses)
    edges = np.round(np.linspace(0, count, submaps + 1)).astype(int)
    spans = [tuple(range(edges[m], edges[m + 1])) for m in range(submaps)]
    held = tuple(Submap(m, span, span[:6], span[-6:]) for m, span in enumerate(spans))
    groups = [AnchorGroup(0, held[0].front, (0,))]
    for m in range(1, submaps):
        groups.append(AnchorGroup(m, (*held[m - 1].rear, *held[m].front), (m - 1, m)))
    groups.append(AnchorGroup(submaps, held[-1].rear, (submaps - 1,)))
    frames = tuple(Frame(k, f"{k:04d}.jpg", Path(f"{k:04d}.jpg")) for k in range(count))
    return Sequence(Path(), frames, camera or world.camera, guess, held, tuple(groups))


def anchors_of(
    world: World,
    sequence: Sequence,
    moved: dict[int, Pose] | None = None,
    refused: frozenset[int] = frozenset(),
    sigma_m: float = 1e-3,
) -> Anchors:
    """Anchors at the truth; groups in `moved` are displaced (world from world), those in `refused` have none."""
    verdicts = []
    for group in sequence.groups:
        if group.index in refused:
            verdicts.append(LocalisedGroup(group, (), Refusal(Reason.NO_PLACE, "refused by the test")))
            continue
        shift = (moved or {}).get(group.index, rigid.identity()).inverse
        covariance = np.eye(6) * sigma_m**2
        poses = tuple(AnchorPose(f, world.poses[f] @ shift, covariance) for f in group.frames)
        verdicts.append(LocalisedGroup(group, poses, None))
    return Anchors(tuple(verdicts), sequence.camera)


def scaffold() -> Scaffold:
    """A scaffold without views: the stage needs only its ground."""
    nothing = np.empty(0, np.int64)
    return Scaffold(
        Path(),
        (),
        np.empty((0, 3)),
        np.empty((0, 3), np.uint8),
        nothing,
        Tracks(nothing, nothing, np.empty((0, 2))),
        UP,
        Plane(UP, 0.0),
        Georeference(np.zeros(3)),
    )


def centre_errors(world: World, poses: dict[int, Pose]) -> dict[int, float]:
    """Distance of every pose from the truth, metres."""
    centre = rigid.centre_in_world
    return {f: float(np.linalg.norm(centre(p) - centre(world.poses[f]))) for f, p in poses.items()}


def posed(trajectory) -> dict[int, Pose]:  # type: ignore[no-untyped-def]
    """The frames that have a pose."""
    return {f.frame: f.cam_from_world for f in trajectory.frames if f.cam_from_world is not None}
