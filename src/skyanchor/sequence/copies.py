"""Photos that a run writes for itself, frames of a video and upright copies: never over those its results stand on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skyanchor.errors import RecipeError
from skyanchor.storage import files


@dataclass(frozen=True)
class Copies:
    """The folder that they are written to, images/ and masks/ in it."""

    folder: Path
    stand: tuple[str, ...] | None = None
    """Names of those that results stand on, in order, empty where they stand on photos elsewhere; None without any."""

    def paths(self, names: Sequence[str]) -> list[Path]:
        """Where photos of these names belong; RecipeError, before any is written, where results stand on others."""
        if self.stand is not None and self.stand != tuple(names):
            raise self._others()
        return [self.folder / "images" / name for name in names]

    def write(self, path: Path, data: bytes) -> None:
        """One photo or mask; RecipeError where results stand on another one of this name."""
        if self.stand is not None and path.is_file() and path.read_bytes() != data:
            raise self._others()
        files.write_bytes(path, data)

    def _others(self) -> RecipeError:
        where = self.folder.parent
        return RecipeError(f"{where} was made from other street photos. Use --redo to replace it, or another folder.")
