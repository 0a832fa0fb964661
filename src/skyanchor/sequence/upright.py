"""Photos that are stored sideways, turned as their EXIF says: matching and gravity need them upright."""

from __future__ import annotations

from pathlib import Path

from PIL import ImageOps

from skyanchor.errors import InputError
from skyanchor.photos import find_mask, opened, photo_size
from skyanchor.storage import codec

QUALITY = 97


def write_upright(folder: Path, photos: list[Path], target: Path) -> list[Path]:
    """Upright copies (JPEG) in target/images, masks in target/masks, same names; the originals are not touched."""
    images, masks = target / "images", target / "masks"
    images.mkdir(parents=True, exist_ok=True)
    return [_write_one(folder, photo, images, masks) for photo in photos]


def _write_one(folder: Path, photo: Path, images: Path, masks: Path) -> Path:
    copy = images / f"{photo.stem}.jpg"
    photo_size(photo)
    try:
        with opened(photo) as image:
            tag = image.getexif().get(0x0112, 1)
            upright = ImageOps.exif_transpose(image).convert("RGB")
    except codec.UNREADABLE as error:
        advice = "Write the photo anew without EXIF, or take it out of the folder."
        raise InputError(photo, f"cannot be turned upright as its EXIF says ({error})", advice) from error
    upright.save(copy, quality=QUALITY, subsampling=0)
    mask = find_mask(folder, photo.name)
    if mask is not None:
        masks.mkdir(parents=True, exist_ok=True)
        with opened(mask) as image:
            image.getexif()[0x0112] = tag
            ImageOps.exif_transpose(image).save(masks / f"{copy.name}.png")
    return copy
