"""Disks that refuse: one line that says where and what to do, what was there stays, no half file is left."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from skyanchor.errors import WriteError
from skyanchor.storage import files

LARGE = np.random.default_rng(0).integers(0, 255, 50_000, dtype=np.uint8)


def _folder(draft: Path) -> None:
    draft.mkdir()
    (draft / "small").write_text("small")
    (draft / "large").write_bytes(LARGE.tobytes())


WRITERS: dict[str, Callable[[Path], None]] = {
    "bytes": lambda path: files.write_bytes(path, LARGE.tobytes()),
    "text": lambda path: files.write_text(path, "text " * 10_000),
    "json": lambda path: files.save(path.with_suffix(".json"), LARGE),
    "npz": lambda path: files.save(path.with_suffix(".npz"), LARGE),
    "arrays": lambda path: files.write_arrays(path, {"large": LARGE}),
    "compressed": lambda path: files.write_arrays(path, {"large": LARGE}, compressed=True),
    "copy": lambda path: files.copy(path.parent / "source", path),
    "folder": lambda path: files.write_through(path, _folder),
}


@contextmanager
def _small_files(limit: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_grows_too_large_is_told_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "source").write_bytes(LARGE.tobytes())
    held = [tmp_path / "held", tmp_path / "held.json", tmp_path / "held.npz"]
    for path in held if name != "folder" else ():
        path.write_text("what was there")
    before = _below(tmp_path)
    with pytest.raises(WriteError, match=r"held\S*: cannot be written \(File too large\)") as told, _small_files(9000):
        WRITERS[name](tmp_path / "held")
    assert "\n" not in str(told.value) and "ulimit" in str(told.value)
    assert _below(tmp_path) == before


@pytest.mark.parametrize(
    ("number", "helps"),
    [
        (errno.ENOSPC, "Make room"),
        (errno.EDQUOT, "Make room"),
        (errno.EROFS, "another disk|can be written to"),
        (errno.EACCES, "may write to"),
        (errno.EIO, "Check the disk"),
    ],
)
@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_whatever_the_disk_says_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, helps: str, where: str
) -> None:
    def refuses(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, where, refuses)
    for name in ("bytes", "arrays", "folder"):
        with pytest.raises(WriteError, match=helps) as told:
            WRITERS[name](tmp_path / "held")
        assert str(told.value).startswith(f"{tmp_path / 'held'}: cannot be written ({os.strerror(number)})")
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("kind", ["below a file", "link to nowhere below a file", "link to itself"])
def test_places_that_cannot_be_are_told(tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / "source").write_bytes(b"source")
    (tmp_path / "file").write_text("mine")
    if kind != "below a file":
        (tmp_path / "link").symlink_to(tmp_path / ("link" if "itself" in kind else "file/gone"))
    out = tmp_path / ("file" if kind == "below a file" else "link") / "held"
    before = _below(tmp_path)
    writer = WRITERS[name] if name != "copy" else lambda path: files.copy(tmp_path / "source", path)
    with pytest.raises(WriteError, match="cannot be written"):
        writer(out)
    assert _below(tmp_path) == before


def test_a_folder_in_the_way_of_a_file_stays(tmp_path: Path) -> None:
    (tmp_path / "held").mkdir()
    (tmp_path / "held/thesis.txt").write_text("mine")
    with pytest.raises(WriteError, match=r"held: cannot be written .*A folder has that name"):
        files.write_bytes(tmp_path / "held", b"data")
    assert _below(tmp_path) == {"held/thesis.txt": b"mine"}


def test_what_cannot_be_read_is_named_instead(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match=r"gone: cannot be written \(No such file"):
        files.copy(tmp_path / "gone", tmp_path / "held")


def test_the_longest_names_can_be_written_and_swept(tmp_path: Path) -> None:
    path = tmp_path / ("ü" * 125 + ".json")
    files.save(path, {"a": 1})
    assert files.load(path, dict[str, int]) == {"a": 1}
    files.temporary(path).write_text("half")
    files.sweep_drafts(path)
    assert list(tmp_path.iterdir()) == [path]


def test_what_dead_processes_left_of_an_output_goes_and_what_living_ones_write_stays(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    out = tmp_path / "all"
    names = {
        f".{name}.{pid}.skyanchor.tmp" for name in ("all", "all.old", "all-of-it") for pid in (dead.pid, os.getpid())
    }
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "half.txt").write_text("half")
    files.sweep_dead(out)
    gone = {f".all.{dead.pid}.skyanchor.tmp", f".all.old.{dead.pid}.skyanchor.tmp"}
    assert {path.name for path in tmp_path.iterdir()} == names - gone


def test_drafts_of_others_are_not_swept(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    theirs = [".notes.tmp", ".thesis.4711.tmp", ".a.skyanchor.tmp", "a.12.skyanchor.tmp", "deep/.b.12.tmp/chapter"]
    ours = [".a.12.skyanchor.tmp", "deep/.b.old.99.skyanchor.tmp", "deep/.folder.7.skyanchor.tmp/half"]
    for name in (*theirs, *ours, "elsewhere/.c.12.skyanchor.tmp"):
        path = tmp_path / "run" / name if not name.startswith("elsewhere") else tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    (tmp_path / "run/link").symlink_to(elsewhere)
    (tmp_path / "run/.linked.12.skyanchor.tmp").symlink_to(elsewhere)
    files.sweep(tmp_path / "run")
    assert sorted(_below(tmp_path / "run")) == sorted(theirs)
    assert _below(elsewhere) == {".c.12.skyanchor.tmp": b"mine"}
