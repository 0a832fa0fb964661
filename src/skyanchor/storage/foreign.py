"""Files of others, read with care: sizes are checked before memory is taken, and what is wrong names the file."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy.typing as npt

from skyanchor.errors import InputError
from skyanchor.storage import codec

LARGEST_TEXT = 1 << 28
"""Bytes of a text that people or map programs write."""
MEMORY_SHARE = 0.25
"""Of the machine's memory that one file may fill when it is read."""
ALONE = "array"
"""Name of the one array in a .npy file."""


def is_there(path: Path, advice: str) -> bool:
    """Whether a file has this name; InputError where something has it that is none, which would be passed over."""
    if path.is_file():
        return True
    if os.path.lexists(path):
        refuse_no_file(path, advice)
    return False


def refuse_no_file(path: Path, advice: str) -> None:
    """InputError that says what is there instead of a file."""
    if not path.is_file():
        lost = path.is_symlink() and not path.exists()
        other = "is a folder" if path.is_dir() else "is no file" if path.exists() else "does not exist"
        raise InputError(path, "is a link that leads nowhere" if lost else other, advice)


def memory() -> int:
    """Bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def read_text(path: Path, advice: str) -> str:
    """A text in UTF-8, with or without a mark at its beginning."""
    data = _contents(path, advice, LARGEST_TEXT)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(path, "is no text in UTF-8", advice) from error


def read_json(path: Path, advice: str) -> Any:
    """What a JSON file says."""
    return json_of(path, read_text(path, advice), advice)


def json_of(path: Path, text: str, advice: str) -> Any:
    """What JSON text that was read from a file says."""
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError(path, "is nested too deeply to be read as JSON", advice) from None
    except ValueError as error:
        raise InputError(path, f"is no JSON ({error})", advice) from error


def read_arrays(path: Path, advice: str) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an .npz, compressed or not, by name, or that of a .npy; no Python objects."""
    most = int(MEMORY_SHARE * memory())
    data = _contents(path, advice, most)
    try:
        if not zipfile.is_zipfile(io.BytesIO(data)):
            return {ALONE: codec.array_of(data)}
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            size = sum(entry.file_size for entry in entries)
            if size > most:
                raise InputError(path, f"unpacks to {size / 1e9:.1f} GB, more than {most / 1e9:.1f} GB", advice)
            return {entry.filename.removesuffix(".npy"): codec.array_of(archive.read(entry)) for entry in entries}
    except codec.UNREADABLE as error:
        raise InputError(path, f"holds no arrays that can be read ({error})", advice) from error


def _contents(path: Path, advice: str, most: int) -> bytes:
    """The file's bytes."""
    refuse_no_file(path, advice)
    try:
        size = path.stat().st_size
        if size > most:
            raise InputError(path, f"has {size / 1e9:.1f} GB, more than {most / 1e9:.1f} GB", advice)
        return path.read_bytes()
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror})", advice) from error
