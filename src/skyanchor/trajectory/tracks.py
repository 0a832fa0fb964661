"""Tracks: keypoints of many frames that see one point, built, triangulated, filtered and chosen with whole arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from skyanchor.geometry import cameras, rigid
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


def build_tracks(pairs: Pairs) -> TrackTable:
    """Connected keypoints as tracks of two frames or more; a frame that a track meets twice leaves it."""
    edges = [_nodes(i, j, held) for (i, j), held in sorted(pairs.items()) if len(held)]
    if not edges:
        empty = np.empty(0, dtype=np.int64)
        return TrackTable(empty, empty, empty)
    nodes, at = np.unique(np.concatenate(edges), return_inverse=True)
    at = at.reshape(-1, 2)
    links = coo_matrix((np.ones(len(at), np.int8), (at[:, 0], at[:, 1])), shape=(len(nodes),) * 2)
    _, label = connected_components(links, directed=False)
    frame, keypoint = np.divmod(nodes, _STRIDE)
    _, spot, count = np.unique(label * (int(frame.max()) + 1) + frame, return_inverse=True, return_counts=True)
    once = count[spot] == 1
    return _compact(label.astype(np.int64)[once], frame[once], keypoint[once])


_STRIDE = 1 << 32


def _nodes(i: int, j: int, held: Ints) -> Ints:
    return held.astype(np.int64) + np.array([i, j], dtype=np.int64) * _STRIDE


def _compact(point: Ints, frame: Ints, keypoint: Ints) -> TrackTable:
    """The table without points seen once, renumbered and sorted."""
    enough = np.bincount(point)[point] >= 2 if len(point) else np.empty(0, bool)
    point, frame, keypoint = point[enough], frame[enough], keypoint[enough]
    order = np.lexsort((frame, point))
    renumbered = np.unique(point[order], return_inverse=True)[1].astype(np.int64)
    return TrackTable(renumbered, frame[order], keypoint[order])


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


def triangulate(table: TrackTable, sight: Sight) -> Floats:
    """(P, 3), points nearest to their rays: min Σ |(I - d dᵀ)(x - c)|² / r², r the distance to the camera."""
    weight = np.ones(len(table.point))
    points = np.zeros((table.points, 3))
    centres = sight.centres[sight.slot]
    for _ in range(2):
        across = (np.eye(3) - sight.rays[:, :, None] * sight.rays[:, None, :]) * weight[:, None, None]
        matrix = _summed(across.reshape(-1, 9), table).reshape(-1, 3, 3)
        target = _summed(np.einsum("kij,kj->ki", across, centres), table)
        trace = np.einsum("pii->p", matrix)[:, None, None]
        points = np.linalg.solve(matrix + 1e-9 * trace * np.eye(3), target[..., None])[..., 0]
        weight = 1.0 / np.maximum(((points[table.point] - centres) ** 2).sum(axis=1), 1e-6)
    return points


def _summed(values: Floats, table: TrackTable) -> Floats:
    """(P, n), sums of rows (K, n) over each point's observations; the table is sorted by point."""
    starts = np.flatnonzero(np.diff(table.point, prepend=-1))
    return np.add.reduceat(values, starts, axis=0) if len(starts) else np.zeros((0, values.shape[1]))


def errors_px(table: TrackTable, sight: Sight, points: Floats, camera: Camera) -> tuple[Floats, Floats]:
    """((K,) reprojection errors in pixels, inf behind the camera; (K,) depths in metres)."""
    seen = np.einsum("kij,kj->ki", sight.rotations[sight.slot], points[table.point]) + sight.translations[sight.slot]
    error = np.linalg.norm(cameras.project(camera, seen) - sight.xy, axis=1)
    return np.where(np.isfinite(error), error, np.inf), seen[:, 2]


def angles(table: TrackTable, sight: Sight, points: Floats) -> Floats:
    """(P,), largest angle at the point between its first or last ray and any other, radians."""
    rays = sight.centres[sight.slot] - points[table.point]
    rays /= np.linalg.norm(rays, axis=1, keepdims=True) + 1e-12
    starts = np.flatnonzero(np.diff(table.point, prepend=-1))
    ends = np.append(starts[1:], len(table.point)) - 1
    cosine = np.ones(table.points)
    for outer in (starts, ends):
        both = np.einsum("ki,ki->k", rays, rays[outer][table.point])
        cosine = np.minimum(cosine, np.minimum.reduceat(both, starts) if len(starts) else both)
    return np.arccos(np.clip(cosine, -1.0, 1.0))


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
    table = build_tracks({key: held for key, held in pairs.items() if key[0] in poses and key[1] in poses})
    for factor in (8.0, 2.0, 1.0):
        if not len(table.point):
            return table, np.empty((0, 3))
        sight = look(table, poses, camera, xy)
        points = triangulate(table, sight)
        error, depth = errors_px(table, sight, points, camera)
        good = (error <= factor * limits.error_px) & (depth > 0.05)
        if factor == 1.0:
            wide = angles(table, sight, points) >= limits.least_angle
            far = np.zeros(table.points, dtype=bool)
            far[table.point[depth > limits.most_depth_m]] = True
            good &= (wide & ~far)[table.point]
        table, points = kept(table, points, good)
    return table, points


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
