"""Cross-view matches of the anchor groups as pictures: a street photo over a part of an aerial photo, and lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from skyanchor.photos import load_photo, resized
from skyanchor.report.content import MatchLine, MatchPicture
from skyanchor.report.drawings import data_uri
from skyanchor.types import Anchors, Bytes, Camera, CrossView, Floats, LocalisedGroup, View

WIDTH = 560
"""Of both pictures, pixels."""
SHAPE = 0.62
"""Height over width of the aerial part."""
MARGIN = 0.2
"""Kept on every side of the matches, share of their extent."""
LEAST_PX = 160.0
"""Width of the aerial part in its photo, at least, pixels."""
MOST_PICTURES = 40
"""In the page, some 80 kB each."""
QUALITY = 78


@dataclass(frozen=True, eq=False)
class StreetPhotos:
    """Where the street photos lie and how they were taken."""

    names: tuple[str, ...]
    """Per frame of the sequence."""
    paths: Mapping[str, Path]
    camera: Camera
    """With its distortion."""


@dataclass(frozen=True, eq=False)
class Pair:
    """What one street frame and one aerial photo of a group have in common."""

    group: LocalisedGroup
    frame: int
    view: int
    matches: CrossView


@dataclass(frozen=True, eq=False)
class Part:
    """A picture and where it lies in its photo: picture = (photo - corner) * scale."""

    pixels: Bytes
    corner: Floats
    scale: float


def match_pictures(anchors: Anchors, views: tuple[View, ...], street: StreetPhotos) -> tuple[MatchPicture, ...]:
    """One picture per pair of photos: every group's first before any group's second, in the order of the groups."""
    found = [pairs_of(group) for group in anchors.groups]
    turns = [
        pair for turn in range(max(map(len, found), default=0)) for pairs in found for pair in pairs[turn : turn + 1]
    ]
    there = [pair for pair in turns if street.names[pair.frame] in street.paths and views[pair.view].path.is_file()]
    chosen = sorted(there[:MOST_PICTURES], key=lambda pair: pair.group.group.index)
    return tuple(_picture(pair, views[pair.view], street) for pair in chosen)


def pairs_of(group: LocalisedGroup) -> list[Pair]:
    """The pairs of photos that a group's matches join, in their order."""
    held = group.cross_view
    if held is None:
        return []
    keys = list(dict.fromkeys(zip(held.frame.tolist(), held.view.tolist(), strict=True)))
    return [Pair(group, frame, view, _rows(held, frame, view)) for frame, view in keys]


def _rows(held: CrossView, frame: int, view: int) -> CrossView:
    keep = (held.frame == frame) & (held.view == view)
    parts = (held.frame, held.ground_xy, held.view, held.aerial_xy, held.residual_px, held.agrees)
    return CrossView(*(part[keep] for part in parts))


def _picture(pair: Pair, view: View, street: StreetPhotos) -> MatchPicture:
    name, held = street.names[pair.frame], pair.matches
    below, above = _whole(name, street), _part(view, held.aerial_xy)
    a, b = (held.ground_xy - below.corner) * below.scale, (held.aerial_xy - above.corner) * above.scale
    return MatchPicture(
        group=pair.group.group.index,
        accepted=pair.group.accepted,
        frame=name,
        aerial_name=view.name,
        street=data_uri(below.pixels, QUALITY),
        street_size=(below.pixels.shape[1], below.pixels.shape[0]),
        aerial=data_uri(above.pixels, QUALITY),
        aerial_size=(above.pixels.shape[1], above.pixels.shape[0]),
        lines=tuple(_line(*row) for row in zip(a, b, held.agrees, held.residual_px, strict=True)),
    )


def _line(a: Floats, b: Floats, agrees: bool, residual_px: float) -> MatchLine:
    ends = [round(float(value), 1) for value in (*a, *b)]
    return MatchLine(ends[0], ends[1], ends[2], ends[3], bool(agrees), float(residual_px))


def _whole(name: str, street: StreetPhotos) -> Part:
    """The street photo, undistorted."""
    photo, _ = load_photo(name, street.paths[name], street.camera, WIDTH)
    return Part(_enlarged(photo.pixels), np.zeros(2), WIDTH / street.camera.width)


def _part(view: View, xy: Floats) -> Part:
    """The part of an undistorted aerial photo that holds the pixels xy (N, 2)."""
    photo, camera = load_photo(view.name, view.path, view.camera, view.camera.width)
    size = np.array([camera.width, camera.height], dtype=np.float64)
    low, high = np.clip(xy.min(axis=0), 0, size), np.clip(xy.max(axis=0), 0, size)
    extent = (1.0 + 2.0 * MARGIN) * (high - low)
    width = min(max(extent[0], extent[1] / SHAPE, LEAST_PX), size[0], size[1] / SHAPE)
    box = np.array([width, SHAPE * width])
    corner = np.clip((low + high - box) / 2.0, 0.0, size - box).round()
    right, lower = np.minimum(corner + box, size).round().astype(int)
    pixels = photo.pixels[int(corner[1]) : lower, int(corner[0]) : right]
    return Part(_enlarged(pixels), corner, WIDTH / pixels.shape[1])


def _enlarged(pixels: Bytes) -> Bytes:
    """The part at the picture's width; smooth where it has fewer pixels."""
    if pixels.shape[1] >= WIDTH:
        return resized(np.ascontiguousarray(pixels), WIDTH)
    height = max(1, round(pixels.shape[0] * WIDTH / pixels.shape[1]))
    return np.asarray(cv2.resize(pixels, (WIDTH, height), interpolation=cv2.INTER_CUBIC), dtype=np.uint8)
