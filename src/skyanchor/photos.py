"""Photos from disk: RGB, resized, undistorted, through a cache that is bounded in bytes."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, UnidentifiedImageError

from skyanchor.errors import InputError
from skyanchor.geometry import cameras
from skyanchor.types import Bools, Bytes, Camera, Photo, Sequence


def read_pixels(path: Path) -> Bytes:
    """(H, W, 3) RGB of an image file."""
    data = np.fromfile(path, dtype=np.uint8) if path.is_file() else np.empty(0, np.uint8)
    image = cv2.imdecode(data, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION) if data.size else None
    if image is None:
        raise InputError(
            path, "cannot be read as an image", "Check that the file exists and is a complete JPEG or PNG."
        )
    return np.ascontiguousarray(image[..., ::-1])


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key in which frame2 comes before frame10: runs of digits are numbers, letters have no case."""
    parts = re.split(r"(\d+)", name)
    key = [(0, int(part), "") if part.isdecimal() else (1, 0, part.casefold()) for part in parts if part]
    return (*key, (-1, 0, name))


def photo_size(path: Path) -> tuple[int, int]:
    """(width, height) from the file's header; InputError when it is missing, no image, or cut off before its end."""
    if not path.is_file():
        raise InputError(path, "does not exist", "Give the folder with the photos, complete.")
    try:
        with Image.open(path) as image:
            size = image.size
            if not _ends_well(path, image.format):
                image.draft("L", (max(1, size[0] // 8), max(1, size[1] // 8)))  # a JPEG decodes 8x smaller, to its end
                image.load()
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        problem = "is cut off before its end" if "truncated" in str(error) else "cannot be read as an image"
        raise InputError(path, problem, "Copy the photo again, or take it out of the folder.") from error
    return size


def _ends_well(path: Path, kind: str | None) -> bool:
    """Whether the last bytes are those of a complete JPEG or PNG; False leaves it to the decoder."""
    ending = {"JPEG": b"\xff\xd9", "MPO": b"\xff\xd9", "PNG": b"IEND\xaeB`\x82"}.get(kind or "")
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        return ending is not None and file.read().rstrip(b"\0").endswith(ending)


def find_mask(images: Path, name: str) -> Path | None:
    """masks/<name>.png beside the image folder (or masks/<name without extension>.png), None without one."""
    masks = images.parent / "masks"
    for candidate in (masks / f"{name}.png", masks / Path(name).with_suffix(".png")):
        if candidate.is_file():
            return candidate
    return None


def read_mask(path: Path) -> Bools:
    """(H, W), True where the mask is not black."""
    return read_pixels(path).max(axis=2) > 0


def read_frame(sequence: Sequence, frame: int) -> Photo:
    """A frame's photo as it is on disk, with its mask."""
    held = sequence.frames[frame]
    mask = None if held.mask_path is None else read_mask(held.mask_path)
    return Photo(held.name, read_pixels(held.path), mask)


def resized(pixels: Bytes, width: int) -> Bytes:
    """The image at another width, aspect kept; area average when it shrinks."""
    height = max(1, round(pixels.shape[0] * width / pixels.shape[1]))
    if pixels.shape[:2] == (height, width):
        return pixels
    how = cv2.INTER_AREA if width < pixels.shape[1] else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(pixels, (width, height), interpolation=how), dtype=np.uint8)


def load_photo(
    name: str, path: Path, camera: Camera, width: int, mask_path: Path | None = None
) -> tuple[Photo, Camera]:
    """The photo undistorted and at most `width` pixels wide, and its PINHOLE camera."""
    pixels = read_pixels(path)
    if pixels.shape[:2] != (camera.height, camera.width):
        size = f"{pixels.shape[1]}x{pixels.shape[0]}"
        raise InputError(
            path,
            f"is {size} but its camera says {camera.width}x{camera.height}",
            "Give the images that the model was made from, or rescale the model.",
        )
    target = cameras.undistorted(cameras.scaled(camera, min(width, camera.width)))
    image = resized(cameras.undistort(pixels, camera), target.width)
    mask = None
    if mask_path is not None:
        grey = read_mask(mask_path).astype(np.uint8) * 255
        flat = np.repeat(grey[..., None], 3, axis=2)
        mask = resized(cameras.undistort(flat, camera), target.width)[..., 0] > 127
    return Photo(name, image, mask), target


@dataclass
class PhotoCache:
    """Photos by path and width, for any number of threads; forgets the least recently used beyond `limit_bytes`."""

    limit_bytes: int = 1 << 30
    _held: OrderedDict[tuple[Path, int], tuple[Photo, Camera]] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def photo(
        self, name: str, path: Path, camera: Camera, width: int, mask_path: Path | None = None
    ) -> tuple[Photo, Camera]:
        """As `load_photo`, from memory when it is still there."""
        key = (path, width)
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        loaded = load_photo(name, path, camera, width, mask_path)
        with self._lock:
            if key not in self._held:
                self._held[key] = loaded
                self._bytes += loaded[0].pixels.nbytes
            while self._bytes > self.limit_bytes and len(self._held) > 1:
                _, (old, _) = self._held.popitem(last=False)
                self._bytes -= old.pixels.nbytes
        return loaded
