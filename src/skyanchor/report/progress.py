"""Events for people: a live display on a terminal, plain lines elsewhere, and a log file in the run folder."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from skyanchor.events import Event, Listener, Note, Progress, StageFinished, StageSkipped, StageStarted
from skyanchor.report.words import duration
from skyanchor.storage import files

LOG = "log.txt"
SHARES = 10
"""Plain progress lines per step."""
SURE_S = 5.0
"""What a rate must rest on before it tells of the time left, seconds."""


def sentence(event: Event) -> str:
    """One line that says what the event says."""
    match event:
        case StageStarted(stage, what):
            return f"{stage}: {what}"
        case StageSkipped(stage):
            return f"{stage}: already there, made the same way"
        case Progress(stage, step, done, total, figures):
            return f"{stage}: {step} {done}/{total}{_listed(figures)}"
        case Note(stage, text, warning):
            return f"{stage}: {'warning: ' if warning else ''}{text}"
        case StageFinished(stage, seconds, figures):
            return f"{stage}: done in {seconds:.1f} s{_listed(figures)}"


def _listed(figures: Mapping[str, float]) -> str:
    return "".join(f"  {name} {value:.4g}" for name, value in figures.items() if value == value)  # nan says nothing


def every(*listeners: Listener) -> Listener:
    """One listener that tells all of them."""

    def tell(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return tell


@dataclass
class Standing:
    """A listener that knows where the work stands."""

    stage: str = ""
    done: int = 0
    total: int = 0

    def __call__(self, event: Event) -> None:
        """Keep the last stage that began and the last progress in it."""
        match event:
            case StageStarted(stage):
                self.stage, self.done, self.total = stage, 0, 0
            case Progress(_, _, done, total):
                self.done, self.total = done, total
            case StageFinished() | StageSkipped():
                self.done, self.total = 0, 0
            case Note():
                pass

    def sentence(self) -> str:
        """Where it was stopped, no full stop."""
        number, _, name = self.stage.partition("-")
        where = f"in stage {number}" if number.isdigit() and name else f"in {self.stage}" if self.stage else "at once"
        return f"Stopped {where}" + (f", {self.done} of {self.total} done" if self.total else "")


@dataclass
class Pace:
    """How long the steps will still take, from the rate of each so far."""

    clock: Callable[[], float] = time.monotonic
    _began: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    """Per step: when it was first heard of, and how much was done then."""

    def left(self, event: Progress) -> str:
        """The time left in words; empty before a rate is known and when nothing is left."""
        key, now = (event.stage, event.step), self.clock()
        began, first = self._began.setdefault(key, (now, event.done))
        if event.done < first:  # the step began anew
            self._began[key] = (now, event.done)
            return ""
        if event.done == first or event.done >= event.total or now - began < SURE_S:
            return ""
        return f"  about {duration((now - began) / (event.done - first) * (event.total - event.done))} left"


def spoken_of(event: Event, stages: int) -> str:
    """The sentence of an event for a person who waits for so many stages: which of them begins."""
    number = event.stage.partition("-")[0]
    if isinstance(event, StageStarted) and number.isdigit() and stages > 1:
        return f"stage {number} of {stages} ({event.stage}): {event.what}"
    return sentence(event)


@contextmanager
def display(stream: TextIO, stages: int = 0) -> Iterator[Listener]:
    """A listener for the person who waits: live bars when the stream is a terminal, else a line now and then.

    `stages` is the number of stages that will run, where it is known.
    """
    if not stream.isatty():
        yield plain(stream, stages)
        return
    with _live(stream, stages) as listener:
        yield listener


def plain(stream: TextIO, stages: int = 0) -> Listener:
    """A listener that writes a line per event, and at most ten per step of progress."""
    told: dict[tuple[str, str], int] = {}
    pace = Pace()

    def tell(event: Event) -> None:
        left = ""
        if isinstance(event, Progress):
            left = pace.left(event)
            share = SHARES * event.done // max(event.total, 1)
            if told.get((event.stage, event.step)) == share:
                return
            told[event.stage, event.step] = share
        stream.write(f"{spoken_of(event, stages)}{left}\n")
        stream.flush()

    return tell


@contextmanager
def _live(stream: TextIO, stages: int) -> Iterator[Listener]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    tasks: dict[tuple[str, str], TaskID] = {}
    pace = Pace()
    with Bars(*columns, TextColumn("{task.fields[figures]}"), console=Console(file=stream)) as bars:

        def tell(event: Event) -> None:
            if not isinstance(event, Progress):
                bars.console.print(spoken_of(event, stages), markup=False, highlight=False)
                return
            key = (event.stage, event.step)
            if key not in tasks:
                tasks[key] = bars.add_task(f"{event.stage}: {event.step}", figures="")
            figures = _listed(event.figures) + pace.left(event)
            bars.update(tasks[key], completed=event.done, total=event.total, figures=figures)

        yield tell


@contextmanager
def log_file(run: Path) -> Iterator[Listener]:
    """A listener that appends to log.txt in the run folder, with the library's own log messages beside the events.

    A disk that takes no more of it is silent here: the work itself will say so.
    """
    with files.writing(run / LOG):
        handler = _LogFile(run / LOG)
    handler.setFormatter(_UtcFormatter("{asctime}  {message}", style="{"))
    logger = logging.getLogger("skyanchor")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield lambda event: logger.info(sentence(event))
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        handler.close()


@contextmanager
def spoken(part: str, listen: Listener) -> Iterator[None]:
    """While inside, what one module of the library logs is told to the listener too: licences of weights, say."""
    handler = _Telling(part.rpartition(".")[2], listen)
    logger = logging.getLogger(part)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Telling(logging.Handler):
    def __init__(self, name: str, listen: Listener) -> None:
        super().__init__(logging.INFO)
        self.part, self.listen = name, listen

    def emit(self, record: logging.LogRecord) -> None:
        self.listen(Note(self.part, record.getMessage(), warning=record.levelno >= logging.WARNING))


class _LogFile(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Nothing: a line that cannot be written is no reason to end the work, nor to print a traceback."""

    def close(self) -> None:
        with suppress(OSError):
            super().close()


class _UtcFormatter(logging.Formatter):
    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
