"""`skyanchor tiles`: a .ply cut into square tiles, and joined again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import tyro

from skyanchor.bounds import Positive
from skyanchor.cli.options import Folder
from skyanchor.cli.patch import Ply, PlyToWrite
from skyanchor.cli.tables import print_table

if TYPE_CHECKING:
    from skyanchor.types import Floats

Tiles: TypeAlias = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="TILES")]


def cut(path: Ply, /, out: Folder, size: Annotated[Positive, tyro.conf.arg(metavar="METRES")] = 100.0) -> None:
    """Write a .ply as a folder of square tiles, each a .ply of its own; `patch apply` works on it tile by tile.

    Args:
        path: A binary .ply of Gaussians, patched or not.
        out: Folder to write: tiles.json, X_Y.ply for every square, and where each row belongs.
        size: Side of a square. Squares lie across the up of a georef.json beside the .ply, else across z.
    """
    from skyanchor.scene import tiles

    index = tiles.cut(path, out, size, _up_beside(path))
    print(f"{index.described.count} Gaussians in {len(index.tiles)} tiles written to {out}")


def join(path: Tiles, /, out: PlyToWrite) -> None:
    """Write tiles as the one .ply that they were cut from, with the patches that they hold, byte for byte.

    Args:
        path: A folder of tiles.
        out: The .ply to write.
    """
    from skyanchor.scene import tiles

    held = tiles.open_tiles(path)
    tiles.join(held, out)
    print(f"{held.index.described.count} Gaussians written to {out}")


def list_tiles(path: Tiles, /) -> None:
    """List tiles: where their Gaussians lie and how many there are.

    Args:
        path: A folder of tiles.
    """
    from skyanchor.scene.tiles import open_tiles, tile_name

    found = open_tiles(path).index.tiles
    rows = [[tile_name(one.square), str(one.count), _corner(one.low), _corner(one.high)] for one in found]
    print_table(f"tiles in {path.name}", ["tile", "Gaussians", "from, metres", "to, metres"], rows)


def _corner(point: Floats) -> str:
    return " ".join(f"{value:.1f}" for value in point)


def _up_beside(path: Path) -> Floats:
    import numpy as np

    from skyanchor.scaffold.georeference import find_georef, read_georef

    georef = find_georef(path.parent)
    up = None if georef is None else read_georef(georef).up
    return np.array([0.0, 0.0, 1.0]) if up is None else up
