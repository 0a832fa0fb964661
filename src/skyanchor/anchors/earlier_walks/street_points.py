"""Points that keyframes of earlier walks see: triangulated at their constant poses, and matched with a group."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from skyanchor.anchors.adjustment import FixedSightings, FixedView
from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.earlier_walks.keyframes import EarlierWalks
from skyanchor.anchors.evidence import CrossMatches, joined, subset
from skyanchor.anchors.frames import spread_over
from skyanchor.anchors.priors import allowed
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.geometry import rigid
from skyanchor.matching import Features
from skyanchor.matching.retrieval import vlad
from skyanchor.sfm.triangulation import TrackFilter, structure
from skyanchor.types import Floats, Ints

OUTLIER_PX = 3.0
"""A keyframe sees a triangulated point at most so far from its keypoint, in the matcher's sigma."""


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
    voters = spread_over(len(frames), search.config.places.voters)
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
    for f in map(int, spread_over(len(local.frames), search.config.earlier.frames)):
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
    key = np.column_stack([matches.frame, matches.point, np.round(8.0 * matches.xy).astype(np.int64)])
    return subset(matches, np.sort(order[np.unique(key[order], axis=0, return_index=True)[1]]))


def sightings_in_keyframes(earlier: EarlierWalks, street: StreetPoints, matches: CrossMatches) -> FixedSightings:
    """Where keyframes show the points that a group was matched with."""
    keyframes = [earlier.keyframes[k] for k in street.keyframes]
    views = tuple(FixedView(keyframe.lens, keyframe.view.cam_from_world) for keyframe in keyframes)
    start, end = (np.searchsorted(street.point, matches.point, side=side) for side in ("left", "right"))
    match = np.repeat(np.arange(len(matches)), end - start)
    rows = np.arange(len(match)) - np.repeat(np.cumsum(end - start) - (end - start), end - start) + start[match]
    xy, sigma = np.empty((len(rows), 2)), np.empty(len(rows))
    for view, seen in enumerate(street.seen):
        mine = street.view[rows] == view
        xy[mine], sigma[mine] = seen.xy[street.keypoint[rows[mine]]], seen.sigma_px
    nowhere, triangulated = np.zeros(len(rows), np.int64), np.full(len(matches), np.inf)
    return FixedSightings(views, match, street.view[rows], xy, sigma, nowhere, triangulated)
