"""Aerial photos retrieved for each frame, verified, and joined by their graph neighbours: the paper's support.

`settle_on_photos` is the way without bridge views: aerial pixels are lifted by the surface, so the rest of the stage is
the same. The paper's own way from the same support is in `route.py`.
"""

from __future__ import annotations

from collections.abc import Sequence as Ordered
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import ceil, log1p
from pathlib import Path
from typing import overload

import numpy as np

from skyanchor.anchors.evidence import CrossMatches, GroupAt, joined, sightings
from skyanchor.anchors.frames import FEATURE_BYTES
from skyanchor.anchors.place_refinement import Settled, adjusted
from skyanchor.anchors.prepared_scaffold import PreparedScaffold
from skyanchor.anchors.priors import GRID_M, Prior, allowed
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.solve import solve_group
from skyanchor.bridges.ground import Ground
from skyanchor.bridges.surface import render_depth
from skyanchor.bridges.views import AerialAtlas, free_places
from skyanchor.geometry import cameras
from skyanchor.geometry.depth import inside, lift, sampled, under
from skyanchor.matching import AnyMatcher, FeatureCache, Features, Matcher, TwoView, VerifyConfig, verify
from skyanchor.matching.global_descriptors import AnyDescriptor, GlobalDescriptor, described
from skyanchor.matching.retrieval import ranked
from skyanchor.types import Camera, Floats, Floats32, Ints, Photo, Reason, Refusal, View, VisibilityGraph


def settle_on_photos(search: Search, local: LocalGroup) -> Settled:
    """The group's place by aerial photos retrieved, verified and matched directly, or why there is none."""
    support = support_of(search, local)
    if isinstance(support, Refusal):
        return Settled(local, None, support)
    matches = match_support(support.index, support.views, support.pairs.frames)
    rays, up = sightings(matches, search.camera), search.prepared.ground.up
    solution = solve_group(rays, local.cams_from_local, up, search.config.refine.solve)
    if solution is None:
        return Settled(local, None, Refusal(Reason.NO_PLACE, "The matches agree with no place."))
    return adjusted(search, GroupAt(local, search.camera, solution, matches))


@dataclass(frozen=True, eq=False)
class Supported:
    """R_t, the mixed image set of a group: its frames, and the aerial photos that they are reconstructed with."""

    pairs: CrossPairs
    views: Ints
    """(A,), indices of the aerial views."""
    graph: VisibilityGraph | None
    """Which of them show the same ground; None where all are thought to."""

    @property
    def index(self) -> AerialIndex:
        """Where the aerial photos are from."""
        return self.pairs.index

    def neighbours(self, a: int, b: int) -> bool:
        """Whether two of the aerial photos, by their place in `views`, are worth matching with each other."""
        if self.graph is None:
            return True
        i, j = int(self.views[a]), int(self.views[b])
        return j in self.graph.neighbours[i] or i in self.graph.neighbours[j]


def support_of(search: Search, local: LocalGroup) -> Supported | Refusal:
    """The group's support: for each frame the best verified of the photos that look like it, and its neighbours."""
    prepared, config = search.prepared, search.config
    choice = config.paper.matcher
    folder = search.frames.folder if search.frames.keeps(choice) else None
    index = _index_of(prepared, choice, config.paper.descriptor, folder)
    photos = [search.frames.photo(i) for i in local.frames]
    with search.frames.clock.step("seeds"):
        pairs = CrossPairs(index, tuple(map(index.matcher.extract, photos)), search.camera, config.paper.verify)
        among = views_of(search.near, prepared.ground, prepared.scaffold.views)
        candidates = [index.candidates(photo, among, config.paper.retrieved) for photo in photos]
        seeds = [seed_of(pairs, k, few) for k, few in enumerate(candidates)]
    graph = prepared.graph if config.ablation.visibility_graph else None
    support = support_set(seeds, graph, config.paper.near)
    if not len(support):
        return Refusal(Reason.NO_SEED, "No aerial photo could be verified with any frame.")
    return Supported(pairs, support, graph)


# --- the aerial photos ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class AerialFeatures:
    """Features of the photos of an atlas, extracted when first asked for and kept while room lasts."""

    atlas: AerialAtlas
    cache: FeatureCache
    _keys: dict[int, str] = field(default_factory=dict)
    """By view: photos are read once for their digests."""

    def __getitem__(self, view: int) -> Features:
        """Of one view, in pixels of the atlas photo."""
        if view in self._keys:
            return self.cache.known(self._keys[view], lambda: self.atlas.photo(view))
        photo = self.atlas.photo(view)
        self._keys[view] = self.cache.key(photo)
        return self.cache.features(photo)


@dataclass(frozen=True, eq=False)
class AerialIndex:
    """Aerial photos as a matcher takes them, with global descriptors."""

    atlas: AerialAtlas
    features: AerialFeatures
    descriptor: GlobalDescriptor
    described: Floats32
    """(V, E), unit."""

    @property
    def matcher(self) -> Matcher:
        """What features are matched by."""
        return self.features.cache.matcher

    def candidates(self, photo: Photo, among: Ints, count: int) -> Ints:
        """At most `count` of the views `among` that look like a street photo, the most alike first."""
        query = self.descriptor.describe(photo)[None]
        return np.asarray(among[ranked(query, self.described[among], count)[0]])


@dataclass(frozen=True, eq=False)
class _Photos(Ordered[Photo]):
    """The photos of an atlas one after the other; none is kept."""

    atlas: AerialAtlas

    def __len__(self) -> int:
        return len(self.atlas.views)

    @overload
    def __getitem__(self, index: int) -> Photo: ...

    @overload
    def __getitem__(self, index: slice) -> list[Photo]: ...

    def __getitem__(self, index: int | slice) -> Photo | list[Photo]:
        chosen = range(len(self))[index]
        return self.atlas.photo(chosen) if isinstance(chosen, int) else [self.atlas.photo(j) for j in chosen]


def index_aerial(atlas: AerialAtlas, cache: FeatureCache, choice: AnyDescriptor) -> AerialIndex:
    """Every aerial photo of the scaffold, described once; those that are matched have their features in the cache."""
    photos = _Photos(atlas)
    descriptor = choice.load("auto", photos)
    return AerialIndex(atlas, AerialFeatures(atlas, cache), descriptor, described(descriptor, photos))


@lru_cache(maxsize=1)
def _index_of(
    prepared: PreparedScaffold, matcher: AnyMatcher, descriptor: AnyDescriptor, folder: Path | None
) -> AerialIndex:
    """The index that all groups share."""
    return index_aerial(prepared.atlas, FeatureCache(matcher.load(), folder, FEATURE_BYTES), descriptor)


# --- seeds and their neighbours -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CrossPairs:
    """Frames of a group matched with aerial photos; a pair is matched and verified once."""

    index: AerialIndex
    frames: tuple[Features, ...]
    """Of the group, in its order."""
    camera: Camera
    """Of the frames."""
    config: VerifyConfig
    held: dict[tuple[int, int], tuple[Floats, Floats] | None] = field(default_factory=dict)
    """What is known already, by frame of the group and aerial view."""

    def agreeing(self, frame: int, view: int) -> tuple[Floats, Floats] | None:
        """Pixels (M, 2) of a frame and of an aerial photo that agree with one relative pose; None where too few do."""
        if (frame, view) not in self.held:
            matches = self.index.matcher.match_extracted(self.frames[frame], self.index.features[view])
            lenses = (self.camera, self.index.atlas.photo_camera(view))
            pair = verify(matches.xy_a, matches.xy_b, *lenses, matches.sigma_px, without_vain_trials(self.config))
            rows = (matches.xy_a[pair.inliers], matches.xy_b[pair.inliers]) if isinstance(pair, TwoView) else None
            self.held[frame, view] = rows
        return self.held[frame, view]


def without_vain_trials(config: VerifyConfig) -> VerifyConfig:
    """The same verification without trials that look for a smaller share of inliers than it would accept.

    Five matches make a sample, so ln(1 - confidence) / ln(1 - ratio^5) of them meet one without outliers.
    """
    if not 0.0 < config.least_ratio < 1.0 or config.confidence >= 1.0:
        return config
    enough = ceil(log1p(-config.confidence) / log1p(-(config.least_ratio**5)))
    least, most = config.trials
    return replace(config, trials=(least, max(least, min(most, enough))))


def seed_of(pairs: CrossPairs, frame: int, candidates: Ints) -> int | None:
    """The candidate with the most two-view inliers with a frame of the group, or None when none is verified."""
    best: tuple[int, int] | None = None
    for j in map(int, candidates):
        rows = pairs.agreeing(frame, j)
        if rows is not None:
            best = max(best or (0, -1), (len(rows[0]), j))
    return None if best is None else best[1]


def views_of(priors: tuple[Prior, ...], ground: Ground, views: tuple[View, ...]) -> Ints:
    """Indices of the aerial views that look at free ground which the priors allow; all of them without priors."""
    if not priors:
        return np.arange(len(views))
    places = free_places(ground, GRID_M, 0.0)
    places = places[allowed(priors, places @ ground.across.T)]
    return np.array([j for j, view in enumerate(views) if _looks_at(view, places)], dtype=np.int64)


def _looks_at(view: View, points: Floats) -> bool:
    """Whether any of the points (N, 3) is before the camera and inside its picture."""
    in_cam = view.cam_from_world(points)
    before = in_cam[in_cam[:, 2] > 0.0]
    xy = cameras.project(cameras.undistorted(view.camera), before)
    return bool(inside(view.camera, xy).any())


def support_set(seeds: list[int | None], graph: VisibilityGraph | None, near: int) -> Ints:
    """R_t: the seeds of all frames and up to `near` neighbours of each, where there is a graph."""
    chosen: set[int] = set()
    for seed in seeds:
        if seed is None:
            continue
        chosen.add(seed)
        if graph is not None:
            chosen.update(int(j) for j in graph.neighbours[seed][:near])
    return np.array(sorted(chosen), dtype=np.int64)


def _lifted(atlas: AerialAtlas, view: int, xy: Floats) -> tuple[Floats, Floats]:
    """(points, normals) in the world under pixels of an aerial photo; nan where there is no surface."""
    full = atlas.photo_camera(view)
    camera = cameras.scaled(full, min(800, full.width))
    pose = atlas.views[view].cam_from_world
    depth, normal = render_depth(atlas.surface, camera, pose, 1.0, 1e4)
    small = xy * camera.width / full.width
    return lift(full, pose, xy, sampled(depth, small)), under(normal, small).astype(np.float64) @ pose.rotation


def match_support(index: AerialIndex, support: Ints, frames: tuple[Features, ...]) -> CrossMatches:
    """Every frame of the group matched with every aerial photo of its support, lifted to the surface."""
    parts: list[CrossMatches] = []
    for j in support:
        matched = [index.matcher.match_extracted(frame, index.features[int(j)]) for frame in frames]
        counts = [len(matches.xy_a) for matches in matched]
        owner = np.repeat(np.arange(len(frames)), counts)
        points, normals = _lifted(index.atlas, int(j), np.concatenate([matches.xy_b for matches in matched]))
        xy = np.concatenate([matches.xy_a for matches in matched])
        coarse = [max(matches.sigma_px, frame.sigma_px) for matches, frame in zip(matched, frames, strict=True)]
        sigma = np.repeat(coarse, counts)
        good = np.isfinite(points[:, 0])
        count = int(good.sum())
        parts.append(
            CrossMatches(
                owner[good].astype(np.int64),
                xy[good],
                sigma[good],
                points[good],
                normals[good],
                np.full(count, j, np.int64),
                np.full(count, -1, np.int64),
            )
        )
    return joined(parts)
