"""Photos that a run writes for itself, frames of a video and upright copies: never over those its results stand on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from skyanchor import types
from skyanchor.errors import RecipeError
from skyanchor.storage import files

INDEX = "frames.json"
"""In their folder: which video the frames are of, and how they were chosen."""


@dataclass(frozen=True)
class Copies:
    """The folder that they are written to, images/ and masks/ in it."""

    folder: Path
    stand: tuple[str, ...] | None = None
    """Names of those that results stand on, in order, empty where they stand on photos elsewhere; None without any."""
    drafts: Path | None = None
    """A folder of the same disk that they are written to until `put_in_place`; None writes them to their own."""

    @property
    def written(self) -> Path:
        """The folder that they are written to."""
        return self.folder if self.drafts is None else self.drafts

    def paths(self, names: Sequence[str]) -> list[Path]:
        """Where photos of these names belong; RecipeError, before any is written, where results stand on others."""
        if self.stand is not None and self.stand != tuple(names):
            raise self._others()
        return [self.written / "images" / name for name in names]

    def write(self, path: Path, data: bytes) -> None:
        """One photo or mask; RecipeError where results stand on another one of this name."""
        if self.stand is not None and path.is_file() and path.read_bytes() != data:
            raise self._others()
        files.write_bytes(path, data)

    def put_in_place(self, walk: types.Sequence) -> types.Sequence:
        """The walk with its photos in their own folder: drafts are moved there, over what has their names.

        The index goes before them and comes after them: without it frames are written anew.
        """
        if self.drafts is None or not self.drafts.is_dir():
            return walk
        files.remove(self.folder / INDEX)
        files.move_all(self.drafts, self.folder, last=INDEX)
        return replace(walk, frames=tuple(self._in_place(frame, self.drafts) for frame in walk.frames))

    def _in_place(self, frame: types.Frame, drafts: Path) -> types.Frame:
        """The frame with its files where they are once drafts are in their place."""
        given = (frame.path, frame.mask_path)
        path, mask = (self.folder / p.relative_to(drafts) if p and p.is_relative_to(drafts) else p for p in given)
        return replace(frame, path=path or frame.path, mask_path=mask)

    def _others(self) -> RecipeError:
        where = self.folder.parent
        return RecipeError(f"{where} was made from other street photos. Use --redo to replace it, or another folder.")
