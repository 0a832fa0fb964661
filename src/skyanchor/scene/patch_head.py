"""What the header of a patched .ply says: which patches it holds, and which rows come from which of them.

Each has a comment line of its own, in the order in which they were put on; `element vertex` counts all rows.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np

from skyanchor.types import Ints

COMMENT = "comment skyanchor patch "
COUNT = re.compile(rb"^element[ \t]+vertex[ \t]+\d+", re.MULTILINE)


@dataclass(frozen=True)
class PatchSummary:
    """One line of `patch list`."""

    name: str
    added: int
    changed: int
    hidden: int


@dataclass(frozen=True)
class Layer:
    """The rows of a file that come from one patch."""

    name: str
    """Of the patch; empty for the rows that were there before any."""
    start: int
    count: int


def patches_in(head: bytes) -> tuple[PatchSummary, ...]:
    """The patches that a header names, first applied first."""
    return tuple(PatchSummary(*json.loads(line)) for line in _comments(head))


def layers_of(head: bytes, count: int) -> tuple[Layer, ...]:
    """The layers of so many rows below a header."""
    found = [json.loads(line) for line in _comments(head)]
    sizes = [count - sum(one[1] for one in found), *(one[1] for one in found)]
    starts = np.cumsum([0, *sizes[:-1]]).tolist()
    return tuple(map(Layer, ["", *(one[0] for one in found)], starts, sizes))


def rows_in(rows: Ints, own: tuple[Layer, ...], here: tuple[Layer, ...]) -> Ints:
    """(R,), where rows of one file lie in another by the layers of both; -1 where that layer is not there."""
    at = {layer.name: layer.start for layer in here}
    starts = np.array([layer.start for layer in own])
    slot = np.searchsorted(starts, rows, side="right") - 1
    there = np.array([at.get(layer.name, -1) for layer in own])
    return np.where(there[slot] < 0, -1, there[slot] + rows - starts[slot])


def _comments(head: bytes) -> list[str]:
    lines = head.decode("ascii", errors="replace").splitlines()
    return [line.removeprefix(COMMENT) for line in lines if line.startswith(COMMENT)]


def names_in(head: bytes) -> list[str]:
    """Of the patches that a header names."""
    return [facts.name for facts in patches_in(head)]


def _name_in(line: bytes) -> str | None:
    """The patch that a line of a header names; None for any other line."""
    found = _comments(line)
    return str(json.loads(found[0])[0]) if found else None


def without_patches(head: bytes) -> bytes:
    """A header without what patches change in it."""
    return COUNT.sub(b"element vertex", without(head), count=1)


def without(head: bytes, name: str | None = None) -> bytes:
    """A header without the comment of one patch, or of any."""
    lines = [(line, _name_in(line)) for line in head.splitlines(keepends=True)]
    return b"".join(line for line, found in lines if found is None or (name is not None and found != name))


def plain_head(head: bytes, count: int) -> bytes:
    """The header of so many of the rows, in a file that names no patches."""
    return counted(without(head), count)


def counted(head: bytes, count: int) -> bytes:
    """A header that speaks of so many Gaussians."""
    return COUNT.sub(lambda _: f"element vertex {count}".encode(), head, count=1)


def count_in(head: bytes) -> int | None:
    """Gaussians that a header speaks of; None where it does not."""
    found = COUNT.search(head)
    return None if found is None else int(found.group().split()[2])
