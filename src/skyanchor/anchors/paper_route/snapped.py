"""The paper's reconstruction after its alignment: the aerial cameras are the reference, down to the last bit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skyanchor.anchors.adjustment import FixedAerial
from skyanchor.anchors.evidence import CrossMatches, GroupAt
from skyanchor.anchors.paper_route.mixed import LEAST_SEEN, MixedConfig, observed, pruned
from skyanchor.anchors.shape.incremental import LocalGroup, with_points
from skyanchor.anchors.solve import GroupSolution
from skyanchor.anchors.verdict import Halves
from skyanchor.geometry import cameras, rigid, similarity
from skyanchor.sfm import bundle as ba
from skyanchor.sfm.adjustment import adjust
from skyanchor.sfm.dense import Dense
from skyanchor.sfm.uncertainty import MEDIAN_2
from skyanchor.types import Bools, Camera, Floats, Ints, Pose, Similarity

SNAP = 30.0
"""A point may be this many sigmas off when the aerial cameras have just been put at their reference poses."""


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
    part = observed(bundle, number[bundle.camera] >= 0)
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
        bundle = pruned(bundle, most)
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
    part = replace(snapped, bundle=observed(bundle, points[bundle.point]))
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
        covariances=covariances * max(1.0, float(np.median(lengths[above | after.cross])) ** 2 / MEDIAN_2),
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
        np.full(len(source), -1, np.int64),
    )
