"""Stage 3 from a feed-forward reconstruction: Sim(3) to the anchors, pseudo-correspondences, the same adjustment.

Poses and depth come in a frame and scale of their own. Each submap is laid on its anchors, the gap that drift leaves is
spread over the free poses, and the anchored adjustment does the rest; anchors stay to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from skyanchor.feedforward.free_frames import FreeFrames
from skyanchor.geometry import rigid, similarity
from skyanchor.matching import Sift
from skyanchor.photos import read_pixels
from skyanchor.sfm.relaxation import Edge, EdgeSigmas, relax
from skyanchor.sfm.triangulation import TrackFilter
from skyanchor.step_clock import StepClock
from skyanchor.trajectory.assembly import WholeMap, adjust_all, trajectory_of
from skyanchor.trajectory.config import TrajectoryConfig
from skyanchor.trajectory.localmap import LocalMap, PairFinder
from skyanchor.trajectory.planning import accepted_anchors, joined_submaps, submap_anchors
from skyanchor.trajectory.pseudo import PseudoConfig, PseudoMatches, PseudoSource, pseudo_matches
from skyanchor.trajectory.recover import nothing_posed
from skyanchor.types import AnchorPose, Anchors, Bytes, Pose, Reason, Refusal, Sequence, Similarity, Submap, Trajectory

WIDENINGS = (4.0, 1.0)
"""Tolerances of the tracks in successive adjustments, over the final one: drift first, then noise."""


LEAST_EXTENT = 1e-6
"""Extent of the anchors over their distance from the origin, at least."""


@dataclass(frozen=True)
class FeedForwardConfig:
    """From free poses and depth to the scaffold's frame."""

    pseudo: PseudoConfig = field(default_factory=PseudoConfig)
    trajectory: TrajectoryConfig = field(default_factory=TrajectoryConfig)
    """Tracks and adjustment, as for matched frames."""
    least_anchors: int = 3
    """Anchors that a submap needs."""
    most_residual: float = 0.1
    """RMS distance of the anchors after alignment, over the length of the submap's path, at most."""
    sigmas: EdgeSigmas = field(default_factory=lambda: EdgeSigmas(0.005, 0.02, 0.01, 0.01))
    """How far the system's relative poses are believed while the gap is spread."""


@dataclass(frozen=True, eq=False)
class Laid:
    """A submap laid on its anchors."""

    submap: Submap
    world_from_free: Similarity
    poses: Mapping[int, Pose]
    """cam_from_world, anchors exactly where they are."""
    anchored: frozenset[int]
    """Frames held at their anchor pose."""
    residual_m: float
    """RMS distance of the anchors after alignment, before they were put in place."""


def recover_feedforward(
    sequence: Sequence,
    anchors: Anchors,
    submaps: tuple[FreeFrames, ...],
    config: FeedForwardConfig,
    photos: Mapping[int, Bytes] | None = None,
) -> tuple[Trajectory, tuple[Laid, ...]]:
    """A pose or a reason for every frame, in the scaffold's frame, and how each submap was laid.

    `submaps` may be one for the whole sequence; it is cut where the anchors are, and where the walk is. With `photos`
    (H, W, 3) by frame the carried pixels are followed in them, so that they are measurements, and the points have
    colours.
    """
    held = accepted_anchors(anchors)
    submaps = apart_at_cuts(submaps, sequence)
    laid, refused = lay_all(sequence, held, submaps, config)
    if not laid:
        nothing = nothing_posed(sequence, anchors.camera, ())
        frames = tuple(replace(f, refusal=refused.get(f.frame, f.refusal)) for f in nothing.frames)
        return replace(nothing, frames=frames), ()
    matches = pseudo_matches(submaps, anchors.camera, config.pseudo, photos)
    source = PseudoSource(matches, anchors.camera, photos or {})
    whole = _whole_map(laid, source, matches, config)
    final = whole.limits
    for widening in WIDENINGS:
        whole.limits = replace(final, error_px=widening * final.error_px)
        adjust_all(whole, sequence.camera_is_guess)
    used = {frame: anchor for frame, anchor in held.items() if frame in whole.constant}
    return trajectory_of(whole, sequence, used, {}, refused), laid


def apart_at_cuts(submaps: tuple[FreeFrames, ...], sequence: Sequence) -> tuple[FreeFrames, ...]:
    """The free frames of each stretch of the walk by themselves: what was put together across a cut is not believed."""
    parts: list[FreeFrames] = []
    for free in submaps:
        stretches = sorted({sequence.stretch_of(one.frame) for one in free.frames})
        inside = [tuple(one for one in free.frames if sequence.stretch_of(one.frame) == k) for k in stretches]
        parts += [replace(free, frames=frames) for frames in inside]
    return tuple(parts)


class SequencePhotos(Mapping[int, Bytes]):
    """Pixels of the sequence's photos by frame, read when they are asked for; the latest stay in memory."""

    def __init__(self, sequence: Sequence, limit: int = 48) -> None:
        self.sequence = sequence
        self._read = lru_cache(maxsize=limit)(lambda frame: read_pixels(sequence.frames[frame].path))

    def __getitem__(self, frame: int) -> Bytes:
        """(H, W, 3), RGB."""
        return self._read(frame)

    def __iter__(self) -> Iterator[int]:
        """Frames in order."""
        return iter(range(len(self.sequence.frames)))

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.sequence.frames)


def _whole_map(
    laid: tuple[Laid, ...], source: PseudoSource, matches: PseudoMatches, config: FeedForwardConfig
) -> WholeMap:
    """The laid submaps as one map whose pairs are the pseudo-correspondences; nothing is matched any more."""
    settings = replace(config.trajectory, loop_pairs=0)
    camera = source.camera
    finder = PairFinder(source, Sift().load(), camera, settings.verify, StepClock())
    finder.found = dict(matches.pairs)
    local = LocalMap(camera, finder)
    for one in laid:
        for frame, pose in one.poses.items():
            if frame not in local.poses:
                local.insert(frame, pose)
    constant = frozenset(frame for one in laid for frame in one.anchored) if settings.ablation.fixed_anchors else None
    error = settings.tracks.final_error * matches.sigma_px
    angle = float(np.radians(settings.tracks.least_angle_deg))
    limits = TrackFilter(error, angle, settings.tracks.most_depth_m)
    return WholeMap(local, constant or frozenset(), limits, settings)


# --- alignment ----------------------------------------------------------------------------------------------------


def lay_all(
    sequence: Sequence, held: Mapping[int, AnchorPose], submaps: tuple[FreeFrames, ...], config: FeedForwardConfig
) -> tuple[tuple[Laid, ...], dict[int, Refusal]]:
    """(submaps laid on their anchors, why frames of the others have no pose)."""
    laid: list[Laid] = []
    refused: dict[int, Refusal] = {}
    for free in submaps:
        poses = {one.frame: one.cam_from_free for one in free.frames}
        for submap in joined_submaps(sequence, held, config.trajectory.merge_refused):
            inside = {frame: poses[frame] for frame in submap.frames if frame in poses}
            if inside:
                chosen = {a.frame: a.cam_from_world for a in submap_anchors(submap, held, config.trajectory)}
                found = lay(submap, inside, {f: p for f, p in chosen.items() if f in inside}, config)
                if isinstance(found, Laid):
                    laid.append(found)
                else:
                    refused |= dict.fromkeys(inside, found)
    posed = {frame for one in laid for frame in one.poses}
    absent = Refusal(Reason.NOT_RECONSTRUCTED, "The feed-forward reconstruction has no pose or depth for this frame.")
    missing = {f.index: refused.get(f.index, absent) for f in sequence.frames if f.index not in posed}
    return tuple(laid), missing


def lay(
    submap: Submap, free: Mapping[int, Pose], anchors: Mapping[int, Pose], config: FeedForwardConfig
) -> Laid | Refusal:
    """Free poses in the world by the similarity of the anchors, the gap spread; or why there is no such similarity."""
    common = sorted(anchors)
    if len(common) < config.least_anchors:
        return Refusal(Reason.TOO_FEW_ANCHORS, f"{len(common)} anchors, {config.least_anchors} are needed.")
    in_free, in_world = [free[f] for f in common], [anchors[f] for f in common]
    if min(_extent(in_free), _extent(in_world)) < LEAST_EXTENT:
        return Refusal(Reason.DEGENERATE_ANCHORS, "All anchors are in one place, which determines no scale.")
    world_from_free = similarity.align_cameras(in_free, in_world)
    poses = {f: similarity.transform_camera(world_from_free, pose) for f, pose in free.items()}
    gap = rigid.centres_in_world([poses[f] for f in common]) - rigid.centres_in_world(in_world)
    residual = float(np.sqrt((gap**2).sum(axis=1).mean()))
    ordered = sorted(poses)
    path = np.linalg.norm(np.diff(rigid.centres_in_world([poses[f] for f in ordered]), axis=0), axis=1).sum()
    if residual > config.most_residual * max(float(path), 1e-9):
        figures = {"residual_m": residual, "path_m": float(path)}
        detail = f"After alignment the anchors are {residual:.2f} m off over a path of {path:.0f} m."
        return Refusal(Reason.CONTRADICTS_ANCHORS, detail, figures)
    edges = [
        Edge(i, j, poses[i] @ poses[j].inverse)
        for step in (1, 2)
        for i, j in zip(ordered, ordered[step:], strict=False)
    ]
    relaxed = relax({**poses, **anchors}, frozenset(anchors), edges, config.sigmas)
    return Laid(submap, world_from_free, relaxed, frozenset(anchors), residual)


def _extent(poses: list[Pose]) -> float:
    """Largest side of the box around camera centres, over their largest coordinate."""
    centres = rigid.centres_in_world(poses)
    return float(np.ptp(centres, axis=0).max() / (1.0 + np.abs(centres).max()))
