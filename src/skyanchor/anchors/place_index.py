"""Described places: squares of the scaffold side by side, mapped from disk and read only where they are looked at."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from skyanchor.anchors.place_code import DescriptorCode, Packed, encoded
from skyanchor.matching.retrieval import Vocabulary, vlad
from skyanchor.storage import files
from skyanchor.types import Floats, Floats32, Ints

Signed: TypeAlias = npt.NDArray[np.int8]
Short: TypeAlias = npt.NDArray[np.int16]
Words: TypeAlias = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]
Numbers: TypeAlias = npt.NDArray[np.int32]

TILE_FORMAT = 3
"""Of a `PlaceTile` on disk; places of another format are described anew."""
STEPS = 127.0
"""Of a look's component between 0 and its largest, as it is kept."""
FINEST_M = 0.01
"""Step of a point's coordinates, metres; more where a tile sees further than 16 bits reach."""
MOST_TILES = 4096
"""That are mapped at a time, where the system allows so many open files."""


def open_tiles() -> int:
    """Tiles that are mapped at a time. Each is an open file, and a quarter of those that a process may have is theirs.

    A search looks at all tiles in turn: where they have no room together, each is opened anew every time.
    """
    files_allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST_TILES if files_allowed == resource.RLIM_INFINITY else max(1, min(MOST_TILES, files_allowed // 4))


@dataclass(frozen=True, eq=False)
class PlaceView:
    """One described bridge view: what its keypoints look like and where they lie on the surface."""

    eye: Floats
    """(3,), metres."""
    heading: float
    """Radians from the first horizontal axis, counter-clockwise seen from above."""
    width: int
    """Of the view, pixels."""
    descriptors: Floats32
    """(N, D), unit."""
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
    descriptors: Packed
    """(N, B / 8), by `code`."""
    points: Short
    """(N, 3), from the view's eye, in `point_step_m`."""
    source: Words
    """(N,), aerial view each was painted from, by its place in `photos`: a byte each where these are 256 at most."""
    photos: Numbers
    """(S,), aerial views that the tile shows."""
    code: DescriptorCode
    """What the descriptors of this tile are kept by."""
    point_step_m: float = FINEST_M
    width: int = 1
    """Of the views, pixels."""

    def view(self, number: int) -> PlaceView:
        """One view as it was described, with points to a centimetre and descriptors as its tile's code has them."""
        own = slice(int(self.starts[number]), int(self.starts[number + 1]))
        eye = self.eyes[number]
        points = (eye + self.points[own] * self.point_step_m).astype(np.float32)
        source = self.photos[self.source[own]].astype(np.int64)
        return PlaceView(
            eye, float(self.headings[number]), self.width, self.code.decoded(self.descriptors[own]), points, source
        )


def make_tile(views: tuple[PlaceView, ...], vocabulary: Vocabulary | None) -> PlaceTile:
    """The views to be kept, each with the look that a vocabulary gives it, or with its own."""
    if not views:
        code, no_descriptors = encoded(np.zeros((1, 64), np.float32))
        none, nothing, numbers = np.zeros((0, 3)), np.zeros((0, 1)), np.zeros(0, np.int32)
        return PlaceTile(
            none, none[:, 0], nothing.astype(np.int8), numbers.astype(np.float32), np.zeros(1, np.int64),
            no_descriptors[:0], none.astype(np.int16), numbers.astype(np.uint8), numbers, code,
        )  # fmt: skip
    looks = np.stack([_look(view, vocabulary) for view in views])
    gains = np.maximum(np.abs(looks).max(axis=1), 1e-9) / STEPS
    away = np.concatenate([view.points - view.eye for view in views])
    step = max(FINEST_M, float(np.abs(away).max()) / np.iinfo(np.int16).max)
    code, descriptors = encoded(np.concatenate([view.descriptors for view in views]))
    photos, source = np.unique(np.concatenate([view.source for view in views]), return_inverse=True)
    return PlaceTile(
        np.stack([view.eye for view in views]),
        np.array([view.heading for view in views]),
        np.round(looks / gains[:, None]).astype(np.int8),
        gains.astype(np.float32),
        np.cumsum([0, *(len(view.points) for view in views)]),
        descriptors,
        np.round(away / step).astype(np.int16),
        source.astype(np.uint8) if len(photos) <= 256 else source.astype(np.uint16),
        photos.astype(np.int32),
        code,
        step,
        views[0].width,
    )


def _look(view: PlaceView, vocabulary: Vocabulary | None) -> Floats32:
    if vocabulary is not None:
        return vlad(view.descriptors, vocabulary)
    assert view.look is not None, "views of an index without vocabulary have looks of their own"
    return view.look


@lru_cache(maxsize=open_tiles())
def _mapped(path: Path, seen: str) -> PlaceTile:
    """The tile in a file as it was at some time: a file that is replaced is mapped anew."""
    return files.load_mapped(path, PlaceTile)


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
        return _mapped(tile, files.mark(tile)) if isinstance(tile, Path) else tile
