"""A few cross-view matches of a group as pixels of the real photos, for people to look at."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skyanchor.anchors.adjustment import AdjustmentConfig, FixedAerial, thinned
from skyanchor.anchors.evidence import CrossMatches, GroupAt
from skyanchor.anchors.frames import with_focal
from skyanchor.geometry import cameras
from skyanchor.scaffold.windows import Photos
from skyanchor.types import Bools, Camera, CrossView, Floats, Ints, Pose

PAIRS = 2
"""Pairs of a street frame and an aerial photo that are shown of a group."""
PER_PAIR = 20
"""Matches of one pair, at most."""


def shown_matches(at: GroupAt, points: Floats, agrees: Bools, photos: Photos) -> CrossView | None:
    """Matches of the pairs of photos with the most agreement, good and bad as they come; None without any.

    `points` (N, 3) are the matched places, adjusted where they were; `agrees` (N,) marks the good ones. Pixels
    are those of whole photos, where matches lie in windows of them.
    """
    matches = at.matches
    rows = _chosen(matches, agrees)
    if not len(rows):
        return None
    frame, view = matches.frame[rows], photos.of_view[matches.source[rows]]
    poses = at.solution.cams_from_world
    seen = np.stack([_seen(at.camera, poses[f], x) for f, x in zip(frame, points[rows], strict=True)])
    above = [
        _seen(cameras.undistorted(photo.camera), photo.cam_from_world, x)
        for photo, x in zip([photos.views[v] for v in view], points[rows], strict=True)
    ]
    off = np.linalg.norm(seen - matches.xy[rows], axis=1)
    return CrossView(
        np.array(at.local.frames, dtype=np.int64)[frame],
        matches.xy[rows],
        view,
        np.stack(above),
        np.where(np.isfinite(off), off, np.inf),
        agrees[rows],
    )


def shown_adjusted(at: GroupAt, done: FixedAerial, photos: Photos, config: AdjustmentConfig) -> CrossView | None:
    """As `shown_matches` after the adjustment of the agreeing ones.

    Those that the adjustment left out for their number alone agree when they fit its poses as well as it asks for.
    """
    matches, camera = at.matches, with_focal(at.camera, done.focal_scale)
    rows, points = np.flatnonzero(at.solution.inliers), matches.points.copy()
    points[rows[done.cross]] = done.points
    tried = thinned(at.agreeing, config.matches, camera)
    spare = np.setdiff1d(rows, rows[tried])
    seen = [_seen(camera, done.cams_from_world[matches.frame[k]], points[k]) for k in spare]
    off = np.linalg.norm(np.array(seen).reshape(-1, 2) - matches.xy[spare], axis=1)
    agrees = np.zeros(len(matches), bool)
    agrees[rows[done.cross]] = True
    agrees[spare] = off <= config.tight * matches.sigma_px[spare]
    there = replace(at, camera=camera, solution=replace(at.solution, cams_from_world=done.cams_from_world))
    return shown_matches(there, points, agrees, photos)


def _seen(camera: Camera, cam_from_world: Pose, point: Floats) -> Floats:
    return cameras.project(camera, cam_from_world(point[None]))[0]


def _chosen(matches: CrossMatches, agrees: Bools) -> Ints:
    """Rows of the best pairs, each with another frame and another photo, evenly thinned in their order."""
    known = np.flatnonzero(matches.source >= 0)
    pairs, owner = np.unique(np.stack([matches.frame, matches.source], axis=1)[known], axis=0, return_inverse=True)
    owner = owner.reshape(-1)
    good, all_of = np.bincount(owner, agrees[known], len(pairs)), np.bincount(owner, minlength=len(pairs))
    rows: list[Ints] = []
    left = np.ones(len(pairs), bool)
    for _ in range(PAIRS):
        if not left.any():
            break
        best = int(np.lexsort((all_of, good, left))[-1])
        inside = known[owner == best]
        rows.append(inside[np.unique(np.linspace(0, len(inside) - 1, PER_PAIR).round().astype(np.int64))])
        left &= (pairs != pairs[best]).all(axis=1)
    return np.concatenate(rows) if rows else np.empty(0, np.int64)
