"""Which aerial views see the same ground: footprints, their overlap, and the graph of the best overlaps."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from skyanchor.geometry import cameras, planes, rigid
from skyanchor.types import Bools, Floats, Ints, Plane, Scaffold, View, VisibilityGraph

SAMPLED_VIEWS = 256
"""Views whose footprint is measured to choose the size of a cell."""
LARGEST_GRID = 5e7
"""Cells; stray points may not blow the raster up."""


@dataclass(frozen=True)
class VisibilityConfig:
    """How footprints are drawn and compared."""

    n_vis: int = 16
    """Neighbours stored per aerial view, at most."""
    cells_across: int = 64
    """Cells along the side of a median footprint; fewer where views see few points: footprints should have no holes."""
    height_percentiles: tuple[float, float] = (1.0, 99.0)
    """Points outside these percentiles of the heights are not drawn: strays far above and below the scene."""
    least_points: int = 30
    """Views with fewer observations than this get the footprint of their frustum."""
    reach: float = 4.0
    """A frustum footprint ends at this many camera heights from the camera, so that a horizon does not cover all."""


@dataclass(frozen=True, eq=False)
class Grid:
    """A raster on the ground plane."""

    axes: Floats
    """(2, 3), unit, in the plane."""
    origin: Floats
    """(2,), metres along the axes."""
    cell: float
    """Side of a cell, metres."""
    columns: int
    rows: int


@dataclass(frozen=True, eq=False)
class Footprints:
    """The cells that every view sees; view k owns cells[start[k]:start[k + 1]], each once."""

    grid: Grid
    start: Ints
    """(n + 1,)."""
    cells: npt.NDArray[np.int32]
    """row * columns + column."""


def visibility_graph(scaffold: Scaffold, config: VisibilityConfig | None = None) -> VisibilityGraph:
    """Per aerial view the views with the largest footprint IoU, best first."""
    config = config or VisibilityConfig()
    return overlap_graph(footprints(scaffold, config), config.n_vis)


def overlap_graph(drawn: Footprints, n_vis: int) -> VisibilityGraph:
    """The graph of footprints: intersections are counted through an inverted cell index, so cost follows overlaps."""
    from skyanchor.scaffold import visibility_kernels as kernels  # numba, only when a graph is wanted

    count = drawn.grid.columns * drawn.grid.rows
    cell_start, cell_views = kernels.invert_index(drawn.start, drawn.cells, count)
    ids, overlap = kernels.top_overlaps(drawn.start, drawn.cells, cell_start, cell_views, n_vis)
    found = (ids >= 0).sum(axis=1)
    neighbours = tuple(ids[k, : found[k]].copy() for k in range(len(ids)))
    return VisibilityGraph(neighbours, tuple(overlap[k, : found[k]].copy() for k in range(len(ids))))


# --- footprints -------------------------------------------------------------------------------------------------


def footprints(scaffold: Scaffold, config: VisibilityConfig) -> Footprints:
    """Footprints of the points each view observes; of its frustum where it observes too few."""
    views = len(scaffold.views)
    usable = _drawn_observations(scaffold, config)
    observed = np.bincount(scaffold.tracks.image[usable], minlength=views)
    usable &= (observed >= config.least_points)[scaffold.tracks.image]
    order = np.flatnonzero(usable)[np.argsort(scaffold.tracks.image[usable], kind="stable")]
    first = np.searchsorted(scaffold.tracks.image[order], np.arange(views + 1))
    axes = planes.basis(scaffold.ground.normal)
    flat = (scaffold.points @ axes.T)[scaffold.tracks.point[order]]
    outlines = {
        k: frustum_outline(scaffold.views[k], scaffold.ground, axes, config.reach)
        for k in np.flatnonzero(observed < config.least_points).tolist()
    }
    grid = _grid(axes, first, flat, list(outlines.values()), config)
    return _rasterised(grid, first, flat, outlines)


def _drawn_observations(scaffold: Scaffold, config: VisibilityConfig) -> Bools:
    """Observations (K,) of points at plausible heights."""
    if len(scaffold.points) == 0:
        return np.zeros(len(scaffold.tracks.point), np.bool_)
    height = planes.heights(scaffold.ground, scaffold.points)
    low, high = np.percentile(height, config.height_percentiles)
    return np.asarray(((height >= low) & (height <= high))[scaffold.tracks.point])


def frustum_outline(view: View, ground: Plane, axes: Floats, reach: float) -> Floats:
    """Where the border of the photo meets the ground, (B, 2); rays to the horizon end at `reach` camera heights."""
    camera = view.camera
    t = np.linspace(0.0, 1.0, 8, endpoint=False)
    zero, one = np.zeros_like(t), np.ones_like(t)
    border = np.concatenate([np.stack(side, axis=1) for side in ((t, zero), (one, t), (1 - t, one), (zero, 1 - t))])
    rays = cameras.unproject(camera, border * [camera.width, camera.height]) @ view.cam_from_world.rotation
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    centre = rigid.centre_in_world(view.cam_from_world)
    height = max(float(planes.heights(ground, centre)), 1e-6)
    falling = np.maximum(-(rays @ ground.normal), 1e-9)
    level = rays @ axes.T
    distance = np.linalg.norm(level, axis=1) * height / falling
    shortened = np.minimum(1.0, reach * height / np.maximum(distance, 1e-12))
    return np.asarray(centre @ axes.T + level * (height / falling * shortened)[:, None])


def _grid(axes: Floats, first: Ints, flat: Floats, outlines: list[Floats], config: VisibilityConfig) -> Grid:
    """A grid over everything drawn; cell = side of the median footprint / cells across.

    Views that see P points, in the median, get at most √P cells across: finer cells would show gaps between points.
    """
    sides = [_sides_of_points(first, flat), np.array([_side_of_outline(outline) for outline in outlines])]
    observed = np.diff(first)
    across = float(config.cells_across)
    if len(flat):
        across = min(across, max(8.0, float(np.sqrt(np.median(observed[observed > 0])))))
    cell = max(float(np.median(np.concatenate(sides))) / across, 1e-9)
    places = np.concatenate([flat, *outlines])
    low, high = places.min(axis=0) - 2 * cell, places.max(axis=0) + 2 * cell
    cell = max(cell, float(np.sqrt(np.prod(high - low) / LARGEST_GRID)))
    columns, rows = (np.ceil((high - low) / cell).astype(int) + 2).tolist()
    return Grid(axes, low - cell, cell, columns + 1, rows + 1)


def _sides_of_points(first: Ints, flat: Floats) -> Floats:
    """Side of a square with the area of the points' central 90 % box, metres, of some of the views that have points."""
    seen = np.flatnonzero(np.diff(first))
    sides = []
    for view in seen[:: max(1, len(seen) // SAMPLED_VIEWS)]:
        span = np.ptp(np.percentile(flat[first[view] : first[view + 1]], [5.0, 95.0], axis=0), axis=0)
        sides.append(float(np.sqrt(np.prod(span))))
    return np.array(sides)


def _side_of_outline(outline: Floats) -> float:
    """Side of a square of the outline's area: shoelace formula."""
    x, y = (outline - outline.mean(axis=0)).T
    return float(np.sqrt(abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2.0))


def _rasterised(grid: Grid, first: Ints, flat: Floats, outlines: dict[int, Floats]) -> Footprints:
    """Cells per view: points with the eight cells around them, outlines filled."""
    from skyanchor.scaffold import visibility_kernels as kernels  # numba, only when footprints are wanted

    column, row = np.floor((flat - grid.origin) / grid.cell).astype(np.int64).T
    around = np.array([dy * grid.columns + dx for dy in (-1, 0, 1) for dx in (-1, 0, 1)])
    start, cells = kernels.cells_seen(first, row * grid.columns + column, around, grid.columns * grid.rows)
    pieces = np.split(cells, start[1:-1])
    for view, outline in outlines.items():
        pieces[view] = _filled(grid, outline)
    start = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])])
    return Footprints(grid, start, np.concatenate(pieces))


def _filled(grid: Grid, outline: Floats) -> npt.NDArray[np.int32]:
    """Cells inside an outline."""
    corners = np.floor((outline - grid.origin) / grid.cell).astype(np.int32)
    low = corners.min(axis=0)
    width, height = (corners.max(axis=0) - low + 1).tolist()
    canvas = np.zeros((height, width), np.uint8)
    cv2.fillPoly(canvas, [(corners - low).reshape(-1, 1, 2)], 1)
    row, column = np.nonzero(canvas)
    return ((row + low[1]) * grid.columns + column + low[0]).astype(np.int32)
