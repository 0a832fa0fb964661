"""The start of a submap: a map from one segment of its anchors and the keyframes next to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skyanchor.geometry import cameras
from skyanchor.sfm import tracks as tr
from skyanchor.sfm.bundle import in_cameras, residual_lengths
from skyanchor.trajectory.growth import grow
from skyanchor.trajectory.submap_state import SubmapState, adjust_tracks, drop_strays, refresh, track_limits
from skyanchor.types import Pose, Reason, Refusal

LEAST_POINTS = 60
"""Points that the anchors must triangulate before the map can grow."""
NOISE_LOOK = 6.0
"""Factor on the tolerance of tracks while the noise of the anchors is measured: within it all of the noise shows."""
NOISE_MEDIANS, NOISE_MOST = 3.0, 4.0
"""Tracks are then believed up to so many median residuals, but no more than this factor on the usual tolerance."""
SECOND_FRAMES = slice(2, 8)
"""Keyframes after the first anchor that are tried as the second frame of a map without anchors."""


def start_map(state: SubmapState, segments: list[tuple[int, ...]], keyframes: list[int]) -> int | None:
    """Number of the first segment from which the map could be started; None when there is none."""
    if not state.config.ablation.anchor_initialisation:
        return 0 if segments and _seed_without_anchors(state, keyframes) else None
    return next((k for k, segment in enumerate(segments) if _bootstrap(state, segment, keyframes)), None)


def _bootstrap(state: SubmapState, segment: tuple[int, ...], keyframes: list[int]) -> bool:
    """Start the map at a segment of anchors and the keyframes next to it; False when they show no parallax."""
    local = state.local
    for k, frame in enumerate(segment):
        local.insert(frame, state.anchors[frame])
        for other in segment[:k]:
            local.finder.pairs(other, frame)
    state.constant |= set(segment)
    _tolerate_anchor_noise(state, segment)
    segment = drop_strays(state, segment)
    if refresh(state, segment) < LEAST_POINTS:
        for frame in segment:
            local.poses.pop(frame)
        state.constant -= set(segment)
        return False
    outside = [f for f in keyframes if f not in segment]
    ahead = sorted(outside, key=lambda f: (f < segment[-1], abs(f - segment[-1])))
    grow(state, ahead[: max(state.config.register.bootstrap - len(segment), 0)], online=False)
    tracks, solver = state.config.tracks.bootstrap_tracks, state.config.adjust.bootstrap_iterations
    adjust_tracks(state, local.poses, set(), tracks, solver, state.job.refine_focal)
    return True


def _tolerate_anchor_noise(state: SubmapState, segment: tuple[int, ...]) -> None:
    """Widen the tolerance of tracks when the anchors' own poses do not agree to the pixel.

    What the points' residuals are in pixels is an error of the anchors in metres at the points' distance. Over their
    baseline it says how well they know the scale.
    """
    limits = replace(track_limits(state), error_px=NOISE_LOOK * state.error_px)
    table, points = state.local.structure(segment, limits)
    if not len(points):
        return
    bundle = state.local.bundle(table, points, frozenset())
    depth, median = in_cameras(bundle)[:, 2], float(np.median(residual_lengths(bundle)))
    baseline = float(np.linalg.norm(np.ptp(tr.centres_of(state.local.poses, list(segment)), axis=0)))
    shaken_m = median * float(np.median(depth)) / cameras.focal_px(state.local.camera)
    state.scale_sigma = shaken_m / max(baseline, 1e-3)
    state.figures["anchor_error_px"] = median
    state.error_px = float(np.clip(NOISE_MEDIANS * median, state.error_px, NOISE_MOST * state.error_px))


def _seed_without_anchors(state: SubmapState, keyframes: list[int]) -> bool:
    """Ablation: the first anchor's pose and a second keyframe as the images show it, at a scale of their own."""
    from skyanchor.matching import TwoView, verify

    local, first = state.local, min(state.anchors)
    for frame in keyframes[keyframes.index(first) :][SECOND_FRAMES]:
        pairs = local.finder.pairs(first, frame)
        a, b = local.finder.features(first), local.finder.features(frame)
        xy = (a.xy[pairs[:, 0]], b.xy[pairs[:, 1]])
        seen = verify(*xy, local.camera, local.camera, a.sigma_px, state.config.verify)
        if not isinstance(seen, TwoView):
            continue
        local.insert(first, state.anchors[first])
        local.insert(frame, seen.b_from_a @ state.anchors[first])
        state.constant = {first}
        refresh(state, [first, frame])
        depth = np.nanmedian(state.anchors[first](local.xyz[first])[:, 2])
        shorter = Pose(seen.b_from_a.rotation, seen.b_from_a.translation / depth)  # the median depth becomes one unit
        local.insert(frame, shorter @ state.anchors[first])
        if refresh(state, [first, frame]) >= LEAST_POINTS:
            state.anchors = {first: state.anchors[first]}
            return True
        local.poses.clear()
    return False


def refuse_all(state: SubmapState, keyframes: list[int]) -> None:
    """Every keyframe without a pose, for the same reason."""
    detail = "No anchor group of this submap has enough parallax to start a map from."
    state.pending |= {f: Refusal(Reason.NO_START, detail) for f in keyframes}
