"""Photos asked which of two surfaces they show: the one that their own day has, or the one of the other day.

Depth of small frames bulges where a road is plain, and views that share their sources bulge alike, so their number
proves nothing. But on a plain place the surface of the other day fits the photos just as well: what they cannot tell
apart they do not claim. Only photos of one day are compared with each other, so light and its shadows play no part,
and how far off depth may be at a range, a baseline and a texture is in the answer without being stated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from skyanchor.changes.change import inside_cells
from skyanchor.changes.config import ChangeConfig
from skyanchor.changes.look import Seen, away, near
from skyanchor.geometry import cameras
from skyanchor.geometry.depth import lift, pixel_centres
from skyanchor.stereo.consistency import seen_from
from skyanchor.types import Bools, DepthMap, Floats, Floats32, Ints

Photos: TypeAlias = Sequence[Seen]
"""Those of one day."""


@dataclass(frozen=True)
class Rivalry:
    """How badly two surfaces fit the photos of one day, over the pixels where both are known."""

    own: float = 0.0
    """Σ of squared differences between photos laid onto the day's own surface, log grey² ..."""
    other: float = 0.0
    """... and onto that of the other day."""
    pixels: int = 0
    """That were asked ..."""
    views: int = 0
    """... in so many photos."""

    def __add__(self, more: Rivalry) -> Rivalry:
        """Both together."""
        return Rivalry(self.own + more.own, self.other + more.other, self.pixels + more.pixels, self.views + more.views)

    @property
    def worse(self) -> float:
        """How many times worse the other day's surface fits, √(Σ other² / Σ own²); 1 where nobody can tell."""
        return float(np.sqrt(self.other / max(self.own, 1e-12))) if self.pixels else 1.0

    def sure(self, config: ChangeConfig) -> bool:
        """Whether enough photos tell that it is their own surface."""
        return self.views >= config.least_views and self.worse >= config.rivals.least_worse


def standing(cells: Ints, days: Sequence[Photos], others: Sequence[Photos], config: ChangeConfig) -> Rivalry:
    """What photos with a surface in the cells (N, 3) say of it, against the surface that the other days have behind it.

    Days are given from the newest to the oldest: an older one says where a surface is only where no newer one does.
    """
    total = Rivalry()
    for photos in days:
        for one in photos:
            here = _in_cells(one, cells, config)
            if here.any():
                rival = _rival(one, others, [[other.sure for other in day] for day in others], config)
                behind = here & (rival > one.held.depth + _margin(one, config))
                total += _compared(one, behind, rival, photos, config)
    return total


def looked_through(cells: Ints, days: Sequence[Photos], others: Sequence[Photos], config: ChangeConfig) -> Rivalry:
    """What photos that look through the cells (N, 3) say of what they see, against the other days' surface in them."""
    total = Rivalry()
    within = [[_in_cells(other, cells, config) for other in day] for day in others]
    for photos in days:
        for one in photos:
            rival = _rival(one, others, within, config)
            before = one.sure & (rival > 0) & (rival < one.held.depth - _margin(one, config))
            total += _compared(one, before, rival, photos, config)
    return total


def _margin(one: Seen, config: ChangeConfig) -> Floats32:
    """(H, W), how far apart surfaces must lie to be two, metres."""
    relative = config.margin_px / cameras.focal_px(one.held.camera)
    return np.asarray(config.margin_m + relative * one.held.depth, np.float32)


def _rival(one: Seen, days: Sequence[Photos], where: Sequence[Sequence[Bools]], config: ChangeConfig) -> Floats32:
    """(H, W), the surface of other days as a photo would see it, of those pixels of theirs; 0 = none."""
    found = np.zeros(one.known.shape, np.float32)
    for photos, masks in zip(days, where, strict=True):
        mask_of = {id(other): mask for other, mask in zip(photos, masks, strict=True)}
        some = near(one, photos, config.look)[: config.rivals.other_maps]
        drawn = _drawn(one, [_held(other, mask_of[id(other)]) for other in some])
        found = np.where(found > 0, found, drawn)
    return found


def _held(one: Seen, where: Bools) -> DepthMap:
    return replace(one.held, depth=one.held.depth * where)


def _drawn(one: Seen, maps: list[DepthMap]) -> Floats32:
    """(H, W), the surfaces of some maps as a photo would see them; 0 = none."""
    some = [held for held in maps if held.depth.any()]
    return seen_from(one.held, some) if some else np.zeros(one.known.shape, np.float32)


def _in_cells(one: Seen, cells: Ints, config: ChangeConfig) -> Bools:
    """(H, W), pixels whose surface lies in a cell."""
    found = np.zeros(one.known.shape, np.bool_)
    rows, columns = np.nonzero(one.known)
    depth = one.held.depth[rows, columns].astype(np.float64)
    points = lift(one.held.camera, one.held.cam_from_world, pixel_centres(rows, columns), depth)
    found[rows, columns] = inside_cells(points, cells, config.voxel_m)
    return found


# --- two surfaces on the photos of one day ------------------------------------------------------------------------


def _compared(one: Seen, where: Bools, rival: Floats32, photos: Photos, config: ChangeConfig) -> Rivalry:
    """The two surfaces of some pixels of a photo, in the photos around it."""
    rows, columns = np.nonzero(where)
    sources = _sources(one, photos, config)
    if len(rows) < config.rivals.least_pixels or not sources:
        return Rivalry()
    own, other = (_misfit(one, rows, columns, depth, sources, config) for depth in (one.held.depth, rival))
    told = np.isfinite(own) & np.isfinite(other)
    return Rivalry(float(own[told].sum()), float(other[told].sum()), int(told.sum()), int(told.any()))


def _sources(one: Seen, photos: Photos, config: ChangeConfig) -> list[Seen]:
    """The photos of its own day next to one that are far enough from it to see depth."""
    some = near(one, photos, config.look)
    return [other for other in some if away(one, other) >= config.rivals.apart_m][: config.rivals.photos]


def _misfit(one: Seen, rows: Ints, columns: Ints, depth: Floats32, sources: Photos, config: ChangeConfig) -> Floats:
    """(N,), mean squared difference of pixels to the sources that fit best when laid onto a surface; nan = not seen.

    Something may stand before the surface in the others.
    """
    z = depth[rows, columns].astype(np.float64)
    points = lift(one.held.camera, one.held.cam_from_world, pixel_centres(rows, columns), z)
    off = np.array([one.texture[rows, columns] - _sampled(source, points) for source in sources]) ** 2
    best = np.argsort(_mean(off, axis=1))[: config.rivals.best]
    return _mean(off[best], axis=0)


def _mean(values: Floats, axis: int) -> Floats:
    """The mean of those that are known; nan where none is."""
    known = np.isfinite(values)
    count = known.sum(axis=axis)
    return np.where(count > 0, np.where(known, values, 0.0).sum(axis=axis) / np.maximum(count, 1), np.nan)


def _sampled(source: Seen, points: Floats) -> Floats:
    """(N,), the texture of a photo at points (N, 3), between its pixels; nan outside of it."""
    in_cam = source.held.cam_from_world(points)
    x, y = (cameras.project(source.held.camera, in_cam) - 0.5).T
    height, width = source.texture.shape
    inside = (in_cam[:, 2] > 0) & (x >= 0) & (y >= 0) & (x < width - 1) & (y < height - 1)
    x, y = np.where(inside, x, 0.0), np.where(inside, y, 0.0)
    column, row = x.astype(np.int64), y.astype(np.int64)
    right, down = x - column, y - row
    above, below = (
        (1.0 - right) * source.texture[line, column] + right * source.texture[line, column + 1]
        for line in (row, row + 1)
    )
    return np.where(inside, (1.0 - down) * above + down * below, np.nan)
