"""One submap, from its front anchors to its rear ones.

A map is started at some of its anchors (bootstrap), grows frame by frame (growth), is closed at each group of anchors
that it reaches (closing), and is adjusted as a whole in the end with the anchors constant. What changes meanwhile is
the `SubmapState`.
"""

from __future__ import annotations

from skyanchor.sfm.bundle import mean_error_px
from skyanchor.sfm.covisibility import loop_pairs
from skyanchor.step_clock import StepClock
from skyanchor.trajectory.bootstrap import refuse_all, start_map
from skyanchor.trajectory.growth import grow_everywhere
from skyanchor.trajectory.jobs import (
    BOOTSTRAP,
    REFINEMENT,
    REGISTRATION,
    FramePairs,
    FramePose,
    FrameRefusal,
    SubmapJob,
    SubmapResult,
    anchor_segments,
)
from skyanchor.trajectory.keyframes import choose_keyframes
from skyanchor.trajectory.localmap import LocalMap, PairFinder
from skyanchor.trajectory.source import FeatureSource
from skyanchor.trajectory.submap_state import SubmapState, adjust_tracks, track_limits

LEAST_ERROR = 0.001
"""Reprojection error that online tracks are allowed in any case, over the width of the photos; the paper's."""
WIDE = 4.0
"""Factor on the tolerance of tracks in all rounds of the final adjustment but the last."""


def recover_submap(job: SubmapJob, source: FeatureSource) -> SubmapResult:
    """Poses of the submap's keyframes, anchors exactly where they were, and the pairs that hold them together."""
    state = _start(job, source)
    segments = anchor_segments(state.anchors)
    with state.local.finder.clock.step("other"):
        with state.phases.step(REGISTRATION):
            anchored, finder = frozenset(state.anchors), state.local.finder
            keyframes = choose_keyframes(job.submap.frames, anchored, finder, job.config.keyframe)
        with state.phases.step(BOOTSTRAP):
            seeded = start_map(state, segments, keyframes)
        if seeded is None:
            refuse_all(state, keyframes)
        else:
            with state.phases.step(REGISTRATION):
                grow_everywhere(state, segments, seeded, keyframes)
            with state.phases.step(REFINEMENT):
                _finish(state)
    keyframes = sorted({*keyframes, *state.local.poses})
    state.figures |= {"keyframes": float(len(keyframes)), "registered": float(len(state.local.poses))}
    return _result(state, keyframes)


def _result(state: SubmapState, keyframes: list[int]) -> SubmapResult:
    local = state.local
    return SubmapResult(
        state.job.submap,
        local.camera,
        tuple(FramePose(f, pose) for f, pose in sorted(local.poses.items())),
        tuple(sorted(state.constant)),
        tuple(keyframes),
        tuple(FrameRefusal(f, why) for f, why in sorted(state.pending.items()) if f not in local.poses),
        tuple(FramePairs(i, j, held) for (i, j), held in sorted(local.pairs_among(local.poses).items())),
        tuple(state.closures),
        state.figures,
        local.finder.clock.with_total,
        tuple(sorted(state.dropped)),
        state.phases.seconds,
    )


def _start(job: SubmapJob, source: FeatureSource) -> SubmapState:
    clock = StepClock()
    matcher = job.config.matcher.load(job.config.device)
    finder = PairFinder(source, matcher, job.camera, job.config.verify, clock)
    sigma = finder.features(job.submap.frames[0]).sigma_px
    error = max(LEAST_ERROR * job.camera.width, job.config.tracks.online_error * sigma)
    anchors = {anchor.frame: anchor.cam_from_world for anchor in job.anchors}
    return SubmapState(job, LocalMap(job.camera, finder), anchors, error)


def _finish(state: SubmapState) -> None:
    """Loop pairs, then the final anchored adjustment: wide tracks first, then tight ones."""
    config, local = state.config, state.local
    for i, j in loop_pairs(local.poses, local.xyz, local.camera, local.finder.found, config.loop_pairs):
        local.finder.pairs(i, j)
    if not config.ablation.anchored_adjustment:
        return
    sigma = local.finder.features(state.job.submap.frames[0]).sigma_px
    tolerance, final = state.error_px, config.tracks.final_error * sigma
    movable = len(local.poses) - len(state.constant)
    budget = round(config.tracks.final_tracks * max(1.0, movable / 100.0))
    for round_ in range(config.adjust.final_rounds):
        last = round_ == config.adjust.final_rounds - 1
        state.error_px = max(tolerance, final) * (1.0 if last else WIDE)
        done = adjust_tracks(state, local.poses, set(), budget, config.adjust.final_iterations, state.job.refine_focal)
        if done is not None:
            state.figures |= {"error_px": mean_error_px(done), "tracks": float(len(done.points))}
    table, points = local.structure(local.poses, track_limits(state))
    local.remember(table, points, forget=True)
