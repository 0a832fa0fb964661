"""Tracks: keypoints of many frames that see one point, built and chosen with whole arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from skyanchor.geometry import rigid
from skyanchor.types import Bools, Camera, Floats, Ints, Pose

Pairs: TypeAlias = dict[tuple[int, int], Ints]
"""Verified keypoint pairs (M, 2) of frames (i, j), i < j."""

GRID = 8
"""Cells along each side of the image in which coverage is counted."""


@dataclass(frozen=True, eq=False)
class TrackTable:
    """Observations of points, flat arrays of one length, sorted by point and then by frame."""

    point: Ints
    """(K,), from 0 without gaps."""
    frame: Ints
    """(K,), index of the frame in the sequence."""
    keypoint: Ints
    """(K,), index of the keypoint in its frame."""

    @property
    def frames(self) -> Ints:
        """(F,), the frames that see any point, in order."""
        return np.unique(self.frame)

    @property
    def points(self) -> int:
        """Number of points."""
        return int(self.point[-1]) + 1 if len(self.point) else 0


class Twice(Enum):
    """What becomes of a track that meets one frame at two keypoints: one of its matches is wrong."""

    LOSES_FRAME = "loses-frame"
    """The frame leaves the track, the others stay: for long tracks, of which a wrong match spoils little."""
    IS_DROPPED = "is-dropped"
    """The whole track is left out: for short ones, where nothing tells which of its frames are right."""


def build_tracks(pairs: Pairs, twice: Twice, counts: Mapping[int, int] | None = None) -> TrackTable:
    """Connected keypoints as tracks of two frames or more, none with two keypoints of one frame.

    `counts` gives the number of keypoints of each frame, where it is known.
    """
    held = [(i, j, pair) for (i, j), pair in sorted(pairs.items()) if len(pair)]
    if not held:
        empty = np.empty(0, dtype=np.int64)
        return TrackTable(empty, empty, empty)
    frames, offset = _numbering(held, counts)
    at = {f: k for k, f in enumerate(frames.tolist())}
    edges = np.concatenate([pair + offset[[at[i], at[j]]] for i, j, pair in held])
    total = int(offset[-1])
    links = coo_matrix((np.ones(len(edges), np.int8), (edges[:, 0], edges[:, 1])), shape=(total, total))
    label = connected_components(links, directed=False)[1].astype(np.int64)
    nodes = np.flatnonzero(np.bincount(edges.ravel(), minlength=total))
    slot = np.searchsorted(offset, nodes, side="right") - 1
    order = np.lexsort((slot, label[nodes]))
    nodes, slot = nodes[order], slot[order]
    return _compact(label[nodes], frames[slot], nodes - offset[slot], twice)


def _numbering(held: list[tuple[int, int, Ints]], counts: Mapping[int, int] | None) -> tuple[Ints, Ints]:
    """(frames in order, offset of each frame's keypoints in one numbering, with the total at the end)."""
    most: dict[int, int] = {}
    for i, j, pair in held:
        for frame, column in ((i, 0), (j, 1)):
            size = int(pair[:, column].max()) + 1 if counts is None else counts[frame]
            most[frame] = max(most.get(frame, 0), size)
    frames = np.array(sorted(most), dtype=np.int64)
    return frames, np.cumsum([0] + [most[f] for f in frames.tolist()]).astype(np.int64)


def _compact(label: Ints, frame: Ints, keypoint: Ints, twice: Twice) -> TrackTable:
    """Sorted observations without what `twice` takes and without labels seen once, renumbered."""
    again = (label[1:] == label[:-1]) & (frame[1:] == frame[:-1])
    doubled = np.append(again, False) | np.append(False, again)
    once = ~np.isin(label, label[doubled]) if twice is Twice.IS_DROPPED else ~doubled
    label, frame, keypoint = label[once], frame[once], keypoint[once]
    point = np.cumsum(np.diff(label, prepend=-1) != 0) - 1
    enough = np.bincount(point)[point] >= 2 if len(point) else np.empty(0, dtype=bool)
    point = np.cumsum(np.diff(point[enough], prepend=-1) != 0) - 1
    return TrackTable(point.astype(np.int64), frame[enough], keypoint[enough])


def pixels_of(table: TrackTable, xy: Mapping[int, Floats]) -> Floats:
    """(K, 2), pixels of a table's observations, from those (N, 2) of every frame's keypoints."""
    pixels = np.empty((len(table.frame), 2))
    order = np.argsort(table.frame, kind="stable")
    frames, starts = np.unique(table.frame[order], return_index=True)
    for frame, rows in zip(frames.tolist(), np.split(order, starts[1:]), strict=True):
        pixels[rows] = xy[frame][table.keypoint[rows]]
    return pixels


def kept(table: TrackTable, points: Floats, keep: Bools) -> tuple[TrackTable, Floats]:
    """The kept observations of points that still have two of them, and those points."""
    count = np.bincount(table.point[keep], minlength=table.points)
    keep = keep & (count[table.point] >= 2)
    used = np.flatnonzero(count >= 2)
    number = np.full(table.points, -1, dtype=np.int64)
    number[used] = np.arange(len(used))
    return TrackTable(number[table.point[keep]], table.frame[keep], table.keypoint[keep]), points[used]


def cells(xy: Floats, camera: Camera) -> Ints:
    """(N,), number of the grid cell each pixel of xy (N, 2) falls in, 0 .. GRID² - 1."""
    at = np.clip((xy / np.array([camera.width, camera.height]) * GRID).astype(np.int64), 0, GRID - 1)
    return at[:, 1] * GRID + at[:, 0]


def select(table: TrackTable, xy_cells: Ints, anchored: Bools, budget: int, quota: float, prefer: int = 3) -> Ints:
    """Points (n,) to adjust, at most `budget`: the longest in every cell of every frame, a part of them anchored.

    xy_cells (K,) is the grid cell of each observation, anchored (K,) whether its frame is an anchor.
    """
    if table.points <= budget:
        return np.arange(table.points)
    length = np.bincount(table.point, minlength=table.points)
    touches = np.zeros(table.points, dtype=bool)
    touches[table.point[anchored]] = True
    free = np.zeros(table.points, dtype=bool)
    free[table.point[~anchored]] = True
    rank = _best_rank(table, xy_cells, np.minimum(length, 12) + 100 * (length >= prefer))
    order = np.lexsort((np.arange(len(rank)), -length, rank))
    order = order[free[order]]
    first = order[touches[order]][: int(quota * budget)]
    rest = order[~np.isin(order, first)][: budget - len(first)]
    return np.sort(np.concatenate([first, rest]))


def _best_rank(table: TrackTable, xy_cells: Ints, merit: Ints) -> Ints:
    """(P,), the best place that a point takes by merit in any cell of any frame it is seen in."""
    group = table.frame * GRID**2 + xy_cells
    order = np.lexsort((table.point, -merit[table.point], group))
    grouped = group[order]
    start = np.flatnonzero(np.diff(grouped, prepend=-1))
    place = np.arange(len(order)) - np.repeat(start, np.diff(np.append(start, len(order))))
    best = np.full(table.points, len(order), dtype=np.int64)
    np.minimum.at(best, table.point[order], place)
    return best


def subset(table: TrackTable, points: Floats, chosen: Ints) -> tuple[TrackTable, Floats]:
    """The table of the chosen points (sorted) only."""
    number = np.full(table.points, -1, dtype=np.int64)
    number[chosen] = np.arange(len(chosen))
    keep = number[table.point] >= 0
    return replace(table, point=number[table.point[keep]], frame=table.frame[keep], keypoint=table.keypoint[keep]), (
        points[chosen]
    )


def centres_of(poses: Mapping[int, Pose], frames: list[int]) -> Floats:
    """(N, 3), camera centres of frames."""
    return rigid.centres_in_world([poses[f] for f in frames])
