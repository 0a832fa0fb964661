"""Depth maps to one coloured cloud with normals, thinned to a voxel; memory follows the surface, not the photos."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from skyanchor.geometry import cameras
from skyanchor.geometry.depth import lift
from skyanchor.stereo.planes import pixel_grid
from skyanchor.types import Bytes, Cloud, DepthMap, Floats, Ints


@dataclass(frozen=True)
class FusionConfig:
    """Which depths become points, and how dense the cloud is."""

    voxel_m: float = 0.1
    """Edge of a voxel, metres; one point per voxel."""
    least_confidence: float = 0.3
    """Depths of lower confidence are left out."""
    with_completed: bool = False
    """Whether filled-in depth becomes points too."""
    fewest_pixels: int = 1
    """Pixels, over all maps, that must fall into a voxel."""


@dataclass(frozen=True, eq=False)
class Voxels:
    """Weighted sums per voxel, keys ascending."""

    keys: Ints
    """(N, 3), voxel indices."""
    sums: Floats
    """(N, 11): weight, weight * (point 3, normal 3, colour 3), pixels."""
    footprint: Floats
    """(N,), smallest pixel footprint, metres."""


def fuse(maps: Iterable[tuple[DepthMap, Bytes]], config: FusionConfig | None = None) -> Cloud:
    """The confidence-weighted mean point, normal and colour of every voxel that the maps see.

    `maps` are depth maps with their photos (H, W, 3) at the same resolution; they are read once, one at a time.
    """
    config = config or FusionConfig()
    merged: Voxels | None = None
    for depth_map, pixels in maps:
        new = _voxels(depth_map, pixels, config)
        merged = new if merged is None else _merge(merged, new)
    if merged is None:
        return Cloud(
            np.empty((0, 3), np.float32),
            np.empty((0, 3), np.float32),
            np.empty((0, 3), np.uint8),
            np.empty(0, np.float32),
        )
    return _cloud(merged, config)


def points_of(depth_map: DepthMap) -> Floats:
    """World points (H, W, 3) of all pixels; pixels without depth give the camera centre."""
    x, y = pixel_grid(depth_map.camera)
    pixels = np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float64)
    points = lift(depth_map.camera, depth_map.cam_from_world, pixels, depth_map.depth.ravel())
    return points.reshape(*depth_map.depth.shape, 3)


def _voxels(depth_map: DepthMap, pixels: Bytes, config: FusionConfig) -> Voxels:
    """One map's pixels summed per voxel; a nearer view weighs more, by its finer footprint."""
    use = (depth_map.depth > 0) & ((depth_map.confidence >= config.least_confidence) & ~depth_map.completed)
    if config.with_completed:
        use |= (depth_map.depth > 0) & depth_map.completed
    points = points_of(depth_map)[use]
    footprint = depth_map.depth[use].astype(np.float64) / cameras.focal_px(depth_map.camera)
    weight = (np.maximum(depth_map.confidence[use], 1e-3) / footprint**2)[:, None]
    values = np.concatenate([points, depth_map.normal[use], pixels[use]], axis=1)
    rows = np.concatenate([weight, weight * values, np.ones_like(weight)], axis=1)
    return _summed(np.floor(points / config.voxel_m).astype(np.int64), rows, footprint)


def _summed(keys: Ints, rows: Floats, footprint: Floats) -> Voxels:
    """Rows of equal key added up."""
    if not len(keys):
        return Voxels(keys, rows, footprint)
    order = np.lexsort(keys.T[::-1])
    keys, rows, footprint = keys[order], rows[order], footprint[order]
    starts = np.flatnonzero(np.concatenate([[True], (keys[1:] != keys[:-1]).any(axis=1)]))
    return Voxels(keys[starts], np.add.reduceat(rows, starts, axis=0), np.minimum.reduceat(footprint, starts))


def _merge(one: Voxels, two: Voxels) -> Voxels:
    return _summed(
        np.concatenate([one.keys, two.keys]),
        np.concatenate([one.sums, two.sums]),
        np.concatenate([one.footprint, two.footprint]),
    )


def _cloud(voxels: Voxels, config: FusionConfig) -> Cloud:
    keep = voxels.sums[:, 10] >= config.fewest_pixels
    sums = voxels.sums[keep]
    mean = sums[:, 1:10] / sums[:, :1]
    length = np.linalg.norm(mean[:, 3:6], axis=1, keepdims=True)
    return Cloud(
        points=mean[:, :3].astype(np.float32),
        normals=(mean[:, 3:6] / np.maximum(length, 1e-9)).astype(np.float32),
        colors=np.clip(np.round(mean[:, 6:9]), 0, 255).astype(np.uint8),
        spacing=np.maximum(voxels.footprint[keep], config.voxel_m).astype(np.float32),
    )
