"""Voxels of a fused surface, gathered and smoothed tile by tile: the result is that of one table that holds all."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numba
import numpy as np

from skyanchor.bridges import voxel_kernels as kernels
from skyanchor.storage.spill import Heaps, Spill
from skyanchor.types import Bools, Floats, Floats32, Ints

TILE_BITS = 9
"""A tile is a cube of 2⁹ voxels a side: tens of metres."""
REACH = 8
"""Voxels that one step of smoothing carries something over: 6 that a disc moves, 2 that it looks around."""
PIXEL_BYTES = 1 << 28
"""Of pixels in memory that wait for their tile's turn."""
DISC_BYTES = 1 << 27
"""Of discs in memory while they are smoothed."""
SMALLEST_TABLE = 1 << 14
"""Slots of a tile's first table."""


def _tile_of(keys: Ints) -> Ints:
    """(N,), the number of the tile that each voxel lies in, packed as the voxels' keys are."""
    parts = ((keys >> shift & 0x1FFFFF) >> TILE_BITS << shift for shift in (42, 21, 0))
    return np.asarray(sum(parts))


def _within(keys: Ints, tile: int, halo: int) -> Bools:
    """(N,), whether each voxel lies in the tile or at most `halo` voxels beside it."""
    inside = np.ones(len(keys), bool)
    for shift in (42, 21, 0):
        along = (keys >> shift & 0x1FFFFF) - ((tile >> shift & 0x1FFFFF) << TILE_BITS)
        inside &= (along >= -halo) & (along < (1 << TILE_BITS) + halo)
    return inside


@dataclass
class VoxelTiles:
    """Pixels by tile, to be summed up in a hash table of voxels, one tile after the other.

    A photo shows many tiles and a tile is shown by many photos: pixels are written and read once, tables would be for
    every photo.
    """

    voxel: float
    """Side of a voxel, metres."""
    scratch: Path | None = None
    """For the pixels that find no room in memory."""
    pixels: Heaps = field(init=False)

    def __post_init__(self) -> None:
        """No pixels yet."""
        self.pixels = Heaps(self.scratch and self.scratch / "pixels", PIXEL_BYTES)

    def add(self, points: Floats32, normals: Floats32, weights: Floats32, least: float) -> None:
        """Add pixels (H, W) of weight above `least`, each voxel's in their order."""
        voxels = kernels.voxel_keys(points, weights, least, self.voxel).ravel()
        rows = np.flatnonzero(voxels >= 0)
        flat = points.reshape(-1, 3), normals.reshape(-1, 3), weights.ravel()
        tiles = _tile_of(voxels[rows])
        while len(rows):
            here = tiles == tiles[0]
            own = rows[here]
            self.pixels.add(int(tiles[0]), tuple(values[own] for values in flat))
            rows, tiles = rows[~here], tiles[~here]

    def _summed(self, tile: int) -> tuple[Ints, Floats]:
        """(keys, sums) of a tile's table of voxels."""
        keys, sums, used = _empty_table()
        for pixels in self.pixels.take(tile):
            points, normals, weights = (values[None] for values in pixels)
            voxels = kernels.voxel_keys(points, weights, 0.0, self.voxel)
            most = int((used + kernels.shard_counts(voxels)).max()) * kernels.SHARDS
            size = len(keys)
            while most > 0.6 * size:
                size *= 2
            if size != len(keys):
                keys, sums = kernels.moved_table(keys, sums, size)
            used += kernels.add_to_voxels(voxels, points, normals, weights, self.voxel, keys, sums)
        return keys, sums

    def discs(self, smoothing: int) -> DiscTiles:
        """The mean disc of every voxel; the pixels are gone then."""
        discs = Spill(self.scratch and self.scratch / "discs", DISC_BYTES)
        givers: defaultdict[int, list[int]] = defaultdict(list)
        for tile in self.pixels:
            keys, sums = self._summed(tile)
            slots = np.flatnonzero(keys >= 0)
            slots = slots[ascending(keys[slots])]
            discs[tile] = (keys[slots], *kernels.voxel_means(keys, sums, slots, self.voxel))
            for taker in _takers(keys[slots], tile, smoothing * REACH):
                givers[taker].append(tile)
        return DiscTiles(self.voxel, smoothing, discs, dict(givers))


def _empty_table() -> tuple[Ints, Floats, Ints]:
    """(keys, sums, used) of no voxels."""
    keys, used = np.full(SMALLEST_TABLE, -1, np.int64), np.zeros(kernels.SHARDS, np.int64)
    return keys, np.zeros((SMALLEST_TABLE, 7)), used


def _takers(keys: Ints, tile: int, halo: int) -> list[int]:
    """The tile itself, and those beside it that lie at most `halo` voxels from one of its voxels."""
    near = product((-1, 0, 1), repeat=3)
    tiles = [tile + (i << 42) + (j << 21) + k for i, j, k in near]
    return [other for other in tiles if other == tile or (halo and _within(keys, other, halo).any())]


@dataclass(frozen=True)
class DiscTiles:
    """A disc per voxel, by tile, in the order of the voxels' keys."""

    voxel: float
    """Metres."""
    smoothing: int
    """Steps."""
    discs: Spill
    """(keys (N,), points (N, 3), normals (N, 3)) of every tile with voxels."""
    givers: dict[int, list[int]]
    """For every tile in which discs may end, the tiles whose discs matter there."""

    @property
    def numbers(self) -> list[int]:
        """The tiles in which discs may end, ascending."""
        return sorted(self.givers)

    def smoothed(self, tile: int) -> tuple[Ints, Floats32, Floats32]:
        """(keys, points, normals) of the discs whose voxel before the last step is in the tile, ascending."""
        keys, points, normals = self._around(tile)
        for _ in range(self.smoothing):
            keys, points, normals = _smoothed(points, normals, self.voxel)
        own = _within(keys, tile, 0)
        return keys[own], points[own], normals[own]

    def _around(self, tile: int) -> tuple[Ints, Floats32, Floats32]:
        """The discs of a tile and of as many voxels beside it as matter for them."""
        parts = []
        for giver in self.givers[tile]:
            keys, points, normals = self.discs[giver]
            wanted = _within(keys, tile, self.smoothing * REACH)
            parts.append((keys[wanted], points[wanted], normals[wanted]))
        keys, points, normals = (np.concatenate(values) for values in zip(*parts, strict=True))
        order = ascending(keys)
        return keys[order], points[order], normals[order]


def ascending(keys: Ints) -> Ints:
    """Indices (N,) that sort the keys, stable; ranges of keys are sorted side by side, one a thread."""
    parts = min(numba.get_num_threads(), max(1, len(keys) >> 16))
    sample = np.sort(keys[:: max(1, len(keys) >> 12)])
    inner = sample[np.arange(1, parts) * len(sample) // parts]
    bounds = [keys.min(initial=0), *inner, keys.max(initial=0) + 1]

    def sorted_part(part: int) -> Ints:
        rows = np.flatnonzero((keys >= bounds[part]) & (keys < bounds[part + 1]))
        return np.asarray(rows[np.argsort(keys[rows], kind="stable")])

    with ThreadPoolExecutor(parts) as sorters:
        return np.concatenate(list(sorters.map(sorted_part, range(parts))))


def _smoothed(points: Floats32, normals: Floats32, voxel: float) -> tuple[Ints, Floats32, Floats32]:
    """(voxels before the step, points, normals): discs nearer to their neighbours' planes, one of each voxel's."""
    voxels = kernels.voxel_keys(points[None], np.ones((1, len(points)), np.float32), 0.0, voxel)[0]
    order = ascending(voxels)
    keys = voxels[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    edges = np.append(starts, len(points))
    discs = kernels.merged(points, normals, voxels, order, edges, voxel)
    moved, turned = kernels.smooth(*discs, keys[starts], voxel)
    return keys[starts], moved, turned
