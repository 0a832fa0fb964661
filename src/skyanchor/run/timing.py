"""Seconds of work per stage over all attempts, in a file of their own so that results stay comparable."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from skyanchor.storage import codec, files

TIMINGS = "timings.json"
LEAST_S = 1.0
"""Between two writes while a stage is at work, seconds: what is lost when it is killed."""


@dataclass
class Stopwatch:
    """Seconds of work on one stage; whatever passed before an interruption counts."""

    root: Path
    stage: str
    _since: float = field(default_factory=time.monotonic)

    def reset(self) -> None:
        """Start from zero."""
        self._write(0.0)

    def mark(self) -> float:
        """Seconds so far, the time since the last mark included."""
        now = time.monotonic()
        total = timings(self.root).get(self.stage, 0.0) + now - self._since
        self._since = now
        self._write(total)
        return total

    def glance(self) -> None:
        """As `mark`, unless the last one was just now."""
        if time.monotonic() - self._since > LEAST_S:
            self.mark()

    def skip(self) -> None:
        """Leave out the time since the last mark."""
        self._since = time.monotonic()

    def _write(self, seconds: float) -> None:
        """Twice for every job: none of them waits for the disk."""
        known = {**timings(self.root), self.stage: round(seconds, 3)}
        files.note_bytes(self.root / TIMINGS, codec.dumps(dict(sorted(known.items()))).encode())


def timings(root: Path) -> dict[str, float]:
    """Seconds of work per stage of a run or a prepared scaffold."""
    path = root / TIMINGS
    return files.recall(path, dict[str, float]) or {}
