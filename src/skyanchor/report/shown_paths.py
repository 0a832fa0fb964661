"""Paths for a page that is sent to others: how things are called, not where on a machine they lie."""

from __future__ import annotations

import shlex
from pathlib import Path

ELSEWHERE = "…"
"""Stands for the folders that are left out."""


def shown_path(path: Path, run: Path) -> str:
    """The path from the folder that holds the run; of one that lies elsewhere the last two names."""
    home = run.resolve().parent
    if not path.is_absolute():
        return str(path)
    if path.is_relative_to(home) and path != home:
        return str(path.relative_to(home))
    names = path.parts[1:]
    return "/".join(names if len(names) < 2 else (ELSEWHERE, *names[-2:]))


def shown_command(line: str, run: Path) -> str:
    """A command with its paths shortened; all else as it was typed."""
    return " ".join(_shown_word(word, run) for word in shlex.split(line))


def _shown_word(word: str, run: Path) -> str:
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return f"{option}{equals}{shown_path(Path(value), run)}" if value.startswith("/") else shlex.quote(word)


def shown_settings(value: object, run: Path) -> object:
    """Settings as a recipe holds them, with the paths among them shortened."""
    if isinstance(value, dict):
        return {name: shown_settings(one, run) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [shown_settings(one, run) for one in value]
    return shown_path(Path(value), run) if isinstance(value, str) and value.startswith("/") else value
