"""What stage 2 finds: anchor groups in the scaffold's frame, and what each verdict rests on."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan

from skyanchor.types.basics import QUIET, Bools, Floats, Ints
from skyanchor.types.geometry import Camera, Pose
from skyanchor.types.refusals import Refusal
from skyanchor.types.sequence import AnchorGroup


@dataclass(frozen=True, eq=False)
class AnchorPose:
    """A ground frame localised in the scaffold's frame."""

    frame: int
    cam_from_world: Pose
    covariance: Floats
    """(6, 6) of (rotation rad, translation m) in the camera frame, left perturbation of cam_from_world."""


@dataclass(frozen=True, eq=False)
class CrossView:
    """A few matches between street frames and aerial photos, for people to look at; flat arrays of one length."""

    frame: Ints
    """(N,), frame of the sequence."""
    ground_xy: Floats
    """(N, 2), pixels of the undistorted street photo at full size."""
    view: Ints
    """(N,), aerial view of the scaffold."""
    aerial_xy: Floats
    """(N, 2), pixels of the undistorted aerial photo at full size."""
    residual_px: Floats
    """(N,), from ground_xy to where the group's pose puts the point; inf behind the camera."""
    agrees: Bools
    """(N,), True where the group's pose rests on the match."""


@dataclass(frozen=True)
class GroupFigures:
    """What the verdict on an anchor group rests on; nan and 0 where nothing was measured."""

    support: int = 0
    """Distinct places in the group's images that agree with the aerial photos."""
    ratio: float = nan
    """Agreeing over all cross-view matches of the last round, 0..1."""
    frame_share: float = nan
    """Share of the matched frames that see enough of the scaffold on their own, 0..1."""
    aerial_views: int = 0
    """Aerial photos with real support."""
    many_view_share: float = nan
    """Share of the agreeing matches that two or more aerial photos show, 0..1."""
    spread: float = nan
    """Share of the cells of an 8 x 5 image grid, over all frames together, that hold an agreeing match, 0..1."""
    fronts: float = nan
    """Cells of a 16-column grid, mean of the frames, above the horizon, where the view rendered for the frame has
    something to be recognised by."""
    confirmed: float = nan
    """Share of those cells where more matches agree than do not, 0..1."""
    ground: float = nan
    """As fronts, below the horizon."""
    ground_confirmed: float = nan
    """Share of those, 0..1."""
    edges: float = nan
    """Cells of such a grid, mean of a few frames, above the horizon, where the view rendered at the end has edges."""
    edges_met: float = nan
    """Share of those where the photo has them in the same place, 0..1."""
    exact: float = nan
    """Matches of the last look, by a more exact matcher; nan without one."""
    exact_share: float = nan
    """Share of them that agree, 0..1; nan without a last look."""
    log_odds: float = nan
    """log10 of the odds, by ratio and those, that the place is the right one and no look-alike; nan where there
    were no views."""
    reprojection: float = nan
    """Median residual in ground frames, sigmas."""
    aerial_reprojection: float = nan
    """Median residual in aerial photos that the match was not lifted from, sigmas."""
    tilt_deg: float = nan
    """Largest angle between a camera's up and the scene's, degrees."""
    height_m: float = nan
    """Median height of the cameras above the ground, metres; -1 where there is no ground."""
    bend: float = nan
    """Deviation of the adjusted centres from the ground-only shape, over the group's length."""
    turn_deg: float = nan
    """Largest deviation of the adjusted relative rotations from the ground-only ones, degrees."""
    halves_m: float = nan
    """Distance between the solutions of two halves of the evidence, metres."""
    halves_deg: float = nan
    """Angle between them, degrees."""
    halves_scale: float = nan
    """Difference of their scales, as a fraction."""
    sigma_m: float = nan
    """Largest formal standard deviation of a camera centre, metres: of the adjustment alone, without what the halves
    disagree by and what all matches share. The covariances of the poses have both."""
    step_m: float = nan
    """Mean distance between the centres of consecutive frames, metres; 0 for a single frame."""
    routes_m: float = nan
    """Mean distance of the centres from where the paper's way puts them, metres; nan where it puts them nowhere."""


@dataclass(frozen=True)
class Overlap:
    """What keyframes of earlier walks say of where an anchor group stands; nan where the flight says nothing."""

    walks: tuple[str, ...]
    """Names of the walks whose keyframes have real support."""
    keyframes: int
    """Keyframes with real support."""
    support: int
    """Distinct places in the group's images that agree with keyframes."""
    carried: bool
    """Whether the group stands on them alone: the flight shows too little there."""
    metres: float = nan
    """Mean distance between where the flight alone and earlier walks alone put the group's cameras, metres."""
    degrees: float = nan
    """Turn between the two, degrees."""
    scale: float = nan
    """Difference of their scales, as a fraction."""
    position_sigmas: float = nan
    """That distance in units of the standard deviations that both state, along the worst axis."""
    turn_sigmas: float = nan
    """That turn in units of the stated ones."""
    scale_sigmas: float = nan
    """That difference of scales in units of the stated ones."""

    @property
    def sigmas(self) -> float:
        """The largest of the three; nan where the flight says nothing."""
        return max(self.position_sigmas, self.turn_sigmas, self.scale_sigmas)


@dataclass(frozen=True, eq=False)
class TriedPlace:
    """Where a group was tried, before views from there moved it: its middle frame in the scaffold's frame."""

    frame: int
    cam_from_world: Pose


@dataclass(frozen=True)
class RadialEstimate:
    """What a group says of k1 and k2 together, x' = x (1 + k1 r² + k2 r⁴), with standard deviations."""

    k1: float
    k1_sigma: float
    k2: float
    k2_sigma: float
    moved: float
    """The most that it moves a pixel beyond what k1 alone does, both at their best; widths of a photo."""


@dataclass(frozen=True)
class LensEstimate:
    """What a group that stands says of its camera beyond the focal length, with standard deviations."""

    k1: float
    """Radial distortion that the photos still have, x' = x (1 + k1 r²)."""
    k1_sigma: float
    readout: float
    """Time from the first row of a photo to its last, over that to the next frame."""
    readout_sigma: float
    both: RadialEstimate | None = field(default=None, metadata=QUIET)
    """k1 with k2 besides; None where that cannot be told, and once a walk is done that does not need k2."""


@dataclass(frozen=True, eq=False)
class LocalisedGroup:
    """The verdict on one anchor group: poses, or a refusal."""

    group: AnchorGroup
    poses: tuple[AnchorPose, ...]
    """Empty when refused."""
    refusal: Refusal | None
    figures: GroupFigures = GroupFigures()
    attempts: tuple[Refusal, ...] = ()
    """Earlier rungs of the retry ladder."""
    cross_view: CrossView | None = None
    """What its place was believed or refused on; None where nothing was matched."""
    overlap: Overlap | None = field(default=None, metadata=QUIET)
    """What earlier walks say of it; None without any that reach it."""
    lens: LensEstimate | None = field(default=None, metadata=QUIET)
    """What it says of its camera; None where it was refused, or tells nothing."""

    @property
    def accepted(self) -> bool:
        """Whether the group has poses."""
        return self.refusal is None


@dataclass(frozen=True, eq=False)
class Anchors:
    """Stage 2 result: one verdict per group, and the camera they were solved with."""

    groups: tuple[LocalisedGroup, ...]
    camera: Camera
    lens: LensEstimate | None = field(default=None, metadata=QUIET)
    """What the accepted groups together say of the camera beyond that; None where they say nothing."""
