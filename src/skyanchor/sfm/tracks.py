"""Tracks: keypoints of many frames that see one point, built, triangulated, filtered and chosen with whole arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from skyanchor.geometry import cameras, rigid
from skyanchor.sfm.track_kernels import fit_tracks
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
    def points(self) -> int:
        """Number of points."""
        return int(self.point[-1]) + 1 if len(self.point) else 0


def build_tracks(pairs: Pairs, counts: Mapping[int, int] | None = None) -> TrackTable:
    """Connected keypoints as tracks of two frames or more; a frame that a track meets twice leaves it.

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
    return _compact(label[nodes], frames[slot], nodes - offset[slot])


def _numbering(held: list[tuple[int, int, Ints]], counts: Mapping[int, int] | None) -> tuple[Ints, Ints]:
    """(frames in order, offset of each frame's keypoints in one numbering, with the total at the end)."""
    most: dict[int, int] = {}
    for i, j, pair in held:
        for frame, column in ((i, 0), (j, 1)):
            size = int(pair[:, column].max()) + 1 if counts is None else counts[frame]
            most[frame] = max(most.get(frame, 0), size)
    frames = np.array(sorted(most), dtype=np.int64)
    return frames, np.cumsum([0] + [most[f] for f in frames.tolist()]).astype(np.int64)


def _compact(label: Ints, frame: Ints, keypoint: Ints) -> TrackTable:
    """Sorted observations without frames that a label meets twice and without labels seen once, renumbered."""
    again = (label[1:] == label[:-1]) & (frame[1:] == frame[:-1])
    once = ~(np.append(again, False) | np.append(False, again))
    label, frame, keypoint = label[once], frame[once], keypoint[once]
    point = np.cumsum(np.diff(label, prepend=-1) != 0) - 1
    enough = np.bincount(point)[point] >= 2 if len(point) else np.empty(0, dtype=bool)
    point = np.cumsum(np.diff(point[enough], prepend=-1) != 0) - 1
    return TrackTable(point.astype(np.int64), frame[enough], keypoint[enough])


def kept(table: TrackTable, points: Floats, keep: Bools) -> tuple[TrackTable, Floats]:
    """The kept observations of points that still have two of them, and those points."""
    count = np.bincount(table.point[keep], minlength=table.points)
    keep = keep & (count[table.point] >= 2)
    used = np.flatnonzero(count >= 2)
    number = np.full(table.points, -1, dtype=np.int64)
    number[used] = np.arange(len(used))
    return TrackTable(number[table.point[keep]], table.frame[keep], table.keypoint[keep]), points[used]


@dataclass(frozen=True, eq=False)
class Sight:
    """Posed frames as arrays, and what each observation sees: rays and centres in the world."""

    rotations: Floats
    """(F, 3, 3), cam_from_world."""
    translations: Floats
    """(F, 3)."""
    slot: Ints
    """(K,), row of each observation's frame."""
    rays: Floats
    """(K, 3), unit, world frame."""
    xy: Floats
    """(K, 2), pixels."""

    @property
    def centres(self) -> Floats:
        """(F, 3), camera centres in the world: -Rᵀ t."""
        return -np.einsum("fji,fj->fi", self.rotations, self.translations)


def look(table: TrackTable, poses: Mapping[int, Pose], camera: Camera, xy: Mapping[int, Floats]) -> Sight:
    """The rays behind a table whose frames are all posed."""
    frames, slot = np.unique(table.frame, return_inverse=True)
    pixels = np.empty((len(slot), 2))
    order = np.argsort(slot, kind="stable")
    bounds = np.searchsorted(slot[order], np.arange(len(frames) + 1))
    for k, frame in enumerate(frames):
        rows = order[bounds[k] : bounds[k + 1]]
        pixels[rows] = xy[int(frame)][table.keypoint[rows]]
    rotations = np.array([poses[int(f)].rotation for f in frames]).reshape(-1, 3, 3)
    translations = np.array([poses[int(f)].translation for f in frames]).reshape(-1, 3)
    in_cam = cameras.unproject(camera, pixels)
    rays = np.einsum("kji,kj->ki", rotations[slot], in_cam / np.linalg.norm(in_cam, axis=1, keepdims=True))
    return Sight(rotations, translations, slot.astype(np.int64), rays, pixels)


def errors_px(table: TrackTable, sight: Sight, points: Floats, camera: Camera) -> tuple[Floats, Floats]:
    """((K,) reprojection errors in pixels, inf behind the camera; (K,) depths in metres)."""
    seen = np.einsum("kij,kj->ki", sight.rotations[sight.slot], points[table.point]) + sight.translations[sight.slot]
    error = np.linalg.norm(cameras.project(camera, seen) - sight.xy, axis=1)
    return np.where(np.isfinite(error), error, np.inf), seen[:, 2]


@dataclass(frozen=True)
class TrackFilter:
    """What a triangulated track must satisfy."""

    error_px: float
    least_angle: float
    """Radians."""
    most_depth_m: float


def structure(
    pairs: Pairs, poses: Mapping[int, Pose], camera: Camera, xy: Mapping[int, Floats], limits: TrackFilter
) -> tuple[TrackTable, Floats]:
    """Tracks among posed frames and their points; observations that do not fit were dropped, widest first."""
    among = {key: held for key, held in pairs.items() if key[0] in poses and key[1] in poses}
    table = build_tracks(among, {frame: len(pixels) for frame, pixels in xy.items()})
    if not len(table.point):
        return table, np.empty((0, 3))
    sight = look(table, poses, camera, xy)
    in_cam = cameras.unproject(camera, sight.xy)[:, :2]
    focal = np.diag(cameras.calibration(camera))[:2].copy()
    starts = np.append(np.flatnonzero(np.diff(table.point, prepend=-1)), len(table.point))
    points, keep = fit_tracks(
        starts,
        sight.slot,
        in_cam,
        sight.rays,
        sight.rotations,
        sight.translations,
        sight.centres,
        focal,
        limits.error_px,
        limits.least_angle,
        limits.most_depth_m,
    )
    return kept(table, points, keep)


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
