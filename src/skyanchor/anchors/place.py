"""One place of one group: confirmed by views rendered there, adjusted against the real aerial photos, judged."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from skyanchor.anchors.adjustment import FixedAerial, adjust_fixed_aerial
from skyanchor.anchors.evidence import CrossMatches, GroupAt, joined, match_bridge, sightings
from skyanchor.anchors.places import distinct_support, spread_voters
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.showing import shown_adjusted, shown_matches
from skyanchor.anchors.solve import GroupSolution, solve_group
from skyanchor.anchors.verdict import compare_halves, judge, measure
from skyanchor.bridges.views import render_bridge
from skyanchor.geometry import cameras
from skyanchor.types import Bools, CrossView, GroupFigures, Overlap, Pose, Reason, Refusal


@dataclass(frozen=True)
class Turn:
    """What one turn of rendering at the estimate gave."""

    matches: int
    """With the rendered views."""
    agreeing: int
    """Of them, with one place of the whole group."""
    support: int
    """Distinct ones of those."""


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

    @property
    def placed(self) -> bool:
        """Whether the group stands."""
        return self.done is not None and self.refusal is None


def settle(search: Search, local: LocalGroup, start: GroupSolution, warm: bool = False) -> Settled:
    """One place refined, adjusted against the real aerial photos and judged; `warm` is one that was settled before."""
    turns: list[Turn] = []
    at = _confirmed(search, local, start, range(1, 2) if warm else range(search.config.refine.rounds), turns)
    settled = replace(at if isinstance(at, Settled) else adjusted(search, at), turns=tuple(turns))
    search.watch(settled)
    return settled


def _confirmed(
    search: Search, local: LocalGroup, start: GroupSolution, numbers: range, turns: list[Turn]
) -> GroupAt | Settled:
    """The group after turns of rendering at the estimate, or why the place was dropped; what they gave in `turns`."""
    config, camera, solution = search.config.refine, search.camera, start
    at: GroupAt | None = None
    for turn in numbers:
        matches = _rendered_matches(search, local, solution.cams_from_world, config.frames[min(turn, 1)])
        with search.frames.clock.step("group pose"):
            seen = sightings(matches, camera)
            better = solve_group(seen, local.cams_from_local, search.prepared.ground.up, config.solve)
        support = 0 if better is None else distinct_support(matches, better.inliers, camera.width / 100.0)
        turns.append(Turn(len(matches), 0 if better is None else int(better.inliers.sum()), support))
        if better is None or support < config.least_support:
            figures = {"support": float(support), "round": float(turn)}
            text = f"Only {support} matches agree with a view from there."
            refusal = Refusal(Reason.PLACE_NOT_CONFIRMED, text, figures)
            agrees = np.zeros(len(matches), bool) if better is None else better.inliers
            shown = _shown(search, GroupAt(local, camera, better or solution, matches), agrees)
            return Settled(local, None, refusal, support=support, cross_view=shown)
        solution = better
        at = GroupAt(local, camera, solution, matches)
    assert at is not None
    return at


def _rendered_matches(search: Search, local: LocalGroup, poses: tuple[Pose, ...], most: int) -> CrossMatches:
    """At most so many frames of the group, each matched with a bridge rendered at its estimated pose."""
    frames, choice, camera = search.frames, search.config.refine.matcher, search.camera
    bridge_camera = cameras.scaled(camera, min(search.config.refine.width, camera.width))
    parts: list[CrossMatches] = []
    for k in map(int, spread_voters(len(local.frames), most)):
        with frames.clock.step("bridge views"):
            bridge = render_bridge(search.prepared.atlas, bridge_camera, poses[k])
        if bridge.photo.mask is not None and bridge.photo.mask.any():
            with frames.clock.step("matches with bridges"):
                seen = search.matcher.extract(bridge.photo)
                ground = frames.features(local.frames[k], choice)
                parts.append(match_bridge(search.matcher, k, ground, k, bridge, seen))
    return joined(parts)


def adjusted(search: Search, at: GroupAt) -> Settled:
    """The group against the real aerial photos, and the verdict on it."""
    prepared, config, clock = search.prepared, search.config, search.frames.clock
    with clock.step("adjustment"):
        done = adjust_fixed_aerial(prepared.atlas, at, config.adjustment, not search.lens.known)
    if done is None:
        gone = Refusal(Reason.NOTHING_LEFT, "The aerial photos confirm too few of the matches.")
        return Settled(at.local, None, gone, cross_view=_shown(search, at, np.zeros(len(at.matches), bool)))
    with clock.step("halves compared"):
        halves = compare_halves(at.agreeing, at.local, at.camera, at.solution.world_from_local)
    figures = measure(at, done, halves, prepared.ground, config.verdict)
    shown = shown_adjusted(at, done, prepared.scaffold.views, config.adjustment)
    refusal = judge(figures, config.verdict)
    return Settled(at.local, done, refusal, figures, figures.support, at, cross_view=shown)


def _shown(search: Search, at: GroupAt, agrees: Bools) -> CrossView | None:
    """A few of the matches of a place that was dropped before its adjustment."""
    return shown_matches(at, at.matches.points, agrees, search.prepared.scaffold.views)
