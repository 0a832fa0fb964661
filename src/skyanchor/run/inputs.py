"""What the user brings to a run, remembered between calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from skyanchor.run.layout import STATE
from skyanchor.storage import files
from skyanchor.types import QUIET

INPUTS_FILE, COMMANDS_FILE = "inputs.json", "commands.json"
"""In .state/: what the run was made from, and by which commands."""


@dataclass(frozen=True)
class Inputs:
    """What the user brings."""

    aerial: Path
    """A prepared scaffold; or a folder with sparse/ (or sparse/0) and images/, or the COLMAP model itself."""
    ground: Path
    """Folder of street photos, or a video."""
    images: Path | None = None
    """Folder of the aerial photos, where it is not found beside the model."""
    splats: Path | None = None
    """Aerial Gaussian model, a .ply of the INRIA convention."""
    onto: tuple[Path, ...] = field(default=(), metadata=QUIET)
    """Runs of earlier walks that this one stands on besides the flight."""


@dataclass(frozen=True)
class Commands:
    """commands.json."""

    lines: tuple[str, ...]
    """As typed, the first one first."""


def remembered_commands(run: Path) -> tuple[str, ...]:
    """The commands that made a run, as far as it knows them."""
    known = files.recall(run / STATE / COMMANDS_FILE, Commands)
    return () if known is None else known.lines


def remember_command(run: Path, line: str) -> None:
    """Keep a command, in its place where it was given before."""
    known = remembered_commands(run)
    if line not in known:
        files.save(run / STATE / COMMANDS_FILE, Commands((*known, line)))
