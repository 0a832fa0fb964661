"""Place finding: where in the scaffold a group of street frames may stand, with no prior or with one.

A group votes with several frames on the described places: a global descriptor picks a shortlist, mutual feature
matches rank it, and the whole group's geometry decides.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from skyanchor.anchors.evidence import CrossMatches, distinct_support, joined, sightings
from skyanchor.anchors.frames import spread_over
from skyanchor.anchors.place_index import PlaceIndex, PlaceView
from skyanchor.anchors.priors import Near, Prior, allowed
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.solve import GroupSolution, SolveConfig, solve_group
from skyanchor.bounds import Cosine, Count, CountOrNone, Few, NotNegative, Pixels, Positive, Range, Share
from skyanchor.bridges.ground import Ground
from skyanchor.bridges.views import BridgeConfig, NodeConfig
from skyanchor.matching import Features, XFeat, match_alike
from skyanchor.matching.global_descriptors import AnyDescriptor
from skyanchor.matching.retrieval import vlad
from skyanchor.types import Bools, Camera, Floats, Floats32, Ints

SAME_WAY_DEG = 70.0
"""Views of one seed look the same way up to this angle, degrees: by default the next heading beside is 60 away."""
MEMBERS, TAKEN = 6, 3
"""Views that a seed is made of, at most; and how many of them, the best, begin no seed of their own."""
COMPARED_KEPT = 8192
"""Pairs of a frame and a view whose matches are kept, some 3 kB each: those of all attempts at a group."""


@dataclass(frozen=True)
class PlacesConfig:
    """How places are described and searched."""

    nodes: NodeConfig = field(default_factory=NodeConfig)
    bridge: BridgeConfig = field(
        default_factory=lambda: BridgeConfig(near=2.5, far=80.0, paint_width=800, front_width=400, sources=12)
    )
    """Bridge views of the index: cheaper than those of the refinement."""
    paint_m: Positive = 0.12
    """A pixel of the photos that they are painted from covers at most so much of a front, metres; photos are wider than
    `bridge.paint_width` where that takes it and they are."""
    width: Pixels = 416
    """Of those views, pixels."""
    features: XFeat = field(default_factory=lambda: XFeat(keypoints=700, longest=416, threshold=0.01))
    """Local features of places and of the frames that look for them."""
    centres: Annotated[int, Range(1, 65536)] = 64
    """Words of the vocabulary."""
    descriptor: AnyDescriptor | None = None
    """Global descriptor that makes the shortlist; None is VLAD of the local features, which needs no weights."""
    least_painted: Share = 0.12
    """Share of a view that must show the scaffold."""
    voters: Few = 3
    """Frames of the group that vote."""
    shortlist: Count = 160
    """Views that the global descriptor leaves for matching."""
    vote_cosine: Cosine = 0.86
    """Cosine between descriptors of a vote, at least: few votes, but rarely for a wrong place."""
    least_cosine: Cosine = 0.80
    """Cosine between descriptors of a match that geometry will check, at least."""
    landmarks: tuple[CountOrNone, NotNegative] = (25, 25.0)
    """A place is described when the scaffold has this many sparse points within so many metres of it, or a fifth of
    what places of a sparse model have in the median."""
    tile: Positive = 32.0
    """Side of the squares that places are kept in, metres."""
    sampled: Count = 40
    """Nodes spread over the scaffold whose views the vocabulary is fitted to."""
    least_support: CountOrNone = 30
    """Ground keypoints that must agree before a place is worth rendering."""
    seeds: Count = 10
    """Best places that the group's geometry is tried at."""
    reach: NotNegative = 9.0
    """Views this near to a seed help its geometry, metres."""
    solve: SolveConfig = field(default_factory=lambda: SolveConfig(threshold=5.0, trials=(200, 1600)))
    """Geometry of the group at a seed; the residual includes surface errors seen from some metres away."""


@dataclass(frozen=True, eq=False)
class PlaceQuery:
    """A group as place finding sees it; neither its shape nor its focal length matters yet."""

    features: tuple[Features, ...]
    """Per frame of the group."""
    width: int
    """Of the street photos, pixels."""
    near: tuple[Prior, ...] = ()
    """Where it may stand; anywhere when empty."""
    hints: tuple[Near, ...] = ()
    """Where the walk says that it stands; nobody asked the walk when empty."""
    voters_look: Floats32 | None = None
    """(F, E), the voters' global descriptors by `PlacesConfig.descriptor`, where there is one."""


@dataclass(eq=False)
class Compared:
    """What frames have in common with views of an index, matched once: votes, seeds and later attempts ask for it."""

    index: PlaceIndex
    _held: OrderedDict[tuple[int, int, float], tuple[Features, Ints, Floats32]] = field(default_factory=OrderedDict)
    _last: tuple[int, PlaceView] | None = None

    def view(self, number: int) -> PlaceView:
        """A view of the index; the last one is kept, for all frames are compared with it in turn."""
        if self._last is None or self._last[0] != number:
            self._last = (number, self.index.view(number))
        return self._last[1]

    def alike(self, frame: Features, number: int, config: PlacesConfig) -> tuple[Ints, Floats32]:
        """(pairs (M, 2), their cosines (M,)) of a frame and a view: all that a vote or a seed may ask for."""
        least = min(config.least_cosine, config.vote_cosine)
        key = (id(frame), number, least)
        if key not in self._held:
            pairs, cosines = match_alike(frame.descriptors, self.view(number).descriptors, least)
            self._held[key] = (frame, pairs, cosines)  # the frame stays, so that nothing else has its id
        self._held.move_to_end(key)
        while len(self._held) > COMPARED_KEPT:
            self._held.popitem(last=False)
        _, pairs, cosines = self._held[key]
        return pairs, cosines


@dataclass(frozen=True, eq=False)
class PlaceSeed:
    """A few views near each other that look like the group."""

    matches: CrossMatches
    """What the frames see of them."""
    votes: float
    """Mutual matches of the best view, summed over the voters."""


@dataclass(frozen=True, eq=False)
class PlaceHypothesis:
    """A place where the group's geometry found support."""

    solution: GroupSolution
    support: int
    """Ground keypoints that agree, each counted once."""
    votes: float
    """Mutual matches of the seed view, summed over the voters."""


def likeness(index: PlaceIndex, voters: tuple[Features, ...], looks: Floats32 | None = None) -> Floats32:
    """(V,), how much each view is like all voters together; `looks` (F, E) where a global descriptor made the index."""
    if index.vocabulary is not None:
        looks = np.stack([vlad(f.descriptors, index.vocabulary) for f in voters])
    assert looks is not None, "views that a global descriptor described are compared by it"
    return np.asarray(index.likeness(looks).sum(axis=0))


def count_votes(
    index: PlaceIndex,
    voters: tuple[Features, ...],
    free: Bools,
    config: PlacesConfig,
    looks: Floats32 | None = None,
    hinted: Bools | None = None,
    compared: Compared | None = None,
) -> tuple[Ints, Floats]:
    """(views, votes): the shortlist by global descriptor, and mutual matches of all voters with each, most first.

    The free views that the walk hints at have a shortlist of their own besides.
    """
    if not free.any():
        return np.empty(0, np.int64), np.empty(0)
    like = likeness(index, voters, looks)
    short = _shortlist(like, free, config.shortlist)
    if hinted is not None:
        more = _shortlist(like, free & hinted, config.shortlist)
        short = np.concatenate([short, more[~np.isin(more, short)]])
    held = Compared(index) if compared is None else compared
    votes = np.array([_votes_for(held, int(v), voters, config) for v in short], dtype=np.float64)
    order = np.argsort(-votes, kind="stable")
    return short[order].astype(np.int64), votes[order]


def _votes_for(compared: Compared, number: int, voters: tuple[Features, ...], config: PlacesConfig) -> int:
    """Mutual matches of all voters with one view."""
    alike = (compared.alike(voter, number, config)[1] for voter in voters)
    return sum(int((cosines >= config.vote_cosine).sum()) for cosines in alike)


def _shortlist(like: Floats32, free: Bools, most: int) -> Ints:
    """The free views that are most like the voters, most first."""
    return np.argsort(np.where(free, -like, np.inf), kind="stable")[: min(most, int(free.sum()))]


def _matches_at(
    compared: Compared, chosen: Ints, query: PlaceQuery, frames: Ints, config: PlacesConfig
) -> CrossMatches:
    """What the frames see of the chosen views, in pixels of the ground camera."""
    parts: list[CrossMatches] = []
    width = query.width
    for v in chosen:
        view = compared.view(int(v))
        for k in frames:
            features = query.features[int(k)]
            pairs, cosines = compared.alike(features, int(v), config)
            pairs = pairs[cosines >= config.least_cosine]
            count = len(pairs)
            parts.append(
                CrossMatches(
                    np.full(count, k, np.int64),
                    features.xy[pairs[:, 0]] * (width / features.width),
                    np.full(count, width / view.width),
                    view.points[pairs[:, 1]].astype(np.float64),
                    np.zeros((count, 3)),
                    view.source[pairs[:, 1]],
                    np.full(count, -1, np.int64),
                )
            )
    return joined(parts)


def _seeds(index: PlaceIndex, views: Ints, votes: Floats, config: PlacesConfig) -> list[tuple[Ints, float]]:
    """Clusters of ranked views: each seed with the views near it that look about the same way."""
    taken: set[int] = set()
    seeds: list[tuple[Ints, float]] = []
    headings = index.headings[views]
    for i, v in enumerate(views):
        if int(v) in taken:
            continue
        close = np.linalg.norm(index.eyes[views] - index.eyes[v], axis=1) < config.reach
        turn = np.abs((headings - headings[i] + np.pi) % (2.0 * np.pi) - np.pi)
        members = np.flatnonzero(close & (turn < np.radians(SAME_WAY_DEG)))[:MEMBERS]
        taken.update(int(views[m]) for m in members[:TAKEN])
        seeds.append((views[members], float(votes[i])))
        if len(seeds) == config.seeds:
            break
    return seeds


def place_seeds(
    index: PlaceIndex, ground: Ground, query: PlaceQuery, config: PlacesConfig, compared: Compared | None = None
) -> tuple[PlaceSeed, ...]:
    """Where the group may stand by its looks alone, most votes first: any camera can then be tried there.

    What was `compared` before is not matched again.
    """
    held = Compared(index) if compared is None else compared
    frames = spread_over(len(query.features), config.voters)
    voters = tuple(query.features[int(k)] for k in frames)
    flat = index.eyes @ ground.across.T
    hinted = allowed(query.hints, flat) if query.hints else None
    views, votes = count_votes(index, voters, allowed(query.near, flat), config, query.voters_look, hinted, held)
    return tuple(
        PlaceSeed(_matches_at(held, members, query, frames, config), vote)
        for members, vote in _seeds(index, views, votes, config)
    )


def find_places(
    seeds: tuple[PlaceSeed, ...], local: LocalGroup, camera: Camera, up: Floats, config: PlacesConfig
) -> tuple[PlaceHypothesis, ...]:
    """Places that the geometry of the whole group supports, the best supported first; `camera` is PINHOLE."""
    places: list[PlaceHypothesis] = []
    for seed in seeds:
        seen = sightings(seed.matches, camera)
        solution = solve_group(seen, local.cams_from_local, up, config.solve, config.least_support)
        if solution is not None:
            support = distinct_support(seed.matches, solution.inliers, camera.width / 100.0)
            if support >= config.least_support:
                places.append(PlaceHypothesis(solution, support, seed.votes))
    return tuple(sorted(places, key=lambda place: -place.support))
