"""A group where keyframes of earlier walks alone put it, or why they do not.

Points that these keyframes see take the place of the surface: the group is solved, adjusted and judged on them as it is
on what it shares with the flight. Several earlier walks must agree with each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np

from skyanchor.anchors.adjustment import FixedAerial, adjust_against
from skyanchor.anchors.earlier_walks.keyframes import EarlierWalks
from skyanchor.anchors.earlier_walks.stated import compared, contradiction, stated_by
from skyanchor.anchors.earlier_walks.street_points import (
    StreetPoints,
    match_street,
    recalled,
    sightings_in_keyframes,
    street_points,
)
from skyanchor.anchors.evidence import CrossMatches, GroupAt, distinct_support, sightings, subset
from skyanchor.anchors.place_refinement import Settled
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.solve import solve_group
from skyanchor.anchors.verdict import compare_halves, judge, measure
from skyanchor.geometry import rigid
from skyanchor.types import Floats, Ints, Overlap, Pose, Reason, Refusal


@dataclass(frozen=True, eq=False)
class OnWalks:
    """A group where earlier walks put it."""

    settled: Settled
    street: StreetPoints
    overlap: Overlap | None
    """None where it did not come to an adjustment."""


def settle_on_walks(search: Search, earlier: EarlierWalks, local: LocalGroup) -> OnWalks:
    """The group's place by keyframes of earlier walks alone, or why there is none."""
    config = search.config
    with search.frames.clock.step("earlier walks"):
        street = street_points(earlier, recalled(search, earlier, local.frames), config)
        matches = match_street(search, local, street)
    whole = _settled_by(search, earlier, local, street, matches)
    return _unless_walks_differ(search, earlier, local, matches, whole)


def _settled_by(
    search: Search, earlier: EarlierWalks, local: LocalGroup, street: StreetPoints, matches: CrossMatches
) -> OnWalks:
    """The group's place by some matches with points of earlier walks, or why there is none."""
    clock, config = search.frames.clock, search.config
    with clock.step("group pose"):
        seen = sightings(matches, search.camera)
        solution = solve_group(seen, local.cams_from_local, search.prepared.ground.up, config.refine.solve)
    support = 0 if solution is None else distinct_support(matches, solution.inliers, search.camera.width / 100.0)
    if solution is None or support < config.refine.least_support:
        text = f"Only {support} matches agree with keyframes of earlier walks."
        refusal = Refusal(Reason.PLACE_NOT_CONFIRMED, text, {"support": float(support)})
        return OnWalks(Settled(local, None, refusal, support=support), street, None)
    at = GroupAt(local, search.camera, solution, matches)
    with clock.step("adjustment"):
        sightings_of = partial(sightings_in_keyframes, earlier, street)
        done = adjust_against(at, sightings_of, config.adjustment, not search.lens.known)
    if done is None:
        gone = Refusal(Reason.NOTHING_LEFT, "Keyframes of earlier walks confirm too few of the matches.")
        return OnWalks(Settled(local, None, gone), street, None)
    settled = _judged(search, at, done, _stated_m(earlier, street, done.aerial_views))
    doubt = _elsewhere(search, at, settled)
    settled = settled if doubt is None else replace(settled, refusal=doubt)
    return OnWalks(settled, street, _carried(search, earlier, street, settled))


def _judged(search: Search, at: GroupAt, done: FixedAerial, shared_m: float) -> Settled:
    """An adjusted group with its figures and the verdict on it."""
    with search.frames.clock.step("halves compared"):
        halves = compare_halves(at.agreeing, at.local, at.camera, at.solution.world_from_local)
    figures = measure(at, done, halves, search.prepared.ground, search.config.verdict)
    refusal = judge(figures, search.config.verdict)
    return Settled(at.local, done, refusal, figures, figures.support, at, shared_m=shared_m)


def _stated_m(earlier: EarlierWalks, street: StreetPoints, sources: Ints) -> float:
    """What earlier runs state of the keyframes that matches came from (M,), in the mean over the matches, metres."""
    stated = np.array([earlier.keyframes[k].sigma_m for k in street.keyframes])
    return float(stated[sources].mean())


def _elsewhere(search: Search, at: GroupAt, settled: Settled) -> Refusal | None:
    """A refusal when keyframes agree nearly as well with another place."""
    ladder, rest = search.config.ladder, subset(at.matches, ~at.solution.inliers)
    seen = sightings(rest, at.camera)
    other = solve_group(seen, at.local.cams_from_local, search.prepared.ground.up, search.config.refine.solve)
    if other is None:
        return None
    support = distinct_support(rest, other.inliers, at.camera.width / 100.0)
    apart_m = float(np.linalg.norm(_centres(other.cams_from_world) - _centres(at.solution.cams_from_world)))
    if apart_m <= ladder.apart or support <= ladder.ambiguous * settled.support:
        return None
    figures = {"apart_m": apart_m, "support": float(settled.support), "other_support": float(support)}
    text = f"Keyframes of earlier walks fit a place {apart_m:.0f} m away nearly as well."
    return Refusal(Reason.AMBIGUOUS_PLACE, text, figures)


def _centres(poses: tuple[Pose, ...]) -> Floats:
    """(3,), mean camera centre, metres."""
    return np.asarray(rigid.centres_in_world(poses).mean(axis=0))


def _carried(search: Search, earlier: EarlierWalks, street: StreetPoints, settled: Settled) -> Overlap:
    """What the earlier walks say, as long as nothing else does."""
    assert settled.done is not None
    count = np.bincount(settled.done.aerial_views, minlength=len(street.keyframes))
    real = [k for k, n in zip(street.keyframes, count, strict=True) if n >= search.config.verdict.least_view_support]
    walks = tuple(dict.fromkeys(earlier.keyframes[k].walk for k in real))
    return Overlap(walks, len(real), settled.support, carried=True)


def _unless_walks_differ(
    search: Search, earlier: EarlierWalks, local: LocalGroup, matches: CrossMatches, whole: OnWalks
) -> OnWalks:
    """What all earlier walks say together, as long as those that place the group by themselves bear it out.

    Walks that contradict each other refuse it. Where they agree, what they say together must lie no farther from each
    of them than they lie apart, or than one standard deviation: points of two walks that are a little apart also fit
    together by a wrong scale, the left front of one and the right front of the other. Then the surest speaks alone.
    """
    walks = np.array([earlier.keyframes[k].walk for k in whole.street.keyframes])
    names = tuple(dict.fromkeys(walks))
    if len(names) < 2:
        return whole
    parts = [subset(matches, np.flatnonzero(walks[matches.source] == name)) for name in names]
    found = [_settled_by(search, earlier, local, whole.street, part) for part in parts]
    alone = [one for one in found if one.settled.placed and one.overlap is not None]
    pairs = [_apart(search, a, b) for a, b in combinations(alone, 2)]
    if not pairs:
        return whole
    worst = max(pairs, key=lambda one: one.sigmas)
    if worst.sigmas > search.config.earlier.most_sigmas:
        differ = replace(whole.settled, refusal=contradiction(worst, "The earlier walks"))
        said = Overlap(worst.walks, worst.keyframes, worst.support, carried=False)
        return replace(whole, settled=differ, overlap=said)
    bound = max(1.0, worst.sigmas)
    if not whole.settled.placed or all(_apart(search, whole, one).sigmas <= bound for one in alone):
        return whole
    return min(alone, key=lambda one: stated_by(search, one.settled).position_m)


def _apart(search: Search, one: OnWalks, other: OnWalks) -> Overlap:
    """How far two settled places lie apart, by walks that say so."""
    assert one.overlap is not None and other.overlap is not None
    walks = tuple(dict.fromkeys((*one.overlap.walks, *other.overlap.walks)))
    return compared(search, one.settled, other.settled, replace(one.overlap, walks=walks))
