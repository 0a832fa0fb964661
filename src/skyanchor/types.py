"""What crosses a stage boundary: frozen values made of numbers, names and numpy arrays.

Frames and units are in CONVENTIONS.md: `b_from_a` maps coordinates of frame a into frame b, cameras are OpenCV
(x right, y down, z forward), the centre of the top-left pixel is (0.5, 0.5), quaternions are wxyz, lengths are metres.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from math import nan
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Floats32: TypeAlias = npt.NDArray[np.float32]
Ints: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Bools: TypeAlias = npt.NDArray[np.bool_]

QUIET = MappingProxyType({"quiet": True})
"""Metadata of a field that files name only where it differs from its default."""


# --- geometry ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Pose:
    """A rigid transform b_from_a: x_b = rotation @ x_a + translation."""

    rotation: Floats
    """(3, 3), orthonormal, det +1."""
    translation: Floats
    """(3,), metres."""

    def __call__(self, points_in_a: Floats) -> Floats:
        """Points (..., 3) in frame b."""
        return points_in_a @ self.rotation.T + self.translation

    def __matmul__(self, a_from_z: Pose) -> Pose:
        """b_from_z: what maps by `a_from_z` first and by this then."""
        return Pose(self.rotation @ a_from_z.rotation, self.rotation @ a_from_z.translation + self.translation)

    @property
    def inverse(self) -> Pose:
        """a_from_b: x_a = Rᵀ (x_b - t)."""
        return Pose(self.rotation.T.copy(), -self.rotation.T @ self.translation)

    @property
    def matrix(self) -> Floats:
        """The same transform as a homogeneous (4, 4)."""
        return _homogeneous(self.rotation, self.translation)


@dataclass(frozen=True, eq=False)
class Similarity:
    """A similarity b_from_a: x_b = scale * rotation @ x_a + translation."""

    scale: float
    rotation: Floats
    """(3, 3), orthonormal, det +1."""
    translation: Floats
    """(3,)."""

    def __call__(self, points_in_a: Floats) -> Floats:
        """Points (..., 3) in frame b."""
        return self.scale * (points_in_a @ self.rotation.T) + self.translation

    def __matmul__(self, a_from_z: Similarity) -> Similarity:
        """b_from_z: what maps by `a_from_z` first and by this then."""
        return Similarity(
            self.scale * a_from_z.scale,
            self.rotation @ a_from_z.rotation,
            self.scale * (self.rotation @ a_from_z.translation) + self.translation,
        )

    @property
    def inverse(self) -> Similarity:
        """a_from_b: x_a = Rᵀ (x_b - t) / s."""
        rotation = self.rotation.T.copy()
        return Similarity(1.0 / self.scale, rotation, -(rotation @ self.translation) / self.scale)

    @property
    def matrix(self) -> Floats:
        """The same transform as a homogeneous (4, 4)."""
        return _homogeneous(self.scale * self.rotation, self.translation)


def _homogeneous(linear: Floats, translation: Floats) -> Floats:
    """[linear, translation; 0, 1], (4, 4)."""
    result = np.eye(4)
    result[:3, :3], result[:3, 3] = linear, translation
    return result


@dataclass(frozen=True)
class Camera:
    """Intrinsics in COLMAP's terms; hashable, so it may key a cache."""

    model: str
    """COLMAP camera model name, e.g. PINHOLE, SIMPLE_RADIAL, OPENCV."""
    width: int
    """Pixels."""
    height: int
    """Pixels."""
    params: tuple[float, ...]
    """COLMAP parameter order of the model, pixels where they are lengths."""


@dataclass(frozen=True, eq=False)
class Plane:
    """The plane {x : normal . x = offset}."""

    normal: Floats
    """(3,), unit; for a ground plane it points up."""
    offset: float
    """Metres along the normal."""


# --- images -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Photo:
    """The pixels a matcher or renderer sees."""

    name: str
    pixels: Bytes
    """(H, W, 3), RGB."""
    mask: Bools | None = None
    """(H, W), True where the photo may be used; None means everywhere."""


@dataclass(frozen=True, eq=False)
class View:
    """A photo on disk with known intrinsics and pose."""

    name: str
    """Path relative to the image folder, as COLMAP stores it."""
    path: Path
    camera: Camera
    cam_from_world: Pose
    mask_path: Path | None = None
    """Black = ignore."""
    image_id: int = -1
    """COLMAP image id where the view comes from a model."""


@dataclass(frozen=True, eq=False)
class Matches:
    """Point correspondences between two photos a and b."""

    xy_a: Floats
    """(N, 2), pixels of photo a, pixel-centre convention."""
    xy_b: Floats
    """(N, 2), pixels of photo b."""
    score: Floats
    """(N,), higher is better; comparable only within one matcher."""
    sigma_px: float = 1.0
    """Localisation error of this matcher on these photos, pixels; pixel thresholds are multiples of it."""


@dataclass(frozen=True, eq=False)
class DepthMap:
    """Depth along the optical axis of one view, in a pinhole camera of its own resolution."""

    name: str
    camera: Camera
    """PINHOLE."""
    cam_from_world: Pose
    depth: Floats32
    """(H, W), metres; 0 = none."""
    confidence: Floats32
    """(H, W), 0..1."""
    completed: Bools
    """(H, W), True where the depth was filled in from its surroundings, not measured."""
    normal: Floats32
    """(H, W, 3), unit, world frame, towards the camera; zeros where there is no depth."""


@dataclass(frozen=True, eq=False)
class Cloud:
    """Surface points."""

    points: Floats32
    """(N, 3), metres."""
    normals: Floats32
    """(N, 3), unit."""
    colors: Bytes
    """(N, 3), RGB."""
    spacing: Floats32
    """(N,), distance to the neighbouring samples, metres."""


# --- scaffold ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Georeference:
    """Where the local frame lies: x_original = x_local + offset, exactly."""

    offset: Floats
    """(3,), metres; zero when the model's own coordinates are small enough."""
    crs: str | None = None
    """Name of the original coordinate system, e.g. EPSG:32650, where known."""
    enu_origin: tuple[float, float, float] | None = None
    """Latitude (deg), longitude (deg), height (m) of the original frame's origin when it is a local ENU frame."""
    moved: Floats | None = None
    """(3,), what the loader subtracted from the user's files; None means the offset. It is another one where the files
    were local already and came with an offset of their own."""


class UpSource(Enum):
    """What the up direction of a scaffold rests on."""

    GIVEN = "given"
    GEOREFERENCE = "georeference"
    MODEL_AXIS = "model-axis"
    """The cameras and points agree with the model's z axis to a few degrees, so z it is."""
    CAMERAS = "cameras"
    """Level image axes of the photos."""
    POINTS = "points"
    """Normal of the dominant plane beneath the cameras."""


@dataclass(frozen=True, eq=False)
class Tracks:
    """Observations of 3D points in images, flat arrays of one length."""

    point: Ints
    """(K,), index into the points."""
    image: Ints
    """(K,), index into the views."""
    xy: Floats
    """(K, 2), pixels."""


@dataclass(frozen=True, eq=False)
class Scaffold:
    """The fixed aerial reference: posed photos, sparse points, up and ground; local frame."""

    root: Path
    views: tuple[View, ...]
    points: Floats
    """(M, 3), metres."""
    point_colors: Bytes
    """(M, 3), RGB."""
    point_ids: Ints
    """(M,), COLMAP point ids."""
    tracks: Tracks
    """Empty for a model that came without tracks."""
    up: Floats
    """(3,), unit."""
    ground: Plane
    georef: Georeference
    splats_path: Path | None = None
    """Aerial Gaussian model, INRIA .ply, in the model's original frame."""
    model_path: Path | None = None
    """Folder with the COLMAP files it was read from."""
    up_source: UpSource = UpSource.GIVEN


@dataclass(frozen=True, eq=False)
class VisibilityGraph:
    """Directed top-N_vis neighbours of every aerial view by footprint overlap, best first."""

    neighbours: tuple[Ints, ...]
    """Per view, indices of its neighbours."""
    weights: tuple[Floats, ...]
    """Per view, footprint IoU of each neighbour, 0..1."""


# --- sequence ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frame:
    """One photo of the ground sequence."""

    index: int
    """Position in the sequence, from 0."""
    name: str
    path: Path
    mask_path: Path | None = None


@dataclass(frozen=True)
class Submap:
    """A contiguous run of frames with an anchor group at each end."""

    index: int
    frames: tuple[int, ...]
    front: tuple[int, ...]
    """Frames of the front anchor group."""
    rear: tuple[int, ...]
    """Frames of the rear anchor group."""


@dataclass(frozen=True)
class AnchorGroup:
    """Consecutive frames that are localised together."""

    index: int
    frames: tuple[int, ...]
    submaps: tuple[int, ...]
    """Submaps whose front or rear lies in this group (two at a shared boundary)."""


@dataclass(frozen=True, eq=False)
class Sequence:
    """Unposed ground photos in order, one camera."""

    root: Path
    frames: tuple[Frame, ...]
    camera: Camera
    camera_is_guess: bool
    """True when the focal length was assumed and later stages may refine it."""
    submaps: tuple[Submap, ...]
    groups: tuple[AnchorGroup, ...]
    gps: tuple[tuple[float, float, float] | None, ...] = ()
    """Per frame EXIF latitude, longitude (deg), altitude (m); empty when no frame has any."""
    focal_sigma: float = 0.0
    """Relative standard deviation of the focal length: 0 as given, a few per cent from EXIF, much for a guess."""
    cuts: tuple[int, ...] = ()
    """Frames that begin a new stretch, in order: nothing is known of the way to them."""

    def stretch_of(self, frame: int) -> int:
        """Number of the stretch between cuts that a frame lies in."""
        return bisect_right(self.cuts, frame)


# --- stage results ----------------------------------------------------------------------------------------------


class Reason(StrEnum):
    """Why something got no pose; `report.advice` and docs/stages.md say what each means and what to try."""

    # two views
    TOO_FEW_MATCHES = "too-few-matches"
    NO_COMMON_GEOMETRY = "no-common-geometry"

    # the frame of splats
    NO_COMMON_FRAME = "no-common-frame"

    # the shape of an anchor group
    NO_GROUND_MATCHES = "no-ground-matches"
    GROUP_FALLS_APART = "group-falls-apart"
    TOO_FEW_GROUND_POINTS = "too-few-ground-points"
    STANDS_STILL = "stands-still"
    CONTRADICTS_MATCHES = "contradicts-matches"
    NOT_RECONSTRUCTED = "not-reconstructed"
    FEED_FORWARD_REFUSED = "feed-forward-refused"

    # the place of an anchor group
    NO_PLACE = "no-place"
    NO_SEED = "no-seed"
    PLACE_NOT_CONFIRMED = "place-not-confirmed"
    NOTHING_LEFT = "nothing-left"
    AMBIGUOUS_PLACE = "ambiguous-place"
    """Only knowledge from outside the group can lift it."""

    # the verdict on an anchor group
    TOO_LITTLE_SUPPORT = "too-little-support"
    TOO_MANY_DISAGREE = "too-many-disagree"
    LOOK_ALIKE = "look-alike"
    FRAMES_WITHOUT_SUPPORT = "frames-without-support"
    TOO_FEW_AERIAL_VIEWS = "too-few-aerial-views"
    SUPPORT_IN_ONE_SPOT = "support-in-one-spot"
    GROUND_REPROJECTION = "ground-reprojection"
    AERIAL_REPROJECTION = "aerial-reprojection"
    CAMERA_TILT = "camera-tilt"
    CAMERA_HEIGHT = "camera-height"
    SHAPE_BENT = "shape-bent"
    SHAPE_TURNED = "shape-turned"
    HALVES_DISAGREE = "halves-disagree"
    SCALE_OF_HALVES = "scale-of-halves"
    TOO_UNCERTAIN = "too-uncertain"
    COLLINEAR_CAMERAS = "collinear-cameras"
    SIMILARITY_RESIDUAL = "similarity-residual"
    ROUTES_DISAGREE = "routes-disagree"
    EARLIER_WALK_DISAGREES = "earlier-walk-disagrees"

    # anchor groups among each other
    OFF_THE_WALK = "off-the-walk"
    NOT_BORNE_OUT = "not-borne-out"

    # a frame of the trajectory
    NO_ANCHORS = "no-anchors"
    NO_START = "no-start"
    NOT_REACHED = "not-reached"
    NO_OVERLAP = "no-overlap"
    TOO_FEW_POINTS = "too-few-points"
    TOO_FEW_INLIERS = "too-few-inliers"
    POOR_COVERAGE = "poor-coverage"
    IMPOSSIBLE_MOTION = "impossible-motion"
    ZOOMED = "zoomed"
    STRAY_ANCHOR = "stray-anchor"
    CONTRADICTS_TRAJECTORY = "contradicts-trajectory"
    TOO_FEW_ANCHORS = "too-few-anchors"
    DEGENERATE_ANCHORS = "degenerate-anchors"
    CONTRADICTS_ANCHORS = "contradicts-anchors"


@dataclass(frozen=True)
class Refusal:
    """Why something got no pose: a value, never a substitute pose."""

    reason: Reason
    detail: str
    """One sentence for people, with the figures that decided."""
    figures: dict[str, float] = field(default_factory=dict)
    """More of them, for people only: nothing reads them."""


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


@dataclass(frozen=True)
class LensWord:
    """What a group that stands says of its camera beyond the focal length, with standard deviations."""

    k1: float
    """Radial distortion that the photos still have, x' = x (1 + k1 r²)."""
    k1_sigma: float
    readout: float
    """Time from the first row of a photo to its last, over that to the next frame."""
    readout_sigma: float


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
    lens: LensWord | None = field(default=None, metadata=QUIET)
    """What it says of its camera; None where it was refused, or tells nothing."""

    @property
    def accepted(self) -> bool:
        """Whether the group has poses."""
        return self.refusal is None


@dataclass(frozen=True, eq=False)
class Anchors:
    """Stage 1 result: one verdict per group, and the camera they were solved with."""

    groups: tuple[LocalisedGroup, ...]
    camera: Camera
    lens: LensWord | None = field(default=None, metadata=QUIET)
    """What the accepted groups together say of the camera beyond that; None where they say nothing."""


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
    """Stage 2 result: a pose or a reason for every input frame, and the ground points behind them."""

    frames: tuple[PosedFrame, ...]
    camera: Camera
    points: Floats
    """(M, 3), metres."""
    point_colors: Bytes
    """(M, 3), RGB."""
    tracks: Tracks
    """`image` indexes the sequence's frames."""
