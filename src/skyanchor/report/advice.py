"""What each refusal means and what a person may try, in plain words; the report and docs/stages.md say the same."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Advice:
    """A reason explained."""

    meaning: str
    """One sentence, no full stop."""
    remedy: str
    """What to try, no full stop."""


_OTHER_FRAMES = "frames with walls and ground in view, not only sky, trees and cars; a sharper or slower video"
_NEAR = "--near x,y,radius or --within AREA if you know roughly where the walk was; is it in the flown area at all?"
_CALIBRATE = (
    "the camera's calibration, --camera PINHOLE,fx,fy,cx,cy or --camera f=PIXELS: a guessed focal length may be far off"
)
_UP = "`skyanchor scaffold check` and its up and ground; give them if they are wrong"
_GIVEN = "another `anchors.shape`, or depth maps made from these very photos"
_STEPS = "sharper frames, a slower walk, smaller steps between frames"

GROUPS = MappingProxyType(
    {
        "no-place": Advice("no place of the aerial model looks like these frames", _NEAR),
        "no-seed": Advice(
            "no aerial photo could be matched with any of the frames", "the bridge views, which are the default"
        ),
        "place-not-confirmed": Advice(
            "a view of the model rendered at the best place does not look like the frames", _NEAR
        ),
        "nothing-left": Advice("the real aerial photos do not confirm what the rendered view suggested", _NEAR),
        "ambiguous-place": Advice(
            "a second place fits nearly as well", f"{_NEAR} A longer walk also helps, other groups then decide"
        ),
        "not-borne-out": Advice(
            "much of what matches disagrees, as at a look-alike place, and no other group confirms it",
            "a longer walk, so that there are more groups; `--near` or `--within`",
        ),
        "off-the-walk": Advice("the group was put where the walk cannot have gone", "nothing: a look-alike was caught"),
        "too-little-support": Advice("too few places in the frames agree with the aerial photos", _OTHER_FRAMES),
        "too-many-disagree": Advice("most matches with the aerial photos contradict the pose", _OTHER_FRAMES),
        "frames-without-support": Advice("some frames of the group see nothing of the aerial model", _OTHER_FRAMES),
        "too-few-aerial-views": Advice(
            "fewer than four aerial photos confirm it", "more oblique photos of that street"
        ),
        "support-in-one-spot": Advice("all agreement lies in one spot of the image", _OTHER_FRAMES),
        "ground-reprojection": Advice("the frames do not fit together to a pixel", _CALIBRATE),
        "aerial-reprojection": Advice(
            "the aerial photos do not fit the group to a pixel",
            "the aerial model's own reprojection error, `skyanchor scaffold check`",
        ),
        "camera-tilt": Advice("the cameras would lie on their side", _UP),
        "camera-height": Advice(
            "the cameras would stand below the ground or high above it", f"{_UP}. Else {_CALIBRATE}"
        ),
        "shape-bent": Advice("the pose bends the path that the frames have among themselves", _CALIBRATE),
        "shape-turned": Advice("the pose turns the frames against each other", _CALIBRATE),
        "halves-disagree": Advice("two halves of the evidence give different places", _CALIBRATE),
        "scale-of-halves": Advice("two halves of the evidence give different scales", _CALIBRATE),
        "too-uncertain": Advice("the standard deviation is above the limit", _OTHER_FRAMES),
        "no-ground-matches": Advice("no two frames of the group match each other", _STEPS),
        "contradicts-matches": Advice("the shape that was given for the group does not fit its matches", _GIVEN),
        "not-reconstructed": Advice("the feed-forward reconstruction has no pose or depth for some frames", _GIVEN),
        "feed-forward-refused": Advice(
            "the shape of the feed-forward reconstruction does not fit the group's matches", _GIVEN
        ),
        "group-falls-apart": Advice("the frames of the group do not hang together", _STEPS),
        "stands-still": Advice(
            "the frames were taken from one place, which tells no distances", "frames from a walk, not a turn"
        ),
        "too-few-ground-points": Advice("too few points hold the frames of the group together", _STEPS),
    }
)
"""Reasons of refused anchor groups."""


def explained(reason: str) -> Advice:
    """The advice on a reason; empty words for one that is not known."""
    return GROUPS.get(reason, Advice("", ""))
