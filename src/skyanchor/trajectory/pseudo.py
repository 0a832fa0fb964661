"""Pseudo-correspondences: pixels carried from frame to frame by depth and pose, kept where the depths agree.

By themselves they say nothing new about the geometry that carried them, but put it into the terms of the anchored
adjustment: pixels in photos with the true intrinsics, which the anchors may then bend into place. A turn that builds up
evenly is the one error that they hand on as a shift; where the photos are given, each pixel is therefore moved to where
the second photo really shows it (Lucas-Kanade from the carried place), and becomes a measurement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np

from skyanchor.feedforward.free_frames import FreeFrame, FreeFrames
from skyanchor.geometry import cameras
from skyanchor.geometry import depth as depths
from skyanchor.matching import Features
from skyanchor.sfm.tracks import Pairs
from skyanchor.types import Bools, Bytes, Camera, Floats, Floats32, Ints

WINDOW = (21, 21)
"""Of Lucas-Kanade, pixels of the photo."""
PATCH = 6
"""Half the side of the window that is compared in the end, pixels of the photo."""
LEAST_LIKENESS = 0.8
"""Correlation of a pixel's surroundings in both photos, at least."""
LEAST_TEXTURE = 1e-3
"""Smallest eigenvalue of the gradients in the window that can be followed, as OpenCV scales it."""
EDGE = 0.05
"""Relative change of depth between neighbouring pixels from which they lie on different surfaces."""


@dataclass(frozen=True)
class PseudoConfig:
    """Which pixels are carried, and how far."""

    stride: int = 12
    """Pixels of the depth map between seeds."""
    steps: tuple[int, ...] = (1, 2, 3, 5, 8, 13, 21, 34)
    """Frames ahead into which a seed is carried."""
    depth_tolerance: float = 0.03
    """Largest difference between carried and stored depth, relative."""
    least_confidence: float = 0.3
    """Part of the pixels, the least confident ones, that give no seeds, 0..1."""
    sigma: float = 1.0
    """Localisation error of a carried pixel, pixels of the depth map."""
    followed_sigma: float = 1.0
    """Localisation error of a pixel that was followed in the photos, pixels of the photo."""
    most_moved: float = 0.03
    """Largest distance between the carried and the followed pixel, over the image width."""


@dataclass(frozen=True, eq=False)
class PseudoMatches:
    """Keypoints per frame and the pairs that join them."""

    xy: Mapping[int, Floats]
    """(N, 2) per frame, pixels of the photo."""
    pairs: Pairs
    sigma_px: float
    """Pixels of the photo."""


@dataclass
class _Keypoints:
    """Keypoints of all frames as they grow."""

    xy: dict[int, list[Floats]] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    pairs: dict[tuple[int, int], list[Ints]] = field(default_factory=dict)

    def add(self, frame: int, xy: Floats) -> Ints:
        """Numbers (N,) of new keypoints in their frame."""
        first = self.counts.get(frame, 0)
        self.xy.setdefault(frame, []).append(xy)
        self.counts[frame] = first + len(xy)
        return np.arange(first, first + len(xy))


def pseudo_matches(
    submaps: tuple[FreeFrames, ...], camera: Camera, config: PseudoConfig, photos: Mapping[int, Bytes] | None = None
) -> PseudoMatches:
    """Keypoints and pairs of all frames, followed in `photos` (H, W, 3) by frame where they are given.

    Frames in two submaps join their tracks only through their own pixels.
    """
    held, sigma = _Keypoints(), 0.0
    for submap in submaps:
        _carry_all(submap, camera, config, held, photos)
        widths = [one.depth.shape[1] for one in submap.frames]
        sigma = max(sigma, config.sigma * camera.width / min(widths)) if widths else sigma
    xy = {frame: np.concatenate(parts) for frame, parts in held.xy.items()}
    pairs = {key: np.concatenate(parts) for key, parts in held.pairs.items()}
    return PseudoMatches(xy, pairs, config.followed_sigma if photos is not None else sigma or 1.0)


def _carry_all(
    submap: FreeFrames, camera: Camera, config: PseudoConfig, held: _Keypoints, photos: Mapping[int, Bytes] | None
) -> None:
    """Seeds of every frame where no track passes yet, carried into frames ahead."""
    system = submap.camera or camera
    by_frame = {one.frame: one for one in submap.frames}
    inverse = {one.frame: inverse_depth(one.depth) for one in submap.frames}
    taken = {one.frame: np.zeros(_cells(one.depth.shape, config.stride), bool) for one in submap.frames}
    for one in submap.frames:
        uv = seeds(one, taken[one.frame], config)
        points, here = lift(one, uv, system), to_photo(uv, one.depth.shape, camera)
        numbers: Ints | None = None
        for other in (by_frame[one.frame + step] for step in config.steps if one.frame + step in by_frame):
            at, agree = carried(points, other, inverse[other.frame], system, config.depth_tolerance)
            there = to_photo(at, other.depth.shape, camera)
            if photos is not None:
                followed, found = follow(photos[one.frame], photos[other.frame], here[agree], there[agree], config)
                there[agree] = followed
                agree[agree] = found
            if not agree.any():
                continue
            numbers = held.add(one.frame, here) if numbers is None else numbers
            ahead = held.add(other.frame, there[agree])
            held.pairs.setdefault((one.frame, other.frame), []).append(np.stack([numbers[agree], ahead], axis=1))
            _mark(taken[other.frame], at[agree], config.stride)


def follow(a: Bytes, b: Bytes, xy_a: Floats, guess: Floats, config: PseudoConfig) -> tuple[Floats, Bools]:
    """((N, 2) pixels of b that look like pixels xy_a (N, 2) of a, from a guess; (N,) whether there is one near it)."""
    if not len(xy_a):
        return guess, np.zeros(0, bool)
    grey = [cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY) for pixels in (a, b)]
    start, first = ((xy - 0.5).astype(np.float32)[:, None] for xy in (guess, xy_a))
    stop = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 30, 0.01)
    options: dict[str, Any] = {"winSize": WINDOW, "maxLevel": 2, "criteria": stop, "minEigThreshold": LEAST_TEXTURE}
    found, status, _ = cv2.calcOpticalFlowPyrLK(
        grey[0], grey[1], first, start.copy(), flags=cv2.OPTFLOW_USE_INITIAL_FLOW, **options
    )
    # the way back starts as far off as the way there did, so that it cannot agree by standing still
    home = first + (found - start)
    back, again, _ = cv2.calcOpticalFlowPyrLK(
        grey[1], grey[0], found, home, flags=cv2.OPTFLOW_USE_INITIAL_FLOW, **options
    )
    closed = np.linalg.norm((back - first)[:, 0], axis=1) < config.followed_sigma
    near = np.linalg.norm((found - start)[:, 0], axis=1) <= config.most_moved * a.shape[1]
    good = (status[:, 0] == 1) & (again[:, 0] == 1) & closed & near
    there = found[:, 0].astype(np.float64) + 0.5
    good[good] = likeness(grey[0], grey[1], xy_a[good], there[good]) > LEAST_LIKENESS
    return there, np.asarray(good)


def likeness(a: Bytes, b: Bytes, xy_a: Floats, xy_b: Floats) -> Floats:
    """(N,), normalised cross-correlation of the grey windows of a around xy_a and of b around xy_b (N, 2), -1..1."""
    reach = np.arange(-PATCH, PATCH + 1.0)
    window = np.stack(np.meshgrid(reach, reach), axis=-1).reshape(-1, 2)
    values = []
    for grey, xy in ((a, xy_a), (b, xy_b)):
        inside = np.clip(xy[:, None] + window, 1.0, np.array(grey.shape[::-1]) - 1.0)
        held = bilinear(grey.astype(np.float64), inside.reshape(-1, 2)).reshape(len(xy), len(window))
        values.append(held - held.mean(axis=1, keepdims=True))
    norms = np.linalg.norm(values[0], axis=1) * np.linalg.norm(values[1], axis=1)
    return np.asarray((values[0] * values[1]).sum(axis=1) / np.maximum(norms, 1e-9))


def inverse_depth(depth: Floats32) -> Floats:
    """(h, w), 1 / depth, affine in pixels on planes; nan without depth."""
    known = depth > 0
    return np.where(known, 1.0 / np.where(known, depth, 1.0), np.nan)


def _cells(shape: tuple[int, ...], stride: int) -> tuple[int, int]:
    return -(-shape[0] // stride), -(-shape[1] // stride)


def _mark(taken: Bools, uv: Floats, stride: int) -> None:
    column, row = np.floor(uv / stride).astype(np.int64).T
    taken[np.clip(row, 0, taken.shape[0] - 1), np.clip(column, 0, taken.shape[1] - 1)] = True


def seeds(one: FreeFrame, taken: Bools, config: PseudoConfig) -> Floats:
    """(N, 2), pixel centres of the depth map on a grid: confident, off edges of surfaces, in cells not yet taken."""
    height, width = one.depth.shape
    rows, columns = (np.arange(config.stride // 2, length, config.stride) for length in (height, width))
    row, column = np.repeat(rows, len(columns)), np.tile(columns, len(rows))
    usable = smooth(one.depth)[row, column] & ~taken[row // config.stride, column // config.stride]
    known = one.confidence[one.depth > 0]
    if len(known) and known.min() < known.max():
        usable &= one.confidence[row, column] >= np.quantile(known, config.least_confidence)
    return np.stack([column[usable], row[usable]], axis=1).astype(np.float64) + 0.5


def smooth(depth: Floats32) -> Bools:
    """(h, w), True where depth is known and changes little to the four neighbours."""
    good = depth > 0
    inverse = inverse_depth(depth)
    bent = np.zeros(depth.shape)
    for axis in (0, 1):
        second = np.abs(np.diff(inverse, n=2, axis=axis))  # zero on planes, however oblique
        inner = (slice(1, -1), slice(None)) if axis == 0 else (slice(None), slice(1, -1))
        bent[inner] = np.fmax(bent[inner], np.where(np.isfinite(second), second, np.inf))
    with np.errstate(invalid="ignore"):
        return np.asarray(good & (bent <= EDGE * np.nan_to_num(inverse, nan=0.0)))


def to_photo(uv: Floats, shape: tuple[int, ...], camera: Camera) -> Floats:
    """Pixels (N, 2) of a depth map (h, w) as pixels of the photo."""
    return uv * np.array([camera.width / shape[1], camera.height / shape[0]])


def lift(one: FreeFrame, uv: Floats, camera: Camera) -> Floats:
    """(N, 3), points of the free frame at pixel centres uv (N, 2) of a depth map."""
    return depths.lift(camera, one.cam_from_free, to_photo(uv, one.depth.shape, camera), depths.under(one.depth, uv))


def carried(
    points: Floats, other: FreeFrame, inverse: Floats, camera: Camera, tolerance: float
) -> tuple[Floats, Bools]:
    """((N, 2) pixels of another frame's depth map, (N,) whether the depth there is that of the points (N, 3))."""
    seen = other.cam_from_free(points)
    height, width = other.depth.shape
    uv = cameras.project(camera, seen) / to_photo(np.ones((1, 2)), other.depth.shape, camera)
    inside = np.isfinite(uv).all(axis=1) & (uv > 1.0).all(axis=1) & (uv < [width - 1.0, height - 1.0]).all(axis=1)
    agree = np.zeros(len(points), bool)
    stored = bilinear(inverse, uv[inside])
    with np.errstate(invalid="ignore"):
        agree[inside] = np.abs(stored * seen[inside, 2] - 1.0) <= tolerance
    return uv, agree


def bilinear(grid: Floats, uv: Floats) -> Floats:
    """(N,), values between pixel centres of a grid (h, w) at uv (N, 2), all inside; nan beside a nan."""
    at = uv - 0.5
    corner = np.clip(np.floor(at).astype(np.int64), 0, np.array(grid.shape[::-1]) - 2)
    (u, v), (x, y) = (at - corner).T, corner.T
    top = (1 - u) * grid[y, x] + u * grid[y, x + 1]
    return np.asarray((1 - v) * top + v * ((1 - u) * grid[y + 1, x] + u * grid[y + 1, x + 1]))


@dataclass(frozen=True, eq=False)
class PseudoSource:
    """Pseudo-keypoints as a feature source; their descriptors are empty, for they are joined already."""

    matches: PseudoMatches
    camera: Camera
    palette: Mapping[int, Bytes] = field(default_factory=dict)
    """Photos (H, W, 3) by frame, where colours are wanted."""

    def features(self, frame: int) -> Features:
        """Keypoints of a frame."""
        xy = self.matches.xy.get(frame, np.empty((0, 2)))
        ones = np.ones(len(xy), np.float32)
        none = np.empty((len(xy), 0), np.float32)
        return Features(xy, none, ones, ones, self.camera.width, self.camera.height, self.matches.sigma_px)

    def colors(self, frame: int, xy: Floats) -> Bytes:
        """Nearest pixels of the photo, grey where there is none."""
        pixels = self.palette.get(frame)
        if pixels is None:
            return np.full((len(xy), 3), 128, np.uint8)
        return depths.under(pixels, xy)

    def matched(self, i: int, j: int) -> Ints | None:
        """No matcher is asked: the keypoints are joined already."""
        return None
