"""Intrinsics of the ground camera: as given, from EXIF, or a stated guess."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pycolmap
from PIL import ExifTags

from skyanchor.errors import InputError
from skyanchor.geometry import colmap
from skyanchor.geometry.cameras import plausible_focal, plausible_lens, plausible_params
from skyanchor.photos import opened
from skyanchor.storage import codec
from skyanchor.types import Camera

GUESSED_FOCAL = 0.78
"""Focal length of a guess over the longer image side: 28 mm equivalent, what phones film with; 65 degrees across."""
FILM_DIAGONAL_MM = math.hypot(36.0, 24.0)
MOST_DIGITS = 6
"""Of the side of a photo, pixels."""
LONGEST_NAME = 80
"""Characters of a camera's name that are kept."""
EXIF_TIME = "%Y:%m:%d %H:%M:%S"
EXAMPLE = "Expected e.g. PINHOLE,fx,fy,cx,cy or OPENCV,fx,fy,cx,cy,k1,k2,p1,p2 or f=900 (pixels)."


@dataclass(frozen=True)
class Exif:
    """What a photo says about how it was taken."""

    make_model: str
    focal_px: float | None
    """From the 35 mm equivalent or from focal length and sensor resolution, pixels."""
    focal_mm: float | None
    gps: tuple[float, float, float] | None
    """Latitude, longitude (deg), altitude (m)."""
    orientation: int
    """1 = upright; 3, 6, 8 = turned."""
    taken: str = ""
    """When, by the camera's clock: 2026-05-01 14:03:27; empty where it is not said."""


NO_EXIF = Exif("", None, None, None, 1)
"""Of a photo that says nothing, or of a video."""


# --- a camera string --------------------------------------------------------------------------------------------


def parse_camera(text: str, width: int, height: int) -> Camera:
    """The camera a user wrote: MODEL,params in COLMAP order, or f=900 for a pinhole with a centred principal point.

    WIDTHxHEIGHT may follow the model name when the numbers belong to another size of the same images:
    PINHOLE,1920x1080,fx,fy,cx,cy is scaled to the frames' size.
    """
    words = [word.strip() for word in text.replace(" ", ",").split(",") if word.strip()]
    if not words:
        raise _refused(text, "is empty")
    if "=" in words[0]:
        return _short_form(text, words, width, height)
    model = words[0].upper()
    size = (width, height)
    if len(words) > 1 and "x" in words[1].lower():
        size = _size(text, words.pop(1))
    return _resized(text, _checked(text, model, size, _numbers(text, words[1:])), width, height)


def _refused(text: str, problem: str) -> InputError:
    return InputError(f"camera '{text[:LONGEST_NAME]}'", problem, EXAMPLE)


def _short_form(text: str, words: list[str], width: int, height: int) -> Camera:
    """f=.. [cx=.. cy=..] in pixels, or fov=.. across the width in degrees."""
    values: dict[str, float] = {}
    for word in words:
        name, _, number = word.partition("=")
        if name.lower() in values:
            raise _refused(text, f"says {name} twice")
        values[name.lower()] = _numbers(text, [number])[0]
    if unknown := set(values) - {"f", "fov", "cx", "cy"}:
        raise _refused(text, f"unknown {', '.join(sorted(unknown))}")
    if {"f", "fov"} <= set(values):
        raise _refused(text, "says both f and fov")
    if "f" in values:
        focal = values["f"]
    elif "fov" in values and 0.0 < values["fov"] < 180.0:
        focal = width / 2.0 / math.tan(math.radians(values["fov"]) / 2.0)
    else:
        raise _refused(text, "no focal length")
    centre = (values.get("cx", width / 2.0), values.get("cy", height / 2.0))
    return _checked(text, "PINHOLE", (width, height), (focal, focal, *centre))


def _numbers(text: str, words: list[str]) -> tuple[float, ...]:
    try:
        numbers = tuple(float(word) for word in words)
    except ValueError as error:
        raise _refused(text, str(error)) from error
    if not all(math.isfinite(number) for number in numbers):
        raise _refused(text, "a parameter is not finite")
    return numbers


def _size(text: str, word: str) -> tuple[int, int]:
    width, _, height = word.lower().partition("x")
    sides = (width, height)
    if not all(side.isdecimal() and len(side) <= MOST_DIGITS and int(side) > 0 for side in sides):
        raise _refused(text, f"'{word[:LONGEST_NAME]}' is no size like 1920x1080")
    return int(width), int(height)


def _checked(text: str, model: str, size: tuple[int, int], params: tuple[float, ...]) -> Camera:
    if model not in pycolmap.CameraModelId.__members__ or model in ("INVALID", "EQUIRECTANGULAR"):
        raise _refused(text, f"unknown camera model {model}")
    template = pycolmap.Camera.create_from_model_name(1, model, 1.0, *size)
    if len(params) != len(template.params):
        wanted = f"{model} has {len(template.params)} parameters ({template.params_info})"
        raise _refused(text, f"{wanted}, not {len(params)}")
    if not all(plausible_focal(params[k], *size) for k in template.focal_length_idxs()):
        raise _refused(text, "the focal length must be above zero, in pixels, and one that a lens can have")
    if not plausible_params(params):
        raise _refused(text, "a parameter is beyond what a lens can have")
    camera = Camera(model, size[0], size[1], params)
    if not plausible_lens(camera):
        raise _refused(text, "no lens has such a principal point or distortion")
    return camera


def _resized(text: str, camera: Camera, width: int, height: int) -> Camera:
    """The camera at the frames' size; the aspect must agree to a pixel."""
    if (camera.width, camera.height) == (width, height):
        return camera
    if abs(camera.height * width / camera.width - height) > 1.0:
        raise _refused(text, f"{camera.width}x{camera.height} has another aspect than the frames' {width}x{height}")
    other = colmap.to_camera(camera)
    other.rescale(width, height)
    return colmap.from_camera(other)


# --- EXIF and guess ---------------------------------------------------------------------------------------------


def read_exif(path: Path) -> Exif:
    """What the photo's EXIF says; missing tags are None, a photo without EXIF has none at all."""
    try:
        with opened(path) as image:
            tags, size = image.getexif(), image.size
            detail, place = tags.get_ifd(ExifTags.IFD.Exif), tags.get_ifd(ExifTags.IFD.GPSInfo)
            return _understood(tags, detail, place, size)
    except codec.UNREADABLE:
        return NO_EXIF


def _understood(
    tags: Mapping[int, object], detail: Mapping[int, object], place: Mapping[int, object], size: tuple[int, int]
) -> Exif:
    """The tags that say something; cameras write all sorts of things into the others."""
    names = (tags.get(ExifTags.Base.Make, ""), tags.get(ExifTags.Base.Model, ""))
    name = " ".join("".join(c for c in str(name) if c.isprintable()) for name in names).strip()[:LONGEST_NAME]
    focal_mm = _positive(detail.get(ExifTags.Base.FocalLength))
    orientation = tags.get(ExifTags.Base.Orientation, 1)
    turned = orientation if isinstance(orientation, int) and orientation in range(1, 9) else 1
    return Exif(name, _focal_px(detail, size), focal_mm, _gps(place), turned, _taken(detail))


def _positive(value: object) -> float | None:
    """The number when it is one and above zero, within what a camera may mean."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, ArithmeticError):
        return None
    return number if 0.0 < number < 1e6 else None


def _focal_px(detail: Mapping[int, object], size: tuple[int, int]) -> float | None:
    """Focal length in pixels, where it is one that a lens can have."""
    focal = _said_focal_px(detail, size)
    return focal if focal is not None and plausible_focal(focal, *size) else None


def _said_focal_px(detail: Mapping[int, object], size: tuple[int, int]) -> float | None:
    """f35 / 43.27 mm x image diagonal, else f x pixels per millimetre on the sensor."""
    equivalent = _positive(detail.get(ExifTags.Base.FocalLengthIn35mmFilm))
    if equivalent is not None:
        return equivalent / FILM_DIAGONAL_MM * math.hypot(*size)
    focal = _positive(detail.get(ExifTags.Base.FocalLength))
    per_unit = _positive(detail.get(ExifTags.Base.FocalPlaneXResolution))
    unit_mm = {2: 25.4, 3: 10.0, 4: 1.0}.get(int(_positive(detail.get(ExifTags.Base.FocalPlaneResolutionUnit)) or 2))
    if focal is None or per_unit is None or unit_mm is None:
        return None
    return focal * per_unit / unit_mm


def _taken(detail: Mapping[int, object]) -> str:
    """When the photo was taken, empty where that is no time."""
    try:
        when = datetime.strptime(str(detail.get(ExifTags.Base.DateTimeOriginal, "")).strip("\0 "), EXIF_TIME)
    except ValueError:
        return ""
    return when.isoformat(sep=" ")


def _gps(place: Mapping[int, object]) -> tuple[float, float, float] | None:
    """Latitude, longitude (deg), altitude (m, 0 when it is not said)."""
    latitude = _degrees(place.get(ExifTags.GPS.GPSLatitude), place.get(ExifTags.GPS.GPSLatitudeRef), "S")
    longitude = _degrees(place.get(ExifTags.GPS.GPSLongitude), place.get(ExifTags.GPS.GPSLongitudeRef), "W")
    if latitude is None or longitude is None or (latitude == 0.0 and longitude == 0.0):
        return None
    if abs(latitude) > 90.0 or abs(longitude) > 180.0:
        return None
    altitude = _positive(place.get(ExifTags.GPS.GPSAltitude)) or 0.0
    below = place.get(ExifTags.GPS.GPSAltitudeRef) in (1, b"\x01")
    return latitude, longitude, -altitude if below else altitude


def _degrees(value: object, reference: object, negative: str) -> float | None:
    """Degrees, minutes, seconds as one number; None when they are not three numbers."""
    if not isinstance(value, tuple | list) or len(value) != 3:
        return None
    try:
        degrees = sum(float(part) / 60.0**k for k, part in enumerate(value))
    except (TypeError, ValueError, ArithmeticError):
        return None
    return (-degrees if str(reference).upper().startswith(negative) else degrees) if math.isfinite(degrees) else None


def guessed_camera(width: int, height: int) -> Camera:
    """A pinhole with focal length 0.78 x the longer side, to be refined by later stages."""
    focal = GUESSED_FOCAL * max(width, height)
    return Camera("PINHOLE", width, height, (focal, focal, width / 2.0, height / 2.0))


def exif_camera(focal_px: float, width: int, height: int) -> Camera:
    """A pinhole with the focal length of the EXIF."""
    return Camera("PINHOLE", width, height, (focal_px, focal_px, width / 2.0, height / 2.0))
