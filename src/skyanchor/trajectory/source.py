"""Where keypoints of ground frames come from, photos through a matcher, and matches that were found ahead of need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from skyanchor import photos
from skyanchor.geometry.depth import under
from skyanchor.matching import AnySparse, FeatureCache, Features, SparseMatcher
from skyanchor.storage import codec, files
from skyanchor.storage.digests import digest
from skyanchor.types import Bytes, Floats, Ints, Photo, Sequence

SHELF = ".pairs.npz"
"""Ending of the file with the matches of one photo."""


class FeatureSource(Protocol):
    """Keypoints of frames, by their index in the sequence."""

    def features(self, frame: int) -> Features:
        """Keypoints of a frame, in pixels of its photo."""
        ...

    def colors(self, frame: int, xy: Floats) -> Bytes:
        """(N, 3), RGB of a frame at pixels xy (N, 2)."""
        ...

    def matched(self, i: int, j: int) -> Ints | None:
        """(M, 2), keypoints of a frame and of a later one that the matcher joins; None where nobody asked it before."""
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
    _keys: dict[int, str] = field(default_factory=dict, repr=False)
    _shelves: dict[int, dict[str, Ints]] = field(default_factory=dict, repr=False)

    def features(self, frame: int) -> Features:
        """Keypoints of a frame."""
        if frame not in self._held:
            while len(self._held) >= self.limit:
                self._held.pop(next(iter(self._held)))
            self._held[frame] = self._found(frame)
        return self._held[frame]

    def _found(self, frame: int) -> Features:
        """As the folder has them by the key that is known of the frame, else by its photo."""
        cache = FeatureCache(self._matcher(), self.folder, limit_bytes=0)
        stored = cache.stored(self._keys[frame]) if frame in self._keys else None
        if stored is not None:
            return stored
        photo = self._photo(frame)
        self._keys[frame] = cache.key(photo)
        return cache.features(photo)

    def matched(self, i: int, j: int) -> Ints | None:
        """Matches that `match_ahead` left in the folder; None where it did not come to them."""
        if self.folder is None:
            return None
        self.features(i)
        self.features(j)
        if i not in self._shelves:
            self._shelves[i] = read_shelf(self._shelf(i))
        return self._shelves[i].get(self._keys[j])

    def match_ahead(self, frame: int, others: Iterable[int]) -> None:
        """Leave the matches of a frame with others in the folder."""
        mine, matcher = self.features(frame), self._matcher()
        found = {other: matcher.pairs(mine, self.features(other)) for other in others}
        write_shelf(self._shelf(frame), {self._keys[other]: pairs for other, pairs in found.items()})

    def _shelf(self, frame: int) -> Path:
        assert self.folder is not None, "matches are left for others in a folder"
        settings = digest(codec.dumps(codec.to_json(self.choice)).encode())
        return self.folder / f"{self._keys[frame]}-{settings}{SHELF}"

    def _photo(self, frame: int) -> Photo:
        return photos.read_frame(self.sequence, frame)

    def colors(self, frame: int, xy: Floats) -> Bytes:
        """Nearest pixels of the frame's photo."""
        pixels = photos.read_pixels(self.sequence.frames[frame].path)
        return under(pixels, xy)

    def _matcher(self) -> SparseMatcher:
        return self.choice.load(self.device)


def write_shelf(path: Path, matches: Mapping[str, Ints]) -> None:
    """Write matches (M, 2) by the key of the photo that they lead to; those that the disk loses are found anew."""
    starts = np.cumsum([0, *(len(pairs) for pairs in matches.values())])
    joined = np.concatenate([np.empty((0, 2), np.int64), *matches.values()]).astype(np.int32)
    arrays = {"keys": np.array(list(matches), dtype=np.str_), "starts": starts, "pairs": joined}
    files.write_arrays(path, arrays, lasting=False)


def read_shelf(path: Path) -> dict[str, Ints]:
    """What `write_shelf` wrote; nothing where there is no file, or a damaged one."""
    try:
        with np.load(path, allow_pickle=False) as held:
            parts = np.split(held["pairs"].astype(np.int64), held["starts"][1:-1])
            return dict(zip(held["keys"].tolist(), parts, strict=True))
    except codec.UNREADABLE:
        return {}
