"""Names that were read somewhere, as paths beneath a folder, and names for what is made of each of several files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath

from skyanchor.errors import InputError


def leads_outside(name: str) -> bool:
    """Whether a name that was read somewhere, as a path beneath a folder, would be one that is not; on any system."""
    ways = (PurePosixPath(name), PureWindowsPath(name), PureWindowsPath(PurePosixPath(name).as_posix()))
    odd = any(way.is_absolute() or way.drive or way.root or ".." in way.parts for way in ways)
    return odd or "\0" in name or PurePosixPath(name) == PurePosixPath()


def beneath(folder: Path, name: str) -> Path:
    """The path of a name that was read somewhere, beneath a folder; InputError for one that would lead out of it."""
    if leads_outside(name):
        raise InputError(folder, f"{name!r} would lead out of it", "Names are relative to a folder and have no '..'.")
    return folder / name


def names_for(names: Sequence[str], ending: str) -> tuple[str, ...]:
    """A name of its own for what is made of each file, beneath one folder: the file's, its ending replaced.

    Files that would share one, a.jpg and a.png, keep their ending: a.jpg.npz and a.png.npz. InputError for names that
    lead out of a folder.
    """
    whole = [PurePosixPath(beneath(Path(), name)).as_posix() for name in names]
    short = [PurePosixPath(name).with_suffix(ending).as_posix() for name in whole]
    taken = Counter([*short, *(f"{name}{ending}" for name in whole)])
    found = tuple(f"{name}{ending}" if taken[file] > 1 else file for name, file in zip(whole, short, strict=True))
    if len(set(found)) < len(found):
        twice = next(name for name, count in Counter(whole).items() if count > 1)
        raise InputError(twice, "is named twice", "Every file needs a name of its own.")
    return found
