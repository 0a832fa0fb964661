"""What one submap is given and what comes out of it: planning makes the jobs, assembly and files take the results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from skyanchor.trajectory.closure import Closure
from skyanchor.trajectory.config import TrajectoryConfig
from skyanchor.types import QUIET, AnchorPose, Camera, Ints, Pose, Refusal, Submap

BOOTSTRAP, REGISTRATION, REFINEMENT = "seeded bootstrap", "incremental registration", "anchor-constrained adjustment"
"""What a submap is at, in the paper's words; adjustments on the way belong to the registration."""
SEGMENT_GAP = 8
"""Anchors farther apart than this many frames belong to different ends."""


@dataclass(frozen=True, eq=False)
class SubmapJob:
    """All that one submap needs; jobs are independent of each other."""

    submap: Submap
    anchors: tuple[AnchorPose, ...]
    """Accepted anchors among the submap's frames."""
    camera: Camera
    refine_focal: bool
    config: TrajectoryConfig


@dataclass(frozen=True, eq=False)
class FramePose:
    """The pose of a frame."""

    frame: int
    cam_from_world: Pose


@dataclass(frozen=True, eq=False)
class FramePairs:
    """Verified keypoint pairs of two frames."""

    i: int
    j: int
    keypoints: Ints
    """(M, 2), of i and of j."""


@dataclass(frozen=True)
class FrameRefusal:
    """Why a frame has no pose."""

    frame: int
    refusal: Refusal


@dataclass(frozen=True, eq=False)
class SubmapResult:
    """A submap's keyframes in the scaffold's frame."""

    submap: Submap
    camera: Camera
    poses: tuple[FramePose, ...]
    """Registered keyframes, anchors included."""
    anchored: tuple[int, ...]
    """Frames that were held at their anchor pose."""
    keyframes: tuple[int, ...]
    refusals: tuple[FrameRefusal, ...]
    """Keyframes without a pose."""
    pairs: tuple[FramePairs, ...]
    """Among registered keyframes."""
    closures: tuple[Closure, ...]
    figures: dict[str, float]
    """Counts and errors."""
    seconds: dict[str, float]
    """Time per step."""
    dropped: tuple[int, ...] = ()
    """Anchors that share no points with the rest of their group where they were put; these frames are free."""
    phases: dict[str, float] = field(default_factory=dict, metadata=QUIET)
    """The same time by what the map was at, in the paper's words."""


def anchor_segments(frames: Iterable[int], gap: int = SEGMENT_GAP) -> list[tuple[int, ...]]:
    """Anchored frames in runs that lie close together in time."""
    ordered = sorted(frames)
    breaks = [k for k in range(1, len(ordered)) if ordered[k] - ordered[k - 1] > gap]
    return [tuple(part.tolist()) for part in np.split(np.array(ordered, dtype=np.int64), breaks) if len(part)]
