"""Settings of the trajectory stage; the paper's values where it gives them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from skyanchor.backends.devices import TorchDevice
from skyanchor.bounds import Count, CountOrNone, Degrees, Few, FewOrNone, NotNegative, Positive, Range, Seed, Share
from skyanchor.feedforward.choices import AnyLocal, Incremental
from skyanchor.matching import AnySparse, Sift, VerifyConfig
from skyanchor.types import QUIET


@dataclass(frozen=True)
class KeyframeConfig:
    """Which frames become keyframes."""

    least_motion: NotNegative = 0.03
    """Median motion of matches since the last keyframe, over the image width."""
    least_motion_px: NotNegative = 30.0
    """The same in pixels; the larger of the two counts."""
    least_matches: CountOrNone = 100
    """Matches to the last keyframe below which the frame before becomes a keyframe as well."""
    least_kept: Share = 0.5
    """Part of the matches right after the last keyframe below which a frame becomes one without much motion, 0..1."""


@dataclass(frozen=True)
class RegisterConfig:
    """How a frame gets its pose from the map."""

    bootstrap: Annotated[int, Range(2, 1000)] = 8
    """Keyframes adjusted together before growth starts."""
    window: Few = 6
    """Keyframes that are candidates for reference."""
    references: Few = 4
    """References a frame is matched with."""
    retry_references: Few = 6
    """References on a second attempt, from a window twice as wide."""
    resect_references: Few = 3
    """References of a frame that is no keyframe, the nearest in time."""
    cheap_keypoints: Count = 1500
    """Strongest keypoints used to rank candidates."""
    pnp_threshold: Positive = 3.0
    """Reprojection error of an inlier, in the matcher's sigma."""
    pnp_trials: Annotated[int, Range(1, 1e7)] = 8000
    """Most RANSAC trials."""
    least_inliers: Annotated[int, Range(3, 1e9)] = 30
    """Inliers of an accepted pose, at least."""
    strong_inliers: CountOrNone = 90
    """Inliers below which the frames skipped since the last keyframe are registered first."""
    least_ratio: Share = 0.25
    """Inliers over correspondences, at least."""
    least_cells: Annotated[int, Range(0, 64)] = 6
    """Cells of an 8 x 8 grid over the image that hold inliers, at least."""
    motion_factor: Positive = 4.0
    """A step may be this many times the longest recent step per frame."""
    motion_slack_m: NotNegative = 0.5
    """Added to the longest admissible step, metres."""
    depth_filter_m: Positive | None = None
    """Points farther from their reference than this take no part in PnP, metres; for open scenes. None keeps all."""
    seed: Seed = 0
    """Of RANSAC."""


@dataclass(frozen=True)
class TrackConfig:
    """Which tracks are triangulated and which of them are adjusted."""

    online_error: Positive = 1.5
    """Reprojection error of online tracks, in the matcher's sigma, or 0.001 of the image width if that is more."""
    final_error: Positive = 2.0
    """Reprojection error of final tracks, in the matcher's sigma."""
    least_angle_deg: Degrees = 1.0
    """Angle between the outer rays of a point, at least, degrees."""
    most_depth_m: Positive = 100.0
    """Depth of a point in the cameras that see it, at most, metres."""
    anchor_quota: Share = 0.3
    """Part of the budget kept for tracks that touch an anchor, 0..1."""
    bootstrap_tracks: Count = 6000
    """Tracks of the bootstrap's adjustment."""
    registration_tracks: Count = field(default=6000, metadata=QUIET)
    """Tracks of the adjustment of a frame that was just registered, where there is one."""
    online_tracks: Count = 6000
    """Tracks of an online adjustment."""
    final_tracks: Count = 10_000
    """Tracks of a final adjustment per 100 movable frames."""


@dataclass(frozen=True)
class AdjustConfig:
    """The anchored bundle adjustments."""

    loss_px: Positive = 1.5
    """Scale of the Soft-L1 loss, pixels."""
    bootstrap_iterations: Count = 350
    """Most solver iterations after the bootstrap."""
    registration_iterations: CountOrNone = field(default=0, metadata=QUIET)
    """Most solver iterations of an adjustment of every frame that is registered and the points it sees, its references
    constant; the paper's 300. 0: the pose stands as PnP found it and refined it, the points constant."""
    online_every: Count = 10
    """New keyframes between two online adjustments."""
    online_window: Annotated[int, Range(2, 1e6)] = 30
    """Latest keyframes that move in an online adjustment."""
    online_iterations: Count = 100
    """Most solver iterations online."""
    final_iterations: Count = 400
    """Most solver iterations of a final adjustment."""
    final_rounds: Few = 2
    """Times that tracks are triangulated anew and adjusted at the end."""
    threads: Annotated[int, Range(-1, 1024)] = -1
    """Solver threads; -1 takes all."""


@dataclass(frozen=True)
class ClosureConfig:
    """When two anchor groups are believed to contradict each other."""

    along: NotNegative = 0.02
    """Standard deviation of the drift along the line between the groups, per metre travelled."""
    across: NotNegative = 0.01
    """Standard deviation of the drift across that line, per metre travelled."""
    floor_m: Positive = 0.2
    """Standard deviation that does not depend on the distance, metres."""
    turn_deg: Positive = 1.0
    """Standard deviation of the turn between map and group, degrees."""
    turn_deg_per_m: NotNegative = 0.03
    """The same per metre travelled."""
    most_sigmas: Positive = 4.0
    """A larger gap is a contradiction."""
    relax_m: NotNegative = 0.02
    """Gap from which the free poses are relaxed before the adjustment, metres."""


@dataclass(frozen=True)
class HoldConfig:
    """How anchors of one walk are off."""

    alike_m: Positive = 100.0
    """Distance along which they cease to be off together, metres: to 1/e ..."""
    alone: Share = 0.02
    """... but for this share of the variance of each, 0..1."""


@dataclass(frozen=True)
class Ablation:
    """Parts of the method that can be left out, to measure what they are worth."""

    anchor_initialisation: bool = True
    """False: the chain starts at the first anchor with a scale of its own."""
    fixed_anchors: bool = True
    """False: anchors start at their poses and may move."""
    rear_anchors: bool = True
    """False: only the front group of each submap is used."""
    anchored_adjustment: bool = True
    """False: no adjustment after the bootstrap, and no relaxation."""
    aware_of_points: bool = True
    """False: references are the latest keyframes, whether they hold 3D points or not."""
    group_size: Annotated[int, Range(1, 100)] = 6
    """Anchors used at each end of a submap."""


@dataclass(frozen=True)
class TrajectoryConfig:
    """From anchors to a pose for every frame."""

    matcher: AnySparse = field(default_factory=lambda: Sift(keypoints=4000))
    """Keypoints that are joined into tracks; the paper's 6000 cost more than twice the time of 4000."""
    verify: VerifyConfig = field(
        default_factory=lambda: VerifyConfig(threshold=1.0, confidence=0.999999, trials=(50, 10_000), least_ratio=0.2)
    )
    """Two-view verification of frame pairs."""
    local: AnyLocal = field(default_factory=Incremental)
    """Where the submaps' own geometry comes from."""
    keyframe: KeyframeConfig = field(default_factory=KeyframeConfig)
    register: RegisterConfig = field(default_factory=RegisterConfig)
    tracks: TrackConfig = field(default_factory=TrackConfig)
    adjust: AdjustConfig = field(default_factory=AdjustConfig)
    closure: ClosureConfig = field(default_factory=ClosureConfig)
    tail_window: Few = 8
    """Latest movable frames that every rear anchor is matched with."""
    loop_pairs: FewOrNone = 3
    """Most pairs per keyframe with keyframes seen longer ago that look at the same points."""
    merge_refused: bool = True
    """Join two submaps whose common boundary has no anchors."""
    last_adjustment: bool = True
    """Adjust all submaps together, with tracks across their boundaries."""
    hold: HoldConfig | None = field(default_factory=HoldConfig)
    """How far anchors give way to the walk at the end; None leaves them where they are, the paper's way."""
    ablation: Ablation = field(default_factory=Ablation)
    device: str = "cpu"
    """Where descriptors are compared: cpu, cuda, or auto for CUDA where there is one."""

    @property
    def implied(self) -> tuple[TorchDevice, ...]:
        """Where descriptors are compared must be there."""
        return (TorchDevice(self.device),)
