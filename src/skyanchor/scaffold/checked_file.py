"""Bytes and lines of COLMAP models: every length is checked before it is trusted, and what is wrong names the file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from skyanchor.errors import InputError

COPY_ADVICE = "Copy the model again or export it anew."


@dataclass
class CheckedBytes:
    """A file's bytes and a place in them; reading past the end is an InputError that names the file."""

    path: Path
    data: bytes
    at: int = 0
    what: str = "the header"

    def take(self, dtype: str, count: int = 1) -> np.ndarray:
        """`count` values of a little-endian type."""
        size = np.dtype(dtype).itemsize * count
        if count < 0 or self.at + size > len(self.data):
            raise truncated(self.path, self.what)
        values = np.frombuffer(self.data, dtype, count, self.at)
        self.at += size
        return values

    def number(self, dtype: str) -> int:
        """One whole number."""
        return int(self.take(dtype)[0])

    def text(self) -> str:
        """A zero-terminated string."""
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise truncated(self.path, self.what)
        raw = self.data[self.at : end]
        self.at = end + 1
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(self.path, f"has an unreadable name in {self.what}", COPY_ADVICE) from error

    def finish(self) -> None:
        """Raise when bytes are left over."""
        if self.at != len(self.data):
            raise InputError(self.path, f"has {len(self.data) - self.at} bytes more than it announces", COPY_ADVICE)


def contents(path: Path) -> bytes:
    """The file's bytes."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror})", "Check its permissions and the disk.") from error


def truncated(path: Path, what: str) -> InputError:
    """What to raise for a file that ends too early."""
    return InputError(path, f"is truncated: it ends inside {what}", COPY_ADVICE)


def numbered_lines(path: Path, keep_empty: bool = False) -> list[tuple[int, str]]:
    """(line number, text) of every line that is no comment."""
    try:
        text = contents(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(path, "is not a text file", COPY_ADVICE) from error
    numbered = [(k + 1, line.strip()) for k, line in enumerate(text.split("\n"))]
    return [(k, line) for k, line in numbered if not line.startswith("#") and (line or keep_empty)]


def bad_line(path: Path, number: int, what: str, error: Exception) -> InputError:
    """What to raise for a line that cannot be understood."""
    return InputError(path, f"line {number} is no {what} ({error})", COPY_ADVICE)


def id_of(word: str, most: int = 2**32 - 1) -> int:
    """A number that names something; ValueError for one that no binary model could hold."""
    number = int(word)
    if not 0 <= number <= most:
        raise ValueError(f"{number} is no id")
    return number
