"""A few cross-view matches of a group as pixels of the real photos, for people to look at."""

from __future__ import annotations

import numpy as np

from skyanchor.anchors.adjustment import AdjustmentConfig, FixedAerial, thinned
from skyanchor.anchors.evidence import CrossMatches, subset
from skyanchor.geometry import cameras
from skyanchor.types import Bools, Camera, CrossView, Floats, Ints, Pose, View

PAIRS = 2
"""Pairs of a street frame and an aerial photo that are shown of a group."""
PER_PAIR = 20
"""Matches of one pair, at most."""


def shown_matches(
    matches: CrossMatches,
    points: Floats,
    agrees: Bools,
    poses: tuple[Pose, ...],
    camera: Camera,
    frames: tuple[int, ...],
    views: tuple[View, ...],
) -> CrossView | None:
    """Matches of the pairs of photos with the most agreement, good and bad as they come; None without any.

    `points` (N, 3) are the matched places, adjusted where they were; `frames` maps positions in the group to the
    sequence, `camera` is the group's PINHOLE camera.
    """
    rows = _chosen(matches, agrees)
    if not len(rows):
        return None
    frame, view = matches.frame[rows], matches.source[rows]
    seen = np.stack([_seen(camera, poses[f], x) for f, x in zip(frame, points[rows], strict=True)])
    photos = [views[v] for v in view]
    above = [
        _seen(cameras.undistorted(photo.camera), photo.cam_from_world, x)
        for photo, x in zip(photos, points[rows], strict=True)
    ]
    off = np.linalg.norm(seen - matches.xy[rows], axis=1)
    return CrossView(
        np.array(frames, dtype=np.int64)[frame],
        matches.xy[rows],
        view,
        np.stack(above),
        np.where(np.isfinite(off), off, np.inf),
        agrees[rows],
    )


def shown_adjusted(
    found: CrossMatches,
    inliers: Bools,
    done: FixedAerial,
    camera: Camera,
    frames: tuple[int, ...],
    views: tuple[View, ...],
    config: AdjustmentConfig,
) -> CrossView | None:
    """As `shown_matches` after the adjustment of the matches that `inliers` (N,) marks.

    Those that the adjustment left out for their number alone agree when they fit its poses as well as it asks for.
    """
    rows, points = np.flatnonzero(inliers), found.points.copy()
    points[rows[done.cross]] = done.points
    tried = thinned(subset(found, rows), config.matches, camera)
    spare = np.setdiff1d(rows, rows[tried])
    seen = [_seen(camera, done.cams_from_world[found.frame[k]], points[k]) for k in spare]
    off = np.linalg.norm(np.array(seen).reshape(-1, 2) - found.xy[spare], axis=1)
    agrees = np.zeros(len(found), bool)
    agrees[rows[done.cross]] = True
    agrees[spare] = off <= config.tight * found.sigma_px[spare]
    return shown_matches(found, points, agrees, done.cams_from_world, camera, frames, views)


def _seen(camera: Camera, cam_from_world: Pose, point: Floats) -> Floats:
    return cameras.project(camera, cam_from_world(point[None]))[0]


def _chosen(matches: CrossMatches, agrees: Bools) -> Ints:
    """Rows of the best pairs, each with another frame and another photo, evenly thinned in their order."""
    known = np.flatnonzero(matches.source >= 0)
    pairs, owner = np.unique(np.stack([matches.frame, matches.source], axis=1)[known], axis=0, return_inverse=True)
    owner = owner.reshape(-1)
    good, found = np.bincount(owner, agrees[known], len(pairs)), np.bincount(owner, minlength=len(pairs))
    rows: list[Ints] = []
    left = np.ones(len(pairs), bool)
    for _ in range(PAIRS):
        if not left.any():
            break
        best = int(np.lexsort((found, good, left))[-1])
        inside = known[owner == best]
        rows.append(inside[np.unique(np.linspace(0, len(inside) - 1, PER_PAIR).round().astype(np.int64))])
        left &= (pairs != pairs[best]).all(axis=1)
    return np.concatenate(rows) if rows else np.empty(0, np.int64)
