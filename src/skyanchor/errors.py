"""Errors that a user can act on. Everything else keeps its traceback."""

from __future__ import annotations

from pathlib import Path


class SkyAnchorError(Exception):
    """A known failure: one line that says what is wrong and what to do. The CLI prints it and exits with 2."""


class InputError(SkyAnchorError):
    """Something the user gave cannot be used."""

    def __init__(self, path: Path | str, problem: str, advice: str) -> None:
        super().__init__(f"{path}: {problem}. {advice}")


class BackendError(SkyAnchorError):
    """A chosen backend cannot run here (missing package, weights or device)."""


class RecipeError(SkyAnchorError):
    """The run folder holds a stage made with other settings or inputs."""


class NothingPlacedError(SkyAnchorError):
    """Too few street frames have a pose for what was asked."""
