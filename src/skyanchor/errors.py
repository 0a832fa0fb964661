"""Errors that a user can act on. Everything else keeps its traceback."""

from __future__ import annotations

from pathlib import Path

LONGEST = 400
"""Characters that are told of a problem; what a file holds may be of any length."""


def _short(text: str) -> str:
    """The text in one line of bearable length."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


class SkyAnchorError(Exception):
    """A known failure: one line that says what is wrong and what to do. The CLI prints it and exits with 2."""


class InputError(SkyAnchorError):
    """Something the user gave cannot be used."""

    def __init__(self, path: Path | str, problem: str, advice: str) -> None:
        super().__init__(path, problem, advice)  # as given: another process makes it again of these

    def __str__(self) -> str:
        """One line: where, what is wrong, what to do."""
        path, problem, advice = self.args
        return f"{path}: {_short(problem)}. {advice}"


class WriteError(SkyAnchorError):
    """Something cannot be written where it was to be."""


class BackendError(SkyAnchorError):
    """A chosen backend cannot run here (missing package, weights or device)."""


class RecipeError(SkyAnchorError):
    """The run folder holds a stage made with other settings or inputs."""


class NothingPlacedError(SkyAnchorError):
    """Too few street frames have a pose for what was asked."""
