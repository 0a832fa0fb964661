"""Depth maps of street photos that other programs have written: where they lie and how they are read."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from skyanchor.errors import InputError
from skyanchor.types import Floats32

DEPTH_ENDINGS = (".npz", ".npy", ".png")
PNG_STEP = 0.001
"""Units of depth per step of a 16-bit image."""


def find_depth(folder: Path, number: int, name: str) -> Path | None:
    """The depth map of a frame, named like its photo or by its index; None without one."""
    stems = (name, Path(name).stem, str(number), f"{number:04d}", f"{number:06d}")
    candidates = (folder / f"{stem}{ending}" for stem in stems for ending in DEPTH_ENDINGS)
    return next((path for path in candidates if path.is_file()), None)


def read_depth(path: Path, png_step: float = PNG_STEP) -> tuple[Floats32, Floats32 | None]:
    """((h, w) depth, 0 = none; (h, w) confidence where the file holds one)."""
    confidence = None
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as held:
            depth = held["depth" if "depth" in held else held.files[0]]
            confidence = np.asarray(held["confidence"], np.float32).squeeze() if "confidence" in held else None
    elif path.suffix == ".npy":
        depth = np.load(path, allow_pickle=False)
    else:
        image = cv2.imdecode(np.fromfile(path, dtype=np.uint8), cv2.IMREAD_UNCHANGED)
        if image is None or image.ndim != 2:
            raise InputError(path, "is no depth map", "A .png needs one channel of 16 bits.")
        depth = image.astype(np.float32) * png_step
    depth = np.asarray(depth, np.float32).squeeze()
    if depth.ndim != 2:
        raise InputError(path, f"has shape {depth.shape}", "A depth map is (height, width).")
    return np.where(np.isfinite(depth) & (depth > 0), depth, np.float32(0.0)), confidence
