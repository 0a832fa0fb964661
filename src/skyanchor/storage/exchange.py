"""Two names exchanged in one step, so that neither is missing at any moment; not every system and disk can."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

HERE, EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE of Linux."""


def exchanged(one: Path, other: Path) -> bool:
    """Whether each of two paths has now what the other had; where that is not possible in one step nothing changes."""
    rename = _renameat2()
    return rename is not None and rename(HERE, os.fsencode(one), HERE, os.fsencode(other), EXCHANGE) == 0


@cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    """The call of the C library; None where it has none."""
    found = getattr(ctypes.CDLL(None), "renameat2", None)
    if found is not None:
        found.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
        found.restype = ctypes.c_int
    return found
