"""The growing map of a submap: poses, verified pairs, and a point behind every keypoint that has one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from skyanchor.geometry import rigid
from skyanchor.matching import Features, SparseMatcher, TwoView, VerifyConfig, verify
from skyanchor.sfm import tracks as tr
from skyanchor.sfm.bundle import Bundle, bundle_of
from skyanchor.sfm.triangulation import TrackFilter, structure
from skyanchor.step_clock import StepClock
from skyanchor.trajectory.source import FeatureSource
from skyanchor.types import Camera, Floats, Ints, Pose


@dataclass
class PairFinder:
    """Verified keypoint pairs of two frames, each pair of frames looked at once."""

    source: FeatureSource
    matcher: SparseMatcher
    camera: Camera
    config: VerifyConfig
    clock: StepClock
    found: tr.Pairs = field(default_factory=dict)

    def features(self, frame: int) -> Features:
        """Keypoints of a frame."""
        with self.clock.step("features"):
            return self.source.features(frame)

    def pairs(self, i: int, j: int) -> Ints:
        """(M, 2), keypoints of i and of j; empty when the frames share no geometry."""
        if i > j:
            return self.pairs(j, i)[:, ::-1]
        if (i, j) not in self.found:
            a, b = self.features(i), self.features(j)
            with self.clock.step("matching"):
                known = self.source.matched(i, j)
                held = self.matcher.pairs(a, b) if known is None else known
            with self.clock.step("verification"):
                self.found[i, j] = self._verified(a, b, held)
        return self.found[i, j]

    def _verified(self, a: Features, b: Features, held: Ints) -> Ints:
        sigma = max(a.sigma_px, b.sigma_px)
        result = verify(a.xy[held[:, 0]], b.xy[held[:, 1]], self.camera, self.camera, sigma, self.config)
        return held[result.inliers] if isinstance(result, TwoView) else np.empty((0, 2), dtype=np.int64)


@dataclass
class LocalMap:
    """Frames with poses, and where their keypoints lie in the world."""

    camera: Camera
    finder: PairFinder
    poses: dict[int, Pose] = field(default_factory=dict)
    """cam_from_world of registered keyframes."""
    xy: dict[int, Floats] = field(default_factory=dict)
    """Keypoints of registered keyframes, pixels."""
    xyz: dict[int, Floats] = field(default_factory=dict)
    """(N, 3) per registered keyframe, metres; nan for a keypoint without a point."""

    def insert(self, frame: int, pose: Pose) -> None:
        """Give a frame its pose."""
        features = self.finder.features(frame)
        self.poses[frame] = pose
        self.xy[frame] = features.xy
        if frame not in self.xyz:
            self.xyz[frame] = np.full((len(features), 3), np.nan)

    def nearest(self, frame: int, count: int) -> list[int]:
        """Registered keyframes nearest in time, nearest first."""
        return sorted((f for f in self.poses if f != frame), key=lambda f: (abs(f - frame), f))[:count]

    def pairs_among(self, frames: Iterable[int]) -> tr.Pairs:
        """Pairs found so far whose frames are both given."""
        wanted = set(frames)
        return {key: held for key, held in self.finder.found.items() if key[0] in wanted and key[1] in wanted}

    def structure(self, frames: Iterable[int], limits: TrackFilter) -> tuple[tr.TrackTable, Floats]:
        """Tracks among registered frames and their points."""
        with self.finder.clock.step("tracks"):
            wanted = [f for f in frames if f in self.poses]
            return structure(self.pairs_among(wanted), self.poses, self.camera, self.xy, limits)

    def bundle(self, table: tr.TrackTable, points: Floats, constant: frozenset[int]) -> Bundle:
        """Tracks of registered frames as they are to be adjusted."""
        return bundle_of(table, points, tr.pixels_of(table, self.xy), self.poses, self.camera, constant)

    def take_over(self, table: tr.TrackTable, adjusted: Bundle) -> None:
        """The poses and the camera of an adjusted bundle of the table."""
        self.poses.update(zip(table.frames.tolist(), adjusted.cams_from_world, strict=True))
        self.camera = self.finder.camera = adjusted.lenses[0]

    def remember(self, table: tr.TrackTable, points: Floats, forget: bool = False) -> None:
        """Put points behind the keypoints of a table; with `forget` all other keypoints lose theirs."""
        if forget:
            for held in self.xyz.values():
                held[:] = np.nan
        order = np.argsort(table.frame, kind="stable")
        frames, starts = np.unique(table.frame[order], return_index=True)
        for frame, rows in zip(frames.tolist(), np.split(order, starts[1:]), strict=True):
            self.xyz[frame][table.keypoint[rows]] = points[table.point[rows]]

    def longest_step(self, frame: int, count: int = 10) -> float:
        """Longest step per frame among the registered keyframes nearest in time, metres."""
        near = sorted(self.nearest(frame, count))
        centres = tr.centres_of(self.poses, near)
        if len(near) < 2:
            return float("inf")
        return float((np.linalg.norm(np.diff(centres, axis=0), axis=1) / np.diff(near)).max())

    def path_m(self, first: int, last: int) -> float:
        """Length of the path over registered keyframes from one frame to another, metres."""
        between = sorted(f for f in self.poses if first <= f <= last)
        return float(np.linalg.norm(np.diff(tr.centres_of(self.poses, between), axis=0), axis=1).sum())


def strongest(features: Features, count: int, rows: Ints | None = None) -> Features:
    """The best-scored keypoints, of the given ones or of all."""
    rows = np.arange(len(features)) if rows is None else rows
    rows = rows[np.argsort(-features.scores[rows], kind="stable")[:count]]
    held = (features.xy[rows], features.descriptors[rows], features.scores[rows], features.scales[rows])
    return Features(*held, features.width, features.height, features.sigma_px)


def gap(a: Pose, b: Pose) -> tuple[float, float]:
    """(metres between the centres, radians between the rotations) of two cam_from_world."""
    metres = float(np.linalg.norm(rigid.centre_in_world(a) - rigid.centre_in_world(b)))
    return metres, rigid.angle_between(a.rotation, b.rotation)


def choose_tracks(
    local: LocalMap, table: tr.TrackTable, points: Floats, fixed: frozenset[int], budget: int, quota: float
) -> tuple[tr.TrackTable, Floats]:
    """(tracks of the budget, their points)."""
    anchored = np.isin(table.frame, list(fixed))
    chosen = tr.select(table, tr.cells(tr.pixels_of(table, local.xy), local.camera), anchored, budget, quota)
    return tr.subset(table, points, chosen)
