"""One group's way: its own shape, the places it may stand at, the one that is confirmed, or an honest refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from skyanchor.anchors.earlier_walks.beside_flight import beside_walks
from skyanchor.anchors.focal import standing, with_its_focal
from skyanchor.anchors.frames import spread_over
from skyanchor.anchors.ladder import Rung, rungs
from skyanchor.anchors.last_look import last_look, sharpened
from skyanchor.anchors.place_finding import PlaceHypothesis, PlaceQuery, PlaceSeed, find_places, place_seeds
from skyanchor.anchors.place_refinement import Settled, settle, shared_of
from skyanchor.anchors.search import Search
from skyanchor.anchors.self_lens import estimate_lens
from skyanchor.anchors.shape.choice import group_shape
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.verdict import honest_covariances, unsupported
from skyanchor.geometry import rigid
from skyanchor.matching.global_descriptors import described
from skyanchor.types import (
    AnchorGroup,
    AnchorPose,
    CrossView,
    Floats32,
    GroupFigures,
    LocalisedGroup,
    Pose,
    Reason,
    Refusal,
    TriedPlace,
)

Settle: TypeAlias = Callable[[Search, LocalGroup], Settled]
"""From the group's own shape to its place."""
FINAL = (Reason.AMBIGUOUS_PLACE, Reason.EARLIER_WALK_DISAGREES)
"""Refusals after which nothing else is tried."""


def localise_group(search: Search, group: AnchorGroup) -> tuple[LocalisedGroup, float]:
    """(the verdict on one group, focal scale): the first rung of the ladder that is accepted, or the last refusal."""
    return climbed(search, group, rungs(search.frames.sequence, group, search.config), settle_on_bridges)


def localise_again(
    search: Search, group: AnchorGroup, found: tuple[AnchorPose, ...], figures: GroupFigures | None = None
) -> tuple[LocalisedGroup, float]:
    """As `localise_group`, for a group that was found before with nearly the same camera: its place is tried first.

    With the figures of that first look the last one is enough, where the group stands by it.
    """
    frames, poses = tuple(pose.frame for pose in found), tuple(pose.cam_from_world for pose in found)

    def where_it_stood(search: Search, local: LocalGroup) -> Settled:
        exact = None if figures is None else last_look(search, local, poses, figures)
        return exact or sharpened(search, settle(search, local, standing(local, poses), warm=True))

    once = climbed(search, group, (Rung(frames, search.config),), where_it_stood)
    return once if once[0].accepted else localise_group(search, group)


def climbed(
    search: Search, group: AnchorGroup, ladder: tuple[Rung, ...], settle_shape: Settle
) -> tuple[LocalisedGroup, float]:
    """As `localise_group`, on given rungs and by a given way to settle."""
    attempts: list[Refusal] = []
    figures, shown, overlap = GroupFigures(), None, None
    for rung in ladder:
        if _only_more(rung, group, attempts):
            continue
        settled = attempt(replace(search, config=rung.config), rung.frames, settle_shape)
        figures, shown = _latest(settled, figures, shown)
        overlap = settled.overlap or overlap
        for instead_of in (None if settled.local is None else settled.local.instead_of, settled.instead_of):
            if instead_of is not None and instead_of not in attempts:
                attempts.append(instead_of)
        if settled.local is not None and settled.done is not None and settled.refusal is None:
            kept = kept_frames(search, settled, rung.frames)
            poses = anchor_poses(search, settled, kept)
            scale = settled.focal * settled.done.focal_scale
            lens = None if settled.done.bundle is None else estimate_lens(settled.done.bundle, settled.local.frames)
            stands = (None, figures, tuple(attempts), shown, settled.overlap, lens)
            return LocalisedGroup(replace(group, frames=kept), poses, *stands), scale
        attempts.append(settled.refusal or Refusal(Reason.NO_PLACE, "No place was found."))
        if attempts[-1].reason in FINAL:  # more frames of the same would only hide the other place
            break
    last = attempts.pop()
    return LocalisedGroup(group, (), last, figures, tuple(attempts), shown, overlap), 1.0


def _only_more(rung: Rung, group: AnchorGroup, attempts: list[Refusal]) -> bool:
    """Whether a rung adds frames to a group that was refused as a look-alike: theirs would stand in for its own."""
    added = set(rung.frames) > set(group.frames)
    return added and any(attempt.reason is Reason.LOOK_ALIKE for attempt in attempts)


def _latest(settled: Settled, figures: GroupFigures, shown: CrossView | None) -> tuple[GroupFigures, CrossView | None]:
    """What was measured and matched last."""
    return figures if settled.done is None else settled.figures, settled.cross_view or shown


def attempt(search: Search, frames: tuple[int, ...], settle_shape: Settle) -> Settled:
    """One rung of the ladder: shape, places, refinement, verdict."""
    local = _shape(search, frames)
    if isinstance(local, Refusal):
        return Settled(None, None, local)
    return beside_walks(search, settle_shape(search, local))


def _shape(search: Search, frames: tuple[int, ...]) -> LocalGroup | Refusal:
    """The own shape of the frames, made once for all attempts that ask the same of it."""
    config = search.config
    key = (frames, search.lens, config.ground_matcher, config.local, config.shape)
    if key not in search.shapes:
        with search.frames.clock.step("shape of the group"):
            search.shapes[key] = group_shape(search.frames, frames, search.camera, config)
    return search.shapes[key]


def kept_frames(search: Search, settled: Settled, asked: tuple[int, ...]) -> tuple[int, ...]:
    """Those of the frames asked for that the place holds: in the group's shape, and with support of their own."""
    assert settled.local is not None and settled.done is not None
    without: set[int] = set()
    if settled.at is not None and settled.at.expected:
        slots = unsupported(settled.at, settled.done, search.config.verdict)
        without = {settled.at.local.frames[slot] for slot in slots}
    return tuple(i for i in asked if i in settled.local.frames and i not in without)


def anchor_poses(search: Search, settled: Settled, kept: tuple[int, ...]) -> tuple[AnchorPose, ...]:
    """The frames that were kept, with covariances that can be believed."""
    assert settled.local is not None and settled.done is not None
    covariances = honest_covariances(settled.done, settled.figures.halves_m, shared_of(search, settled))
    slots = [settled.local.frames.index(i) for i in kept]
    return tuple(AnchorPose(settled.local.frames[k], settled.done.cams_from_world[k], covariances[k]) for k in slots)


# --- from a shape to its place --------------------------------------------------------------------------------------


def settle_on_bridges(search: Search, local: LocalGroup) -> Settled:
    """The place that views of the scaffold rendered there confirm, or the refusal of the best one."""
    places = places_of(search, local)
    settled = _try_places(search, local, places)
    if search.near and not places:
        nowhere = Refusal(Reason.NO_PLACE, "No place where these frames may stand looks like them.")
        settled = replace(settled, refusal=nowhere)
    return _finished(search, settled)


def _finished(search: Search, settled: Settled) -> Settled:
    """A place with its own focal length and by the last look; once, for a refused one may be the best again."""
    if id(settled) not in search.finished:
        own = settled if search.lens.known else with_its_focal(search, settled)
        search.finished[id(settled)] = settled, sharpened(search, own)  # it stays, so that nothing else has its id
    return search.finished[id(settled)][1]


def places_of(search: Search, local: LocalGroup) -> tuple[PlaceHypothesis, ...]:
    """Where the group may stand, the best supported place first."""
    seeds = seeds_of(search, local.frames)
    with search.frames.clock.step("places"):
        return find_places(seeds, local, search.camera, search.prepared.ground.up, search.config.places)


def seeds_of(search: Search, frames: tuple[int, ...]) -> tuple[PlaceSeed, ...]:
    """Where the frames may stand by their looks."""
    key = (frames, search.near, search.hints, search.config.places, search.frames.sequence.camera)
    return search.glances.seeds(key, lambda: _seeds(search, frames))


def _seeds(search: Search, frames: tuple[int, ...]) -> tuple[PlaceSeed, ...]:
    prepared, config = search.prepared, search.config.places
    features = tuple(search.frames.features(i, config.features) for i in frames)
    with search.frames.clock.step("places"):
        look = _voters_look(search, frames)
        query = PlaceQuery(features, search.camera.width, search.near, search.hints, look)
        compared = search.glances.compared(prepared.places)
        return place_seeds(prepared.places, prepared.ground, query, config, compared)


def _voters_look(search: Search, frames: tuple[int, ...]) -> Floats32 | None:
    """(F, E), global descriptors of the frames that vote; None when local features do it alone."""
    descriptor = search.prepared.descriptor
    if descriptor is None:
        return None
    voters = spread_over(len(frames), search.config.places.voters)
    return described(descriptor, [search.frames.photo(frames[k]) for k in voters])


def _try_places(search: Search, local: LocalGroup, places: tuple[PlaceHypothesis, ...]) -> Settled:
    """The accepted place with the most support, or the refusal of the best one."""
    ladder = search.config.ladder
    refused = search.refused.setdefault((local.frames, search.lens, search.config.refine), [])
    tried: list[Settled] = list(refused)
    accepted: Settled | None = None
    for place in places:
        if len(tried) == ladder.places:
            break
        if accepted is not None and place.support < ladder.ambiguous * places[0].support:
            break
        start = place.solution.cams_from_world
        if any(_apart(start, other.start) < ladder.apart for other in tried):
            continue
        middle = len(local.frames) // 2
        search.tried.append(TriedPlace(local.frames[middle], start[middle]))
        settled = replace(settle(search, local, place.solution, been=tuple(tried)), start=start)
        tried.append(settled)
        if settled.done is not None and settled.refusal is not None:
            refused.append(settled)
        if settled.refusal is None and (accepted is None or settled.support > accepted.support):
            accepted = settled
    if accepted is not None:
        doubt = _ambiguous(search, accepted, tried)
        return accepted if doubt is None else replace(accepted, refusal=doubt)
    if not tried:
        nowhere = Refusal(Reason.NO_PLACE, "No place of the scaffold looks like these frames.")
        return Settled(local, None, nowhere)
    return max(tried, key=lambda settled: settled.fit)


def _apart(poses: tuple[Pose, ...], others: tuple[Pose, ...]) -> float:
    """Distance between the middles of two groups, metres."""
    middles = [rigid.centres_in_world(group).mean(axis=0) for group in (poses, others)]
    return float(np.linalg.norm(middles[0] - middles[1]))


def _ambiguous(search: Search, best: Settled, tried: list[Settled]) -> Refusal | None:
    """A refusal when another place, apart from the best, has nearly as much support."""
    assert best.done is not None
    ladder = search.config.ladder
    for other in tried:
        if other.done is None or other is best:
            continue
        apart_m = _apart(other.done.cams_from_world, best.done.cams_from_world)
        if apart_m > ladder.apart and other.fit > ladder.ambiguous * best.fit:
            figures = {"apart_m": apart_m, "support": float(best.support), "other_support": other.fit}
            return Refusal(Reason.AMBIGUOUS_PLACE, f"A place {apart_m:.0f} m away fits nearly as well.", figures)
    return None
