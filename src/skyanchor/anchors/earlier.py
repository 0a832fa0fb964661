"""Keyframes of earlier walks as support: street photos whose poses stand as those of the flight do.

Street photos match street photos far better than anything that is seen from above. Those of earlier walks that look
like a group are matched with it, points that two or more of them see are triangulated at their constant poses, and the
group is solved, adjusted and judged on these points as it is on the flight's. Where both say where it stands they must
agree within what they state; where only the earlier walks do, they carry it. So must several earlier walks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np

from skyanchor.anchors.adjustment import FixedAerial, Held, HeldView, adjust_held, held_from_above
from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.evidence import CrossMatches, GroupAt, joined, sightings, subset
from skyanchor.anchors.frames import Lens
from skyanchor.anchors.keyframes import EarlierWalks
from skyanchor.anchors.place import Settled, settle
from skyanchor.anchors.places import distinct_support, spread_voters
from skyanchor.anchors.priors import allowed
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.solve import solve_group
from skyanchor.anchors.verdict import (
    compare_halves,
    honest_covariances,
    judge,
    measure,
    sample_in_photos,
    shared_by_photos,
)
from skyanchor.geometry import rigid
from skyanchor.matching import Features
from skyanchor.matching.retrieval import vlad
from skyanchor.sfm.triangulation import TrackFilter, structure
from skyanchor.sfm.uncertainty import centre_sigma_m
from skyanchor.types import Floats, Ints, Overlap, Pose, Reason, Refusal

OUTLIER_PX = 3.0
"""A keyframe sees a triangulated point at most so far from its keypoint, in the matcher's sigma."""


# --- what earlier walks say -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StreetPoints:
    """Points that recalled keyframes see, triangulated at their constant poses; sightings are sorted by point."""

    keyframes: tuple[int, ...]
    """The recalled ones, by number."""
    seen: tuple[Features, ...]
    """Of each of them."""
    points: Floats
    """(P, 3), metres."""
    point: Ints
    """(K,), point of each sighting."""
    view: Ints
    """(K,), position of its keyframe among the recalled ones."""
    keypoint: Ints
    """(K,), its keypoint there."""


def recalled(search: Search, earlier: EarlierWalks, frames: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of the keyframes that look most like the frames, in order, from where the group may stand."""
    choice, config = search.config.ground_matcher, search.config.earlier
    voters = spread_voters(len(frames), search.config.places.voters)
    own = np.stack([vlad(search.frames.features(frames[k], choice).descriptors, earlier.words) for k in voters])
    likeness = (own @ earlier.looks.T).mean(axis=0)
    centres = rigid.centres_in_world([keyframe.view.cam_from_world for keyframe in earlier.keyframes])
    likeness[~allowed(search.near, centres @ search.prepared.ground.across.T)] = -np.inf
    best = np.argsort(-likeness, kind="stable")[: config.recalled]
    return tuple(sorted(int(k) for k in best if np.isfinite(likeness[k])))


def street_points(earlier: EarlierWalks, chosen: tuple[int, ...], config: AnchorConfig) -> StreetPoints:
    """What the chosen keyframes of each walk see together, where their constant poses put it."""
    matcher, settings = config.ground_matcher.load(), config.earlier
    seen = tuple(earlier.seen(k) for k in chosen)
    parts: list[tuple[Ints, Ints, Ints]] = []
    points: list[Floats] = []
    for walk in dict.fromkeys(earlier.keyframes[k].walk for k in chosen):
        mine = [i for i, k in enumerate(chosen) if earlier.keyframes[k].walk == walk]
        near = [(a, b) for (i, a), (j, b) in combinations(enumerate(mine), 2) if j - i <= settings.reach]
        pairs = {(a, b): matcher.pairs(seen[a], seen[b]) for a, b in near}
        poses = {i: earlier.keyframes[chosen[i]].view.cam_from_world for i in mine}
        lens, xy = earlier.keyframes[chosen[mine[0]]].lens, {i: seen[i].xy for i in mine}
        angle = float(np.radians(settings.least_angle_deg))
        limits = TrackFilter(OUTLIER_PX * seen[mine[0]].sigma_px, angle, settings.most_depth)
        table, found = structure(pairs, poses, lens, xy, limits)
        parts.append((table.point + sum(map(len, points)), table.frame, table.keypoint))
        points.append(found)
    if not points:
        none = np.empty(0, np.int64)
        return StreetPoints(chosen, seen, np.empty((0, 3)), none, none, none)
    rows = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return StreetPoints(chosen, seen, np.concatenate(points), *rows)


def match_street(search: Search, local: LocalGroup, street: StreetPoints) -> CrossMatches:
    """What the frames of a group see of the points of earlier walks."""
    choice = search.config.ground_matcher
    matcher = choice.load()
    parts: list[CrossMatches] = []
    for f in map(int, spread_voters(len(local.frames), search.config.earlier.frames)):
        ground = search.frames.features(local.frames[f], choice)
        for view, seen in enumerate(street.seen):
            number = np.full(len(seen), -1, np.int64)
            mine = street.view == view
            number[street.keypoint[mine]] = street.point[mine]
            pairs = matcher.pairs(ground, seen)
            pairs = pairs[number[pairs[:, 1]] >= 0]
            parts.append(_matches(f, ground, pairs[:, 0], number[pairs[:, 1]], view, street.points))
    return _each_once(joined(parts))


def _matches(frame: int, ground: Features, keypoint: Ints, point: Ints, view: int, points: Floats) -> CrossMatches:
    count = len(point)
    return CrossMatches(
        np.full(count, frame, np.int64),
        ground.xy[keypoint],
        np.full(count, ground.sigma_px),
        points[point],
        np.zeros((count, 3)),
        np.full(count, view, np.int64),
        point,
    )


def _each_once(matches: CrossMatches) -> CrossMatches:
    """The matches, of those of one pixel with one point through several keyframes any one."""
    order = np.random.default_rng(0).permutation(len(matches))
    key = np.column_stack([matches.frame, matches.bridge, np.round(8.0 * matches.xy).astype(np.int64)])
    return subset(matches, np.sort(order[np.unique(key[order], axis=0, return_index=True)[1]]))


def held_by_walks(earlier: EarlierWalks, street: StreetPoints, matches: CrossMatches) -> Held:
    """Where keyframes show the points that a group was matched with."""
    keyframes = [earlier.keyframes[k] for k in street.keyframes]
    views = tuple(HeldView(keyframe.lens, keyframe.view.cam_from_world) for keyframe in keyframes)
    start, end = (np.searchsorted(street.point, matches.bridge, side=side) for side in ("left", "right"))
    match = np.repeat(np.arange(len(matches)), end - start)
    rows = np.arange(len(match)) - np.repeat(np.cumsum(end - start) - (end - start), end - start) + start[match]
    xy, sigma = np.empty((len(rows), 2)), np.empty(len(rows))
    for view, seen in enumerate(street.seen):
        mine = street.view[rows] == view
        xy[mine], sigma[mine] = seen.xy[street.keypoint[rows[mine]]], seen.sigma_px
    nowhere, triangulated = np.zeros(len(rows), np.int64), np.full(len(matches), np.inf)
    return Held(views, match, street.view[rows], xy, sigma, nowhere, triangulated)


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
        held_by = partial(held_by_walks, earlier, street)
        done = adjust_held(at, held_by, config.adjustment, not search.lens.known)
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


# --- walks among themselves -----------------------------------------------------------------------------------------


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
        differ = replace(whole.settled, refusal=_contradiction(worst, "The earlier walks"))
        said = Overlap(worst.walks, worst.keyframes, worst.support, carried=False)
        return replace(whole, settled=differ, overlap=said)
    bound = max(1.0, worst.sigmas)
    if not whole.settled.placed or all(_apart(search, whole, one).sigmas <= bound for one in alone):
        return whole
    return min(alone, key=lambda one: _stated(search, one.settled).position_m)


def _apart(search: Search, one: OnWalks, other: OnWalks) -> Overlap:
    """How far two settled places lie apart, by walks that say so."""
    assert one.overlap is not None and other.overlap is not None
    walks = tuple(dict.fromkeys((*one.overlap.walks, *other.overlap.walks)))
    return compared(search, one.settled, other.settled, replace(one.overlap, walks=walks))


# --- beside the flight ----------------------------------------------------------------------------------------------


def beside_walks(search: Search, found: Settled) -> Settled:
    """What the flight says of a group, with what earlier walks say of it: both, one of them, or their contradiction."""
    if search.earlier is None or found.local is None:
        return found
    there = replace(search, lens=Lens(search.lens.factor * found.focal, known=search.lens.known or found.placed))
    street = settle_on_walks(there, search.earlier, found.local)
    refusal = street.settled.refusal
    if refusal is not None and refusal.reason is Reason.EARLIER_WALK_DISAGREES:
        return replace(found, refusal=refusal, overlap=street.overlap, instead_of=found.refusal)
    if not street.settled.placed or street.overlap is None:
        return found
    above = found if found.placed else _looked_at(there, street.settled)
    if not above.placed:
        return replace(street.settled, overlap=street.overlap, focal=found.focal, instead_of=found.refusal)
    overlap = compared(there, above, street.settled, street.overlap)
    if overlap.sigmas > search.config.earlier.most_sigmas:
        return replace(above, refusal=_contradiction(overlap), overlap=overlap)
    return replace(_together(there, search.earlier, street, above), overlap=overlap)


def _looked_at(search: Search, street: Settled) -> Settled:
    """What the flight says of the place where earlier walks put the group: views rendered there, and no other start."""
    assert street.local is not None and street.at is not None
    return settle(search, street.local, street.at.solution, warm=True)


def compared(search: Search, found: Settled, street: Settled, overlap: Overlap) -> Overlap:
    """How far two places of a group, as by the flight and by earlier walks, lie apart, and in what they state."""
    a, b = _stated(search, found), _stated(search, street)
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


def _stated(search: Search, settled: Settled) -> Stated:
    """What a settled group states of itself.

    An error that all matches share moves what is seen by `shared_m`; at the distance it is seen from, that is a turn
    and a scale of their ratio. Two ends of the group, each off by its own error, change its length by √2 of it. Turn
    and scale are no surer than what two halves of the evidence disagree by, as the position is.
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


def shared_of(search: Search, settled: Settled) -> float:
    """Error that all matches of a settled group share, metres."""
    if settled.shared_m is not None:
        return settled.shared_m
    if settled.done is None or not len(settled.done.points):
        return shared_by_photos(search.prepared.surface.gsd)
    return shared_by_photos(sample_in_photos(search.prepared.atlas.rig, settled.done))


def _contradiction(overlap: Overlap, who: str = "The flight and the earlier walk") -> Refusal:
    walks = " and ".join(overlap.walks)
    text = (
        f"{who} {walks} put the group {overlap.metres:.2f} m and {overlap.degrees:.2f} "
        f"degrees apart, {overlap.sigmas:.1f} times what they state."
    )
    figures = {"metres": overlap.metres, "degrees": overlap.degrees, "scale": overlap.scale, "sigmas": overlap.sigmas}
    return Refusal(Reason.EARLIER_WALK_DISAGREES, text, figures)


# --- both at once ---------------------------------------------------------------------------------------------------


def _together(search: Search, earlier: EarlierWalks, street: OnWalks, found: Settled) -> Settled:
    """The group against aerial photos and keyframes at once, either weighing as much as it states; judged before."""
    if search.config.route == "paper":  # its matches lie on no surface
        return found
    assert found.at is not None and found.done is not None and street.settled.done is not None
    above_m, below_m = shared_of(search, found), shared_of(search, street.settled)
    beyond_m = np.sqrt(max(below_m**2 - above_m**2, 0.0))
    less = (_less_sure(found, 0.0), _less_sure(street.settled, float(beyond_m)))
    flight = len(search.prepared.atlas.views)
    above, below = _agreeing(found), _agreeing(street.settled)
    matches = joined([above, replace(below, source=below.source + flight)])
    matches = replace(matches, sigma_px=matches.sigma_px * np.where(matches.source < flight, *less))
    start = replace(found.at.solution, cams_from_world=found.done.cams_from_world, inliers=np.ones(len(matches), bool))
    with search.frames.clock.step("adjustment"):
        held_by = partial(_held_by_both, search, earlier, street.street, less)
        done = adjust_held(replace(found.at, solution=start, matches=matches), held_by, search.config.adjustment)
    if done is None:
        return found
    return replace(found, done=replace(found.done, cams_from_world=done.cams_from_world, covariances=done.covariances))


def _less_sure(settled: Settled, beyond_m: float) -> float:
    """Factor on the standard deviations of a group's matches that makes them as sure as it honestly is by itself.

    That is what its halves disagree by, and `beyond_m` of its own besides; what the surface shares is left aside.
    """
    assert settled.done is not None
    formal = float(np.mean([centre_sigma_m(covariance) for covariance in settled.done.covariances]))
    own = max(formal, 0.5 * settled.figures.halves_m)
    return float(np.hypot(own, beyond_m)) / max(formal, 1e-9)


def _agreeing(settled: Settled) -> CrossMatches:
    """The matches that a settled group rests on."""
    assert settled.at is not None and settled.done is not None
    return subset(settled.at.agreeing, settled.done.cross)


def _held_by_both(
    search: Search, earlier: EarlierWalks, street: StreetPoints, less: tuple[float, float], matches: CrossMatches
) -> Held:
    """Where aerial photos and keyframes show the matches; keyframes are numbered after the aerial photos."""
    flight = len(search.prepared.atlas.views)
    rows = (np.flatnonzero(matches.source < flight), np.flatnonzero(matches.source >= flight))
    above = held_from_above(search.prepared.atlas, subset(matches, rows[0]), search.config.adjustment)
    walks = held_by_walks(earlier, street, subset(matches, rows[1]))
    slack_m = np.empty(len(matches))
    slack_m[rows[0]], slack_m[rows[1]] = less[0] * above.slack_m, walks.slack_m
    return Held(
        (*above.views, *walks.views),
        np.concatenate([rows[0][above.point], rows[1][walks.point]]),
        np.concatenate([above.view, walks.view + flight]),
        np.concatenate([above.xy, walks.xy]),
        np.concatenate([less[0] * above.sigma_px, less[1] * walks.sigma_px]),
        np.concatenate([above.reference, walks.reference]),
        slack_m,
    )
