"""What stages leave for their jobs: the aerial model and the walk, read once by a process while the files stay."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from skyanchor.storage import files
from skyanchor.types import Scaffold, Sequence

SCAFFOLD_FILE = "scaffold.npz"
"""In a progress folder: the aerial model, for the jobs."""


def load_scaffold_file(path: str) -> Scaffold:
    """The aerial model that a stage left for its jobs."""
    return _scaffold_file(path, files.mark(Path(path)))


@lru_cache(maxsize=1)
def _scaffold_file(path: str, seen: str) -> Scaffold:
    return files.load(Path(path), Scaffold)


def load_sequence_file(path: str) -> Sequence:
    """The street frames that a stage left for its jobs."""
    return _sequence_file(path, files.mark(Path(path)))


@lru_cache(maxsize=1)
def _sequence_file(path: str, seen: str) -> Sequence:
    return files.load(Path(path), Sequence)
