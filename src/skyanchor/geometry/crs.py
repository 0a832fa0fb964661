"""Coordinate systems of the Earth through PROJ: metres of a map projection to WGS 84 and back.

A system is named as people name it: EPSG:25832, or EPSG:25832+7837 where the heights count from a named geoid. Only x
and y are projected. Heights are never moved between geoid and ellipsoid, which are tens of metres apart: they stay as
they are, and `heights` says what the system says about them.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyproj
from pyproj.aoi import AreaOfInterest
from pyproj.database import query_crs_info
from pyproj.enums import PJType
from pyproj.exceptions import CRSError, ProjError

from skyanchor.types import Floats

WGS84 = 4326
MARGIN_DEG = 1.0
"""A system is used this far beyond the area it was made for: surveys reach over the edge of a zone, degrees."""
SATELLITE = ("WGS 84 / ", "ETRS89 / ")
EXAMPLES = "EPSG:25832 (ETRS89 / UTM 32N), EPSG:32735 (WGS 84 / UTM 35S) or EPSG:2154 (Lambert-93)"


def check(name: str) -> None:
    """ValueError, with the reason, for what is no map projection in metres."""
    plane = _plane(name)
    if not plane.is_projected:
        kind = "longitude and latitude" if plane.is_geographic else "no map projection"
        raise ValueError(f"{name} ({plane.name}) is {kind}; a model has metres of a map projection")
    units = {axis.unit_name for axis in plane.axis_info if axis.unit_conversion_factor != 1.0}
    if units:
        raise ValueError(f"{name} ({plane.name}) counts in {', '.join(sorted(units))}; a model is in metres")
    operation = plane.coordinate_operation
    if operation is not None and "Pseudo Mercator" in operation.method_name:
        raise ValueError(f"{name} ({plane.name}) is for web maps; its metres are not those on the ground")
    _transformer(name)


def to_wgs84(places: Floats, name: str) -> Floats:
    """(N, 3), latitude and longitude in degrees of x and y in metres; heights as they are. inf where it cannot be."""
    longitude, latitude = _transformer(name).transform(places[:, 0], places[:, 1])
    return np.stack([latitude, longitude, places[:, 2]], axis=1)


def from_wgs84(places: Floats, name: str) -> Floats:
    """(N, 3), x and y in metres of latitude and longitude in degrees; heights as they are. inf where it cannot be."""
    x, y = _transformer(name).transform(places[:, 1], places[:, 0], direction="INVERSE")
    return np.stack([x, y, places[:, 2]], axis=1)


def covers(places: Floats, name: str) -> bool:
    """Whether all latitudes and longitudes (N, 2 or more) lie where the system is used, or little beyond."""
    area = _plane(name).area_of_use
    if area is None:
        return True
    lat, lon = places[:, 0], places[:, 1]
    width = (area.east - area.west) % 360.0 or 360.0
    east_of_west = (lon - area.west + MARGIN_DEG) % 360.0
    inside = (lat >= area.south - MARGIN_DEG) & (lat <= area.north + MARGIN_DEG)
    return bool(np.all(inside & (east_of_west <= width + 2.0 * MARGIN_DEG)))


def heights(name: str) -> str:
    """What the system says that heights count from: the ellipsoid, a named geoid, or nothing."""
    system = _system(name)
    vertical = [part for part in system.sub_crs_list if part.is_vertical]
    if vertical:
        return f"above the geoid ({vertical[0].name})"
    if len(system.axis_info) == 3:
        return "above the ellipsoid"
    return f"as in the aerial model; {name} does not say whether from the ellipsoid or the geoid"


def that_fit(places: Floats, originals: Floats, within_m: float = 30.0) -> tuple[str, ...]:
    """Names of the systems in which positions by latitude and longitude (N, 3) lie at x and y of `originals` (N, 3).

    The median of the distances is at most `within_m`, which allows for GPS. Nearest metre first; of those, the systems
    on the datums that satellites speak.
    """
    lat, lon = float(np.median(places[:, 0])), float(np.median(places[:, 1]))
    around = AreaOfInterest(lon, lat, lon, lat)
    held = query_crs_info(auth_name="EPSG", pj_types=PJType.PROJECTED_CRS, area_of_interest=around, contains=True)
    ranks = {f"EPSG:{info.code}": not info.name.startswith(SATELLITE) for info in held if not info.deprecated}
    found: list[tuple[float, bool, str]] = []
    for name, rank in ranks.items():
        try:
            check(name)
        except ValueError:
            continue
        off = float(np.median(np.linalg.norm(from_wgs84(places, name)[:, :2] - originals[:, :2], axis=1)))
        if off <= within_m and _plane(name).axis_info[0].direction == "east":
            found.append((round(off), rank, name))
    return tuple(name for _, _, name in sorted(found))


# --- PROJ -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _system(name: str) -> pyproj.CRS:
    try:
        return pyproj.CRS.from_user_input(name)
    except CRSError as error:
        raise ValueError(f"{name} is no coordinate system that PROJ knows") from error


def _plane(name: str) -> pyproj.CRS:
    """The horizontal part."""
    system = _system(name)
    return next((part for part in system.sub_crs_list if not part.is_vertical), system).to_2d()


@lru_cache(maxsize=512)
def _transformer(name: str) -> pyproj.Transformer:
    """From x, y to longitude, latitude."""
    try:
        return pyproj.Transformer.from_crs(_plane(name), WGS84, always_xy=True)
    except ProjError as error:
        raise ValueError(f"{name} cannot be tied to WGS 84 with what PROJ knows here") from error
