"""One surface from many aerial depth maps: each moved to where its neighbours agree, gathered in tiles, smoothed.

However many maps there are, few of them and few tiles are in memory at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Protocol

import numpy as np

from skyanchor.bounds import FewOrNone, NotNegative, Positive, Range
from skyanchor.bridges import fusion_kernels as kernels
from skyanchor.bridges.strips import Strips
from skyanchor.bridges.surface import Surface, horizontal_axes, intrinsics
from skyanchor.bridges.tiles import VoxelTiles
from skyanchor.errors import SkyAnchorError
from skyanchor.events import SCAFFOLD, Listener, Progress, silent
from skyanchor.geometry import cameras
from skyanchor.geometry.depth import lift
from skyanchor.types import Camera, DepthMap, Floats, Floats32, Ints, Pose

READERS = 8
"""Threads that read depth maps ahead of their use."""
SLOT_BYTES = 1 << 28
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

    neighbours: FewOrNone = 12
    """Other maps each map is compared with."""
    tolerance: Positive = 0.006
    """Two depths agree when they differ by less than this fraction of the depth."""
    least_weight: NotNegative = 1.2
    """Summed confidence of the maps that agree less that of the maps that look through, at least."""
    completed_weight: NotNegative = 0.3
    """Factor on the confidence of depth that was filled in, not measured."""
    voxel: Annotated[float, Range(0.01, 1000.0)] = 1.0
    """Spacing of the surfels in ground sample distances of the depth maps."""
    smoothing: FewOrNone = 2
    """Steps of every disc towards the plane of its neighbours."""
    cell: Annotated[float, Range(0.1, 1e6)] = 8.0
    """Side of the cells of the spatial index, metres."""


def fuse_surface(
    maps: DepthMaps, up: Floats, config: SurfaceConfig, listen: Listener = silent, scratch: Path | None = None
) -> Surface:
    """The surface that the depth maps agree on; every map is read twice.

    What does not fit into memory lies in `scratch`, the surface included, which is read from there when it is looked
    at: the folder may go when the surface does. Without it everything stays in memory.
    """
    glances = _glances(maps, listen)
    gsd = _ground_sample_distance(glances)
    voxels = VoxelTiles(config.voxel * gsd, scratch)
    for i, fused in enumerate(_fused_maps(maps, glances, config)):
        voxels.add(*fused, config.least_weight)
        listen(Progress(SCAFFOLD, "surface fused", i + 1, len(maps)))
    tiles = voxels.discs(config.smoothing)
    if not tiles.numbers:
        raise SkyAnchorError(
            "No two aerial photos agree on any depth. Look at the poses with `skyanchor scaffold check`."
        )
    strips = Strips(horizontal_axes(up), config.cell, scratch)
    for i, tile in enumerate(tiles.numbers):
        strips.add(*tiles.smoothed(tile))
        listen(Progress(SCAFFOLD, "surface smoothed", i + 1, len(tiles.numbers)))
    return strips.surface(config.voxel * gsd, gsd, up)


# --- maps ---------------------------------------------------------------------------------------------------------


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
