"""Whether the compiled kernels are there yet: the first run on a machine compiles them and is silent meanwhile."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import skyanchor
from skyanchor.events import Listener, Note

COMPILING = Note("kernels", "compiling, once per machine: the first minutes of each stage are slower and say little")


def announce(listen: Listener) -> None:
    """Tell the listener that kernels will be compiled, where none are there yet."""
    if not compiled():
        listen(COMPILING)


def compiled(folders: Iterable[Path] | None = None) -> bool:
    """Whether Numba has kept kernels of this Python in any of the folders: those that it uses, without them."""
    kept = f"*_kernels.*.py{sys.version_info.major}{sys.version_info.minor}.nbi"
    places = _folders() if folders is None else folders
    return any(next(folder.rglob(kept), None) is not None for folder in places if folder.is_dir())


def _folders() -> list[Path]:
    """Beside the sources, or where NUMBA_CACHE_DIR says, or in the user's cache where neither can be written."""
    said = os.environ.get("NUMBA_CACHE_DIR")
    if said:
        return [Path(said)]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return [Path(skyanchor.__file__).parent / "stereo", cache / "numba"]
