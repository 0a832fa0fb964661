"""What a photo taken at a place should show: cells of the view rendered there that are painted and not plain."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from skyanchor.bridges.views import Bridge
from skyanchor.geometry import cameras
from skyanchor.types import Bools, Floats, Floats32

GRID = 16
"""Columns of the grid in which a photo is looked at; its rows follow its shape."""

LEAST_PAINTED = 0.7
"""Share of a cell that must be painted for something to be expected there."""

LEAST_CONTRAST = 6.0
"""Standard deviation of its grey values, of 255, for the same."""


@dataclass(frozen=True, eq=False)
class Expected:
    """Where a photo should show something that it can be recognised by, if it was taken where a view was rendered."""

    frame: int
    """Position in the group."""
    cells: Bools
    """(R, C), of the photo."""
    fronts: Bools
    """(R, C), those of them above the horizon: what is lower than the eye is ground, alike in all streets, or moves."""


def grid_of(width: int, height: int) -> tuple[int, int]:
    """(rows, columns) of the grid of a photo of that size."""
    return max(1, round(GRID * height / width)), GRID


def expected_in(bridge: Bridge, frame: int, up: Floats) -> Expected:
    """Cells of a view that are painted and not plain."""
    rows, columns = grid_of(bridge.camera.width, bridge.camera.height)

    def mean(values: Floats32) -> Floats32:
        return np.asarray(cv2.resize(values, (columns, rows), interpolation=cv2.INTER_AREA), np.float32)

    grey = cv2.cvtColor(bridge.photo.pixels, cv2.COLOR_RGB2GRAY).astype(np.float32) / 255.0
    painted = np.ones_like(grey) if bridge.photo.mask is None else bridge.photo.mask.astype(np.float32)
    share = mean(painted)
    there = np.maximum(share, 1e-6)
    variance = mean(painted * grey * grey) / there - (mean(painted * grey) / there) ** 2
    cells = (share >= LEAST_PAINTED) & (variance >= (LEAST_CONTRAST / 255.0) ** 2)
    y, x = np.indices(cells.shape).reshape(2, -1) + 0.5
    middles = np.column_stack([x * bridge.camera.width / columns, y * bridge.camera.height / rows])
    above = cameras.unproject(bridge.camera, middles) @ (bridge.cam_from_world.rotation @ up) > 0.0
    return Expected(frame, np.asarray(cells), np.asarray(cells & above.reshape(cells.shape)))
