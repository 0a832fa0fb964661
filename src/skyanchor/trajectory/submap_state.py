"""What changes while a submap grows, and how its points and poses are brought up to date."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from skyanchor.sfm.adjustment import adjust
from skyanchor.sfm.bundle import Bundle
from skyanchor.sfm.ceres import Ceres
from skyanchor.sfm.triangulation import TrackFilter
from skyanchor.step_clock import StepClock
from skyanchor.trajectory.closure import Closure
from skyanchor.trajectory.config import TrajectoryConfig
from skyanchor.trajectory.jobs import SubmapJob
from skyanchor.trajectory.localmap import LocalMap, choose_tracks
from skyanchor.types import Pose, Reason, Refusal

STRAY = 0.2
"""An anchor that sees less than this part of the points its group sees in the median does not belong there."""


@dataclass
class SubmapState:
    """What changes while a submap grows."""

    job: SubmapJob
    local: LocalMap
    """Frames with poses so far, and their points."""
    anchors: dict[int, Pose]
    """cam_from_world that the anchor stage gave, by frame; without those that were dropped."""
    error_px: float
    """Reprojection error of a track that is believed, at most."""
    scale_sigma: float = 0.0
    """Relative standard deviation of the scale, by the anchors that the map started at."""
    constant: set[int] = field(default_factory=set)
    """Anchors in the map: no adjustment moves them."""
    references: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """By registered frame the ones that its pose was found by."""
    pending: dict[int, Refusal] = field(default_factory=dict)
    """Frames without a pose, and why."""
    tried: set[int] = field(default_factory=set)
    """Frames between keyframes that were tried to bridge a gap."""
    dropped: list[int] = field(default_factory=list)
    """Anchors that contradict their own group."""
    closures: list[Closure] = field(default_factory=list)
    """How far the map missed the anchors that it reached."""
    since_adjusted: int = 0
    """Frames registered since the last adjustment."""
    figures: dict[str, float] = field(default_factory=dict)
    phases: StepClock = field(default_factory=StepClock)
    """Seconds by what the map was at, in the paper's words."""

    @property
    def config(self) -> TrajectoryConfig:
        """Settings of the stage."""
        return self.job.config


def track_limits(state: SubmapState) -> TrackFilter:
    """What a track must fulfil to be believed as things stand."""
    tracks = state.config.tracks
    return TrackFilter(state.error_px, float(np.radians(tracks.least_angle_deg)), tracks.most_depth_m)


def refresh(state: SubmapState, frames: Iterable[int]) -> int:
    """Triangulate tracks among frames anew and put them into the map; the number of points."""
    table, points = state.local.structure(set(frames), track_limits(state))
    state.local.remember(table, points)
    return len(points)


def adjust_tracks(
    state: SubmapState, frames: Iterable[int], held: set[int], budget: int, iterations: int, refine_focal: bool = False
) -> Bundle | None:
    """Adjust frames and a choice of their tracks, anchors and `held` constant, and take over the result."""
    local, config = state.local, state.config
    table, points = local.structure(frames, track_limits(state))
    fixed = held | (state.constant if config.ablation.fixed_anchors else set())
    if not set(table.frame.tolist()) - fixed:
        return None
    with local.finder.clock.step("tracks"):
        table, points = choose_tracks(local, table, points, frozenset(fixed), budget, config.tracks.anchor_quota)
        bundle = local.bundle(table, points, frozenset(fixed))
    solver = Ceres(iterations, config.adjust.loss_px, refine_focal, config.adjust.threads)
    done = adjust(bundle, solver, local.finder.clock).bundle
    local.take_over(table, done)
    state.since_adjusted = 0
    refresh(state, frames)
    return done


def drop_strays(state: SubmapState, segment: tuple[int, ...]) -> tuple[int, ...]:
    """The segment without anchors that hardly share points with the others at the poses they were given."""
    table, _ = state.local.structure(segment, track_limits(state))
    seen = np.bincount(table.frame, minlength=segment[-1] + 1)[list(segment)]
    strays = [f for f, n in zip(segment, seen.tolist(), strict=True) if n < STRAY * np.median(seen)]
    if len(segment) < 4 or 2 * len(strays) >= len(segment):
        return segment
    for frame in strays:
        state.anchors.pop(frame)
        state.local.poses.pop(frame)
        state.constant.discard(frame)
        state.dropped.append(frame)
        state.pending[frame] = Refusal(
            Reason.STRAY_ANCHOR, "Its anchor contradicts its own group and nothing else fits."
        )
    return tuple(f for f in segment if f not in strays)
