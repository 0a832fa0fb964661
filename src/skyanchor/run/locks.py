"""Who may work in a folder: one process that makes it, or any number that only read."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from skyanchor.errors import SkyAnchorError, WriteError
from skyanchor.storage import files


def lock_to_write(path: Path, wait: bool = False) -> IO[str]:
    """The lock file, held alone until it is closed or the process ends; SkyAnchorError when it is taken.

    With `wait` the call returns when the others have let go.
    """
    files.make_folder(path.parent)
    with files.writing(path):
        handle = path.open("a+")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            raise _taken(handle, path) from error
        handle.truncate(0)
        handle.write(f"{os.getpid()}\n")
        handle.flush()
    return handle


def lock_to_read(path: Path) -> IO[str] | None:
    """The lock file, shared with other readers; None on a disk that nobody can write to anyway."""
    try:
        files.make_folder(path.parent)
        handle = path.open("a+")
    except (WriteError, OSError):
        if not path.is_file():
            return None
        handle = path.open()
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        raise _taken(handle, path) from error
    return handle


def _taken(handle: IO[str], path: Path) -> SkyAnchorError:
    handle.seek(0)
    owner = handle.read().strip() or "unknown"
    handle.close()
    return SkyAnchorError(f"{path.parent.parent} is in use by process {owner}. Wait for it, or stop it.")
