"""Gaussians of a large area as a folder of square tiles, each a .ply of its own, and back to one file byte for byte.

    DIR/tiles.json            where the tiles lie, their counts and digests, the header of the one file
    DIR/<x>_<y>.ply           the Gaussians of a square, with all properties that they have in the one file
    DIR/rows/original.npy     of every row of the one file: the square, and which of the rows there it is
    DIR/rows/<patch>.npy      the same of the rows that a patch added (`scene.tile_patches`)

Rows of a tile are in the order of the one file: those of the original, then those of each patch. A Gaussian that a
patch moves stays in the tile that it was put into.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from skyanchor.bridges.surface import horizontal_axes
from skyanchor.errors import InputError
from skyanchor.gaussians import ply
from skyanchor.gaussians.ply_header import Header, header_in, row_size
from skyanchor.gaussians.splats import Splats
from skyanchor.scene.patch_head import Layer, layers_of, plain_head
from skyanchor.scene.tile_places import PLACE, Places, Square, grouped, placed, rows_name, write_places
from skyanchor.storage import codec, files, taken
from skyanchor.storage.digests import digest, file_digest
from skyanchor.types import Bytes, Floats, Ints

INDEX = "tiles.json"
AT_ONCE = 1 << 16
"""Rows worked on at a time."""
FARTHEST = 1 << 30
"""Squares from the origin, at most; what has no finite place lies in square 0, 0."""
MOST_TILES = 1 << 17
"""Files that one folder may be cut into."""
CUT_AGAIN = "Cut the tiles again from the .ply, or copy the folder again."


@dataclass(frozen=True, eq=False)
class Tile:
    """One square that has Gaussians."""

    x: int
    y: int
    counts: dict[str, int]
    """Rows by the patch that added them, in the order of the file; the original's are those of ''."""
    low: Floats
    """(3,), least coordinates of its Gaussians' centres, metres, in the frame of the file."""
    high: Floats
    """(3,), greatest."""
    digest: str
    """Of its file."""

    @property
    def count(self) -> int:
        """Gaussians."""
        return sum(self.counts.values())

    @property
    def square(self) -> Square:
        """Which one."""
        return self.x, self.y

    def rows_of(self, layer: str) -> slice:
        """Where the rows of a patch, or of the original, lie in it."""
        names = list(self.counts)
        before = names.index(layer) if layer in names else len(names)
        start = sum(self.counts[name] for name in names[:before])
        return slice(start, start + self.counts.get(layer, 0))


@dataclass(frozen=True, eq=False)
class TileIndex:
    """What tiles.json says."""

    size_m: float
    """Side of a square, metres."""
    across: Floats
    """(2, 3), axes along which squares are counted."""
    header: str
    """Of the one file, byte by byte (Latin-1)."""
    digest: str
    """Of the one file; empty where it is not known, as after a patch that was made for another one."""
    rows: dict[str, str]
    """Digests of the files below `rows`, by patch; the original's is that of ''."""
    tiles: tuple[Tile, ...]
    """By their squares."""

    @property
    def head(self) -> bytes:
        """Header of the one file."""
        return self.header.encode("latin-1")

    @cached_property
    def described(self) -> Header:
        """What that header says."""
        return header_in(Path(INDEX), self.head, sys.maxsize)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """Rows of the original and of each patch in the one file."""
        return layers_of(self.head, self.described.count)

    def squares(self, rows: Bytes) -> Ints:
        """(N, 2), where rows (N, row size) of the file belong."""
        with np.errstate(invalid="ignore", over="ignore"):
            flat = centres(rows, self.described) @ self.across.T / self.size_m
        flat[~np.isfinite(flat).all(axis=1)] = 0.0
        return np.clip(np.floor(flat), -FARTHEST, FARTHEST).astype(np.int64)


@dataclass(frozen=True, eq=False)
class TileFolder:
    """Tiles on disk, read one by one when they are asked for."""

    path: Path
    index: TileIndex

    @cached_property
    def by_square(self) -> dict[Square, Tile]:
        """All tiles."""
        return {tile.square: tile for tile in self.index.tiles}

    def file(self, square: Square) -> Path:
        """Where a tile lies."""
        return self.path / tile_name(square)

    def rows(self, tile: Tile) -> Bytes:
        """(N, row size), the rows of a tile; InputError where its file is not what the index says."""
        path = self.file(tile.square)
        self._refuse_missing(path)
        data = path.read_bytes()
        if digest(data) != tile.digest:
            raise _altered(path)
        return np.frombuffer(data, np.uint8)[len(self.head_of(tile)) :].reshape(tile.count, -1)

    def splats(self, tile: Tile) -> Splats:
        """The Gaussians of a tile, in the frame of the file."""
        return ply.read_splats(self.file(tile.square))

    def near(self, low: Floats, high: Floats) -> tuple[Tile, ...]:
        """Tiles with Gaussians that may lie in a box, by its corners (3,)."""
        return tuple(tile for tile in self.index.tiles if (tile.high >= low).all() and (tile.low <= high).all())

    def head_of(self, tile: Tile) -> bytes:
        """Header of a tile's file."""
        return plain_head(self.index.head, tile.count)

    def places(self, layer: str) -> Places:
        """(N,) of `PLACE`, where the rows of a layer are; on the disk until they are looked at."""
        path = self.path / rows_name(layer)
        self._refuse_missing(path)
        if layer:  # the original's is large, and what it leads to is compared
            self._refuse_altered(path, self.index.rows[layer])
        try:
            held = np.load(path, mmap_mode="r", allow_pickle=False)
        except codec.UNREADABLE as error:
            raise InputError(path, f"cannot be read ({error})", CUT_AGAIN) from error
        count = next(one.count for one in self.index.layers if one.name == layer)
        if held.dtype != PLACE or held.shape != (count,):
            raise InputError(path, f"does not speak of {count} rows", CUT_AGAIN)
        return np.asanyarray(held)

    def located(self, layer: str, places: Places) -> Iterator[tuple[Tile, Ints, Ints]]:
        """Per tile: it, which of the places (N,) of a layer lie there, and their rows in its file."""
        for square, mine in grouped(np.stack([places["x"], places["y"]], axis=1)):
            tile, rows = self.by_square.get(square), places["row"][mine].astype(np.int64)
            own = slice(0, 0) if tile is None else tile.rows_of(layer)
            if tile is None or (rows >= own.stop - own.start).any():
                raise InputError(self.path / rows_name(layer), "does not fit the tiles", CUT_AGAIN)
            yield tile, mine, own.start + rows

    def refuse_incomplete(self) -> None:
        """InputError where a file is missing; none is read."""
        for tile in self.index.tiles:
            self._refuse_missing(self.file(tile.square))
        for layer in self.index.layers:
            self._refuse_missing(self.path / rows_name(layer.name))

    def refuse_altered(self) -> None:
        """InputError for the first file that is missing or not what the index says; all are read."""
        self.refuse_incomplete()
        for tile in self.index.tiles:
            self._refuse_altered(self.file(tile.square), tile.digest)
        for layer, known in self.index.rows.items():
            self._refuse_altered(self.path / rows_name(layer), known)

    def _refuse_altered(self, path: Path, digest: str) -> None:
        if file_digest(path) != digest:
            raise _altered(path)

    def _refuse_missing(self, path: Path) -> None:
        if not path.is_file():
            raise InputError(path, "is missing", CUT_AGAIN)


def _altered(path: Path) -> InputError:
    return InputError(path, f"is not the file that {INDEX} speaks of: it was altered", CUT_AGAIN)


def is_tiles(path: Path) -> bool:
    """Whether a folder holds tiles."""
    return (path / INDEX).is_file()


def open_tiles(path: Path) -> TileFolder:
    """The tiles in a folder; InputError where it holds none."""
    if not is_tiles(path):
        raise InputError(path, f"is no folder of tiles (it has no {INDEX})", "Make one with `skyanchor tiles cut`.")
    try:
        index = codec.loads(TileIndex, (path / INDEX).read_text(encoding="utf-8"))
        fits = [layer.name for layer in index.layers] == list(index.rows) and index.size_m > 0
        if not fits or index.described.count != sum(tile.count for tile in index.tiles):
            raise ValueError("its counts do not fit each other")
    except (ValueError, TypeError, KeyError, OSError) as error:
        raise InputError(path / INDEX, f"cannot be understood ({error})", CUT_AGAIN) from error
    return TileFolder(path, index)


# --- one file to tiles --------------------------------------------------------------------------------------------


def cut(base: Path, out: Path, size_m: float, up: Floats) -> TileIndex:
    """Write a .ply as tiles with sides of `size_m` across `up`, whole or not at all; a few rows are in memory."""
    header = ply.patchable_header(base)
    refuse_taken(out)
    with base.open("rb") as file:
        head = file.read(header.size)
    across, digest = horizontal_axes(np.asarray(up, np.float64)), file_digest(base)
    empty = TileIndex(size_m, across, head.decode("latin-1"), digest, {}, ())
    found: list[TileIndex] = []

    def write(draft: Path) -> None:
        found.append(_cut_into(draft, mapped(base, header), empty))
        save_index(draft, found[-1])

    files.write_through(out, write)
    return found[-1]


def refuse_taken(out: Path) -> None:
    """InputError where a folder would be written over."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise InputError(out, "is there already", "Give --out another name.")


def refuse_within(tiles: TileFolder, out: Path) -> None:
    """InputError where something would be written among the files that are read."""
    if tiles.path.resolve() in out.resolve().parents:
        raise InputError(out, "lies among the tiles that are read", "Give --out another name.")


def _cut_into(folder: Path, rows: Bytes, index: TileIndex) -> TileIndex:
    """The index after its tiles and the places of all rows were written: where rows go first, then the rows."""
    counts: dict[Square, dict[str, int]] = {}
    digests = {}
    for layer in index.layers:
        own = rows[layer.start : layer.start + layer.count]
        digests[layer.name] = write_places(folder, layer.name, len(own), _placed(own, layer.name, index, counts))
    if len(counts) > MOST_TILES:
        problem = f"would make {len(counts)} tiles of {len(rows)} Gaussians"
        raise InputError(f"--size {index.size_m:g}", problem, f"Give a larger one: {MOST_TILES} tiles are the most.")
    for square, each in counts.items():
        files.note_bytes(folder / tile_name(square), plain_head(index.head, sum(each.values())))
    for start in range(0, len(rows), AT_ONCE):
        block = rows[start : start + AT_ONCE]
        for square, mine in grouped(index.squares(block)):
            with (folder / tile_name(square)).open("ab") as file:
                file.write(block[mine].data)
    tiles = tuple(described_tile(folder, square, counts[square], index) for square in sorted(counts))
    return TileIndex(index.size_m, index.across, index.header, index.digest, digests, tiles)


def _placed(rows: Bytes, layer: str, index: TileIndex, counts: dict[Square, dict[str, int]]) -> Iterator[Places]:
    """The places of the rows of a layer, some at a time; `counts` of its squares grow meanwhile."""
    for start in range(0, len(rows), AT_ONCE):
        squares = index.squares(rows[start : start + AT_ONCE])
        yield placed(squares, layer, counts)


def described_tile(folder: Path, square: Square, counts: dict[str, int], index: TileIndex) -> Tile:
    """What the index says of a tile that is written."""
    path = folder / tile_name(square)
    count = sum(counts.values())
    data = path.read_bytes()
    head = plain_head(index.head, count)
    rows = np.frombuffer(data, np.uint8)[len(head) :].reshape(count, row_size(index.described))
    at = centres(rows, index.described)
    at = at[np.isfinite(at).all(axis=1)]
    low, high = at.min(axis=0, initial=np.inf), at.max(axis=0, initial=-np.inf)
    return Tile(*square, counts, low, high, digest(data))


# --- tiles to one file --------------------------------------------------------------------------------------------


def join(tiles: TileFolder, out: Path) -> None:
    """Write the tiles as the one .ply that they stand for, every byte in its place; a few rows are in memory.

    InputError, and nothing is written, where a file is missing or not what the index says.
    """
    refuse_within(tiles, out)
    taken.refuse_lost(out, begins=taken.PLY)
    tiles.refuse_altered()

    def write(draft: Path) -> None:
        with draft.open("wb") as file:
            file.write(tiles.index.head)
            for layer in tiles.index.layers:
                places = tiles.places(layer.name)
                for start in range(0, layer.count, AT_ONCE):
                    file.write(_gathered(tiles, layer.name, places[start : start + AT_ONCE]).data)
        if tiles.index.digest and file_digest(draft) != tiles.index.digest:
            problem = "would not become the .ply that it stands for: a patch or a file of it was altered"
            raise InputError(tiles.path, problem, CUT_AGAIN)

    files.write_through(out, write)


def _gathered(tiles: TileFolder, layer: str, places: Places) -> Bytes:
    """(N, row size), the rows of a layer at these places."""
    header = tiles.index.described
    rows = np.empty((len(places), row_size(header)), np.uint8)
    for tile, mine, there in tiles.located(layer, places):
        size = len(tiles.head_of(tile))
        rows[mine] = mapped(tiles.file(tile.square), header, size, tile.count)[there]
    return rows


# --- rows and names -----------------------------------------------------------------------------------------------


def mapped(path: Path, header: Header, start: int | None = None, count: int | None = None) -> Bytes:
    """(N, row size), the rows of a .ply, on the disk until they are looked at."""
    shape = (header.count if count is None else count, row_size(header))
    if not shape[0]:
        return np.zeros(shape, np.uint8)
    return np.memmap(path, np.uint8, "r", header.size if start is None else start, shape)


def centres(rows: Bytes, header: Header) -> Floats:
    """(N, 3), of Gaussians by their rows (N, row size)."""
    table = ply.table_of(np.ascontiguousarray(rows), header)
    return np.stack([table[name].astype(np.float64) for name in ("x", "y", "z")], axis=1)


def tile_name(square: Square) -> str:
    """Of a tile's file."""
    return f"{square[0]}_{square[1]}.ply"


def save_index(folder: Path, index: TileIndex) -> None:
    """Write what the folder holds."""
    files.save(folder / INDEX, index)
