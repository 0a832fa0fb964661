"""Coloured surface points for the map: the dense aerial geometry of a run, or the sparse points before there is any."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from skyanchor.geometry.depth import lift, pixel_centres
from skyanchor.photos import load_photo
from skyanchor.report.run_data import finished
from skyanchor.run import records
from skyanchor.stereo import depth_path, load_depth
from skyanchor.types import Bytes, DepthMap, Floats, Scaffold, View

MOST_VIEWS = 60
"""Aerial photos that the map is made of, those that look down most steeply."""
MOST_POINTS = 3_000_000
LEAST_CONFIDENCE = 0.3


def map_points(run: Path, scaffold: Scaffold) -> tuple[Floats, Bytes]:
    """Points (N, 3) and their colours (N, 3)."""
    folder = run / records.SCAFFOLD / "depth"
    there = [view for view in scaffold.views if depth_path(folder, view.name).is_file() and view.path.is_file()]
    if not finished(run, records.SCAFFOLD) or not there:
        return scaffold.points, scaffold.point_colors
    steep = sorted(there, key=lambda view: float(view.cam_from_world.rotation[2] @ scaffold.up))[:MOST_VIEWS]
    share = MOST_POINTS // len(steep)
    parts = [view_points(view, load_depth(depth_path(folder, view.name)), share) for view in steep]
    return np.concatenate([points for points, _ in parts]), np.concatenate([colors for _, colors in parts])


def view_points(view: View, held: DepthMap, most: int) -> tuple[Floats, Bytes]:
    """The points of one depth map, thinned evenly to about `most`, in the colours of its photo."""
    rows, columns = np.nonzero((held.depth > 0) & (held.confidence >= LEAST_CONFIDENCE))
    step = -(-len(rows) // most) or 1
    rows, columns = rows[::step], columns[::step]
    points = lift(held.camera, held.cam_from_world, pixel_centres(rows, columns), held.depth[rows, columns])
    photo, _ = load_photo(view.name, view.path, view.camera, held.camera.width)
    return points, photo.pixels[rows, columns]
