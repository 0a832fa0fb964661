"""The paper's local reconstruction: aerial photos registered into a group's own frame, then aligned by their cameras.

Cameras of a mixed bundle are the group's frames first and the aerial photos after them. Until the alignment nothing
is known of the aerial poses; after it they are the reference, down to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from skyanchor.anchors.adjustment import FixedAerial
from skyanchor.anchors.evidence import CrossMatches, GroupAt
from skyanchor.anchors.shape.incremental import TRIALS, LocalGroup, resect, settled, with_points
from skyanchor.anchors.solve import GroupSolution
from skyanchor.anchors.verdict import Halves
from skyanchor.bounds import CountOrNone, Degrees, Positive, Share
from skyanchor.geometry import cameras, rigid, similarity
from skyanchor.sfm import bundle as ba
from skyanchor.sfm.adjustment import adjust
from skyanchor.sfm.dense import Dense
from skyanchor.sfm.resection import Shared, resect_by_rays
from skyanchor.sfm.tracks import Twice, build_tracks, pixels_of
from skyanchor.types import Bools, Camera, Floats, Ints, Pose, Reason, Refusal, Similarity

PixelPairs: TypeAlias = dict[tuple[int, int], tuple[Floats, Floats]]
"""Verified matches of images (i, j), i < j: pixels (M, 2) of either."""

CELL = 1.5
"""Matched pixels of one image that fall into one square of this side are one keypoint, sigmas."""
SNAP = 30.0
"""A point may be this many sigmas off when the aerial cameras have just been put at their reference poses."""
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


def register_aerial(bundle: ba.Bundle, frames: int, config: MixedConfig) -> tuple[ba.Bundle, Ints] | Refusal:
    """(the reconstruction with aerial cameras brought in one by one, which of them are), or why it is not believed.

    Ground first: the frames have their shape, and no aerial photo moves before rays or points of theirs agree with it.
    """
    known = set(range(frames))
    missing = set(range(frames, len(bundle.lenses)))
    while missing:
        bundle = with_points(bundle, known, config.least_angle_deg)
        tried = {c: _pose_of(bundle, c, known, frames, config) for c in sorted(missing)}
        best = max(tried, key=lambda c: tried[c][1])
        if tried[best][1] < config.least_inliers:
            break
        poses = list(bundle.cams_from_world)
        poses[best] = tried[best][0]
        known.add(best)
        missing.discard(best)
        bundle = _with_camera(replace(bundle, cams_from_world=tuple(poses)), best, known, config)
        bundle = settled(bundle, known, Dense(iterations=6)).bundle
    bundle = _free_adjusted(bundle, known, config)
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


def _with_camera(bundle: ba.Bundle, camera: int, known: set[int], config: MixedConfig) -> ba.Bundle:
    """The bundle with points placed anew by the known cameras, without those sightings of the last that forbid it."""
    before = np.isfinite(with_points(bundle, known - {camera}, config.least_angle_deg).points[:, 0])
    after = np.isfinite(with_points(bundle, known, config.least_angle_deg).points[:, 0])
    against = (bundle.camera == camera) & (before & ~after)[bundle.point]
    return with_points(_observed(bundle, ~against), known, config.least_angle_deg)


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


def _observed(bundle: ba.Bundle, keep: Bools) -> ba.Bundle:
    """The bundle with only the kept observations; points keep their numbers."""
    rows = (bundle.camera[keep], bundle.point[keep], bundle.xy[keep], bundle.sigma[keep])
    return replace(bundle, camera=rows[0], point=rows[1], xy=rows[2], sigma=rows[3])


def _free_adjusted(bundle: ba.Bundle, known: set[int], config: MixedConfig) -> ba.Bundle:
    """All known cameras and their points adjusted together in the free frame, far observations dropped."""
    bundle = _observed(bundle, np.isin(bundle.camera, list(known)))
    bundle = with_points(bundle, known, config.least_angle_deg)
    for loss in (2.0, 1.0):
        bundle = _pruned(settled(bundle, known, Dense(loss_scale=loss)).bundle, config.outlier)
    return bundle


def _pruned(bundle: ba.Bundle, most: float) -> ba.Bundle:
    """Only observations near their points, and only points that two cameras still see; points keep their numbers."""
    near = np.isfinite(bundle.points[bundle.point, 0])
    near &= ba.residual_lengths(replace(bundle, points=np.nan_to_num(bundle.points))) < most
    seen = np.bincount(bundle.point[near], minlength=len(bundle.points))
    return _observed(bundle, near & (seen[bundle.point] >= 2))


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
    part = _observed(bundle, finite)
    return float(np.median(ba.in_cameras(part)[:, 2])) if finite.any() else 0.0


# --- against the reference ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Snapped:
    """The reconstruction in the world with its aerial cameras at their reference poses, constant."""

    bundle: ba.Bundle
    frames: int
    views: Ints
    """(A,), aerial view of each camera after the frames."""

    @property
    def cross(self) -> Bools:
        """(K,), observations of frames whose point an aerial photo sees too."""
        above = np.bincount(self.bundle.point[self.bundle.camera >= self.frames], minlength=len(self.bundle.points))
        return (self.bundle.camera < self.frames) & (above[self.bundle.point] > 0)


def snap(
    bundle: ba.Bundle, frames: int, used: Ints, world_from_local: Similarity, views: Ints, reference: tuple[Pose, ...]
) -> Snapped:
    """Frames moved by the similarity, the aerial cameras `used` at their reference poses, points without a place.

    `views` (A,) and `reference` are the aerial views of all cameras after the frames, and their poses.
    """
    ground = tuple(similarity.transform_camera(world_from_local, pose) for pose in bundle.cams_from_world[:frames])
    number = np.full(len(bundle.lenses), -1, np.int64)
    kept = np.concatenate([np.arange(frames), used])
    number[kept] = np.arange(len(kept))
    part = _observed(bundle, number[bundle.camera] >= 0)
    poses = (*ground, *(reference[c - frames] for c in used))
    constant = np.arange(len(kept)) >= frames
    lenses = tuple(bundle.lenses[c] for c in kept)
    nowhere = np.full_like(bundle.points, np.nan)
    moved = replace(
        part, cams_from_world=poses, lenses=lenses, constant=constant, camera=number[part.camera], points=nowhere
    )
    return Snapped(moved, frames, views[used - frames])


def adjusted_at_reference(snapped: Snapped, config: MixedConfig, refine_focal: bool) -> tuple[Snapped, Floats] | None:
    """(the reconstruction adjusted with the aerial cameras constant, covariances of the frames): wide, then tight.

    Points are triangulated anew before each round. None when nothing is left to hold a frame.
    """
    everyone = set(range(len(snapped.bundle.lenses)))
    bundle, covariances = snapped.bundle, None
    for widest, loss, most in ((SNAP, 3.0, 2.0 * config.outlier), (2.0 * config.outlier, 2.0, config.outlier)):
        whole = replace(snapped.bundle, cams_from_world=bundle.cams_from_world, lenses=bundle.lenses)
        whole = with_points(whole, everyone, config.least_angle_deg, widest)
        part, used = ba.selected(whole, np.isfinite(whole.points[whole.point, 0]))
        if not _held(replace(snapped, bundle=part)):
            return None
        done = adjust(part, Dense(loss_scale=loss, refine_focal=refine_focal))
        covariances = done.covariances
        bundle = replace(done.bundle, points=_put(whole.points, used, done.bundle.points), point=used[part.point])
        bundle = _pruned(bundle, most)
    last = replace(snapped, bundle=bundle)
    assert covariances is not None
    return (last, covariances[: snapped.frames]) if _held(last) else None


def _put(points: Floats, rows: Ints, values: Floats) -> Floats:
    out = np.full_like(points, np.nan)
    out[rows] = values
    return out


def _held(snapped: Snapped) -> bool:
    """Whether every frame sees enough points, and some of them see points of aerial photos."""
    seen = np.bincount(snapped.bundle.camera, minlength=snapped.frames)[: snapped.frames]
    return bool((seen >= LEAST_SEEN).all() and snapped.cross.sum() >= LEAST_SEEN)


def halves_of(snapped: Snapped, config: MixedConfig) -> Halves:
    """How far the adjustments of two halves of the evidence lie apart, the worse of two splits.

    Each half has its own matches with aerial photos: by aerial camera, and left and right in the frames. The group's
    own tracks, which say nothing of its place, are in both.
    """
    bundle, ground = snapped.bundle, snapped.cross
    count = len(bundle.points)
    mean_x = np.bincount(bundle.point[ground], bundle.xy[ground, 0], count) / np.maximum(
        np.bincount(bundle.point[ground], minlength=count), 1
    )
    both = np.isin(np.arange(count), bundle.point[ground])
    middle = float(np.median(mean_x[both])) if both.any() else 0.0
    view = _view_in_turn(snapped)
    sees = view >= 0
    apart: list[tuple[float, float, float]] = []
    for first in (view % 2 == 0, mean_x < middle):
        a, b = (_half(snapped, ~sees | half, config) for half in (first, ~first))
        if a is None or b is None:
            return Halves(float("nan"), float("nan"), float("nan"))
        apart.append(_apart(a, b))
    metres, degrees, scale = np.max(apart, axis=0)
    return Halves(float(metres), float(degrees), float(scale))


def _view_in_turn(snapped: Snapped) -> Ints:
    """(P,), one of the aerial cameras that see each point, another one from point to point; -1 where none does."""
    bundle = snapped.bundle
    above = np.flatnonzero(bundle.camera >= snapped.frames)
    above = above[np.lexsort([bundle.camera[above], bundle.point[above]])]
    owner, count = bundle.point[above], np.bincount(bundle.point[above], minlength=len(bundle.points))
    seen = np.flatnonzero(count)
    chosen = np.searchsorted(owner, seen) + np.arange(len(seen)) % count[seen]
    view = np.full(len(bundle.points), -1, np.int64)
    view[seen] = bundle.camera[above[chosen]]
    return view


def _half(snapped: Snapped, points: Bools, config: MixedConfig) -> tuple[Pose, ...] | None:
    """Poses of the frames by some of the points."""
    bundle = snapped.bundle
    part = replace(snapped, bundle=_observed(bundle, points[bundle.point]))
    done = adjusted_at_reference(part, config, refine_focal=False)
    return None if done is None else done[0].bundle.cams_from_world[: snapped.frames]


def _apart(a: tuple[Pose, ...], b: tuple[Pose, ...]) -> tuple[float, float, float]:
    """(mean distance of the centres in metres, largest angle in degrees, difference of the lengths as a fraction)."""
    there, here = rigid.centres_in_world(a), rigid.centres_in_world(b)
    turn = max(rigid.angle_between(p.rotation, q.rotation) for p, q in zip(a, b, strict=True))
    length = [max(float(np.linalg.norm(c - c.mean(axis=0), axis=1).sum()), 1e-9) for c in (there, here)]
    off = float(np.linalg.norm(there - here, axis=1).mean())
    return off, float(np.degrees(turn)), float(abs(np.log(length[0] / length[1])))


# --- as the verdict takes it ----------------------------------------------------------------------------------------


def evidence(
    local: LocalGroup, camera: Camera, before: Snapped, after: Snapped, covariances: Floats, start: Similarity
) -> tuple[GroupAt, FixedAerial]:
    """The group at its place with all its matches, and the adjustment of those that agree."""
    tried, bundle = np.flatnonzero(before.cross), after.bundle
    agreeing = np.flatnonzero(after.cross)
    kept = np.isin(_names(before.bundle)[tried], _names(bundle)[agreeing])
    matches = _cross_matches(before, bundle.points, tried)
    lengths, above = ba.residual_lengths(bundle), bundle.camera >= after.frames
    views = np.bincount(bundle.point[above], minlength=len(bundle.points))
    mine = before.bundle.point[tried[kept]]
    done = FixedAerial(
        cams_from_world=bundle.cams_from_world[: after.frames],
        covariances=covariances * max(1.0, float(np.median(lengths[above | after.cross])) ** 2 / 1.386),
        cross=np.arange(int(kept.sum())),
        views_per_match=views[mine],
        aerial_views=matches.source[kept],
        reprojection=float(np.median(lengths[agreeing])),
        aerial_reprojection=float(np.median(lengths[above])),
        points=bundle.points[mine],
        focal_scale=bundle.lenses[0].params[0] / cameras.undistorted(camera).params[0],
        tried=int(kept.sum()),
    )
    solution = GroupSolution(start, done.cams_from_world, kept, done.reprojection)
    return GroupAt(local, camera, solution, matches), done


def _names(bundle: ba.Bundle) -> Ints:
    """(K,), a number of each observation that stays when others go: a camera sees a point once."""
    return bundle.camera * len(bundle.points) + bundle.point


def _cross_matches(before: Snapped, adjusted: Floats, tried: Ints) -> CrossMatches:
    """Observations of frames whose point an aerial photo sees too, each with one of those photos in turn."""
    bundle = before.bundle
    above = np.flatnonzero(bundle.camera >= before.frames)
    above = above[np.argsort(bundle.point[above], kind="stable")]
    owner = bundle.point[above]
    start, end = np.searchsorted(owner, bundle.point[tried]), np.searchsorted(owner, bundle.point[tried], side="right")
    turn = start + np.arange(len(tried)) % (end - start)
    source = before.views[bundle.camera[above[turn]] - before.frames]
    points = adjusted[bundle.point[tried]]
    return CrossMatches(
        bundle.camera[tried],
        bundle.xy[tried],
        bundle.sigma[tried],
        np.nan_to_num(points),
        np.zeros_like(points),
        source,
        source,
    )
