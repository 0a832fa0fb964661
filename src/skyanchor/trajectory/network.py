"""All walks of a flight adjusted as one network: frames of different walks tied by what both see, the flight constant.

What a walk knows of the flight is in its anchors. They may move here, held by their covariance; those of a walk are
off together, the more so the closer they are. Points of a walk that frames of another see join the walks. A tie that
contradicts the poses by more than they say of themselves is left out and counted, never averaged away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from skyanchor.bounds import Count, Degrees, Few, Positive
from skyanchor.geometry import cameras, rigid
from skyanchor.matching import Features, match_features
from skyanchor.matching.verify import undistorted_pixels
from skyanchor.sfm.adjustment import adjust
from skyanchor.sfm.bundle import Bundle, HeldPoses
from skyanchor.sfm.dense import Dense
from skyanchor.sfm.resection import Trials, resect
from skyanchor.sfm.uncertainty import centre_sigma_m
from skyanchor.trajectory.config import HoldConfig
from skyanchor.trajectory.holding import held_poses, with_found_sigma
from skyanchor.trajectory.source import FeatureSource
from skyanchor.types import (
    Bools,
    Camera,
    Floats,
    Ints,
    LocalisedGroup,
    Pose,
    PosedFrame,
    Support,
    Trajectory,
)

SAME_PX = 0.05
"""A keypoint this close to an observation of a track is that observation."""


@dataclass(frozen=True)
class NetworkConfig:
    """How walks are tied and adjusted."""

    reach_m: Positive = 4.0
    """Frames of two walks are matched that were taken this close to each other, metres ..."""
    turn_deg: Degrees = 35.0
    """... looking at most this much elsewhere, degrees."""
    partners: Few = 3
    """Frames of another walk that one is matched with, the nearest ones."""
    least_ties: Count = 20
    """Points of one walk that a frame of another must see."""
    most_px: Positive = 3.0
    """Reprojection error of such a point, pixels."""
    most_sigmas: Positive = 5.0
    """Distance between where a frame is said to be and where the other walk's points put it, beyond which they
    contradict each other, in stated sigmas of both."""
    hold: HoldConfig = field(default_factory=HoldConfig)
    """How anchors of one walk are off."""
    solver: Dense = field(default_factory=lambda: Dense(iterations=15))


@dataclass(frozen=True, eq=False)
class NetworkWalk:
    """A walk as the network takes it."""

    name: str
    trajectory: Trajectory
    groups: tuple[LocalisedGroup, ...]
    source: FeatureSource

    @property
    def held(self) -> tuple[PosedFrame, ...]:
        """The frames that its own adjustment rests on."""
        usable = (Support.ANCHORED, Support.KEYFRAME)
        return tuple(one for one in self.trajectory.frames if one.support in usable)


@dataclass(frozen=True, eq=False)
class Ties:
    """What frames of one walk see of another's points; flat arrays of one length."""

    walk: Ints
    """(K,), walk of the point."""
    point: Ints
    """(K,), of that walk."""
    other: Ints
    """(K,), walk of the frame."""
    frame: Ints
    """(K,), of that walk."""
    xy: Floats
    """(K, 2), pixels of its photo."""
    same: Ints
    """(K,), the frame's own point at that pixel; -1 where it has none."""


@dataclass(frozen=True)
class WalkFigures:
    """What the network did to a walk."""

    name: str
    ties: int
    """Observations between it and other walks."""
    contradictions: int
    """Pairs of frames that were left out."""
    moved_m: float
    """Median over its frames, metres."""
    sigma_before_m: float
    """Stated standard deviation along the worst axis, median over its frames, metres ..."""
    sigma_after_m: float
    """... and with what the others say."""


@dataclass(frozen=True, eq=False)
class Network:
    """The walks after the adjustment."""

    trajectories: tuple[Trajectory, ...]
    figures: tuple[WalkFigures, ...]


def adjust_network(walks: Sequence[NetworkWalk], config: NetworkConfig | None = None) -> Network:
    """All walks at once; walks that no tie reaches stay as they are, bit for bit."""
    config = config or NetworkConfig()
    ties, contradictions = tied(walks, config)
    count = np.bincount(np.concatenate([ties.walk, ties.other]), minlength=len(walks))
    bundle, label = network_bundle(walks, ties, held_walks(walks, config))
    settled = adjust(with_found_sigma(adjust(bundle, config.solver).bundle), config.solver)
    assert settled.covariances is not None
    trajectories, figures = [], []
    starts = np.cumsum([0, *(len(walk.held) for walk in walks)])
    for k, walk in enumerate(walks):
        rows = slice(starts[k], starts[k + 1])
        poses, spread = settled.bundle.cams_from_world[rows], settled.covariances[rows]
        sigmas = [centre_sigma_m(one) for one in spread]
        moved = walk.trajectory
        if count[k]:
            moved = _moved(walk, poses, sigmas, settled.bundle.points[label[k]])
        trajectories.append(moved)
        figures.append(_figures(walk, moved, int(count[k]), int(contradictions[k])))
    return Network(tuple(trajectories), tuple(figures))


# --- ties ---------------------------------------------------------------------------------------------------------


def tied(walks: Sequence[NetworkWalk], config: NetworkConfig) -> tuple[Ties, Ints]:
    """(ties of all pairs of walks, pairs of frames (W,) of each walk that contradict)."""
    parts, wrong = [_no_ties()], np.zeros(len(walks), np.int64)
    on_tracks = [_points_at_keypoints(walk) for walk in walks]
    for i, walk in enumerate(walks):
        for j, other in enumerate(walks):
            for a, b in [] if i == j else near_frames(walk, other, config):
                found = _ties_of_pair(walk, other, a, b, (on_tracks[i][a.frame], on_tracks[j][b.frame]), config)
                if found is None:
                    wrong[[i, j]] += 1
                elif len(found[0]):
                    point, xy, same = found
                    size = np.full(len(point), 1)
                    parts.append(Ties(i * size, point, j * size, b.frame * size, xy, same))
    names = ("walk", "point", "other", "frame", "xy", "same")
    return Ties(*(np.concatenate([getattr(part, name) for part in parts]) for name in names)), wrong


def _no_ties() -> Ties:
    none = np.empty(0, np.int64)
    return Ties(none, none, none, none, np.empty((0, 2)), none)


def near_frames(walk: NetworkWalk, other: NetworkWalk, config: NetworkConfig) -> list[tuple[PosedFrame, PosedFrame]]:
    """Frames (of the walk, of the other) that were taken close to each other, looking the same way."""
    mine, theirs = ([(one, _posed(one)) for one in each.held] for each in (walk, other))
    if not mine or not theirs:
        return []
    centres = rigid.centres_in_world([pose for _, pose in mine])
    forward = np.array([pose.rotation[2] for _, pose in mine])
    pairs = []
    for one, pose in theirs:
        apart = np.linalg.norm(centres - rigid.centre_in_world(pose), axis=1)
        alike = forward @ pose.rotation[2] >= np.cos(np.deg2rad(config.turn_deg))
        fits = np.flatnonzero(alike & (apart <= config.reach_m))
        nearest = fits[np.argsort(apart[fits], kind="stable")][: config.partners]
        pairs += [(mine[k][0], one) for k in nearest]
    return pairs


def _posed(frame: PosedFrame) -> Pose:
    assert frame.cam_from_world is not None
    return frame.cam_from_world


def _points_at_keypoints(walk: NetworkWalk) -> dict[int, tuple[Features, Ints]]:
    """By frame, its features and the point (N,) of each keypoint, -1 for none."""
    tracks, found = walk.trajectory.tracks, {}
    for one in walk.held:
        features, rows = walk.source.features(one.frame), np.flatnonzero(tracks.image == one.frame)
        point = np.full(len(features), -1, np.int64)
        if len(rows) and len(features):
            gap, nearest = cKDTree(features.xy).query(tracks.xy[rows], distance_upper_bound=SAME_PX)
            met = np.isfinite(gap)
            point[nearest[met]] = tracks.point[rows[met]]
        found[one.frame] = features, point
    return found


def _ties_of_pair(
    walk: NetworkWalk,
    other: NetworkWalk,
    a: PosedFrame,
    b: PosedFrame,
    held: tuple[tuple[Features, Ints], tuple[Features, Ints]],
    config: NetworkConfig,
) -> tuple[Ints, Floats, Ints] | None:
    """(points of the walk, pixels in frame b, b's own points there) that agree; None where they contradict b's pose."""
    (mine, my_points), (theirs, their_points) = held
    pairs = match_features(mine, theirs)
    pairs = pairs[my_points[pairs[:, 0]] >= 0]
    point, xy, same = my_points[pairs[:, 0]], theirs.xy[pairs[:, 1]], their_points[pairs[:, 1]]
    nothing = np.empty(0, np.int64), np.empty((0, 2)), np.empty(0, np.int64)
    if len(pairs) < config.least_ties:
        return nothing
    lens, pixels = cameras.undistorted(other.trajectory.camera), undistorted_pixels(other.trajectory.camera, xy)
    world = walk.trajectory.points[point]
    found = resect(pixels, world, lens, config.most_px, Trials(most=1000, least=100), 1.0)
    if int(found.inliers.sum()) < config.least_ties:
        return nothing
    gap = np.linalg.norm(rigid.centre_in_world(found.cam_from_world) - rigid.centre_in_world(_posed(b)))
    if gap > config.most_sigmas * np.hypot(a.sigma_m, b.sigma_m):
        return None
    return point[found.inliers], xy[found.inliers], same[found.inliers]


# --- the bundle ---------------------------------------------------------------------------------------------------


def network_bundle(walks: Sequence[NetworkWalk], ties: Ties, held: tuple[HeldPoses, ...]) -> tuple[Bundle, list[Ints]]:
    """(the bundle of all frames, in the order of the walks; per walk the row of each of its points in it)."""
    slot = [{one.frame: k for k, one in enumerate(walk.held)} for walk in walks]
    first = np.cumsum([0, *(len(walk.held) for walk in walks)])
    sizes = [len(walk.trajectory.points) for walk in walks]
    label = _joined_points(sizes, ties)
    points = _means(np.concatenate([walk.trajectory.points for walk in walks]), np.concatenate(label))
    camera, point, xy = [], [], []
    for k, walk in enumerate(walks):
        tracks, lens = walk.trajectory.tracks, walk.trajectory.camera
        own = np.isin(tracks.image, list(slot[k]))
        camera.append(first[k] + np.array([slot[k][f] for f in tracks.image[own].tolist()], np.int64))
        point.append(label[k][tracks.point[own]])
        xy.append(undistorted_pixels(lens, tracks.xy[own]))
        new = (ties.other == k) & (ties.same < 0)
        camera.append(first[k] + np.array([slot[k][f] for f in ties.frame[new].tolist()], np.int64))
        point.append(np.array([label[w][p] for w, p in zip(ties.walk[new], ties.point[new], strict=True)], np.int64))
        xy.append(undistorted_pixels(lens, ties.xy[new]))
    seen = _once(np.concatenate(camera), np.concatenate(point))
    poses = tuple(_posed(one) for walk in walks for one in walk.held)
    lenses: list[Camera] = []
    for walk in walks:
        lenses += [cameras.undistorted(walk.trajectory.camera)] * len(walk.held)
    bundle = Bundle(
        poses, tuple(lenses), np.zeros(len(poses), np.bool_), points, np.concatenate(camera)[seen],
        np.concatenate(point)[seen], np.concatenate(xy)[seen], np.ones(int(seen.sum())), held=held,
    )  # fmt: skip
    return bundle, label


def _joined_points(sizes: list[int], ties: Ties) -> list[Ints]:
    """Per walk the number of each of its points in the network: points that a tie calls the same have one."""
    starts = np.cumsum([0, *sizes])
    both = ties.same >= 0
    ends = starts[ties.walk[both]] + ties.point[both], starts[ties.other[both]] + ties.same[both]
    links = coo_matrix((np.ones(int(both.sum()), np.int8), ends), shape=(starts[-1], starts[-1]))
    label = connected_components(links, directed=False)[1].astype(np.int64)
    return [label[a:b] for a, b in pairwise(starts)]


def _means(points: Floats, label: Ints) -> Floats:
    """(P, 3), mean of the points of each label."""
    total = np.zeros((int(label.max()) + 1, 3))
    np.add.at(total, label, points)
    return total / np.bincount(label)[:, None]


def _once(camera: Ints, point: Ints) -> Bools:
    """(K,), observations of a point that its camera has at one place only."""
    _, row, count = np.unique(np.stack([camera, point]), axis=1, return_inverse=True, return_counts=True)
    return np.asarray(count[row.ravel()] == 1)


def held_walks(walks: Sequence[NetworkWalk], config: NetworkConfig) -> tuple[HeldPoses, ...]:
    """What the flight says of the anchors, walk by walk; cameras are numbered through all walks."""
    found, first = [], 0
    for walk in walks:
        slot = {one.frame: first + k for k, one in enumerate(walk.held) if one.support is Support.ANCHORED}
        kept = [pose for group in walk.groups for pose in group.poses if pose.frame in slot]
        if kept:
            cameras_of = np.array([slot[pose.frame] for pose in kept], np.int64)
            found.append(held_poses(cameras_of, kept, config.hold))
        first += len(walk.held)
    return tuple(found)


# --- results ------------------------------------------------------------------------------------------------------


def _moved(walk: NetworkWalk, poses: tuple[Pose, ...], sigmas: list[float], points: Floats) -> Trajectory:
    """The trajectory with new poses of its held frames; the others keep their place beside the nearest of those."""
    held = {one.frame: k for k, one in enumerate(walk.held)}
    order, frames = np.array(sorted(held)), []
    for one in walk.trajectory.frames:
        if one.cam_from_world is not None:
            near = int(order[np.argmin(np.abs(order - one.frame))])
            k = held[near]
            pose = poses[k]
            if near != one.frame:
                pose = one.cam_from_world @ _posed(walk.held[k]).inverse @ pose
            grown = max(one.sigma_m**2 - walk.held[k].sigma_m ** 2, 0.0)
            one = replace(one, cam_from_world=pose, sigma_m=float(np.hypot(sigmas[k], np.sqrt(grown))))
        frames.append(one)
    return replace(walk.trajectory, frames=tuple(frames), points=points)


def _figures(walk: NetworkWalk, after: Trajectory, ties: int, contradictions: int) -> WalkFigures:
    pairs = [
        (before, now)
        for before, now in zip(walk.trajectory.frames, after.frames, strict=True)
        if before.cam_from_world is not None
    ]
    moved = [
        float(np.linalg.norm(rigid.centre_in_world(_posed(now)) - rigid.centre_in_world(_posed(before))))
        for before, now in pairs
    ]
    sigmas = [float(np.median([one.sigma_m for one in each])) for each in zip(*pairs, strict=True)]
    return WalkFigures(walk.name, ties, contradictions, float(np.median(moved)), *sigmas)
