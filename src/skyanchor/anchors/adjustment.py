"""Fixed-aerial bundle adjustment: ground poses and points move, aerial cameras do not, down to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from skyanchor.anchors.evidence import CrossMatches, GroupAt, subset
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.bounds import Count, CountOrNone, Positive
from skyanchor.bridges.carry import CarryConfig, carry
from skyanchor.bridges.views import AerialAtlas
from skyanchor.geometry import cameras
from skyanchor.sfm import bundle as ba
from skyanchor.sfm.adjustment import adjust
from skyanchor.sfm.dense import Dense
from skyanchor.sfm.uncertainty import MEDIAN_2
from skyanchor.types import Bools, Camera, Floats, Ints, Pose, Similarity

LOSS_SCALES = (3.0, 2.0)
"""Sigmas from which an observation counts less, in the first round and in the second."""
LEAST_POINTS = 12
"""Points that a group is adjusted on, at least."""
LEAST_SEEN = 6
"""Observations of every frame, at least; three would determine its pose."""
CONFIRMED_SLACK = 5.0
"""Factor on the surface's error for a point that two or more aerial photos show: these hold it, not the surface."""
CELLS = 80
"""Columns of the grid over which matches are thinned evenly."""
IN_FRAME, ABOVE, OWN_TRACK, PAINTED = range(4)
"""What an observation is: a match in its ground frame; the same in an aerial photo that was asked independently; a
point of the group's own reconstruction; a match in the aerial photo that it was lifted from. There it lies where it was
taken, which proves nothing."""


@dataclass(frozen=True)
class AdjustmentConfig:
    """The two rounds of the fixed-aerial adjustment."""

    carry: CarryConfig = field(default_factory=CarryConfig)
    wide: Positive = 6.0
    """Observations beyond this many sigmas are dropped after the first round."""
    tight: Positive = 3.5
    """And after the second."""
    surface_sigma: Positive = 2.0
    """Error of the aerial surface, in ground sample distances; what holds a point that one aerial photo shows."""
    ground_points: CountOrNone = 1500
    """Points of the group's own reconstruction that keep its shape, at most."""
    matches: Count = 2400
    """Cross-view matches, at most; beyond that they are thinned evenly over frames and images."""


@dataclass(frozen=True, eq=False)
class FixedAerial:
    """The group after the adjustment."""

    cams_from_world: tuple[Pose, ...]
    covariances: Floats
    """(F, 6, 6) of (rotation rad, translation m), in the camera frame, scaled by the residuals."""
    cross: Ints
    """(M,), indices of the cross-view matches that agree."""
    views_per_match: Ints
    """(M,), aerial photos that show each of them."""
    aerial_views: Ints
    """(M,), aerial view each of them was painted from."""
    reprojection: float
    """Median residual of the cross-view observations in ground frames, in sigmas."""
    aerial_reprojection: float
    """Median residual in aerial photos that the match was not lifted from, in sigmas; inf without any."""
    points: Floats
    """(M, 3), adjusted positions of those matches, metres."""
    focal_scale: float
    """Estimated focal length over the given one; 1 when it was not refined."""
    tried: int = 0
    """Cross-view matches that went in."""
    bundle: ba.Bundle | None = None
    """What was adjusted, the group's frames first; None where a pose comes another way."""


@dataclass(frozen=True, eq=False)
class FixedView:
    """A photo that does not move: an aerial one, or a keyframe of an earlier walk."""

    lens: Camera
    """PINHOLE, of the pixels that are matched."""
    cam_from_world: Pose


@dataclass(frozen=True, eq=False)
class FixedSightings:
    """Where constant photos show the points of matches; the sightings are flat arrays of one length."""

    views: tuple[FixedView, ...]
    point: Ints
    """(K,), number of the match."""
    view: Ints
    """(K,), index into `views`."""
    xy: Floats
    """(K, 2), pixels of the view's lens."""
    sigma_px: Floats
    """(K,), localisation error in those pixels."""
    reference: Ints
    """(K,), 1 where the point was lifted from this view, 0 where the view was asked independently."""
    slack_m: Floats
    """(M,), how far each match's point may lie from where it was measured, metres; inf where it is triangulated."""


def sightings_from_above(atlas: AerialAtlas, matches: CrossMatches, config: AdjustmentConfig) -> FixedSightings:
    """Where aerial photos show the matches of bridge views."""
    seen = carry(atlas, matches.points, matches.normals, matches.source, config.carry)
    sigma = config.surface_sigma * atlas.surface.gsd
    several = np.bincount(seen.point, minlength=len(matches)) >= 2
    views = tuple(FixedView(atlas.photo_camera(j), view.cam_from_world) for j, view in enumerate(atlas.views))
    sigma_px = np.full(len(seen.view), config.carry.sigma_px)
    slack_m = np.where(several, CONFIRMED_SLACK * sigma, sigma)
    return FixedSightings(views, seen.point, seen.view, seen.xy, sigma_px, seen.reference, slack_m)


def _ground_tracks(local: LocalGroup, world_from_local: Similarity, most: int) -> ba.Bundle:
    """The group's own points in the world, the longest tracks first."""
    seen = np.bincount(local.bundle.point, minlength=len(local.bundle.points))
    chosen = np.argsort(-seen, kind="stable")[:most]
    keep = np.zeros(len(seen), bool)
    keep[chosen] = True
    part, _ = ba.selected(local.bundle, keep[local.bundle.point])
    return replace(part, points=world_from_local(part.points))


@dataclass(frozen=True, eq=False)
class _Problem:
    """The adjustment with what each of its parts is."""

    bundle: ba.Bundle
    """Cameras: the group's frames, then aerial views; points: the matches, then the group's own tracks."""
    tags: Ints
    """(K,), what each observation is: IN_FRAME, ABOVE, OWN_TRACK or PAINTED."""
    cross: Ints
    """(P,), match number of each point, or -1."""


def _assembled(at: GroupAt, matches: CrossMatches, seen: FixedSightings, tracks: ba.Bundle) -> _Problem:
    views = np.unique(seen.view)
    fixed = tuple(seen.views[int(j)] for j in views)
    poses, lens = at.solution.cams_from_world, cameras.undistorted(at.camera)
    frames, count = len(poses), len(matches)
    information = np.zeros((count + len(tracks.points), 3, 3))
    information[:count] = np.eye(3) / seen.slack_m[:, None, None] ** 2
    points = np.concatenate([matches.points, tracks.points])
    bundle = ba.Bundle(
        cams_from_world=(*poses, *(view.cam_from_world for view in fixed)),
        lenses=(*(lens,) * frames, *(view.lens for view in fixed)),
        constant=np.arange(frames + len(views)) >= frames,
        points=points,
        camera=np.concatenate([matches.frame, frames + np.searchsorted(views, seen.view), tracks.camera]),
        point=np.concatenate([np.arange(count), seen.point, count + tracks.point]),
        xy=np.concatenate([matches.xy, seen.xy, tracks.xy]),
        sigma=np.concatenate([matches.sigma_px, seen.sigma_px, tracks.sigma]),
        prior=points,
        prior_information=information,
    )
    above = np.where(seen.reference == 1, PAINTED, ABOVE)
    tags = np.concatenate([np.full(count, IN_FRAME), above, np.full(len(tracks.point), OWN_TRACK)])
    return _Problem(bundle, tags.astype(np.int64), np.concatenate([np.arange(count), np.full(len(tracks.points), -1)]))


def _pruned(problem: _Problem, adjusted: ba.Bundle, most: float) -> _Problem:
    """Far observations dropped; a match stays only while its ground frame and an aerial photo still see it."""
    near = ba.residual_lengths(adjusted) < most
    tags, cross, count = problem.tags, problem.cross, len(adjusted.points)
    ground = np.bincount(adjusted.point[near & (tags == IN_FRAME)], minlength=count) > 0
    aerial = np.bincount(adjusted.point[near & _from_above(tags)], minlength=count) > 0
    shape = np.bincount(adjusted.point[near & (tags == OWN_TRACK)], minlength=count) >= 2
    whole = np.where(cross >= 0, ground & aerial, shape)
    keep = near & whole[adjusted.point]
    part, used = ba.selected(adjusted, keep)
    return _Problem(part, tags[keep], cross[used])


def _from_above(tags: Ints) -> Bools:
    """Which observations are those of aerial photos."""
    return np.asarray((tags == ABOVE) | (tags == PAINTED))


def adjust_fixed_aerial(
    atlas: AerialAtlas, at: GroupAt, config: AdjustmentConfig, refine_focal: bool = False
) -> FixedAerial | None:
    """The group's poses against the real aerial photos, or None when nothing is left to hold them."""

    def above(matches: CrossMatches) -> FixedSightings:
        return sightings_from_above(atlas, matches, config)

    return adjust_against(at, above, config, refine_focal)


def adjust_against(
    at: GroupAt,
    sightings_of: Callable[[CrossMatches], FixedSightings],
    config: AdjustmentConfig,
    refine_focal: bool = False,
) -> FixedAerial | None:
    """The group's poses against constant photos that show its matches, or None when nothing is left to hold them."""
    chosen = thinned(at.agreeing, config.matches, at.camera)
    matches = subset(at.agreeing, chosen)
    frames = len(at.solution.cams_from_world)
    tracks = _ground_tracks(at.local, at.solution.world_from_local, config.ground_points)
    problem = _assembled(at, matches, sightings_of(matches), tracks)
    focal = problem.bundle.lenses[0].params[0]
    done = None
    for loss, most in zip(LOSS_SCALES, (config.wide, config.tight), strict=True):
        if len(problem.bundle.points) < LEAST_POINTS or not _every_frame_held(problem.bundle, frames):
            return None
        done = adjust(problem.bundle, Dense(loss_scale=loss, refine_focal=refine_focal))
        problem = _pruned(problem, done.bundle, most)
    assert done is not None and done.covariances is not None
    scale = problem.bundle.lenses[0].params[0] / focal
    return _summary(problem, done.covariances[:frames], matches, chosen, scale)


def thinned(matches: CrossMatches, most: int, camera: Camera) -> Ints:
    """Indices of at most `most` matches: one of every image cell first, then a second of each, and so on."""
    if len(matches) <= most:
        return np.arange(len(matches))
    cell = np.floor(matches.xy / (camera.width / CELLS)).astype(np.int64)
    key = (matches.frame * 1000 + cell[:, 0]) * 1000 + cell[:, 1]
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[order], prepend=key[order[0]] - 1))
    turn = np.empty(len(key), np.int64)
    turn[order] = np.arange(len(key)) - np.repeat(first, np.diff(np.append(first, len(key))))
    spread = np.random.default_rng(0).permutation(len(key))
    return np.sort(spread[np.argsort(turn[spread], kind="stable")][:most])


def _every_frame_held(bundle: ba.Bundle, frames: int) -> bool:
    return bool((np.bincount(bundle.camera, minlength=frames)[:frames] >= LEAST_SEEN).all())


def _median(values: Floats, chosen: Bools) -> float:
    return float(np.median(values[chosen])) if chosen.any() else float("inf")


def _summary(
    problem: _Problem, covariances: Floats, matches: CrossMatches, chosen: Ints, focal_scale: float
) -> FixedAerial:
    whole, tags, frames = problem.bundle, problem.tags, len(covariances)
    lengths = ba.residual_lengths(whole)
    views = np.bincount(whole.point[_from_above(tags)], minlength=len(whole.points))
    kept = np.flatnonzero(problem.cross >= 0)
    factor = max(1.0, _median(lengths, (tags == IN_FRAME) | (tags == ABOVE)) ** 2 / MEDIAN_2)
    return FixedAerial(
        cams_from_world=whole.cams_from_world[:frames],
        covariances=covariances * factor,
        cross=chosen[problem.cross[kept]],
        views_per_match=views[kept].astype(np.int64),
        aerial_views=matches.source[problem.cross[kept]],
        reprojection=_median(lengths, tags == IN_FRAME),
        aerial_reprojection=_median(lengths, tags == ABOVE),
        points=whole.points[kept],
        focal_scale=focal_scale,
        tried=len(matches),
        bundle=whole,
    )
