"""What has the name already that something is to be written under: a file of the user is never written over."""

from __future__ import annotations

from pathlib import Path

from skyanchor.errors import InputError
from skyanchor.storage import files

PLY = b"ply"
"""What a .ply begins with."""
BEGINS = {".ply": PLY, ".spz": b"\x1f\x8b", ".splat": b""}
"""The same by ending; a .splat has no mark."""


def refuse_lost(out: Path, *read: Path, begins: bytes = b"") -> None:
    """InputError where a file that is read would be written over, or one that is no such file as is written.

    `begins` is what files of that kind begin with; an empty file is none of anybody's.
    """
    advice = "Give another name for what is to be written."
    refuse_other_ending(out, begins)
    files.refuse_special(out)
    if any(out.exists() and path.exists() and out.samefile(path) for path in read):
        raise InputError(out, "is a file that is read here, which would be lost", advice)
    if begins and out.is_file():
        with files.writing(out), out.open("rb") as file:
            found = file.read(len(begins))
        if found and found != begins:
            raise InputError(out, "is there already and holds something else, which would be lost", advice)


def refuse_other_ending(out: Path, begins: bytes) -> None:
    """InputError where a .ply would be written by a name that says it is another kind of file."""
    if begins == PLY and out.suffix and out.suffix.lower() != ".ply":
        advice = "End it in .ply; `skyanchor patch export` writes other kinds."
        raise InputError(out, f"would be a .ply that is called {out.suffix}", advice)
