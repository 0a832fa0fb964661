"""What a matcher can do, whichever it is."""

from __future__ import annotations

from typing import Protocol

from skyanchor.matching.features import Features
from skyanchor.types import Ints, Matches, Photo


class Matcher(Protocol):
    """Finds the same surface points in two photos."""

    @property
    def key(self) -> str:
        """Name and settings in one string; features with the same key are interchangeable."""
        ...

    def match(self, a: Photo, b: Photo) -> Matches:
        """Correspondences between two photos."""
        ...

    def extract(self, photo: Photo) -> Features:
        """What matching needs to know of one photo, computed once."""
        ...

    def match_extracted(self, a: Features, b: Features) -> Matches:
        """Correspondences between two photos whose features were extracted before."""
        ...


class SparseMatcher(Matcher, Protocol):
    """A matcher whose correspondences join keypoints, so that they chain into tracks."""

    def pairs(self, a: Features, b: Features) -> Ints:
        """(M, 2), indices of matched keypoints of a and b."""
        ...
