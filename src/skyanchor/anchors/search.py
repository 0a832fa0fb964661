"""What a group is looked for in, with and by: the value that the steps of its localisation share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.earlier_walks.keyframes import EarlierWalks
from skyanchor.anchors.frames import GroundFrames, Lens, seen_through
from skyanchor.anchors.place_finding import Compared, PlaceSeed
from skyanchor.anchors.place_index import PlaceIndex
from skyanchor.anchors.prepared_scaffold import PreparedScaffold
from skyanchor.anchors.priors import Near, Prior
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.matching import Matcher
from skyanchor.types import Camera, Refusal, TriedPlace

if TYPE_CHECKING:
    from skyanchor.anchors.place_refinement import Settled

Watch: TypeAlias = "Callable[[Settled], None]"
"""Told of every place that was looked at, with all that it was judged on."""


def unwatched(_: Settled) -> None:
    """Nobody looks on."""


SEEDS_KEPT = 8
"""Looks at all places that are kept: all focal lengths of a group share one."""


@dataclass(eq=False)
class Glances:
    """Where groups may stand by their looks, which no focal length changes."""

    _held: dict[object, tuple[PlaceSeed, ...]] = field(default_factory=dict)
    _compared: Compared | None = None

    def seeds(self, key: object, look: Callable[[], tuple[PlaceSeed, ...]]) -> tuple[PlaceSeed, ...]:
        """What a look gave, taken once for a key."""
        if key not in self._held:
            while len(self._held) >= SEEDS_KEPT:
                self._held.pop(next(iter(self._held)))
            self._held[key] = look()
        return self._held[key]

    def compared(self, index: PlaceIndex) -> Compared:
        """What frames have in common with views of the index, as far as anybody has asked."""
        if self._compared is None or self._compared.index is not index:
            self._compared = Compared(index)
        return self._compared


@dataclass(frozen=True, eq=False)
class Search:
    """The look for one group."""

    prepared: PreparedScaffold
    frames: GroundFrames
    config: AnchorConfig
    lens: Lens = field(default_factory=Lens)
    near: tuple[Prior, ...] = ()
    """Where the group may stand; anywhere when empty."""
    hints: tuple[Near, ...] = ()
    """Where the walk says that it stands; nobody asked the walk when empty."""
    watch: Watch = unwatched
    earlier: EarlierWalks | None = None
    """Walks that were located before; None without any."""
    glances: Glances = field(default_factory=Glances)
    refused: dict[object, list[Settled]] = field(default_factory=dict)
    """Places that an attempt has measured and refused, by what was looked for with what; the next one skips them."""
    finished: dict[int, tuple[Settled, Settled]] = field(default_factory=dict)
    """What places came to by their last look, by their identity: the next attempt may come back to a refused one."""
    shapes: dict[object, LocalGroup | Refusal] = field(default_factory=dict)
    """Shapes of the group, by frames and settings: attempts that search otherwise share them."""
    tried: list[TriedPlace] = field(default_factory=list)
    """Every place that was looked at, in order."""

    @property
    def camera(self) -> Camera:
        """PINHOLE camera of the undistorted photos at full resolution."""
        return seen_through(self.frames.sequence, self.lens)

    @property
    def matcher(self) -> Matcher:
        """Of ground frames with bridges."""
        return self.frames.matcher(self.config.refine.matcher)
