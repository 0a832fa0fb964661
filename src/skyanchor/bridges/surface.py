"""One surface from many aerial depth maps: fused, thinned, indexed, drawn from any camera."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import numba
import numpy as np

from skyanchor.bridges import surface_kernels as kernels
from skyanchor.errors import SkyAnchorError
from skyanchor.events import SCAFFOLD, Listener, Progress, silent
from skyanchor.geometry import cameras
from skyanchor.geometry.depth import lift
from skyanchor.types import Bools, Camera, DepthMap, Floats, Floats32, Ints, Pose

READERS = 8
"""Threads that read depth maps ahead of their use."""
SLOT_BYTES = 1 << 30
"""Depth and weight of maps that are kept for their neighbours, bytes, unless one map's neighbours need more."""


class DepthMaps(Protocol):
    """Depth maps by index, held in memory or read when asked for, from several threads at once."""

    def __len__(self) -> int:
        """How many there are."""

    def __getitem__(self, index: int, /) -> DepthMap:
        """One of them."""


@dataclass(frozen=True)
class SurfaceConfig:
    """How depth maps become a surface."""

    neighbours: int = 12
    """Other maps each map is compared with."""
    tolerance: float = 0.006
    """Two depths agree when they differ by less than this fraction of the depth."""
    least_weight: float = 1.2
    """Summed confidence of the maps that agree less that of the maps that look through, at least."""
    completed_weight: float = 0.3
    """Factor on the confidence of depth that was filled in, not measured."""
    voxel: float = 1.0
    """Spacing of the surfels in ground sample distances of the depth maps."""
    smoothing: int = 2
    """Steps of every disc towards the plane of its neighbours."""
    cell: float = 8.0
    """Side of the cells of the spatial index, metres."""


@dataclass(frozen=True, eq=False)
class Surface:
    """Oriented discs on the scaffold's surface, sorted by cell of a horizontal grid."""

    points: Floats32
    """(N, 3), metres."""
    normals: Floats32
    """(N, 3), unit, towards the aerial cameras."""
    spacing: Floats32
    """(N,), radius of each disc, metres."""
    gsd: float
    """Ground sample distance of the depth maps, metres."""
    across: Floats
    """(2, 3), the horizontal axes of the grid."""
    up: Floats
    """(3,), unit."""
    cell: float
    """Side of a cell, metres."""
    cell_centres: Floats
    """(C, 3), metres; height is the cell's mean."""
    cell_radius: Floats
    """(C,), of a ball round the centre that holds the cell's discs, metres."""
    cell_starts: Ints
    """(C + 1,), discs of cell c are cell_starts[c] .. cell_starts[c + 1]."""


def horizontal_axes(up: Floats) -> Floats:
    """(2, 3), two unit vectors across `up`, the first as near to world x as possible."""
    x = np.array([1.0, 0.0, 0.0]) - up[0] * up
    if np.linalg.norm(x) < 0.1:
        x = np.array([0.0, 1.0, 0.0]) - up[1] * up
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(up, x)])


def intrinsics(camera: Camera) -> Floats:
    """(4,): fx, fy, cx, cy of a camera without distortion."""
    k = cameras.calibration(camera)
    return np.array([k[0, 0], k[1, 1], k[0, 2], k[1, 2]])


# --- fusion -------------------------------------------------------------------------------------------------------


def fuse_surface(maps: DepthMaps, up: Floats, config: SurfaceConfig, listen: Listener = silent) -> Surface:
    """The surface that the depth maps agree on; every map is read twice, and few are in memory at a time."""
    glances = _glances(maps, listen)
    gsd = _ground_sample_distance(glances)
    voxels = _Voxels(config.voxel * gsd)
    for i, fused in enumerate(_fused_maps(maps, glances, config)):
        voxels.add(*fused, config.least_weight)
        listen(Progress(SCAFFOLD, "surface fused", i + 1, len(maps)))
    points, normals = voxels.means()
    for i in range(config.smoothing):
        points, normals = _smoothed(points, normals, config.voxel * gsd)
        listen(Progress(SCAFFOLD, "surface smoothed", i + 1, config.smoothing))
    return indexed(points, normals, config.voxel * gsd, gsd, up, config.cell)


@dataclass(frozen=True, eq=False)
class _Glance:
    """What must be known of every map before the first is fused."""

    camera: Camera
    cam_from_world: Pose
    sample_m: float
    """Median depth over focal length, metres per pixel; nan for a map without depth."""
    looked_at: Floats
    """(3,), the point at the median depth in the middle of the photo."""


def _glances(maps: DepthMaps, listen: Listener) -> tuple[_Glance, ...]:
    seen: list[_Glance] = []
    with ThreadPoolExecutor(READERS) as readers:
        for one in readers.map(lambda i: _glance(maps[i]), range(len(maps))):
            seen.append(one)
            listen(Progress(SCAFFOLD, "depth maps looked at", len(seen), len(maps)))
    return tuple(seen)


def _glance(depth_map: DepthMap) -> _Glance:
    seen = depth_map.depth[depth_map.depth > 0]
    z = float(np.median(seen)) if seen.size else 1.0
    sample = z / cameras.focal_px(depth_map.camera) if seen.size else float("nan")
    middle = np.array([[depth_map.camera.width / 2.0, depth_map.camera.height / 2.0]])
    place = lift(depth_map.camera, depth_map.cam_from_world, middle, np.array([z]))[0]
    return _Glance(depth_map.camera, depth_map.cam_from_world, sample, place)


def _ground_sample_distance(glances: tuple[_Glance, ...]) -> float:
    """Median over the maps with depth, metres per pixel of the maps."""
    held = [one.sample_m for one in glances if np.isfinite(one.sample_m)]
    if not held:
        raise SkyAnchorError("No aerial photo has any depth. Look at the poses with `skyanchor scaffold check`.")
    return float(np.median(held))


def _neighbours(glances: tuple[_Glance, ...], count: int) -> tuple[Ints, ...]:
    """Per map the others that look nearest to where it looks, nearest first."""
    looked = np.array([one.looked_at for one in glances])
    orders = (np.argsort(np.linalg.norm(looked - place, axis=1), kind="stable") for place in looked)
    return tuple(order[order != i][:count] for i, order in enumerate(orders))


def _weights(depth_map: DepthMap, config: SurfaceConfig) -> Floats32:
    factor = np.where(depth_map.completed, np.float32(config.completed_weight), np.float32(1.0))
    return np.where(depth_map.depth > 0, depth_map.confidence * factor, np.float32(0.0)).astype(np.float32)


@dataclass
class _Slots:
    """Depth and weight of the maps in use side by side, as the kernel takes them; the least recently used make room."""

    depths: Floats32
    """(S, H, W), each map in the corner of its slot."""
    weights: Floats32
    """(S, H, W)."""
    held: OrderedDict[int, int] = field(default_factory=OrderedDict)
    """Slot of every map that is there."""

    def hold(self, wanted: list[int], read: dict[int, DepthMap], config: SurfaceConfig) -> Ints:
        """The slots of the wanted maps; those that were not there are in `read`."""
        for index in wanted:
            if index in self.held:
                self.held.move_to_end(index)
        for index in wanted:
            if index not in self.held:
                full = len(self.held) >= len(self.depths)
                slot = self.held.popitem(last=False)[1] if full else len(self.held)
                height, width = read[index].depth.shape
                self.depths[slot, :height, :width] = read[index].depth
                self.weights[slot, :height, :width] = _weights(read[index], config)
                self.held[index] = slot
        return np.array([self.held[index] for index in wanted], dtype=np.int64)


def _slots_for(glances: tuple[_Glance, ...], neighbours: int) -> _Slots:
    """Room for a map and its neighbours, and for more while it costs little."""
    size = (max(one.camera.height for one in glances), max(one.camera.width for one in glances))
    room = min(len(glances), max(neighbours + 1, SLOT_BYTES // (8 * size[0] * size[1])))
    return _Slots(np.zeros((room, *size), np.float32), np.zeros((room, *size), np.float32))


def _with_neighbours(
    maps: DepthMaps, near: tuple[Ints, ...], slots: _Slots, config: SurfaceConfig
) -> Iterator[tuple[DepthMap, Ints]]:
    """Every map, and the slots of itself and its neighbours; threads read for the next one while the caller works."""
    wanted = [[i, *others.tolist()] for i, others in enumerate(near)]
    with ThreadPoolExecutor(READERS) as readers:

        def reading(i: int) -> dict[int, Future[DepthMap]]:
            return {j: readers.submit(maps.__getitem__, j) for j in wanted[i] if j == i or j not in slots.held}

        coming = reading(0)
        for i, used in enumerate(wanted):
            read = {j: future.result() for j, future in coming.items()}
            places = slots.hold(used, read, config)
            coming = reading(i + 1) if i + 1 < len(wanted) else {}
            yield read[i], places


def _fused_maps(
    maps: DepthMaps, glances: tuple[_Glance, ...], config: SurfaceConfig
) -> Iterator[tuple[Floats32, Floats32, Floats32]]:
    """(points, normals, weights) of every map's pixels, moved to where the maps beside it agree; in order."""
    near = _neighbours(glances, config.neighbours)
    slots = _slots_for(glances, config.neighbours)
    sizes = np.array([[one.camera.height, one.camera.width] for one in glances], dtype=np.int64)
    ks = np.stack([intrinsics(one.camera) for one in glances])
    rotations = np.stack([one.cam_from_world.rotation for one in glances])
    translations = np.stack([one.cam_from_world.translation for one in glances])
    for i, (own, places) in enumerate(_with_neighbours(maps, near, slots, config)):
        weights = np.ascontiguousarray(slots.weights[places[0], : sizes[i, 0], : sizes[i, 1]])
        yield kernels.fuse_map(
            own.depth,
            own.normal,
            weights,
            ks[i],
            rotations[i],
            translations[i],
            slots.depths,
            slots.weights,
            places[1:],
            sizes[near[i]],
            ks[near[i]],
            rotations[near[i]],
            translations[near[i]],
            config.tolerance,
        )


@dataclass
class _Voxels:
    """Weighted sums per voxel in a hash table that grows."""

    voxel: float
    keys: Ints = field(default_factory=lambda: np.full(1 << 21, -1, np.int64))
    sums: Floats = field(default_factory=lambda: np.zeros((1 << 21, 7)))
    used: Ints = field(default_factory=lambda: np.zeros(kernels.SHARDS, np.int64))
    """(SHARDS,), voxels in each part of the table."""

    def add(self, points: Floats32, normals: Floats32, weights: Floats32, least: float) -> None:
        """Add pixels (H, W) of weight above `least`."""
        voxels = kernels.voxel_keys(points, weights, least, self.voxel)
        most = int((self.used + kernels.shard_counts(voxels)).max()) * kernels.SHARDS
        size = len(self.keys)
        while most > 0.6 * size:
            size *= 2
        if size != len(self.keys):
            self.keys, self.sums = kernels.moved_table(self.keys, self.sums, size)
        self.used += kernels.add_to_voxels(voxels, points, normals, weights, self.voxel, self.keys, self.sums)

    def means(self) -> tuple[Floats32, Floats32]:
        """(points, normals) of the voxels, in the order of their keys."""
        slots = np.flatnonzero(self.keys >= 0)
        points, normals = kernels.voxel_means(self.keys, self.sums, slots[_ascending(self.keys[slots])], self.voxel)
        return points, normals


def _ascending(keys: Ints) -> Ints:
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


def _smoothed(points: Floats32, normals: Floats32, voxel: float) -> tuple[Floats32, Floats32]:
    """The discs nearer to the planes of their neighbours, layers in one voxel merged."""
    voxels = kernels.voxel_keys(points[None], np.ones((1, len(points)), np.float32), 0.0, voxel)[0]
    order = _ascending(voxels)
    keys = voxels[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    edges = np.append(starts, len(points))
    discs = kernels.merged(points, normals, voxels, order, edges, voxel)
    moved, turned = kernels.smooth(*discs, keys[starts], voxel)
    return moved, turned


def indexed(points: Floats32, normals: Floats32, voxel: float, gsd: float, up: Floats, cell: float) -> Surface:
    """The discs sorted by the cell they lie in."""
    across = horizontal_axes(up)
    place = kernels.cell_places(points, across, cell)
    place -= place.min(axis=0)
    key = place[:, 0] * (place[:, 1].max() + 1) + place[:, 1]
    order = _ascending(key)
    points, normals = points[order], normals[order]
    edges = np.append(np.flatnonzero(np.diff(key[order], prepend=-1)), len(points)).astype(np.int64)
    centres, farthest = kernels.cell_balls(points, edges)
    spacing = np.full(len(points), 1.1 * voxel, np.float32)
    return Surface(points, normals, spacing, gsd, across, up, cell, centres, farthest + voxel, edges)


# --- drawing ------------------------------------------------------------------------------------------------------


def _cells_in_view(surface: Surface, camera: Camera, cam_from_world: Pose, far: float) -> Ints:
    """Cells whose ball touches the view's cone up to `far`."""
    in_cam = cam_from_world(surface.cell_centres)
    corners = cameras.unproject(camera, np.array([[0.0, 0.0], [camera.width, camera.height]]))
    half = float(np.arctan(np.max(np.linalg.norm(corners[:, :2], axis=1))))
    distance = np.linalg.norm(in_cam, axis=1)
    aside = np.arctan2(np.linalg.norm(in_cam[:, :2], axis=1), in_cam[:, 2])
    slack = np.arcsin(np.clip(surface.cell_radius / np.maximum(distance, 1e-9), 0.0, 1.0))
    inside = (aside < half + slack) | (distance < surface.cell_radius)
    return np.flatnonzero(inside & (distance - surface.cell_radius < far))


def render_depth(
    surface: Surface, camera: Camera, cam_from_world: Pose, near: float, far: float
) -> tuple[Floats32, Floats32]:
    """(depth (H, W), normal in camera axes (H, W, 3)) of the surface from a PINHOLE camera; 0 where there is none."""
    cells = _cells_in_view(surface, camera, cam_from_world, far)
    k = intrinsics(camera)
    discs = kernels.discs_in_view(
        surface.points,
        surface.normals,
        surface.spacing,
        surface.cell_starts[cells],
        surface.cell_starts[cells + 1],
        k,
        cam_from_world.rotation,
        cam_from_world.translation,
        camera.width,
        camera.height,
        near,
        far,
    )
    depth, normal = kernels.splat(discs, k, camera.width, camera.height, near, numba.get_num_threads())
    return depth, normal


def front_side(camera: Camera, normal: Floats32) -> Bools:
    """(H, W), whether a PINHOLE view with normals (H, W, 3) in camera axes sees the side that faced the flight."""
    fx, fy, cx, cy = intrinsics(camera)
    x = (np.arange(camera.width) + 0.5 - cx) / fx
    y = (np.arange(camera.height)[:, None] + 0.5 - cy) / fy
    towards = normal[..., 0] * x + normal[..., 1] * y + normal[..., 2]
    return np.asarray(towards <= kernels.BACK * np.sqrt(x * x + y * y + 1.0))


def render_front(surface: Surface, camera: Camera, cam_from_world: Pose) -> Floats32:
    """(H, W), the nearest surface in a 3x3 window round each pixel of an aerial view, metres; 0 = none."""
    cells = _cells_in_view(surface, camera, cam_from_world, 1e5)
    return np.asarray(
        kernels.nearest_depth(
            surface.points,
            surface.cell_starts[cells],
            surface.cell_starts[cells + 1],
            intrinsics(camera),
            cam_from_world.rotation,
            cam_from_world.translation,
            camera.width,
            camera.height,
        )
    )
