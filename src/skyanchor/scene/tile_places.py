"""Which square each row of the one file lies in, and where among the rows there: the files below `rows` of tiles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np
import numpy.typing as npt

from skyanchor.storage import files
from skyanchor.storage.digests import digest, file_digest
from skyanchor.types import Ints

ROWS = "rows"
ORIGINAL = "original"
PLACE = np.dtype([("x", "<i4"), ("y", "<i4"), ("row", "<u4")])
"""Square of a row, and its number among the rows of its layer there."""

Places: TypeAlias = npt.NDArray[np.void]
Square: TypeAlias = tuple[int, int]


def placed(squares: Ints, layer: str, counts: dict[Square, dict[str, int]]) -> Places:
    """(N,) of `PLACE` of rows in squares (N, 2), after those of the layer that are counted there; they are now too."""
    places = np.zeros(len(squares), PLACE)
    places["x"], places["y"] = squares.T
    for square, mine in grouped(squares):
        each = counts.setdefault(square, {})
        begun = each.get(layer, 0)
        places["row"][mine] = begun + np.arange(len(mine))
        each[layer] = begun + len(mine)
    return places


def write_places(folder: Path, layer: str, count: int, parts: Iterator[Places]) -> str:
    """Write the places of a layer's rows, which come in parts; the digest of the file."""
    path = folder / rows_name(layer)
    files.make_folder(path.parent)
    with path.open("wb") as file:
        _npy_head(file, count)
        for part in parts:
            file.write(part.tobytes())
    return file_digest(path)


def _npy_head(file: IO[bytes], count: int) -> None:
    facts = {"descr": np.lib.format.dtype_to_descr(PLACE), "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(file, facts)


def grouped(squares: Ints) -> Iterator[tuple[Square, Ints]]:
    """Each of the squares (N, 2) once, with the rows that name it, ascending."""
    if not len(squares):
        return
    order = np.lexsort((squares[:, 1], squares[:, 0]))
    ends = np.flatnonzero((np.diff(squares[order], axis=0) != 0).any(axis=1)) + 1
    for mine in np.split(order, ends):
        yield (int(squares[mine[0], 0]), int(squares[mine[0], 1])), mine


def rows_name(layer: str) -> str:
    """Of the file that says where the rows of a patch are, or those of the original."""
    return f"{ROWS}/{digest(layer.encode()) if layer else ORIGINAL}.npy"
