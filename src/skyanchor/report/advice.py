"""What each refusal means and what a person may try, in plain words; the report and docs/stages.md say the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

from skyanchor.types import Reason


@dataclass(frozen=True)
class Advice:
    """A reason explained."""

    meaning: str
    """One sentence, no full stop."""
    remedy: str
    """What to try, no full stop."""


@dataclass(frozen=True)
class Known:
    """What the user has said already, so that nobody advises it."""

    place: bool = False
    """Where the walk was."""
    camera: bool = False
    """The street camera."""


FLOWN = "is the walk in the flown area at all?"
WHERE_SAID = "was the walk really where you said?"
_OTHER_FRAMES = "frames with walls and ground in view, not only sky, trees and cars; a sharper or slower video"
_NEAR, _NARROW, _CALIBRATE = "{place}", "{narrow}", "{camera}"
"""Stand for words below, by what is known."""
_UNKNOWN = MappingProxyType(
    {
        "place": f"--near x,y,radius or --within AREA if you know roughly where the walk was; {FLOWN}",
        "narrow": "--near x,y,radius or --within AREA if you know roughly where the walk was.",
        "camera": "the camera's calibration, --camera PINHOLE,fx,fy,cx,cy or --camera f=PIXELS: "
        "a guessed focal length may be far off",
    }
)
_SAID = MappingProxyType(
    {
        "place": f"a larger radius or area, or none: {WHERE_SAID}",
        "narrow": "a smaller radius or area, if you know better where the walk was.",
        "camera": "the camera again: is it that of these photos, at their size in pixels?",
    }
)
_UP = "`skyanchor scaffold check` and its up and ground; give them if they are wrong"
_GIVEN = "another `anchors.shape`, or depth maps made from these very photos"
_STEPS = "sharper frames, a slower walk, smaller steps between frames"
_MASKS = f"{_STEPS}; masks over what moves"
_CAUGHT = "nothing: a look-alike was caught"
_INCREMENTAL = "the incremental map, which is the default"

ADVICE = MappingProxyType(
    {
        Reason.NO_PLACE: Advice("no place of the aerial model looks like these frames", _NEAR),
        Reason.NO_SEED: Advice(
            "no aerial photo could be matched with any of the frames", "the bridge views, which are the default"
        ),
        Reason.PLACE_NOT_CONFIRMED: Advice(
            "a view of the model rendered at the best place does not look like the frames", _NEAR
        ),
        Reason.NOTHING_LEFT: Advice("the real aerial photos do not confirm what the rendered view suggested", _NEAR),
        Reason.AMBIGUOUS_PLACE: Advice(
            "a second place fits nearly as well", f"{_NARROW} A longer walk also helps, other groups then decide"
        ),
        Reason.NOT_BORNE_OUT: Advice(
            "too little of what should be seen there is recognised, and no sure group confirms it",
            f"a longer walk, so that there are more groups; {_NEAR}",
        ),
        Reason.LOOK_ALIKE: Advice(
            "a part of the frames looks like that place, most fronts beside it do not: another place that looks alike",
            f"{_NEAR}; a walk on a day with light like that of the flight",
        ),
        Reason.OFF_THE_WALK: Advice("the group was put where the walk cannot have gone", _CAUGHT),
        Reason.TOO_LITTLE_SUPPORT: Advice("too few places in the frames agree with the aerial photos", _OTHER_FRAMES),
        Reason.TOO_MANY_DISAGREE: Advice("most matches with the aerial photos contradict the pose", _OTHER_FRAMES),
        Reason.FRAMES_WITHOUT_SUPPORT: Advice(
            "some frames of the group see nothing of the aerial model", _OTHER_FRAMES
        ),
        Reason.TOO_FEW_AERIAL_VIEWS: Advice(
            "fewer than four aerial photos confirm it", "more oblique photos of that street"
        ),
        Reason.SUPPORT_IN_ONE_SPOT: Advice("all agreement lies in one spot of the image", _OTHER_FRAMES),
        Reason.GROUND_REPROJECTION: Advice("the frames do not fit together to a pixel", _CALIBRATE),
        Reason.AERIAL_REPROJECTION: Advice(
            "the aerial photos do not fit the group to a pixel",
            "the aerial model's own reprojection error, `skyanchor scaffold check`",
        ),
        Reason.CAMERA_TILT: Advice("the cameras would lie on their side", _UP),
        Reason.CAMERA_HEIGHT: Advice(
            "the cameras would stand below the ground or high above it", f"{_UP}. Else {_CALIBRATE}"
        ),
        Reason.SHAPE_BENT: Advice("the pose bends the path that the frames have among themselves", _CALIBRATE),
        Reason.SHAPE_TURNED: Advice("the pose turns the frames against each other", _CALIBRATE),
        Reason.HALVES_DISAGREE: Advice("two halves of the evidence give different places", _CALIBRATE),
        Reason.SCALE_OF_HALVES: Advice("two halves of the evidence give different scales", _CALIBRATE),
        Reason.TOO_UNCERTAIN: Advice("the standard deviation is above the limit", _OTHER_FRAMES),
        Reason.COLLINEAR_CAMERAS: Advice(
            "the aerial photos that show the place were taken along one line", "`--anchors.mixed.orientations`"
        ),
        Reason.SIMILARITY_RESIDUAL: Advice(
            "the aerial photos, put together with the frames, do not lie as the aerial model says", _OTHER_FRAMES
        ),
        Reason.ROUTES_DISAGREE: Advice("bridge views and the paper's way lead to different places", _CAUGHT),
        Reason.EARLIER_WALK_DISAGREES: Advice(
            "the flight and an earlier walk, or two earlier walks, put the group farther apart than both state",
            "which of them is wrong: the earlier run without --onto, its anchors in its report",
        ),
        Reason.NO_GROUND_MATCHES: Advice("no two frames of the group match each other", _STEPS),
        Reason.CONTRADICTS_MATCHES: Advice("the shape that was given for the group does not fit its matches", _GIVEN),
        Reason.NOT_RECONSTRUCTED: Advice(
            "the feed-forward reconstruction has no pose or depth for some frames", _GIVEN
        ),
        Reason.FEED_FORWARD_REFUSED: Advice(
            "the shape of the feed-forward reconstruction does not fit the group's matches", _GIVEN
        ),
        Reason.GROUP_FALLS_APART: Advice("the frames of the group do not hang together", _STEPS),
        Reason.STANDS_STILL: Advice(
            "the frames were taken from one place, which tells no distances", "frames from a walk, not a turn"
        ),
        Reason.TOO_FEW_GROUND_POINTS: Advice("too few points hold the frames of the group together", _STEPS),
        Reason.NO_ANCHORS: Advice("no group was accepted, so nothing ties the frame to the aerial model", _NEAR),
        Reason.NO_START: Advice("the map of its submap did not start", _STEPS),
        Reason.NOT_REACHED: Advice("the map did not grow as far as this frame", _STEPS),
        Reason.NO_OVERLAP: Advice("the frame has nothing in common with the map", _STEPS),
        Reason.TOO_FEW_POINTS: Advice("too little of the map is seen", _MASKS),
        Reason.TOO_FEW_INLIERS: Advice("too few points of the map agree with one pose", _MASKS),
        Reason.POOR_COVERAGE: Advice("the map is seen in one corner of the frame only", _MASKS),
        Reason.IMPOSSIBLE_MOTION: Advice(
            "the pose would jump farther than the walk's pace allows", "is there a cut in the video? split it there"
        ),
        Reason.ZOOMED: Advice(
            "another focal length explains far more of what the frame shows: the camera zoomed",
            "the walk as two, cut where the zoom changes, each with its own focal length",
        ),
        Reason.STRAY_ANCHOR: Advice("its anchor contradicts its own group", "nothing: it was caught"),
        Reason.CONTRADICTS_TRAJECTORY: Advice("the group contradicts the walk between the others", _CAUGHT),
        Reason.TOO_FEW_ANCHORS: Advice("too few anchors hold the feed-forward reconstruction", _INCREMENTAL),
        Reason.DEGENERATE_ANCHORS: Advice("all anchors are in one place, which tells no scale", _INCREMENTAL),
        Reason.CONTRADICTS_ANCHORS: Advice("the feed-forward reconstruction does not fit its anchors", _INCREMENTAL),
        Reason.TOO_FEW_MATCHES: Advice("two photos have too few matches", _STEPS),
        Reason.NO_COMMON_GEOMETRY: Advice("the matches of two photos agree with no pose between them", _STEPS),
        Reason.NO_COMMON_FRAME: Advice(
            "no similarity makes the splats fit the aerial photos", "the splats that were trained on these photos"
        ),
    }
)
"""What every reason means; those of anchor groups first, then those of frames, pairs of photos and splats."""


def explained(reason: Reason, known: Known = Known()) -> Advice:  # noqa: B008
    """The advice on a reason, as it fits what is known."""
    advice = ADVICE[reason]
    said = {"place": known.place, "narrow": known.place, "camera": known.camera}
    words = {name: (_SAID if given else _UNKNOWN)[name] for name, given in said.items()}
    return replace(advice, remedy=advice.remedy.format(**words))
