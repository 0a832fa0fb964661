"""Upright planes of a depth map: plain fronts, measured with noise, lie on the plane that all of their depths share.

The inverse depth of a plane is linear in the pixels, so its noise is averaged over thousands of them. How sure each is
says geometry: how far the cameras that look at it see it move. Roads are not planes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from scipy import ndimage

from skyanchor.bounds import Count, Few, Positive, Radius, Range, Seed
from skyanchor.geometry import cameras
from skyanchor.stereo.estimate import world_normals
from skyanchor.stereo.planes import PlaneField, pixel_grid
from skyanchor.stereo.precision import inverse_sigma
from skyanchor.types import Bools, Camera, DepthMap, Floats, Ints, Pose

UNIT_PX = 100.0
"""Pixels that count as one where planes are fitted, for conditioning."""
REWEIGHTED = 6
"""Rounds of reweighted least squares."""
LEAST_AREA = 0.01
"""Twice the area of the triangle of a trial, square units: flatter ones say nothing."""
COMPARED = 1500
"""Most pixels by which trials are compared."""
LEAST_SPREAD_PX = 0.01
"""Of what lies on a plane, pixels: nothing is measured better."""
UPRIGHT = 0.3
"""Most that the normal of an upright plane has of up, 0..1."""
AROUND = np.ones((3, 3), np.bool_)
"""Pixels of the grid that touch."""


@dataclass(frozen=True)
class LargePlaneConfig:
    """Which depths count as lying on one large plane."""

    tolerance_px: Positive = 0.2
    """Depths lie on a plane that the neighbours see off by less than this, all together, pixels."""
    spread: Positive = 2.5
    """Those within so many standard deviations of a plane are put on it; its own depths say what the deviation is."""
    stride: Radius = 3
    """Distance of the pixels that planes are looked for in, pixels."""
    fewest: Count = 150
    """Of those pixels, connected, that make a plane."""
    most: Few = 12
    """Planes looked for in a map."""
    trials: Annotated[int, Range(1, 1e6)] = 400
    """RANSAC trials per plane."""
    reach_px: Positive = 60.0
    """Distance along either axis of the three pixels of a trial, pixels."""
    farthest: Positive = 25.0
    """Depth beyond which no planes are looked for, metres."""
    seed: Seed = 0
    """Of the trials."""


@dataclass(frozen=True, eq=False)
class _Grid:
    """Pixels that planes are looked for in, (h, w) each."""

    x: Floats
    """From the middle of the picture, units."""
    y: Floats
    w: Floats
    """Inverse depth, 1/m; 0 where there is none."""
    sigma: Floats
    """Of it, for an error of one pixel."""

    def off(self, plane: Floats) -> Floats:
        """(h, w), pixels by which the inverse depth lies off w = a x + b y + c."""
        return np.asarray((self.w - plane[0] * self.x - plane[1] * self.y - plane[2]) / self.sigma)


@dataclass(frozen=True, eq=False)
class _Large:
    """One plane."""

    plane: Floats
    """(3,), a, b, c of w = a x + b y + c."""
    part: Bools
    """(h, w), its pixels of the grid."""
    limit_px: float
    """Off by less, a depth is put on it, pixels."""


def on_large_planes(one: DepthMap, others: Sequence[Pose], up: Floats, config: LargePlaneConfig) -> DepthMap:
    """The map with the depths that lie on large upright planes put on them.

    `others` are the cameras that confirmed it, `up` (3,) is a unit vector in world axes.
    """
    sigma = inverse_sigma(one, others)
    grid = _grid(one, sigma, config)
    held = np.where(one.depth > 0, 1.0 / np.maximum(one.depth, 1e-9), 0.0)
    planes, done = PlaneField(*(np.zeros(held.shape, np.float32) for _ in range(3))), np.zeros(held.shape, np.bool_)
    for large in _found(grid, config):
        if not _stands(large.plane, one, up):
            continue
        w = _inverse_depth(large.plane, one.camera)
        near = _widened(large.part, held.shape, config.stride) & (held > 0) & ~done
        near &= (np.abs(held - w) < large.limit_px * sigma) & (w > 1.0 / config.farthest)
        planes.w[near], planes.a[near], planes.b[near] = w[near], *(large.plane[:2, None] / UNIT_PX)
        done |= near
    depth = np.where(done, 1.0 / np.maximum(planes.w, np.float32(1e-9)), one.depth).astype(np.float32)
    normal = np.where(done[..., None], world_normals(one.camera, one.cam_from_world, planes), one.normal)
    return replace(one, depth=depth, normal=normal.astype(np.float32))


# --- planes -------------------------------------------------------------------------------------------------------


def _grid(one: DepthMap, sigma: Floats, config: LargePlaneConfig) -> _Grid:
    some = (slice(1, None, config.stride), slice(1, None, config.stride))
    x, y = _units(one.camera)
    depth = one.depth[some].astype(np.float64)
    w = np.where((depth > 0) & (depth < config.farthest), 1.0 / np.maximum(depth, 1e-9), 0.0)
    return _Grid(x[some], y[some], w, sigma[some])


def _units(camera: Camera) -> tuple[Floats, Floats]:
    """x and y of all pixels from the middle of the picture, units."""
    x, y = pixel_grid(camera)
    return (x.astype(np.float64) - camera.width / 2) / UNIT_PX, (y.astype(np.float64) - camera.height / 2) / UNIT_PX


def _inverse_depth(plane: Floats, camera: Camera) -> Floats:
    x, y = _units(camera)
    return np.asarray(plane[0] * x + plane[1] * y + plane[2])


def _stands(plane: Floats, one: DepthMap, up: Floats) -> bool:
    """Whether a plane of the map is upright: g . X = 1 with g = Kᵀ (a, b, c), a, b, c per pixel from the corner."""
    a, b = plane[:2] / UNIT_PX
    c = plane[2] - a * one.camera.width / 2 - b * one.camera.height / 2
    g = np.array([a, b, c]) @ cameras.calibration(one.camera) @ one.cam_from_world.rotation
    return bool(abs(g @ up) < UPRIGHT * np.linalg.norm(g))


def _found(grid: _Grid, config: LargePlaneConfig) -> list[_Large]:
    """The planes of a map, the one that most depths lie on first, each in one connected part of the picture."""
    rng, free, found = np.random.default_rng(config.seed), grid.w > 0, []
    for _ in range(config.most):
        plane = _best_plane(grid, free, rng, config)
        if plane is None:
            break
        on_it = free & (np.abs(grid.off(plane)) < config.tolerance_px)
        part = _largest_part(on_it)
        mine = on_it & part
        if mine.sum() < config.fewest:
            free = free & ~on_it
            continue
        plane = _fitted(grid, mine, mine / grid.sigma**2)
        deviation = max(1.4826 * float(np.median(np.abs(grid.off(plane)[mine]))), LEAST_SPREAD_PX)
        found.append(_Large(plane, part, config.spread * deviation))
        free = free & ~mine
    return found


def _best_plane(grid: _Grid, free: Bools, rng: np.random.Generator, config: LargePlaneConfig) -> Floats | None:
    """(3,), the plane that most free pixels lie on, fitted to them; None where there is none."""
    if free.sum() < config.fewest:
        return None
    planes = _trials(grid, free, rng, config)
    if not len(planes):
        return None
    rows, columns = (axis[:: max(1, len(axis) // COMPARED)] for axis in np.nonzero(free))
    x, y, w, sigma = (part[rows, columns] for part in (grid.x, grid.y, grid.w, grid.sigma))
    off = (w - planes[:, :1] * x - planes[:, 1:2] * y - planes[:, 2:]) / (config.tolerance_px * sigma)
    plane = planes[np.maximum(1.0 - off**2, 0.0).sum(axis=1).argmax()]
    for _ in range(REWEIGHTED):
        r = grid.off(plane) / config.tolerance_px
        weight = free * (np.abs(r) < 1.0) / (grid.sigma * (1.0 + r**2)) ** 2
        if (weight > 0).sum() < config.fewest // 2:
            break
        plane = _fitted(grid, weight > 0, weight)
    return plane


def _trials(grid: _Grid, free: Bools, rng: np.random.Generator, config: LargePlaneConfig) -> Floats:
    """(T, 3), planes through three free pixels that lie near each other."""
    reach, edge = int(config.reach_px / config.stride), np.array(free.shape) - 1
    first = np.argwhere(free)[rng.integers(free.sum(), size=config.trials)]
    more = [np.clip(first + rng.integers(-reach, reach + 1, first.shape), 0, edge) for _ in range(2)]
    three = [tuple(pixels.T) for pixels in (first, *more)]
    x, y, w = (np.stack([part[pixels] for pixels in three]) for part in (grid.x, grid.y, grid.w))
    (x1, x2), (y1, y2), (w1, w2) = (part[1:] - part[0] for part in (x, y, w))
    area = x1 * y2 - x2 * y1
    good = free[three[1]] & free[three[2]] & (np.abs(area) > LEAST_AREA)
    area = np.where(good, area, 1.0)
    a, b = (w1 * y2 - w2 * y1) / area, (x1 * w2 - x2 * w1) / area
    return np.stack([a, b, w[0] - a * x[0] - b * y[0]], axis=1)[good]


def _fitted(grid: _Grid, some: Bools, weight: Floats) -> Floats:
    """(3,), weighted least squares of w = a x + b y + c."""
    root = np.sqrt(weight[some] / weight[some].max())
    ones = np.ones(len(root))
    return np.asarray(
        np.linalg.lstsq(np.stack([grid.x[some], grid.y[some], ones], 1) * root[:, None], grid.w[some] * root)[0]
    )


def _largest_part(of: Bools) -> Bools:
    """(h, w), the connected part with the most pixels, small gaps closed; nothing where there is none."""
    labels: Ints
    labels, count = ndimage.label(ndimage.binary_closing(of, AROUND) | of, AROUND)
    size = np.bincount(labels[of], minlength=count + 1)
    size[0] = 0
    return np.asarray((labels == size.argmax()) & (size.max() > 0))


def _widened(part: Bools, shape: tuple[int, ...], stride: int) -> Bools:
    """(H, W), the pixels around those of the grid."""
    whole = np.zeros(shape, np.bool_)
    wide = np.repeat(np.repeat(part, stride, axis=0), stride, axis=1)[: shape[0], : shape[1]]
    whole[: wide.shape[0], : wide.shape[1]] = wide
    return whole
