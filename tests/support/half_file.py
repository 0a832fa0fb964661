"""Two jobs of one run: one that is in the middle of a file for a minute, and one that fails as soon as it is."""

from __future__ import annotations

import time
from pathlib import Path

from skyanchor.errors import SkyAnchorError
from skyanchor.events import Listener
from skyanchor.storage import files


def writing(out: str, listen: Listener) -> None:
    """A file that takes a minute."""

    def slowly(draft: Path) -> None:
        draft.write_text("half")
        time.sleep(60.0)

    files.write_through(Path(out), slowly)


def failing(out: str, listen: Listener) -> None:
    """SkyAnchorError once the other job's draft is there."""
    until = time.monotonic() + 50.0
    while not list(Path(out).parent.glob(f".*{files.TEMPORARY}")) and time.monotonic() < until:
        time.sleep(0.01)
    raise SkyAnchorError("the other one was half-way")
