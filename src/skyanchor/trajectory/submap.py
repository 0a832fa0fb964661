"""One submap: bootstrap at its anchors, growth frame by frame, closure at the other anchors, anchored adjustment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from skyanchor.geometry import cameras
from skyanchor.sfm import tracks as tr
from skyanchor.sfm.adjustment import adjust
from skyanchor.sfm.bundle import Bundle, in_cameras, mean_error_px, residual_lengths
from skyanchor.sfm.ceres import Ceres
from skyanchor.sfm.covisibility import loop_pairs
from skyanchor.sfm.relaxation import Edge, EdgeSigmas, relax
from skyanchor.sfm.triangulation import TrackFilter
from skyanchor.step_clock import StepClock
from skyanchor.trajectory.closure import Closure, measure
from skyanchor.trajectory.config import TrajectoryConfig
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
from skyanchor.trajectory.registration import Located, choose_references, register
from skyanchor.trajectory.source import FeatureSource
from skyanchor.types import Floats, Pose, Reason, Refusal

STRAY = 0.2
"""An anchor that sees less than this part of the points its group sees in the median does not belong there."""
LEAST_POINTS = 60
"""Points that the anchors must triangulate before the map can grow."""


@dataclass
class _State:
    """What changes while a submap grows."""

    job: SubmapJob
    local: LocalMap
    anchors: dict[int, Pose]
    error_px: float
    """Reprojection error of online tracks."""
    scale_sigma: float = 0.0
    """Relative standard deviation of the scale that the seeding anchors give."""
    constant: set[int] = field(default_factory=set)
    references: dict[int, tuple[int, ...]] = field(default_factory=dict)
    pending: dict[int, Refusal] = field(default_factory=dict)
    tried: set[int] = field(default_factory=set)
    """Frames between keyframes that were tried to bridge a gap."""
    dropped: list[int] = field(default_factory=list)
    closures: list[Closure] = field(default_factory=list)
    since_adjusted: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    phases: StepClock = field(default_factory=StepClock)

    @property
    def config(self) -> TrajectoryConfig:
        return self.job.config


def recover_submap(job: SubmapJob, source: FeatureSource) -> SubmapResult:
    """Poses of the submap's keyframes, anchors exactly where they were, and the pairs that hold them together."""
    state = _start(job, source)
    segments = anchor_segments(state.anchors)
    with state.local.finder.clock.step("other"):
        with state.phases.step(REGISTRATION):
            anchored, finder = frozenset(state.anchors), state.local.finder
            keyframes = choose_keyframes(job.submap.frames, anchored, finder, job.config.keyframe)
        with state.phases.step(BOOTSTRAP):
            seeded = _seed(state, segments, keyframes)
        if seeded is None:
            _refuse_all(state, keyframes)
        else:
            with state.phases.step(REGISTRATION):
                _grow_everywhere(state, segments, seeded, keyframes)
            with state.phases.step(REFINEMENT):
                _finish(state)
    keyframes = sorted({*keyframes, *state.local.poses})
    state.figures |= {"keyframes": float(len(keyframes)), "registered": float(len(state.local.poses))}
    return _result(state, keyframes)


def _result(state: _State, keyframes: list[int]) -> SubmapResult:
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


def _start(job: SubmapJob, source: FeatureSource) -> _State:
    clock = StepClock()
    matcher = job.config.matcher.load(job.config.device)
    finder = PairFinder(source, matcher, job.camera, job.config.verify, clock)
    sigma = finder.features(job.submap.frames[0]).sigma_px
    error = max(0.001 * job.camera.width, job.config.tracks.online_error * sigma)
    anchors = {anchor.frame: anchor.cam_from_world for anchor in job.anchors}
    return _State(job, LocalMap(job.camera, finder), anchors, error)


# --- bootstrap --------------------------------------------------------------------------------------------------


def _seed(state: _State, segments: list[tuple[int, ...]], keyframes: list[int]) -> int | None:
    """Number of the first segment from which the map could be started; None when there is none."""
    if not state.config.ablation.anchor_initialisation:
        return 0 if segments and _seed_without_anchors(state, keyframes) else None
    return next((k for k, segment in enumerate(segments) if _bootstrap(state, segment, keyframes)), None)


def _bootstrap(state: _State, segment: tuple[int, ...], keyframes: list[int]) -> bool:
    """Start the map at a segment of anchors and the keyframes next to it; False when they show no parallax."""
    local = state.local
    for k, frame in enumerate(segment):
        local.insert(frame, state.anchors[frame])
        for other in segment[:k]:
            local.finder.pairs(other, frame)
    state.constant |= set(segment)
    _tolerate_anchor_noise(state, segment)
    segment = _drop_strays(state, segment)
    if _refresh(state, segment) < LEAST_POINTS:
        for frame in segment:
            local.poses.pop(frame)
        state.constant -= set(segment)
        return False
    outside = [f for f in keyframes if f not in segment]
    ahead = sorted(outside, key=lambda f: (f < segment[-1], abs(f - segment[-1])))
    _grow(state, ahead[: max(state.config.register.bootstrap - len(segment), 0)], online=False)
    tracks, solver = state.config.tracks.bootstrap_tracks, state.config.adjust.bootstrap_iterations
    _adjust(state, local.poses, set(), tracks, solver, state.job.refine_focal)
    return True


def _drop_strays(state: _State, segment: tuple[int, ...]) -> tuple[int, ...]:
    """The segment without anchors that hardly share points with the others at the poses they were given."""
    table, _ = state.local.structure(segment, _limits(state))
    seen = np.bincount(table.frame, minlength=segment[-1] + 1)[list(segment)]
    strays = [f for f, n in zip(segment, seen.tolist(), strict=True) if n < STRAY * np.median(seen)]
    if len(segment) < 4 or 2 * len(strays) >= len(segment):
        return segment
    for frame in strays:
        state.anchors.pop(frame)
        state.local.poses.pop(frame)
        state.constant.discard(frame)
        state.dropped.append(frame)
        state.pending[frame] = Refusal(
            Reason.STRAY_ANCHOR, "Its anchor contradicts its own group and nothing else fits."
        )
    return tuple(f for f in segment if f not in strays)


def _tolerate_anchor_noise(state: _State, segment: tuple[int, ...]) -> None:
    """Widen the tolerance of tracks when the anchors' own poses do not agree to the pixel."""
    limits = replace(_limits(state), error_px=6.0 * state.error_px)
    table, points = state.local.structure(segment, limits)
    if not len(points):
        return
    bundle = state.local.bundle(table, points, frozenset())
    depth, median = in_cameras(bundle)[:, 2], float(np.median(residual_lengths(bundle)))
    baseline = float(np.linalg.norm(np.ptp(tr.centres_of(state.local.poses, list(segment)), axis=0)))
    shaken_m = median * float(np.median(depth)) / cameras.focal_px(state.local.camera)
    state.scale_sigma = shaken_m / max(baseline, 1e-3)
    state.figures["anchor_error_px"] = median
    state.error_px = float(np.clip(3.0 * median, state.error_px, 4.0 * state.error_px))


def _seed_without_anchors(state: _State, keyframes: list[int]) -> bool:
    """Ablation: the first anchor's pose and a second keyframe as the images show it, at a scale of their own."""
    from skyanchor.matching import TwoView, verify

    local, first = state.local, min(state.anchors)
    start = keyframes.index(first)
    for frame in keyframes[start + 2 : start + 8]:
        pairs = local.finder.pairs(first, frame)
        a, b = local.finder.features(first), local.finder.features(frame)
        xy = (a.xy[pairs[:, 0]], b.xy[pairs[:, 1]])
        seen = verify(*xy, local.camera, local.camera, a.sigma_px, state.config.verify)
        if not isinstance(seen, TwoView):
            continue
        local.insert(first, state.anchors[first])
        local.insert(frame, seen.b_from_a @ state.anchors[first])
        state.constant = {first}
        _refresh(state, [first, frame])
        depth = np.nanmedian(state.anchors[first](local.xyz[first])[:, 2])
        shorter = Pose(seen.b_from_a.rotation, seen.b_from_a.translation / depth)  # the median depth becomes one unit
        local.insert(frame, shorter @ state.anchors[first])
        if _refresh(state, [first, frame]) >= LEAST_POINTS:
            state.anchors = {first: state.anchors[first]}
            return True
        local.poses.clear()
    return False


def _refuse_all(state: _State, keyframes: list[int]) -> None:
    detail = "No anchor group of this submap has enough parallax to start a map from."
    state.pending |= {f: Refusal(Reason.NO_START, detail) for f in keyframes}


# --- growth -----------------------------------------------------------------------------------------------------


def _grow_everywhere(state: _State, segments: list[tuple[int, ...]], seeded: int, keyframes: list[int]) -> None:
    """From the seeded segment to the following ones, then outwards at both ends, then once more where it failed."""
    using = segments if state.config.ablation.anchor_initialisation else segments[:1]
    at = using[seeded][-1]
    for segment in using[seeded + 1 :]:
        _grow(state, [f for f in keyframes if at < f <= segment[-1]])
        _close(state, segment)
        at = segment[-1]
    _grow(state, [f for f in keyframes if f > at])
    _grow(state, [f for f in reversed(keyframes) if f < using[seeded][0]])
    for segment in reversed(using[:seeded]):
        _close(state, segment)
    for _ in range(2):
        left = sorted(f for f in state.pending if f not in state.local.poses)
        before = len(state.local.poses)
        _grow(state, left[::-1])
        _grow(state, [f for f in left if f not in state.local.poses])
        if len(state.local.poses) == before:
            break


def _grow(state: _State, order: list[int], online: bool = True) -> None:
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


def _fill(state: _State, frame: int) -> bool:
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


def _accept(state: _State, frame: int, found: Located) -> None:
    """Insert a located frame and triangulate around it."""
    state.pending.pop(frame, None)
    state.local.insert(frame, found.cam_from_world)
    state.references[frame] = found.references
    if state.config.adjust.registration_iterations and state.config.ablation.anchored_adjustment:
        _adjust_registered(state, frame, found.references)
    _refresh(state, [frame, *found.references, *state.local.nearest(frame, state.config.register.bootstrap)])
    state.since_adjusted += 1


def _attempt(state: _State, frame: int) -> Located | Refusal:
    """The frame's pose with the usual references, and with more of them when that fails."""
    config, aware = state.config.register, state.config.ablation.aware_of_points
    found: Located | Refusal = Refusal(Reason.NO_OVERLAP, "The map is empty.")
    for window, count in ((config.window, config.references), (2 * config.window, config.retry_references)):
        candidates = state.local.nearest(frame, window)
        references = choose_references(state.local, frame, candidates, count, config, aware)
        found = register(state.local, frame, references, config)
        if isinstance(found, Located):
            return found
    return found


# --- structure and adjustment -----------------------------------------------------------------------------------


def _limits(state: _State) -> TrackFilter:
    held = state.config.tracks
    return TrackFilter(state.error_px, float(np.radians(held.least_angle_deg)), held.most_depth_m)


def _refresh(state: _State, frames: Iterable[int]) -> int:
    """Triangulate tracks among frames anew and put them into the map; the number of points."""
    table, points = state.local.structure(set(frames), _limits(state))
    state.local.remember(table, points)
    return len(points)


def _adjust(
    state: _State, frames: Iterable[int], held: set[int], budget: int, iterations: int, refine_focal: bool = False
) -> Bundle | None:
    """Adjust frames and a choice of their tracks, anchors and `held` constant, and take over the result."""
    local, config = state.local, state.config
    table, points = local.structure(frames, _limits(state))
    fixed = held | (state.constant if config.ablation.fixed_anchors else set())
    if not set(table.frame.tolist()) - fixed:
        return None
    with local.finder.clock.step("tracks"):
        table, points = choose_tracks(local, table, points, frozenset(fixed), budget, config.tracks.anchor_quota)
        bundle = local.bundle(table, points, frozenset(fixed))
    solver = Ceres(iterations, config.adjust.loss_px, refine_focal, config.adjust.threads)
    done = adjust(bundle, solver, local.finder.clock).bundle
    local.take_over(table, done)
    state.since_adjusted = 0
    _refresh(state, frames)
    return done


def _adjust_registered(state: _State, frame: int, references: tuple[int, ...]) -> None:
    """Adjust a frame that was just registered and the points it sees, its references constant: the paper's mini-BA."""
    local, config, held = state.local, state.config, frozenset(references)
    table, points = local.structure({frame, *references}, _limits(state))
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


def choose_tracks(
    local: LocalMap, table: tr.TrackTable, points: Floats, fixed: frozenset[int], budget: int, quota: float
) -> tuple[tr.TrackTable, Floats]:
    """(tracks of the budget, their points)."""
    anchored = np.isin(table.frame, list(fixed))
    chosen = tr.select(table, tr.cells(tr.pixels_of(table, local.xy), local.camera), anchored, budget, quota)
    return tr.subset(table, points, chosen)


def _adjust_online(state: _State, frame: int) -> None:
    """Adjust the keyframes nearest in time; older ones hold them in place."""
    config = state.config
    if not config.ablation.anchored_adjustment:
        return
    near = state.local.nearest(frame, config.adjust.online_window + config.register.window)
    movable = {frame, *near[: config.adjust.online_window]}
    _adjust(state, {*movable, *near}, set(near) - movable, config.tracks.online_tracks, config.adjust.online_iterations)


# --- closure and final adjustment -------------------------------------------------------------------------------


def _close(state: _State, segment: tuple[int, ...]) -> None:
    """Put a segment's anchors where they belong, the gap spread over the free poses; unless it contradicts the map."""
    local, config = state.local, state.config
    segment = tuple(f for f in segment if f in state.anchors)
    visual = {f: local.poses[f] for f in segment if f in local.poses}
    if visual:
        origin = {f: local.poses[f] for f in state.constant}
        nearest = min(state.constant, key=lambda f: abs(f - segment[0]))
        path = local.path_m(min(nearest, segment[0]), max(nearest, segment[-1]))
        closure = measure(
            state.job.submap.index, visual, state.anchors, origin, path, state.scale_sigma, config.closure
        )
        state.closures.append(closure)
        if closure.contradiction:
            return
        if closure.gap_m > config.closure.relax_m and config.ablation.anchored_adjustment:
            _relax(state, segment)
    for frame in segment:
        local.insert(frame, state.anchors[frame])
        state.pending.pop(frame, None)
    state.constant |= set(segment)
    _match_tail(state, segment)
    _drop_strays(state, segment)
    _refresh(state, local.poses)


def _relax(state: _State, segment: tuple[int, ...]) -> None:
    poses = state.local.poses
    edges = [
        Edge(i, j, poses[i] @ poses[j].inverse)
        for j, references in state.references.items()
        for i in references
        if i in poses and j in poses
    ]
    fixed = frozenset(state.constant | set(segment))
    snapped = poses | {f: state.anchors[f] for f in segment if f in poses}
    poses.update(relax(snapped, fixed, edges, EdgeSigmas()))


def _match_tail(state: _State, segment: tuple[int, ...]) -> None:
    """Match every anchor with its own group and the latest movable frames before it."""
    free = [f for f in sorted(state.local.poses) if f not in state.constant and f < segment[0]]
    latest = free[-state.config.tail_window :]
    for k, frame in enumerate(segment):
        for other in [*latest, *segment[:k]]:
            state.local.finder.pairs(other, frame)


def _finish(state: _State) -> None:
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
        state.error_px = max(tolerance, final) * (1.0 if last else 4.0)
        done = _adjust(state, local.poses, set(), budget, config.adjust.final_iterations, state.job.refine_focal)
        if done is not None:
            state.figures |= {"error_px": mean_error_px(done), "tracks": float(len(done.points))}
    table, points = local.structure(local.poses, _limits(state))
    local.remember(table, points, forget=True)
