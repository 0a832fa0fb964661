"""Large coordinates moved to a local frame and back: x_original = x_local + offset, exactly."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pycolmap

from skyanchor.errors import InputError
from skyanchor.storage.files import write_bytes
from skyanchor.types import Floats, Georeference, Pose

FILE_NAME = "georef.json"
ROUNDING_M = 100.0
"""Offsets are multiples of this, so that people can add them in their head."""


@dataclass(frozen=True, eq=False)
class GeoreferenceFile:
    """What a georef.json says."""

    georef: Georeference
    up: Floats | None
    """(3,), unit; None when the file does not say."""


def nothing() -> Georeference:
    """A frame that was not moved."""
    return Georeference(np.zeros(3))


def local_offset(places: Floats, beyond_m: float = 1e4) -> Floats:
    """What to subtract from coordinates so that they are near zero, (3,); zero per axis that is near enough.

    Offsets are whole multiples of 100 m. A double that is a few hundred kilometres from the origin minus such a
    number is exact, and so is adding it again.
    """
    if len(places) == 0:
        return np.zeros(3)
    middle = np.median(places, axis=0)
    return np.where(np.abs(middle) > beyond_m, np.round(middle / ROUNDING_M) * ROUNDING_M, 0.0)


def to_local(cam_from_original: Pose, offset: Floats) -> Pose:
    """cam_from_local of a camera: x_cam = R (x_local + o) + t, so t_local = t + R o."""
    return Pose(cam_from_original.rotation, cam_from_original.translation + cam_from_original.rotation @ offset)


def to_original(cam_from_local: Pose, offset: Floats) -> Pose:
    """cam_from_original: t = t_local - R o."""
    return Pose(cam_from_local.rotation, cam_from_local.translation - cam_from_local.rotation @ offset)


def moved_by(georef: Georeference) -> Floats:
    """What the loader subtracted from the coordinates in the user's files, (3,).

    It equals the offset unless the files came with a georef.json of their own and were local already.
    """
    return georef.offset if georef.moved is None else georef.moved


def local_from_gps(places: Floats, georef: Georeference) -> Floats | None:
    """(N, 3), local metres of latitude, longitude (deg) and height (m); None when nothing says where the frame lies.

    Heights of EXIF GPS may count from the geoid or the ellipsoid, tens of metres apart: trust x and y only.
    """
    transform = pycolmap.GPSTransform()
    if georef.enu_origin is not None:
        return np.asarray(transform.ellipsoid_to_enu(places, *georef.enu_origin), dtype=np.float64) - georef.offset
    utm = re.fullmatch(r"EPSG:(326|327|258)(\d\d)", georef.crs or "")  # 258: ETRS89, within a metre of WGS84
    if utm is None:
        return None
    metres, zone = transform.ellipsoid_to_utm(places)
    northern = bool(np.all(places[:, 0] >= 0))
    if zone != int(utm[2]) or northern != (utm[1] != "327"):
        return None
    return np.asarray(metres, dtype=np.float64) - georef.offset


# --- georef.json ------------------------------------------------------------------------------------------------


def write_georef(folder: Path, georef: Georeference, up: Floats | None = None) -> Path:
    """georef.json in the folder, from which `read_georef` gives the same values back."""
    document: dict[str, Any] = {
        "meaning": "x_original = x_here + offset",
        "offset": [float(v) for v in georef.offset],
        "crs": georef.crs,
        "enu_origin": None,
        "up": None if up is None else [float(v) for v in up],
    }
    if georef.enu_origin is not None:
        document["enu_origin"] = dict(zip(("lat", "lon", "height"), map(float, georef.enu_origin), strict=True))
    path = folder / FILE_NAME
    write_bytes(path, (json.dumps(document, indent=1) + "\n").encode())
    return path


def read_georef(path: Path) -> GeoreferenceFile:
    """What a georef.json says: `offset`, `crs`, `enu_origin` {lat, lon, height} and `up` are all optional."""
    try:
        document = json.loads(path.read_text())
        if not isinstance(document, dict):
            raise ValueError("it is not a JSON object")
        offset = _vector(document.get("offset"), "offset")
        up = _vector(document.get("up"), "up")
        origin = _origin(document.get("enu_origin"))
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise InputError(
            path, f"cannot be understood ({error})", 'Expected {"offset": [x, y, z], "crs": "EPSG:32633"}.'
        ) from error
    crs = document.get("crs")
    if up is not None:
        up = up / np.linalg.norm(up)
    georef = Georeference(np.zeros(3) if offset is None else offset, None if crs is None else str(crs), origin)
    return GeoreferenceFile(georef, up)


def find_georef(*folders: Path) -> Path | None:
    """The first georef.json in these folders."""
    return next((folder / FILE_NAME for folder in folders if (folder / FILE_NAME).is_file()), None)


def _vector(value: Any, name: str) -> Floats | None:
    if value is None:
        return None
    vector = np.array(value, dtype=np.float64)
    if vector.shape != (3,) or not np.all(np.isfinite(vector)) or (name == "up" and not np.any(vector)):
        raise ValueError(f"{name} is not three numbers")
    return vector


def _origin(value: Any) -> tuple[float, float, float] | None:
    if value is None:
        return None
    if isinstance(value, dict):
        return float(value["lat"]), float(value["lon"]), float(value["height"])
    lat, lon, height = value
    return float(lat), float(lon), float(height)
