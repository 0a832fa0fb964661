"""Geometric consistency: the depth that a photo and its neighbours agree on, averaged over them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyanchor.geometry import cameras
from skyanchor.types import Camera, DepthMap, Floats32


@dataclass(frozen=True)
class ConsistencyConfig:
    """When depths of several photos count as the same surface."""

    tolerance_px: float = 2.5
    """Depths agree within this many pixel footprints, z / focal."""
    fewest_layers: int = 3
    """Maps, the photo's own included, that must agree on a depth."""
    fewest_support: float = 0.6
    """Least sum of their confidences."""
    floor: float = 0.05
    """Confidence given to a plain but measured pixel, so that agreement of many such counts."""


def make_consistent(
    depth_map: DepthMap, neighbours: list[DepthMap], config: ConsistencyConfig | None = None
) -> DepthMap:
    """The map with every depth confirmed and averaged over its neighbours; 0 where too few agree.

    Neighbours are drawn into the photo as oriented pixels; each pixel then takes the depth with the largest support,
    which may be a neighbour's where its own is wrong. Confidence becomes 1 - exp(-support).
    """
    from skyanchor.stereo import consistency_kernels

    config = config or ConsistencyConfig()
    tolerance = config.tolerance_px / cameras.focal_px(depth_map.camera)
    z, c, normal = _layers(depth_map, neighbours, tolerance, config)
    depth, support, agreeing, chosen = consistency_kernels.vote(z, c, normal, tolerance)
    keep = (agreeing >= min(config.fewest_layers, 1 + len(neighbours))) & (support >= config.fewest_support)
    normal_in_world = chosen @ depth_map.cam_from_world.rotation.astype(np.float32)
    return DepthMap(
        depth_map.name,
        depth_map.camera,
        depth_map.cam_from_world,
        np.where(keep, depth, np.float32(0.0)),
        np.where(keep, 1.0 - np.exp(-support), 0.0).astype(np.float32),
        np.zeros(depth.shape, bool),
        np.where(keep[..., None], normal_in_world, 0.0).astype(np.float32),
    )


def _layers(
    own: DepthMap, neighbours: list[DepthMap], tolerance: float, config: ConsistencyConfig
) -> tuple[Floats32, Floats32, Floats32]:
    """Depth, confidence and normal (reference axes) of the photo itself and of every neighbour drawn into it."""
    from skyanchor.stereo import consistency_kernels

    rotation = own.cam_from_world.rotation.astype(np.float32)
    z = [own.depth[None]]
    c = [np.maximum(own.confidence, config.floor)[None]]
    normal = [(own.normal @ rotation.T)[None]]
    for other in neighbours:
        relative = own.cam_from_world @ other.cam_from_world.inverse
        confidence = np.where(other.completed, 0.0, np.maximum(other.confidence, config.floor)).astype(np.float32)
        layer = consistency_kernels.draw_layers(
            other.depth[None], confidence[None], (other.normal @ rotation.T)[None], _pinhole(other.camera)[None],
            relative.rotation[None], relative.translation[None], _pinhole(own.camera),
            own.camera.height, own.camera.width, tolerance,
        )  # fmt: skip
        z.append(layer[0])
        c.append(layer[1])
        normal.append(layer[2])
    return np.concatenate(z), np.concatenate(c), np.concatenate(normal)


def _pinhole(camera: Camera) -> Floats32:
    """fx, fy, cx, cy."""
    K = cameras.calibration(camera)
    return np.array([K[0, 0], K[1, 1], K[0, 2], K[1, 2]], dtype=np.float64)
