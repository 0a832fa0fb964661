"""Where a run's map lies in the world: coordinate system, north, the user's prior, and files for other maps."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from skyanchor.anchors.priors import Near, Prior
from skyanchor.geometry import rigid
from skyanchor.report.content import Download, MapPlace
from skyanchor.report.drawings import horizontal_axes
from skyanchor.scaffold.georeference import moved_by, on_earth
from skyanchor.sfm.uncertainty import RADIUS_95
from skyanchor.trajectory.export import frames_geojson, frames_kml
from skyanchor.types import Floats, Georeference, PosedFrame

CORNERS = 72
"""Of a circle."""
REACH_M = 200.0
"""Half of the square over which latitude and longitude are taken as linear: right to a centimetre."""

Rings: TypeAlias = tuple[tuple[tuple[float, float], ...], ...]
Earth: TypeAlias = tuple[tuple[float, float, float], tuple[float, float, float]]
"""As in `MapPlace`."""


def map_place(georef: Georeference, up: Floats, middle: Floats) -> MapPlace:
    """The place of a map around a local point `middle` (3,)."""
    axes = horizontal_axes(up)
    known = georef.crs is not None or georef.enu_origin is not None
    x, y = axes @ (georef.offset if known else moved_by(georef))
    earth = _earth(georef, axes, middle)
    return MapPlace(system_name(georef), (float(x), float(y)), _north_deg(earth), earth)


def system_name(georef: Georeference) -> str:
    """The coordinate system in words; empty when nothing says it."""
    if georef.crs is not None:
        return f"{georef.crs}, metres"
    if georef.enu_origin is None:
        return ""
    latitude, longitude, height = georef.enu_origin
    return f"metres to the east, north and up of {latitude:.7f}°, {longitude:.7f}°, {height:.1f} m (WGS 84)"


def _earth(georef: Georeference, axes: Floats, middle: Floats) -> Earth | None:
    """Latitude and longitude as linear functions of the map's x and y."""
    steps = np.array([[a, b] for a in (-REACH_M, 0.0, REACH_M) for b in (-REACH_M, 0.0, REACH_M)])
    points = middle + steps @ axes
    places = on_earth(points, georef)
    if places is None:
        return None
    design = np.column_stack([np.ones(len(points)), points @ axes.T])
    latitude, longitude = np.linalg.lstsq(design, places[:, :2], rcond=None)[0].T.tolist()
    return (latitude[0], latitude[1], latitude[2]), (longitude[0], longitude[1], longitude[2])


def _north_deg(earth: Earth | None) -> float:
    """Clockwise from the map's y axis: where latitude grows and longitude stays."""
    if earth is None:
        return float("nan")
    (_, lat_x, lat_y), (_, lon_x, lon_y) = earth
    x, y = np.linalg.solve([[lat_x, lat_y], [lon_x, lon_y]], [1.0, 0.0])
    return float(np.degrees(np.arctan2(x, y)))


def prior_rings(priors: Sequence[Prior]) -> tuple[Rings, ...]:
    """The areas of priors in the scaffold's coordinates; circles as many corners."""
    turn = 2.0 * np.pi * np.arange(CORNERS) / CORNERS

    def rings(prior: Prior) -> Rings:
        if not isinstance(prior, Near):
            return prior.rings
        xs, ys = prior.x + prior.radius * np.cos(turn), prior.y + prior.radius * np.sin(turn)
        return (tuple((float(x), float(y)) for x, y in zip(xs, ys, strict=True)),)

    return tuple(rings(prior) for prior in priors)


# --- files --------------------------------------------------------------------------------------------------------


def downloads(
    title: str,
    frames: Sequence[PosedFrame],
    names: Sequence[str],
    georef: Georeference,
    cuts: tuple[int, ...] = (),
) -> tuple[Download, ...]:
    """The located frames as CSV, and as GeoJSON and KML where the model says where on Earth it lies."""
    if not any(frame.cam_from_world is not None for frame in frames):
        return ()
    texts = (
        ("csv", "text/csv", "CSV (coordinates of the aerial model)", frames_csv(frames, names, georef)),
        ("geojson", "application/geo+json", "GeoJSON", frames_geojson(frames, names, georef, cuts)),
        ("kml", "application/vnd.google-earth.kml+xml", "KML", frames_kml(frames, names, georef, cuts)),
    )
    return tuple(Download(f"{title}.{end}", kind, what, text) for end, kind, what, text in texts if text is not None)


def frames_csv(frames: Sequence[PosedFrame], names: Sequence[str], georef: Georeference) -> str:
    """A row per located frame: camera centre in the coordinates of the user's files, sigma and radius, metres."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["photo", "name", "x", "y", "z", "sigma_m", "radius_95_m", "located_as"])
    moved = moved_by(georef)
    for frame in frames:
        if frame.cam_from_world is not None:
            centre = rigid.centre_in_world(frame.cam_from_world) + moved
            sure = [f"{value:.4f}" for value in (*centre.tolist(), frame.sigma_m, RADIUS_95 * frame.sigma_m)]
            rows.writerow([frame.frame, names[frame.frame], *sure, frame.support.value])
    return text.getvalue()
