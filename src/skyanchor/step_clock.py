"""Seconds per step of a job; time inside a nested step counts for that step alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class StepClock:
    """Where the time of a job goes."""

    seconds: dict[str, float] = field(default_factory=dict)
    """Per step, its nested steps left out."""
    _open: list[str] = field(default_factory=list)
    _since: float = 0.0

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Count the time of a `with` block."""
        self._credit()
        self._open.append(name)
        try:
            yield
        finally:
            self._credit()
            self._open.pop()

    def take(self) -> dict[str, float]:
        """The seconds so far; the clock starts anew."""
        taken, self.seconds = self.seconds, {}
        return taken

    @property
    def with_total(self) -> dict[str, float]:
        """The seconds so far and, as `total`, their sum."""
        return {**self.seconds, "total": sum(self.seconds.values())}

    def _credit(self) -> None:
        """Give the time since the last change to the innermost open step."""
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] = self.seconds.get(self._open[-1], 0.0) + now - self._since
        self._since = now
