"""The map of the report drawn while the last stage is at work: it shows the aerial model, which is there by then."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from skyanchor.events import ANCHORS, Event, StageFinished

if TYPE_CHECKING:
    from skyanchor.report.top_points import FromAbove


class MapAhead:
    """A listener that begins to draw when it hears that the anchors are found."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._drawn: Future[FromAbove] | None = None

    def __call__(self, event: Event) -> None:
        """Begin, once."""
        if self._drawn is None and isinstance(event, StageFinished) and event.stage == ANCHORS:
            pool = ThreadPoolExecutor(1)
            self._drawn = pool.submit(_draw, self.root)
            pool.shutdown(wait=False)

    def map(self) -> FromAbove | None:
        """The map as soon as it is drawn; None where nobody began, or nothing could be drawn."""
        return None if self._drawn is None or self._drawn.exception() is not None else self._drawn.result()


def _draw(root: Path) -> FromAbove:
    """The map, and beside it what takes its time to import before a report can be written."""
    from skyanchor.report.folder import from_above
    from skyanchor.report.plots import load_plotting
    from skyanchor.run.results import Run

    load_plotting()
    return from_above(Run(root))
