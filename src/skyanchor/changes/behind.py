"""Photos asked what they show: the surface that their own depth has, or what the other day has behind it.

Depth of small frames bulges where a road is plain, and views that share their sources bulge alike. Photos of the other
day, laid onto a bulge, look another way, for it is not where they were taken of. But the photo itself shows the road:
with the surface of the other day in place of its own, it looks like the photos of that day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from skyanchor.changes.config import ChangeConfig, LookConfig
from skyanchor.changes.found import inside_cells
from skyanchor.changes.look import Seen, across, near
from skyanchor.geometry.depth import lift, pixel_centres
from skyanchor.stereo.consistency import seen_from
from skyanchor.types import Bools, Floats32, Ints


def shows_what_is_behind(cells: Ints, photos: Sequence[Seen], others: Sequence[Seen], config: ChangeConfig) -> bool:
    """Whether pixels that have their surface in the cells (N, 3) show what the other day has behind them.

    By `least_share` of those that say something: what was there may look a little like what is behind it.
    """
    alike, otherwise = 0, 0
    for one in photos:
        mine = _in_cells(one, cells, config)
        if mine.any():
            told = _behind(one, near(one, others, config.look)[: config.look.other_photos], config.look)[mine]
            alike += int((told >= config.look.agree).sum())
            otherwise += int((told <= config.look.disagree).sum())
    return alike > 0 and alike >= config.least_share * (alike + otherwise)


def _in_cells(one: Seen, cells: Ints, config: ChangeConfig) -> Bools:
    """(H, W), pixels whose surface lies in a cell."""
    found = np.zeros(one.known.shape, np.bool_)
    rows, columns = np.nonzero(one.known)
    depth = one.held.depth[rows, columns].astype(np.float64)
    points = lift(one.held.camera, one.held.cam_from_world, pixel_centres(rows, columns), depth)
    found[rows, columns] = inside_cells(points, cells, config.voxel_m)
    return found


def _behind(one: Seen, others: Sequence[Seen], config: LookConfig) -> Floats32:
    """(H, W), how well a photo agrees with others on the surfaces that those have; nan where nothing is said."""
    if not others:
        return np.full(one.known.shape, np.nan, np.float32)
    depth = seen_from(one.held, [replace(other.held, depth=other.held.depth * other.known) for other in others])
    return across(Seen(replace(one.held, depth=depth), depth > 0, one.texture), others, config)
