"""Results of benchmarks that are kept: the figures, and what they were made with."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from skyanchor.storage import codec, files

T = TypeVar("T")


@dataclass(frozen=True)
class Made:
    """What a result was made with."""

    command: str
    """From the root of the repository."""
    commit: str
    """Short; with a + where files were changed since, empty where nothing says."""
    machine: str
    """In words."""
    date: str
    """Year-month-day, UTC."""


@dataclass(frozen=True)
class Outcome:
    """What came out once: on one town, of one program, at one beginning of a walk."""

    of: str
    figures: dict[str, float]
    """By name with unit; nan where there is nothing to measure."""


def made_here() -> Made:
    """This command, version, machine and day."""
    return Made(plain_command(sys.argv), _commit(), _machine(), f"{datetime.now(UTC):%Y-%m-%d}")


def plain_command(words: Sequence[str]) -> str:
    """A command of a benchmark without the folders of one machine: what is named, not where it lies."""
    told = [Path(word).name if word.startswith("/") else word for word in words]
    folders = {k + step for k, word in enumerate(told) if word in ("--out", "--work", "--json") for step in (0, 1)}
    return "python benchmarks/" + " ".join(
        [Path(told[0]).name, *(w for k, w in enumerate(told) if k and k not in folders)]
    )


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--exclude", "*", "--dirty=+"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _machine() -> str:
    """Cores that this process may use, and the GPU where there is one."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    except (OSError, subprocess.CalledProcessError):
        names = []
    cores = f"{len(os.sched_getaffinity(0))} cores ({platform.machine()})"
    return ", ".join([cores, *(name.strip() for name in names if name.strip())])


def write_lines(path: Path, made: Made, records: Sequence[object]) -> None:
    """JSON lines: what the result was made with, then a record per line."""
    lines = [json.dumps(codec.to_json(value), ensure_ascii=False, allow_nan=False) for value in (made, *records)]
    files.write_text(path, "\n".join(lines) + "\n")


def read_lines(path: Path, kind: type[T]) -> tuple[Made, list[T]]:
    """What `write_lines` wrote."""
    first, *others = path.read_text().splitlines()
    return codec.loads(Made, first), [codec.loads(kind, line) for line in others]
