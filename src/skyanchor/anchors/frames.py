"""Ground frames as the anchor stage uses them: photos and features, read and extracted once."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

import numpy as np

from skyanchor.feedforward import AnyLocal, FreeFrames, Incremental, LocalReconstruction
from skyanchor.geometry import cameras
from skyanchor.matching import AnyMatcher, AnySparse, FeatureCache, Features, Matcher, SparseMatcher, XFeatStar
from skyanchor.photos import PhotoCache, read_frame
from skyanchor.step_clock import StepClock
from skyanchor.types import QUIET, Camera, Ints, Photo, Sequence

FREE_KEPT = 4
"""Groups whose feed-forward poses and depth are kept: all rungs and focal lengths of one group share them."""
FEATURE_BYTES = 160 << 20
"""Of features that are kept for one matcher."""
PAIRS_KEPT = 64
"""Pairs of photos whose matches are kept for one matcher: those of a few groups."""


@dataclass(frozen=True)
class Lens:
    """What is assumed of the focal length and the distortion of a sequence's camera."""

    factor: float = 1.0
    """On the focal length that the sequence came with."""
    known: bool = True
    """Whether that is the camera's focal length, or one to be refined."""
    k1: float = 0.0
    """Radial distortion of the photos, x' = x (1 + k1 r² + k2 r⁴)."""
    k2: float = field(default=0.0, metadata=QUIET)
    """Its second term."""

    @property
    def bends(self) -> bool:
        """Whether the photos are distorted."""
        return self.k1 != 0.0 or self.k2 != 0.0


def seen_through(sequence: Sequence, lens: Lens) -> Camera:
    """PINHOLE camera of the undistorted photos at full resolution."""
    return with_focal(cameras.undistorted(sequence.camera), lens.factor)


def camera_of(sequence: Sequence, lens: Lens) -> Camera:
    """Camera of the photos as they are."""
    if lens.bends:
        return cameras.with_bend(sequence.camera, lens.factor, lens.k1, lens.k2)
    return sequence.camera if lens.factor == 1.0 else seen_through(sequence, lens)


def with_focal(camera: Camera, factor: float) -> Camera:
    """A PINHOLE camera with both focal lengths multiplied."""
    fx, fy, cx, cy = camera.params
    return replace(camera, params=(fx * factor, fy * factor, cx, cy))


@dataclass(eq=False)
class Remembered:
    """A sparse matcher that matches a pair once: neither focal lengths nor poses change anything about it."""

    matcher: SparseMatcher
    _held: OrderedDict[tuple[int, int], tuple[Features, Features, Ints]] = field(default_factory=OrderedDict)

    def pairs(self, a: Features, b: Features) -> Ints:
        """(M, 2), indices of matched keypoints."""
        key = (id(a), id(b))
        if key not in self._held:
            self._held[key] = (a, b, self.matcher.pairs(a, b))  # the features stay, so that nothing else has their ids
        self._held.move_to_end(key)
        while len(self._held) > PAIRS_KEPT:
            self._held.popitem(last=False)
        return self._held[key][2]


@dataclass(eq=False)
class GroundFrames:
    """The frames of one sequence; photos, features and matchers are kept while memory lasts."""

    sequence: Sequence
    folder: Path | None = None
    """Where keypoints are kept for other processes and stages; nowhere when None."""
    clock: StepClock = field(default_factory=StepClock)
    """Where the time goes."""
    _photos: PhotoCache = field(default_factory=lambda: PhotoCache(limit_bytes=256 << 20))
    _features: dict[AnyMatcher, FeatureCache] = field(default_factory=dict)
    _remembered: dict[AnySparse, Remembered] = field(default_factory=dict)
    _systems: dict[AnyLocal, LocalReconstruction] = field(default_factory=dict)
    _free: dict[tuple[AnyLocal, tuple[int, ...]], FreeFrames] = field(default_factory=dict)
    _unbent: dict[Lens, GroundFrames] = field(default_factory=dict)

    def through(self, lens: Lens) -> tuple[GroundFrames, Lens]:
        """(the frames with the lens's distortion taken out of their photos, what is left of the lens then)."""
        if not lens.bends:
            return self, lens
        if lens not in self._unbent:
            self._unbent.clear()
            straight = replace(self.sequence, camera=camera_of(self.sequence, lens))
            self._unbent[lens] = GroundFrames(straight, self.folder, self.clock)
        return self._unbent[lens], Lens(1.0, lens.known)

    def photo(self, index: int) -> Photo:
        """The undistorted photo at full resolution."""
        frame, camera = self.sequence.frames[index], self.sequence.camera
        return self._photos.photo(frame.name, frame.path, camera, camera.width, frame.mask_path)[0]

    def features(self, index: int, choice: AnyMatcher) -> Features:
        """Features of the photo as a matcher takes them, full-resolution pixels."""
        with self.clock.step("features of frames"):
            return self._cache(choice).features(self.photo(index))

    def matcher(self, choice: AnyMatcher) -> Matcher:
        """The matcher, loaded when it is first asked for."""
        return self._cache(choice).matcher

    def remembered(self, choice: AnySparse) -> Remembered:
        """The matcher with the matches of the frames that it was last asked for."""
        if choice not in self._remembered:
            self._remembered[choice] = Remembered(choice.load())
        return self._remembered[choice]

    def free(self, indices: tuple[int, ...], choice: AnyLocal) -> FreeFrames | None:
        """The frames as a feed-forward choice sees them in one pass; None without such a choice."""
        if isinstance(choice, Incremental):
            return None
        key = (choice, indices)
        if key not in self._free:
            if choice not in self._systems:
                self._systems[choice] = choice.load("auto", self.sequence)
            while len(self._free) >= FREE_KEPT:
                self._free.pop(next(iter(self._free)))
            photos = [read_frame(self.sequence, i) for i in indices]
            self._free[key] = self._systems[choice].reconstruct(indices, photos)
        return self._free[key]

    def keeps(self, choice: AnyMatcher) -> bool:
        """Whether what a matcher finds in a photo stays for other processes: dense ones see too much."""
        return self.folder is not None and isinstance(choice, (*get_args(AnySparse), XFeatStar))

    def _cache(self, choice: AnyMatcher) -> FeatureCache:
        if choice not in self._features:
            kept = self.folder if self.keeps(choice) else None
            self._features[choice] = FeatureCache(choice.load(), kept, FEATURE_BYTES)
        return self._features[choice]


def spread_over(count: int, most: int) -> Ints:
    """At most `most` positions of 0 .. count - 1, spread evenly, both ends included."""
    return np.unique(np.round(np.linspace(0, count - 1, min(most, count))).astype(np.int64))
