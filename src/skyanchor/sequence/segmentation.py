"""Masks of street photos from a segmentation network that the user has: sky, people and vehicles are left out.

The network is an ONNX file, which holds numbers and a graph but no code; OpenCV runs it on the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from skyanchor.bounds import CountOrNone, Pixels, Radius, Share
from skyanchor.errors import BackendError, InputError
from skyanchor.events import Listener, Progress, silent
from skyanchor.photos import read_pixels
from skyanchor.sequence.loading import find_photos
from skyanchor.storage import files
from skyanchor.types import Bools, Bytes, Floats32, Ints

CITYSCAPES = (10, 11, 12, 13, 14, 15, 16, 17, 18)
"""Sky, person, rider, car, truck, bus, train, motorcycle, bicycle as the 19 Cityscapes training classes number them."""
MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet's colours, 0..1, which such networks are trained with."""


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


def load_network(model: Path) -> Any:
    """The network of an ONNX file."""
    if not model.is_file():
        raise InputError(model, "does not exist", "Give a segmentation network as an .onnx file.")
    try:
        return cv2.dnn.readNetFromONNX(str(model))
    except cv2.error as error:
        raise BackendError(
            f"{model} is no network that OpenCV can read ({error.err}). Export it to ONNX again"
        ) from error


def labels_of(network: Any, pixels: Bytes, config: SegmentationConfig) -> Ints:
    """(H, W), the class of every pixel of a photo (H, W, 3)."""
    network.setInput(_blob(pixels, config))
    try:
        scores = np.asarray(network.forward())
    except cv2.error as error:
        raise BackendError(
            f"The segmentation network cannot be run ({error.err}). Export it for one picture"
        ) from error
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


def _blob(pixels: Bytes, config: SegmentationConfig) -> Floats32:
    """(1, 3, h, w), colours as the network was trained with."""
    height, width = pixels.shape[:2]
    scale = min(1.0, config.longest / max(height, width))
    size = [max(config.multiple, round(side * scale / config.multiple) * config.multiple) for side in (width, height)]
    small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA).astype(np.float32) / 255.0
    normal = (small - np.array(MEAN, np.float32)) / np.array(SPREAD, np.float32)
    return np.ascontiguousarray(normal.transpose(2, 0, 1)[None], dtype=np.float32)


def _png(keep: Bools) -> bytes:
    return bytes(cv2.imencode(".png", keep.astype(np.uint8) * 255)[1])
