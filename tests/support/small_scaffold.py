"""An aerial model around a set of Gaussians: its sparse points are their centres."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from skyanchor.gaussians.harmonics import SH_C0
from skyanchor.gaussians.splats import Splats
from skyanchor.geometry import cameras
from skyanchor.types import Georeference, Plane, Scaffold, Tracks, View


def scaffold_of(splats: Splats, views: tuple[View, ...]) -> Scaffold:
    """An aerial model that has the Gaussians' centres as its sparse points, seen wherever they project."""
    points = splats.means.astype(np.float64)
    image, point, xy = [], [], []
    for k, view in enumerate(views):
        pixels = cameras.project(view.camera, view.cam_from_world(points))
        inside = np.all((pixels > 0) & (pixels < (view.camera.width, view.camera.height)), axis=1)
        point.append(np.flatnonzero(inside))
        image.append(np.full(inside.sum(), k))
        xy.append(pixels[inside])
    colors = np.clip(255 * (0.5 + SH_C0 * splats.sh[:, 0]), 0, 255).astype(np.uint8)
    up = np.array([0.0, 0.0, 1.0])
    return Scaffold(
        Path(), views, points, colors, np.arange(len(points)),
        Tracks(np.concatenate(point), np.concatenate(image), np.concatenate(xy)),
        up, Plane(up, 0.0), Georeference(np.zeros(3)),
    )  # fmt: skip
