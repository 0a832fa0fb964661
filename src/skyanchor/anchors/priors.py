"""What is known of where the walk was: circles and areas on the map, in the scaffold's own horizontal coordinates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log10
from typing import TypeAlias

import numpy as np
from scipy.spatial import cKDTree

from skyanchor.bounds import Coordinate, NotNegative, Positive
from skyanchor.bridges.ground import Ground
from skyanchor.bridges.surface import horizontal_axes
from skyanchor.bridges.views import free_places
from skyanchor.errors import InputError
from skyanchor.events import ANCHORS, Listener, Note, silent
from skyanchor.geometry import crs, polygons, rigid
from skyanchor.scaffold.georeference import local_from_gps, moved_by
from skyanchor.types import Bools, Floats, Georeference, Scaffold, Sequence

FITTED_M2 = 6_000.0
"""Free ground of a model that the odds against a look-alike were fitted on, square metres: mini towns have 5 to 7."""
GRID_M = 4.0
"""Between the places by which free ground is measured, metres."""
LON_LAT = "EPSG:4326"
"""Longitude and latitude, WGS84."""


@dataclass(frozen=True)
class Near:
    """A prior: the group stands within a radius of a point."""

    x: Coordinate
    """Metres along the scaffold's first horizontal axis (world x when z is up)."""
    y: Coordinate
    """Metres along its second."""
    radius: Positive
    """Metres."""


@dataclass(frozen=True)
class Area:
    """A prior: the group stands within a polygon."""

    rings: tuple[tuple[tuple[Coordinate, Coordinate], ...], ...]
    """Corners, x and y in metres as in `Near`, or longitude and latitude; the outer ring first, then holes."""
    crs: str | None = None
    """System of the corners, EPSG:4326 for longitude and latitude; None for the model's own."""
    margin: NotNegative = 6.0
    """What lies so far outside still counts, metres: maps are drawn by hand, and places are described on a grid."""


Prior: TypeAlias = Near | Area


def allowed(priors: tuple[Prior, ...], flat: Floats) -> Bools:
    """(N,), which of the places (N, 2), horizontal coordinates, some prior allows; all of them without priors."""
    if not priors:
        return np.ones(len(flat), bool)
    return np.asarray(np.any([_holds(prior, flat) for prior in priors], axis=0), dtype=bool)


def _holds(prior: Prior, flat: Floats) -> Bools:
    if isinstance(prior, Near):
        return np.asarray(np.linalg.norm(flat - np.array([prior.x, prior.y]), axis=1) <= prior.radius)
    rings = [np.array(ring) for ring in prior.rings]
    return polygons.inside(rings, flat) | (polygons.edge_distance(rings, flat) <= prior.margin)


def narrowed(priors: tuple[Prior, ...], ground: Ground) -> float:
    """log10 of A / a: free ground as the odds know it, over the part of the model's that the priors allow.

    Look-alikes lie about evenly over the ground: where A holds n of them, a holds n a / A, and the odds of the right
    place against those are better by A / a, or worse. The odds know as much ground as the models had that they were
    fitted on, or all that a smaller model has: without a prior they lose what a larger one has more.
    """
    free = free_places(ground, GRID_M, 0.0) @ ground.across.T
    held = int(allowed(priors, free).sum())
    return log10(min(len(free), FITTED_M2 / GRID_M**2) / held) if held else 0.0


# --- from the user's coordinates to the scaffold's -----------------------------------------------------------------


def local_priors(priors: tuple[Prior, ...], scaffold: Scaffold) -> tuple[Prior, ...]:
    """Priors given in the user's coordinates, in the scaffold's; InputError for those that have nothing to do with it.

    The user's coordinates are those of the model's files, or of the survey where georef.json tells it: x_local =
    x_given - offset.
    """
    across = horizontal_axes(scaffold.up)
    local = tuple(_local(prior, scaffold.georef, across) for prior in priors)
    areas = tuple(prior for prior in local if isinstance(prior, Area))
    circles = tuple(prior for prior in local if isinstance(prior, Near))
    if areas:
        _refuse_elsewhere(areas, scaffold, across)
    if circles:
        _refuse_beside(circles, scaffold, across)
    return local


def _local(prior: Prior, georef: Georeference, across: Floats) -> Prior:
    if isinstance(prior, Near):
        x, y = _shifted(np.array([[prior.x, prior.y]]), georef, across)[0]
        return replace(prior, x=float(x), y=float(y))
    elsewhere = prior.crs == LON_LAT or (georef.crs is not None and prior.crs not in (None, georef.crs))
    rings = [
        _from_earth(np.array(ring), prior.crs, georef, across)
        if elsewhere and prior.crs is not None
        else _shifted(np.array(ring), georef, across)
        for ring in prior.rings
    ]
    return replace(prior, rings=tuple(tuple((float(x), float(y)) for x, y in ring) for ring in rings), crs=None)


def _shifted(xy: Floats, georef: Georeference, across: Floats) -> Floats:
    """(N, 2) minus the offset of the model's files, or of the survey if they come nearer to the origin by that."""
    ways = [xy - across @ offset for offset in (moved_by(georef), georef.offset)]
    return min(ways, key=lambda way: float(np.abs(way).max()))


def _from_earth(corners: Floats, system: str, georef: Georeference, across: Floats) -> Floats:
    """(N, 2) of corners in longitude and latitude or in metres of another system than the model's."""
    height = georef.enu_origin[2] if georef.enu_origin is not None else 0.0
    places = np.column_stack([corners, np.full(len(corners), height)])
    try:
        places = places[:, [1, 0, 2]] if system == LON_LAT else crs.to_wgs84(places, system)
    except ValueError as error:
        raise InputError(
            "--within", f"the area's system cannot be used: {error}", "Export it in another one."
        ) from error
    local = local_from_gps(places, georef)
    if local is None:
        known = f"lies in {georef.crs}, and not there" if georef.crs else "does not say where on Earth it lies"
        told = "longitude and latitude" if system == LON_LAT else system
        advice = "Give the area as lines of x,y in the model's own coordinates, or a georef.json beside the model."
        raise InputError("--within", f"the area is in {told}, but the aerial model {known}", advice)
    return np.asarray(local @ across.T)


def _refuse_elsewhere(areas: tuple[Area, ...], scaffold: Scaffold, across: Floats) -> None:
    """InputError when no point of the scaffold (no camera, for one without points) lies in any of the areas."""
    flat = _seen(scaffold, across)
    if not allowed(areas, flat).any():
        shift = across @ moved_by(scaffold.georef)
        corners = np.array([corner for area in areas for ring in area.rings for corner in ring])
        raise InputError(
            "--within",
            f"the area ({_extent(corners + shift)}) holds nothing of the aerial model ({_extent(flat + shift)})",
            "Both in the model's coordinates, metres. Are x and y, or longitude and latitude, the wrong way round?",
        )


def _refuse_beside(circles: tuple[Near, ...], scaffold: Scaffold, across: Floats) -> None:
    """InputError when all circles lie beside what the scaffold spans; between its points they may be small."""
    flat = _seen(scaffold, across)
    low, high = flat.min(axis=0), flat.max(axis=0)
    middles, radii = np.array([[c.x, c.y] for c in circles]), np.array([c.radius for c in circles])
    if (np.linalg.norm(middles - np.clip(middles, low, high), axis=1) > radii).all():
        shift = across @ moved_by(scaffold.georef)
        (x, y), radius = middles[0] + shift, radii[0]
        problem = f"{radius:g} m around x {x:.0f}, y {y:.0f} lie beside the aerial model ({_extent(flat + shift)})"
        raise InputError(
            "--near", problem, f"Both in the model's coordinates, metres.{_meant((x, y), low, high, shift)}"
        )


def _meant(point: tuple[float, float], low: Floats, high: Floats, shift: Floats) -> str:
    """What a point may mean that lies beside what spans from `low` to `high`, both without `shift`."""
    turned = np.array(point[::-1]) - shift
    if np.all((turned >= low) & (turned <= high)):
        return " x and y are the wrong way round."
    if abs(point[0]) <= 180.0 and abs(point[1]) <= 180.0 and np.any(shift):
        return " Longitude and latitude can be given as GeoJSON, with --within."
    return ""


def _seen(scaffold: Scaffold, across: Floats) -> Floats:
    """(N, 2), where on the map the scaffold's points are; its cameras, for one without points."""
    centres = rigid.centres_in_world([view.cam_from_world for view in scaffold.views])
    return np.asarray((scaffold.points if len(scaffold.points) else centres) @ across.T, dtype=np.float64)


def _extent(flat: Floats) -> str:
    (x0, y0), (x1, y1) = flat.min(axis=0), flat.max(axis=0)
    return f"x {x0:.0f} to {x1:.0f}, y {y0:.0f} to {y1:.0f}"


# --- EXIF positions -----------------------------------------------------------------------------------------------


def gps_priors(
    scaffold: Scaffold, sequence: Sequence, ground: Ground, radius: float, listen: Listener = silent
) -> dict[int, Near]:
    """Per frame with an EXIF position within `radius` of free ground: the circle it must lie in.

    The listener is told how many there are, and why others are not used. None with a radius of zero.
    """
    known = {i: place for i, place in enumerate(sequence.gps) if place is not None and radius > 0.0}
    local = {i: local_from_gps(np.array([place]), scaffold.georef) for i, place in known.items()}
    on_map = {i: ground.across @ place[0] for i, place in local.items() if place is not None}
    if known and not on_map:
        crs = scaffold.georef.crs
        why = f"they do not lie in its {crs}" if crs else "it does not say where on Earth it lies"
        listen(Note(ANCHORS, f"EXIF positions cannot be laid on the aerial model, {why}: they are not used"))
    free = free_places(ground, GRID_M, 0.0) @ ground.across.T
    if not on_map or not len(free):
        return {}
    off = cKDTree(free).query(np.array(list(on_map.values())))[0]
    inside = [i for i, metres in zip(on_map, off, strict=True) if metres <= radius]
    circles = {i: Near(float(on_map[i][0]), float(on_map[i][1]), radius) for i in inside}
    beyond = f"; {len(known) - len(circles)} lie off the model and are not used" if len(circles) < len(known) else ""
    listen(Note(ANCHORS, f"EXIF positions of {len(circles)} frames narrow their search to {radius:g} m{beyond}"))
    return circles
