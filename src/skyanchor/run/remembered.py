"""What a run remembers of the last call: a call that is refused is forgotten, and the run stays as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skyanchor.errors import NothingPlacedError, RecipeError, SkyAnchorError
from skyanchor.events import Event, StageStarted
from skyanchor.storage import files

if TYPE_CHECKING:
    from skyanchor.run.folder import RunFolder

REMEMBERED = ("inputs.json", "commands.json", "settings.json", "sequence.json")
"""In .state/: what a call says of inputs and settings before any stage is at work with them."""


@dataclass(frozen=True)
class Remembered:
    """The files of REMEMBERED as they were."""

    held: Mapping[Path, bytes | None]
    """None for one that was not there."""

    def put_back(self) -> None:
        """Make them what they were, as far as the disk allows."""
        for path, data in self.held.items():
            with suppress(SkyAnchorError):
                if data is None:
                    files.remove(path)
                elif not path.is_file() or path.read_bytes() != data:
                    files.write_bytes(path, data)


def remembered(state: Path) -> Remembered:
    """What the folder .state/ of a run holds of the last call."""
    paths = [state / name for name in REMEMBERED]
    with files.writing(state):
        return Remembered({path: path.read_bytes() if path.is_file() else None for path in paths})


@contextmanager
def forgotten_if_refused(run: RunFolder) -> Iterator[None]:
    """While inside, the stages of a run are worked on; a call that is refused is forgotten.

    It is where a stage holds other work, or by a known error before any stage began. What was told to the run since it
    was opened is forgotten then.
    """
    begun: list[Event] = []
    listen = run.listen

    def heard(event: Event) -> None:
        if isinstance(event, StageStarted):
            begun.append(event)
        listen(event)

    run.listen = heard
    try:
        yield
    except NothingPlacedError:
        raise
    except SkyAnchorError as error:
        if not begun or isinstance(error, RecipeError):
            run.before.put_back()
        raise
    finally:
        run.listen = listen
