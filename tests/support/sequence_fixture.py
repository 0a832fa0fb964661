"""Street photos and videos made for the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import ExifTags, Image, TiffImagePlugin

from skyanchor.types import Bytes


def texture(seed: int = 0, width: int = 1200, height: int = 200) -> Bytes:
    """Smooth random blobs with plenty of corners, RGB."""
    noise = np.random.default_rng(seed).integers(0, 255, (height // 5, width // 5, 3), dtype=np.uint8)
    return np.asarray(cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC))


def exif_of(
    make: str | None = None,
    model: str | None = None,
    focal_mm: float | None = None,
    focal_35mm: int | None = None,
    gps: tuple[float, float, float] | None = None,
    orientation: int | None = None,
) -> Image.Exif:
    """EXIF with the tags that are given."""
    exif = Image.Exif()
    for tag, value in ((ExifTags.Base.Make, make), (ExifTags.Base.Model, model)):
        if value is not None:
            exif[tag] = value
    if orientation is not None:
        exif[ExifTags.Base.Orientation] = orientation
    detail: dict[int, Any] = {}
    if focal_mm is not None:
        detail[ExifTags.Base.FocalLength] = TiffImagePlugin.IFDRational(round(focal_mm * 100), 100)
    if focal_35mm is not None:
        detail[ExifTags.Base.FocalLengthIn35mmFilm] = focal_35mm
    if detail:
        exif.get_ifd(ExifTags.IFD.Exif).update(detail)
    if gps is not None:
        exif.get_ifd(ExifTags.IFD.GPSInfo).update(_gps_tags(*gps))
    return exif


def _gps_tags(latitude: float, longitude: float, altitude: float) -> dict[int, Any]:
    def parts(value: float) -> tuple[TiffImagePlugin.IFDRational, ...]:
        value = abs(value)
        minutes = (value - int(value)) * 60
        seconds = (minutes - int(minutes)) * 60
        return tuple(
            TiffImagePlugin.IFDRational(n, d)
            for n, d in ((int(value), 1), (int(minutes), 1), (round(seconds * 1e4), 10000))
        )

    return {
        ExifTags.GPS.GPSLatitudeRef: "S" if latitude < 0 else "N",
        ExifTags.GPS.GPSLatitude: parts(latitude),
        ExifTags.GPS.GPSLongitudeRef: "W" if longitude < 0 else "E",
        ExifTags.GPS.GPSLongitude: parts(longitude),
        ExifTags.GPS.GPSAltitudeRef: b"\x01" if altitude < 0 else b"\x00",
        ExifTags.GPS.GPSAltitude: TiffImagePlugin.IFDRational(round(abs(altitude) * 100), 100),
    }


def write_photo(path: Path, size: tuple[int, int] = (96, 54), exif: Image.Exif | None = None, seed: int = 0) -> None:
    """A textured JPEG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, exif=Image.Exif() if exif is None else exif, quality=90)


def write_walk(folder: Path, count: int, **arguments: Any) -> Path:
    """frame1.jpg, frame2.jpg, ... so that plain sorting is wrong."""
    for k in range(count):
        write_photo(folder / f"frame{k + 1}.jpg", seed=k, **arguments)
    return folder


def write_video(path: Path, steps: list[float], blurred: tuple[int, ...] = (), rate: float = 20.0) -> Path:
    """A pan over a texture: frame k has moved by steps[k] pixels from frame k - 1; some frames are blurred."""
    strip = texture(width=int(sum(steps)) + 500)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), rate, (320, 180))
    assert writer.isOpened()
    at = 0.0
    for k, step in enumerate(steps):
        at += step
        frame = strip[10:190, round(at) : round(at) + 320]
        writer.write(cv2.GaussianBlur(frame, (0, 0), 4.0) if k in blurred else frame)
    writer.release()
    return path
