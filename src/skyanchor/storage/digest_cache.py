"""Digests of files, remembered as long as the files stand still, and whether a file is still what it was."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from skyanchor.storage.digests import file_digest, joint_digest
from skyanchor.storage.files import mark, recall, write_bytes

SETTLED_S = 2.0
"""A file written so shortly before it is read may still change within one tick of its clock: not remembered, seconds.

One from the future, after a clock was set back, can: what is written to it next is marked with today's time."""


@dataclass(frozen=True)
class Found:
    """A file as it was when its digest was taken."""

    digest: str
    mark: str
    """Of its size, inode and both clocks."""
    settled: bool
    """Whether it cannot change without the mark."""

    def is_still(self, path: Path) -> bool:
        """Whether the file holds the same, by its mark where that tells; InputError where it cannot be read."""
        return (self.settled and mark(path) == self.mark) or file_digest(path) == self.digest


@dataclass
class DigestCache:
    """Digests of file contents, remembered as long as size, inode and both clocks of a file stand still."""

    path: Path
    """JSON file of the memory; may be deleted at any time."""
    kept: bool = True
    """Whether what is found is written there."""
    _known: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Absolute path -> (fingerprint, digest)."""

    def __post_init__(self) -> None:
        """Read the memory where there is one."""
        if self.path.is_file():
            self._known = recall(self.path, dict[str, tuple[str, str]]) or {}

    def digest(self, files: Mapping[str, Path]) -> str:
        """One digest of names and contents; neither order nor place on the disk matters."""
        return joint_digest(self.each(files))

    def each(self, files: Mapping[str, Path]) -> dict[str, str]:
        """The digest of every file's contents by its name."""
        return {name: found.digest for name, found in self.look(files).items()}

    def look(self, files: Mapping[str, Path]) -> dict[str, Found]:
        """Every file as it is now by its name."""
        before = dict(self._known)
        found = {name: self._file(path) for name, path in files.items()}
        if self.kept and self._known != before:
            write_bytes(self.path, json.dumps(self._known, indent=0).encode())
        return found

    def _file(self, path: Path) -> Found:
        key = str(path.resolve())
        seen = mark(path)
        if key in self._known and self._known[key][0] == seen:
            return Found(self._known[key][1], seen, True)
        value = file_digest(path)
        settled = bool(seen) and abs(time.time() - path.stat().st_mtime) > SETTLED_S
        if settled:
            self._known[key] = (seen, value)
        return Found(value, seen, settled)
