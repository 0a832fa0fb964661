"""Files that are whole or absent, and what they hold: atomic writes, typed values, content digests."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from skyanchor.errors import InputError
from skyanchor.storage import codec

T = TypeVar("T")

TEMPORARY = ".tmp"
"""Ending of files and folders that are being written."""
TEMPORARY_NAME = re.compile(rf"\..+\.\d+{re.escape(TEMPORARY)}")
"""Whole name of such a file or folder, as `temporary` makes it."""


# --- atomic writes ------------------------------------------------------------------------------------------------


def temporary(path: Path) -> Path:
    """Where this process writes what will become `path`."""
    return path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")


def write_bytes(path: Path, data: bytes) -> None:
    """Write the file whole or not at all: beside it, to the disk, then renamed into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = temporary(path)
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def write_through(path: Path, write: Callable[[Path], None]) -> None:
    """As `write_bytes`, for a function that writes a file or a folder at the path it is given.

    Where the function raises, what it wrote goes and what was there stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = temporary(path)
    remove(draft)
    try:
        write(draft)
        sync_tree(draft)
    except BaseException:
        remove(draft)
        raise
    if draft.is_dir():
        remove(path)
    draft.replace(path)
    sync_folder(path.parent)


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]], compressed: bool = False) -> None:
    """As `write_bytes`, for an .npz of named arrays."""

    def write(draft: Path) -> None:
        with draft.open("wb") as file:
            (np.savez_compressed if compressed else np.savez)(file, allow_pickle=False, **arrays)

    write_through(path, write)


def link(source: Path, target: Path) -> None:
    """The same file under a second name, or a copy where the disk knows no links; what is there already stays."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except FileExistsError:
        return
    except OSError:
        copy(source, target)


def copy(source: Path, target: Path) -> None:
    """The file's contents under a second name; what was there is replaced."""

    def write(draft: Path) -> None:
        shutil.copyfile(source, draft)

    write_through(target, write)


def sync_tree(path: Path) -> None:
    """Make sure that a file or everything in a folder is on the disk."""
    for item in [path, *path.rglob("*")] if path.is_dir() else [path]:
        sync_folder(item)


def sync_folder(path: Path) -> None:
    """Make sure that a file's contents or a folder's names are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: Path) -> None:
    """Remove a file, link or folder at once: a folder is renamed first, so that no half of it keeps the name."""
    if path.is_dir() and not path.is_symlink():
        doomed = temporary(path.with_name(path.name + ".old"))
        shutil.rmtree(doomed, ignore_errors=True)
        path.rename(doomed)
        shutil.rmtree(doomed)
    else:
        path.unlink(missing_ok=True)


def sweep_drafts(path: Path) -> None:
    """Remove what interrupted writes of one file or folder left beside it."""
    drafts = re.compile(rf"\.{re.escape(path.name)}(\.old)?\.\d+{re.escape(TEMPORARY)}")
    for leftover in [near for near in path.parent.glob(f".*{TEMPORARY}") if drafts.fullmatch(near.name)]:
        _discard(leftover)


def _discard(leftover: Path) -> None:
    if leftover.is_dir():
        shutil.rmtree(leftover, ignore_errors=True)
    else:
        leftover.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove what interrupted writes of this program left below a folder that it made."""
    leftovers = [path for path in folder.rglob(f".*{TEMPORARY}") if TEMPORARY_NAME.fullmatch(path.name)]
    for leftover in leftovers:
        _discard(leftover)


# --- typed values -------------------------------------------------------------------------------------------------


def save(path: Path, value: object) -> None:
    """Write the value as JSON, or as an archive of arrays when the name ends in .npz."""
    if path.suffix != ".npz":
        write_bytes(path, codec.dumps(value).encode())
        return

    def write(draft: Path) -> None:
        with draft.open("wb") as file:
            codec.pack_into(file, value)

    write_through(path, write)


def load(path: Path, kind: type[T]) -> T:
    """The value of type `kind` that `save` wrote; large arrays of an archive are read when they are looked at."""

    def read() -> T:
        return codec.unpack_file(kind, path) if path.suffix == ".npz" else codec.loads(kind, path.read_text())

    return _read(path, kind, read)


def load_mapped(path: Path, kind: type[T]) -> T:
    """The value that `save` wrote to an .npz, with all arrays left there until they are used, read-only."""
    return _read(path, kind, lambda: codec.mapped(kind, path))


def _read(path: Path, kind: type[T], read: Callable[[], T]) -> T:
    """What the file holds; InputError where it is missing or holds something else."""
    if not path.is_file():
        raise InputError(path, "is missing", "Delete its stage folder and run that stage again.")
    try:
        return read()
    except (ValueError, TypeError, KeyError, OSError) as error:
        why = f"does not hold a {kind.__name__} ({error})"
        raise InputError(path, why, "Delete its stage folder and run that stage again.") from error


def recall(path: Path, kind: type[T]) -> T | None:
    """The value that `save` wrote; None where there is none or it cannot be read: for what is simply made again."""
    try:
        return codec.loads(kind, path.read_text()) if path.is_file() else None
    except (ValueError, OSError):
        return None


# --- digests ------------------------------------------------------------------------------------------------------


def digest(data: bytes) -> str:
    """BLAKE2b of the bytes, 128 bit, hexadecimal."""
    return blake2b(data, digest_size=16).hexdigest()


def file_digest(path: Path) -> str:
    """`digest` of a file's contents."""
    state = blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                state.update(block)
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise InputError(path, problem, "Check that the file exists and that you may read it.") from error
    return state.hexdigest()


SETTLED_S = 2.0
"""A file younger than this when it was read may still change within one tick of its clock: not remembered, seconds."""


@dataclass
class DigestCache:
    """Digests of file contents, remembered as long as size, inode and both clocks of a file stand still."""

    path: Path
    """JSON file of the memory; may be deleted at any time."""
    _known: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Absolute path -> (fingerprint, digest)."""

    def __post_init__(self) -> None:
        """Read the memory where there is one."""
        if self.path.is_file():
            self._known = recall(self.path, dict[str, tuple[str, str]]) or {}

    def digest(self, files: Mapping[str, Path]) -> str:
        """One digest of names and contents; neither order nor place on the disk matters."""
        before = dict(self._known)
        lines = [f"{name}\0{self._file(path)}\n" for name, path in sorted(files.items())]
        if self._known != before:
            write_bytes(self.path, json.dumps(self._known, indent=0).encode())
        return digest("".join(lines).encode())

    def _file(self, path: Path) -> str:
        key = str(path.resolve())
        mark = _fingerprint(path)
        if key in self._known and self._known[key][0] == mark:
            return self._known[key][1]
        value = file_digest(path)
        if mark and time.time() - path.stat().st_mtime > SETTLED_S:
            self._known[key] = (mark, value)
        return value


def _fingerprint(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_size}.{found.st_ino}.{found.st_mtime_ns}.{found.st_ctime_ns}"
