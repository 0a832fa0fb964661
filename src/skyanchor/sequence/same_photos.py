"""Whether a walk is made of photos that are known already: what is found with them would confirm itself."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from skyanchor.errors import InputError
from skyanchor.storage import files

HEAD = 1 << 16
"""Bytes at the beginning of a file, and at its end, that tell one photo from another of the same size."""
MOST = 0.5
"""Share of a walk's photos that may be known: a few that link flight and street are in some models."""


def refuse_same_photos(walk: Sequence[Path], known: Sequence[Path], where: Path, whose: str, advice: str) -> None:
    """InputError about `where` when most photos of a walk are files that are known, or copies of them."""
    same = same_photos(walk, known)
    if are_most(same, walk):
        raise InputError(where, f"{whose} ({len(same)} of {len(walk)}, {same[0].name} among them)", advice)


def are_most(same: Sequence[Path], walk: Sequence[Path]) -> bool:
    """Whether so many of a walk's photos are known that it is no walk of its own."""
    return len(same) > MOST * len(walk)


def same_photos(walk: Sequence[Path], known: Sequence[Path]) -> list[Path]:
    """Photos of a walk that hold what a known one holds; only those of equal size are opened."""
    sizes = {path: path.stat().st_size for path in (*walk, *known) if path.is_file()}
    shared = {sizes[path] for path in walk if path in sizes} & {sizes[path] for path in known if path in sizes}
    marks = {_mark(path, sizes[path]) for path in known if sizes.get(path) in shared}
    return [path for path in walk if sizes.get(path) in shared and _mark(path, sizes[path]) in marks]


def copies_among(photos: Sequence[Path]) -> list[Path]:
    """Photos of a walk that hold what one before them holds; only those of equal size are opened."""
    by_size: dict[int, list[Path]] = {}
    for path in photos:
        by_size.setdefault(path.stat().st_size, []).append(path)
    seen: set[tuple[int, str]] = set()
    copies: set[Path] = set()
    for size, alike in by_size.items():
        for path in alike if len(alike) > 1 else ():
            mark = _mark(path, size)
            if mark in seen:
                copies.add(path)
            seen.add(mark)
    return [path for path in photos if path in copies]


def _mark(path: Path, size: int) -> tuple[int, str]:
    """What tells a photo from others."""
    with files.writing(path), path.open("rb") as file:
        head = file.read(HEAD)
        file.seek(max(0, size - HEAD))
        return size, hashlib.sha256(head + file.read()).hexdigest()
