"""Atomic writes: whole or absent, whatever happens in between."""

from __future__ import annotations

import io
import mmap
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from child_process import importing_what_pytest_does

from skyanchor.errors import InputError, WriteError
from skyanchor.storage import codec, files
from skyanchor.storage.exchange import exchanged
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


KILLED_AT_RENAMES = """
import sys
from pathlib import Path
import killable
from skyanchor.storage import files
def write(draft):
    draft.mkdir()
    (draft / "new").write_text("new")
killable.die_at(int(sys.argv[2]))
files.write_through(Path(sys.argv[1]), write)
"""


@pytest.mark.parametrize("count", [1, 2])
def test_a_folder_is_there_whenever_its_replacement_is_killed(tmp_path: Path, count: int) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    if not exchanged(tmp_path / "one", tmp_path / "other"):
        pytest.skip("this disk exchanges no names")
    folder = tmp_path / "held"
    folder.mkdir()
    (folder / "old").write_text("old")
    words = [str(folder), str(count)]
    subprocess.run([sys.executable, "-c", KILLED_AT_RENAMES, *words], check=False, env=importing_what_pytest_does())
    assert [path.name for path in folder.iterdir()] in (["old"], ["new"])


def test_names_are_exchanged_or_nothing_changes(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for path in (one, other):
        path.mkdir()
        (path / path.name).write_text("held")
    here = exchanged(one, other)
    assert [path.name for path in one.iterdir()] == ["other" if here else "one"]
    assert not exchanged(one, tmp_path / "gone") and one.is_dir() and not (tmp_path / "gone").exists()


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
        monkeypatch.setattr(files, "exchanged", lambda draft, path: False)
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


def test_what_is_only_noted_does_not_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    files.note_bytes(tmp_path / "noted", b"new")
    assert not synced and (tmp_path / "noted").read_bytes() == b"new"
    files.write_bytes(tmp_path / "written", b"new")
    assert len(synced) == 2, "the file, and the folder that has its name"


def test_what_another_process_of_this_number_left_is_no_part_of_what_is_written(tmp_path: Path) -> None:
    draft = files.temporary(tmp_path / "held")
    draft.mkdir()
    (draft / "old").write_text("old")

    def write(place: Path) -> None:
        place.mkdir(exist_ok=True)
        (place / "new").write_text("new")

    files.write_through(tmp_path / "held", write)
    assert [path.name for path in (tmp_path / "held").iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [tmp_path / "held"]


def test_a_folder_that_is_being_removed_does_not_keep_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(path: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise KeyboardInterrupt

    (tmp_path / "held/deep").mkdir(parents=True)
    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        files.remove(tmp_path / "held")
    monkeypatch.undo()
    assert not (tmp_path / "held").exists()
    files.sweep_drafts(tmp_path / "held")
    assert not list(tmp_path.iterdir())


def test_what_is_wrong_with_a_draft_is_told_of_its_file(tmp_path: Path) -> None:
    def write(draft: Path) -> None:
        raise InputError(draft / "a.jpg", "is too dark", "Use a lamp.")

    with pytest.raises(InputError) as told:
        files.write_through(tmp_path / "held", write)
    assert str(told.value).startswith(f"{tmp_path}/held/a.jpg: is too dark")


def test_a_link_to_a_folder_stays(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        files.link_folder(tmp_path / name, tmp_path / "link")
    assert (tmp_path / "link").readlink() == Path("one")


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
