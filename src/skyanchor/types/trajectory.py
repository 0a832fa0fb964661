"""What stage 3 finds: a pose or a reason for every frame."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from skyanchor.types.basics import Bytes, Floats
from skyanchor.types.geometry import Camera, Pose
from skyanchor.types.refusals import Refusal
from skyanchor.types.scaffold import Tracks


class Support(Enum):
    """How a frame got its pose."""

    ANCHORED = "anchored"
    KEYFRAME = "keyframe"
    RESECTED = "resected"
    MISSING = "missing"


@dataclass(frozen=True, eq=False)
class PosedFrame:
    """One ground frame of the recovered trajectory."""

    frame: int
    support: Support
    cam_from_world: Pose | None
    """None exactly when the support is MISSING."""
    observations: int
    """3D points this frame sees in the final adjustment."""
    sigma_m: float
    """Standard deviation of the camera centre along its worst axis, metres, the shift that all frames share included.
    nan when missing; 95 % of the errors are shorter than 2.795 of it."""
    refusal: Refusal | None = None


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Stage 3 result: a pose or a reason for every input frame, and the ground points behind them."""

    frames: tuple[PosedFrame, ...]
    camera: Camera
    points: Floats
    """(M, 3), metres."""
    point_colors: Bytes
    """(M, 3), RGB."""
    tracks: Tracks
    """`image` indexes the sequence's frames."""
