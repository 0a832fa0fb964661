"""From bridge views to the real aerial photos: which pixels of which photos show what a ground frame saw."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from skyanchor.bounds import Cosine, FewOrNone, NotNegative, Positive, Radius
from skyanchor.bridges import carry_kernels as kernels
from skyanchor.bridges.painting_kernels import FRONT_PIXELS
from skyanchor.bridges.surface import intrinsics
from skyanchor.bridges.views import AerialAtlas
from skyanchor.geometry import cameras
from skyanchor.geometry.depth import inside, under
from skyanchor.types import Bytes, Floats, Ints


@dataclass(frozen=True)
class CarryConfig:
    """How correspondences are carried to aerial photos."""

    others: FewOrNone = 4
    """Aerial photos besides the one the bridge pixel was painted from, at most."""
    reach: Radius = 4
    """A patch is searched for this far from where its point projects, pixels of the aerial photo."""
    least_likeness: Cosine = 0.75
    """Normalised cross-correlation of the patch in the other photo, at least."""
    least_sharpness: NotNegative = 0.02
    """How much the correlation must fall one pixel aside."""
    least_facing: Cosine = 0.25
    """Cosine between the surface normal and the view to an aerial photo, at least."""
    sigma_px: Positive = 0.6
    """Localisation error of a patch in an aerial photo, pixels of the photo."""


@dataclass(frozen=True, eq=False)
class AerialSightings:
    """Where aerial photos show surface points, flat arrays of one length."""

    point: Ints
    """(K,), index into the points that were carried."""
    view: Ints
    """(K,), index of the aerial view."""
    xy: Floats
    """(K, 2), pixels of the atlas photo."""
    reference: Ints
    """(K,), 1 where the point was painted from this view, 0 where the patch was found again."""


def _views_that_see(atlas: AerialAtlas, points: Floats, normals: Floats, config: CarryConfig) -> tuple[Ints, Floats]:
    """(views (V,), gain (V, N)): pixels per area where the view sees the point, 0 where it does not."""
    gains = np.zeros((len(atlas.views), len(points)))
    for j, view in enumerate(atlas.views):
        camera = atlas.front_camera(j)
        in_cam = view.cam_from_world(points)
        xy = np.nan_to_num(cameras.project(camera, in_cam), nan=-1.0)
        length = np.maximum(np.linalg.norm(in_cam, axis=1), 1e-9)
        facing = -(in_cam * (normals @ view.cam_from_world.rotation.T)).sum(axis=1) / length
        possible = inside(camera, xy) & (facing > config.least_facing)
        if not possible.any():
            continue
        front = under(atlas.front(j), xy)
        behind = np.maximum(atlas.config.tolerance, FRONT_PIXELS * in_cam[:, 2] / atlas.rig.fronts[j, 0])
        seen = possible & (front > 0) & (in_cam[:, 2] - front < behind)
        gains[j] = np.where(seen, facing / length, 0.0)
    used = np.flatnonzero(gains.max(axis=1, initial=0.0) > 0)
    return used, gains[used]


def _grey(atlas: AerialAtlas, views: Ints) -> tuple[Bytes, Ints, Floats]:
    """(images (V, H, W), sizes (V, 2), intrinsics (V, 4)), padded to one size."""
    held = [atlas.photo_camera(int(j)) for j in views]
    sizes = np.array([[camera.height, camera.width] for camera in held], dtype=np.int64)
    images = np.zeros((len(views), *sizes.max(axis=0)), np.uint8)
    for i, j in enumerate(views):
        images[i, : sizes[i, 0], : sizes[i, 1]] = cv2.cvtColor(atlas.pixels(int(j)), cv2.COLOR_RGB2GRAY)
    return images, sizes, np.stack([intrinsics(camera) for camera in held])


def _targets(gains: Floats, reference: Ints, count: int) -> Ints:
    """(N, count), for each point the views that see it best besides its reference; -1 = none."""
    masked = gains.copy()
    known = reference >= 0
    masked[reference[known], np.flatnonzero(known)] = 0.0
    order = np.argsort(-masked, axis=0, kind="stable")[:count].T
    best = np.take_along_axis(masked.T, order, axis=1)
    chosen = np.where(best > 0, order, -1)
    missing = max(0, count - chosen.shape[1])
    return np.pad(chosen, ((0, 0), (0, missing)), constant_values=-1).astype(np.int64)


def carry(atlas: AerialAtlas, points: Floats, normals: Floats, source: Ints, config: CarryConfig) -> AerialSightings:
    """Aerial observations of points (N, 3) with normals (N, 3) that bridges painted from aerial views `source` (N,)."""
    seeing, gains = _views_that_see(atlas, points, normals, config)
    empty = AerialSightings(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 2)), np.empty(0, np.int64))
    views = np.union1d(seeing, source[source >= 0]).astype(np.int64)
    if not len(views) or not len(points):
        return empty
    all_gains = np.zeros((len(views), len(points)))
    all_gains[np.searchsorted(views, seeing)] = gains
    reference = np.where(source >= 0, np.searchsorted(views, np.maximum(source, views[0])), -1).astype(np.int64)
    targets = _targets(all_gains, reference, config.others)
    images, sizes, ks = _grey(atlas, views)
    poses = [atlas.views[int(j)].cam_from_world for j in views]
    rotations, translations = np.stack([p.rotation for p in poses]), np.stack([p.translation for p in poses])
    xy, likeness, sharpness = kernels.relocate(
        points, normals, reference, targets, images, sizes, ks, rotations, translations, config.reach
    )
    good = (likeness > config.least_likeness) & (sharpness > config.least_sharpness)
    point, slot = np.nonzero(good)
    direct = np.flatnonzero(reference >= 0)
    own = _projected(points[direct], reference[direct], ks, rotations, translations)
    return AerialSightings(
        np.concatenate([direct, point]),
        np.concatenate([views[reference[direct]], views[targets[point, slot]]]),
        np.concatenate([own, xy[point, slot]]),
        np.concatenate([np.ones(len(direct), np.int64), np.zeros(len(point), np.int64)]),
    )


def _projected(points: Floats, view: Ints, ks: Floats, rotations: Floats, translations: Floats) -> Floats:
    in_cam = np.einsum("nij,nj->ni", rotations[view], points) + translations[view]
    return in_cam[:, :2] / in_cam[:, 2:] * ks[view, :2] + ks[view, 2:]
