"""`skyanchor patch`: updates of a .ply, or of tiles of one, put on, taken off, listed and exported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import tyro

from skyanchor.cli.tables import print_table
from skyanchor.errors import InputError
from skyanchor.storage import files, taken

if TYPE_CHECKING:
    from skyanchor.gaussians.ply import PlyBytes
    from skyanchor.scene.patch import Patch
    from skyanchor.scene.tile_patches import Rewritten
    from skyanchor.scene.tiles import TileFolder

Ply: TypeAlias = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PLY")]
PlyToWrite: TypeAlias = Annotated[Path, tyro.conf.arg(metavar="PLY")]
PatchPath: TypeAlias = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PATCH")]


def apply(base: Ply, patch_file: PatchPath, /, out: PlyToWrite) -> None:
    """Write the patched .ply, or its tiles.

    Args:
        base: The .ply the patch was made for, or one with other patches that do not overlap with it; or its tiles.
        patch_file: 4-scene/patch.npz of a run.
        out: The .ply to write; of tiles the folder, which may be the one that is read.
    """
    from skyanchor.scene.patch import apply_patch
    from skyanchor.scene.tile_patches import apply_to_tiles

    _rewrite(base, patch_file, out, apply_patch, apply_to_tiles)


def remove(updated: Ply, patch_file: PatchPath, /, out: PlyToWrite) -> None:
    """Write the .ply or its tiles as they are without the patch, byte for byte.

    Args:
        updated: A .ply that holds the patch, or its tiles; a patch that a later one overlaps with comes off after it.
        patch_file: The patch.
        out: The .ply to write; of tiles the folder, which may be the one that is read.
    """
    from skyanchor.scene.patch import remove_patch
    from skyanchor.scene.tile_patches import remove_from_tiles

    _rewrite(updated, patch_file, out, remove_patch, remove_from_tiles)


def list_patches(path: Ply, /) -> None:
    """List the patches that a .ply or a folder of tiles holds, first applied first.

    Args:
        path: A .ply, or its tiles.
    """
    from skyanchor.gaussians.ply import read_bytes
    from skyanchor.scene.patch import applied_patches, patches_in
    from skyanchor.scene.tiles import open_tiles

    if not path.is_dir():
        _refuse_absent(path)
    held = patches_in(open_tiles(path).index.head) if path.is_dir() else applied_patches(read_bytes(path))
    rows = [[p.name, str(p.added), str(p.changed), str(p.hidden)] for p in held]
    print_table(f"patches in {path.name}", ["name", "added", "moved", "hidden"], rows)


def export(path: Ply, /, out: Annotated[Path, tyro.conf.arg(metavar="FILE")]) -> None:
    """Write a plain .ply without the Gaussians that patches hide, or a .splat or .spz for web and phone.

    Args:
        path: A .ply, patched or not, of any kind that can be read, or a gsplat checkpoint.
        out: File to write; its ending, .ply, .splat or .spz, says which.
    """
    from skyanchor.gaussians.ply import read_splats, write_ply, write_splat
    from skyanchor.gaussians.spz import write_spz
    from skyanchor.scene.patch import visible

    writers = {".ply": write_ply, ".splat": write_splat, ".spz": write_spz}
    if out.suffix.lower() not in writers:
        raise InputError(out, f"{out.suffix or 'no ending'} cannot be written", f"End it in {', '.join(writers)}.")
    _refuse_absent(path)
    taken.refuse_lost(out, path, begins=taken.BEGINS[out.suffix.lower()])
    files.sweep_dead(out)
    seen = visible(read_splats(path))
    writers[out.suffix.lower()](out, seen)
    print(f"{len(seen)} Gaussians written to {out}")


def _rewrite(
    given: Path,
    patch_file: Path,
    out: Path,
    whole: Callable[[PlyBytes, Patch, Path], None],
    in_tiles: Callable[[TileFolder, Patch, Path], Rewritten],
) -> None:
    """Write a .ply, or its tiles, with a patch put on or taken off, and say so."""
    from skyanchor.gaussians.ply import read_bytes
    from skyanchor.scene.patch import load_patch
    from skyanchor.scene.tiles import open_tiles

    if given.is_dir():
        _refuse_absent(patch_file)
        done = in_tiles(open_tiles(given), load_patch(patch_file), out)
        print(f"{done.touched} tiles changed, {done.tiles} in {out}")
        return
    _refuse_absent(given, patch_file)
    taken.refuse_lost(out, patch_file, begins=taken.PLY)
    files.sweep_dead(out)
    whole(read_bytes(given), load_patch(patch_file), out)
    print(f"written to {out}")


def _refuse_absent(*paths: Path) -> None:
    for path in paths:
        if not path.is_file():
            raise InputError(path, "is no file", "Give a .ply of Gaussians, and the patch.npz of a run.")
