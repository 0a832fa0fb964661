"""What depth maps say of the frames while these and aerial photos are adjusted together, as in MP-SfM.

Each map has a scale of its own, which is taken anew before every adjustment, as is where a sighting's depth puts its
point. A depth is believed to a tenth along its ray, and less where parallax contradicts it or its whole map: it decides
where nothing else does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skyanchor.anchors.shape.depth import BELIEF, DepthAt
from skyanchor.anchors.shape.incremental import with_points
from skyanchor.geometry import cameras
from skyanchor.sfm import bundle as ba
from skyanchor.sfm.triangulation import ray_angles
from skyanchor.types import Bools, Floats, Ints

LEAST_SCALED = 12
"""Points of known place that a map's scale is taken from, at least."""
DOUBTED = 2.0
"""Standard deviations from the adjusted depth at which a depth counts half, and less beyond."""


@dataclass(frozen=True, eq=False)
class SightedDepth:
    """Depth of sightings by frames, in units of each frame's map. Points and frames keep their numbers."""

    names: Ints
    """(D,), camera * points + point, rising: a camera sees a point once."""
    depth: Floats
    """(D,)"""
    points: int
    """Of the bundle, those without a place included."""

    def at(self, bundle: ba.Bundle) -> Floats:
        """(K,), depth of every observation of a bundle; nan where there is none."""
        names = bundle.camera * self.points + bundle.point
        place = np.minimum(np.searchsorted(self.names, names), max(len(self.names) - 1, 0))
        if not len(self.names):
            return np.full(len(names), np.nan)
        return np.where(self.names[place] == names, self.depth[place], np.nan)


def sighted_depth(bundle: ba.Bundle, frames: int, depth_at: DepthAt) -> SightedDepth:
    """Depth of all that the first cameras of a bundle see."""
    depth = np.full(len(bundle.xy), np.nan)
    for k in range(frames):
        mine = bundle.camera == k
        depth[mine] = depth_at(k, bundle.xy[mine])
    known = np.flatnonzero(np.isfinite(depth) & (depth > 0.0))
    names = bundle.camera[known] * len(bundle.points) + bundle.point[known]
    order = np.argsort(names)
    return SightedDepth(names[order], depth[known][order], len(bundle.points))


def placed(
    bundle: ba.Bundle, known: set[int], least_angle_deg: float, depth: SightedDepth | None, most: float = 8.0
) -> ba.Bundle:
    """As `with_points`; a point whose rays are too alike is put where depth has it, if all known cameras agree."""
    whole = with_points(bundle, known, least_angle_deg, most)
    if depth is None:
        return whole
    guide = np.where(np.isfinite(bundle.points), bundle.points, whole.points)
    rows = np.flatnonzero(np.isin(bundle.camera, list(known)))
    prior, information = _priors(replace(bundle, points=guide), depth, rows, np.isfinite(whole.points[:, 0]))
    free = ~np.isfinite(whole.points[:, 0]) & information.any(axis=(1, 2))
    points = np.where(free[:, None], prior, whole.points)
    lengths = ba.residual_lengths(replace(bundle, points=np.nan_to_num(points)))[rows]
    free[bundle.point[rows[lengths > most]]] = False
    return replace(whole, points=np.where(free[:, None], prior, whole.points))


def held(bundle: ba.Bundle, depth: SightedDepth | None, least_angle_deg: float) -> ba.Bundle:
    """The bundle whose points are held along the ray of a frame by its depth; as it is without depth."""
    if depth is None:
        return bundle
    finite = np.isfinite(bundle.points[:, 0])
    angles = ray_angles(replace(bundle, points=np.nan_to_num(bundle.points)))
    sure = finite & (np.degrees(angles) > least_angle_deg)
    prior, information = _priors(bundle, depth, np.arange(len(bundle.xy)), sure)
    return replace(bundle, prior=prior, prior_information=information)


def let_go(bundle: ba.Bundle) -> ba.Bundle:
    """The bundle without what held its points."""
    return replace(bundle, prior=None, prior_information=None)


def _priors(bundle: ba.Bundle, depth: SightedDepth, rows: Ints, sure: Bools) -> tuple[Floats, Floats]:
    """(P, 3) where depth puts points and (P, 3, 3) how surely, by the first of some observations that has a depth.

    Along its unit ray n at distance l a point is known to b l: w n nᵀ / (b l)², b as `_scaled` finds it, with Cauchy's
    w = 1 / (1 + (r / DOUBTED)²) of r = log(z / s d) / b, z the point's depth, s the scale of the map's d.
    """
    z = _depths(bundle, rows)
    scaled, belief = _scaled(bundle.camera[rows], z, depth.at(bundle)[rows], sure[bundle.point[rows]])
    prior, information = np.zeros((len(bundle.points), 3)), np.zeros((len(bundle.points), 3, 3))
    used = np.flatnonzero(np.isfinite(scaled))
    point, first = np.unique(bundle.point[rows[used]], return_index=True)
    used = used[first]
    prior[point], along, length = _lifted(bundle, rows[used], scaled[used])
    off = np.nan_to_num(np.log(z[used] / scaled[used])) / belief[used]
    weight = 1.0 / (1.0 + (off / DOUBTED) ** 2) / (belief[used] * length) ** 2
    information[point] = weight[:, None, None] * along[:, :, None] * along[:, None, :]
    return prior, information


def _scaled(camera: Ints, z: Floats, depth: Floats, sure: Bools) -> tuple[Floats, Floats]:
    """(depth in units of z, nan where none is known; how far it is believed, relative) of every observation.

    A map is scaled by the points that parallax places surely where there are enough, else by all. Where it bends away
    from the sure ones it is believed no further than they bear it out: b = max(BELIEF, 1.48 MAD of log z / d).
    """
    scaled, belief = np.full(len(z), np.nan), np.full(len(z), BELIEF)
    for k in np.unique(camera[np.isfinite(depth)]):
        seen = (camera == k) & np.isfinite(depth)
        both = seen & np.isfinite(z)
        judges = both & sure
        enough = judges.sum() >= LEAST_SCALED
        if not enough and both.sum() < LEAST_SCALED:
            continue
        chosen = judges if enough else both
        ratio = np.log(z[chosen] / depth[chosen])
        scaled[seen] = depth[seen] * np.exp(np.median(ratio))
        if enough:
            belief[seen] = max(BELIEF, 1.4826 * float(np.median(np.abs(ratio - np.median(ratio)))))
    return scaled, belief


def _depths(bundle: ba.Bundle, rows: Ints) -> Floats:
    """Depth of the points of some observations in their cameras; nan without a place or behind the camera."""
    z = ba.in_cameras(bundle)[rows, 2]
    return np.where(z > 0.0, z, np.nan)


def _lifted(bundle: ba.Bundle, rows: Ints, depth: Floats) -> tuple[Floats, Floats, Floats]:
    """(points, unit rays, distances) of observations at a depth."""
    points, along = np.zeros((len(rows), 3)), np.zeros((len(rows), 3))
    for k in np.unique(bundle.camera[rows]):
        mine: Bools = bundle.camera[rows] == k
        rays = cameras.unproject(bundle.lenses[k], bundle.xy[rows[mine]]) * depth[mine, None]
        world_from_cam = bundle.cams_from_world[k].inverse
        points[mine], along[mine] = world_from_cam(rays), rays @ world_from_cam.rotation.T
    length = np.linalg.norm(along, axis=1)
    return points, along / length[:, None], length
