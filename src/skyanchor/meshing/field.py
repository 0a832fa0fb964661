"""The truncated distance field: which blocks of the grid a surface passes, and its value at their lattice points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skyanchor.bounds import Reach, Share, Voxel
from skyanchor.geometry import cameras
from skyanchor.geometry.depth import lift, pixel_centres
from skyanchor.meshing.field_kernels import CORNERS, EDGE, fused
from skyanchor.stereo.precision import across_sigma
from skyanchor.types import Bytes, DepthMap, Floats, Floats32, Ints, Pose


@dataclass(frozen=True)
class MeshConfig:
    """How the street's depth becomes a mesh."""

    voxel_m: Voxel = 0.03
    """Distance of two lattice points, metres."""
    band_m: float = 0.12
    """Distances from a surface that count, metres: four voxels, and more than depth is off by."""
    farthest_m: Reach = 20.0
    """Depth of a street view beyond which it does not take part, metres: the paper's crop."""
    least_confidence: float = 0.4
    """Of a depth, 0..1."""
    least_views: int = 2
    """Views that must have measured a surface; elsewhere there is a hole."""
    most_through: Share = 0.15
    """Most of the views, by weight, that may look through a surface, 0..1; where more do there is none."""
    least_faces: int = 300
    """Pieces with fewer triangles are left out: crumbs of wrong depth."""
    levels: tuple[float, ...] = (0.25, 0.05)
    """Shares of the triangles that the coarser meshes beside the whole one keep, 0..1."""


@dataclass(frozen=True, eq=False)
class DepthStack:
    """V depth maps of one size, as the kernel reads them."""

    poses: Floats
    """(V, 12), cam_from_world: rotation row by row, then translation."""
    pinholes: Floats
    """(V, 4), fx, fy, cx, cy."""
    depth: Floats32
    """(V, H, W), metres, 0 where a map says nothing."""
    normal: Floats32
    """(V, H, W, 3), towards the camera, camera axes."""
    weight: Floats32
    """(V, H, W), confidence / σ², σ metres across the surface for an error of one pixel."""
    colors: Bytes
    """(V, H, W, 3), RGB."""


@dataclass(frozen=True, eq=False)
class Samples:
    """The field at the lattice points of B blocks, borders included; NaN where too few views have seen it."""

    blocks: Ints
    """(B, 3)."""
    distance: Floats32
    """(B, N, N, N), metres, positive where it is free."""
    colors: Floats32
    """(B, N, N, N, 3), RGB."""


def depth_stack(
    maps: Sequence[DepthMap], photos: Sequence[Bytes], others: Sequence[Sequence[Pose]], config: MeshConfig
) -> DepthStack:
    """The trusted part of the maps, with the photos at their sizes; all maps have one size.

    `others` has for each map the cameras beside it, which say how sure its depths are.
    """
    depth = np.stack([one.depth for one in maps]).astype(np.float32)
    confidence = np.stack([one.confidence for one in maps]).astype(np.float32)
    trusted = (depth > 0) & (depth <= config.farthest_m) & (confidence >= config.least_confidence)
    normal = np.stack([one.normal @ one.cam_from_world.rotation.T for one in maps]).astype(np.float32)
    trusted &= np.linalg.norm(normal, axis=-1) > 0.5
    poses = [np.concatenate([one.cam_from_world.rotation.ravel(), one.cam_from_world.translation]) for one in maps]
    matrices = [cameras.calibration(one.camera) for one in maps]
    pinholes = [(K[0, 0], K[1, 1], K[0, 2], K[1, 2]) for K in matrices]
    sigma = np.stack([across_sigma(one, near) for one, near in zip(maps, others, strict=True)])
    weight = (confidence / sigma**2).astype(np.float32)
    return DepthStack(np.array(poses), np.array(pinholes), depth * trusted, normal, weight, np.stack(photos))


def blocks_near(one: DepthMap, config: MeshConfig) -> Ints:
    """(B, 3), whole numbers of the blocks that the surface of one map passes, or that lie within the band of it."""
    rows, columns = np.nonzero(
        (one.depth > 0) & (one.depth <= config.farthest_m) & (one.confidence >= config.least_confidence)
    )
    points = lift(one.camera, one.cam_from_world, pixel_centres(rows, columns), one.depth[rows, columns].astype(float))
    normals = one.normal[rows, columns].astype(np.float64)
    side = EDGE * config.voxel_m
    shifts = (-config.band_m, -0.5 * config.band_m, 0.0, 0.5 * config.band_m, config.band_m)
    found = [np.floor((points + shift * normals) / side).astype(np.int64) for shift in shifts]
    return np.unique(np.concatenate([np.unique(part, axis=0) for part in found]), axis=0)


def sampled(stack: DepthStack, blocks: Ints, config: MeshConfig) -> Samples:
    """The field at the lattice points of the blocks (B, 3).

    A point x has from a map the distance n . (x - P) to the plane of the pixel it falls on, P on the surface and n its
    normal, cut at the band; behind the band the map says nothing. The field is the mean over the maps with weights
    confidence cos / σ², see `stereo.precision`.
    """
    distance, colors = fused(
        blocks, config.voxel_m, config.band_m, config.least_views, config.most_through, stack.poses, stack.pinholes,
        stack.depth, stack.normal, stack.weight, stack.colors,
    )  # fmt: skip
    shape = (len(blocks), CORNERS, CORNERS, CORNERS)
    return Samples(blocks, distance.reshape(shape), colors.reshape(*shape, 3))
