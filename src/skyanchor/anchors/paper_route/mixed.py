"""The paper's local reconstruction: aerial photos registered into a group's own frame, then aligned by their cameras.

Cameras of a mixed bundle are the group's frames first and the aerial photos after them. Until the alignment nothing
is known of the aerial poses; what comes after it is in `snapped`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from skyanchor.anchors.paper_route.mixed_depth import SightedDepth, held, let_go, placed
from skyanchor.anchors.shape.incremental import TRIALS, LocalGroup, adjust_registered, resect, with_points
from skyanchor.bounds import CountOrNone, Degrees, Positive, Share
from skyanchor.geometry import rigid, similarity
from skyanchor.sfm import bundle as ba
from skyanchor.sfm.dense import Dense
from skyanchor.sfm.resection import Shared, resect_by_rays
from skyanchor.sfm.tracks import Twice, build_tracks, pixels_of
from skyanchor.types import Bools, Camera, Floats, Ints, Pose, Reason, Refusal, Similarity

PixelPairs: TypeAlias = dict[tuple[int, int], tuple[Floats, Floats]]
"""Verified matches of images (i, j), i < j: pixels (M, 2) of either."""

CELL = 1.5
"""Matched pixels of one image that fall into one square of this side are one keypoint, sigmas."""
LEAST_SEEN = 12
"""Points of others that a frame must see for its pose to be held."""


@dataclass(frozen=True)
class MixedConfig:
    """When an aerial photo counts as registered, and when the whole is believed."""

    least_inliers: CountOrNone = 20
    """Points of the group's reconstruction that agree with an aerial photo's pose, at least."""
    least_angle_deg: Degrees = 0.7
    """Triangulation angle of a point that counts, degrees."""
    outlier: Positive = 4.0
    """Observations beyond this many sigmas are dropped."""
    most_reprojection: Positive = 4.0
    """Mean reprojection error of the reconstruction in its own frame, in the matcher's sigma, at most."""
    least_views: CountOrNone = 4
    """Aerial photos that the reconstruction and the reference must have in common."""
    most_residual: Positive = 0.03
    """Distance of an aerial centre from its reference after the alignment, over the distance to what it sees."""
    most_turn_deg: Degrees = 3.0
    """Angle between an aerial camera and its reference after the alignment, degrees."""
    least_share: Share = 0.5
    """Share of the registered aerial photos that the alignment must fit, 0..1."""
    least_spread: Share = 0.1
    """Second over first singular value of the aerial centres, below which they lie on a line, 0..1."""
    orientations: bool = True
    """Whether the directions of aerial cameras on a line help to align them; off, such a group is refused."""


@dataclass(frozen=True, eq=False)
class Aligned:
    """The similarity between a free frame and the world, from cameras that are known in both."""

    world_from_local: Similarity
    agrees: Bools
    """(A,), which of the cameras it fits."""
    residual: float
    """Root mean square distance of those centres over the distance to what they see."""


# --- tracks ---------------------------------------------------------------------------------------------------------


def mixed_bundle(local: LocalGroup, lenses: tuple[Camera, ...], sigmas: Floats, paired: PixelPairs) -> ba.Bundle:
    """The group's own tracks and those that matches with aerial photos make; no point of the latter has a place yet.

    `lenses` and `sigmas` (C,), pixels, are those of the frames first and of the aerial photos after them.
    """
    xy, pairs = _keypoints(paired, sigmas)
    table = build_tracks(pairs, Twice.LOSES_FRAME, {k: len(one) for k, one in xy.items()})
    own, frames = local.bundle, len(local.frames)
    poses = (*local.cams_from_local, *(rigid.identity() for _ in lenses[frames:]))
    return ba.Bundle(
        poses,
        (*own.lenses, *lenses[frames:]),
        np.zeros(len(lenses), bool),
        np.concatenate([own.points, np.full((table.points, 3), np.nan)]),
        np.concatenate([own.camera, table.frame]),
        np.concatenate([own.point, len(own.points) + table.point]),
        np.concatenate([own.xy, pixels_of(table, xy) if len(table.frame) else np.empty((0, 2))]),
        np.concatenate([own.sigma, sigmas[table.frame]]),
    )


def _keypoints(paired: PixelPairs, sigmas: Floats) -> tuple[dict[int, Floats], dict[tuple[int, int], Ints]]:
    """(keypoints (N, 2) of every image, the matches as pairs of them); dense matchers have none of their own."""
    seen: dict[int, list[Floats]] = {}
    for (i, j), (xy_i, xy_j) in paired.items():
        seen.setdefault(i, []).append(xy_i)
        seen.setdefault(j, []).append(xy_j)
    xy: dict[int, Floats] = {}
    numbers: dict[int, list[Ints]] = {}
    for image, parts in seen.items():
        every = np.concatenate(parts)
        cell = np.floor(every / (CELL * sigmas[image])).astype(np.int64)
        _, number = np.unique(cell, axis=0, return_inverse=True)
        number = number.reshape(-1)
        count = np.maximum(np.bincount(number), 1)
        xy[image] = np.stack([np.bincount(number, every[:, k]) / count for k in range(2)], axis=1)
        numbers[image] = np.split(number, np.cumsum([len(part) for part in parts])[:-1])
    return xy, {(i, j): np.stack([numbers[i].pop(0), numbers[j].pop(0)], axis=1) for i, j in paired}


# --- in a free frame --------------------------------------------------------------------------------------------------


def register_aerial(
    bundle: ba.Bundle, frames: int, config: MixedConfig, depth: SightedDepth | None = None
) -> tuple[ba.Bundle, Ints] | Refusal:
    """(the reconstruction with aerial cameras brought in one by one, which of them are), or why it is not believed.

    Ground first: the frames have their shape, and no aerial photo moves before rays or points of theirs agree with it.
    `depth` of the frames, where there is any, holds points in every adjustment.
    """
    known = set(range(frames))
    missing = set(range(frames, len(bundle.lenses)))
    while missing:
        bundle = placed(bundle, known, config.least_angle_deg, depth)
        tried = {c: _pose_of(bundle, c, known, frames, config) for c in sorted(missing)}
        best = max(tried, key=lambda c: tried[c][1])
        if tried[best][1] < config.least_inliers:
            break
        poses = list(bundle.cams_from_world)
        poses[best] = tried[best][0]
        known.add(best)
        missing.discard(best)
        bundle = _with_camera(replace(bundle, cams_from_world=tuple(poses)), best, known, config, depth)
        bundle = let_go(
            adjust_registered(held(bundle, depth, config.least_angle_deg), known, Dense(iterations=6)).bundle
        )
    bundle = _free_adjusted(bundle, known, config, depth)
    registered = np.array(sorted(c for c in known if c >= frames), dtype=np.int64)
    seen = np.bincount(bundle.camera, minlength=len(bundle.lenses))
    registered = registered[seen[registered] >= config.least_inliers]
    return _believed(bundle, registered, config) or (bundle, registered)


def _pose_of(bundle: ba.Bundle, camera: int, known: set[int], frames: int, config: MixedConfig) -> tuple[Pose, int]:
    """(pose of one more aerial camera, points that agree with it).

    A few steps along a street say so little of depth that what they triangulate lies metres off across the view of an
    aerial photo. So the first one is found by the rays of the frames; those after it by points, where these suffice.
    """
    sigma = _sigma(bundle, camera)
    if max(known) < frames:
        return _by_rays(bundle, camera, known, sigma)
    found = resect(bundle, camera, bundle.lenses[camera], sigma)
    return found if found[1] >= config.least_inliers else _by_rays(bundle, camera, known, sigma)


def _by_rays(bundle: ba.Bundle, camera: int, known: set[int], sigma_px: float) -> tuple[Pose, int]:
    """Pose of one camera from pixels that it shares with known ones, and how many points agree with it."""
    mine = np.full(len(bundle.points), -1, np.int64)
    rows = np.flatnonzero(bundle.camera == camera)
    mine[bundle.point[rows]] = rows
    shared, owners = [], []
    for k in sorted(known):
        theirs = np.flatnonzero((bundle.camera == k) & (mine[bundle.point] >= 0))
        if not len(theirs):
            continue
        owners.append(bundle.point[theirs])
        same = bundle.xy[mine[owners[-1]]]
        shared.append(Shared(bundle.cams_from_world[k], bundle.lenses[k], bundle.xy[theirs], same))
    if not shared or len(np.unique(np.concatenate(owners))) < LEAST_SEEN:
        return rigid.identity(), 0
    found = resect_by_rays(shared, bundle.lenses[camera], 2.0 * sigma_px, TRIALS)
    return found.cam_from_world, len(np.unique(np.concatenate(owners)[found.inliers]))


def _with_camera(
    bundle: ba.Bundle, camera: int, known: set[int], config: MixedConfig, depth: SightedDepth | None
) -> ba.Bundle:
    """The bundle with points placed anew by the known cameras, without those sightings of the last that forbid it."""
    before = np.isfinite(with_points(bundle, known - {camera}, config.least_angle_deg).points[:, 0])
    after = np.isfinite(with_points(bundle, known, config.least_angle_deg).points[:, 0])
    against = (bundle.camera == camera) & (before & ~after)[bundle.point]
    return placed(observed(bundle, ~against), known, config.least_angle_deg, depth)


def _believed(bundle: ba.Bundle, registered: Ints, config: MixedConfig) -> Refusal | None:
    """The refusal of a reconstruction with too few aerial photos, or whose points do not fit them."""
    figures = {"registered": float(len(registered))}
    if len(registered) < config.least_views:
        text = f"{len(registered)} aerial photos could be registered with the group, {config.least_views} are needed."
        return Refusal(Reason.TOO_FEW_AERIAL_VIEWS, text, figures)
    error = float(ba.residual_lengths(bundle).mean())
    if error > config.most_reprojection:
        text = f"Mean reprojection of frames and aerial photos together is {error:.1f} sigma."
        return Refusal(Reason.AERIAL_REPROJECTION, text, {**figures, "reprojection": error})
    return None


def _sigma(bundle: ba.Bundle, camera: int) -> float:
    mine = bundle.sigma[bundle.camera == camera]
    return float(mine[0]) if len(mine) else 1.0


def observed(bundle: ba.Bundle, keep: Bools) -> ba.Bundle:
    """The bundle with only the kept observations; points keep their numbers."""
    rows = (bundle.camera[keep], bundle.point[keep], bundle.xy[keep], bundle.sigma[keep])
    return replace(bundle, camera=rows[0], point=rows[1], xy=rows[2], sigma=rows[3])


def _free_adjusted(bundle: ba.Bundle, known: set[int], config: MixedConfig, depth: SightedDepth | None) -> ba.Bundle:
    """All known cameras and their points adjusted together in the free frame, far observations dropped."""
    bundle = observed(bundle, np.isin(bundle.camera, list(known)))
    bundle = placed(bundle, known, config.least_angle_deg, depth)
    for loss in (2.0, 1.0):
        done = adjust_registered(held(bundle, depth, config.least_angle_deg), known, Dense(loss_scale=loss))
        bundle = pruned(let_go(done.bundle), config.outlier)
    return bundle


def pruned(bundle: ba.Bundle, most: float) -> ba.Bundle:
    """Only observations near their points, and only points that two cameras still see; points keep their numbers."""
    near = np.isfinite(bundle.points[bundle.point, 0])
    near &= ba.residual_lengths(replace(bundle, points=np.nan_to_num(bundle.points))) < most
    seen = np.bincount(bundle.point[near], minlength=len(bundle.points))
    return observed(bundle, near & (seen[bundle.point] >= 2))


# --- into the world ---------------------------------------------------------------------------------------------------


def align(
    cams_from_local: tuple[Pose, ...], cams_from_world: tuple[Pose, ...], depth: float, config: MixedConfig
) -> Aligned | Refusal:
    """World from local by the centres of cameras known in both frames; `depth` is how far they see, local units."""
    a, b = rigid.centres_in_world(cams_from_local), rigid.centres_in_world(cams_from_world)
    if len(a) < config.least_views:
        return Refusal(Reason.TOO_FEW_AERIAL_VIEWS, f"{len(a)} cameras determine no alignment.")
    reach = depth * _scale(a, b)
    first = _first_alignment(cams_from_local, cams_from_world, config.most_residual * reach, config)
    if isinstance(first, Refusal):
        return first
    turned = [similarity.transform_camera(first, pose).rotation for pose in cams_from_local]
    angles = [rigid.angle_between(r, pose.rotation) for r, pose in zip(turned, cams_from_world, strict=True)]
    off = similarity.residuals(first, a, b)
    agrees = (off <= config.most_residual * reach) & (np.degrees(angles) <= config.most_turn_deg)
    figures = {"agree": float(agrees.sum()), "cameras": float(len(a)), "residual_m": float(np.median(off))}
    if agrees.sum() < max(config.least_views, config.least_share * len(a)):
        text = f"One similarity fits {agrees.sum()} of {len(a)} aerial cameras; half are {np.median(off):.1f} m off."
        return Refusal(Reason.SIMILARITY_RESIDUAL, text, figures)
    if _on_a_line(b[agrees], config):
        return _collinear(b[agrees])
    return Aligned(first, agrees, float(np.sqrt((off[agrees] ** 2).mean()) / reach))


def _first_alignment(
    cams_from_local: tuple[Pose, ...], cams_from_world: tuple[Pose, ...], most_m: float, config: MixedConfig
) -> Similarity | Refusal:
    """The similarity that most cameras agree with; directions help where the centres lie on a line, if they may."""
    a, b = rigid.centres_in_world(cams_from_local), rigid.centres_in_world(cams_from_world)
    if similarity.is_degenerate(b, config.least_spread):
        if not config.orientations or not np.ptp(b, axis=0).any():
            return _collinear(b)
        return similarity.align_cameras(cams_from_local, cams_from_world, least_ratio=config.least_spread)
    robust = similarity.umeyama_robust(a, b, most_m)
    if robust is None:
        return Refusal(Reason.SIMILARITY_RESIDUAL, f"No three of {len(a)} aerial cameras agree with a fourth.")
    return robust.b_from_a


def _on_a_line(centres: Floats, config: MixedConfig) -> bool:
    return not config.orientations and similarity.is_degenerate(centres, config.least_spread)


def _collinear(centres: Floats) -> Refusal:
    ratio = similarity.spread_ratio(centres)
    text = f"The {len(centres)} aerial cameras lie on a line or in one place, which leaves a turn about it open."
    return Refusal(Reason.COLLINEAR_CAMERAS, text, {"spread": ratio})


def _scale(a: Floats, b: Floats) -> float:
    """World units per local unit: the median over pairs of centres."""
    i, j = np.triu_indices(len(a), 1)
    local, world = np.linalg.norm(a[i] - a[j], axis=1), np.linalg.norm(b[i] - b[j], axis=1)
    return float(np.median(world / np.maximum(local, 1e-12)))


def seen_depth(bundle: ba.Bundle, chosen: Ints) -> float:
    """Median depth of the points that some cameras see, in units of the bundle."""
    finite = np.isfinite(bundle.points[bundle.point, 0]) & np.isin(bundle.camera, chosen)
    part = observed(bundle, finite)
    return float(np.median(ba.in_cameras(part)[:, 2])) if finite.any() else 0.0
