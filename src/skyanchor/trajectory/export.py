"""The trajectory in formats that other programs read: TUM, GeoJSON, COLMAP models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from skyanchor.geometry import rigid
from skyanchor.scaffold import georeference, write_back
from skyanchor.types import Georeference, Scaffold, Sequence, Tracks, Trajectory, View

TUM_FILE = "trajectory.tum"
GEOJSON_FILE = "trajectory.geojson"


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
    posed = [f for f in trajectory.frames if f.cam_from_world is not None]
    centres = rigid.centres_in_world([f.cam_from_world for f in posed if f.cam_from_world is not None])
    places = georeference.on_earth(centres, georef)
    if places is None:
        return None
    coordinates = [[round(lon, 9), round(lat, 9), round(height, 3)] for lat, lon, height in places.tolist()]
    features: list[dict[str, Any]] = []
    if len(coordinates) > 1:
        features.append(_feature("LineString", coordinates, {"frames": len(coordinates)}))
    for frame, place in zip(posed, coordinates, strict=True):
        told = {"name": sequence.frames[frame.frame].name, "frame": frame.frame, "support": frame.support.value}
        features.append(_feature("Point", place, {**told, "sigma_m": round(frame.sigma_m, 4)}))
    document = {"type": "FeatureCollection", "heights": georeference.heights(georef), "features": features}
    return json.dumps(document, indent=1) + "\n"


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


def write_merged_model(folder: Path, scaffold: Scaffold, sequence: Sequence, trajectory: Trajectory) -> Path:
    """COLMAP model of aerial and ground together; aerial ids, poses and points are those of the user's files."""
    views = posed_views(sequence, trajectory)
    parts = (trajectory.points, trajectory.point_colors, _tracks_of(trajectory, views))
    write_back.write_in_original_frame(folder, write_back.combined_model(scaffold, views, *parts), scaffold)
    return folder
