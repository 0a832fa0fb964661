"""Photos asked about surfaces: whether another day shows the surface that one photo's depth shows, and looks like it.

Photos of another day are laid onto the surface and compared with the photo: where they agree, nothing changed there,
whatever depth says. Before that they are made free of slow changes of light and cut off where the edge of a shadow
would outweigh everything. Plain places say nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from skyanchor.changes.config import LookConfig
from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import lift, pixel_centres
from skyanchor.types import Bools, Bytes, DepthMap, Floats, Floats32

GREY = np.array([0.299, 0.587, 0.114], np.float32)


@dataclass(frozen=True, eq=False)
class Seen:
    """A photo with its depth, ready to be compared."""

    held: DepthMap
    known: Bools
    """(H, W), where its depth says something of places within reach ..."""
    sure: Bools
    """... and at any range."""
    texture: Floats32
    """(H, W), log grey without slow changes, cut off."""


@dataclass(frozen=True, eq=False)
class Looks:
    """How well photos agree on the surface that one photo's depth shows; (H, W) each, nan where nothing is said."""

    own: Floats32
    """Photos of its own day that have that surface too: leaves and panes disagree on every day."""
    across: Floats32
    """Photos of other days, wherever their depth puts a surface."""


def seen(held: DepthMap, known: Bools, sure: Bools, photo: Bytes, config: LookConfig) -> Seen:
    """A photo (H, W, 3) ready to be compared."""
    return Seen(held, known, sure, texture(photo, config))


def texture(photo: Bytes, config: LookConfig) -> Floats32:
    """(H, W): log grey, smoothed a little minus smoothed much, cut off at both ends."""
    grey = np.log(photo.astype(np.float32) @ GREY + 8.0)
    fine, coarse = (cv2.GaussianBlur(grey, (0, 0), sigma) for sigma in (1.0, config.window_px / 3.0))
    return np.asarray(np.clip(fine - coarse, -config.most_contrast, config.most_contrast), np.float32)


def looks(one: Seen, day: Sequence[Seen], others: Sequence[Seen], config: LookConfig) -> Looks:
    """What the photos of its own day and of others say of the surface in one photo."""
    own = [_onto(one, other, config) for other in apart(one, near(one, day, config), config)]
    agreed = [correlated(one.texture, a.texture, a.same, 1, config) for a in own]
    return Looks(_best(one, agreed), across(one, near(one, others, config)[: config.other_photos], config))


def across(one: Seen, others: Sequence[Seen], config: LookConfig) -> Floats32:
    """(H, W), how well the best of some photos of other days agrees with one; nan where nothing is said."""
    theirs = [_onto(one, other, config) for other in others]
    return _best(one, [correlated(one.texture, a.texture, a.inside, 2, config) for a in theirs])


def _best(one: Seen, scores: Sequence[Floats32]) -> Floats32:
    return np.fmax.reduce([np.full(one.texture.shape, np.nan, np.float32), *scores])


# --- which photos -------------------------------------------------------------------------------------------------


def near(one: Seen, others: Sequence[Seen], config: LookConfig) -> list[Seen]:
    """The photos taken within reach of one that look the same way, itself left out, the nearest first."""
    ahead = one.held.cam_from_world.rotation[2]
    apart = [(away(one, other), k) for k, other in enumerate(others) if other is not one]
    alike = [(far, k) for far, k in apart if others[k].held.cam_from_world.rotation[2] @ ahead >= config.cosine]
    return [others[k] for far, k in sorted(alike) if far <= config.reach_m]


def apart(one: Seen, others: Sequence[Seen], config: LookConfig) -> list[Seen]:
    """The first of the photos that are far enough from one to see depth."""
    return [other for other in others if away(one, other) >= config.apart_m][: config.photos]


def away(a: Seen, b: Seen) -> float:
    """Metres between two cameras."""
    here, there = (rigid.centre_in_world(one.held.cam_from_world) for one in (a, b))
    return float(np.linalg.norm(here - there))


# --- photos laid onto a surface -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Laid:
    """Another photo as it looks from one, laid onto the surface of that one's depth; (H, W) each."""

    texture: Floats32
    inside: Bools
    """Where it shows the place, if nothing is in the way."""
    same: Bools
    """Where its own depth is that surface too."""


def _onto(one: Seen, other: Seen, config: LookConfig) -> Laid:
    height, width = one.texture.shape
    rows, columns = np.indices((height, width)).reshape(2, -1)
    depth = np.where(one.known, one.held.depth, 1.0).ravel().astype(np.float64)
    points = lift(one.held.camera, one.held.cam_from_world, pixel_centres(rows, columns), depth)
    in_cam = other.held.cam_from_world(points)
    z: Floats = in_cam[:, 2].reshape(height, width)
    xy = (cameras.project(other.held.camera, in_cam) - 0.5).astype(np.float32).reshape(height, width, 2)
    xy[z <= 0] = -1e4
    size = np.array(other.texture.shape[::-1], np.float32) - 1.0
    inside = one.known & np.all((xy >= 0) & (xy <= size), axis=2)
    there = cv2.remap(np.where(other.known, other.held.depth, 0.0), xy[..., 0], xy[..., 1], cv2.INTER_NEAREST)
    off = config.margin_m + config.margin_px / cameras.focal_px(other.held.camera) * z
    moved = cv2.remap(other.texture, xy[..., 0], xy[..., 1], cv2.INTER_LINEAR)
    same = inside & (there > 0) & (np.abs(z - there) <= off)
    return Laid(np.asarray(moved, np.float32), inside, np.asarray(same))


def correlated(a: Floats32, b: Floats32, known: Bools, reach: int, config: LookConfig) -> Floats32:
    """(H, W), Σ a b / √(Σ a² Σ b²) over the known pixels of a window, the largest of shifts of b by up to `reach`.

    nan where either is plain or where too little is known.
    """
    side = (config.window_px, config.window_px)
    weight = known.astype(np.float32)
    count = cv2.boxFilter(weight, -1, side)
    own = cv2.boxFilter(weight * a * a, -1, side)
    theirs = cv2.boxFilter(weight * b * b, -1, side)
    best = np.full(a.shape, -1.0, np.float32)
    for down in range(-reach, reach + 1):
        for right in range(-reach, reach + 1):
            moved = np.roll(b, (down, right), (0, 1))
            square = cv2.boxFilter(weight * moved * moved, -1, side)
            product = cv2.boxFilter(weight * a * moved, -1, side)
            best = np.maximum(best, product / np.sqrt(np.maximum(own * square, 1e-12)))
    plain = np.minimum(own, theirs) < config.least_contrast**2 * count
    return np.where(plain | (count < 0.5) | ~known, np.float32(np.nan), best)
