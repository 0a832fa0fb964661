"""One surface from many aerial depth maps: fused, thinned, indexed, drawn from any camera."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from skyanchor.bridges import surface_kernels as kernels
from skyanchor.geometry import cameras
from skyanchor.types import Camera, DepthMap, Floats, Floats32, Ints, Pose


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
            self.keys, self.sums = kernels.moved_table(self.keys, self.sums, size)
        self.used += kernels.add_to_voxels(points, normals, weights, least, self.voxel, self.keys, self.sums)

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
    moved, turned = kernels.smooth(points, normals, voxels.keys[order], voxels.keys, rows, voxel)
    return moved, turned


def fuse_surface(maps: tuple[DepthMap, ...], up: Floats, config: SurfaceConfig) -> Surface:
    """The surface that the depth maps agree on."""
    gsd = ground_sample_distance(maps)
    voxels = _Voxels(config.voxel * gsd)
    depths = np.stack([m.depth for m in maps])
    weights = np.stack([_weights(m, config) for m in maps])
    ks = np.stack([intrinsics(m.camera) for m in maps])
    rotations = np.stack([m.cam_from_world.rotation for m in maps])
    translations = np.stack([m.cam_from_world.translation for m in maps])
    looked = np.array([_median_point(m) for m in maps])
    for i, one in enumerate(maps):
        order = np.argsort(np.linalg.norm(looked - looked[i], axis=1), kind="stable")
        near = order[order != i][: config.neighbours]
        points, normals, total = kernels.fuse_map(
            depths[i],
            one.normal,
            weights[i],
            ks[i],
            rotations[i],
            translations[i],
            depths,
            weights,
            near,
            ks,
            rotations,
            translations,
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
    place = np.floor(points @ across.T / cell).astype(np.int64)
    place -= place.min(axis=0)
    key = place[:, 0] * (place[:, 1].max() + 1) + place[:, 1]
    order = np.argsort(key, kind="stable")
    points, normals, key = points[order], normals[order], key[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    counts = np.diff(np.append(starts, len(points)))
    centres = np.add.reduceat(points.astype(np.float64), starts) / counts[:, None]
    off = np.linalg.norm(points - np.repeat(centres, counts, axis=0), axis=1)
    radius = np.maximum.reduceat(off, starts) + voxel
    spacing = np.full(len(points), 1.1 * voxel, np.float32)
    edges = np.append(starts, len(points)).astype(np.int64)
    return Surface(points, normals, spacing, gsd, across, up, cell, centres, radius, edges)


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
    depth, normal = kernels.splat(discs, k, camera.width, camera.height, near, 4)
    return depth, normal


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
