"""The shape of a group by whichever way gives one: incremental, feed-forward, depth maps, a wider stretch of frames."""

from __future__ import annotations

from dataclasses import replace

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.frames import GroundFrames
from skyanchor.anchors.shape.depth import DepthAt, depth_of_frames, shape_from_depth
from skyanchor.anchors.shape.free import depth_of_free, shape_from_free
from skyanchor.anchors.shape.incremental import LocalGroup, PairMatcher, reconstruct_local, single_frame
from skyanchor.feedforward import Incremental
from skyanchor.matching import Features
from skyanchor.types import Camera, Reason, Refusal, Sequence


def group_shape(
    frames: GroundFrames, indices: tuple[int, ...], camera: Camera, config: AnchorConfig
) -> LocalGroup | Refusal:
    """The group's own shape; with depth maps when it hardly moves or when asked to; or from a wider stretch of frames.

    `camera` is PINHOLE, of the undistorted photos.
    """
    if len(indices) == 1:
        return single_frame(indices[0], camera)
    features = tuple(frames.features(i, config.ground_matcher) for i in indices)
    matcher = frames.remembered(config.ground_matcher)
    local = moving_shape(frames, indices, features, camera, matcher, config)
    still = isinstance(local, Refusal) or local.parallax_deg < config.local.low_parallax_deg
    if still or config.local.depth_always:
        deep = _deep_shape(frames, indices, features, camera, matcher, config)
        if deep is not None:
            return replace(deep, instead_of=_instead_of(local, config))
    if isinstance(local, LocalGroup) and local.parallax_deg < config.local.low_parallax_deg:
        wide = _widened(frames.sequence, indices, 6)
        seen = tuple(frames.features(i, config.ground_matcher) for i in wide)
        wider = moving_shape(frames, wide, seen, camera, matcher, config)
        local = wider if isinstance(wider, LocalGroup) else local
    return local


def _instead_of(local: LocalGroup | Refusal, config: AnchorConfig) -> Refusal | None:
    """Why the feed-forward poses were not taken, where that is so."""
    if isinstance(local, LocalGroup) or isinstance(config.shape, Incremental):
        return local.instead_of if isinstance(local, LocalGroup) else None
    return Refusal(Reason.FEED_FORWARD_REFUSED, local.detail, local.figures)


def moving_shape(
    frames: GroundFrames,
    indices: tuple[int, ...],
    features: tuple[Features, ...],
    camera: Camera,
    matcher: PairMatcher,
    config: AnchorConfig,
) -> LocalGroup | Refusal:
    """The group's shape from parallax, started by the feed-forward choice where there is one and it fits."""
    free = frames.free(indices, config.shape)
    if free is None:
        return reconstruct_local(indices, features, camera, matcher, config.local)
    given = shape_from_free(indices, features, camera, matcher, free, config.local)
    if isinstance(given, LocalGroup):
        return given
    alone = reconstruct_local(indices, features, camera, matcher, config.local)
    text = f"The feed-forward shape is not taken: {given.detail}"
    if isinstance(alone, LocalGroup):
        return replace(alone, instead_of=Refusal(Reason.FEED_FORWARD_REFUSED, text, given.figures))
    figures = {**alone.figures, **{f"feed_forward_{name}": value for name, value in given.figures.items()}}
    return Refusal(alone.reason, f"{alone.detail} {text}", figures)


def _deep_shape(
    frames: GroundFrames,
    indices: tuple[int, ...],
    features: tuple[Features, ...],
    camera: Camera,
    matcher: PairMatcher,
    config: AnchorConfig,
) -> LocalGroup | None:
    """The group's shape by depth maps of its photos; None where there are none, or where they do not help."""
    depth_at = _depth(frames, indices, config)
    if depth_at is None:
        return None
    shape = shape_from_depth(indices, features, camera, matcher, depth_at, config.local)
    return shape if isinstance(shape, LocalGroup) else None


def depth_if_needed(frames: GroundFrames, local: LocalGroup, config: AnchorConfig) -> DepthAt | None:
    """Depth of a group's frames where it hardly moves or where it is asked for; None else, and without maps."""
    still = local.parallax_deg < config.local.low_parallax_deg
    return _depth(frames, local.frames, config) if still or config.local.depth_always else None


def _depth(frames: GroundFrames, indices: tuple[int, ...], config: AnchorConfig) -> DepthAt | None:
    """The user's depth maps, else those of the feed-forward choice."""
    given = depth_of_frames(frames.sequence, indices, config.local)
    free = frames.free(indices, config.shape) if given is None else None
    return given if free is None else depth_of_free(indices, free, frames.sequence.camera)


def _widened(sequence: Sequence, indices: tuple[int, ...], by: int) -> tuple[int, ...]:
    """The frames with up to `by` more on either side, inside their stretch of the sequence."""
    first, last = max(0, indices[0] - by), min(len(sequence.frames) - 1, indices[-1] + by)
    stretch = sequence.stretch_of(indices[0])
    return tuple(frame for frame in range(first, last + 1) if sequence.stretch_of(frame) == stretch)
