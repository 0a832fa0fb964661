"""Why something got no pose."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


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
