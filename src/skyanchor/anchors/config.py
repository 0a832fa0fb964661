"""Settings of the anchor stage, composed from those of its steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from skyanchor.anchors.adjustment import AdjustmentConfig
from skyanchor.anchors.paper_route.mixed import MixedConfig
from skyanchor.anchors.place_finding import PlacesConfig
from skyanchor.anchors.priors import Prior
from skyanchor.anchors.shape.incremental import LocalConfig
from skyanchor.anchors.solve import SolveConfig
from skyanchor.anchors.verdict import VerdictConfig
from skyanchor.bounds import (
    Coordinate,
    CountOrNone,
    Degrees,
    Few,
    FewOrNone,
    Keypoints,
    NotNegative,
    Pixels,
    Positive,
    Range,
    Share,
)
from skyanchor.bridges.views import BridgeConfig
from skyanchor.feedforward.choices import AnyLocal, Incremental
from skyanchor.matching import AnyMatcher, AnySparse, Sift, VerifyConfig, XFeat, XFeatStar
from skyanchor.matching.global_descriptors import AnyDescriptor, SceneVlad
from skyanchor.types import QUIET

Route: TypeAlias = Literal["bridges", "paper", "both"]
"""How a group finds its place: by bridge views, the paper's way, or by bridge views with the paper's way beside it."""


@dataclass(frozen=True)
class AnchorAblation:
    """The paper's switches and ours; all on is the method."""

    bridges: bool = True
    """Bridge views; off, the frames are matched with aerial photos directly (retrieval, seed, graph neighbours)."""
    visibility_graph: bool = True
    """Graph neighbours of the seed support a group, where aerial photos are matched: not with bridges alone."""
    ground_first: bool = True
    """The group's own shape is reconstructed first; off, poses of single frames by aerial evidence start it."""
    metric_alignment: bool = True
    """Re-rendered bridges and the fixed-aerial adjustment; off, poses are those of place finding."""
    single_frame: bool = False
    """Every frame of a group is localised on its own."""


@dataclass(frozen=True)
class ConfirmConfig:
    """Bridges re-rendered at the estimate."""

    width: Pixels = 640
    """Of the bridges, pixels; ground photos are matched at this width too."""
    matcher: AnyMatcher = field(default_factory=lambda: XFeatStar(keypoints=4000, longest=640))
    """Ground frames with bridges."""
    last: AnyMatcher | None = field(default_factory=lambda: Sift(keypoints=4000, longest=640))
    """The same once more for a group that stands, to place it more exactly; None leaves it at the first."""
    rounds: Few = 2
    """Render, match, solve."""
    frames: tuple[Few, Few] = (3, 8)
    """Frames of the group that are matched in the first round and in the later ones, at most."""
    solve: SolveConfig = field(default_factory=lambda: SolveConfig(threshold=4.0, trials=(200, 2000)))
    """Group pose from those matches."""
    least_support: CountOrNone = 20
    """Distinct agreeing matches below which a place is dropped after the first round."""
    least_glance: CountOrNone = 5
    """Those of the middle frame alone below which a place is dropped before other frames are looked at."""


@dataclass(frozen=True)
class LadderConfig:
    """What is tried before a group is given up."""

    places: Few = 3
    """Places per attempt that are refined, best supported first."""
    ambiguous: Share = 0.6
    """A second place with more than this share of the support makes the group ambiguous."""
    apart: NotNegative = 4.0
    """Places nearer than this are one place, metres."""
    shade: bool = False
    """Whether a second attempt is made with features that see through cast shadows and sunlit patches.

    It finds places in leaf shade that nothing else finds, but wrong places come nearer to the limits of the verdict.
    """
    wider_search: Few = 2
    """Factor on the shortlist and the seeds of the third attempt."""
    enlarge: Few = 12
    """Frames of the enlarged group."""
    shift: FewOrNone = 6
    """Frames by which a group is shifted into its submap."""


@dataclass(frozen=True)
class PriorConfig:
    """What narrows the search."""

    near: tuple[Prior, ...] = ()
    """Given by the user: the sequence stays within one of these circles and areas."""
    gps_radius: NotNegative = 25.0
    """Error of EXIF positions at most, metres; 0 ignores them."""


@dataclass(frozen=True)
class OdometryConfig:
    """Dead reckoning between anchor groups."""

    matcher: AnySparse = field(default_factory=lambda: Sift(keypoints=4000))
    """Consecutive frames; as that of the trajectory, which then finds the features there."""
    strongest: Keypoints = 1500
    """Keypoints of a frame that are matched."""
    verify: VerifyConfig = field(default_factory=lambda: VerifyConfig(trials=(50, 20_000)))
    still: NotNegative = 0.001
    """Median motion of the picture below which the walker stood, image widths."""
    drift: NotNegative = 0.3
    """Error of dead reckoning over the way walked: paces differ, turns add up."""
    slack: NotNegative = 5.0
    """Plus this, metres."""


@dataclass(frozen=True)
class WalkVotesConfig:
    """How a stretch of the walk votes on where a group stands."""

    above: CountOrNone = 2000
    """Views of the index beyond which the walk votes; fewer are told apart by a group alone."""
    reach: Few = 48
    """Frames on either side of the group's middle that vote, at most: dead reckoning drifts."""
    every: Few = 3
    """One of so many frames votes."""
    paces: tuple[Positive, Positive, Few] = (0.12, 3.0, 15)
    """Shortest and longest step between frames that is tried, metres, and how many, evenly in their logarithm."""
    directions: Few = 24
    """Directions of the middle frame that are tried."""
    clip: tuple[Coordinate, Coordinate] = (-1.0, 5.0)
    """Least and most that one frame says for a place, standard deviations of its likeness to all places."""
    hints: Few = 12
    """Positions that are handed on, the best first."""
    radius: Positive = 12.0
    """The group is looked for so far from each of them, metres."""


@dataclass(frozen=True)
class FocalConfig:
    """How the focal length of a camera is found that nobody described."""

    factors: tuple[Annotated[float, Range(0.01, 100.0)], ...] = (0.49, 0.58, 0.69, 0.83, 1.0, 1.2, 1.44)
    """Focal lengths that are tried, over the guessed one."""
    voters: Few = 3
    """Groups that vote on it, spread over the walk."""
    vote_above: NotNegative = 0.1
    """Relative standard deviation of the focal length above which several are tried; EXIF is better known."""
    turns: FewOrNone = 6
    """A group is refined again with the focal length it found, at most so often."""
    settled: NotNegative = 0.002
    """Until that changes by less than this fraction."""
    again_within: Positive = 15.0
    """Where a group is looked for with the focal length that all agree on, metres from where it was found."""
    alike: NotNegative = 0.01
    """A group whose own focal length is within this fraction of that one keeps its odds: the last look is enough."""
    unbend: FewOrNone = 3
    """Turns in which distortion that the groups agree on is taken out of the photos, at most, k1 alone and then as
    often with k2; 0 leaves it in."""


@dataclass(frozen=True)
class PaperSupportConfig:
    """Support from aerial photos, the paper's way; used by the paper's route, and when bridges are off."""

    retrieved: Few = 20
    """N_ret, aerial candidates per frame."""
    near: FewOrNone = 3
    """N_near, graph neighbours per seed."""
    matcher: AnyMatcher = field(default_factory=lambda: XFeat(keypoints=4000, longest=1600))
    """Frames with aerial photos; the paper's is Aerial-MASt3R."""
    descriptor: AnyDescriptor = field(default_factory=SceneVlad)
    """Which aerial photos are candidates; the paper's is AnyLoc."""
    verify: VerifyConfig = field(default_factory=VerifyConfig)
    """Two-view verification of the candidates."""


@dataclass(frozen=True)
class EarlierConfig:
    """How keyframes of earlier walks support a group; asked only where there are such walks."""

    recalled: Few = 8
    """Keyframes that a group is matched with, at most: those that look most like it."""
    frames: Few = 6
    """Frames of the group that are matched with them, at most."""
    reach: Few = 3
    """Recalled keyframes are matched with so many after them, to triangulate what they see."""
    least_angle_deg: Degrees = 1.5
    """Triangulation angle of a point that counts, degrees."""
    most_depth: Positive = 80.0
    """Distance of such a point, at most, metres."""
    most_sigmas: Positive = 5.0
    """Position, turn or scale by the flight alone and by earlier walks alone differ by at most this many of the
    standard deviations that they state; beyond it they contradict each other."""


@dataclass(frozen=True)
class AnchorConfig:
    """Stage 2: cross-view anchor localisation."""

    route: Route = "bridges"
    """By views of the aerial model drawn from the street (bridges), by aerial photos registered into the group's own
    reconstruction (paper), or by bridges with the distance to where the paper's way leads in the verdict (both)."""
    bridge: BridgeConfig = field(default_factory=BridgeConfig)
    places: PlacesConfig = field(default_factory=PlacesConfig)
    ground_matcher: AnySparse = field(default_factory=lambda: Sift(keypoints=4000))
    """Frames of a group with each other."""
    local: LocalConfig = field(default_factory=LocalConfig)
    shape: AnyLocal = field(default_factory=Incremental)
    """Where a group's own shape comes from; matches between its frames confirm or refuse it."""
    refine: ConfirmConfig = field(default_factory=ConfirmConfig)
    adjustment: AdjustmentConfig = field(default_factory=AdjustmentConfig)
    verdict: VerdictConfig = field(default_factory=VerdictConfig)
    ladder: LadderConfig = field(default_factory=LadderConfig)
    prior: PriorConfig = field(default_factory=PriorConfig)
    odometry: OdometryConfig = field(default_factory=OdometryConfig)
    votes: WalkVotesConfig = field(default_factory=WalkVotesConfig)
    focal: FocalConfig = field(default_factory=FocalConfig)
    paper: PaperSupportConfig = field(default_factory=PaperSupportConfig)
    mixed: MixedConfig = field(default_factory=MixedConfig)
    ablation: AnchorAblation = field(default_factory=AnchorAblation)
    earlier: EarlierConfig = field(default_factory=EarlierConfig, metadata=QUIET)

    @property
    def unused(self) -> tuple[str, ...]:
        """Settings that play no part under the switches."""
        return ("paper", "mixed") if self.ablation.bridges and self.route == "bridges" else ()
