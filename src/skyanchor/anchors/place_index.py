"""Described places: squares of the scaffold side by side, mapped from disk and read only where they are looked at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from skyanchor.matching import Features
from skyanchor.matching.retrieval import Vocabulary, vlad
from skyanchor.storage import files
from skyanchor.types import Floats, Floats32, Ints

Signed: TypeAlias = npt.NDArray[np.int8]
Numbers: TypeAlias = npt.NDArray[np.int32]

STEPS = 127.0
"""Of a descriptor's component between 0 and 1, as it is kept."""
OPEN_TILES = 256
"""Tiles that are mapped at a time."""


@dataclass(frozen=True, eq=False)
class PlaceView:
    """One described bridge view: its features and where they lie on the surface."""

    eye: Floats
    """(3,), metres."""
    heading: float
    """Radians from the first horizontal axis, counter-clockwise seen from above."""
    features: Features
    points: Floats32
    """(N, 3), world, metres."""
    source: Ints
    """(N,), aerial view each was painted from."""
    look: Floats32 | None = None
    """(E,), unit, by the chosen global descriptor; None without one."""


@dataclass(frozen=True, eq=False)
class PlaceTile:
    """The described views of one square of the scaffold, as they are kept."""

    eyes: Floats
    """(V, 3), metres."""
    headings: Floats
    """(V,), radians."""
    looks: Signed
    """(V, E), global descriptors over `gains`."""
    gains: Floats32
    """(V,)."""
    starts: Ints
    """(V + 1,), features of view v are starts[v] .. starts[v + 1]."""
    xy: Floats32
    """(N, 2), pixels of the views."""
    descriptors: Signed
    """(N, D), unit length in `STEPS`."""
    points: Floats32
    """(N, 3), world, metres."""
    source: Numbers
    """(N,), aerial view each was painted from."""
    size: tuple[int, int] = (1, 1)
    """Width and height of the views, pixels."""
    sigma_px: float = 1.0
    """Localisation error of a feature, pixels."""

    def view(self, number: int) -> PlaceView:
        """One view as it was described, its descriptors to a two-hundredth."""
        own = slice(int(self.starts[number]), int(self.starts[number + 1]))
        descriptors = self.descriptors[own].astype(np.float32) / np.float32(STEPS)
        even = np.ones(len(descriptors), np.float32)
        features = Features(self.xy[own].astype(np.float64), descriptors, even, even, *self.size, self.sigma_px)
        source = self.source[own].astype(np.int64)
        return PlaceView(self.eyes[number], float(self.headings[number]), features, self.points[own], source)


def make_tile(views: tuple[PlaceView, ...], vocabulary: Vocabulary | None) -> PlaceTile:
    """The views to be kept, each with the look that a vocabulary gives it, or with its own."""
    if not views:
        none, empty = np.zeros((0, 3)), np.zeros((0, 1), np.int8)
        nothing = np.zeros((0, 3), np.float32)
        return PlaceTile(
            none, none[:, 0], empty, nothing[:, 0], np.zeros(1, np.int64), nothing[:, :2], empty, nothing,
            np.zeros(0, np.int32),
        )  # fmt: skip
    looks = np.stack([_look(view, vocabulary) for view in views])
    gains = np.maximum(np.abs(looks).max(axis=1), 1e-9) / STEPS
    first = views[0].features
    return PlaceTile(
        np.stack([view.eye for view in views]),
        np.array([view.heading for view in views]),
        np.round(looks / gains[:, None]).astype(np.int8),
        gains.astype(np.float32),
        np.cumsum([0, *(len(view.features) for view in views)]),
        np.concatenate([view.features.xy for view in views]).astype(np.float32),
        np.round(np.concatenate([view.features.descriptors for view in views]) * STEPS).astype(np.int8),
        np.concatenate([view.points for view in views]),
        np.concatenate([view.source for view in views]).astype(np.int32),
        (first.width, first.height),
        first.sigma_px,
    )


def _look(view: PlaceView, vocabulary: Vocabulary | None) -> Floats32:
    if vocabulary is not None:
        return vlad(view.features.descriptors, vocabulary)
    assert view.look is not None, "views of an index without vocabulary have looks of their own"
    return view.look


@lru_cache(maxsize=OPEN_TILES)
def _mapped(path: Path, written_ns: int) -> PlaceTile:
    """The tile in a file as it was written at some time: a file that is replaced is mapped anew."""
    return files.load_mapped(path, PlaceTile)


def _written(path: Path) -> int:
    """When a file was last written, nanoseconds; 0 for one that is not there."""
    return path.stat().st_mtime_ns if path.is_file() else 0


@dataclass(frozen=True, eq=False)
class PlaceIndex:
    """All described views that a search may look at, numbered tile by tile."""

    tiles: tuple[PlaceTile | Path, ...]
    """Tiles, or the files they lie in."""
    vocabulary: Vocabulary | None
    """What the looks are made with; None where a global descriptor made them."""

    def __len__(self) -> int:
        """Number of views."""
        return len(self.headings)

    @property
    def eyes(self) -> Floats:
        """(V, 3), metres."""
        return self._table[0]

    @property
    def headings(self) -> Floats:
        """(V,), radians."""
        return self._table[1]

    @cached_property
    def _table(self) -> tuple[Floats, Floats, Ints]:
        """(eyes, headings, (T + 1,) first view of each tile), every tile opened once."""
        tiles = [(tile.eyes.copy(), tile.headings.copy()) for tile in map(self._tile, range(len(self.tiles)))]
        eyes = np.concatenate([np.empty((0, 3)), *(own for own, _ in tiles)])
        headings = np.concatenate([np.empty(0), *(own for _, own in tiles)])
        return eyes, headings, np.cumsum([0, *(len(own) for _, own in tiles)])

    def view(self, number: int) -> PlaceView:
        """One view."""
        starts = self._table[2]
        tile = int(np.searchsorted(starts, number, side="right")) - 1
        return self._tile(tile).view(number - int(starts[tile]))

    def likeness(self, looks: Floats32) -> Floats32:
        """(F, V), how much every view is like each of the looks (F, E)."""
        parts = [np.empty((len(looks), 0), np.float32)]
        for k in range(len(self.tiles)):
            tile = self._tile(k)
            if len(tile.gains):
                parts.append((looks @ tile.looks.astype(np.float32).T) * tile.gains)
        return np.concatenate(parts, axis=1)

    def _tile(self, number: int) -> PlaceTile:
        tile = self.tiles[number]
        return _mapped(tile, _written(tile)) if isinstance(tile, Path) else tile
