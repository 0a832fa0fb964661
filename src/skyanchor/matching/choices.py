"""The matchers there are: a choice and its settings each, light to import; the heavy imports happen in `load`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from skyanchor.matching.protocol import Matcher, SparseMatcher


@dataclass(frozen=True)
class Sift:
    """RootSIFT keypoints (OpenCV), mutual nearest neighbours with a ratio test."""

    keypoints: int = 6000
    """Most keypoints kept per image."""
    longest: int = 1600
    """Longer side that images are shrunk to, pixels; smaller images stay as they are."""
    contrast: float = 0.01
    """Contrast threshold of the detector, 0..1; lower finds more on plain walls."""
    ratio: float = 0.85
    """Distance to the best neighbour over that to the second best, at most."""

    def load(self, device: str = "cpu") -> SparseMatcher:
        """The matcher, ready to run."""
        from skyanchor.matching.sift import SiftMatcher

        return SiftMatcher(self, device)


@dataclass(frozen=True)
class XFeat:
    """XFeat keypoints, mutual nearest neighbours by cosine."""

    keypoints: int = 6000
    """Most keypoints kept per image."""
    longest: int = 1600
    """Longer side that images are shrunk to, pixels."""
    threshold: float = 0.02
    """Keypoint probability from which a maximum counts, 0..1."""
    least_cosine: float = 0.82
    """Cosine between matched descriptors, at least."""

    def load(self, device: str = "cpu") -> SparseMatcher:
        """The matcher, ready to run."""
        from skyanchor.matching.xfeat import XFeatMatcher

        return XFeatMatcher(self, device)


@dataclass(frozen=True)
class XFeatStar:
    """Semi-dense XFeat: reliable cells of an 8-pixel grid at two scales, matched and refined per pair."""

    keypoints: int = 6000
    """Most grid cells kept per image."""
    longest: int = 1600
    """Longer side that images are shrunk to, pixels."""
    least_confidence: float = 0.25
    """Confidence of the refinement inside a cell, at least, 0..1."""

    def load(self, device: str = "cpu") -> Matcher:
        """The matcher, ready to run."""
        from skyanchor.matching.xfeat import XFeatStarMatcher

        return XFeatStarMatcher(self, device)


@dataclass(frozen=True)
class LightGlue:
    """ALIKED keypoints matched by LightGlue; needs the `lightglue` extra."""

    keypoints: int = 2048
    """Most keypoints kept per image."""
    longest: int = 1024
    """Longer side that images are shrunk to, pixels."""
    least_score: float = 0.1
    """Assignment probability of a match, at least, 0..1."""

    def load(self, device: str = "cpu") -> SparseMatcher:
        """The matcher, ready to run."""
        from skyanchor.matching.lightglue import LightGlueMatcher

        return LightGlueMatcher(self, device)


AnySparse: TypeAlias = Sift | XFeat | LightGlue
AnyMatcher: TypeAlias = Sift | XFeat | XFeatStar | LightGlue
