"""Geometric consistency: the depth that a photo and its neighbours agree on, averaged over them."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt

from skyanchor.bounds import Few, NotNegative, Positive, Share
from skyanchor.geometry import cameras
from skyanchor.types import Bytes, Camera, DepthMap, Floats32

Votes: TypeAlias = tuple[Floats32, Floats32, Bytes, npt.NDArray[np.int8]]
"""(depth, support, how many layers agree, the layer it started from or -1), (H, W) each."""
_ONE_BY_ONE = Lock()


@dataclass(frozen=True)
class ConsistencyConfig:
    """When depths of several photos count as the same surface."""

    tolerance_px: Positive = 2.5
    """Depths agree within this many pixel footprints, z / focal."""
    fewest_layers: Few = 3
    """Maps, the photo's own included, that must agree on a depth."""
    fewest_support: NotNegative = 0.6
    """Least sum of their confidences."""
    floor: Share = 0.05
    """Confidence given to a plain but measured pixel, so that agreement of many such counts."""


def make_consistent(
    depth_map: DepthMap, neighbours: list[DepthMap], config: ConsistencyConfig | None = None
) -> DepthMap:
    """The map with every depth confirmed and averaged over its neighbours; 0 where too few agree.

    Neighbours are drawn into the photo as oriented pixels; each pixel then takes the depth with the largest support,
    which may be a neighbour's where its own is wrong. Confidence becomes 1 - exp(-support).
    """
    config = config or ConsistencyConfig()
    tolerance = config.tolerance_px / cameras.focal_px(depth_map.camera)
    layers = drawn(depth_map, neighbours, tolerance, config)
    depth, support, agreeing, chosen = voted(layers.z, layers.confidence, tolerance)
    keep = (agreeing >= min(config.fewest_layers, 1 + len(neighbours))) & (support >= config.fewest_support)
    chosen[~keep] = -1
    return DepthMap(
        depth_map.name,
        depth_map.camera,
        depth_map.cam_from_world,
        np.where(keep, depth, np.float32(0.0)),
        np.where(keep, 1.0 - np.exp(-support), np.float32(0.0)),
        np.zeros(depth.shape, bool),
        _normals(layers, chosen, [depth_map, *neighbours]),
    )


def seen_from(view: DepthMap, maps: list[DepthMap], config: ConsistencyConfig | None = None) -> Floats32:
    """(H, W), depth of the surfaces of other maps as a view sees them, their median; 0 where none has any."""
    config = config or ConsistencyConfig()
    layers = drawn(view, maps, config.tolerance_px / cameras.focal_px(view.camera), config).z[1:]
    order = np.sort(np.where(layers > 0, layers, np.float32(np.inf)), axis=0)
    count = (layers > 0).sum(axis=0)
    middle = np.take_along_axis(order, np.maximum(count - 1, 0)[None] // 2, axis=0)[0]
    return np.where(count > 0, middle, np.float32(0.0))


@dataclass(frozen=True, eq=False)
class Layers:
    """The photo itself and every neighbour drawn into it, (N, H, W) each."""

    z: Floats32
    """Depth, 0 = none."""
    confidence: Floats32
    """0..1, of that depth."""
    sample: npt.NDArray[np.int32]
    """Which pixel of its map is seen, row by row."""


def drawn(own: DepthMap, neighbours: list[DepthMap], tolerance: float, config: ConsistencyConfig) -> Layers:
    """Every pixel's depth in the photo's own map and in those of its neighbours, drawn as oriented pixels.

    `tolerance` is a fraction of the depth: what is nearer by more hides the rest.
    """
    from skyanchor.stereo import consistency_kernels

    shape = (1 + len(neighbours), *own.depth.shape)
    layers = Layers(np.zeros(shape, np.float32), np.zeros(shape, np.float32), np.zeros(shape, np.int32))
    layers.z[0], layers.confidence[0] = own.depth, np.maximum(own.confidence, config.floor)
    layers.sample[0] = np.arange(own.depth.size).reshape(own.depth.shape)
    gap = np.empty(own.depth.shape, np.float32)
    for k, other in enumerate(neighbours, start=1):
        relative = own.cam_from_world @ other.cam_from_world.inverse
        gap.fill(np.inf)
        consistency_kernels.draw(
            other.depth, other.confidence, other.completed, np.float32(config.floor), other.normal,
            _pinhole(other.camera), relative.rotation, relative.translation, _pinhole(own.camera),
            own.cam_from_world.rotation, tolerance, layers.z[k], layers.confidence[k], layers.sample[k], gap,
        )  # fmt: skip
    return layers


def voted(z: Floats32, confidence: Floats32, tolerance: float) -> Votes:
    """What most of the layers (N, H, W) share in every pixel. One thread at a time, whoever asks.

    The loop over the pixels is on Numba's own threads, and where it has neither OpenMP nor TBB, two Python threads that
    begin one at once end the process.
    """
    from skyanchor.stereo import consistency_kernels

    with _ONE_BY_ONE:
        return cast(Votes, consistency_kernels.vote(z, confidence, tolerance))


def _normals(layers: Layers, chosen: npt.NDArray[np.int8], maps: list[DepthMap]) -> Floats32:
    """(H, W, 3), the normal of the sample in the chosen layer; zeros where none is chosen, -1."""
    out = np.zeros((*chosen.shape, 3), np.float32)
    for k, one in enumerate(maps):
        mine = chosen == k
        out[mine] = one.normal.reshape(-1, 3)[layers.sample[k][mine]]
    return out


def _pinhole(camera: Camera) -> Floats32:
    """fx, fy, cx, cy."""
    K = cameras.calibration(camera)
    return np.array([K[0, 0], K[1, 1], K[0, 2], K[1, 2]], dtype=np.float64)
