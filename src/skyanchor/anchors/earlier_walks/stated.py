"""How far two places of one group lie apart, in metres and in what each states of itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skyanchor.anchors.place_refinement import Settled, shared_of
from skyanchor.anchors.search import Search
from skyanchor.anchors.verdict import honest_covariances
from skyanchor.geometry import rigid
from skyanchor.sfm.uncertainty import centre_sigma_m
from skyanchor.types import Floats, Overlap, Pose, Reason, Refusal


@dataclass(frozen=True, eq=False)
class Stated:
    """A settled group and its standard deviations along the worst axis, what all matches share included."""

    poses: tuple[Pose, ...]
    """cam_from_world of each frame."""
    centres: Floats
    """(F, 3), world frame, metres."""
    length: float
    """From the first to the last centre, metres."""
    position_m: float
    """Standard deviation of the group's place."""
    turn_rad: float
    """Of its direction."""
    scale: float
    """Of its scale, as a fraction."""


def stated_by(search: Search, settled: Settled) -> Stated:
    """What a settled group states of itself.

    An error that all matches share moves all that is seen by `shared_m`. Seen from `reach` metres away that may be a
    turn, or a change of scale, of shared_m / reach. The first and the last frame are each off by an error of their own
    too; together these change the length of the group by √2 of one of them. As the position, turn and scale are no
    surer than half of what two halves of the evidence disagree by.
    """
    assert settled.done is not None and settled.at is not None
    done, figures, shared_m = settled.done, settled.figures, shared_of(search, settled)
    covariances = honest_covariances(done, figures.halves_m, shared_m)
    own = covariances[:, 3:, 3:] - shared_m**2 * np.eye(3)
    centres = rigid.centres_in_world(done.cams_from_world)
    length = float(np.linalg.norm(centres[-1] - centres[0]))
    frame = settled.at.agreeing.frame[done.cross]
    reach = float(np.median(np.linalg.norm(done.points - centres[frame], axis=1)))
    turns = np.sqrt([np.linalg.eigvalsh(covariance[:3, :3])[-1] for covariance in covariances])
    ends = np.sqrt(np.maximum(np.linalg.eigvalsh(own)[:, -1], 0.0))
    return Stated(
        done.cams_from_world,
        centres,
        length,
        float(np.mean([centre_sigma_m(covariance) for covariance in covariances])),
        float(np.hypot(max(turns.mean(), 0.5 * np.radians(figures.halves_deg)), shared_m / reach)),
        float(np.hypot(max(np.sqrt(2.0) * ends.mean() / length, 0.5 * figures.halves_scale), shared_m / reach)),
    )


def compared(search: Search, found: Settled, street: Settled, overlap: Overlap) -> Overlap:
    """How far two places of a group, as by the flight and by earlier walks, lie apart, and in what they state."""
    a, b = stated_by(search, found), stated_by(search, street)
    metres = float(np.linalg.norm(a.centres - b.centres, axis=1).mean())
    turns = [rigid.angle_between(p.rotation, q.rotation) for p, q in zip(a.poses, b.poses, strict=True)]
    turn, scale = float(np.mean(turns)), float(abs(np.log(a.length / b.length)))
    return replace(
        overlap,
        carried=False,
        metres=metres,
        degrees=float(np.degrees(turn)),
        scale=scale,
        position_sigmas=metres / float(np.hypot(a.position_m, b.position_m)),
        turn_sigmas=turn / float(np.hypot(a.turn_rad, b.turn_rad)),
        scale_sigmas=scale / float(np.hypot(a.scale, b.scale)),
    )


def contradiction(overlap: Overlap, who: str = "The flight and the earlier walk") -> Refusal:
    """The refusal of a group that two sides put into different places."""
    walks = " and ".join(overlap.walks)
    text = (
        f"{who} {walks} put the group {overlap.metres:.2f} m and {overlap.degrees:.2f} "
        f"degrees apart, {overlap.sigmas:.1f} times what they state."
    )
    figures = {"metres": overlap.metres, "degrees": overlap.degrees, "scale": overlap.scale, "sigmas": overlap.sigmas}
    return Refusal(Reason.EARLIER_WALK_DISAGREES, text, figures)
