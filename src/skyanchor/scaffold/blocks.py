"""A large area in blocks: Gaussians of each are trained on what the photos show of it, and put together again.

A block is trained with a margin that its neighbours have as well, so that nothing ends where it ends; what is kept of
it lies within. The depth of the photos says which of their pixels show it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyanchor.bounds import NotNegative, Positive
from skyanchor.bridges.surface import horizontal_axes
from skyanchor.geometry import cameras
from skyanchor.geometry.depth import inside, lift, pixel_centres, under
from skyanchor.types import Bools, Camera, Cloud, DepthMap, Floats

LEAST_SHARE = 0.01
"""Of a photo's pixels that must show a block for the photo to take part in it."""


@dataclass(frozen=True)
class BlockConfig:
    """How the area is divided."""

    side_m: NotNegative = 0.0
    """Side of a block, metres; 0 trains everything at once."""
    margin_m: Positive = 10.0
    """Around a block, trained with it and left out of the result, metres."""


@dataclass(frozen=True, eq=False)
class Block:
    """A rectangle of the ground, whatever is above it."""

    across: Floats
    """(2, 3), horizontal axes."""
    low: Floats
    """(2,), corner of least coordinates along the axes, metres; -inf at the edge of the area."""
    high: Floats
    """(2,), the opposite corner, which is the neighbour's."""
    turn: int = 0
    """0..3; neighbours have different ones."""

    def holds(self, points: Floats, margin: float = 0.0) -> Bools:
        """(N,), whether points (N, 3) lie in it, or at most `margin` metres beside it."""
        flat = points @ self.across.T
        return np.asarray(((flat >= self.low - margin) & (flat < self.high + margin)).all(axis=-1))

    def near(self, extent: Extent, margin: float) -> bool:
        """Whether it may hold any of the points of an extent, or have one at most `margin` metres beside it."""
        return bool(((extent.high >= self.low - margin) & (extent.low < self.high + margin)).all())


@dataclass(frozen=True, eq=False)
class Extent:
    """Where points lie, along the axes of the blocks."""

    low: Floats
    """(2,), least coordinates, metres; inf without points."""
    high: Floats
    """(2,), greatest, metres; -inf without points."""


def extent_of(points: Floats, across: Floats) -> Extent:
    """The extent of points (N, 3), along axes (2, 3)."""
    flat = points @ across.T
    return Extent(flat.min(axis=0, initial=np.inf), flat.max(axis=0, initial=-np.inf))


def blocks_of(points: Floats, up: Floats, config: BlockConfig) -> tuple[Block, ...]:
    """Blocks that cover the ground without overlap, as equal as the area allows; those without points are left out."""
    across = horizontal_axes(up)
    flat = points @ across.T
    low, high = np.quantile(flat, 0.005, axis=0), np.quantile(flat, 0.995, axis=0)
    counts = np.maximum(1, np.round((high - low) / config.side_m)).astype(int) if config.side_m else np.array([1, 1])
    edges = [_edges(low[k], high[k], counts[k]) for k in range(2)]
    found = []
    for i, j in np.ndindex(*counts):
        low, high = (np.array([edges[0][i + k], edges[1][j + k]]) for k in (0, 1))
        found.append(Block(across, low, high, turn=i % 2 * 2 + j % 2))
    return tuple(block for block in found if block.holds(points).any())


def _edges(low: float, high: float, count: int) -> Floats:
    """(count + 1,), evenly spaced; the outer ones reach to infinity, so that nothing is lost."""
    inner = np.linspace(low, high, count + 1)[1:-1]
    return np.concatenate([[-np.inf], inner, [np.inf]])


def shown(block: Block, depth_map: DepthMap, camera: Camera, margin: float) -> Bools:
    """(H, W), which pixels of the photo show the block or its margin; those without depth do not.

    `camera` is the photo's, with its distortion, at any size; the depth map's is without.
    """
    rows, columns = (axis.ravel() for axis in np.mgrid[: camera.height, : camera.width])
    rays = cameras.unproject(camera, pixel_centres(rows, columns))
    xy = cameras.project(depth_map.camera, rays)
    depth = np.where(inside(depth_map.camera, xy), under(depth_map.depth, xy), 0.0)
    points = lift(depth_map.camera, depth_map.cam_from_world, xy, depth)
    return np.asarray((block.holds(points, margin) & (depth > 0)).reshape(camera.height, camera.width))


def part_of(cloud: Cloud, block: Block, margin: float) -> Cloud:
    """The points of a cloud in a block and its margin."""
    rows = block.holds(cloud.points.astype(np.float64), margin)
    return Cloud(cloud.points[rows], cloud.normals[rows], cloud.colors[rows], cloud.spacing[rows])
