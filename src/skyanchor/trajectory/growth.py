"""The growth of a submap: frames registered one after another, from the anchors that it started at to all others."""

from __future__ import annotations

import numpy as np

from skyanchor.sfm import tracks as tr
from skyanchor.sfm.adjustment import adjust
from skyanchor.sfm.ceres import Ceres
from skyanchor.step_clock import StepClock
from skyanchor.trajectory.closing import close
from skyanchor.trajectory.localmap import choose_tracks
from skyanchor.trajectory.registration import Located, choose_references, register
from skyanchor.trajectory.submap_state import SubmapState, adjust_tracks, refresh, track_limits
from skyanchor.types import Reason, Refusal


def grow_everywhere(state: SubmapState, segments: list[tuple[int, ...]], seeded: int, keyframes: list[int]) -> None:
    """From the segment where the map began to all others, then once more where it failed.

    Forwards to the segments that follow, closing the map at each, and on to the last frame; then backwards to the
    first frame, and closing at the segments that lie there. `seeded` is the number of the segment it began at.
    """
    using = segments if state.config.ablation.anchor_initialisation else segments[:1]
    at = using[seeded][-1]
    for segment in using[seeded + 1 :]:
        grow(state, [f for f in keyframes if at < f <= segment[-1]])
        close(state, segment)
        at = segment[-1]
    grow(state, [f for f in keyframes if f > at])
    grow(state, [f for f in reversed(keyframes) if f < using[seeded][0]])
    for segment in reversed(using[:seeded]):
        close(state, segment)
    for _ in range(2):
        left = sorted(f for f in state.pending if f not in state.local.poses)
        before = len(state.local.poses)
        grow(state, left[::-1])
        grow(state, [f for f in left if f not in state.local.poses])
        if len(state.local.poses) == before:
            break


def grow(state: SubmapState, order: list[int], online: bool = True) -> None:
    """Register frames one after another; those that fail stay pending with their reason."""
    for frame in order:
        if frame in state.local.poses:
            continue
        found = _attempt(state, frame)
        if (isinstance(found, Refusal) or found.inliers < state.config.register.strong_inliers) and _fill(state, frame):
            found = _attempt(state, frame)
        if isinstance(found, Refusal):
            state.pending[frame] = found
            continue
        _accept(state, frame, found)
        if online and state.since_adjusted >= state.config.adjust.online_every:
            _adjust_online(state, frame)


def _attempt(state: SubmapState, frame: int) -> Located | Refusal:
    """The frame's pose by the usual references, and by more of them when that fails."""
    config, aware = state.config.register, state.config.ablation.aware_of_points
    found: Located | Refusal = Refusal(Reason.NO_OVERLAP, "The map is empty.")
    for window, count in ((config.window, config.references), (2 * config.window, config.retry_references)):
        candidates = state.local.nearest(frame, window)
        references = choose_references(state.local, frame, candidates, count, config, aware)
        found = register(state.local, frame, references, config)
        if isinstance(found, Located):
            return found
    return found


def _fill(state: SubmapState, frame: int) -> bool:
    """Register the frames that lie between this one and its nearest keyframe in the map; whether any was."""
    nearest = state.local.nearest(frame, 1)
    if not nearest:
        return False
    low, high = sorted((nearest[0], frame))
    between = [f for f in state.job.submap.frames if low < f < high and f not in state.tried]
    state.tried |= set(between)
    for other in sorted(between, key=lambda f: abs(f - nearest[0])):
        found = _attempt(state, other)
        if isinstance(found, Located):
            _accept(state, other, found)
    return any(f in state.local.poses for f in between)


def _accept(state: SubmapState, frame: int, found: Located) -> None:
    """Insert a located frame and triangulate around it."""
    state.pending.pop(frame, None)
    state.local.insert(frame, found.cam_from_world)
    state.references[frame] = found.references
    if state.config.adjust.registration_iterations and state.config.ablation.anchored_adjustment:
        _adjust_registered(state, frame, found.references)
    refresh(state, [frame, *found.references, *state.local.nearest(frame, state.config.register.bootstrap)])
    state.since_adjusted += 1


def _adjust_registered(state: SubmapState, frame: int, references: tuple[int, ...]) -> None:
    """Adjust a frame that was just registered and the points it sees, its references constant: the paper's mini-BA."""
    local, config, held = state.local, state.config, frozenset(references)
    table, points = local.structure({frame, *references}, track_limits(state))
    with local.finder.clock.step("tracks"):
        table, points = tr.subset(table, points, np.unique(table.point[table.frame == frame]))
        if len(points) < config.register.least_inliers:
            return
        table, points = choose_tracks(local, table, points, held, config.tracks.registration_tracks, 0.0)
        bundle = local.bundle(table, points, held)
    solver = Ceres(config.adjust.registration_iterations, config.adjust.loss_px, threads=config.adjust.threads)
    with local.finder.clock.step("one-frame adjustment"):
        done = adjust(bundle, solver, StepClock()).bundle
    local.take_over(table, done)


def _adjust_online(state: SubmapState, frame: int) -> None:
    """Adjust the keyframes nearest in time; older ones hold them in place."""
    config = state.config
    if not config.ablation.anchored_adjustment:
        return
    near = state.local.nearest(frame, config.adjust.online_window + config.register.window)
    movable = {frame, *near[: config.adjust.online_window]}
    budget, iterations = config.tracks.online_tracks, config.adjust.online_iterations
    adjust_tracks(state, {*movable, *near}, set(near) - movable, budget, iterations)
