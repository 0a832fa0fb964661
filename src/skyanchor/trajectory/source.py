"""Where keypoints of ground frames come from: photos through a matcher, each read once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from skyanchor import photos
from skyanchor.geometry.depth import under
from skyanchor.matching import AnySparse, FeatureCache, Features, SparseMatcher
from skyanchor.types import Bytes, Floats, Sequence


class FeatureSource(Protocol):
    """Keypoints of frames, by their index in the sequence."""

    def features(self, frame: int) -> Features:
        """Keypoints of a frame, in pixels of its photo."""
        ...

    def colors(self, frame: int, xy: Floats) -> Bytes:
        """(N, 3), RGB of a frame at pixels xy (N, 2)."""
        ...


@dataclass
class PhotoFeatures:
    """Features of the sequence's photos; in memory, and in a folder when one is given."""

    sequence: Sequence
    choice: AnySparse
    folder: Path | None = None
    device: str = "cpu"
    limit: int = 400
    """Frames kept in memory."""
    _held: dict[int, Features] = field(default_factory=dict, repr=False)

    def features(self, frame: int) -> Features:
        """Keypoints of a frame."""
        if frame not in self._held:
            while len(self._held) >= self.limit:
                self._held.pop(next(iter(self._held)))
            cache = FeatureCache(self._matcher(), self.folder, limit_bytes=0)
            self._held[frame] = cache.features(photos.read_frame(self.sequence, frame))
        return self._held[frame]

    def colors(self, frame: int, xy: Floats) -> Bytes:
        """Nearest pixels of the frame's photo."""
        pixels = photos.read_pixels(self.sequence.frames[frame].path)
        return under(pixels, xy)

    def _matcher(self) -> SparseMatcher:
        return self.choice.load(self.device)
