"""Keypoints and descriptors of one photo, and a cache of them by content and settings."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np

from skyanchor import photos
from skyanchor.geometry.depth import under
from skyanchor.storage import codec, files
from skyanchor.types import Bools, Bytes, Floats, Floats32, Ints, Photo

if TYPE_CHECKING:
    from skyanchor.matching.protocol import Matcher


@dataclass(frozen=True, eq=False)
class Features:
    """Keypoints of one photo with their descriptors."""

    xy: Floats
    """(N, 2), pixels of the photo, pixel-centre convention."""
    descriptors: Floats32
    """(N, D), unit length."""
    scores: Floats32
    """(N,), higher is better; comparable only within one extractor."""
    scales: Floats32
    """(N,), photo pixels per pixel of the image (pyramid level) the keypoint was found in."""
    width: int
    """Of the photo, pixels."""
    height: int
    """Of the photo, pixels."""
    sigma_px: float
    """Localisation error of a keypoint, pixels of the photo."""

    def __len__(self) -> int:
        """Number of keypoints."""
        return len(self.xy)


@runtime_checkable
class Shrinking(Protocol):
    """A matcher that looks at small photos in the same way, however large a photo may be before it is shrunk."""

    def key_of(self, photo: Photo) -> str:
        """Name and settings in one string, with the size at which the photo is looked at."""
        ...


def shrunk(photo: Photo, longest: int) -> tuple[Bytes, Bools | None, float]:
    """Pixels and mask with the longer side at most `longest`, and photo pixels per pixel of the result."""
    height, width = photo.pixels.shape[:2]
    target = round(width * min(1.0, longest / max(height, width)))
    pixels = photos.resized(photo.pixels, target)
    if photo.mask is None or pixels.shape[:2] == (height, width):
        return pixels, photo.mask, width / pixels.shape[1]
    flat = np.repeat(photo.mask.astype(np.uint8)[..., None] * 255, 3, axis=2)
    return pixels, photos.resized(flat, target)[..., 0] > 127, width / pixels.shape[1]


def inside_mask(xy: Floats, mask: Bools | None) -> Bools:
    """(N,), True where the pixel under each of xy (N, 2) may be used."""
    if mask is None:
        return np.ones(len(xy), dtype=bool)
    return under(mask, xy)


def one_per_place(xy: Floats) -> Ints:
    """(M,), indices of keypoints such that no two lie on one spot; the first of each spot stays."""
    _, first = np.unique(np.round(xy * 8.0).astype(np.int64), axis=0, return_index=True)
    return np.sort(first)


def strongest(features: Features, count: int) -> Features:
    """So many of the keypoints at most; those of a matcher come with the strongest first."""
    some = {name: getattr(features, name)[:count] for name in ("xy", "descriptors", "scores", "scales")}
    return replace(features, **some)


_KEYS: WeakKeyDictionary[Photo, dict[str, str]] = WeakKeyDictionary()
"""Digests of photos that somebody holds, by the settings."""


def content_key(photo: Photo, settings: str) -> str:
    """Hexadecimal digest of the pixels, the mask and the extractor's settings, computed once for a photo."""
    known = _KEYS.setdefault(photo, {})
    if settings not in known:
        known[settings] = _digest(photo, settings)
    return known[settings]


def _digest(photo: Photo, settings: str) -> str:
    digest = hashlib.blake2b(settings.encode(), digest_size=16)
    digest.update(np.array(photo.pixels.shape, dtype=np.int64).tobytes())
    digest.update(np.ascontiguousarray(photo.pixels).data)
    if photo.mask is not None:
        digest.update(np.packbits(photo.mask).tobytes())
    return digest.hexdigest()


def save_features(features: Features, path: Path) -> None:
    """Write an .npz, atomically; one that the disk loses is made anew."""
    arrays: dict[str, Any] = {
        "xy": features.xy.astype(np.float32),
        "descriptors": features.descriptors.astype(np.float16),
        "scores": features.scores,
        "scales": features.scales,
        "size": np.array([features.width, features.height, features.sigma_px], dtype=np.float64),
    }
    files.write_arrays(path, arrays, lasting=False)


def load_features(path: Path) -> Features:
    """Features as `save_features` wrote them (descriptors in half precision)."""
    with np.load(path, allow_pickle=False) as held:
        width, height, sigma_px = held["size"]
        descriptors = held["descriptors"].astype(np.float32)
        xy = held["xy"].astype(np.float64)
        return Features(xy, descriptors, held["scores"], held["scales"], int(width), int(height), float(sigma_px))


def rounded(features: Features) -> Features:
    """The features at the precision in which they are stored, so that a cached run gives the same bytes."""
    xy = features.xy.astype(np.float32).astype(np.float64)
    descriptors = features.descriptors.astype(np.float16).astype(np.float32)
    size = (features.width, features.height, features.sigma_px)
    return Features(xy, descriptors, features.scores, features.scales, *size)


@dataclass
class FeatureCache:
    """Features of photos through one matcher, in memory up to `limit_bytes` and in a folder when one is given."""

    matcher: Matcher
    folder: Path | None = None
    limit_bytes: int = 1 << 30
    _held: OrderedDict[str, Features] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def features(self, photo: Photo) -> Features:
        """Features of a photo, extracted the first time only."""
        return self.known(self.key(photo), lambda: photo)

    def known(self, key: str, photo: Callable[[], Photo]) -> Features:
        """Features of a photo whose key is known; it is asked for only where they are not held."""
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key]
        found = self.stored(key) or self._extracted(key, photo())
        self._held[key] = found
        self._bytes += _size(found)
        while self._bytes > self.limit_bytes and len(self._held) > 1:
            self._bytes -= _size(self._held.popitem(last=False)[1])
        return found

    def key(self, photo: Photo) -> str:
        """Of what is found in a photo: digest of its pixels and of how they are looked at."""
        matcher = self.matcher
        return content_key(photo, matcher.key_of(photo) if isinstance(matcher, Shrinking) else matcher.key)

    def stored(self, key: str) -> Features | None:
        """What the folder holds; None where that is nothing, or damaged."""
        path = None if self.folder is None else self.folder / f"{key}.npz"
        try:
            return load_features(path) if path is not None and path.is_file() else None
        except codec.UNREADABLE:
            return None

    def _extracted(self, key: str, photo: Photo) -> Features:
        found = rounded(self.matcher.extract(photo))
        if self.folder is not None:
            save_features(found, self.folder / f"{key}.npz")
        return found


def _size(features: Features) -> int:
    return features.xy.nbytes + features.descriptors.nbytes + features.scores.nbytes + features.scales.nbytes
