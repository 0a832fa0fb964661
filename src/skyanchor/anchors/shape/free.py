"""The shape of a group from a feed-forward reconstruction: its poses start an adjustment, matches have the last word.

Poses come in a frame and scale of their own, made with intrinsics that the system saw in the photos. They are put into
terms of the true intrinsics, tracks are triangulated with them and adjusted from coarse to fine. A frame whose matches
do not fit in the end refuses the whole.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skyanchor.anchors.shape.depth import LEAST_SEEN, DepthAt, depth_in
from skyanchor.anchors.shape.incremental import (
    LocalConfig,
    LocalGroup,
    PairMatcher,
    adjust_registered,
    contradiction,
    finished,
    match_group,
    too_few,
    tracked,
    unit_step,
    with_points,
    worst_frame,
)
from skyanchor.feedforward import FreeFrame, FreeFrames
from skyanchor.geometry import cameras, rigid
from skyanchor.matching import Features
from skyanchor.sfm import bundle as ba
from skyanchor.sfm.dense import Dense
from skyanchor.types import Camera, Floats32, Pose, Reason, Refusal

WIDENINGS = (8.0, 3.0)
"""Tolerances of the first adjustments over the final one: a network's poses are degrees off."""
LEAST_CONFIDENCE = 0.3
"""Part of a depth map, the least confident, that is not used, 0..1."""


def shape_from_free(
    frames: tuple[int, ...],
    features: tuple[Features, ...],
    camera: Camera,
    matcher: PairMatcher,
    free: FreeFrames,
    config: LocalConfig,
) -> LocalGroup | Refusal:
    """The group's shape from free poses and ground-ground matches, or why there is none; `camera` is PINHOLE."""
    given = {frame.frame: frame.cam_from_free for frame in free.frames}
    if not set(frames) <= set(given):
        return not_reconstructed(frames, free)
    poses = with_intrinsics(tuple(given[frame] for frame in frames), free.camera, camera)
    if not all(np.isfinite(pose.rotation).all() and np.isfinite(pose.translation).all() for pose in poses):
        return Refusal(Reason.NOT_RECONSTRUCTED, "The feed-forward reconstruction has poses that are no numbers.")
    pairs = match_group(features, camera, matcher, config)
    if not pairs:
        return Refusal(Reason.NO_GROUND_MATCHES, "No two frames of the group could be matched with each other.")
    start = unit_step(tracked(features, camera, pairs, poses))
    drawn = _drawn_in(start, config)
    shape = finished(frames, drawn, config) if isinstance(drawn, ba.Bundle) else drawn
    return shape if isinstance(shape, Refusal) else _confirmed(shape, start, config)


def refocused(shape: LocalGroup, camera: Camera, config: LocalConfig) -> LocalGroup | Refusal:
    """The shape of a group through another focal length, from the tracks that held it together through the one before.

    Quicker than a reconstruction: neither is anything matched anew nor is the group grown frame by frame.
    """
    poses = with_intrinsics(shape.cams_from_local, shape.bundle.lenses[0], camera)
    lenses = (cameras.undistorted(camera),) * len(poses)
    return finished(shape.frames, replace(shape.bundle, cams_from_world=poses, lenses=lenses), config)


def not_reconstructed(frames: tuple[int, ...], free: FreeFrames) -> Refusal:
    """The refusal of a group that the feed-forward reconstruction does not hold as a whole."""
    count = len({frame.frame for frame in free.frames} & set(frames))
    text = f"The feed-forward reconstruction has {count} of {len(frames)} frames."
    return Refusal(Reason.NOT_RECONSTRUCTED, text, {"reconstructed": float(count), "frames": float(len(frames))})


def with_intrinsics(poses: tuple[Pose, ...], made_with: Camera | None, camera: Camera) -> tuple[Pose, ...]:
    """Poses that move pixels with focal length f' = `camera` as the given ones do with f = `made_with`, nearly.

    Seen from the middle frame: a turn by w about the image axes moves pixels by f w, so w' = w f / f'; a step along the
    axis changes them by f x / z, so z' = z f' / f. Turns about the axis and steps across it stay.
    """
    if made_with is None:
        return poses
    ratio = cameras.focal_px(camera) / cameras.focal_px(made_with)
    middle = poses[len(poses) // 2].inverse
    seen = []
    for pose in poses:
        from_middle = pose @ middle
        turn = rigid.rotation_log(from_middle.rotation) / np.array([ratio, ratio, 1.0])
        eye = rigid.centre_in_world(from_middle) * np.array([1.0, 1.0, ratio])
        seen.append(rigid.from_centre(rigid.rotation_exp(turn), eye))
    return tuple(seen)


def _drawn_in(start: ba.Bundle, config: LocalConfig) -> ba.Bundle | Refusal:
    """The cameras where most of the tracks want them, within wide tolerances that are drawn in."""
    everyone = set(range(len(start.cams_from_world)))
    bundle = start
    for wide in WIDENINGS:
        bundle = with_points(bundle, everyone, config.least_angle_deg, 8.0 * wide)
        count = int(np.isfinite(bundle.points[:, 0]).sum())
        if count < config.least_points:
            return too_few(count)
        settings = Dense(iterations=12, loss_scale=2.0 * wide)
        bundle = replace(start, cams_from_world=adjust_registered(bundle, everyone, settings).bundle.cams_from_world)
    return bundle


def _confirmed(shape: LocalGroup, start: ba.Bundle, config: LocalConfig) -> LocalGroup | Refusal:
    """The group, or the refusal of one whose points leave a frame loose or whose poses contradict a frame's matches."""
    seen = np.bincount(shape.bundle.camera, minlength=len(shape.frames))
    off = worst_frame(replace(start, cams_from_world=shape.cams_from_local))
    figures = {"reprojection": shape.reprojection, "worst_frame": off, "least_seen": float(seen.min())}
    if seen.min() < LEAST_SEEN:
        text = f"Frame {shape.frames[int(seen.argmin())]} sees only {seen.min()} points of the others."
        return Refusal(Reason.GROUP_FALLS_APART, text, figures)
    return contradiction(off, figures, config) or shape


# --- depth --------------------------------------------------------------------------------------------------------


def depth_of_free(frames: tuple[int, ...], free: FreeFrames, camera: Camera) -> DepthAt | None:
    """Depth of the group's frames where it is confident; None unless all have some. `camera` is the sequence's."""
    depths = {frame.frame: confident(frame) for frame in free.frames}
    if not all(frame in depths and depths[frame].any() for frame in frames):
        return None
    return depth_in(tuple(depths[frame] for frame in frames), camera)


def confident(frame: FreeFrame) -> Floats32:
    """(h, w), the depth without its least confident part; 0 = none."""
    depth = np.where(np.isfinite(frame.depth) & (frame.depth > 0), frame.depth, np.float32(0.0))
    known = frame.confidence[depth > 0]
    if not len(known) or known.min() == known.max():
        return depth
    return np.where(frame.confidence >= np.quantile(known, LEAST_CONFIDENCE), depth, np.float32(0.0))
