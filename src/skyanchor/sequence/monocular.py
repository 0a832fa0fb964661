"""Depth maps of street photos from a monocular network that the user has, for anchor groups that hardly move."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from skyanchor.bounds import Pixels, Radius
from skyanchor.errors import BackendError
from skyanchor.events import Listener, Progress, silent
from skyanchor.photos import read_pixels
from skyanchor.sequence.loading import find_photos
from skyanchor.sequence.networks import answer_of, load_network
from skyanchor.storage import files
from skyanchor.types import Bytes, Floats32

FOLDER = "depth"


@dataclass(frozen=True)
class MonocularConfig:
    """How the network wants its pictures, and what it answers with."""

    longest: Pixels = 518
    """Longer side that photos are shrunk to, pixels."""
    multiple: Radius = 14
    """Both sides are rounded to multiples of this, pixels; that of vision transformers."""
    inverse: bool = False
    """Whether the network answers with inverse depth."""


def write_depth(ground: Path, model: Path, config: MonocularConfig, listen: Listener = silent) -> Path:
    """The folder depth/ beside the photos with one map per photo, each in units of its own; old ones stay."""
    folder, photos = find_photos(ground)
    network = load_network(model)
    out = folder.parent / FOLDER
    for k, photo in enumerate(photos):
        target = out / f"{photo.name}.npz"
        if not target.is_file():
            files.write_bytes(target, _npz(depth_of(network, read_pixels(photo), config)))
        listen(Progress(FOLDER, "photos", k + 1, len(photos)))
    return out


def depth_of(network: Any, pixels: Bytes, config: MonocularConfig) -> Floats32:
    """(h, w), depth of a photo (H, W, 3) as the network sees it, 0 = none."""
    answer = answer_of(network, pixels, config.longest, config.multiple).squeeze()
    if answer.ndim != 2:
        raise BackendError(
            f"The network answers with {' x '.join(map(str, answer.shape))} numbers: a depth map is height x width. "
            "Export it with depth alone"
        )
    known = np.isfinite(answer) & (answer > 0.0)
    if not known.any():
        raise BackendError("The network finds no depth above 0. Give one that was trained for depth")
    with np.errstate(divide="ignore"):
        depth = 1.0 / answer if config.inverse else answer
    return np.where(known & np.isfinite(depth), depth, np.float32(0.0)).astype(np.float32)


def _npz(depth: Floats32) -> bytes:
    held = io.BytesIO()
    np.savez_compressed(held, depth=depth.astype(np.float16 if depth.max() < 6e4 else np.float32))
    return held.getvalue()
