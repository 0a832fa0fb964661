"""The ground beneath a surface: its height, and where a person can stand on it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np
from scipy.ndimage import distance_transform_edt
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from skyanchor.bridges import cell_kernels as kernels
from skyanchor.bridges.surface import Surface
from skyanchor.types import Bools, Floats, Floats32, Ints

BLOCK = 1 << 22
"""Discs that are looked at together."""


@dataclass(frozen=True, eq=False)
class Ground:
    """Height of the ground and free space over a horizontal grid."""

    across: Floats
    """(2, 3), horizontal axes."""
    up: Floats
    origin: Floats
    """(2,), horizontal coordinates of the grid's corner, metres."""
    cell: float
    """Metres."""
    height: Floats32
    """(X, Y), of the ground along up, metres; nan where nothing was seen."""
    free: Bools
    """(X, Y), True where a person can stand: the surface was seen and nothing low stands on it."""


def _lowest(surface: Surface, cell: float, share: float) -> tuple[Floats, Floats32, Floats32]:
    """(origin, low (X, Y), high (X, Y)): the `share` quantile and the top of the surface's heights per cell."""
    blocks = _blocks(surface)
    across = surface.across.T.astype(np.float32)
    bounds = [(flat.min(axis=0), flat.max(axis=0)) for flat in (surface.points[one] @ across for one in blocks)]
    least, most = np.min([low for low, _ in bounds], axis=0), np.max([high for _, high in bounds], axis=0)
    origin = least.astype(np.float64)
    size = np.floor((most - origin) / cell).astype(np.int64) + 1
    low, high = np.full(size, np.nan, np.float32), np.full(size, np.nan, np.float32)
    carried, done = surface.points[:0], 0
    for one in blocks:
        points = np.concatenate([carried, surface.points[one]])
        index = np.floor((points @ across - origin) / cell).astype(np.int64)
        later = one is not blocks[-1]
        complete = index[-_last_strip(surface, one) :, 0].min() if later else size[0]
        now = index[:, 0] < complete
        heights = points[now] @ surface.up.astype(np.float32)
        rows = slice(done, max(done, complete))
        low[rows], high[rows] = _low_and_high(index[now] - [done, 0], heights, low[rows].shape, share)
        carried, done = points[~now], rows.stop
    return origin, low, high


def _blocks(surface: Surface) -> list[slice]:
    """The discs in turn, whole strips of cells together, so many at a time as memory may hold."""
    edges = [0]
    for edge in map(int, _strip_starts(surface)):
        if edge - edges[-1] >= BLOCK and len(surface.points) - edge >= BLOCK:
            edges.append(edge)
    return [slice(first, last) for first, last in pairwise([*edges, len(surface.points)])]


def _strip_starts(surface: Surface) -> Ints:
    """The first disc of every strip of cells along the second axis."""
    first = surface.points[surface.cell_starts[:-1]]
    strip = kernels.cell_places(first, surface.across, surface.cell)[:, 0]
    return surface.cell_starts[:-1][np.diff(strip, prepend=strip[0] - 1) > 0]


def _last_strip(surface: Surface, block: slice) -> int:
    """How many of a block's discs lie in its last strip: what comes after it lies beyond them all."""
    starts = _strip_starts(surface)
    return int(block.stop - starts[np.searchsorted(starts, block.stop) - 1])


def _low_and_high(index: Ints, heights: Floats32, size: tuple[int, ...], share: float) -> tuple[Floats32, Floats32]:
    """The `share` quantile and the largest of the heights (N,) in every cell of a grid, nan where there is none."""
    key = index[:, 0] * size[1] + index[:, 1]
    order = np.lexsort((heights, key))
    starts = np.searchsorted(key[order], np.arange(size[0] * size[1]))
    ends = np.searchsorted(key[order], np.arange(size[0] * size[1]), side="right")
    sorted_heights = np.append(heights[order], np.float32(np.nan))
    pick = np.where(ends > starts, starts + ((ends - starts) * share).astype(np.int64), -1)
    top = np.where(ends > starts, ends - 1, -1)
    return sorted_heights[pick].reshape(size), sorted_heights[top].reshape(size)


def _closed_gaps(low: Floats32, rounds: int) -> Floats32:
    """Heights with unseen cells next to seen ones set to the lowest of their neighbours, `rounds` times."""
    for _ in range(rounds):
        filled = np.where(np.isfinite(low), low, np.float64(1e6)).astype(np.float32)
        lowest = cv2.erode(filled, np.ones((3, 3), np.uint8), borderType=cv2.BORDER_REPLICATE)
        low = np.where(np.isfinite(low) | (lowest > 1e5), low, lowest)
    return low


def _neighbour_steps(height: Floats32) -> tuple[Ints, Floats32]:
    """((E, 2) flat indices of side-by-side cells, (E,) height of the second less that of the first)."""
    index = np.arange(height.size).reshape(height.shape)
    pairs = np.concatenate(
        [
            np.stack([index[:-1].ravel(), index[1:].ravel()], axis=1),
            np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], axis=1),
        ]
    )
    return pairs, height.ravel()[pairs[:, 1]] - height.ravel()[pairs[:, 0]]


def _lower_parts(low: Floats32, smooth: float, drop: float, least_cells: int) -> Bools:
    """(X, Y), True on the smooth parts of the height map whose edges mostly rise: ground, not roofs or cars.

    Side-by-side cells whose heights differ by less than `smooth` belong to one part; a part is ground when its edges
    higher than `drop` rise more, in summed height up to 5 m each, than they fall. Across unseen cells the nearest seen
    ones meet.
    """
    known = np.isfinite(low)
    pairs, step = _neighbour_steps(_filled_from(low, known))
    flat = np.abs(step) < smooth
    ones = np.ones(int(flat.sum()), np.int8)
    graph = coo_matrix((ones, (pairs[flat, 0], pairs[flat, 1])), shape=(low.size, low.size))
    part = connected_components(graph, directed=False)[1]
    cliff = np.abs(step) > drop
    upper = np.where(step[cliff] > 0, pairs[cliff, 1], pairs[cliff, 0])
    lower = np.where(step[cliff] > 0, pairs[cliff, 0], pairs[cliff, 1])
    count = int(part.max()) + 1
    size = np.minimum(np.abs(step[cliff]), 5.0)
    falls, rises = np.bincount(part[upper], size, count), np.bincount(part[lower], size, count)
    ground = (rises >= falls) & (np.bincount(part[known.ravel()], minlength=count) >= least_cells)
    return np.asarray(ground[part].reshape(low.shape) & known)


def _filled_from(height: Floats32, known: Bools) -> Floats32:
    """The height of the nearest known cell everywhere."""
    if not known.any():
        return np.full_like(height, np.nan)
    nearest = distance_transform_edt(~known, return_distances=False, return_indices=True)
    return np.asarray(height[tuple(nearest)])


def find_ground(surface: Surface, cell: float = 0.5, clearance: float = 0.6, least_area: float = 20.0) -> Ground:
    """Ground height and free cells of the surface.

    Free is a ground cell where nothing in it or next to it rises `clearance` metres or more; patches of ground smaller
    than `least_area` square metres do not count.
    """
    origin, low, high = _lowest(surface, cell, 0.1)
    low = _closed_gaps(low, 2)
    ground = _lower_parts(low, 0.5 * cell, clearance, int(least_area / cell**2))
    height = _filled_from(low, ground)
    rise = np.where(np.isfinite(high), high - height, 0.0).astype(np.float32)
    free = ground & (cv2.dilate(rise, np.ones((3, 3), np.uint8)) < clearance)
    return Ground(surface.across, surface.up, origin, cell, height, free)


def ground_cell(ground: Ground, points: Floats) -> tuple[Ints, Bools]:
    """((N, 2) grid cells of world points (N, 3), (N,) whether they lie on the grid)."""
    index = np.floor((points @ ground.across.T - ground.origin) / ground.cell).astype(np.int64)
    inside = np.asarray(((index >= 0) & (index < np.array(ground.height.shape))).all(axis=1), dtype=bool)
    return np.clip(index, 0, np.array(ground.height.shape) - 1), inside


def height_above_ground(ground: Ground, points: Floats) -> Floats:
    """(N,), metres above the ground; nan where the ground is not known."""
    index, inside = ground_cell(ground, points)
    local = ground.height[index[:, 0], index[:, 1]]
    return np.where(inside, points @ ground.up - local, np.nan)
