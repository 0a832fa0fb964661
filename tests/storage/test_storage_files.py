"""Atomic writes: whole or absent, whatever happens in between."""

from __future__ import annotations

import io
import mmap
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from skyanchor.errors import InputError, WriteError
from skyanchor.storage import codec, files
from skyanchor.types import Floats, Ints


def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "held.bin"
    files.write_bytes(path, b"old")

    def broken(draft: Path) -> None:
        draft.write_bytes(b"half of the n")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write_through(path, broken)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "held"
    for names in (("a", "b"), ("b", "c")):

        def write(draft: Path, names: tuple[str, ...] = names) -> None:
            draft.mkdir()
            for name in names:
                (draft / name).write_text(name)

        files.write_through(folder, write)
    assert sorted(path.name for path in folder.iterdir()) == ["b", "c"]
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("when", ["put into place", "stopped", "cleared away"])
def test_a_folder_is_there_whenever_its_replacement_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """The disk refuses the last rename, Ctrl-C comes before it, or the old one is still going: one is whole there."""
    folder, looked = tmp_path / "held", []

    def write(draft: Path) -> None:
        draft.mkdir()
        (draft / "new").write_text("new")

    def refuse(*_: object) -> None:
        raise KeyboardInterrupt if when == "stopped" else OSError("no")

    folder.mkdir()
    (folder / "old").write_text("old")
    if when != "cleared away":
        monkeypatch.setattr(Path, "replace", refuse)
        with pytest.raises(KeyboardInterrupt if when == "stopped" else WriteError):
            files.write_through(folder, write)
        assert (folder / "old").read_text() == "old" and list(tmp_path.iterdir()) == [folder]
        return
    away = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", lambda *a, **k: looked.append((folder / "new").exists()) or away(*a, **k))
    files.write_through(folder, write)
    assert looked[-1] and list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_come_back_and_objects_are_refused(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / "deep" / "held.npz"
    arrays = {"xy": np.arange(6.0).reshape(3, 2), "name": np.array("a photo")}
    files.write_arrays(path, arrays, compressed)
    with np.load(path, allow_pickle=False) as held:
        assert np.array_equal(held["xy"], arrays["xy"]) and str(held["name"]) == "a photo"
    with pytest.raises(ValueError, match="pickle"):
        files.write_arrays(path, {"bad": np.array([{}], dtype=object)}, compressed)
    assert [one.name for one in path.parent.iterdir()] == ["held.npz"]


def test_a_copy_replaces_and_a_link_does_not(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    new.write_text("new")
    old.write_text("old")
    files.link(new, old)
    assert old.read_text() == "old"
    files.copy(new, old)
    assert old.read_text() == "new" and not old.samefile(new)


def test_a_second_name_leaves_no_draft(tmp_path: Path) -> None:
    """Not where the name is that file's already, which a rename leaves as it is, nor where a folder has the name."""
    source, target, folder = (tmp_path / name for name in ("source", "target", "folder"))
    source.write_text("new")
    target.write_text("old")
    folder.mkdir()
    for _ in range(2):
        files.renamed_link(source, target)
        assert target.samefile(source) and target.read_text() == "new"
    with pytest.raises(WriteError, match="A folder has that name"):
        files.renamed_link(source, folder)
    assert {path.name for path in tmp_path.iterdir()} == {"source", "target", "folder"}


@pytest.mark.parametrize("lasting", [True, False])
def test_what_lasts_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lasting: bool
) -> None:
    done: list[int | str] = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: done.append(os.fstat(handle).st_ino) or sync(handle))
    monkeypatch.setattr(Path, "replace", lambda self, target: done.append("renamed") or replace(self, target))

    def write(draft: Path) -> None:
        (draft / "deep").mkdir(parents=True)
        (draft / "deep/file").write_text("new")

    files.write_through(tmp_path / "held", write, lasting)
    made = {path.stat().st_ino for path in (tmp_path / "held", *(tmp_path / "held").rglob("*"))}
    assert len(made) == 3
    if lasting:
        assert set(done[:3]) == made and done[3:] == ["renamed", tmp_path.stat().st_ino]
    else:
        assert done == ["renamed"]


@dataclass(frozen=True, eq=False)
class Held:
    """A large array, a small one and a number."""

    large: Floats
    small: Ints
    number: float


def held(rows: int = 500) -> Held:
    return Held(np.random.default_rng(0).normal(size=(rows, 3)), np.arange(5), 0.1)


def in_file(array: np.ndarray) -> bool:
    """Whether the array lies in a mapped file."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


def test_large_arrays_stay_in_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAPPED_BYTES", 1000)
    files.save(tmp_path / "held.npz", held())
    before = (tmp_path / "held.npz").read_bytes()
    again = files.load(tmp_path / "held.npz", Held)
    assert in_file(again.large) and not in_file(again.small)
    assert type(again.large) is np.ndarray and again.large.flags.aligned and again.large.ctypes.data % 64 == 0
    assert again.large.tobytes() == held().large.tobytes() and again.small.tolist() == [0, 1, 2, 3, 4]
    again.large[:] = 0.0
    assert (tmp_path / "held.npz").read_bytes() == before == codec.pack(held())
    with np.load(tmp_path / "held.npz") as plain:
        assert plain["array0"].tobytes() == held().large.tobytes()


def test_what_numpy_wrote_is_read_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAPPED_BYTES", 1000)
    with np.load(io.BytesIO(codec.pack(held()))) as members:
        np.savez(tmp_path / "held.npz", **members)
    assert files.load(tmp_path / "held.npz", Held).large.tobytes() == held().large.tobytes()


@pytest.mark.parametrize("place", [0.02, 0.3, 0.7, 0.98])
def test_a_changed_byte_of_a_large_array_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: float
) -> None:
    monkeypatch.setattr(codec, "MAPPED_BYTES", 1000)
    data = bytearray(codec.pack(held(50_000)))
    data[int(place * len(data))] ^= 1
    (tmp_path / "held.npz").write_bytes(data)
    with pytest.raises(InputError, match="does not hold a Held"):
        files.load(tmp_path / "held.npz", Held)
    (tmp_path / "held.npz").write_bytes(data[: int(place * len(data))])
    with pytest.raises(InputError, match="does not hold a Held"):
        files.load(tmp_path / "held.npz", Held)


def test_arrays_are_of_the_file_that_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process puts a new file in its place while it is read."""
    monkeypatch.setattr(codec, "MAPPED_BYTES", 1000)
    path, header = tmp_path / "held.npz", codec._header
    files.save(path, held())

    def replaced(*given: object) -> object:
        files.save(path, Held(np.zeros((9, 3)), np.arange(2), 0.2))
        return header(*given)

    monkeypatch.setattr(codec, "_header", replaced)
    again = files.load(path, Held)
    assert again.number == 0.1 and again.large.tobytes() == held().large.tobytes()
