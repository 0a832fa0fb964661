"""The ground beneath a surface: its height, and where a person can stand on it."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from scipy.ndimage import distance_transform_edt
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from skyanchor.bridges.surface import Surface
from skyanchor.types import Bools, Floats, Ints


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
    height: Floats
    """(X, Y), of the ground along up, metres; nan where nothing was seen."""
    free: Bools
    """(X, Y), True where a person can stand: the surface was seen and nothing low stands on it."""


def _lowest(surface: Surface, cell: float, share: float) -> tuple[Floats, Floats, Floats]:
    """(origin, low (X, Y), high (X, Y)): the `share` quantile and the top of the surface's heights per cell."""
    flat = surface.points @ surface.across.T.astype(np.float32)
    heights = surface.points @ surface.up.astype(np.float32)
    origin = flat.min(axis=0).astype(np.float64)
    index = np.floor((flat - origin) / cell).astype(np.int64)
    size = index.max(axis=0) + 1
    key = index[:, 0] * size[1] + index[:, 1]
    order = np.lexsort((heights, key))
    starts = np.searchsorted(key[order], np.arange(size[0] * size[1]))
    ends = np.searchsorted(key[order], np.arange(size[0] * size[1]), side="right")
    sorted_heights = heights[order]
    pick = np.clip(starts + ((ends - starts) * share).astype(np.int64), 0, len(order) - 1)
    top = np.clip(ends - 1, 0, len(order) - 1)
    seen = ends > starts
    low = np.where(seen, sorted_heights[pick], np.nan).reshape(size)
    high = np.where(seen, sorted_heights[top], np.nan).reshape(size)
    return origin, low, high


def _closed_gaps(low: Floats, rounds: int) -> Floats:
    """Heights with unseen cells next to seen ones set to the lowest of their neighbours, `rounds` times."""
    for _ in range(rounds):
        filled = np.where(np.isfinite(low), low, np.float64(1e6)).astype(np.float32)
        lowest = cv2.erode(filled, np.ones((3, 3), np.uint8), borderType=cv2.BORDER_REPLICATE)
        low = np.where(np.isfinite(low) | (lowest > 1e5), low, lowest)
    return low


def _neighbour_steps(height: Floats) -> tuple[Ints, Floats]:
    """((E, 2) flat indices of side-by-side cells, (E,) height of the second less that of the first)."""
    index = np.arange(height.size).reshape(height.shape)
    pairs = np.concatenate(
        [
            np.stack([index[:-1].ravel(), index[1:].ravel()], axis=1),
            np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], axis=1),
        ]
    )
    return pairs, height.ravel()[pairs[:, 1]] - height.ravel()[pairs[:, 0]]


def _lower_parts(low: Floats, smooth: float, drop: float, least_cells: int) -> Bools:
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


def _filled_from(height: Floats, known: Bools) -> Floats:
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
