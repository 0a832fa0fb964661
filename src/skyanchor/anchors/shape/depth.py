"""The shape of a group that hardly moves, from depth maps of its photos: a network's opinion where parallax has none.

Each frame's depth has a scale of its own. Keypoints of one frame are lifted by its depth, the other frames are resected
against them, and an adjustment follows in which depth is believed to a tenth: what parallax there is still counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from skyanchor.anchors.shape.incremental import (
    LocalConfig,
    LocalGroup,
    PairMatcher,
    cleaned,
    contradiction,
    match_group,
    resect,
    too_few,
    tracked,
    unit_step,
    worst_frame,
)
from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import sampled
from skyanchor.matching import Features
from skyanchor.sequence.depth_files import find_depth, read_depth
from skyanchor.sfm import bundle as ba
from skyanchor.sfm.adjustment import adjust
from skyanchor.sfm.dense import Dense
from skyanchor.sfm.triangulation import ray_angles
from skyanchor.types import Camera, Floats, Floats32, Reason, Refusal, Sequence

DepthAt: TypeAlias = Callable[[int, Floats], Floats]
"""Depth of a frame of the group at pixels (N, 2), units of its own; nan where there is none."""

BELIEF = 0.1
"""Standard deviation of a depth, relative."""
LEAST_STEP = 0.002
"""Mean step between frames over the median depth, below which the group stands still."""
LEAST_SEEN = 12
"""Points that a frame must share with the others."""


def depth_of_frames(sequence: Sequence, indices: tuple[int, ...], config: LocalConfig) -> DepthAt | None:
    """Depth of the group's frames from the user's folder; None without the folder or a map of every frame."""
    if config.depth is None:
        return None
    paths = [find_depth(config.depth, i, sequence.frames[i].name) for i in indices]
    maps = tuple(read_depth(path)[0] for path in paths if path is not None)
    return depth_in(maps, sequence.camera) if len(maps) == len(indices) else None


def depth_in(maps: tuple[Floats32, ...], camera: Camera) -> DepthAt:
    """Depth from maps (h, w), 0 = none, of whole photos on disk, at pixels of the undistorted photos."""

    def depth_at(frame: int, xy: Floats) -> Floats:
        seen = cameras.project(camera, cameras.unproject(cameras.undistorted(camera), xy))
        return sampled(maps[frame], seen * np.array(maps[frame].shape[::-1]) / np.array([camera.width, camera.height]))

    return depth_at


def shape_from_depth(
    frames: tuple[int, ...],
    features: tuple[Features, ...],
    camera: Camera,
    matcher: PairMatcher,
    depth_at: DepthAt,
    config: LocalConfig,
) -> LocalGroup | Refusal:
    """The group's shape from ground-ground matches and depth, or why there is none; `camera` is PINHOLE."""
    pairs = match_group(features, camera, matcher, config)
    start = tracked(features, camera, pairs, tuple(rigid.identity() for _ in frames))
    depth = np.full(len(start.xy), np.nan)
    for k in range(len(frames)):
        depth[start.camera == k] = depth_at(k, start.xy[start.camera == k])
    placed = _place_all(start, depth, camera, features[0].sigma_px)
    shape = placed if isinstance(placed, Refusal) else _finished(frames, placed, config)
    if isinstance(shape, Refusal):
        return shape
    off = worst_frame(replace(start, cams_from_world=shape.cams_from_local))
    return contradiction(off, {"reprojection": shape.reprojection, "worst_frame": off}, config) or shape


def _place_all(bundle: ba.Bundle, depth: Floats, camera: Camera, sigma_px: float) -> ba.Bundle | Refusal:
    """Every camera in the frame of the one with most known depths, and every point lifted, with its depth as prior."""
    known = np.bincount(bundle.camera[np.isfinite(depth)], minlength=len(bundle.cams_from_world))
    first = int(np.argmax(known))
    fixed = np.arange(len(known)) == first
    empty = np.zeros((len(bundle.points), 3, 3))
    bundle = _lifted(replace(bundle, constant=fixed, prior_information=empty), first, depth, 1.0)
    missing = [c for c in range(len(known)) if c != first]
    while missing:
        tried = {c: resect(bundle, c, camera, sigma_px) for c in missing}
        best = max(tried, key=lambda c: tried[c][1])
        if tried[best][1] < LEAST_SEEN:
            count = len(known) - len(missing)
            return Refusal(Reason.GROUP_FALLS_APART, f"Depth holds only {count} of {len(known)} frames together.")
        poses = list(bundle.cams_from_world)
        poses[best] = tried[best][0]
        bundle = replace(bundle, cams_from_world=tuple(poses))
        bundle = _lifted(bundle, best, depth, _scale(bundle, best, depth))
        missing.remove(best)
    return replace(bundle, prior=np.nan_to_num(bundle.points))


def _scale(bundle: ba.Bundle, camera: int, depth: Floats) -> float:
    """Factor from a frame's own depth to the common one: the median over the points both know."""
    mine = (bundle.camera == camera) & np.isfinite(depth) & np.isfinite(bundle.points[bundle.point, 0])
    z = bundle.cams_from_world[camera](bundle.points[bundle.point[mine]])[:, 2]
    return float(np.median(z / depth[mine])) if mine.any() else 1.0


def _lifted(bundle: ba.Bundle, camera: int, depth: Floats, scale: float) -> ba.Bundle:
    """The bundle with the points that one frame sees and nobody lifted before; their depth is believed to BELIEF.

    Information of a point along its unit ray n at distance d: n nᵀ / (BELIEF d)².
    """
    assert bundle.prior_information is not None
    new = (bundle.camera == camera) & np.isfinite(depth) & ~np.isfinite(bundle.points[bundle.point, 0])
    rays = cameras.unproject(bundle.lenses[camera], bundle.xy[new]) * (scale * depth[new])[:, None]
    world_from_cam = bundle.cams_from_world[camera].inverse
    along = rays @ world_from_cam.rotation.T
    length = np.linalg.norm(along, axis=1)[:, None]
    points, information = bundle.points.copy(), bundle.prior_information.copy()
    points[bundle.point[new]] = world_from_cam(rays)
    unit = along / np.maximum(length, 1e-12)
    information[bundle.point[new]] = unit[:, :, None] * unit[:, None, :] / (BELIEF * length[:, :, None]) ** 2
    return replace(bundle, points=points, prior_information=information)


def _finished(frames: tuple[int, ...], placed: ba.Bundle, config: LocalConfig) -> LocalGroup | Refusal:
    """The adjusted group in units of its own step."""
    bundle, _ = ba.selected(placed, np.isfinite(placed.points[placed.point, 0]))
    for loss in (2.0, 1.0):
        bundle = cleaned(adjust(bundle, Dense(loss_scale=loss)).bundle, config)
        if len(bundle.points) < config.least_points:
            return too_few(len(bundle.points))
    error = float(np.median(ba.residual_lengths(bundle)))
    if error > config.most_reprojection:
        figures = {"reprojection": error, "points": float(len(bundle.points))}
        return Refusal(Reason.GROUND_REPROJECTION, f"Median reprojection of the group is {error:.1f} sigma.", figures)
    centres = rigid.centres_in_world(bundle.cams_from_world)
    step = float(np.linalg.norm(np.diff(centres, axis=0), axis=1).mean())
    reach = float(np.median(np.linalg.norm(bundle.points - centres.mean(axis=0), axis=1)))
    if step < LEAST_STEP * reach:
        return Refusal(Reason.STANDS_STILL, "The frames were taken from one place.", {"step": step / reach})
    angle = float(np.degrees(np.median(ray_angles(bundle))))
    free = replace(bundle, constant=np.zeros(len(frames), bool), prior=None, prior_information=None)
    unit = unit_step(free)
    return LocalGroup(frames, unit.cams_from_world, unit, error, angle)
