"""What the groups of a walk are looked for in: the aerial model with its surface, its ground and its described places.

It is the value in memory; the folder that it is read from is `run.prepared.Prepared`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.place_description import coarse_atlas, load_descriptor
from skyanchor.anchors.place_finding import PlacesConfig
from skyanchor.anchors.place_index import PlaceIndex
from skyanchor.bridges.ground import Ground
from skyanchor.bridges.surface import Surface
from skyanchor.bridges.views import AerialAtlas, BridgeConfig
from skyanchor.matching.global_descriptors import GlobalDescriptor
from skyanchor.scaffold import visibility_graph
from skyanchor.types import Scaffold, VisibilityGraph


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
