"""How the street photos' colours relate to the aerial ones, and which ground points the aerial photos show better."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from skyanchor.ahead import made_ahead
from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import under
from skyanchor.photos import PhotoCache
from skyanchor.scene.floaters import seen_surface
from skyanchor.types import Bools, Bytes, Cloud, DepthMap, Floats, Ints, View

FEWEST_PAIRS = 50
"""Below this no exposure is estimated."""
ON_SURFACE = 0.25
"""A point this near to the depth an aerial view has there is what the view shows, metres ..."""
ON_SURFACE_RELATIVE = 0.005
"""... plus this fraction of the depth."""
MOST_POINTS = 200_000
"""Ground points whose colours are compared."""
CELL = 4.0
"""Side of the places whose colours are compared, aerial pixels."""
FEWEST_IN_CELL = 4
"""Ground points that such a place needs."""
LEAST_FACING = 0.3
"""Cosine between a surface's normal and the direction to a camera below which the camera hardly sees it."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Places that street and aerial photos show."""

    photo: Floats
    """(P, 3), colour in the street photos, 0..1."""
    above: Floats
    """(P, 3), colour in the aerial photos, 0..1."""


@dataclass(frozen=True, eq=False)
class Sight:
    """The ground points that one aerial view shows."""

    rows: Ints
    """(P,), rows of the cloud."""
    xy: Floats
    """(P, 2), where, in pixels of the depth map."""
    footprint: Floats
    """(P,), what one pixel of the photo covers on the surface, metres."""


def sights(
    cloud: Cloud, views: Sequence[View], depth: Iterable[DepthMap], width: int
) -> Iterator[tuple[View, DepthMap, Sight]]:
    """Each aerial view that has depth, and what it shows; photos count as at most `width` pixels wide."""
    by_name = {view.name: view for view in views}

    def seen(one: DepthMap) -> tuple[View, DepthMap, Sight]:
        return by_name[one.name], one, _sight(cloud, by_name[one.name], one, width)

    return made_ahead(seen, (one for one in depth if one.name in by_name))


def _sight(cloud: Cloud, view: View, depth: DepthMap, width: int) -> Sight:
    rows, z, surface = seen_surface(cloud.points, depth, 0.5)
    at = np.abs(z - surface) <= ON_SURFACE + ON_SURFACE_RELATIVE * surface
    rows, z = rows[at], z[at].astype(np.float64)
    points = cloud.points[rows].astype(np.float64)
    towards = rigid.centre_in_world(view.cam_from_world) - points
    towards /= np.linalg.norm(towards, axis=1, keepdims=True)
    facing = np.einsum("ni,ni->n", cloud.normals[rows].astype(np.float64), towards)
    good = facing >= LEAST_FACING
    focal = cameras.focal_px(view.camera) * min(1.0, width / view.camera.width)
    xy = cameras.project(depth.camera, depth.cam_from_world(points[good]))
    return Sight(rows[good], xy, z[good] / focal / facing[good])


def paired_colours(cloud: Cloud, views: Sequence[View], depth: Iterable[DepthMap], photos: PhotoCache) -> Pairs:
    """Colours of the same places in street and aerial photos.

    A place is a cell of a few aerial pixels: over it the finer street photos are as blurred as the aerial ones.
    """
    cloud = _some(cloud, MOST_POINTS)
    total, seen, footprint = np.zeros((len(cloud.points), 3)), np.zeros(len(cloud.points)), np.zeros(len(cloud.points))
    for view, one, sight in sights(cloud, views, depth, 1 << 20):
        photo, _ = photos.photo(view.name, view.path, view.camera, one.depth.shape[1], view.mask_path)
        total[sight.rows] += under(photo.pixels, sight.xy) / 255.0
        footprint[sight.rows] += sight.footprint * view.camera.width / one.depth.shape[1]
        seen[sight.rows] += 1.0
    rows = np.flatnonzero(seen)
    if not len(rows):
        return Pairs(np.zeros((0, 3)), np.zeros((0, 3)))
    side = CELL * float(np.median(footprint[rows] / seen[rows]))
    cells = np.floor(cloud.points[rows] / side).astype(np.int64)
    _, place, count = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    held = count >= FEWEST_IN_CELL
    means = [
        _means(values, place.ravel(), count)[held]
        for values in (cloud.colors[rows] / 255.0, total[rows] / seen[rows, None])
    ]
    return Pairs(means[0], means[1])


def _some(cloud: Cloud, most: int) -> Cloud:
    """At most about so many of the points, evenly taken."""
    rows = np.arange(0, len(cloud.points), max(1, len(cloud.points) // most))
    return Cloud(cloud.points[rows], cloud.normals[rows], cloud.colors[rows], cloud.spacing[rows])


def _means(values: Floats, place: Ints, count: Ints) -> Floats:
    """Means (C, 3) of values (N, 3) by place (N,)."""
    return np.stack([np.bincount(place, values[:, k], len(count)) for k in range(3)], axis=1) / count[:, None]


def shared_exposure(pairs: Pairs, rounds: int = 6) -> Floats:
    """(3, 4) [A | b] with photo = A above + b, A diagonal; identity when too few pairs speak.

    What changed in the street since the flight is dropped on the way: pairs far from the lines of the round before.
    """
    colour_map = np.eye(3, 4)
    if len(pairs.photo) < FEWEST_PAIRS:
        return colour_map
    kept = np.ones(len(pairs.photo), np.bool_)
    for _ in range(rounds):
        for channel in range(3):
            gain, shift = _line(pairs.above[kept, channel], pairs.photo[kept, channel])
            colour_map[channel, channel], colour_map[channel, 3] = gain, shift
        off = np.abs(pairs.above @ colour_map[:, :3].T + colour_map[:, 3] - pairs.photo).max(axis=1)
        kept = off <= 2.5 * float(np.median(off))
    return colour_map


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    """Slope and shift of y over x, of which both are uncertain: mixed pixels, another angle.

    The slope lies between the two regressions, r σy/σx and σy/(r σx); within these bounds the brightness ratio of the
    medians is taken, which is what another exposure alone would do.
    """
    middle = float(np.median(x)), float(np.median(y))
    gain = middle[1] / max(middle[0], 1e-3)
    spread = max(float(np.std(x)), 1e-6), max(float(np.std(y)), 1e-6)
    ratio = spread[1] / spread[0]
    together = float(np.mean((x - x.mean()) * (y - y.mean()))) / (spread[0] * spread[1])
    if together > 0.2:
        gain = float(np.clip(gain, together * ratio, ratio / together))
    gain = float(np.clip(gain, 0.4, 2.5))
    return gain, middle[1] - gain * middle[0]


def in_model_colours(colors: Bytes, colour_map: Floats) -> Bytes:
    """Photo colours (N, 3) as the model would have them: A⁻¹ (photo - b)."""
    model = (colors / 255.0 - colour_map[:, 3]) / np.diag(colour_map[:, :3])
    return np.round(255.0 * np.clip(model, 0.0, 1.0)).astype(np.uint8)


def finer_from_above(
    cloud: Cloud, views: Sequence[View], depth: Iterable[DepthMap], width: int, least_views: int = 3
) -> Bools:
    """(N,), points that at least so many aerial photos show with smaller pixels than the street photos."""
    count = np.zeros(len(cloud.points), np.int64)
    for _, _, sight in sights(cloud, views, depth, width):
        count[sight.rows] += sight.footprint < cloud.spacing[sight.rows]
    return np.asarray(count >= least_views, np.bool_)
