"""Depth maps of street photos that other programs have written: where they lie and how they are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from skyanchor.errors import InputError
from skyanchor.photos import decoded, photo_size
from skyanchor.storage import foreign
from skyanchor.types import Floats32

ADVICE = "A depth map is (height, width), numbers above 0."
DEPTH_ENDINGS = (".npz", ".npy", ".png")
PNG_STEP = 0.001
"""Units of depth per step of a 16-bit image."""


def find_depth(folder: Path, number: int, name: str) -> Path | None:
    """The depth map of a frame, named like its photo or by its index; None without one."""
    stems = (name, Path(name).stem, str(number), f"{number:04d}", f"{number:06d}")
    candidates = (folder / f"{stem}{ending}" for stem in stems for ending in DEPTH_ENDINGS)
    return next((path for path in candidates if foreign.is_there(path, ADVICE)), None)


def check_depth(folder: Path, names: Sequence[str]) -> None:
    """InputError for a folder that holds no depth map of any frame, or whose first one cannot be read."""
    if not folder.is_dir():
        raise InputError(folder, "is no folder", "Give the folder with the depth maps of the street photos.")
    found = (find_depth(folder, number, name) for number, name in enumerate(names))
    first = next((path for path in found if path is not None), None)
    if first is None:
        advice = f"Name them like the photos: {names[0]}.npz, .npy or .png."
        raise InputError(folder, f"has no depth map of the walk's {len(names)} photos", advice)
    read_depth(first)


def read_depth(path: Path, png_step: float = PNG_STEP) -> tuple[Floats32, Floats32 | None]:
    """((h, w) depth, 0 = none; (h, w) confidence where the file holds one)."""
    if path.suffix in (".npz", ".npy"):
        held = foreign.read_arrays(path, ADVICE)
        depth = held.get("depth", next(iter(held.values()), np.empty(0)))
        confidence = plane(path, held["confidence"]) if "confidence" in held else None
    else:
        depth, confidence = png_values(path).astype(np.float32) * np.float32(png_step), None
    depth = plane(path, depth)
    return np.where(np.isfinite(depth) & (depth > 0), depth, np.float32(0.0)), confidence


def plane(path: Path, values: npt.NDArray[Any]) -> Floats32:
    """(h, w) of an array of numbers with perhaps more axes of one; InputError for any other."""
    if values.dtype.kind not in "fiub" or values.squeeze().ndim != 2:
        raise InputError(path, f"has shape {values.shape} of {values.dtype}", ADVICE)
    return np.asarray(values, np.float32).squeeze()


def png_values(path: Path) -> npt.NDArray[Any]:
    """(h, w), the numbers of a picture with one channel as they are; InputError for any other file."""
    photo_size(path)
    image = decoded(path, np.fromfile(path, dtype=np.uint8), cv2.IMREAD_UNCHANGED)
    if image is None or image.ndim != 2:
        raise InputError(path, "is no depth map", "A .png needs one channel of 16 bits.")
    return np.asarray(image)
