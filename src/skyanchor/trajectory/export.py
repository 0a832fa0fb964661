"""The trajectory in formats that other programs read: TUM, GeoJSON, KML, COLMAP models."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable
from collections.abc import Sequence as Names
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias
from xml.sax.saxutils import escape

import numpy as np

from skyanchor.geometry import rigid
from skyanchor.scaffold import georeference, write_back
from skyanchor.sfm.uncertainty import RADIUS_95
from skyanchor.types import Georeference, PosedFrame, Scaffold, Sequence, Tracks, Trajectory, View

TUM_FILE = "trajectory.tum"
GEOJSON_FILE = "trajectory.geojson"

Placed: TypeAlias = tuple[PosedFrame, list[float]]
"""A frame with its longitude, latitude (deg) and height (m)."""


def tum_text(trajectory: Trajectory, georef: Georeference) -> str:
    """One line per posed frame: index tx ty tz qx qy qz qw of world_from_cam, in the user's coordinates."""
    moved = georeference.moved_by(georef)
    lines = ["# frame tx ty tz qx qy qz qw (world_from_cam)"]
    for frame in trajectory.frames:
        if frame.cam_from_world is None:
            continue
        centre = rigid.centre_in_world(frame.cam_from_world) + moved
        w, x, y, z = rigid.quaternion_from_rotation(frame.cam_from_world.rotation.T)
        numbers = [*centre.tolist(), float(x), float(y), float(z), float(w)]
        lines.append(" ".join([str(frame.frame), *(f"{value:.9f}" for value in numbers)]))
    return "\n".join(lines) + "\n"


def geojson_text(trajectory: Trajectory, sequence: Sequence, georef: Georeference) -> str | None:
    """The path and every posed frame in longitude, latitude, height (RFC 7946); None when the place is not known."""
    return frames_geojson(trajectory.frames, [frame.name for frame in sequence.frames], georef, sequence.cuts)


def frames_geojson(
    frames: Iterable[PosedFrame], names: Names[str], georef: Georeference, cuts: tuple[int, ...] = ()
) -> str | None:
    """As `geojson_text`, of frames and the names of all frames of their sequence; a path per stretch between cuts."""
    placed = _placed(frames, georef)
    if placed is None:
        return None
    features: list[dict[str, Any]] = []
    for stretch in _stretches(placed, cuts):
        features.append(_feature("LineString", [place for _, place in stretch], {"frames": len(stretch)}))
    for frame, place in placed:
        told = {"name": names[frame.frame], "frame": frame.frame, "support": frame.support.value}
        sure = {"sigma_m": round(frame.sigma_m, 4), "radius_95_m": round(RADIUS_95 * frame.sigma_m, 4)}
        features.append(_feature("Point", place, {**told, **sure}))
    document = {"type": "FeatureCollection", "heights": georeference.heights(georef), "features": features}
    return json.dumps(document, indent=1) + "\n"


def frames_kml(
    frames: Iterable[PosedFrame], names: Names[str], georef: Georeference, cuts: tuple[int, ...] = ()
) -> str | None:
    """The same as KML, for Google Earth; heights are left out, so that the path lies on the ground."""
    placed = _placed(frames, georef)
    if placed is None:
        return None
    marks = []
    for stretch in _stretches(placed, cuts):
        path = " ".join(_spot(place) for _, place in stretch)
        line = f"<LineString><tessellate>1</tessellate><coordinates>{path}</coordinates></LineString>"
        marks.append(f"<Placemark><name>walk</name>{line}</Placemark>")
    for frame, place in placed:
        told = f"95 % within {RADIUS_95 * frame.sigma_m:.3f} m, sigma {frame.sigma_m:.3f} m"
        marks.append(
            f"<Placemark><name>{escape(names[frame.frame])}</name><description>{told}</description>"
            f"<Point><coordinates>{_spot(place)}</coordinates></Point></Placemark>"
        )
    inside = "\n".join(marks)
    return f'{_XML}\n<kml xmlns="http://www.opengis.net/kml/2.2"><Document>\n{inside}\n</Document></kml>\n'


def _spot(place: list[float]) -> str:
    """Longitude and latitude as KML writes them."""
    return f"{place[0]},{place[1]}"


def _stretches(placed: list[Placed], cuts: tuple[int, ...]) -> list[list[Placed]]:
    """The placed frames between cuts, where two of them or more make a path."""
    parts: dict[int, list[Placed]] = {}
    for one in placed:
        parts.setdefault(bisect_right(cuts, one[0].frame), []).append(one)
    return [part for part in parts.values() if len(part) > 1]


_XML = '<?xml version="1.0" encoding="UTF-8"?>'


def _placed(frames: Iterable[PosedFrame], georef: Georeference) -> list[Placed] | None:
    """The posed frames with longitude, latitude, height; None when the place is not known."""
    posed = [f for f in frames if f.cam_from_world is not None]
    centres = rigid.centres_in_world([f.cam_from_world for f in posed if f.cam_from_world is not None])
    places = georeference.on_earth(centres, georef)
    if places is None:
        return None
    coordinates = [[round(lon, 9), round(lat, 9), round(height, 3)] for lat, lon, height in places.tolist()]
    return list(zip(posed, coordinates, strict=True))


def _feature(kind: str, coordinates: list[Any], properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Feature", "geometry": {"type": kind, "coordinates": coordinates}, "properties": properties}


def posed_views(sequence: Sequence, trajectory: Trajectory) -> tuple[View, ...]:
    """The frames that have a pose, in order; `image_id` is the frame's index."""
    views = []
    for frame in trajectory.frames:
        if frame.cam_from_world is not None:
            held = sequence.frames[frame.frame]
            view = View(held.name, held.path, trajectory.camera, frame.cam_from_world, held.mask_path, frame.frame)
            views.append(view)
    return tuple(views)


def _tracks_of(trajectory: Trajectory, views: tuple[View, ...]) -> Tracks:
    """The trajectory's tracks with images counted through the posed frames."""
    frames = np.array([view.image_id for view in views], dtype=np.int64)
    return Tracks(
        trajectory.tracks.point, np.searchsorted(frames, trajectory.tracks.image).astype(np.int64), trajectory.tracks.xy
    )


def write_street_model(folder: Path, scaffold: Scaffold, sequence: Sequence, trajectory: Trajectory) -> Path:
    """COLMAP model of the ground cameras and points, in the coordinates of the user's aerial files."""
    views = posed_views(sequence, trajectory)
    parts = (trajectory.points, trajectory.point_colors, _tracks_of(trajectory, views))
    write_back.write_in_original_frame(folder, write_back.street_model(scaffold, views, *parts), scaffold)
    return folder


@dataclass(frozen=True, eq=False)
class Walk:
    """A located walk under the name that it has among others."""

    name: str
    sequence: Sequence
    trajectory: Trajectory


def write_model_of_walks(folder: Path, scaffold: Scaffold, walks: Names[Walk]) -> dict[str, Path]:
    """COLMAP model of the flight and all walks, images of a walk named NAME/PHOTO; where each of their photos lies.

    The aerial part is that of the user's files, as in `write_merged_model`; points of different walks stay apart.
    """
    views: list[View] = []
    tracks: list[Tracks] = []
    first_point = 0
    for walk in walks:
        mine = posed_views(walk.sequence, walk.trajectory)
        own = _tracks_of(walk.trajectory, mine)
        tracks.append(Tracks(own.point + first_point, own.image + len(views), own.xy))
        views += [replace(view, name=f"{walk.name}/{view.name}") for view in mine]
        first_point += len(walk.trajectory.points)
    points = np.concatenate([walk.trajectory.points for walk in walks])
    colors = np.concatenate([walk.trajectory.point_colors for walk in walks])
    whole = Tracks(
        np.concatenate([one.point for one in tracks]),
        np.concatenate([one.image for one in tracks]),
        np.concatenate([one.xy for one in tracks]),
    )
    write_back.write_in_original_frame(
        folder, write_back.combined_model(scaffold, views, points, colors, whole), scaffold
    )
    return {view.name: view.path for view in views}


def write_merged_model(folder: Path, scaffold: Scaffold, sequence: Sequence, trajectory: Trajectory) -> Path:
    """COLMAP model of aerial and ground together; aerial ids, poses and points are those of the user's files."""
    views = posed_views(sequence, trajectory)
    parts = (trajectory.points, trajectory.point_colors, _tracks_of(trajectory, views))
    write_back.write_in_original_frame(folder, write_back.combined_model(scaffold, views, *parts), scaffold)
    return folder
