"""One place of one group: confirmed by views rendered there, adjusted against the real aerial photos, judged."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from skyanchor.anchors.adjustment import FixedAerial, adjust_fixed_aerial
from skyanchor.anchors.edges import WIDTH, edges_of
from skyanchor.anchors.evidence import CrossMatches, GroupAt, distinct_support, joined, match_bridge, sightings
from skyanchor.anchors.expected import Expected, expected_in
from skyanchor.anchors.frames import spread_over
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.showing import shown_adjusted, shown_matches
from skyanchor.anchors.solve import GroupSolution, refined, solve_group
from skyanchor.anchors.verdict import (
    agreeing_share,
    compare_halves,
    judge,
    mean_step,
    measure,
    odds_by_views,
    recognised,
    sample_in_photos,
    shared_by_photos,
)
from skyanchor.bridges.views import render_bridge
from skyanchor.geometry import cameras, rigid, similarity
from skyanchor.scaffold.windows import photos_of
from skyanchor.types import Bools, CrossView, GroupFigures, Overlap, Pose, Reason, Refusal

PAYS = 2.0
"""Factor by which the last turn must raise the share of agreeing matches to be followed by one more."""
SAME_M, SAME_TURN = 1.5, np.radians(5.0)
"""A look that comes out this near to an earlier one, metres and radians, has found the same place."""
HOPELESS = 0.1
"""Share of what is to be recognised in a photo, below which a second look at a place takes it for hopeless."""
BEYOND = -4.0
"""Powers of ten: odds by what some frames and their views show, below which a second look at a place leaves out the
others, which see the same again. What is asked later adds 3.9 where all of it speaks for a place as it does at good
ones: residuals 0.4, halves 1.0, the last look 0.8 (0.47 agree), edges 1.7 (0.85 of 40 cells are met)."""
PROMISING = 0.5
"""Share of the matches of a look that agree, from which the next one looks at all frames whatever the first shows."""


@dataclass(frozen=True)
class Turn:
    """What one turn of rendering at the estimate gave."""

    matches: int
    """With the rendered views."""
    agreeing: int
    """Of them, with one place of the whole group."""
    support: int
    """Distinct ones of those."""

    @property
    def share(self) -> float:
        """Of the matches, those that agree."""
        return self.agreeing / max(self.matches, 1)


@dataclass(frozen=True, eq=False)
class Settled:
    """A place after refinement: the group's poses and what they rest on, or why it was dropped."""

    local: LocalGroup | None
    """The group's own shape; None where it has none."""
    done: FixedAerial | None
    refusal: Refusal | None
    figures: GroupFigures = field(default_factory=GroupFigures)
    """Measured where there is an adjustment."""
    support: int = 0
    """Distinct places in the group's images that agree."""
    at: GroupAt | None = None
    """What was adjusted; None where it did not come to that."""
    start: tuple[Pose, ...] = ()
    """Where the place was first thought to be."""
    focal: float = 1.0
    """Focal length that the last refinement assumed, over the one that the group came with."""
    cross_view: CrossView | None = None
    """Some of its matches, for people to look at."""
    turns: tuple[Turn, ...] = ()
    """That confirmed the place, or did not."""
    shared_m: float | None = None
    """Error that all matches share, metres; None where it is that of the aerial surface."""
    overlap: Overlap | None = None
    """What earlier walks say of the place; None where they say nothing."""
    instead_of: Refusal | None = None
    """Why the flight alone does not place the group, where earlier walks do."""
    seen: float = 1.0
    """Share of the frames that the last turn was to look at and did; less where the others could not help."""

    @property
    def fit(self) -> float:
        """Distinct places that agree, or would if the frames that were not looked at had as many."""
        return self.support / self.seen

    @property
    def placed(self) -> bool:
        """Whether the group stands."""
        return self.done is not None and self.refusal is None


def settle(
    search: Search, local: LocalGroup, start: GroupSolution, warm: bool = False, been: tuple[Settled, ...] = ()
) -> Settled:
    """One place refined, adjusted against the real aerial photos and judged; `warm` is one that was settled before.

    Where views from `start` lead to a place that has `been` settled already, that is the answer.
    """
    turns: list[Turn] = []
    at = _confirmed(search, local, start, turns, warm, been)
    if isinstance(at, Settled):
        if any(at is one for one in been):
            return at
        settled = at
    else:
        settled = adjusted(search, at.group, at.seen)
    settled = replace(settled, turns=tuple(turns))
    search.watch(settled)
    return settled


@dataclass(frozen=True, eq=False)
class _Confirmed:
    """A place that the turns did not drop."""

    group: GroupAt
    seen: float
    """Share of its frames that the last turn looked at."""


def _confirmed(
    search: Search,
    local: LocalGroup,
    start: GroupSolution,
    turns: list[Turn],
    warm: bool,
    been: tuple[Settled, ...],
) -> _Confirmed | Settled:
    """The group after turns of rendering at the estimate, or why the place was dropped, or one where it has `been`.

    What the turns gave is in `turns`.
    """
    config, solution = search.config.refine, start
    at: _Confirmed | None = None
    while at is None or not (warm or _enough(turns, config.rounds)):
        seen = _rendered_matches(search, local, solution.cams_from_world, turns, warm)
        better = None if seen.hopeless else _solved(search, local, seen.matches)
        support = 0 if better is None else _support(search, seen.matches, better.inliers)
        turns.append(Turn(len(seen.matches), 0 if better is None else int(better.inliers.sum()), support))
        if better is None or support < config.least_support * seen.share:
            return _dropped(search, GroupAt(local, search.camera, better or solution, seen.matches), better, turns)
        solution = better
        known = next((one for one in been if _same_place(one, solution)), None)
        if known is not None:
            return known
        at = _Confirmed(GroupAt(local, search.camera, solution, seen.matches, seen.expected), seen.share)
    return at


def _same_place(known: Settled, solution: GroupSolution) -> bool:
    """Whether a turn leads to where an earlier one led before the adjustment."""
    if known.at is None:
        return False
    there, here = known.at.solution.cams_from_world, solution.cams_from_world
    middles = [rigid.centres_in_world(poses).mean(axis=0) for poses in (there, here)]
    turned = max(rigid.angle_between(a.rotation, b.rotation) for a, b in zip(there, here, strict=True))
    return bool(np.linalg.norm(middles[0] - middles[1]) < SAME_M and turned < SAME_TURN)


def _enough(turns: list[Turn], rounds: int) -> bool:
    """Whether another turn would hardly help: one is added where the last made twice as much of the matches agree."""
    if len(turns) < rounds:
        return False
    before, last = (turn.share for turn in turns[-2:]) if len(turns) > 1 else (1.0, 1.0)
    return len(turns) > rounds or last < PAYS * before


def _solved(search: Search, local: LocalGroup, matches: CrossMatches) -> GroupSolution | None:
    with search.frames.clock.step("group pose"):
        seen = sightings(matches, search.camera)
        return solve_group(seen, local.cams_from_local, search.prepared.ground.up, search.config.refine.solve)


def _support(search: Search, matches: CrossMatches, agrees: Bools) -> int:
    return distinct_support(matches, agrees, search.camera.width / 100.0)


def _dropped(search: Search, at: GroupAt, solution: GroupSolution | None, turns: list[Turn]) -> Settled:
    """A place that a turn did not confirm."""
    support = turns[-1].support
    figures = {"support": float(support), "round": float(len(turns) - 1)}
    refusal = Refusal(Reason.PLACE_NOT_CONFIRMED, f"Only {support} matches agree with a view from there.", figures)
    agrees = np.zeros(len(at.matches), bool) if solution is None else solution.inliers
    return Settled(at.local, None, refusal, support=support, cross_view=_shown(search, at, agrees))


@dataclass(frozen=True, eq=False)
class _Seen:
    """What frames of a group and the views rendered for them have in common."""

    matches: CrossMatches
    expected: tuple[Expected, ...]
    hopeless: bool = False
    """Whether the first frame is so little like its view that the others were not looked at."""
    share: float = 1.0
    """Of the frames, those that were looked at."""


def _rendered_matches(
    search: Search, local: LocalGroup, poses: tuple[Pose, ...], turns: list[Turn], warm: bool
) -> _Seen:
    """Frames of the group, each matched with a bridge rendered at its estimated pose, the middle one first.

    A wary look ends with that one where it is hopeless. One at a place that was settled does not: of what nobody looked
    at nothing agrees, which would speak against the place as if it had been looked at. From the second turn on it ends
    where the frames so far leave the place no chance, unless another focal length may.
    """
    turn = len(turns) + warm
    wary = not (warm or (bool(turns) and turns[-1].share >= PROMISING))
    last = turns[-1] if wary and turns and search.lens.known else None
    most = search.config.refine.frames[min(turn, 1)]
    chosen = [int(k) for k in spread_over(len(local.frames), most)]
    first = chosen[len(chosen) // 2]
    order = sorted(chosen, key=lambda k: (k != first, -abs(k - first)))
    parts: dict[int, tuple[CrossMatches, Expected]] = {}
    for looked, k in enumerate(order, 1):
        part = _matched_view(search, local.frames[k], k, poses[k])
        if part is not None:
            parts[k] = part
        if wary and k == first and _hopeless(search, part, turn):
            return _Seen(_in_order(parts)[0], (), hopeless=True)
        if last is not None and 1 < looked < len(order) and _beyond(search, local, _in_order(parts), last):
            return _Seen(*_in_order(parts), share=looked / len(order))
    return _Seen(*_in_order(parts))


def _in_order(parts: dict[int, tuple[CrossMatches, Expected]]) -> tuple[CrossMatches, tuple[Expected, ...]]:
    """What frames, by their place in the group, have in common with their views, the first frame first."""
    ordered = [parts[k] for k in sorted(parts)]
    return joined([matches for matches, _ in ordered]), tuple(expected for _, expected in ordered)


def _beyond(search: Search, local: LocalGroup, so_far: tuple[CrossMatches, tuple[Expected, ...]], last: Turn) -> bool:
    """Whether some frames of a turn leave the place no chance: by their odds, and they do not follow it nearer either.

    A place that was begun some metres off is found turn by turn: there more agrees than did in the last one.
    """
    matches, expected = so_far
    solution = _solved(search, local, matches)
    if solution is None:
        return False
    at = GroupAt(local, search.camera, solution, matches, expected)
    return odds_by_views(at) < BEYOND and agreeing_share(at) < PAYS * last.share


def _hopeless(search: Search, part: tuple[CrossMatches, Expected] | None, turn: int) -> bool:
    """Whether a frame, wherever it may stand alone, is too little like the view rendered for it."""
    if part is None:
        return False
    matches, expected = part
    with search.frames.clock.step("group pose"):
        seen = replace(sightings(matches, search.camera), frame=np.zeros(len(matches), np.int64))
        config, up = search.config.refine, search.prepared.ground.up
        alone = solve_group(seen, (Pose(np.eye(3), np.zeros(3)),), up, config.solve)
    if alone is None:
        return True
    if turn == 0:
        return _support(search, matches, alone.inliers) < config.least_glance
    return recognised(expected, matches, alone.inliers, search.camera) < HOPELESS


def _matched_view(search: Search, frame: int, slot: int, pose: Pose) -> tuple[CrossMatches, Expected] | None:
    """One frame and the bridge rendered at its pose; None where that shows nothing."""
    frames, choice, camera = search.frames, search.config.refine.matcher, search.camera
    bridge_camera = cameras.scaled(camera, min(search.config.refine.width, camera.width))
    with frames.clock.step("bridge views"):
        bridge = render_bridge(search.prepared.atlas, bridge_camera, pose)
    if bridge.photo.mask is None or not bridge.photo.mask.any():
        return None
    with frames.clock.step("matches with bridges"):
        seen = search.matcher.extract(bridge.photo)
        ground = frames.features(frame, choice)
        return match_bridge(search.matcher, slot, ground, bridge, seen), expected_in(
            bridge, slot, search.prepared.ground.up
        )


def seen_from(search: Search, local: LocalGroup, poses: tuple[Pose, ...]) -> GroupAt:
    """The group where another way than views has put it, and what its frames have in common with views from there."""
    chosen = [int(k) for k in spread_over(len(local.frames), search.config.refine.frames[1])]
    looked = [_matched_view(search, local.frames[k], k, poses[k]) for k in chosen]
    parts = [part for part in looked if part is not None]
    matches = joined([part[0] for part in parts])
    with search.frames.clock.step("group pose"):
        near = similarity.align_cameras(local.cams_from_local, poses)
        seen = sightings(matches, search.camera)
        solution = refined(seen, local.cams_from_local, near, search.config.refine.solve)
    return GroupAt(local, search.camera, solution, matches, tuple(part[1] for part in parts))


def adjusted(search: Search, at: GroupAt, seen: float = 1.0) -> Settled:
    """The group against the real aerial photos, and the verdict on it; `seen` is the share of its frames in `at`.

    Edges are not asked about a place that some of the frames leave no chance.
    """
    prepared, config, clock = search.prepared, search.config, search.frames.clock
    with clock.step("adjustment"):
        done = adjust_fixed_aerial(prepared.atlas, at, config.adjustment, not search.lens.known)
    if done is None:
        gone = Refusal(Reason.NOTHING_LEFT, "The aerial photos confirm too few of the matches.")
        return Settled(at.local, None, gone, cross_view=_shown(search, at, np.zeros(len(at.matches), bool)))
    with clock.step("halves compared"):
        halves = compare_halves(at.agreeing, at.local, at.camera, at.solution.world_from_local)
    with clock.step("edges compared"):
        edges = _edges(search, at.local, done.cams_from_world) if seen == 1.0 else (0.0, 0.0)
    photos = photos_of(prepared.scaffold)
    figures = measure(at, done, halves, prepared.ground, config.verdict, edges, photos.of_view)
    shown = shown_adjusted(at, done, photos, config.adjustment)
    settled = Settled(at.local, done, None, figures, figures.support, at, cross_view=shown, seen=seen)
    return replace(settled, refusal=judge(replace(figures, support=int(settled.fit)), config.verdict))


UNKNOWN_SIGMA = 0.5
"""Standard deviation that is stated of a pose that nothing was adjusted for, radians and metres."""


def unadjusted(local: LocalGroup, cams_from_world: tuple[Pose, ...], support: int) -> Settled:
    """A place taken as it was found, without adjustment or verdict: for ablations."""
    none, nothing = np.empty(0, np.int64), np.empty((0, 3))
    covariances = np.tile(np.eye(6) * UNKNOWN_SIGMA**2, (len(cams_from_world), 1, 1))
    done = FixedAerial(cams_from_world, covariances, none, none, none, np.inf, np.inf, nothing, 1.0)
    step = mean_step(rigid.centres_in_world(cams_from_world))
    return Settled(local, done, None, GroupFigures(support, step_m=step, halves_m=0.0), support)


EDGE_FRAMES = 3
"""Frames of a group whose edges are compared, at most: the others see the same again."""


def _edges(search: Search, local: LocalGroup, poses: tuple[Pose, ...]) -> tuple[float, float]:
    """(cells of a frame where views from the poses have edges above the horizon, share of them that photos meet)."""
    camera = cameras.scaled(search.camera, min(WIDTH, search.camera.width))
    met: list[tuple[int, int]] = []
    for k in map(int, spread_over(len(local.frames), EDGE_FRAMES)):
        bridge = render_bridge(search.prepared.atlas, camera, poses[k])
        met.append(edges_of(bridge, search.frames.photo(local.frames[k]).pixels, search.prepared.ground.up))
    cells, held = np.sum(met, axis=0)
    return float(cells / len(met)), float(held / max(cells, 1))


def _shown(search: Search, at: GroupAt, agrees: Bools) -> CrossView | None:
    """A few of the matches of a place that was dropped before its adjustment."""
    return shown_matches(at, at.matches.points, agrees, photos_of(search.prepared.scaffold))


def shared_of(search: Search, settled: Settled) -> float:
    """Error that all matches of a settled group share, metres."""
    if settled.shared_m is not None:
        return settled.shared_m
    if settled.done is None or not len(settled.done.points):
        return shared_by_photos(search.prepared.surface.gsd)
    return shared_by_photos(sample_in_photos(search.prepared.atlas.rig, settled.done))
