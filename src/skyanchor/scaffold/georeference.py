"""Large coordinates moved to a local frame and back: x_original = x_local + offset, exactly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pycolmap

from skyanchor.errors import InputError
from skyanchor.geometry import crs, rigid
from skyanchor.storage import foreign
from skyanchor.storage.files import write_bytes
from skyanchor.types import Floats, Georeference, Pose, Scaffold

FILE_NAME = "georef.json"
EXPECTED = 'Expected {"offset": [x, y, z], "crs": "EPSG:32633"}.'
FARTHEST_M = 1e9
"""Coordinates are less than this, metres."""
HIGHEST_M = 1e5
"""Heights on Earth are less than this, metres."""
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


# --- the place on Earth -------------------------------------------------------------------------------------------


def local_from_gps(places: Floats, georef: Georeference) -> Floats | None:
    """(N, 3), local metres of latitude, longitude (deg) and height (m); None when nothing says where the frame lies.

    None as well for places outside the area of the frame's system. Heights of EXIF GPS may count from the geoid or the
    ellipsoid, tens of metres apart: trust x and y only.
    """
    if georef.enu_origin is not None:
        metres = pycolmap.GPSTransform().ellipsoid_to_enu(places, *georef.enu_origin)
        return np.asarray(metres, dtype=np.float64) - georef.offset
    if georef.crs is None or not crs.covers(places, georef.crs):
        return None
    return _finite(crs.from_wgs84(places, georef.crs) - georef.offset)


def on_earth(points: Floats, georef: Georeference) -> Floats | None:
    """(N, 3), latitude and longitude in degrees and height in metres of local points; None when nothing says where.

    `heights` says what the heights count from.
    """
    original = points + georef.offset
    if georef.enu_origin is not None:
        places = pycolmap.GPSTransform().enu_to_ellipsoid(original, *georef.enu_origin)
        return np.asarray(places, dtype=np.float64)
    return None if georef.crs is None else _finite(crs.to_wgs84(original, georef.crs))


def heights(georef: Georeference) -> str:
    """What the heights of `on_earth` count from, for people."""
    if georef.enu_origin is not None:
        return "above the ellipsoid, if that of enu_origin is"
    return "as in the aerial model" if georef.crs is None else crs.heights(georef.crs)


def _finite(values: Floats) -> Floats | None:
    return values if bool(np.isfinite(values).all()) else None


def unplaced(scaffold: Scaffold) -> bool:
    """Whether the coordinates are those of some map, and nothing says of which."""
    georef = scaffold.georef
    return georef.crs is None and georef.enu_origin is None and bool(np.any(georef.offset[:2]))


def fitting_systems(scaffold: Scaffold, gps: Sequence[tuple[float, float, float] | None]) -> tuple[str, ...]:
    """Systems in which the aerial cameras lie where their photos' EXIF (one per view, degrees) says they were."""
    known = [k for k, place in enumerate(gps) if place is not None]
    if not known:
        return ()
    centres = rigid.centres_in_world([scaffold.views[k].cam_from_world for k in known]) + scaffold.georef.offset
    return crs.that_fit(np.array([gps[k] for k in known], dtype=np.float64), centres)


def advice(scaffold: Scaffold, fitting: tuple[str, ...] = ()) -> str:
    """What to write so that the place on Earth is known: the georef.json and where it belongs.

    With no system in `fitting` it says EPSG:CODE, for the person who knows the code to put in.
    """
    told = fitting[0] if fitting else "EPSG:CODE"
    code = f"one of {', '.join(fitting)} fits the photos' GPS" if fitting else f"CODE as in {crs.EXAMPLES}"
    if not fitting and _like_utm(scaffold.georef.offset):
        code += ". They look like UTM: WGS 84's code is 32600 + zone in the north, 32700 + zone in the south"
    where = (scaffold.model_path or scaffold.root) / FILE_NAME
    return f"give --crs {told}, or save {json.dumps({'crs': told})} as {where}; {code}"


def _like_utm(offset: Floats) -> bool:
    """Whether x and y are in the range of a UTM zone, metres."""
    return bool(1e5 <= offset[0] <= 9e5 and 0.0 <= offset[1] <= 1e7)


def named(georef: Georeference, name: str | None, where: Path) -> Georeference:
    """The georeference with the system that a person names; InputError where `where` says another one already."""
    if name is None:
        return georef
    try:
        crs.check(name)
    except ValueError as error:
        raise InputError("--crs", f"cannot be used: {error}", f"Write e.g. {crs.EXAMPLES}.") from error
    if georef.crs not in (None, name):
        raise InputError("--crs", f"says {name}, but {where} says {georef.crs}", "Leave --crs out, or mend the file.")
    return replace(georef, crs=name)


def elsewhere(scaffold: Scaffold) -> bool:
    """Whether the system that is named is not used where the coordinates would lie."""
    if scaffold.georef.crs is None or scaffold.georef.enu_origin is not None:
        return False
    centres = rigid.centres_in_world([view.cam_from_world for view in scaffold.views])
    places = on_earth(np.median(centres, axis=0)[None], scaffold.georef)
    return places is None or not crs.covers(places, scaffold.georef.crs)


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
        document = foreign.read_json(path, EXPECTED)
        if not isinstance(document, dict):
            raise ValueError("it is not a JSON object")
        offset = _vector(document.get("offset"), "offset")
        up = _vector(document.get("up"), "up")
        origin = _origin(document.get("enu_origin"))
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise InputError(path, f"cannot be understood ({error})", EXPECTED) from error
    if up is not None:
        up = up / np.linalg.norm(up)
    georef = Georeference(np.zeros(3) if offset is None else offset, _known_system(path, document.get("crs")), origin)
    return GeoreferenceFile(georef, up)


def _known_system(path: Path, name: Any) -> str | None:
    if name is None:
        return None
    try:
        crs.check(str(name))
    except ValueError as error:
        raise InputError(path, f"has a crs that cannot be used: {error}", f"Write e.g. {crs.EXAMPLES}.") from error
    return str(name)


def find_georef(*folders: Path) -> Path | None:
    """The first georef.json in these folders."""
    paths = (folder / FILE_NAME for folder in folders)
    return next((path for path in paths if foreign.is_there(path, EXPECTED)), None)


def _vector(value: Any, name: str) -> Floats | None:
    if value is None:
        return None
    vector = np.array(value, dtype=np.float64)
    nowhere = name == "up" and np.linalg.norm(vector) < 1e-9
    if vector.shape != (3,) or not np.all(np.abs(vector) <= FARTHEST_M) or nowhere:
        raise ValueError(f"{name} is not three numbers")
    return vector


def _origin(value: Any) -> tuple[float, float, float] | None:
    if value is None:
        return None
    lat, lon, height = map(float, (value["lat"], value["lon"], value["height"]) if isinstance(value, dict) else value)
    if not (abs(lat) <= 90.0 and abs(lon) <= 180.0 and abs(height) <= HIGHEST_M):
        raise ValueError("enu_origin is no latitude, longitude in degrees and height in metres")
    return lat, lon, height
