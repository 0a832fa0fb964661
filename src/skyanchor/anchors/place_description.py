"""Places of the scaffold described, once for all walks: where a street camera may stand, and what it would see there.

Views stand on a grid over the walkable ground, square by square. Each is painted from the aerial photos, and its local
features are kept with their points on the surface; a global descriptor of the whole view is kept besides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree

from skyanchor.anchors.frames import spread_over
from skyanchor.anchors.place_finding import PlacesConfig
from skyanchor.anchors.place_index import PlaceIndex, PlaceTile, PlaceView, make_tile
from skyanchor.anchors.priors import Prior, allowed
from skyanchor.bridges.ground import Ground
from skyanchor.bridges.surface import Surface
from skyanchor.bridges.views import (
    AerialAtlas,
    Bridge,
    BridgeConfig,
    Node,
    free_places,
    lift,
    nodes_at,
    painted_share,
    render_bridge,
)
from skyanchor.events import ANCHORS, Listener, Note, silent
from skyanchor.geometry import cameras
from skyanchor.matching import SparseMatcher, XFeat
from skyanchor.matching.global_descriptors import AnyDescriptor, GlobalDescriptor
from skyanchor.matching.retrieval import Vocabulary, fit_vocabulary
from skyanchor.scaffold.windows import ground_samples
from skyanchor.types import Camera, Floats, Scaffold

VOCABULARY_PHOTOS = 24
"""Aerial photos that a global descriptor's vocabulary is fitted to."""
COARSE_BYTES = 1 << 28
"""Of aerial photos that are held while places are described."""
SPARSE = 0.2
"""Share of the landmarks that places of a model have in the median, from which on a place has enough."""
LEAST_FEATURES = 20
"""Features on the surface that a view must have to be kept."""


def coarse_atlas(scaffold: Scaffold, surface: Surface, config: PlacesConfig) -> AerialAtlas:
    """The aerial photos as places are painted from them."""
    return AerialAtlas(surface, scaffold.views, coarse_painting(scaffold, config), limit_bytes=COARSE_BYTES)


def coarse_painting(scaffold: Scaffold, config: PlacesConfig) -> BridgeConfig:
    """How places are painted: from small photos, but none whose pixel would cover more than `paint_m`."""
    widths = np.array([view.camera.width for view in scaffold.views])
    asked = widths * ground_samples(scaffold) / config.paint_m
    if not np.isfinite(asked).any():
        return config.bridge
    finer = max(1.0, float(np.nanmedian(asked)) / config.bridge.paint_width)
    width, front = (int(np.ceil(finer * size)) for size in (config.bridge.paint_width, config.bridge.front_width))
    return replace(config.bridge, paint_width=width, front_width=front)


def view_camera(camera: Camera, width: int) -> Camera:
    """The ground camera at the index's resolution, without distortion."""
    return cameras.scaled(cameras.undistorted(camera), min(width, camera.width))


def load_descriptor(choice: AnyDescriptor, atlas: AerialAtlas) -> GlobalDescriptor:
    """The chosen global descriptor, with a vocabulary of the aerial photos if it fits one."""
    some = spread_over(len(atlas.views), VOCABULARY_PHOTOS)
    return choice.load("auto", [atlas.photo(int(j)) for j in some])


def described_view(
    node: Node, bridge: Bridge, matcher: SparseMatcher, least_painted: float, descriptor: GlobalDescriptor | None
) -> PlaceView | None:
    """The bridge from a node with its features on the surface; None when it shows too little."""
    if bridge.photo.mask is None or bridge.photo.mask.mean() < least_painted:
        return None
    seen = matcher.extract(bridge.photo)
    points, source = lift(bridge, seen.xy)
    good = np.isfinite(points[:, 0]) & (source >= 0)
    if good.sum() < LEAST_FEATURES:
        return None
    look = None if descriptor is None else descriptor.describe(bridge.photo)
    descriptors = seen.descriptors[good]
    return PlaceView(
        node.eye, node.heading, seen.width, descriptors, points[good].astype(np.float32), source[good], look
    )


@dataclass(frozen=True, eq=False)
class Sampled:
    """Nodes that were looked from to find words for places, and what was seen: the same views stand in the tiles."""

    eyes: tuple[Floats, ...]
    """(3,) each, metres."""
    headings: tuple[float, ...]
    """Radians."""
    views: tuple[PlaceView | None, ...]
    """None where there is too little to see."""

    @cached_property
    def by_node(self) -> dict[tuple[float, ...], PlaceView | None]:
        """The views by where they stand and look."""
        where = zip(self.eyes, self.headings, strict=True)
        return {(*eye.tolist(), heading): view for (eye, heading), view in zip(where, self.views, strict=True)}


def _key(node: Node) -> tuple[float, ...]:
    return (*node.eye.tolist(), node.heading)


@dataclass(frozen=True, eq=False)
class Describer:
    """Describes places of a scaffold as a street camera would see them; what it needs is loaded when first used."""

    scaffold: Scaffold
    surface: Surface
    camera: Camera
    """Of the street photos."""
    config: PlacesConfig

    @cached_property
    def atlas(self) -> AerialAtlas:
        """What the views are painted from."""
        return coarse_atlas(self.scaffold, self.surface, self.config)

    @cached_property
    def matcher(self) -> SparseMatcher:
        """Of the local features; a small network runs on the core that draws, since all workers would share a GPU."""
        return self.config.features.load("cpu" if isinstance(self.config.features, XFeat) else "auto")

    @cached_property
    def descriptor(self) -> GlobalDescriptor | None:
        """Of whole views; None when local features do it alone."""
        return None if self.config.descriptor is None else load_descriptor(self.config.descriptor, self.atlas)

    def describe(self, nodes: tuple[Node, ...], held: Sampled | None = None) -> tuple[PlaceView, ...]:
        """Views from the nodes with their features, held or made now; those that show too little are left out."""
        known = {} if held is None else held.by_node
        views = (known[_key(node)] if _key(node) in known else self._view(node) for node in nodes)
        return tuple(view for view in views if view is not None)

    def _view(self, node: Node) -> PlaceView | None:
        """The view from a node with its features; None when it shows too little."""
        camera, least = view_camera(self.camera, self.config.width), self.config.least_painted
        if painted_share(self.atlas, camera, node.cam_from_world) < least:
            return None
        bridge = render_bridge(self.atlas, camera, node.cam_from_world)
        return described_view(node, bridge, self.matcher, least, self.descriptor)

    def sampled(self, nodes: tuple[Node, ...]) -> Sampled:
        """Views from some nodes spread over all of the scaffold; none where a global descriptor needs no words."""
        if self.config.descriptor is not None or not nodes:
            return Sampled((), (), ())
        some = [nodes[int(k)] for k in spread_over(len(nodes), self.config.sampled)]
        return Sampled(
            tuple(node.eye for node in some), tuple(node.heading for node in some), tuple(map(self._view, some))
        )

    def vocabulary(self, held: Sampled) -> Vocabulary | None:
        """Words of sampled views; None where a global descriptor needs none."""
        if self.config.descriptor is not None:
            return None
        return fit_words(tuple(view for view in held.views if view is not None), self.config.centres)

    def tile(self, nodes: tuple[Node, ...], vocabulary: Vocabulary | None, held: Sampled | None = None) -> PlaceTile:
        """The views from the nodes of one square, to be kept."""
        return make_tile(self.describe(nodes, held), vocabulary)


def fit_words(views: tuple[PlaceView, ...], centres: int) -> Vocabulary:
    """A vocabulary of the descriptors of some views."""
    if not views:
        return Vocabulary(np.zeros((1, 64), np.float32))
    return fit_vocabulary(np.concatenate([view.descriptors for view in views]), centres)


def _with_landmarks(places: Floats, landmarks: Floats, least: int, reach: float) -> Floats:
    """The places (N, 3) with enough landmarks around; all of them for a scaffold without sparse points.

    Enough are `least`, or `SPARSE` of what the model has around its places in the median, where that is less: a model
    with few points has few everywhere.
    """
    if len(landmarks) < least or not len(places):
        return places
    counts = cKDTree(landmarks).query_ball_point(places, reach, return_length=True)
    usual = np.median(counts[counts > 0]) if (counts > 0).any() else 0.0
    return places[counts >= max(1.0, min(least, SPARSE * usual))]


def choose_nodes(ground: Ground, landmarks: Floats, config: PlacesConfig) -> tuple[Node, ...]:
    """Where views may stand: free ground that landmarks surround."""
    places = free_places(ground, config.nodes.spacing, config.nodes.eye)
    return nodes_at(_with_landmarks(places, landmarks, *config.landmarks), ground, config.nodes)


def in_tiles(chosen: tuple[Node, ...], ground: Ground, side: float) -> dict[tuple[int, int], tuple[Node, ...]]:
    """The nodes by the square of the map they stand in, squares in order."""
    squares = np.floor(_on_map(chosen, ground) / side).astype(np.int64)
    held: dict[tuple[int, int], list[Node]] = {}
    for node, (x, y) in zip(chosen, squares.tolist(), strict=True):
        held.setdefault((x, y), []).append(node)
    return {square: tuple(held[square]) for square in sorted(held)}


def tiles_near(
    tiles: dict[tuple[int, int], tuple[Node, ...]], ground: Ground, near: tuple[Prior, ...]
) -> dict[tuple[int, int], tuple[Node, ...]]:
    """The tiles with a node that some prior allows, whole; all of them without priors."""
    return {square: held for square, held in tiles.items() if allowed(near, _on_map(held, ground)).any()}


def _on_map(chosen: tuple[Node, ...], ground: Ground) -> Floats:
    """(N, 2), horizontal coordinates of nodes, metres."""
    return np.array([node.eye for node in chosen]).reshape(-1, 3) @ ground.across.T


def tiles_of(
    scaffold: Scaffold, ground: Ground, config: PlacesConfig, near: tuple[Prior, ...] = (), listen: Listener = silent
) -> dict[tuple[int, int], tuple[Node, ...]]:
    """Where views stand, by square of the map: all walkable ground, or the squares that priors allow."""
    tiles = in_tiles(choose_nodes(ground, scaffold.points, config), ground, config.tile)
    chosen = tiles_near(tiles, ground, near)
    if near and not chosen:
        listen(Note(ANCHORS, "where the walk was said to be is no ground to stand on", warning=True))
    return chosen


def described_places(describer: Describer, ground: Ground, near: tuple[Prior, ...], listen: Listener) -> PlaceIndex:
    """The index of bridge views over the walkable ground, or over the squares that priors allow."""
    scaffold, config = describer.scaffold, describer.config
    held = describer.sampled(choose_nodes(ground, scaffold.points, config))
    vocabulary = describer.vocabulary(held)
    tiles = tiles_of(scaffold, ground, config, near, listen)
    return PlaceIndex(tuple(describer.tile(nodes, vocabulary, held) for nodes in tiles.values()), vocabulary)
