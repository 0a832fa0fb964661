"""Photos that are stored sideways, turned as their EXIF says: matching and gravity need them upright."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image, ImageOps

from skyanchor.errors import InputError
from skyanchor.photos import find_mask, opened, photo_size
from skyanchor.storage import codec, files

QUALITY = 97
ORIENTATION = 0x0112
"""The EXIF tag."""


def write_upright(folder: Path, photos: list[Path], target: Path) -> list[Path]:
    """Upright copies (JPEG) in target/images, masks in target/masks, same names; the originals are not touched."""
    names = files.names_for([photo.name for photo in photos], ".jpg")
    copies = [target / "images" / name for name in names]
    for photo, copy in zip(photos, copies, strict=True):
        _write_one(folder, photo, copy, target / "masks" / f"{copy.name}.png")
    return copies


def _write_one(folder: Path, photo: Path, copy: Path, mask_copy: Path) -> None:
    photo_size(photo)
    try:
        with opened(photo) as image:
            tag = image.getexif().get(ORIENTATION, 1)
            upright = ImageOps.exif_transpose(image).convert("RGB")
    except codec.UNREADABLE as error:
        advice = "Write the photo anew without EXIF, or take it out of the folder."
        raise InputError(photo, f"cannot be turned upright as its EXIF says ({error})", advice) from error
    files.write_bytes(copy, _encoded(upright, "JPEG", quality=QUALITY, subsampling=0))
    mask = find_mask(folder, photo.name)
    if mask is not None:
        with opened(mask) as image:
            image.getexif()[ORIENTATION] = tag
            files.write_bytes(mask_copy, _encoded(ImageOps.exif_transpose(image), "PNG"))


def _encoded(image: Image.Image, kind: str, **options: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=kind, **options)
    return buffer.getvalue()
