"""Photos from disk: RGB, resized, undistorted, through a cache that is bounded in bytes."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image

from skyanchor.errors import InputError
from skyanchor.geometry import cameras
from skyanchor.storage import codec, files
from skyanchor.storage.foreign import is_there, memory
from skyanchor.types import Bools, Bytes, Camera, Photo, Sequence

BYTES_PER_PIXEL = 24
"""Memory for a photo that is read and undistorted at its full size, its file included: an estimate."""
PHOTO_SHARE = 0.5
"""Of the machine's memory that one photo may take."""
LONGEST_NAME = 200
"""Bytes of a photo's name; systems take 255, and files that belong to it have longer names."""
NO_LETTER = ("Cc", "Cs", "Zl", "Zp")
"""Unicode's controls, bytes that are no UTF-8, breaks of lines and paragraphs."""
KNOWN = ("JPEG", "MPO", "PNG")
"""Kinds of files that OpenCV reads as Pillow does; of others it cannot read all."""
MOST_PER_BYTE = 1 << 14
"""Pixels per byte of a file: an even grey PNG of one bit has half of it."""
OPENCV_PIXELS = 1 << 30
"""OpenCV reads no more."""

_PILLOW = threading.Lock()
"""Held while Pillow's own limit is set aside."""


def largest_photo() -> int:
    """Pixels of the largest photo that this machine can read."""
    return min(OPENCV_PIXELS, int(PHOTO_SHARE * memory() / BYTES_PER_PIXEL))


@contextmanager
def opened(path: Path) -> Iterator[Image.Image]:
    """An image file, opened for its header whatever its size: memory decides what is too large, not Pillow."""
    with _PILLOW:
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            image = Image.open(path)
        finally:
            Image.MAX_IMAGE_PIXELS = limit
    with image:
        yield image


def decoded(path: Path, data: Bytes, flags: int) -> Any:
    """What OpenCV makes of a file's bytes; None where that is no image."""
    try:
        return cv2.imdecode(data, flags)
    except cv2.error as error:
        advice = "Copy the file again, or use smaller ones."
        raise InputError(path, f"cannot be decoded ({error.err})", advice) from error


def read_pixels(path: Path) -> Bytes:
    """(H, W, 3) RGB of an image file."""
    data = np.fromfile(path, dtype=np.uint8) if path.is_file() else np.empty(0, np.uint8)
    image = decoded(path, data, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION) if data.size else None
    if image is None:
        raise InputError(
            path, "cannot be read as an image", "Check that the file exists and is a complete JPEG or PNG."
        )
    return np.ascontiguousarray(image[..., ::-1])


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key in which frame2 comes before frame10: runs of digits are numbers, letters have no case."""
    parts = re.split(r"(\d+)", name)
    numbers = {part: part.lstrip("0") for part in parts if part.isdecimal()}
    key = [(0, len(numbers[p]), numbers[p]) if p in numbers else (1, 0, p.casefold()) for p in parts if p]
    return (*key, (-1, 0, name))


def photo_size(path: Path) -> tuple[int, int]:
    """(width, height) from the file's header; InputError when it is missing, no image, or cut off before its end."""
    if not path.is_file():
        raise InputError(path, "does not exist", "Give the folder with the photos, complete.")
    try:
        with opened(path) as image:
            size = image.size
            refuse_too_large(path, size)
            if not _ends_well(path, image.format):
                _decode(path, image)
    except codec.UNREADABLE as error:
        problem = "is cut off before its end" if "truncated" in str(error) else "cannot be read as an image"
        raise InputError(path, problem, "Copy the photo again, or take it out of the folder.") from error
    return size


def _decode(path: Path, image: Image.Image) -> None:
    """Decode a photo to its end; an error where that fails, be it only with OpenCV, which reads it later."""
    if image.format not in KNOWN:
        read_pixels(path)
        return
    image.draft("L", (max(1, image.width // 8), max(1, image.height // 8)))  # a JPEG decodes 8x smaller, to its end
    image.load()


def refuse_too_large(path: Path, size: tuple[int, int]) -> None:
    """InputError for a photo that does not fit into the memory of this machine, or cannot be as large as it says."""
    most = largest_photo()
    if size[0] * size[1] > most:
        problem = f"has {size[0] * size[1] / 1e6:.0f} megapixels, and this machine can read {most / 1e6:.0f}"
        raise InputError(path, problem, "Use a machine with more memory, or rescale photos and model.")
    if size[0] * size[1] > MOST_PER_BYTE * path.stat().st_size:
        problem = f"says that it is {size[0]}x{size[1]}, and has {path.stat().st_size} bytes"
        raise InputError(path, problem, "Copy the photo again, or take it out of the folder.")


def _ends_well(path: Path, kind: str | None) -> bool:
    """Whether the last bytes are those of a complete JPEG or PNG; False leaves it to the decoder."""
    ending = {"JPEG": b"\xff\xd9", "MPO": b"\xff\xd9", "PNG": b"IEND\xaeB`\x82"}.get(kind or "")
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        return ending is not None and file.read().rstrip(b"\0").endswith(ending)


def refuse_odd_name(where: Path, name: str) -> None:
    """InputError for a photo whose name is no text of one line, or leaves no room for names of files that belong to it.

    Models, trajectories and lists of photos are text: a line break in a name would break them.
    """
    if any(unicodedata.category(letter) in NO_LETTER for letter in name):
        raise InputError(where, f"has a photo named {name!r}, which is no line of text", "Rename the photo.")
    longest = max(len(part.encode(errors="replace")) for part in name.split("/"))
    if longest > LONGEST_NAME:
        problem = f"{name[:40]}... has a name of {longest} bytes"
        raise InputError(where, problem, f"Rename the photo: {LONGEST_NAME} are the most that can be worked with.")


def find_mask(images: Path, name: str) -> Path | None:
    """masks/<name>.png beside the image folder (or masks/<name without extension>.png), None without one."""
    masks = images.parent / "masks"
    for candidate in (masks / f"{name}.png", masks / Path(name).with_suffix(".png")):
        if is_there(candidate, "Put the mask there, or take it away."):
            return candidate
    return None


def read_mask(path: Path, width: int, height: int) -> Bools:
    """(H, W), True where the mask is not black; InputError for one of another size than its photo."""
    pixels = read_pixels(path)
    if pixels.shape[:2] != (height, width):
        problem = f"is {pixels.shape[1]}x{pixels.shape[0]} but its photo is {width}x{height}"
        raise InputError(path, problem, "Give masks of the photos' size.")
    return pixels.max(axis=2) > 0


def read_frame(sequence: Sequence, frame: int) -> Photo:
    """A frame's photo as it is on disk, with its mask."""
    held = sequence.frames[frame]
    pixels = read_pixels(held.path)
    mask = None if held.mask_path is None else read_mask(held.mask_path, pixels.shape[1], pixels.shape[0])
    return Photo(held.name, pixels, mask)


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
        grey = read_mask(mask_path, camera.width, camera.height).astype(np.uint8) * 255
        flat = np.repeat(grey[..., None], 3, axis=2)
        mask = resized(cameras.undistort(flat, camera), target.width)[..., 0] > 127
    return Photo(name, image, mask), target


@dataclass
class PhotoCache:
    """Photos, each read once for a camera, a width and a mask while its file stays the same, for any number of threads.

    It forgets the least recently used beyond `limit_bytes`.
    """

    limit_bytes: int = 1 << 30
    _held: OrderedDict[tuple[object, ...], tuple[Photo, Camera]] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def photo(
        self, name: str, path: Path, camera: Camera, width: int, mask_path: Path | None = None
    ) -> tuple[Photo, Camera]:
        """As `load_photo`, from memory when it is still there."""
        key = (path, files.mark(path), camera, width, mask_path, "" if mask_path is None else files.mark(mask_path))
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
