"""Areas as a user draws them: GeoJSON of any map program, or lines of x,y."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from skyanchor.anchors.priors import LON_LAT, Area
from skyanchor.errors import InputError
from skyanchor.geometry import polygons
from skyanchor.storage import foreign
from skyanchor.types import Floats

ADVICE = "Give a GeoJSON file with a Polygon, or lines of x,y in the coordinates of the aerial model."
FARTHEST_M = 1e9
"""Coordinates are less than this, metres."""
WIDEST_DEG = 2.0
"""Corners of GeoJSON that span more are no degrees but metres; so are those of text that span less no metres."""


def read_area(path: Path) -> tuple[Area, ...]:
    """The polygons of a file; InputError that says what is wrong with it.

    GeoJSON is in longitude and latitude, as its standard says, unless it names a system or its numbers are too large:
    then in the aerial model's own coordinates, as lines of x,y are.
    """
    text = foreign.read_text(path, ADVICE)
    if text.lstrip().startswith(("{", "[")):
        return _from_geojson(path, text)
    ring = _simple(path, _corners_of_lines(path, text))
    if _looks_like_degrees(ring):
        advice = "Lines of x,y are metres: give longitude and latitude as GeoJSON."
        raise InputError(path, f"is less than {WIDEST_DEG:g} m across", advice)
    return (Area((_frozen(ring),)),)


def _frozen(ring: Floats) -> tuple[tuple[float, float], ...]:
    return tuple((float(x), float(y)) for x, y in ring)


def _looks_like_degrees(corners: Floats) -> bool:
    return bool((np.abs(corners) <= (180.0, 90.0)).all() and np.ptp(corners, axis=0).max() < WIDEST_DEG)


# --- lines of x,y -------------------------------------------------------------------------------------------------


def _corners_of_lines(path: Path, text: str) -> Floats:
    """(N, 2); a first line without numbers names columns, # starts a comment, further columns are left alone."""
    rows: list[tuple[float, float]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = re.split(r"[\s,;]+", line.partition("#")[0].strip())
        if words == [""]:
            continue
        try:
            rows.append((float(words[0]), float(words[1])))
        except (ValueError, IndexError) as error:
            if not rows and not re.search(r"\d", line):
                continue
            raise InputError(path, f"line {number} is no x,y: {line.strip()[:40]!r}", ADVICE) from error
    return np.array(rows, dtype=np.float64).reshape(-1, 2)


# --- GeoJSON ------------------------------------------------------------------------------------------------------


def _from_geojson(path: Path, text: str) -> tuple[Area, ...]:
    document = foreign.json_of(path, text, ADVICE)
    try:
        areas = [[np.array(ring, dtype=np.float64)[:, :2] for ring in rings] for rings in _polygons(document)]
        crs = _named_system(document)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise InputError(path, f"is no GeoJSON ({error})", ADVICE) from error
    if not any(areas):
        raise InputError(path, "holds no Polygon", "Draw an area, not a line or points.")
    simple = [[_simple(path, ring) for ring in rings] for rings in areas if rings]
    if crs is None and _looks_like_degrees(np.concatenate([ring for rings in simple for ring in rings])):
        crs = LON_LAT
    return tuple(Area(tuple(_frozen(ring) for ring in rings), crs) for rings in simple)


def _polygons(value: Any) -> Iterator[list[Any]]:
    """The rings of every polygon in a GeoJSON object."""
    kind = value["type"]
    if kind == "FeatureCollection":
        for feature in value["features"]:
            yield from _polygons(feature)
    elif kind == "Feature" and value["geometry"] is not None:
        yield from _polygons(value["geometry"])
    elif kind == "GeometryCollection":
        for geometry in value["geometries"]:
            yield from _polygons(geometry)
    elif kind == "Polygon":
        yield value["coordinates"]
    elif kind == "MultiPolygon":
        yield from value["coordinates"]


def _named_system(document: Any) -> str | None:
    """EPSG code of the `crs` that older GeoJSON names; None without one."""
    name = str(((document.get("crs") or {}).get("properties") or {}).get("name", ""))
    if not name:
        return None
    code = re.search(r"EPSG:(?:[\d.]*:)?(\d+)$", name)
    if name.endswith("CRS84"):
        return LON_LAT
    if code is None:
        raise ValueError(f"unknown crs {name!r}")
    return f"EPSG:{code[1]}"


# --- one ring -----------------------------------------------------------------------------------------------------


def _simple(path: Path, ring: Floats) -> Floats:
    """The ring without repeated corners; InputError when it encloses nothing or crosses itself."""
    if not (np.abs(ring) <= FARTHEST_M).all():
        raise InputError(path, "has corners that are not numbers of metres or degrees", ADVICE)
    kept = ring[(ring != np.roll(ring, 1, axis=0)).any(axis=1)] if len(ring) > 1 else ring
    crossing = polygons.first_crossing(kept)
    if crossing is not None:
        i, j = (k + 1 for k in crossing)
        raise InputError(
            path,
            f"crosses itself: the edge from corner {i} meets the one from corner {j}",
            "Put the corners in order around the area.",
        )
    if len(kept) < 3 or polygons.area(kept) == 0.0:
        raise InputError(path, f"has {len(kept)} distinct corners that enclose nothing", "An area needs three or more.")
    return kept
