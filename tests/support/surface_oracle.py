"""The surface fused in the plainest way: all maps in memory, one hash table. What the package must equal.

How a map is compared with its neighbours is the package's own here, bit for bit; `fused_pixels` says what that must be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numba import njit

from skyanchor.bridges import cell_kernels, fusion_kernels
from skyanchor.bridges.fusion import SurfaceConfig
from skyanchor.bridges.rounding import ROUNDED
from skyanchor.bridges.surface import Surface, horizontal_axes, intrinsics
from skyanchor.geometry import cameras
from skyanchor.geometry.depth import inside, lift, pixel_centres, under
from skyanchor.types import DepthMap, Floats, Floats32, Ints


@njit(cache=True)
def _bucket(key: int, keys: Ints) -> int:
    """Where the key is, or the free slot where it belongs (-1 = free), in an open hash table of 2ⁿ slots."""
    mask = len(keys) - 1
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)  # the high bits of the product depend on all of the key
    place = int(mixed >> np.uint64(32)) & mask
    while keys[place] != -1 and keys[place] != key:
        place = (place + 1) & mask
    return place


@njit(cache=True)
def add_to_voxels(
    points: Floats32, normals: Floats32, weights: Floats32, least: float, voxel: float, keys: Ints, sums: Floats
) -> int:
    """Add pixels (H, W) of weight above `least` to voxel sums (S, 7) = weighted offset, normal, weight; new voxels.

    Offsets count from the voxel's corner, which keeps the sums small. The table must have room for every pixel.
    """
    fresh = 0
    for row in range(points.shape[0]):
        for column in range(points.shape[1]):
            w = weights[row, column]
            if not w > least:
                continue
            p = points[row, column]
            i, j, k = math.floor(p[0] / voxel), math.floor(p[1] / voxel), math.floor(p[2] / voxel)
            key = ((i + 1048576) << 42) | ((j + 1048576) << 21) | (k + 1048576)
            slot = _bucket(key, keys)
            if keys[slot] == -1:
                keys[slot] = key
                fresh += 1
            total = sums[slot]
            total[0] += w * (p[0] - i * voxel)
            total[1] += w * (p[1] - j * voxel)
            total[2] += w * (p[2] - k * voxel)
            for c in range(3):
                total[3 + c] += w * normals[row, column, c]
            total[6] += w
    return fresh


@njit(cache=True)
def moved_table(keys: Ints, sums: Floats, size: int) -> tuple[Ints, Floats]:
    """The same voxels in a table of another size."""
    new_keys, new_sums = np.full(size, -1, np.int64), np.zeros((size, sums.shape[1]))
    for slot in range(len(keys)):
        if keys[slot] != -1:
            target = _bucket(keys[slot], new_keys)
            new_keys[target] = keys[slot]
            new_sums[target] = sums[slot]
    return new_keys, new_sums


@njit(cache=True, fastmath=ROUNDED)
def smooth(
    points: Floats32, normals: Floats32, slots: Ints, keys: Ints, rows: Ints, voxel: float
) -> tuple[Floats32, Floats32]:
    """(points, normals) after one step towards the plane of their neighbours; edges are kept by the normals.

    Discs live one per voxel; `keys` is the hash table of voxels, `rows` the disc in each of its slots, `slots` the
    voxel key of each disc. p moves by n Σ w n·(q - p) / Σ w over the 5³ voxels around, w falls with distance and turn.
    """
    out, turned = np.empty_like(points), np.empty_like(normals)
    for i in range(len(points)):
        key = slots[i]
        px, py, pz = points[i, 0], points[i, 1], points[i, 2]
        nx, ny, nz = normals[i, 0], normals[i, 1], normals[i, 2]
        total, moved, sx, sy, sz = 1e-9, 0.0, 0.0, 0.0, 0.0
        for a in range(-2, 3):
            for b in range(-2, 3):
                for c in range(-2, 3):
                    slot = _bucket(key + (a << 42) + (b << 21) + c, keys)
                    if keys[slot] == -1:
                        continue
                    j = rows[slot]
                    alike = nx * normals[j, 0] + ny * normals[j, 1] + nz * normals[j, 2]
                    if alike < 0.5:
                        continue
                    dx, dy, dz = points[j, 0] - px, points[j, 1] - py, points[j, 2] - pz
                    far = (dx * dx + dy * dy + dz * dz) / (voxel * voxel)
                    w = alike * alike * math.exp(-0.25 * far)
                    total += w
                    moved += w * (nx * dx + ny * dy + nz * dz)
                    sx += w * normals[j, 0]
                    sy += w * normals[j, 1]
                    sz += w * normals[j, 2]
        step = moved / total
        out[i, 0], out[i, 1], out[i, 2] = px + nx * step, py + ny * step, pz + nz * step
        size = math.sqrt(sx * sx + sy * sy + sz * sz) + 1e-12
        turned[i, 0], turned[i, 1], turned[i, 2] = sx / size, sy / size, sz / size
    return out, turned


def ground_sample_distance(maps: tuple[DepthMap, ...]) -> float:
    """Median over the maps of median depth over focal length, metres per pixel of the maps."""
    held = [float(np.median(m.depth[m.depth > 0])) / cameras.focal_px(m.camera) for m in maps if (m.depth > 0).any()]
    return float(np.median(held))


def _median_point(depth_map: DepthMap) -> Floats:
    seen = depth_map.depth[depth_map.depth > 0]
    z = float(np.median(seen)) if seen.size else 1.0
    middle = np.array([[depth_map.camera.width / 2.0, depth_map.camera.height / 2.0]])
    return depth_map.cam_from_world.inverse(cameras.unproject(depth_map.camera, middle) * z)[0]


def _weights(depth_map: DepthMap, config: SurfaceConfig) -> Floats32:
    factor = np.where(depth_map.completed, np.float32(config.completed_weight), np.float32(1.0))
    return np.where(depth_map.depth > 0, depth_map.confidence * factor, np.float32(0.0)).astype(np.float32)


@dataclass
class _Voxels:
    """Weighted sums per voxel in a hash table that grows."""

    voxel: float
    keys: Ints = field(default_factory=lambda: np.full(1 << 21, -1, np.int64))
    sums: Floats = field(default_factory=lambda: np.zeros((1 << 21, 7)))
    used: int = 0

    def add(self, points: Floats32, normals: Floats32, weights: Floats32, least: float) -> None:
        """Add pixels (H, W) of weight above `least`."""
        most = self.used + int((weights > least).sum())
        size = len(self.keys)
        while most > 0.6 * size:
            size *= 2
        if size != len(self.keys):
            self.keys, self.sums = moved_table(self.keys, self.sums, size)
        self.used += add_to_voxels(points, normals, weights, least, self.voxel, self.keys, self.sums)

    def means(self) -> tuple[Floats32, Floats32]:
        """(points, normals), one per voxel, in the order of the voxels' keys."""
        slots = np.flatnonzero(self.keys >= 0)
        slots = slots[np.argsort(self.keys[slots], kind="stable")]
        corner = np.stack([(self.keys[slots] >> shift) & 0x1FFFFF for shift in (42, 21, 0)], axis=1) - 1048576
        sums = self.sums[slots]
        points = corner * self.voxel + sums[:, :3] / sums[:, 6:]
        normals = sums[:, 3:6] / (np.linalg.norm(sums[:, 3:6], axis=1, keepdims=True) + 1e-12)
        return points.astype(np.float32), normals.astype(np.float32)


def _smoothed(points: Floats32, normals: Floats32, voxel: float) -> tuple[Floats32, Floats32]:
    """The discs nearer to the planes of their neighbours, layers in one voxel merged."""
    voxels = _Voxels(voxel)
    ones = np.ones((1, len(points)), np.float32)
    voxels.add(points[None], normals[None], ones, 0.0)
    points, normals = voxels.means()
    used = np.flatnonzero(voxels.keys >= 0)
    order = used[np.argsort(voxels.keys[used], kind="stable")]
    rows = np.full(len(voxels.keys), -1, np.int64)
    rows[order] = np.arange(len(order))
    moved, turned = smooth(points, normals, voxels.keys[order], voxels.keys, rows, voxel)
    return moved, turned


def fused_pixels(
    one: DepthMap, weight: Floats32, others: Sequence[tuple[DepthMap, Floats32]], tolerance: float
) -> tuple[Floats, Floats]:
    """((P, 3) points, (P,) weights) of a map's pixels with depth, row by row: what `fuse_map` gives, map after map."""
    rows, columns = np.nonzero(one.depth > 0)
    points = lift(one.camera, one.cam_from_world, pixel_centres(rows, columns), one.depth[rows, columns])
    normals, agreed = one.normal[rows, columns].astype(np.float64), weight[rows, columns].astype(np.float64)
    against, moved = np.zeros(len(points)), np.zeros(len(points))
    for other, counts in others:
        in_cam = other.cam_from_world(points)
        xy = cameras.project(other.camera, in_cam)
        seen = np.flatnonzero(inside(other.camera, np.nan_to_num(xy, nan=-1.0)))
        there, says = under(other.depth, xy[seen]).astype(np.float64), under(counts, xy[seen]) * 1.0
        says[there <= 0] = 0.0
        met = lift(other.camera, other.cam_from_world, np.floor(xy[seen]) + 0.5, there)
        off, expected = ((met - points[seen]) * normals[seen]).sum(axis=1), in_cam[seen, 2]
        same = np.abs(there - expected) < tolerance * expected
        agreed[seen] += says * same
        moved[seen] += says * same * off
        against[seen] += says * (there > expected * (1.0 + 3.0 * tolerance))
    return points + normals * (moved / np.maximum(agreed, 1e-6))[:, None], agreed - against


def fuse_surface(maps: tuple[DepthMap, ...], up: Floats, config: SurfaceConfig) -> Surface:
    """The surface that the depth maps agree on."""
    gsd = ground_sample_distance(maps)
    voxels = _Voxels(config.voxel * gsd)
    depths = np.stack([m.depth for m in maps])
    weights = np.stack([_weights(m, config) for m in maps])
    sizes = np.array([m.depth.shape for m in maps], dtype=np.int64)
    ks = np.stack([intrinsics(m.camera) for m in maps])
    rotations = np.stack([m.cam_from_world.rotation for m in maps])
    translations = np.stack([m.cam_from_world.translation for m in maps])
    looked = np.array([_median_point(m) for m in maps])
    for i, one in enumerate(maps):
        order = np.argsort(np.linalg.norm(looked - looked[i], axis=1), kind="stable")
        near = order[order != i][: config.neighbours]
        points, normals, total = fusion_kernels.fuse_map(
            depths[i],
            one.normal,
            weights[i],
            ks[i],
            rotations[i],
            translations[i],
            depths,
            weights,
            near,
            sizes[near],
            ks[near],
            rotations[near],
            translations[near],
            config.tolerance,
        )
        voxels.add(points, normals, total, config.least_weight)
    points, normals = voxels.means()
    for _ in range(config.smoothing):
        points, normals = _smoothed(points, normals, config.voxel * gsd)
    return indexed(points, normals, config.voxel * gsd, gsd, up, config.cell)


def indexed(points: Floats32, normals: Floats32, voxel: float, gsd: float, up: Floats, cell: float) -> Surface:
    """The discs sorted by the cell they lie in."""
    across = horizontal_axes(up)
    place = cell_kernels.cell_places(points, across, cell)
    place -= place.min(axis=0)
    key = place[:, 0] * (place[:, 1].max() + 1) + place[:, 1]
    order = np.argsort(key, kind="stable")
    points, normals = points[order], normals[order]
    edges = np.append(np.flatnonzero(np.diff(key[order], prepend=-1)), len(points)).astype(np.int64)
    centres, farthest = cell_kernels.cell_balls(points, edges)
    spacing = np.full(len(points), 1.1 * voxel, np.float32)
    return Surface(points, normals, spacing, gsd, across, up, cell, centres, farthest + voxel, edges)
