"""Discs put into the cells of a horizontal grid, strip by strip, until they are a surface."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from skyanchor.bridges import cell_kernels as kernels
from skyanchor.bridges.surface import Surface
from skyanchor.storage import files
from skyanchor.storage.spill import Spill
from skyanchor.types import Floats, Floats32, Ints

STRIP_BYTES = 1 << 27
"""Of discs in memory that wait for their strip."""


@dataclass
class Strips:
    """Discs by strip, a row of cells across the first axis of the grid."""

    across: Floats
    """(2, 3), the horizontal axes of the grid."""
    cell: float
    """Side of a cell, metres."""
    scratch: Path | None = None
    """For the discs that find no room in memory, and for the surface."""
    parts: Spill = field(init=False)
    members: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Numbers of the parts of every strip."""

    def __post_init__(self) -> None:
        """No discs yet."""
        self.parts = Spill(self.scratch and self.scratch / "strips", STRIP_BYTES)

    def add(self, keys: Ints, points: Floats32, normals: Floats32) -> None:
        """Add discs (N,); within a cell they will lie in the order of their keys."""
        places = kernels.cell_places(points, self.across, self.cell)
        for strip in np.unique(places[:, 0]):
            rows = np.flatnonzero(places[:, 0] == strip)
            number = sum(map(len, self.members.values()))
            self.members[int(strip)].append(number)
            self.parts[number] = (places[rows, 1], keys[rows], points[rows], normals[rows])

    def surface(self, voxel: float, gsd: float, up: Floats) -> Surface:
        """All discs, sorted by cell; none of them is kept here any longer."""
        written = [_Column(self.scratch and self.scratch / name) for name in ("points", "normals", "spacing")]
        cells: list[tuple[Floats, Floats, Ints]] = []
        count = 0
        for strip in sorted(self.members):
            edges, points, normals = self._strip(strip)
            cells.append((*kernels.cell_balls(points, edges), count + edges[:-1]))
            count += len(points)
            spacing = np.full(len(points), 1.1 * voxel, np.float32)
            for column, values in zip(written, (points, normals, spacing), strict=True):
                column.append(values)
        points, normals, spacing = (column.array() for column in written)
        centres, farthest, starts = (np.concatenate(values) for values in zip(*cells, strict=True))
        starts = np.append(starts, count).astype(np.int64)
        return Surface(points, normals, spacing, gsd, self.across, up, self.cell, centres, farthest + voxel, starts)

    def _strip(self, strip: int) -> tuple[Ints, Floats32, Floats32]:
        """(edges (C + 1,) of the cells, points, normals) of one strip's discs, sorted."""
        parts = [self.parts.pop(number) for number in self.members[strip]]
        cells, keys, points, normals = (np.concatenate(values) for values in zip(*parts, strict=True))
        order = np.lexsort((keys, cells))
        starts = np.flatnonzero(np.diff(cells[order], prepend=cells.min() - 1))
        return np.append(starts, len(cells)).astype(np.int64), points[order], normals[order]


@dataclass
class _Column:
    """An array that grows at its end, in a file or in memory."""

    path: Path | None
    parts: list[npt.NDArray[Any]] = field(default_factory=list)
    shape: tuple[int, ...] = (0,)

    def append(self, values: npt.NDArray[Any]) -> None:
        """More rows."""
        if self.path is None:
            self.parts.append(values)
            return
        first = not self.parts
        self.parts = [values[:0]]
        self.shape = (self.shape[0] + len(values), *values.shape[1:])
        files.make_folder(self.path.parent)
        with files.writing(self.path), self.path.open("wb" if first else "ab") as file:
            file.write(np.ascontiguousarray(values).data)

    def array(self) -> npt.NDArray[Any]:
        """All rows; those in a file are read when they are looked at."""
        if self.path is None or not self.shape[0]:
            return np.concatenate(self.parts)
        return np.asarray(np.memmap(self.path, self.parts[0].dtype, "c", shape=self.shape))
