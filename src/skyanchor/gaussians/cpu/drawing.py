"""A view of a splat set and its gradients, on numpy arrays: the kernels in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skyanchor.gaussians.cpu.binning_kernels import walk_tiles
from skyanchor.gaussians.cpu.layout import BLOCK, CHUNKS, DRAWN, LEVEL, MEAN_X, REACH, TILE, VAR_X, VAR_Y, Lens, Splats
from skyanchor.gaussians.cpu.projection_kernels import project_splats, unproject_gradients
from skyanchor.gaussians.cpu.tile_kernels import draw_tiles, sum_hits, tile_gradients
from skyanchor.types import Floats, Floats32, Ints

Ints32 = npt.NDArray[np.int32]


class Images(NamedTuple):
    """What is drawn, or the gradient with respect to it."""

    rgb: Floats32
    """(H, W, 3)."""
    alpha: Floats32
    """(H, W)."""
    depth: Floats32
    """(H, W), expected depth."""


@dataclass(frozen=True, eq=False)
class Eye:
    """From where and how a view is drawn."""

    cam_from_world: Floats32
    """(4, 4)."""
    lens: Lens
    alpha_cap: np.float32
    sh_degree: int

    @property
    def centre_in_world(self) -> Floats32:
        """c = -Wᵀ t, (3,)."""
        view = self.cam_from_world.astype(np.float64)
        return (-view[:3, :3].T @ view[:3, 3]).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Bins:
    """Every (Gaussian, tile) that meet, H of them: a hit. Sorted by tile, then by depth."""

    columns: int
    """Tiles per row of tiles."""
    order: Ints32
    """(V,), the drawn Gaussians, nearest first."""
    starts: Ints
    """(V + 1,), where the hits of order[k] start in `places`."""
    places: Ints32
    """(H,), index of each hit in the tiles' lists."""
    bounds: Ints
    """(tiles + 1,), where each tile's list starts."""
    ids: Ints32
    """(H,), the Gaussian of each hit."""
    spans: Ints32
    """(H,), the pixel rows of the tile it reaches: first | end << 8."""


@dataclass(frozen=True, eq=False)
class Drawing:
    """A view, and what its gradients need."""

    images: Images
    drawn: Floats32
    """(N, DRAWN), only rows with reach[:, LEVEL] > 0 are set."""
    reach: Floats32
    """(N, REACH)."""
    bins: Bins

    def radii(self) -> Floats32:
        """(N,), larger half-axis of the footprint's bounding box in whole pixels; 0 = not drawn."""
        widest = np.maximum(self.reach[:, VAR_X], self.reach[:, VAR_Y])
        return np.ceil(np.sqrt(widest * self.reach[:, LEVEL]))


def depth_order(drawn: Floats32, reach: Floats32) -> Ints32:
    """The drawn Gaussians, nearest first, ties by index: positive floats sort like their bits."""
    visible = np.flatnonzero(reach[:, LEVEL] > 0)
    depth = np.ascontiguousarray(drawn[visible, DRAWN - 1]).view(np.uint32).astype(np.uint64)
    keys = (depth << np.uint64(32)) | visible.astype(np.uint64)
    keys.sort()
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.int32)


def bin_splats(drawn: Floats32, reach: Floats32, width: int, height: int) -> Bins:
    """The tiles' lists of Gaussians: count, scan, fill."""
    columns, rows = -(-width // TILE), -(-height // TILE)
    order = depth_order(drawn, reach)
    cursors, hits = np.zeros((CHUNKS, columns * rows), np.int64), np.zeros(len(order), np.int64)
    none, starts = np.empty(0, np.int32), np.zeros(len(order) + 1, np.int64)
    walk_tiles(order, drawn, reach, columns, rows, cursors, hits, starts, none, none, none, False)
    np.cumsum(hits, out=starts[1:])
    bounds = np.concatenate([[0], np.cumsum(cursors.sum(axis=0))])
    cursors = np.cumsum(cursors, axis=0) - cursors + bounds[:-1]
    ids, places, spans = np.empty((3, bounds[-1]), np.int32)
    walk_tiles(order, drawn, reach, columns, rows, cursors, hits, starts, ids, places, spans, True)
    return Bins(columns, order, starts, places, bounds, ids, spans)


def draw(splats: Splats, eye: Eye, background: Floats32) -> Drawing:
    """The view of `eye`."""
    n, width, height = len(splats.means), int(eye.lens.width), int(eye.lens.height)
    drawn, reach = np.empty((n, DRAWN), np.float32), np.empty((n, REACH), np.float32)
    project_splats(splats, eye.cam_from_world, eye.lens, eye.centre_in_world, eye.sh_degree, drawn, reach)
    bins = bin_splats(drawn, reach, width, height)
    shape = (height, width)
    images = Images(*(np.empty(s, np.float32) for s in ((*shape, 3), shape, shape)))
    draw_tiles(bins.columns, bins.bounds, bins.ids, bins.spans, drawn, eye.alpha_cap, background, *images)
    return Drawing(images, drawn, reach, bins)


class Gradients(NamedTuple):
    """The gradients of a scalar that depends on a view."""

    splats: Splats
    """Zero from row `trained` on."""
    cam_from_world: Floats32
    """(4, 4), the entries taken as free; the last row is zero."""
    screen: Floats32
    """(N, 2), with respect to the projected means; zero from row `trained` on."""


def draw_gradients(splats: Splats, eye: Eye, drawing: Drawing, grads: Images, *, trained: int, pose: bool) -> Gradients:
    """Gradients for the first `trained` rows and, with `pose`, the exact gradient of the pose, which needs all rows."""
    n, bins = len(splats.means), drawing.bins
    rows = n if pose else trained
    hit_grads = np.empty((len(bins.ids), DRAWN), np.float32)
    tile_gradients(
        bins.columns, rows, bins.bounds, bins.ids, bins.spans, drawing.drawn, eye.alpha_cap, drawing.images, grads,
        hit_grads,
    )  # fmt: skip
    g_drawn = np.zeros((n, DRAWN), np.float32)
    sum_hits(bins.order, rows, bins.starts, bins.places, hit_grads, g_drawn, CHUNKS)
    out = Splats(*(np.zeros_like(values) for values in splats))
    parts = np.zeros((-(-rows // BLOCK), 15), np.float64)
    unproject_gradients(
        rows, trained, splats, eye.cam_from_world, eye.lens, eye.centre_in_world, eye.sh_degree, drawing.drawn,
        drawing.reach, g_drawn, out, parts,
    )  # fmt: skip
    screen = g_drawn[:, MEAN_X : MEAN_X + 2].copy()
    screen[trained:] = 0.0
    return Gradients(out, pose_gradient(parts.sum(axis=0), eye.cam_from_world), screen)


def pose_gradient(parts: Floats, cam_from_world: Floats32) -> Floats32:
    """dL/d(cam_from_world) from dL/d[W | t] at a fixed centre and g = dL/dc, c = -Wᵀ t: dW -= t gᵀ, dt -= W g."""
    view, out = cam_from_world.astype(np.float64), np.zeros((4, 4))
    out[:3] = parts[:12].reshape(3, 4)
    out[:3, :3] -= np.outer(view[:3, 3], parts[12:])
    out[:3, 3] -= view[:3, :3] @ parts[12:]
    return out.astype(np.float32)
