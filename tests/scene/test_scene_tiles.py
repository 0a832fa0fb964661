"""Tiles: the one .ply comes back byte for byte, and a patch touches the tiles that it is about alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from skyanchor.cli.main import main
from skyanchor.errors import InputError
from skyanchor.gaussians import ply
from skyanchor.gaussians.splats import Splats, select
from skyanchor.scene import patch as patches
from skyanchor.scene import tiles
from skyanchor.scene.patch import Change, Patch
from skyanchor.scene.tile_patches import apply_to_tiles, remove_from_tiles
from skyanchor.scene.tile_places import rows_name
from skyanchor.scene.tiles import TileFolder, open_tiles

UP = np.array([0.0, 0.0, 1.0])
SIZE = 10.0


def spread(count: int, seed: int, low: float = -20.0, high: float = 20.0) -> Splats:
    """Gaussians over sixteen squares, or some of them."""
    rng = np.random.default_rng(seed)
    shapes = ((count, 4), (count, 3), (count,), (count, 4, 3))
    means = rng.uniform((low, low, -2.0), (high, high, 9.0), (count, 3)).astype(np.float32)
    return Splats(means, *(rng.normal(size=s).astype(np.float32) for s in shapes), owner=np.zeros(count, np.int32))


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the file were much larger than what is in memory."""
    monkeypatch.setattr(tiles, "AT_ONCE", 64)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """300 Gaussians, two of them without a place, below a header with a trainer's remark."""
    splats = spread(300, seed=1)
    splats.means[[7, 250], 1] = np.nan, 1e30
    ply.write_ply(tmp_path / "base.ply", splats, owners=True)
    data = (tmp_path / "base.ply").read_bytes()
    (tmp_path / "base.ply").write_bytes(data.replace(b"element vertex", b"comment of someone \xe9\nelement vertex", 1))
    return tmp_path / "base.ply"


def cut(base: Path, out: Path) -> TileFolder:
    tiles.cut(base, out, SIZE, UP)
    return open_tiles(out)


def joined(held: TileFolder, out: Path) -> bytes:
    tiles.join(held, out)
    return out.read_bytes()


def made(base: Path, name: str, low: float, high: float, rows: list[int] | None = None, ground: int = 5) -> Patch:
    """A patch that moves some Gaussians of a part of the area, hides others and adds a few: in place, or `rows`."""
    held = ply.read_bytes(base)
    aerial = held.splats()
    inside = ((aerial.means[:, :2] > low) & (aerial.means[:, :2] < high)).all(axis=1)
    usable = np.flatnonzero(held.usable)
    inside = inside if rows is None else np.isin(usable, rows)
    moved, hidden = inside & (usable % 3 != 0), inside & (usable % 3 == 0)
    turned = replace(aerial, quats=aerial.quats + moved[:, None].astype(np.float32))
    return patches.make_patch(held, name, Change(turned, moved, hidden, spread(ground, len(name), low, high)), "{}")


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def marks(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of every file."""
    held = {path.name: path.stat() for path in folder.rglob("*") if path.is_file()}
    return {name: (one.st_ino, one.st_mtime_ns) for name, one in held.items()}


# --- one file and back --------------------------------------------------------------------------------------------


def test_the_one_file_comes_back_byte_for_byte(base: Path, tmp_path: Path) -> None:
    held = cut(base, tmp_path / "tiles")
    assert joined(held, tmp_path / "again.ply") == base.read_bytes()
    assert len(held.index.tiles) in (16, 17) and sum(tile.count for tile in held.index.tiles) == 300


def test_a_tile_is_a_ply_of_the_gaussians_in_its_square(base: Path, tmp_path: Path) -> None:
    held, whole = cut(base, tmp_path / "tiles"), ply.read_ply(base)
    for tile in held.index.tiles:
        found = ply.read_ply(held.file(tile.square)).means
        squares = np.floor(whole.means[:, :2].astype(np.float64) / SIZE)
        here = (squares == tile.square).all(axis=1)
        placed = found[np.isfinite(found).all(axis=1) & (found[:, 1] < 1e9)]
        np.testing.assert_array_equal(placed, whole.means[here])
        if tile.square[1] < 9:
            np.testing.assert_array_equal((tile.low, tile.high), (placed.min(axis=0), placed.max(axis=0)))
    few = held.near(np.array([1.0, 1.0, -9.0]), np.array([2.0, 2.0, 9.0]))
    assert [tile.square for tile in few] == [(0, 0)] and len(held.splats(few[0])) > 5


def test_squares_lie_across_up(tmp_path: Path) -> None:
    """A model whose y points down is cut along x and z."""
    splats = spread(80, seed=2)
    ply.write_ply(tmp_path / "a.ply", replace(splats, means=splats.means[:, [0, 2, 1]] * np.float32([1, -1, 1])))
    tiles.cut(tmp_path / "a.ply", tmp_path / "tiles", SIZE, np.array([0.0, -1.0, 0.0]))
    held = open_tiles(tmp_path / "tiles")
    assert len(held.index.tiles) == 16
    assert joined(held, tmp_path / "b.ply") == (tmp_path / "a.ply").read_bytes()


def test_a_patched_file_is_cut_and_joined_and_its_patch_comes_off_the_tiles(base: Path, tmp_path: Path) -> None:
    patch = made(base, "monday", -10.0, 10.0)
    patches.apply_patch(ply.read_bytes(base), patch, tmp_path / "u.ply")
    held = cut(tmp_path / "u.ply", tmp_path / "tiles")
    assert joined(held, tmp_path / "u2.ply") == (tmp_path / "u.ply").read_bytes()
    remove_from_tiles(held, patch, tmp_path / "off")
    cut(base, tmp_path / "fresh")
    assert snapshot(tmp_path / "off") == snapshot(tmp_path / "fresh")


# --- patches ------------------------------------------------------------------------------------------------------


def test_tiles_after_a_patch_are_those_of_the_patched_file(base: Path, tmp_path: Path) -> None:
    """Nothing moved from square to square: every file of the folder is the same, places and index too."""
    patch = made(base, "monday", -10.0, 10.0)
    patches.apply_patch(ply.read_bytes(base), patch, tmp_path / "u.ply")
    done = apply_to_tiles(cut(base, tmp_path / "tiles"), patch, tmp_path / "after")
    cut(tmp_path / "u.ply", tmp_path / "direct")
    assert snapshot(tmp_path / "after") == snapshot(tmp_path / "direct")
    assert joined(open_tiles(tmp_path / "after"), tmp_path / "u2.ply") == (tmp_path / "u.ply").read_bytes()
    assert done.touched == 4 and len(patch.hidden) and len(patch.changed) > len(patch.hidden) and len(patch.added)


@pytest.mark.parametrize("in_place", [True, False])
def test_other_tiles_are_neither_read_nor_written(base: Path, tmp_path: Path, in_place: bool) -> None:
    """They are the same files at the same time, and one that is full of nonsense disturbs nobody."""
    patch, held = made(base, "monday", 0.0, 10.0), cut(base, tmp_path / "tiles")
    far = held.file((-2, -2))
    far.write_bytes(bytes(far.stat().st_size))
    before, stamps = snapshot(held.path), marks(held.path)
    out = held.path if in_place else tmp_path / "after"
    assert apply_to_tiles(held, patch, out).touched == 1
    after, now = snapshot(out), marks(out)
    touched = {"0_0.ply", "tiles.json"}
    assert {name for name in before if after[name] != before[name]} == touched
    assert {name for name in stamps if now[name] != stamps[name]} == touched
    assert set(after) - set(before) == {rows_name("monday")}
    if not in_place:
        assert snapshot(held.path) == before and marks(held.path) == stamps


@pytest.mark.parametrize("in_place", [True, False])
def test_removing_brings_every_byte_back(base: Path, tmp_path: Path, in_place: bool) -> None:
    """A tile that is there for the patch alone goes with it."""
    patch, held = made(base, "monday", 15.0, 35.0, ground=40), cut(base, tmp_path / "tiles")
    before, squares = snapshot(held.path), set(held.by_square)
    out = held.path if in_place else tmp_path / "after"
    apply_to_tiles(held, patch, out)
    assert set(open_tiles(out).by_square) > squares
    back = out if in_place else tmp_path / "back"
    remove_from_tiles(open_tiles(out), patch, back)
    assert snapshot(back) == before
    assert sorted(one.name for one in tmp_path.iterdir() if one.name.startswith(".")) == []


def test_a_disk_without_links_has_copies(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError("no links here")

    patch, held = made(base, "monday", 0.0, 10.0), cut(base, tmp_path / "tiles")
    apply_to_tiles(held, patch, tmp_path / "linked")
    monkeypatch.setattr("os.link", no_links)
    apply_to_tiles(held, patch, held.path)
    assert snapshot(held.path) == snapshot(tmp_path / "linked")


def test_patches_go_on_and_come_off_in_any_order_as_on_the_one_file(base: Path, tmp_path: Path) -> None:
    """Apart from each other, one upon the rows of another, made for another stack: each step is the file's."""
    one, two = made(base, "one", -20.0, -10.0), made(base, "second", 0.0, 10.0)
    patches.apply_patch(ply.read_bytes(base), one, tmp_path / "one.ply")
    upon = made(tmp_path / "one.ply", "upon", 0.0, 10.0, rows=[40, 301, 303])
    steps = [(one, True), (upon, True), (two, True), (upon, False), (one, False), (two, False), (two, True)]
    here, held = base, cut(base, tmp_path / "tiles")
    for k, (patch, on) in enumerate(steps):
        whole = tmp_path / f"{k}.ply"
        if on:
            patches.apply_patch(ply.read_bytes(here), patch, whole)
            apply_to_tiles(held, patch, held.path)
        else:
            patches.remove_patch(ply.read_bytes(here), patch, whole)
            remove_from_tiles(held, patch, held.path)
        here, held = whole, open_tiles(held.path)
        assert joined(held, tmp_path / "joined.ply") == whole.read_bytes(), k


def test_patches_that_overlap_or_are_of_another_file_are_refused(base: Path, tmp_path: Path) -> None:
    one, across = made(base, "one", 0.0, 10.0), made(base, "across", 5.0, 15.0)
    held = cut(base, tmp_path / "tiles")
    apply_to_tiles(held, one, tmp_path / "on")
    on = open_tiles(tmp_path / "on")
    with pytest.raises(InputError, match="Gaussians that both patch across and one changed"):
        apply_to_tiles(on, across, tmp_path / "x")
    with pytest.raises(InputError, match="already holds a patch named one"):
        apply_to_tiles(on, one, tmp_path / "x")
    with pytest.raises(InputError, match=r"does not hold patch across \(it holds: one\)"):
        remove_from_tiles(on, across, tmp_path / "x")
    ply.write_ply(tmp_path / "other.ply", select(ply.read_ply(base), slice(0, 299)), owners=True)
    with pytest.raises(InputError, match="is not the file that patch one was made for"):
        apply_to_tiles(cut(tmp_path / "other.ply", tmp_path / "others"), one, tmp_path / "x")
    patches.apply_patch(ply.read_bytes(base), one, tmp_path / "one.ply")
    upon = made(tmp_path / "one.ply", "upon", 0.0, 10.0, rows=one.changed.tolist())
    apply_to_tiles(on, upon, tmp_path / "two")
    with pytest.raises(InputError, match="both patch one and upon changed"):
        remove_from_tiles(open_tiles(tmp_path / "two"), one, tmp_path / "x")
    assert not (tmp_path / "x").exists()


# --- damage -------------------------------------------------------------------------------------------------------


def test_a_tile_that_was_altered_is_seen_where_it_is_read(base: Path, tmp_path: Path) -> None:
    patch, held = made(base, "monday", 0.0, 10.0), cut(base, tmp_path / "tiles")
    path = held.file((0, 0))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    before = snapshot(held.path)
    with pytest.raises(InputError, match=r"0_0.ply: is not the file that tiles.json speaks of: it was altered"):
        apply_to_tiles(held, patch, held.path)
    with pytest.raises(InputError, match="was altered"):
        tiles.join(held, tmp_path / "x.ply")
    assert snapshot(held.path) == before and not (tmp_path / "x.ply").exists()


@pytest.mark.parametrize("name", ["0_0.ply", "-2_-2.ply", "rows/original.npy"])
def test_a_file_that_is_missing_is_named_whoever_needs_it(base: Path, tmp_path: Path, name: str) -> None:
    patch, held = made(base, "monday", 0.0, 10.0), cut(base, tmp_path / "tiles")
    (held.path / name).unlink()
    for work in (lambda: apply_to_tiles(held, patch, tmp_path / "x"), lambda: tiles.join(held, tmp_path / "x")):
        with pytest.raises(InputError, match=f"{name}: is missing"):
            work()
    assert not (tmp_path / "x").exists()


def test_places_and_index_that_do_not_fit_are_refused(base: Path, tmp_path: Path) -> None:
    patch, held = made(base, "monday", 0.0, 10.0), cut(base, tmp_path / "tiles")
    path, index = held.path / "rows/original.npy", (held.path / "tiles.json").read_text()
    places = np.load(path)
    for wrong in (places[:-1], np.zeros(300), np.array([(0, 0, 2**32 - 1)] * 300, places.dtype)):
        np.save(path, wrong)
        with pytest.raises(InputError, match=r"original.npy: does not"):
            apply_to_tiles(held, patch, tmp_path / "x")
    path.write_bytes(b"no")
    with pytest.raises(InputError, match=r"original.npy: cannot be read"):
        apply_to_tiles(held, patch, tmp_path / "x")
    for text in ("", "{", index.replace('"y": 0', '"y": "a"'), index.replace("vertex 300", "vertex 301")):
        (held.path / "tiles.json").write_text(text)
        with pytest.raises(InputError, match=r"tiles.json: cannot be understood"):
            open_tiles(held.path)
    with pytest.raises(InputError, match="is no folder of tiles"):
        open_tiles(tmp_path)


@pytest.mark.parametrize("part", ["before", "after", "added"])
def test_a_patch_that_was_altered_is_seen_at_once_or_when_the_tiles_are_joined(
    base: Path, tmp_path: Path, part: str
) -> None:
    """Only the whole file has the digest that a patch names."""
    good, held = made(base, "monday", 0.0, 10.0), cut(base, tmp_path / "tiles")
    rows = getattr(good, part).copy()
    rows[0, -9] ^= 1
    bad = replace(good, **{part: rows})
    if part == "before":
        with pytest.raises(InputError, match="both patch monday and another hand"):
            apply_to_tiles(held, bad, tmp_path / "on")
        return
    apply_to_tiles(held, bad, tmp_path / "on")
    with pytest.raises(InputError, match="a patch or a file of it was altered"):
        tiles.join(open_tiles(tmp_path / "on"), tmp_path / "x.ply")
    with pytest.raises(InputError, match="both patch monday"):
        remove_from_tiles(open_tiles(tmp_path / "on"), good, tmp_path / "off")
    assert not (tmp_path / "x.ply").exists() and not (tmp_path / "off").exists()


def test_nothing_that_is_there_is_written_over(base: Path, tmp_path: Path) -> None:
    patch, held = made(base, "monday", 0.0, 10.0), cut(base, tmp_path / "tiles")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear")
    before = snapshot(tmp_path)
    for out in (tmp_path / "mine", base):
        with pytest.raises(InputError, match="is there already"):
            tiles.cut(base, out, SIZE, UP)
        with pytest.raises(InputError, match="is there already"):
            apply_to_tiles(held, patch, out)
    for work in (lambda: tiles.join(held, held.file((0, 0))), lambda: apply_to_tiles(held, patch, held.path / "x")):
        with pytest.raises(InputError, match="lies among the tiles"):
            work()
    assert snapshot(tmp_path) == before


# --- the command line ---------------------------------------------------------------------------------------------


def test_the_commands_go_there_and_back(base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    patches.save_patch(tmp_path / "patch.npz", made(base, "monday", 0.0, 10.0))
    folder, patch = str(tmp_path / "tiles"), str(tmp_path / "patch.npz")
    assert main(["tiles", "cut", str(base), "--out", folder, "--size", "10"]) == 0
    assert main(["patch", "apply", folder, patch, "--out", folder]) == 0
    said = capsys.readouterr().out
    assert "300 Gaussians in" in said and "1 tiles changed" in said
    assert main(["patch", "list", folder]) == 0 and "monday" in capsys.readouterr().out
    assert main(["tiles", "list", folder]) == 0 and "-2_-2.ply" in capsys.readouterr().out
    assert main(["patch", "remove", folder, patch, "--out", str(tmp_path / "off")]) == 0
    assert main(["tiles", "join", str(tmp_path / "off"), "--out", str(tmp_path / "again.ply")]) == 0
    assert (tmp_path / "again.ply").read_bytes() == base.read_bytes()
    assert main(["patch", "apply", str(tmp_path), patch, "--out", folder]) == 2
    assert "is no folder of tiles" in capsys.readouterr().err
