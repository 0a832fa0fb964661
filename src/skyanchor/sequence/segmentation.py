"""Masks of street photos from a segmentation network that the user has: sky, people and vehicles are left out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from skyanchor.bounds import CountOrNone, Pixels, Radius, Share
from skyanchor.events import Listener, Progress, silent
from skyanchor.photos import read_pixels
from skyanchor.sequence.loading import find_photos
from skyanchor.sequence.networks import answer_of, load_network
from skyanchor.storage import files
from skyanchor.types import Bools, Bytes, Ints

CITYSCAPES = (10, 11, 12, 13, 14, 15, 16, 17, 18)
"""Sky, person, rider, car, truck, bus, train, motorcycle, bicycle as the 19 Cityscapes training classes number them."""


@dataclass(frozen=True)
class SegmentationConfig:
    """What is masked, and how the network wants its pictures."""

    ignore: tuple[CountOrNone, ...] = CITYSCAPES
    """Classes that photos must not be used in."""
    longest: Pixels = 1024
    """Longer side that photos are shrunk to, pixels."""
    multiple: Radius = 32
    """Both sides are rounded to multiples of this, pixels."""
    grow: Share = 0.004
    """Width by which masked regions are widened, over the longer side of the photo."""


def write_masks(ground: Path, model: Path, config: SegmentationConfig, listen: Listener = silent) -> Path:
    """The folder masks/ beside the photos with one mask per photo, black where it must not be used; old ones stay."""
    folder, photos = find_photos(ground)
    network = load_network(model)
    out = folder.parent / "masks"
    for k, photo in enumerate(photos):
        target = out / f"{photo.name}.png"
        if not target.is_file():
            keep = usable(labels_of(network, read_pixels(photo), config), config)
            files.write_bytes(target, _png(keep))
        listen(Progress("masks", "photos", k + 1, len(photos)))
    return out


def labels_of(network: Any, pixels: Bytes, config: SegmentationConfig) -> Ints:
    """(H, W), the class of every pixel of a photo (H, W, 3)."""
    scores = answer_of(network, pixels, config.longest, config.multiple)
    scores = scores.reshape(scores.shape[-3:]) if scores.ndim >= 3 else scores[None]
    height, width = pixels.shape[:2]
    if len(scores) == 1:  # classes, not scores
        whole = cv2.resize(np.rint(scores[0]).astype(np.float32), (width, height), interpolation=cv2.INTER_NEAREST)
        return np.asarray(whole, dtype=np.int64)
    best = np.full((height, width), -np.inf, np.float32)
    labels = np.zeros((height, width), np.int64)
    for number, score in enumerate(scores):
        whole = cv2.resize(score.astype(np.float32), (width, height), interpolation=cv2.INTER_LINEAR)
        labels[whole > best] = number
        best = np.maximum(best, whole)
    return labels


def usable(labels: Ints, config: SegmentationConfig) -> Bools:
    """(H, W), True where no ignored class is at the pixel or next to it."""
    ignored = np.isin(labels, config.ignore).astype(np.uint8)
    radius = round(config.grow * max(labels.shape))
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
    return np.asarray(cv2.dilate(ignored, disc) == 0)


def _png(keep: Bools) -> bytes:
    return bytes(cv2.imencode(".png", keep.astype(np.uint8) * 255)[1])
