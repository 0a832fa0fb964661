"""Dense networks as matchers: they see pairs of pictures, so what is extracted of a photo is the picture itself.

A network works at a resolution of its own (512 pixels for MASt3R). Photos with more pixels are matched twice: whole and
shrunk first, then in crops at full resolution around what the first pass found, so that detail is not lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from skyanchor.matching.features import Features, inside_mask, shrunk
from skyanchor.types import Bools, Bytes, Floats, Ints, Matches, Photo

PATCH = 16
"""Side of the squares that a photo is kept in, pixels."""
MASKED = -1.0
"""Stands for a pixel that may not be used."""
SIGMA = 0.5
"""Localisation error in pixels of the network's own resolution."""
LEAST_IN_CROP = 12
"""Coarse matches that make a crop worth a second look."""


class PairNetwork(Protocol):
    """Matches two pictures at a resolution of its own."""

    side: int
    """Longer side that pictures are resized to, pixels."""

    def match_pixels(self, a: Bytes, b: Bytes) -> Matches:
        """Correspondences in pixels of the pictures (H, W, 3) as given."""
        ...


@dataclass(frozen=True)
class Crops:
    """The second look at full resolution."""

    most: int = 12
    """Crop pairs looked at, at most; 0 leaves the first pass as it is."""
    overlap: float = 0.25
    """Part of a crop that its neighbour shares, 0..1."""


class DenseMatcher:
    """A pair network behind the matchers' protocol."""

    def __init__(self, network: PairNetwork, name: str, keypoints: int, longest: int, crops: Crops) -> None:
        self.network = network
        self.name = name
        self.keypoints = keypoints
        self.longest = longest
        self.crops = crops

    @property
    def key(self) -> str:
        """Name and settings of the extraction, which only shrinks."""
        return f"pixels {self.longest}"

    def extract(self, photo: Photo) -> Features:
        """The picture in squares, see `picture_features`."""
        pixels, mask, factor = shrunk(photo, self.longest)
        height, width = photo.pixels.shape[:2]
        sigma = SIGMA * factor * min(1.0, max(pixels.shape[:2]) / self.network.side)
        if self.crops.most == 0:
            sigma = SIGMA * max(height, width) / self.network.side
        return picture_features(pixels, mask, factor, (width, height), sigma)

    def match_extracted(self, a: Features, b: Features) -> Matches:
        """Correspondences, the most certain in each part of a; the score is the network's own."""
        (pixels_a, mask_a, factor_a), (pixels_b, mask_b, factor_b) = picture(a), picture(b)
        if not mask_a.any() or not mask_b.any():
            return Matches(np.empty((0, 2)), np.empty((0, 2)), np.empty(0), max(a.sigma_px, b.sigma_px))
        found = coarse_to_fine(self.network, pixels_a, pixels_b, self.crops)
        good = np.flatnonzero(inside_mask(found.xy_a, mask_a) & inside_mask(found.xy_b, mask_b))
        keep = good[spread(found.xy_a[good], found.score[good], self.keypoints, pixels_a.shape)]
        sigma = found.sigma_px * max(factor_a, factor_b)
        return Matches(found.xy_a[keep] * factor_a, found.xy_b[keep] * factor_b, found.score[keep], sigma)

    def match(self, a: Photo, b: Photo) -> Matches:
        """Correspondences between two photos."""
        return self.match_extracted(self.extract(a), self.extract(b))


# --- pictures as features -------------------------------------------------------------------------------------------


def picture_features(pixels: Bytes, mask: Bools | None, factor: float, size: tuple[int, int], sigma: float) -> Features:
    """The squares of a picture that show anything usable: centres, and as descriptors their pixels (0..255, -1 masked).

    Half precision holds these values exactly, so the cache gives the picture back to the bit.
    """
    height, width = pixels.shape[:2]
    rows, columns = -(-height // PATCH), -(-width // PATCH)
    canvas = np.full((rows * PATCH, columns * PATCH, 3), MASKED, np.float32)
    canvas[:height, :width] = pixels
    if mask is not None:
        canvas[:height, :width][~mask] = MASKED
    squares = canvas.reshape(rows, PATCH, columns, PATCH, 3).swapaxes(1, 2).reshape(rows * columns, -1)
    used = np.flatnonzero((squares != MASKED).any(axis=1))
    centres = (np.stack([used % columns, used // columns], axis=1) + 0.5) * PATCH * factor
    ones = np.ones(len(used), np.float32)
    return Features(centres, squares[used], ones, np.full_like(ones, factor), *size, sigma)


def picture(features: Features) -> tuple[Bytes, Bools, float]:
    """(pixels (H, W, 3), mask (H, W), photo pixels per pixel) of `picture_features`; mean colour where it is masked."""
    width = round(features.width / float(features.scales[0])) if len(features) else features.width
    factor = features.width / width
    height = max(1, round(features.height * width / features.width))
    rows, columns = -(-height // PATCH), -(-width // PATCH)
    canvas = np.full((rows, columns, PATCH, PATCH, 3), MASKED, np.float32)
    column, row = np.round(features.xy / (PATCH * factor) - 0.5).astype(np.int64).T
    canvas[row, column] = features.descriptors.reshape(-1, PATCH, PATCH, 3)
    whole = canvas.swapaxes(1, 2).reshape(rows * PATCH, columns * PATCH, 3)[:height, :width]
    mask = whole[..., 0] >= 0
    mean = whole[mask].mean(axis=0) if mask.any() else np.zeros(3, np.float32)
    return np.where(mask[..., None], whole, mean).astype(np.uint8), mask, factor


# --- coarse to fine ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """A square (or less, at the border) of a picture, pixels."""

    x: int
    y: int
    width: int
    height: int

    def of(self, pixels: Bytes) -> Bytes:
        """The part of a picture inside."""
        return np.ascontiguousarray(pixels[self.y : self.y + self.height, self.x : self.x + self.width])


def coarse_to_fine(network: PairNetwork, a: Bytes, b: Bytes, crops: Crops) -> Matches:
    """Matches of the whole pictures, or of crops at full resolution where the pictures are larger than the network."""
    coarse = network.match_pixels(a, b)
    if crops.most == 0 or max(*a.shape[:2], *b.shape[:2]) <= network.side:
        return coarse
    pairs = crop_pairs(coarse, a.shape, b.shape, network.side, crops)
    fine = [_moved(network.match_pixels(in_a.of(a), in_b.of(b)), in_a, in_b) for in_a, in_b in pairs]
    fine = [found for found in fine if len(found.score)]
    if not fine:
        return coarse
    return Matches(
        np.concatenate([found.xy_a for found in fine]),
        np.concatenate([found.xy_b for found in fine]),
        np.concatenate([found.score for found in fine]),
        max(found.sigma_px for found in fine),
    )


def _moved(found: Matches, in_a: Window, in_b: Window) -> Matches:
    """Matches of two crops in pixels of the whole pictures."""
    corner_a, corner_b = np.array([in_a.x, in_a.y], float), np.array([in_b.x, in_b.y], float)
    return Matches(found.xy_a + corner_a, found.xy_b + corner_b, found.score, found.sigma_px)


def crop_pairs(
    coarse: Matches, shape_a: tuple[int, ...], shape_b: tuple[int, ...], side: int, crops: Crops
) -> list[tuple[Window, Window]]:
    """Crops of a and where they lie in b, those with the most coarse matches first; they cover what both see."""
    found: list[tuple[int, Window, Window]] = []
    left = np.ones(len(coarse.score), dtype=bool)
    windows = tiles(shape_a, side, crops.overlap)
    inside = np.array([_inside(coarse.xy_a, window) for window in windows]).reshape(len(windows), -1)
    for _ in range(crops.most):
        counts = (inside & left).sum(axis=1)
        if not len(counts) or counts.max() < LEAST_IN_CROP:
            break
        best = int(np.argmax(counts))
        held = inside[best]
        found.append(
            (int(held.sum()), windows[best], _counterpart(coarse.xy_a[held], coarse.xy_b[held], shape_b, side))
        )
        left &= ~held
    return [(in_a, in_b) for _, in_a, in_b in sorted(found, key=lambda one: -one[0])]


def tiles(shape: tuple[int, ...], side: int, overlap: float) -> list[Window]:
    """Windows of one size that cover a picture (H, W, ...), neighbours sharing about `overlap` of it."""
    height, width = min(side, shape[0]), min(side, shape[1])
    steps = [_starts(full, part, overlap) for full, part in ((shape[0], height), (shape[1], width))]
    return [Window(x, y, width, height) for y in steps[0] for x in steps[1]]


def _starts(full: int, part: int, overlap: float) -> list[int]:
    count = 1 if full == part else int(np.ceil((full - part) / (part * (1.0 - overlap)))) + 1
    return [round(start) for start in np.linspace(0, full - part, count)]


def _inside(xy: Floats, window: Window) -> Bools:
    low, size = np.array([window.x, window.y]), np.array([window.width, window.height])
    return np.asarray(((xy >= low) & (xy < low + size)).all(axis=1))


def _counterpart(xy_a: Floats, xy_b: Floats, shape: tuple[int, ...], side: int) -> Window:
    """The window of b that shows what a crop of a shows: centred on the matches, of their size relative to a."""
    centre = np.median(xy_b, axis=0)
    spread_a, spread_b = (np.median(np.abs(xy - np.median(xy, axis=0)).sum(axis=1)) for xy in (xy_a, xy_b))
    ratio = float(np.clip(spread_b / max(spread_a, 1e-9), 0.5, 2.0))
    size = side if 0.85 < ratio < 1.18 else round(side * ratio)  # pixels as they are, where sizes are about the same
    height, width = min(size, shape[0]), min(size, shape[1])
    x = int(np.clip(round(centre[0] - width / 2), 0, shape[1] - width))
    y = int(np.clip(round(centre[1] - height / 2), 0, shape[0] - height))
    return Window(x, y, width, height)


def spread(xy: Floats, score: Floats, count: int, shape: tuple[int, ...]) -> Ints:
    """(M,), M <= count, the best of each cell of a grid with about `count` cells over a picture (H, W, ...)."""
    cell = max(1.0, float(np.sqrt(shape[0] * shape[1] / max(count, 1))))
    at = np.floor(xy / cell).astype(np.int64)
    number = at[:, 1] * (int(shape[1] / cell) + 2) + at[:, 0]
    order = np.lexsort((-score, number))
    first = order[np.diff(number[order], prepend=-1) != 0]
    return np.sort(first[np.argsort(-score[first], kind="stable")][:count])
