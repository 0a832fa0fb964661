"""Patches on tiles: only the tiles whose Gaussians a patch changes, hides or adds are read and written.

The patch is the one that is made for the one .ply. All other tiles are the same files under a second name, or stay
where they are when the folder that is written is the one that is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from skyanchor.errors import InputError
from skyanchor.gaussians.ply_header import row_size
from skyanchor.scene.patch import (
    AGAIN,
    Patch,
    head_with,
    head_without,
    held_in,
    moved_to,
    refuse_overlap,
)
from skyanchor.scene.patch_head import Layer, plain_head
from skyanchor.scene.tile_places import Square, grouped, placed, rows_name, write_places
from skyanchor.scene.tiles import (
    Tile,
    TileFolder,
    TileIndex,
    described_tile,
    refuse_taken,
    refuse_within,
    save_index,
    tile_name,
)
from skyanchor.storage import files
from skyanchor.types import Bytes, Ints


@dataclass(frozen=True)
class Rewritten:
    """What a patch did to a folder of tiles."""

    touched: int
    """Tiles written, or removed for they hold nothing any more."""
    tiles: int
    """That there are now."""


@dataclass(frozen=True, eq=False)
class _Share:
    """The part of a patch in one tile."""

    changed: Ints
    """(C,), rows of the tile."""
    which: Ints
    """(C,), which of the patch's changed rows these are."""
    added: Ints
    """(A,), which of the patch's new rows belong here."""


def apply_to_tiles(tiles: TileFolder, patch: Patch, out: Path) -> Rewritten:
    """Write the tiles after a patch to `out`, which may be the folder itself; InputError as for the one .ply.

    That the result is, as a whole, what the patch says is not known before the tiles are joined.
    """
    index = tiles.index
    fitted = _fitted(tiles, patch)
    counts = {tile.square: dict(tile.counts) for tile in index.tiles}
    squares = index.squares(patch.added)
    places = placed(squares, patch.name, counts)
    shares = _shares(tiles, fitted.changed, dict(grouped(squares)))
    digest = patch.result_digest if index.digest and index.digest == patch.base_digest else ""
    head = head_with(index.head, fitted).decode("latin-1")

    def write(draft: Path) -> TileIndex:
        rows = index.rows | {patch.name: write_places(draft, patch.name, len(places), iter([places]))}
        new = TileIndex(index.size_m, index.across, head, digest, rows, ())
        made = {}
        for square, share in shares.items():
            after = _rows_after(tiles, tiles.by_square.get(square), patch, fitted, share)
            made[square] = _written(draft, square, after, _in_order(counts[square], new), new)
        return replace(new, tiles=_tiles_now(tiles, made))

    return _rewritten(tiles, out, write, set(shares))


def remove_from_tiles(tiles: TileFolder, patch: Patch, out: Path) -> Rewritten:
    """Write the tiles without a patch to `out`, which may be the folder itself; InputError as for the one .ply."""
    index = tiles.index
    layer, changed, later = held_in(tiles.path, index.head, index.described.count, patch)
    places = tiles.places(patch.name)
    added = {tile.square: mine for tile, mine, _ in tiles.located(patch.name, places)}
    shares = _shares(tiles, changed, added)
    digest = patch.base_digest if index.digest and index.digest == patch.result_digest else ""
    head = head_without(index.head, patch).decode("latin-1")
    rows = {name: known for name, known in index.rows.items() if name != patch.name}
    new = TileIndex(index.size_m, index.across, head, digest, rows, ())

    def write(draft: Path) -> TileIndex:
        made = {}
        for square, share in shares.items():
            tile = tiles.by_square[square]
            before = _rows_before(tiles, tile, patch, share, later)
            left = {name: count for name, count in tile.counts.items() if name != layer.name}
            made[square] = _written(draft, square, before, left, new) if len(before) else None
        return replace(new, tiles=_tiles_now(tiles, made))

    return _rewritten(tiles, out, write, set(shares), without=rows_name(patch.name))


# --- rows ---------------------------------------------------------------------------------------------------------


def _fitted(tiles: TileFolder, patch: Patch) -> Patch:
    """The patch by the rows of the one .ply that the tiles stand for now."""
    index = tiles.index
    if index.digest and index.digest == patch.base_digest:
        alike = patch.header.tobytes() == index.head
    else:
        patch = moved_to(patch, tiles.path, index.head, index.described.count, like_is_known=bool(index.digest))
        alike = True
    if not alike or patch.after.shape[1] != row_size(index.described):
        raise InputError(tiles.path, f"would not become what patch {patch.name} says: it was altered", AGAIN)
    return patch


def _shares(tiles: TileFolder, changed: Ints, added: dict[Square, Ints]) -> dict[Square, _Share]:
    """The part of a patch in every tile that it touches, by rows (C,) of the one .ply and by squares of new rows."""
    none = np.zeros(0, np.int64)
    found: dict[Square, list[tuple[Ints, Ints]]] = {square: [] for square in added}
    for layer in tiles.index.layers:
        for square, rows, which in _located(tiles, layer, changed):
            found.setdefault(square, []).append((rows, which))
    return {
        square: _Share(
            np.concatenate([none, *(rows for rows, _ in parts)]),
            np.concatenate([none, *(which for _, which in parts)]),
            added.get(square, none),
        )
        for square, parts in sorted(found.items())
    }


def _located(tiles: TileFolder, layer: Layer, changed: Ints) -> Iterator[tuple[Square, Ints, Ints]]:
    """Per tile: its square, the rows there of a layer's among `changed`, and which of them those are."""
    which = np.flatnonzero((changed >= layer.start) & (changed < layer.start + layer.count))
    if len(which):
        places = tiles.places(layer.name)[changed[which] - layer.start]
        for tile, mine, rows in tiles.located(layer.name, places):
            yield tile.square, rows, which[mine]


def _rows_after(tiles: TileFolder, tile: Tile | None, patch: Patch, fitted: Patch, share: _Share) -> Bytes:
    """The rows of a tile after a patch; InputError where those that it changes are not as it found them."""
    if tile is None:
        return patch.added[share.added]
    rows = tiles.rows(tile).copy()
    names = [layer.name for layer in tiles.index.layers[1:]]
    refuse_overlap(tiles.file(tile.square), patch, rows[share.changed], fitted.before[share.which], names)
    rows[share.changed] = fitted.after[share.which]
    return np.concatenate([rows, patch.added[share.added]])


def _rows_before(tiles: TileFolder, tile: Tile, patch: Patch, share: _Share, later: list[str]) -> Bytes:
    """The rows of a tile without a patch; InputError where its rows are not as it left them."""
    rows, path, own = tiles.rows(tile).copy(), tiles.file(tile.square), tile.rows_of(patch.name)
    refuse_overlap(path, patch, rows[share.changed], patch.after[share.which], later)
    refuse_overlap(path, patch, rows[own], patch.added[share.added], later)
    rows[share.changed] = patch.before[share.which]
    return np.delete(rows, own, axis=0)


# --- files --------------------------------------------------------------------------------------------------------


def _in_order(counts: dict[str, int], index: TileIndex) -> dict[str, int]:
    """Counts of a tile in the order of the layers."""
    return {layer.name: counts[layer.name] for layer in index.layers if counts.get(layer.name)}


def _written(folder: Path, square: Square, rows: Bytes, counts: dict[str, int], index: TileIndex) -> Tile:
    """A tile of these rows, written."""
    files.write_bytes(folder / tile_name(square), plain_head(index.head, len(rows)) + rows.tobytes())
    return described_tile(folder, square, counts, index)


def _tiles_now(tiles: TileFolder, made: Mapping[Square, Tile | None]) -> tuple[Tile, ...]:
    """All tiles: those made anew and the others as they were."""
    now: dict[Square, Tile | None] = {**tiles.by_square, **made}
    return tuple(tile for _, tile in sorted(now.items()) if tile is not None)


def _rewritten(
    tiles: TileFolder, out: Path, write: Callable[[Path], TileIndex], touched: set[Square], without: str = ""
) -> Rewritten:
    """The folder written with what `write` makes of it; files that it does not make are linked, not read."""
    here = out.exists() and out.resolve() == tiles.path.resolve()
    if not here:
        refuse_within(tiles, out)
        refuse_taken(out)
    tiles.refuse_incomplete()
    gone = {tile_name(square) for square in touched} | {without}
    found: list[TileIndex] = []

    def fill(draft: Path) -> None:
        files.make_folder(draft)
        found.append(write(draft))
        save_index(draft, found[-1])
        for path in sorted(tiles.path.rglob("*")):
            name = path.relative_to(tiles.path).as_posix()
            if path.is_file() and name not in gone and not (draft / name).exists():
                files.link(path, draft / name)

    files.write_through(out.resolve() if here else out, fill)
    return Rewritten(len(touched), len(found[-1].tiles))
