"""What the depth maps of one day say: where surfaces are, and which places are free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from skyanchor.ahead import made_ahead, threads
from skyanchor.changes.config import ChangeConfig
from skyanchor.geometry import cameras
from skyanchor.geometry.depth import lift, pixel_centres
from skyanchor.types import Bools, Bytes, DepthMap, Floats, Floats32, Ints

MOST_SURE = 0.02
"""Of a confidence, its distance from 1, at least."""
AT_ONCE = 32
"""Depth maps held in memory at a time."""


@dataclass(frozen=True, eq=False)
class Day:
    """Depth maps that show the scene as it was on one day."""

    maps: Iterable[DepthMap]
    """Gone through more than once."""
    farthest_m: float
    """Places farther away than this are none of their business, metres; what lies behind a place may be."""
    margin_px: float
    """By how many pixel footprints their depth may be off."""
    photos: Sequence[Bytes] = ()
    """(H, W, 3) each, RGB, at the sizes of the maps; empty where looks are not compared."""
    around: Floats | None = None
    """(M, 3), metres: surfaces farther than `reach_m` from all of these places are left out; None keeps all."""
    reach_m: float = 0.0


def walk_as_day(maps: Iterable[DepthMap], config: ChangeConfig, photos: Sequence[Bytes] = ()) -> Day:
    """The depth maps of a walk as a day, with the photos at their sizes where looks are compared."""
    return Day(maps, config.farthest_m, config.margin_px, photos)


def flight_as_day(maps: Iterable[DepthMap], places: Floats, config: ChangeConfig) -> Day:
    """Aerial depth maps as a day, as far as street views at the places (M, 3) reach."""
    return Day(maps, np.inf, config.aerial_margin_px, around=places, reach_m=config.farthest_m)


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of the grid with a surface in them."""

    index: Ints
    """(N, 3), place / side, rounded down."""
    points: Floats
    """(N, 3), mean of what was measured in each, metres."""
    views: Ints
    """(N,), maps with a depth in it."""

    def __len__(self) -> int:
        """How many."""
        return len(self.index)


@dataclass(frozen=True, eq=False)
class Votes:
    """What the maps of a day say of places."""

    through: Ints
    """(N,), maps that look through it."""
    at: Ints
    """(N,), maps that see a surface there."""
    through_weight: Floats
    """(N,), how sure those are that look through: Σ -ln(1 - confidence) ..."""
    at_weight: Floats
    """(N,), ... and those that see a surface."""

    def free(self, config: ChangeConfig) -> Bools:
        """(N,), where enough look through."""
        return _enough(self.through, self.through_weight, self.at_weight, config)

    def solid(self, config: ChangeConfig) -> Bools:
        """(N,), where enough see a surface."""
        return _enough(self.at, self.at_weight, self.through_weight, config)


def _enough(views: Ints, weight: Floats, against: Floats, config: ChangeConfig) -> Bools:
    sure = (weight >= config.least_weight) & (weight >= config.least_share * (weight + against))
    return np.asarray((views >= config.least_views) & sure)


def measured(one: DepthMap, config: ChangeConfig) -> Bools:
    """(H, W), where a map says something."""
    return np.asarray((one.depth > 0) & (one.confidence >= config.least_confidence) & ~one.completed)


def trusted(one: DepthMap, day: Day, config: ChangeConfig) -> Bools:
    """(H, W), where a map says that there is a surface within its reach."""
    return np.asarray(measured(one, config) & (one.depth <= day.farthest_m))


def surface_cells(day: Day, config: ChangeConfig) -> Cells:
    """The cells that the surfaces of a day's maps pass."""
    parts = list(made_ahead(lambda one: _cells_of(one, day, config), day.maps))
    index = np.concatenate([part[0] for part in parts]) if parts else np.zeros((0, 3), np.int64)
    points = np.concatenate([part[1] for part in parts]) if parts else np.zeros((0, 3))
    return Cells(*_mean_by_cell(index, points))


def _cells_of(one: DepthMap, day: Day, config: ChangeConfig) -> tuple[Ints, Floats]:
    """The cells of one map, each once, with the mean of its points."""
    rows, columns = np.nonzero(trusted(one, day, config))
    depth = one.depth[rows, columns].astype(np.float64)
    points = lift(one.camera, one.cam_from_world, pixel_centres(rows, columns), depth)
    if day.around is not None:
        points = points[_near(points, day.around, day.reach_m)]
    index, means, _ = _mean_by_cell(np.floor(points / config.voxel_m).astype(np.int64), points)
    return index, means


def _near(points: Floats, places: Floats, reach_m: float) -> Bools:
    """(N,), which of the points (N, 3) lie within reach of a place (M, 3)."""
    from scipy.spatial import cKDTree

    found = np.zeros(len(points), np.bool_)
    boxed = np.flatnonzero(
        np.all((points >= places.min(axis=0) - reach_m) & (points <= places.max(axis=0) + reach_m), 1)
    )
    away, _ = cKDTree(places).query(points[boxed], distance_upper_bound=reach_m)
    found[boxed] = np.isfinite(away)
    return found


def _mean_by_cell(index: Ints, points: Floats) -> tuple[Ints, Floats, Ints]:
    """Every cell once, the mean of its points, and how many there were."""
    if not len(index):
        return index, points, np.zeros(0, np.int64)
    low, size = index.min(axis=0), np.ptp(index, axis=0) + 1
    keys = ((index[:, 0] - low[0]) * size[1] + index[:, 1] - low[1]) * size[2] + index[:, 2] - low[2]
    _, first, row, count = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    sums = np.stack([np.bincount(row, points[:, axis], len(first)) for axis in range(3)], axis=1)
    return index[first], sums / count[:, None], count.astype(np.int64)


def votes(points: Floats, day: Day, config: ChangeConfig) -> Votes:
    """What the maps of a day say of the points (N, 3)."""
    total = nobody(len(points))
    for some in _batches(day.maps):
        more = _asked(points, some, day, config)
        total = Votes(*(getattr(total, f.name) + getattr(more, f.name) for f in fields(Votes)))
    return total


def nobody(count: int) -> Votes:
    """No view says anything of so many places."""
    return Votes(np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count), np.zeros(count))


def _batches(maps: Iterable[DepthMap]) -> Iterable[list[DepthMap]]:
    """The maps by their size, so many at a time."""
    held: dict[tuple[int, ...], list[DepthMap]] = {}
    for one in maps:
        some = held.setdefault(one.depth.shape, [])
        some.append(one)
        if len(some) == AT_ONCE:
            yield held.pop(one.depth.shape)
    yield from held.values()


def _normals_in_camera(one: DepthMap) -> Floats32:
    """(H, W, 3), the normals of a map in the axes of its camera."""
    return np.asarray(one.normal @ one.cam_from_world.rotation.T, np.float32)


def _asked(points: Floats, maps: Sequence[DepthMap], day: Day, config: ChangeConfig) -> Votes:
    from skyanchor.changes import kernels

    matrices = [cameras.calibration(one.camera) for one in maps]
    pinholes = np.array([(K[0, 0], K[1, 1], K[0, 2], K[1, 2]) for K in matrices])
    poses = [np.concatenate([one.cam_from_world.rotation.ravel(), one.cam_from_world.translation]) for one in maps]
    depth: Floats32 = np.stack([one.depth * measured(one, config) for one in maps]).astype(np.float32)
    normal = np.stack(list(made_ahead(_normals_in_camera, maps)))
    relative = day.margin_px / pinholes[:, 0]
    sure = np.stack([one.confidence for one in maps])
    weight = -np.log(np.maximum(1.0 - sure, MOST_SURE)).astype(np.float32)

    def heard(some: Floats) -> tuple[Ints, Ints, Floats, Floats]:
        return kernels.asked(
            some, np.array(poses), pinholes, depth, normal, weight,
            day.farthest_m, config.margin_m, relative, config.least_height,
        )  # fmt: skip

    found = list(made_ahead(heard, np.array_split(points, threads())))
    return Votes(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
