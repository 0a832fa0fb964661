"""Surface points where Gaussians start: of dense depth, else between the sparse points.

Without dense depth it is interpolated over each photo's triangulated features, a poor man's stereo, in seconds: every
surface is covered from the first step. Inverse depth is affine in the pixel on a plane, so triangles between features
lie in the surface they span.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.spatial import Delaunay, QhullError

from skyanchor.ahead import made_ahead
from skyanchor.bounds import Count, Pixels, Positive, Range, Share
from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import lift
from skyanchor.photos import load_photo
from skyanchor.types import Bools, Cloud, DepthMap, Floats, Ints, Photo, Plane, Scaffold, View


@dataclass(frozen=True)
class SeedConfig:
    """How many points, and which triangles are believed."""

    count: Count = 60_000
    """Points kept in all, about."""
    per_view: Count = 12_000
    """Pixels sampled per photo, on a grid."""
    depth_ratio: Annotated[float, Range(1.0, 1e9)] = 1.25
    """Triangles whose deepest corner is this many times farther than the nearest are dropped: they span an edge."""
    farthest: Positive = 5.0
    """Pixels beyond all features are put on the ground plane up to this many times the view's median depth."""
    photo_width: Pixels = 800
    """Between sparse points: colours are read from the photo at most this wide, pixels."""
    least_confidence: Share = 0.3
    """Measured depth below this confidence is left out, 0..1."""


def dense_cloud(maps: Iterable[DepthMap], views: Sequence[View], config: SeedConfig | None = None) -> Cloud:
    """Points, normals and colours of depth maps of the given views, thinned evenly; other views' maps are passed over.

    Completed depth counts where no measured depth is: a surface that is roughly there beats a hole.
    """
    config = config or SeedConfig()
    by_name = {view.name: view for view in views}
    wanted = (one for one in maps if one.name in by_name)
    sampled = list(made_ahead(lambda one: _sampled(one, by_name[one.name], config), wanted))
    return thinned(_joined([measured for measured, _ in sampled] + [filled for _, filled in sampled]), config.count)


def _sampled(one: DepthMap, view: View, config: SeedConfig) -> tuple[Cloud, Cloud]:
    """Grid pixels of one depth map as points: the measured ones, and the completed ones."""
    photo, camera = load_photo(view.name, view.path, view.camera, one.depth.shape[1], view.mask_path)
    step = float(np.sqrt(camera.width * camera.height / config.per_view))
    column, row = _grid(photo, step).astype(int).T
    depth, completed = one.depth[row, column].astype(np.float64), one.completed[row, column]
    confident = one.confidence[row, column] >= config.least_confidence
    rays = cameras.unproject(one.camera, np.stack([column + 0.5, row + 0.5], axis=1))
    points = one.cam_from_world.inverse(rays * depth[:, None])
    cloud = Cloud(
        points.astype(np.float32), one.normal[row, column], photo.pixels[row, column],
        (step * depth / cameras.focal_px(one.camera)).astype(np.float32),
    )  # fmt: skip
    there = depth > 0
    return _some(cloud, there & confident & ~completed), _some(cloud, there & completed)


def _some(cloud: Cloud, rows: Bools) -> Cloud:
    return Cloud(cloud.points[rows], cloud.normals[rows], cloud.colors[rows], cloud.spacing[rows])


def interpolated_cloud(scaffold: Scaffold, views: Sequence[int], config: SeedConfig | None = None) -> Cloud:
    """Points, normals and colours over the triangulated features of the given views, thinned evenly.

    Empty when the model came without tracks.
    """
    config = config or SeedConfig()
    clouds = [_view_cloud(scaffold, index, config) for index in views]
    return thinned(_joined(clouds), config.count)


def _joined(clouds: list[Cloud]) -> Cloud:
    none = np.zeros((0, 3), np.float32)
    parts = [Cloud(none, none, none.astype(np.uint8), none[:, 0]), *clouds]
    return Cloud(
        np.concatenate([part.points for part in parts]),
        np.concatenate([part.normals for part in parts]),
        np.concatenate([part.colors for part in parts]),
        np.concatenate([part.spacing for part in parts]),
    )


def _view_cloud(scaffold: Scaffold, index: int, config: SeedConfig) -> Cloud:
    """Grid pixels of one photo lifted onto its triangulated features and, beyond them, onto the ground plane."""
    view = scaffold.views[index]
    seen = scaffold.points[np.unique(scaffold.tracks.point[scaffold.tracks.image == index])]
    in_cam = view.cam_from_world(seen)
    in_cam = in_cam[in_cam[:, 2] > 1e-6]
    photo, camera = load_photo(view.name, view.path, view.camera, config.photo_width, view.mask_path)
    step = float(np.sqrt(camera.width * camera.height / config.per_view))
    pixels = _grid(photo, step)
    rays = cameras.unproject(camera, pixels)
    try:
        mesh = Delaunay(cameras.project(camera, in_cam))
    except (QhullError, ValueError):
        return _joined([])
    depth, normals = _surface(mesh, in_cam, pixels, config.depth_ratio)
    plane_depth, down = _ground_depth(scaffold.ground, view, rays)
    beyond = (mesh.find_simplex(pixels) < 0) & (plane_depth < config.farthest * float(np.median(in_cam[:, 2])))
    depth[beyond], normals[beyond] = plane_depth[beyond], down
    there = np.isfinite(depth)
    return Cloud(
        lift(camera, view.cam_from_world, pixels[there], depth[there]).astype(np.float32),
        (normals[there] @ view.cam_from_world.rotation).astype(np.float32),
        photo.pixels[pixels[there, 1].astype(int), pixels[there, 0].astype(int)],
        (step * depth[there] / cameras.focal_px(camera)).astype(np.float32),
    )


def _grid(photo: Photo, step: float) -> Floats:
    """Pixels (N, 2) every `step` in the part of the photo that may be used."""
    height, width = photo.pixels.shape[:2]
    x, y = np.meshgrid(np.arange(step / 2, width, step), np.arange(step / 2, height, step))
    pixels = np.stack([x.ravel(), y.ravel()], axis=1)
    return pixels if photo.mask is None else pixels[photo.mask[y.ravel().astype(int), x.ravel().astype(int)]]


def _surface(mesh: Delaunay, corners: Floats, pixels: Floats, depth_ratio: float) -> tuple[Floats, Floats]:
    """Depth (N,) and facing normal (N, 3) in camera axes at the pixels; nan outside the believed triangles."""
    triangle = mesh.find_simplex(pixels)
    depths = corners[:, 2][mesh.simplices]
    steady = (triangle >= 0) & (depths.max(axis=1) < depth_ratio * depths.min(axis=1))[triangle]
    depth = np.full(len(pixels), np.nan)
    depth[steady] = 1.0 / _interpolated(mesh, triangle[steady], pixels[steady], 1.0 / corners[:, 2])
    normals = _facing_normals(corners[mesh.simplices])[triangle]
    return depth, normals


def _ground_depth(ground: Plane, view: View, rays: Floats) -> tuple[Floats, Floats]:
    """Depth (N,) at which rays (N, 3) in camera axes meet the ground, inf where they do not, and its normal there.

    n . (c + d Rᵀ r) = offset, hence d = (offset - n . c) / (n . Rᵀ r).
    """
    normal = view.cam_from_world.rotation @ ground.normal
    height = ground.offset - float(ground.normal @ rigid.centre_in_world(view.cam_from_world))
    slope = rays @ normal
    with np.errstate(divide="ignore"):
        depth = np.where(height / slope > 0, height / slope, np.inf)
    return depth, normal


def _interpolated(mesh: Delaunay, triangle: Ints, pixels: Floats, values: Floats) -> Floats:
    """Corner values interpolated linearly at pixels inside their triangles: Σ b_k v_k with barycentric b."""
    transform = mesh.transform[triangle]
    two = np.einsum("nij,nj->ni", transform[:, :2], pixels - transform[:, 2])
    weights = np.concatenate([two, 1.0 - two.sum(axis=1, keepdims=True)], axis=1)
    return np.asarray((weights * values[mesh.simplices[triangle]]).sum(axis=1), np.float64)


def _facing_normals(triangles: Floats) -> Floats:
    """Unit normals (T, 3) of triangles (T, 3, 3) in camera axes, towards the camera."""
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    away = np.einsum("ni,ni->n", normals, triangles.mean(axis=1)) > 0
    return np.where(away[:, None], -normals, normals)


def thinned(cloud: Cloud, count: int) -> Cloud:
    """About `count` points, one per voxel; a voxel's size follows the spacing that its points were seen at."""
    from skyanchor.scaffold.voxels import first_in_voxel

    if len(cloud.points) <= count:
        return cloud
    octave = np.floor(np.log2(np.maximum(cloud.spacing.astype(np.float64), 1e-6)))
    low, high = 0.25, 64.0
    for _ in range(14):
        factor = float(np.sqrt(low * high))
        rows = np.flatnonzero(first_in_voxel(cloud.points, factor * 2.0**octave, octave.astype(np.int64)))
        if abs(len(rows) - count) < 0.03 * count:
            break
        low, high = (factor, high) if len(rows) > count else (low, factor)
    spacing = np.maximum(cloud.spacing[rows], (factor * 2.0 ** octave[rows]).astype(np.float32))
    return Cloud(cloud.points[rows], cloud.normals[rows], cloud.colors[rows], spacing)
