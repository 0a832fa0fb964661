"""A change as a value: what it is, where, how large, how sure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from skyanchor.types import Bools, Floats, Floats32, Ints


class ChangeKind(StrEnum):
    """How a later day contradicts an earlier one."""

    APPEARED = "appeared"
    """A surface where it was free."""
    VANISHED = "vanished"
    """Free where a surface was."""
    ALTERED = "altered"
    """The same surface with another look, or one thing in the place of another."""


@dataclass(frozen=True, eq=False)
class Change:
    """One thing that is another way than before."""

    kind: ChangeKind
    cells: Ints
    """(N, 3), cells of the grid that contradict, place / side rounded down."""
    low: Floats
    """(3,), corner of the box around them, metres, local frame ..."""
    high: Floats
    """(3,), ... and the corner across."""
    views_before: int
    """Views of the earlier day with an opinion, median over the cells ..."""
    views_after: int
    """... and of the later day."""
    confidence: float
    """Share of those views that agree, both days multiplied, mean over the cells, 0..1."""

    @property
    def centre(self) -> Floats:
        """(3,), middle of the box, metres, local frame."""
        return (self.low + self.high) / 2.0

    @property
    def size(self) -> Floats:
        """(3,), sides of the box, metres."""
        return self.high - self.low


@dataclass(frozen=True, eq=False)
class Region:
    """A part of space, cell by cell."""

    cells: Ints
    """(N, 3), place / side rounded down."""
    voxel_m: float
    """Side of a cell, metres."""

    def holds(self, points: Floats | Floats32, reach: int = 0) -> Bools:
        """(N,), which of the points (N, 3) lie in it, or at most `reach` cells beside it."""
        return inside_cells(points, self.cells, self.voxel_m, reach)

    def __len__(self) -> int:
        """How many cells."""
        return len(self.cells)


def united(regions: Sequence[Region]) -> Region:
    """The cells of all of them, each once; they have cells of one size."""
    return Region(np.unique(np.concatenate([one.cells for one in regions]), axis=0), regions[0].voxel_m)


def inside_cells(points: Floats | Floats32, cells: Ints, voxel_m: float, reach: int = 0) -> Bools:
    """(N,), which of the points (N, 3) lie in a cell, or at most `reach` cells beside one."""
    if not len(cells):
        return np.zeros(len(points), np.bool_)
    steps = np.arange(-reach, reach + 1)
    around = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 3)
    wide = np.unique((cells[:, None] + around).reshape(-1, 3), axis=0)
    own = np.floor(points.astype(np.float64) / voxel_m).astype(np.int64)
    low, size = wide.min(axis=0), np.ptp(wide, axis=0) + 1
    within = np.all((own >= low) & (own < low + size), axis=1)
    found = np.zeros(len(points), np.bool_)
    found[within] = np.isin(_keys(own[within] - low, size), _keys(wide - low, size))
    return found


def _keys(index: Ints, size: Ints) -> Ints:
    """(N,), one number per cell of a box of `size` cells."""
    return (index[:, 0] * size[1] + index[:, 1]) * size[2] + index[:, 2]
