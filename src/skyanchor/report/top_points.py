"""Coloured surface points for the map: the dense aerial geometry of a run, or the sparse points before there is any."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyanchor.events import SCAFFOLD
from skyanchor.geometry.depth import lift, pixel_centres
from skyanchor.photos import load_photo
from skyanchor.report import drawings
from skyanchor.run.results import Run
from skyanchor.types import Bytes, DepthMap, Floats, View

MOST_VIEWS = 60
"""Aerial photos that the map is made of, those that look down most steeply."""
MOST_POINTS = 3_000_000
LEAST_CONFIDENCE = 0.3


@dataclass(frozen=True)
class FromAbove:
    """The aerial model as the map shows it."""

    picture: str
    """Data URI; clear where there is nothing."""
    extent: tuple[float, float, float, float]
    """x_min, y_min, x_max, y_max on the horizontal axes, metres."""


def from_above(run: Run) -> FromAbove:
    """What the map of a run's report lies on."""
    return drawn(*map_points(run), run.scaffold.up)


def drawn(points: Floats, colors: Bytes, up: Floats) -> FromAbove:
    """Points (N, 3) in their colours (N, 3), seen from above."""
    raster, extent = drawings.top_view(points, colors, up)
    return FromAbove(drawings.transparent_uri(raster), (extent[0], extent[1], extent[2], extent[3]))


def map_points(run: Run) -> tuple[Floats, Bytes]:
    """Points (N, 3) and their colours (N, 3)."""
    scaffold = run.scaffold
    there = [view for view in scaffold.views if view.path.is_file()]
    if not run.has(SCAFFOLD) or not there:
        return scaffold.points, scaffold.point_colors
    steep = sorted(there, key=lambda view: float(view.cam_from_world.rotation[2] @ scaffold.up))[:MOST_VIEWS]
    share = MOST_POINTS // len(steep)
    parts = [view_points(view, run.depth(view.name), share) for view in steep]
    return np.concatenate([points for points, _ in parts]), np.concatenate([colors for _, colors in parts])


def view_points(view: View, held: DepthMap, most: int) -> tuple[Floats, Bytes]:
    """The points of one depth map, thinned evenly to about `most`, in the colours of its photo."""
    rows, columns = np.nonzero((held.depth > 0) & (held.confidence >= LEAST_CONFIDENCE))
    step = -(-len(rows) // most) or 1
    rows, columns = rows[::step], columns[::step]
    points = lift(held.camera, held.cam_from_world, pixel_centres(rows, columns), held.depth[rows, columns])
    photo, _ = load_photo(view.name, view.path, view.camera, held.camera.width)
    return points, photo.pixels[rows, columns]
