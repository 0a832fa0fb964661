"""Photos that are stored sideways, turned as their EXIF says: matching and gravity need them upright."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image, ImageOps

from skyanchor.errors import InputError
from skyanchor.photos import find_mask, opened, photo_size, read_pixels
from skyanchor.sequence.copies import Copies
from skyanchor.storage import codec
from skyanchor.storage.names import names_for

QUALITY = 97
ORIENTATION = 0x0112
"""The EXIF tag."""
DEEP = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")
"""Kinds of pixels of more than 8 bits, which Pillow cuts off at 255 instead of scaling them."""


def write_upright(folder: Path, photos: list[Path], target: Copies) -> list[Path]:
    """Upright copies (JPEG) in images/, masks in masks/, same names; the originals are not touched."""
    copies = target.paths(names_for([photo.name for photo in photos], ".jpg"))
    for photo, copy in zip(photos, copies, strict=True):
        _write_one(folder, photo, copy, target)
    return copies


def _write_one(folder: Path, photo: Path, copy: Path, target: Copies) -> None:
    photo_size(photo)
    try:
        with opened(photo) as image:
            tag = image.getexif().get(ORIENTATION, 1)
            deep = Image.fromarray(read_pixels(photo)) if image.mode in DEEP else image.convert("RGB")
            deep.getexif()[ORIENTATION] = tag
            upright = ImageOps.exif_transpose(deep)
    except codec.UNREADABLE as error:
        advice = "Write the photo anew without EXIF, or take it out of the folder."
        raise InputError(photo, f"cannot be turned upright as its EXIF says ({error})", advice) from error
    target.write(copy, _encoded(upright, "JPEG", quality=QUALITY, subsampling=0))
    mask = find_mask(folder, photo.name)
    if mask is not None:
        with opened(mask) as image:
            image.getexif()[ORIENTATION] = tag
            target.write(target.written / "masks" / f"{copy.name}.png", _encoded(ImageOps.exif_transpose(image), "PNG"))


def _encoded(image: Image.Image, kind: str, **options: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=kind, **options)
    return buffer.getvalue()
