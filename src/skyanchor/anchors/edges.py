"""Whether edges of a photo lie where a view of the model has them: what another light, rain or dusk leave as they are.

A matcher must recognise a patch among all others, and under another sun it recognises half as many. Where a place is
known already less is asked: whether the edges of a cell lie in the photo where the view has them, and nowhere beside.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from skyanchor.anchors.expected import LEAST_PAINTED, grid_of
from skyanchor.bridges.views import Bridge
from skyanchor.geometry import cameras
from skyanchor.types import Bools, Bytes, Floats, Floats32, Ints

WIDTH = 240
"""Of photo and view when their edges are compared, pixels: blunt enough for a place that is right to centimetres."""
REACH = 6
"""Shifts that are tried, pixels to each side."""
NEAR = 1
"""Those of them that count as none."""
AROUND = 15
"""Pixels in whose square the strength of edges is made even: a cell's width."""
NOISE = 2.0
"""Strength of an edge, grey values a pixel, that counts half."""
LEAST_EDGES = 0.02
"""Mean square of the directions in a cell below which it has no edges."""


def directions(grey: Floats32) -> Floats32:
    """(2, H, W), the doubled angle of the gradient as a vector, as long as the gradient is strong among its neighbours.

    With g = |g| (cos a, sin a) it is (cos 2a, sin 2a) |g| / (rms of |g| around + NOISE): the same for an edge from dark
    to light as for one from light to dark, and in sun as in shade.
    """
    blurred = cv2.GaussianBlur(grey, (0, 0), 0.8)
    x, y = (cv2.Scharr(blurred, cv2.CV_32F, *axis) / 16.0 for axis in ((1, 0), (0, 1)))
    square = x * x + y * y
    around = np.sqrt(np.maximum(cv2.blur(square, (AROUND, AROUND)), 0.0)) + NOISE
    return np.stack([x * x - y * y, 2.0 * x * y]) / (around * np.sqrt(np.maximum(square, 1e-6)))


def likeness(photo: Floats32, view: Floats32, rows: Ints, columns: Ints, size: tuple[int, int]) -> Floats32:
    """(N, S, S), cosine between the directions of both in every cell and those around it, for every shift of the photo.

    `photo` and `view` are directions (2, H, W); a cell begins at a row and a column (N,) and has the `size`, pixels.
    Alone a cell has a window or a ledge, and the edge of a shadow outweighs it; with those around it, it has not.
    """
    padded = np.pad(photo, ((0, 0), (REACH, REACH), (REACH, REACH)))
    shifts = np.arange(2 * REACH + 1)
    shifted = sliding_window_view(padded, size, axis=(1, 2))[
        :, rows[:, None, None] + shifts[:, None], columns[:, None, None] + shifts
    ]
    own = sliding_window_view(view, size, axis=(1, 2))[:, rows, columns]
    across = np.einsum("knijyx,knyx->nij", shifted, own)
    photos, views = np.einsum("knijyx,knijyx->nij", shifted, shifted), np.einsum("knyx,knyx->n", own, own)
    pool = beside(rows, columns, size).astype(np.float32)
    across, photos, views = (np.tensordot(pool, part, axes=1) for part in (across, photos, views))
    return np.asarray(across / np.sqrt(photos * views[:, None, None] + 1e-9), np.float32)


def beside(rows: Ints, columns: Ints, size: tuple[int, int]) -> Bools:
    """(N, N), cells that touch each other, each itself among them."""
    down, right = (np.abs(at[:, None] - at) < 1.5 * side for at, side in zip((rows, columns), size, strict=True))
    return np.asarray(down & right)


def in_place(alike: Floats32) -> Bools:
    """(N,), cells that are most alike where they are, not a few pixels beside."""
    near = slice(REACH - NEAR, REACH + NEAR + 1)
    return np.asarray(alike[:, near, near].max(axis=(1, 2)) >= alike.max(axis=(1, 2)))


def with_edges(view: Floats32, painted: Bools) -> Bools:
    """(R, C), cells of a view by its directions (2, H, W) that are painted (H, W) and have edges."""
    rows, columns = grid_of(painted.shape[1], painted.shape[0])

    def mean(values: Floats32) -> Floats32:
        return np.asarray(cv2.resize(values, (columns, rows), interpolation=cv2.INTER_AREA), np.float32)

    strength = mean((view * view).sum(axis=0))
    return np.asarray((mean(painted.astype(np.float32)) >= LEAST_PAINTED) & (strength >= LEAST_EDGES))


def edges_of(bridge: Bridge, photo: Bytes, up: Floats) -> tuple[int, int]:
    """(cells above the horizon where the view has edges, those of them where the photo has them in the same place)."""
    height, width = bridge.photo.pixels.shape[:2]
    seen = cv2.resize(photo, (width, height), interpolation=cv2.INTER_AREA)
    painted = np.ones((height, width), bool) if bridge.photo.mask is None else bridge.photo.mask
    view = directions(_grey(bridge.photo.pixels)) * painted
    cells = with_edges(view, painted)
    y, x = np.indices(cells.shape).reshape(2, -1)
    cell = np.array([width / cells.shape[1], height / cells.shape[0]])
    rays = cameras.unproject(bridge.camera, (np.column_stack([x, y]) + 0.5) * cell)
    above = (rays @ (bridge.cam_from_world.rotation @ up) > 0.0).reshape(cells.shape)
    row, column = np.nonzero(cells & above)
    top, left = (np.floor(k * side).astype(np.int64) for k, side in ((row, cell[1]), (column, cell[0])))
    alike = likeness(directions(_grey(seen)), view, top, left, (int(cell[1]), int(cell[0])))
    return len(row), int(in_place(alike).sum())


def _grey(pixels: Bytes) -> Floats32:
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), np.float32)
