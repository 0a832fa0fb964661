"""The scaffold made ready for any number of walks: its surface and ground, and places described for a camera."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.place_index import PlaceIndex, PlaceTile, PlaceView, make_tile
from skyanchor.anchors.places import (
    PlacesConfig,
    choose_nodes,
    described_view,
    fit_words,
    in_tiles,
    load_descriptor,
    spread_voters,
    tiles_near,
    view_camera,
)
from skyanchor.anchors.priors import Prior
from skyanchor.bridges.ground import Ground
from skyanchor.bridges.surface import Surface
from skyanchor.bridges.views import AerialAtlas, BridgeConfig, Node, painted_share, render_bridge
from skyanchor.events import ANCHORS, Listener, Note, silent
from skyanchor.matching import SparseMatcher, XFeat
from skyanchor.matching.global_descriptors import GlobalDescriptor
from skyanchor.matching.retrieval import Vocabulary
from skyanchor.scaffold import visibility_graph
from skyanchor.scaffold.windows import ground_samples
from skyanchor.types import Camera, Floats, Scaffold, VisibilityGraph

COARSE_BYTES = 1 << 28
"""Of aerial photos that are held while places are described."""


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
        some = [nodes[int(k)] for k in spread_voters(len(nodes), self.config.sampled)]
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


@dataclass(frozen=True, eq=False)
class PreparedScaffold:
    """What all groups share: the surface, its ground and described places; the rest follows from them on demand."""

    scaffold: Scaffold
    surface: Surface
    ground: Ground
    places: PlaceIndex
    painting: BridgeConfig
    """How the views are made that a place is confirmed with."""
    described_with: PlacesConfig
    """How the places were described."""

    @cached_property
    def atlas(self) -> AerialAtlas:
        """What those views are painted from."""
        return AerialAtlas(self.surface, self.scaffold.views, self.painting)

    @cached_property
    def descriptor(self) -> GlobalDescriptor | None:
        """What described the places besides their local features; None when these do it alone."""
        config = self.described_with
        if config.descriptor is None:
            return None
        return load_descriptor(config.descriptor, coarse_atlas(self.scaffold, self.surface, config))

    @cached_property
    def graph(self) -> VisibilityGraph:
        """Which aerial photos show the same ground; asked for only where street photos are matched with them."""
        return visibility_graph(self.scaffold)


def prepared_for(
    scaffold: Scaffold, surface: Surface, ground: Ground, places: PlaceIndex, config: AnchorConfig
) -> PreparedScaffold:
    """The scaffold as the groups of a walk are looked for in it."""
    return PreparedScaffold(scaffold, surface, ground, places, config.bridge, config.places)
