"""Whether the compiled kernels are there yet: the first run on a machine compiles them and is silent meanwhile."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import skyanchor
from skyanchor.events import Listener, Note

COMPILING = Note("kernels", "compiling, once per machine: the first minutes of each stage are slower and say little")
COMPILING_TOWN = Note("kernels", "compiling, once per machine: nothing is said for about a minute")


def announce(listen: Listener) -> None:
    """Tell the listener that the kernels of a run will be compiled, where none are there yet."""
    if not compiled("stereo"):
        listen(COMPILING)


def announce_town(listen: Listener) -> None:
    """The same of the kernels that draw a town."""
    if not compiled("town"):
        listen(COMPILING_TOWN)


def compiled(package: str) -> bool:
    """Whether Numba has kept kernels of a package of ours for this Python."""
    kept = f"*_kernels.*.py{sys.version_info.major}{sys.version_info.minor}.nbi"
    return any(next(folder.rglob(kept), None) is not None for folder in _folders(package))


def _folders(package: str) -> list[Path]:
    """Beside the sources, or where NUMBA_CACHE_DIR says, or in the user's cache where neither can be written."""
    said, called = os.environ.get("NUMBA_CACHE_DIR"), f"{package}_*"
    if said:
        return list(Path(said).glob(called))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return [Path(skyanchor.__file__).parent / package, *(cache / "numba").glob(called)]
