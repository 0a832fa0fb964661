"""A far shell of Gaussians for the sky, which only ground views see."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from skyanchor.gaussians.seeding import splats_from_points
from skyanchor.gaussians.splats import Splats
from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import inside
from skyanchor.photos import PhotoCache
from skyanchor.types import Bools, Bytes, DepthMap, Floats, View


def sky_shell(
    views: Sequence[View], depth: Sequence[DepthMap], up: Floats, radius_m: float, count: int = 6000
) -> Splats:
    """Gaussians on the upper half of a sphere, where ground views see no surface, in the colour they show there.

    `depth` are the measured maps of some of the views, matched by name. Directions that no view sees as sky are left
    out, so aerial cameras below the shell and indoor walks get none.
    """
    centre = rigid.centres_in_world([view.cam_from_world for view in views]).mean(axis=0)
    directions = hemisphere(up, count)
    points = centre + radius_m * directions
    total, seen = np.zeros((len(points), 3)), np.zeros(len(points))
    by_name = {view.name: view for view in views}
    photos = PhotoCache(1 << 26)
    for one in depth:
        view = by_name[one.name]
        photo, camera = photos.photo(view.name, view.path, view.camera, one.depth.shape[1], view.mask_path)
        rows, colors = _colors_in_sky(points, sky_mask(photo.pixels, one), photo.pixels, camera, view)
        total[rows] += colors
        seen[rows] += 1
    kept = seen > 0
    mean = total[kept] / seen[kept, None]
    return splats_from_points(points[kept], mean.astype(np.uint8), opacity=0.9)


def hemisphere(up: Floats, count: int) -> Floats:
    """(count, 3) unit directions from 3 degrees below the horizon to the zenith, evenly spread (Fibonacci)."""
    k = np.arange(count) + 0.5
    z = 1.0 - k / count * (1.0 + np.sin(np.deg2rad(3.0)))
    turn = k * np.pi * (3.0 - np.sqrt(5.0))
    ring = np.sqrt(np.maximum(0.0, 1.0 - z * z))
    local = np.stack([ring * np.cos(turn), ring * np.sin(turn), z], axis=1)
    east = np.cross(up, np.roll(up, 1) + np.array([0.1, 0.2, 0.3]))
    east /= np.linalg.norm(east)
    return local @ np.stack([east, np.cross(up, east), up])


def sky_mask(pixels: Bytes, depth: DepthMap) -> Bools:
    """Pixels joined to the top border through an even, bright area that has no confident depth.

    Sky is smooth: the local contrast is small. Plain walls are smooth too, but they have depth or do not reach the top
    border without a contrast edge (the roof line) in between.
    """
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(np.float32)
    spread = np.sqrt(np.maximum(cv2.blur(grey * grey, (5, 5)) - cv2.blur(grey, (5, 5)) ** 2, 0.0))
    measured = (depth.depth > 0) & (depth.confidence > 0.5) & ~depth.completed
    bright = grey >= np.percentile(grey, 40)
    candidate = ((spread < 8.0) & bright & ~measured).astype(np.uint8)
    _, labels = cv2.connectedComponents(candidate, connectivity=4)
    top = np.unique(labels[0][candidate[0] > 0])
    return np.asarray(np.isin(labels, top[top > 0]), np.bool_)


def _colors_in_sky(
    points: Floats, sky: Bools, pixels: Bytes, camera: cameras.Camera, view: View
) -> tuple[Bools, Floats]:
    """Which points fall on sky in a view, (N,), and the colours there."""
    xy = cameras.project(camera, view.cam_from_world(points))
    good = inside(camera, xy)
    column, row = np.where(good[:, None], xy, 0.0).astype(int).T
    good &= sky[row, column]
    return good, pixels[row[good], column[good]].astype(np.float64)
