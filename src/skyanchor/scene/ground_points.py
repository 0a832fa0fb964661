"""Dense ground points: stereo between street views at the recovered poses, filtered, thinned by distance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import cv2
import numpy as np

from skyanchor.ahead import made_ahead
from skyanchor.bounds import Degrees, Few, FewOrNone, NotNegative, Positive, Share
from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import lift, pixel_centres
from skyanchor.photos import PhotoCache
from skyanchor.stereo.consistency import ConsistencyConfig, make_consistent
from skyanchor.stereo.estimate import StereoConfig, estimate_depth
from skyanchor.stereo.large_planes import LargePlaneConfig, on_large_planes
from skyanchor.stereo.sources import depth_range, in_frame
from skyanchor.types import QUIET, Bools, Cloud, DepthMap, Floats, Floats32, Ints, View

NO_PARALLAX = 50.0
"""So many times the farthest depth that is trusted a walk sees no parallax."""

NEARER = 0.5
"""So many times the depth of the nearest points that are known is searched: the ground before the feet has few."""

HALO = 1.3
"""Depth over that of a pixel from which on what lies beside it is another surface, farther away."""

SPECK_PX = 15
"""Side of the square that a speck is looked for in, pixels."""


@dataclass(frozen=True)
class GroundPointConfig:
    """How the street is measured."""

    stereo: StereoConfig = field(default_factory=lambda: StereoConfig(width=640))
    baselines: tuple[Positive, ...] = (0.6, 1.2, 2.4)
    """Distances walked at which source views are taken, one before and one after each, metres."""
    most_turn_deg: Degrees = 35.0
    """Sources look at most this much elsewhere, degrees."""
    consistency: ConsistencyConfig = field(default_factory=lambda: ConsistencyConfig(tolerance_px=8.0, fewest_layers=2))
    """A walk looks ahead, where depth is several times less sure than a pixel's footprint."""
    instead: NotNegative = field(default=0.0, metadata=QUIET)
    """Where the walk has no view a baseline before one, or after it, another at so many baselines on the other side is
    taken instead: the ends of a walk have sources on one side alone. 0 takes none."""
    least_motion: NotNegative = 0.8
    """Distance walked between two views whose depth is measured, metres ..."""
    least_turn_deg: Degrees = 20.0
    """... unless the camera turned by this much."""
    farthest: Positive = 60.0
    """Depth beyond which a street view is not trusted, metres."""
    least_angle_deg: Degrees = 1.5
    """Triangulation angle with the best source below which depth is dropped, degrees."""
    least_confidence: Share = 0.4
    """0..1."""
    halo_px: FewOrNone = field(default=0, metadata=QUIET)
    """Pixels beside a farther surface whose depth is dropped: windows carry an edge as far beyond it as they reach."""
    planes: LargePlaneConfig | None = field(default=None, metadata=QUIET)
    """How confirmed depths are put on the large upright planes that they share; None leaves them as they are."""
    stride: Few = 2
    """Pixels between two points of one view."""
    finest: Positive = 0.02
    """Smallest spacing of the points, metres."""


def depth_views(views: Sequence[View], config: GroundPointConfig) -> tuple[int, ...]:
    """Views whose depth is measured: the first, and each that moved or turned enough since the last chosen."""
    chosen: list[int] = []
    for k, view in enumerate(views):
        if not chosen or _far_enough(views[chosen[-1]], view, config):
            chosen.append(k)
    return tuple(chosen)


def _far_enough(last: View, view: View, config: GroundPointConfig) -> bool:
    here, there = (rigid.centre_in_world(one.cam_from_world) for one in (last, view))
    turn = rigid.angle_between(last.cam_from_world.rotation, view.cam_from_world.rotation)
    return bool(np.linalg.norm(here - there) >= config.least_motion or np.rad2deg(turn) >= config.least_turn_deg)


def source_views(views: Sequence[View], index: int, config: GroundPointConfig) -> tuple[int, ...]:
    """Views that help to measure one: about a baseline away, before and after it, looking the same way."""
    centres = rigid.centres_in_world([view.cam_from_world for view in views])
    forward = np.array([view.cam_from_world.rotation[2] for view in views])
    apart = np.linalg.norm(centres - centres[index], axis=1)
    free = forward @ forward[index] >= np.cos(np.deg2rad(config.most_turn_deg))
    before, after = (np.arange(len(views)) < index, np.arange(len(views)) > index)
    asked = [(baseline, *sides) for baseline in config.baselines for sides in ((before, after), (after, before))]
    chosen: list[int] = []
    instead: list[tuple[float, Bools]] = []
    for baseline, side, other in asked:
        if not _taken(chosen, apart, free & side, baseline):
            instead.append((config.instead * baseline, other))
    for baseline, side in instead:
        _taken(chosen, apart, free & side, baseline)
    return tuple(chosen)


def _taken(chosen: list[int], apart: Floats, free: Bools, baseline: float) -> bool:
    """Whether a free view lies about a baseline away; the one nearest to that joins the chosen."""
    fits = np.flatnonzero(free & (apart > 0.4 * baseline) & (apart < 1.8 * baseline))
    fits = fits[~np.isin(fits, chosen)]
    if len(fits):
        chosen.append(int(fits[np.argmin(np.abs(apart[fits] - baseline))]))
    return len(fits) > 0


def ground_depth(
    view: View, sources: list[View], points: Floats, photos: PhotoCache, config: GroundPointConfig, up: Floats | None
) -> DepthMap:
    """Measured depth of one street view; `points` are the adjustment's points, which say where the search begins.

    Roads are level: `up` (3,) is a unit vector in world axes, None where it is not known. The search goes on to where
    nothing has parallax: clouds and distant houses are found there, and have no depth; nor have far specks among them,
    nor the halo of near things.
    """
    hints = points[in_frame(view, points)]
    span = NEARER * depth_range(view, hints)[0], NO_PARALLAX * config.farthest
    found = estimate_depth(view, sources, hints, photos, config.stereo, span=span, up=up)
    beyond = found.depth >= config.farthest
    trusted = ~beyond & ~specks(found.depth, beyond, config) & ~halo(found.depth, config.halo_px)
    return replace(found, depth=found.depth * trusted, confidence=found.confidence * trusted)


def specks(depth: Floats32, beyond: Bools, config: GroundPointConfig) -> Bools:
    """(H, W), pixels of the farther half of the range around which most lie beyond it: sky, not roofs or posts."""
    share = cv2.blur(beyond.astype(np.float32), (SPECK_PX, SPECK_PX), borderType=cv2.BORDER_REPLICATE)
    return np.asarray((share > 0.5) & (depth > 0.5 * config.farthest))


def halo(depth: Floats32, reach: int) -> Bools:
    """(H, W), pixels with a depth in whose square of 2 `reach` + 1 pixels another surface lies farther away.

    What is less than `reach` pixels wide is no surface: a wrong depth here and there takes nothing of a front.
    """
    if not reach:
        return np.zeros(depth.shape, np.bool_)
    surfaces = cv2.morphologyEx(depth, cv2.MORPH_OPEN, np.ones((reach, reach), np.uint8))
    farthest = cv2.dilate(surfaces, np.ones((2 * reach + 1, 2 * reach + 1), np.uint8))
    return np.asarray((depth > 0) & (farthest > HALO * depth))


def consistent_ground_depth(
    depth_map: DepthMap, neighbours: list[DepthMap], config: GroundPointConfig, up: Floats | None = None
) -> DepthMap:
    """The map with the depths that its neighbours confirm, on large upright planes where these are asked for."""
    found = make_consistent(depth_map, neighbours, config.consistency)
    if config.planes is None or up is None:
        return found
    return on_large_planes(found, [other.cam_from_world for other in neighbours], up, config.planes)


def ground_cloud(maps: Sequence[DepthMap], views: Sequence[View], config: GroundPointConfig) -> Cloud:
    """Coloured points of all maps, the nearest view first, no two closer than the finer one's spacing."""
    by_name = {view.name: view for view in views}
    centres = rigid.centres_in_world([view.cam_from_world for view in views])
    photos = PhotoCache(1 << 26)
    parts = list(made_ahead(lambda one: _points_of(one, by_name[one.name], centres, photos, config), maps))
    if not parts:
        nothing = np.zeros((0, 3), np.float32)
        return Cloud(nothing, nothing, np.zeros((0, 3), np.uint8), np.zeros(0, np.float32))
    whole = Cloud(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("points", "normals", "colors", "spacing")
        )
    )
    kept = thinned_by_spacing(whole.points, whole.spacing, config.finest)
    return Cloud(whole.points[kept], whole.normals[kept], whole.colors[kept], whole.spacing[kept])


def _points_of(one: DepthMap, view: View, centres: Floats, photos: PhotoCache, config: GroundPointConfig) -> Cloud:
    """The trusted pixels of one map as points."""
    photo, _ = photos.photo(view.name, view.path, view.camera, one.depth.shape[1], view.mask_path)
    rows, columns = (
        axis.ravel() for axis in np.mgrid[: one.depth.shape[0] : config.stride, : one.depth.shape[1] : config.stride]
    )
    depth = one.depth[rows, columns]
    good = (depth > 0) & (depth < config.farthest) & (one.confidence[rows, columns] >= config.least_confidence)
    if photo.mask is not None:
        good &= photo.mask[rows, columns]
    rows, columns, depth = rows[good], columns[good], depth[good].astype(np.float64)
    points = lift(one.camera, one.cam_from_world, pixel_centres(rows, columns), depth)
    wide = _seen_wide(points, rigid.centre_in_world(one.cam_from_world), centres, config.least_angle_deg)
    spacing = config.stride * depth / cameras.focal_px(one.camera)
    normals = one.normal[rows, columns]
    colors = photo.pixels[rows, columns]
    return Cloud(points[wide].astype(np.float32), normals[wide], colors[wide], spacing[wide].astype(np.float32))


def _seen_wide(points: Floats, centre: Floats, centres: Floats, least_angle_deg: float) -> Bools:
    """(N,), whether another camera within 10 m sees the point from a direction at least this much different."""
    near = centres[np.linalg.norm(centres - centre, axis=1) < 10.0]
    mine = points - centre
    mine /= np.linalg.norm(mine, axis=1, keepdims=True)
    widest = np.zeros(len(points))
    for other in near[:: max(1, len(near) // 6)]:
        theirs = points - other
        theirs /= np.maximum(np.linalg.norm(theirs, axis=1, keepdims=True), 1e-9)
        widest = np.maximum(widest, np.linalg.norm(mine - theirs, axis=1))
    return np.asarray(widest > 2.0 * np.sin(np.deg2rad(least_angle_deg) / 2.0))


def thinned_by_spacing(points: Floats32, spacing: Floats32, finest: float) -> Ints:
    """Rows that stay: one per voxel, where the voxel's side grows with the spacing in powers of two.

    Going from fine to coarse, a point is dropped where a finer one lies in its voxel already.
    """
    from skyanchor.scaffold.voxels import first_in_voxel

    level = np.maximum(0, np.round(np.log2(np.maximum(spacing, 1e-9) / finest))).astype(np.int64)
    kept = np.zeros(0, np.int64)
    for one in np.unique(level):
        rows = np.flatnonzero(level == one)
        rows = rows[np.argsort(spacing[rows], kind="stable")]
        both = np.concatenate([kept, rows])
        first = first_in_voxel(points[both], np.full(len(both), finest * 2.0**one), np.zeros(len(both), np.int64))
        kept = np.concatenate([kept, rows[first[len(kept) :]]])
    return np.sort(kept)
