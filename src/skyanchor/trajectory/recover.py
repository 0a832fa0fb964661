"""Stage 3: from anchor poses to a metric pose for every ground frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from skyanchor.events import TRAJECTORY, Listener, Note, Progress, silent
from skyanchor.geometry import cameras, rigid
from skyanchor.sfm.uncertainty import position_sigma_m, radius_95_m
from skyanchor.step_clock import StepClock
from skyanchor.trajectory.assembly import (
    KnownMap,
    Resected,
    adjust_all,
    assemble,
    hold_anchors,
    known_map,
    resect,
    trajectory_of,
)
from skyanchor.trajectory.closure import Closure
from skyanchor.trajectory.config import TrajectoryConfig
from skyanchor.trajectory.jobs import SubmapJob, SubmapResult
from skyanchor.trajectory.planning import RejectedGroup, accepted_anchors, plan_jobs, same_job, wrong_groups
from skyanchor.trajectory.registration import Located
from skyanchor.trajectory.source import FeatureSource, PhotoFeatures
from skyanchor.trajectory.submap import recover_submap
from skyanchor.types import (
    QUIET,
    AnchorPose,
    Anchors,
    Camera,
    PosedFrame,
    Reason,
    Refusal,
    Scaffold,
    Sequence,
    Support,
    Tracks,
    Trajectory,
)

ROUNDS = 4
"""Times that jobs are planned anew after a group was rejected, at most."""

Runner: TypeAlias = Callable[[tuple[SubmapJob, ...]], tuple[SubmapResult, ...]]
"""Runs independent jobs, in whatever process, and returns their results in order."""
Finder: TypeAlias = Callable[[KnownMap, tuple[int, ...]], tuple[Resected, ...]]
"""Finds the poses of frames between keyframes, in whatever process, and returns them in order."""


@dataclass(frozen=True)
class SubmapReport:
    """What one submap's recovery came to."""

    index: int
    first: int
    """First frame."""
    last: int
    """Last frame."""
    anchors: int
    """Frames held at their anchor pose."""
    keyframes: int
    registered: int
    """Keyframes with a pose."""
    figures: dict[str, float]
    seconds: dict[str, float]
    """Time per step."""
    phases: dict[str, float] = field(default_factory=dict, metadata=QUIET)
    """The same time by what the map was at, in the paper's words."""


@dataclass(frozen=True)
class TrajectoryReport:
    """Figures beside the trajectory."""

    submaps: tuple[SubmapReport, ...]
    closures: tuple[Closure, ...]
    rejected: tuple[RejectedGroup, ...]
    """Accepted anchor groups that were left out because the trajectory contradicts them."""
    warnings: tuple[str, ...]
    figures: dict[str, float]
    """Frames by support, points, focal length in pixels, height of the cameras, and how sure their positions are.

    The height is the median above the ground plane; sigma and radius are those of the whole walk.
    """
    seconds: dict[str, float]
    """Time per step, the submaps being one of them, and in all."""


def recover(
    scaffold: Scaffold,
    sequence: Sequence,
    anchors: Anchors,
    config: TrajectoryConfig,
    listen: Listener = silent,
    source: FeatureSource | None = None,
    run: Runner | None = None,
    find: Finder | None = None,
) -> tuple[Trajectory, TrajectoryReport]:
    """A pose or a reason for every frame, in the scaffold's frame.

    Anchors of consistent groups are constant until all submaps are joined; at the end they give way as far as their
    covariances say, or, without `hold`, stay to the bit.

    `source` gives keypoints (the sequence's photos by default), `run` runs the submaps' jobs and `find` those of the
    frames between keyframes (one after another here).
    """
    clock = StepClock()
    with clock.step("other"):
        trajectory, results, rejected = _recovered(sequence, anchors, config, listen, source, run, find, clock)
    report = _report(results, rejected, trajectory, clock, scaffold)
    for text in report.warnings:
        listen(Note(TRAJECTORY, text, warning=True))
    return trajectory, report


def _recovered(
    sequence: Sequence,
    anchors: Anchors,
    config: TrajectoryConfig,
    listen: Listener,
    source: FeatureSource | None,
    run: Runner | None,
    find: Finder | None,
    clock: StepClock,
) -> tuple[Trajectory, tuple[SubmapResult, ...], tuple[RejectedGroup, ...]]:
    """(the trajectory, what every submap gave, groups that were left out)."""
    source = source or PhotoFeatures(sequence, config.matcher, device=config.device)
    with clock.step("submaps"):
        results, rejected = _consistent(sequence, anchors, config, run or _serial(source, listen), listen)
    left_out = [r.group for r in rejected]
    held = accepted_anchors(anchors, left_out)
    if not any(r.poses for r in results):
        trajectory = nothing_posed(sequence, anchors.camera, results)
    else:
        whole = assemble(results, source, config, clock, sequence.stretch_of)
        if config.last_adjustment and config.ablation.anchored_adjustment:
            adjust_all(whole, sequence.camera_is_guess)
            if config.hold is not None:
                hold_anchors(whole, held, config.hold)
        others = tuple(f.index for f in sequence.frames if f.index not in whole.local.poses)
        with clock.step("resection"):
            between = (find or _here(sequence, source, config, clock))(known_map(whole), others)
        resected = {one.frame: one.found for one in between if isinstance(one.found, Located)}
        refused = {one.frame: one.found for one in between if isinstance(one.found, Refusal)}
        reasons = {r.frame: r.refusal for result in results for r in result.refusals} | refused
        used = {f: held[f] for f in held if f in whole.local.poses}
        trajectory = trajectory_of(whole, sequence, used, resected, reasons)
        _assert_anchored(trajectory, used, config)
    return trajectory, results, rejected


def _serial(source: FeatureSource, listen: Listener) -> Runner:
    def run(jobs: tuple[SubmapJob, ...]) -> tuple[SubmapResult, ...]:
        results = []
        for k, job in enumerate(jobs):
            listen(Progress(TRAJECTORY, "submaps", k, len(jobs)))
            results.append(recover_submap(job, source))
        listen(Progress(TRAJECTORY, "submaps", len(jobs), len(jobs)))
        return tuple(results)

    return run


def _here(sequence: Sequence, source: FeatureSource, config: TrajectoryConfig, clock: StepClock) -> Finder:
    def find(known: KnownMap, frames: tuple[int, ...]) -> tuple[Resected, ...]:
        return resect(known, source, frames, sequence.stretch_of, config.device, clock)

    return find


def _consistent(
    sequence: Sequence, anchors: Anchors, config: TrajectoryConfig, run: Runner, listen: Listener
) -> tuple[tuple[SubmapResult, ...], tuple[RejectedGroup, ...]]:
    """Results after groups that contradict the trajectory were left out, and those groups."""
    jobs: tuple[SubmapJob, ...] = ()
    results: tuple[SubmapResult, ...] = ()
    rejected: tuple[RejectedGroup, ...] = ()
    for _ in range(ROUNDS):
        held = accepted_anchors(anchors, [r.group for r in rejected])
        planned = plan_jobs(sequence, held, anchors, config)
        known = list(zip(jobs, results, strict=True))
        again = [next((r for job, r in known if same_job(job, new)), None) for new in planned]
        fresh = iter(run(tuple(new for new, old in zip(planned, again, strict=True) if old is None)))
        jobs, results = planned, tuple(old if old is not None else next(fresh) for old in again)
        wrong = wrong_groups([c for r in results for c in r.closures], anchors)
        if not wrong:
            break
        rejected += wrong
        for group in wrong:
            listen(Note(TRAJECTORY, group.refusal.detail, warning=True))
    return results, rejected


def nothing_posed(sequence: Sequence, camera: Camera, results: tuple[SubmapResult, ...]) -> Trajectory:
    """A trajectory in which every frame is missing, with its reason."""
    reasons = {r.frame: r.refusal for result in results for r in result.refusals}
    none = Refusal(Reason.NO_ANCHORS, "No anchor group was accepted, so nothing ties this frame to the scaffold.")
    frames = tuple(
        PosedFrame(f.index, Support.MISSING, None, 0, float("nan"), reasons.get(f.index, none)) for f in sequence.frames
    )
    empty = np.empty(0, dtype=np.int64)
    tracks = Tracks(empty, empty, np.empty((0, 2)))
    return Trajectory(frames, camera, np.empty((0, 3)), np.empty((0, 3), np.uint8), tracks)


def _assert_anchored(trajectory: Trajectory, used: Mapping[int, AnchorPose], config: TrajectoryConfig) -> None:
    """Anchored frames must stand exactly where stage 2 put them, if they are not held by their covariances."""
    if config.hold is not None or not config.ablation.fixed_anchors:
        return
    for frame in trajectory.frames:
        if frame.support is Support.ANCHORED and frame.cam_from_world is not None:
            given = used[frame.frame].cam_from_world
            same = np.array_equal(given.rotation, frame.cam_from_world.rotation)
            if not (same and np.array_equal(given.translation, frame.cam_from_world.translation)):
                raise AssertionError(f"the anchor of frame {frame.frame} moved")


def _report(
    results: tuple[SubmapResult, ...],
    rejected: tuple[RejectedGroup, ...],
    trajectory: Trajectory,
    clock: StepClock,
    scaffold: Scaffold,
) -> TrajectoryReport:
    submaps = tuple(
        SubmapReport(
            r.submap.index,
            r.submap.frames[0],
            r.submap.frames[-1],
            len(r.anchored),
            len(r.keyframes),
            len(r.poses),
            r.figures,
            r.seconds,
            r.phases,
        )
        for r in results
    )
    closures = tuple(c for r in results for c in r.closures)
    figures = trajectory_figures(trajectory, scaffold)
    warnings = tuple(g.refusal.detail for g in rejected) + tuple(_unresolved(c) for c in closures if c.contradiction)
    warnings += tuple(f"The anchor of frame {f} contradicts its own group; it was not used." for f in _dropped(results))
    return TrajectoryReport(submaps, closures, rejected, warnings, figures, clock.with_total)


def trajectory_figures(trajectory: Trajectory, scaffold: Scaffold) -> dict[str, float]:
    """Frames by support, points, focal length in pixels, height of the cameras, and how sure their positions are.

    The height is the median above the ground plane; sigma and radius are those of the whole walk. k1, and k2, are told
    of a lens that is described by them alone.
    """
    counts = {s.value: float(sum(f.support is s for f in trajectory.frames)) for s in Support}
    figures = {**counts, "frames": float(len(trajectory.frames)), "points": float(len(trajectory.points))}
    figures |= {"focal_px": cameras.focal_px(trajectory.camera), "height_m": _height_m(trajectory, scaffold)}
    if trajectory.camera.model in ("SIMPLE_RADIAL", "RADIAL"):
        figures |= dict(zip(("k1", "k2"), trajectory.camera.params[3:], strict=False))
    sigmas = [frame.sigma_m for frame in trajectory.frames if frame.cam_from_world is not None]
    sure = {"position_sigma_m": position_sigma_m(sigmas), "radius_95_m": radius_95_m(sigmas)} if sigmas else {}
    return figures | sure


def _dropped(results: tuple[SubmapResult, ...]) -> list[int]:
    return sorted(frame for result in results for frame in result.dropped)


def _height_m(trajectory: Trajectory, scaffold: Scaffold) -> float:
    """Median height of the posed cameras above the scaffold's ground plane, metres; nan when none is posed."""
    poses = [f.cam_from_world for f in trajectory.frames if f.cam_from_world is not None]
    heights = rigid.centres_in_world(poses) @ scaffold.ground.normal - scaffold.ground.offset
    return float(np.median(heights)) if len(heights) else float("nan")


def _unresolved(closure: Closure) -> str:
    return (
        f"Submap {closure.submap}: the map misses the anchors of frames {closure.frames[0]}-{closure.frames[-1]} by"
        f" {closure.gap_m:.2f} m and {closure.gap_deg:.1f} deg; they were not used there."
    )
