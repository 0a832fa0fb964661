"""Submaps put together: one map, tracks across boundaries, a last anchored adjustment, and a pose for every frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from skyanchor.sfm import tracks as tr
from skyanchor.sfm.adjustment import adjust
from skyanchor.sfm.bundle import mean_error_px
from skyanchor.sfm.ceres import Ceres
from skyanchor.sfm.covisibility import loop_pairs
from skyanchor.sfm.sparse import Sparse
from skyanchor.sfm.triangulation import TrackFilter
from skyanchor.sfm.uncertainty import anchor_sigmas, centre_sigma_m, pose_covariances
from skyanchor.step_clock import StepClock
from skyanchor.trajectory.config import HoldConfig, RegisterConfig, TrajectoryConfig
from skyanchor.trajectory.holding import held_poses, undistorted, with_found_sigma
from skyanchor.trajectory.jobs import FramePose, SubmapResult
from skyanchor.trajectory.localmap import LocalMap, PairFinder, choose_tracks
from skyanchor.trajectory.registration import Located, choose_references, register
from skyanchor.trajectory.source import FeatureSource
from skyanchor.types import (
    AnchorPose,
    Bytes,
    Camera,
    Floats,
    Pose,
    PosedFrame,
    Reason,
    Refusal,
    Sequence,
    Support,
    Tracks,
    Trajectory,
)

BOUNDARY = 6
"""Keyframes on each side of a boundary that are matched across it."""
HOLD_ITERATIONS = 15
"""Most steps of the adjustment that holds anchors by their covariances."""
WORST_SIGMA_M = 1e3
"""Standard deviation stated where the marginal is singular, metres."""


@dataclass
class WholeMap:
    """All submaps in one map."""

    local: LocalMap
    constant: frozenset[int]
    limits: TrackFilter
    config: TrajectoryConfig
    error_px: float = 0.0
    """Mean reprojection error of the last adjustment, pixels."""


def assemble(
    results: tuple[SubmapResult, ...],
    source: FeatureSource,
    config: TrajectoryConfig,
    clock: StepClock,
    stretch_of: Callable[[int], int],
) -> WholeMap:
    """The submaps' keyframes in one map, with pairs across their boundaries where these are no cuts."""
    camera = common_camera([r.camera for r in results])
    finder = PairFinder(source, config.matcher.load(config.device), camera, config.verify, clock)
    finder.found = {(p.i, p.j): p.keypoints for r in results for p in r.pairs}
    local = LocalMap(camera, finder)
    for result in results:
        for held in result.poses:
            local.insert(held.frame, held.cam_from_world)
    constant = frozenset(f for r in results for f in r.anchored) if config.ablation.fixed_anchors else frozenset()
    sigma = finder.features(min(local.poses)).sigma_px if local.poses else 1.0
    error = max(config.tracks.final_error * sigma, *(3.0 * r.figures.get("anchor_error_px", 0.0) for r in results))
    limits = TrackFilter(error, float(np.radians(config.tracks.least_angle_deg)), config.tracks.most_depth_m)
    whole = WholeMap(local, constant, limits, config)
    if config.last_adjustment:
        match_boundaries(whole, results, stretch_of)
    triangulate_all(whole)
    return whole


def common_camera(cameras: list[Camera]) -> Camera:
    """The camera with the median focal length of the submaps' cameras."""
    return sorted(cameras, key=lambda c: c.params[0])[len(cameras) // 2]


def match_boundaries(whole: WholeMap, results: tuple[SubmapResult, ...], stretch_of: Callable[[int], int]) -> None:
    """Pairs between the last keyframes of a submap and the first of the next.

    Not across a cut: nothing says that those after it see the same place, and floors of a car park look alike.
    """
    for before, after in pairwise(results):
        if stretch_of(before.submap.frames[-1]) != stretch_of(after.submap.frames[0]):
            continue
        left = [p.frame for p in before.poses][-BOUNDARY:]
        right = [p.frame for p in after.poses][:BOUNDARY]
        for i in left:
            for j in right:
                whole.local.finder.pairs(i, j)


def triangulate_all(whole: WholeMap) -> tuple[tr.TrackTable, Floats]:
    """Every track of the map at the current poses, remembered behind its keypoints."""
    table, points = whole.local.structure(whole.local.poses, whole.limits)
    whole.local.remember(table, points, forget=True)
    return table, points


def adjust_all(whole: WholeMap, refine_focal: bool) -> None:
    """The last adjustment: all movable frames at once, all anchors constant; wide tracks first, then tight ones."""
    config, local = whole.config, whole.local
    for i, j in loop_pairs(local.poses, local.xyz, local.camera, local.finder.found, config.loop_pairs):
        local.finder.pairs(i, j)
    for factor in (2.0, 1.0):
        limits = replace(whole.limits, error_px=factor * whole.limits.error_px)
        table, points = local.structure(local.poses, limits)
        if not set(table.frame.tolist()) - whole.constant:
            return
        solver = Ceres(config.adjust.final_iterations, config.adjust.loss_px, refine_focal, config.adjust.threads)
        table, points = chosen_tracks(whole, table, points)
        done = adjust(local.bundle(table, points, whole.constant), solver, local.finder.clock).bundle
        local.take_over(table, done)
        whole.error_px = mean_error_px(done)
    triangulate_all(whole)


def hold_anchors(whole: WholeMap, anchors: Mapping[int, AnchorPose], hold: HoldConfig) -> None:
    """Adjust all frames once more with anchors that give way as far as their covariances say."""
    local, solver = whole.local, Sparse(iterations=HOLD_ITERATIONS)
    table, points = chosen_tracks(whole, *local.structure(local.poses, whole.limits))
    frames = table.frames.tolist()
    slots = [k for k, frame in enumerate(frames) if frame in whole.constant]
    if not slots or len(slots) == len(frames):
        return
    held = held_poses(np.array(slots, np.int64), [anchors[frames[k]] for k in slots], hold)
    bundle = replace(undistorted(local.bundle(table, points, frozenset())), held=(held,))
    with local.finder.clock.step("anchors held"):
        found = adjust(with_found_sigma(adjust(bundle, solver).bundle), solver).bundle
    local.poses.update(zip(frames, found.cams_from_world, strict=True))
    triangulate_all(whole)


def chosen_tracks(whole: WholeMap, table: tr.TrackTable, points: Floats) -> tuple[tr.TrackTable, Floats]:
    """The tracks of the final budget."""
    movable = len(set(table.frame.tolist()) - whole.constant)
    budget = round(whole.config.tracks.final_tracks * max(1.0, movable / 100.0))
    quota = whole.config.tracks.anchor_quota
    return choose_tracks(whole.local, table, points, whole.constant, budget, quota)


@dataclass(frozen=True, eq=False)
class KnownMap:
    """What frames between keyframes are laid on; each finds its pose by itself, in whatever process."""

    camera: Camera
    poses: tuple[FramePose, ...]
    """Of the keyframes."""
    xyz: tuple[Floats, ...]
    """Per keyframe (N, 3), points behind its keypoints, metres; nan where there is none."""
    config: TrajectoryConfig


@dataclass(frozen=True, eq=False)
class Resected:
    """A frame that is no keyframe, and its pose in the map or why there is none."""

    frame: int
    found: Located | Refusal


def known_map(whole: WholeMap) -> KnownMap:
    """The map as it is."""
    local = whole.local
    poses = tuple(FramePose(frame, pose) for frame, pose in local.poses.items())
    return KnownMap(local.camera, poses, tuple(local.xyz[held.frame] for held in poses), whole.config)


def resect(
    known: KnownMap,
    source: FeatureSource,
    frames: Iterable[int],
    stretch_of: Callable[[int], int] = lambda _: 0,
    device: str = "cpu",
    clock: StepClock | None = None,
) -> tuple[Resected, ...]:
    """Poses of frames that are no keyframes of the map, each by itself, or why there is none.

    A frame is looked for in its own stretch of the walk alone: beyond a cut a look-alike would do as well.
    """
    config = known.config
    finder = PairFinder(source, config.matcher.load(device), known.camera, config.verify, clock or StepClock())
    local = LocalMap(known.camera, finder)
    for held, xyz in zip(known.poses, known.xyz, strict=True):
        local.poses[held.frame], local.xyz[held.frame] = held.cam_from_world, xyz
    return tuple(Resected(frame, _resect_one(local, frame, stretch_of, config.register)) for frame in frames)


def _resect_one(
    local: LocalMap, frame: int, stretch_of: Callable[[int], int], config: RegisterConfig
) -> Located | Refusal:
    """The frame's pose from the keyframes next to it, or from the best of a wider window when they do not do."""
    near = [f for f in local.nearest(frame, len(local.poses)) if stretch_of(f) == stretch_of(frame)]
    if not near:
        detail = "No anchor group of its stretch of the walk was accepted, so nothing ties this frame to the scaffold."
        return Refusal(Reason.NO_ANCHORS, detail)
    located = register(local, frame, near[: config.resect_references], config)
    if isinstance(located, Located):
        return located
    references = choose_references(local, frame, near[: 2 * config.window], config.retry_references, config)
    return register(local, frame, references, config)


# --- output -----------------------------------------------------------------------------------------------------


def trajectory_of(
    whole: WholeMap,
    sequence: Sequence,
    anchors: Mapping[int, AnchorPose],
    resected: Mapping[int, Located],
    refused: Mapping[int, Refusal],
) -> Trajectory:
    """The stage's result: a pose or a reason for each frame, and all tracks."""
    table, points = triangulate_all(whole)
    seen = np.bincount(table.frame, minlength=len(sequence.frames))
    sigma = _sigmas(whole, table, points, anchors, sequence.stretch_of)
    frames = []
    for frame in range(len(sequence.frames)):
        if frame in whole.local.poses:
            support = Support.ANCHORED if frame in whole.constant else Support.KEYFRAME
            pose = whole.local.poses[frame]
            frames.append(PosedFrame(frame, support, pose, int(seen[frame]), sigma.get(frame, WORST_SIGMA_M)))
        elif frame in resected:
            frames.append(_resected(frame, resected[frame], sigma))
        else:
            why = refused.get(frame) or Refusal(Reason.NOT_REACHED, "The map did not reach this frame.")
            frames.append(PosedFrame(frame, Support.MISSING, None, 0, float("nan"), why))
    xy = tr.pixels_of(table, whole.local.xy)
    colors = _colors(whole, table, xy)
    return Trajectory(tuple(frames), whole.local.camera, points, colors, Tracks(table.point, table.frame, xy))


def _resected(frame: int, located: Located, sigma: Mapping[int, float]) -> PosedFrame:
    own = centre_sigma_m(located.covariance)
    around = max((sigma.get(f, 0.0) for f in located.references), default=0.0)
    pose: Pose = located.cam_from_world
    return PosedFrame(frame, Support.RESECTED, pose, located.inliers, float(np.hypot(own, around)))


def _sigmas(
    whole: WholeMap,
    table: tr.TrackTable,
    points: Floats,
    anchors: Mapping[int, AnchorPose],
    stretch_of: Callable[[int], int],
) -> dict[int, float]:
    """Standard deviation of every keyframe's centre, metres: of the adjustment and of the anchors together."""
    frames = sorted(whole.local.poses)
    if not len(points) or not anchors:
        return dict.fromkeys(frames, WORST_SIGMA_M)
    table, points = chosen_tracks(whole, table, points)
    found = pose_covariances(whole.local.bundle(table, points, whole.constant))
    covariance = dict(zip(table.frames.tolist(), found, strict=True))
    brought = sigmas_brought(anchors, frames, stretch_of)
    own = {f: centre_sigma_m(covariance[f]) if f in covariance else 0.0 for f in frames}
    lost = {f for f in frames if f not in covariance and f not in whole.constant}
    return {f: WORST_SIGMA_M if f in lost else float(np.hypot(own[f], brought[f])) for f in frames}


def sigmas_brought(
    anchors: Mapping[int, AnchorPose], frames: list[int], stretch_of: Callable[[int], int]
) -> dict[int, float]:
    """By frame, the standard deviation that the anchors of its own stretch of the walk bring to it, metres."""
    brought: dict[int, float] = {}
    for stretch in {stretch_of(frame) for frame in frames}:
        mine = [frame for frame in frames if stretch_of(frame) == stretch]
        near = {frame: anchor for frame, anchor in anchors.items() if stretch_of(frame) == stretch}
        brought.update(zip(mine, anchor_sigmas(near or anchors, mine).tolist(), strict=True))
    return brought


def _colors(whole: WholeMap, table: tr.TrackTable, xy: Floats) -> Bytes:
    """(P, 3), RGB of each point where its middle observation sees it."""
    colors = np.zeros((table.points, 3), dtype=np.uint8)
    if not table.points:
        return colors
    starts = np.flatnonzero(np.diff(table.point, prepend=-1))
    ends = np.append(starts[1:], len(table.point))
    middle = (starts + ends - 1) // 2
    for frame in np.unique(table.frame[middle]).tolist():
        rows = middle[table.frame[middle] == frame]
        colors[table.point[rows]] = whole.local.finder.source.colors(frame, xy[rows])
    return colors
