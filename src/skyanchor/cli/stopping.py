"""How work ends before its end: Ctrl-C, SIGTERM, a full disk, a mistake of ours. One line each, and no traceback."""

from __future__ import annotations

import errno
import logging
import signal
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from skyanchor.errors import SkyAnchorError
from skyanchor.report.progress import LOG, Standing

DISK = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS)
"""What a disk may refuse: nobody's mistake but the machine's."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: what a batch system sends before it kills."""


class Stopped(BaseException):
    """Work that was stopped from outside; says where it stands."""

    def __init__(self, where: str, code: int) -> None:
        super().__init__(where)
        self.code = code


class UnexpectedError(Exception):
    """A mistake of ours, its traceback in a file already; the cause is the error itself."""

    def __init__(self, log: Path) -> None:
        super().__init__(log)
        self.log = log


@contextmanager
def armed() -> Iterator[None]:
    """While inside, Ctrl-C and SIGTERM raise where the work is; a second one ends the process at once."""
    with suppress(ImportError):
        import pycolmap  # noqa: F401  it takes SIGTERM for itself when it is imported, so it comes first
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, _stop) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _stop(number: int, frame: FrameType | None) -> None:
    for every in (signal.SIGINT, signal.SIGTERM):
        signal.signal(every, signal.SIG_DFL)
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def exit_code(stop: KeyboardInterrupt) -> int:
    """128 and the number of the signal."""
    return 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)


@contextmanager
def accounted(run: Path, standing: Standing) -> Iterator[None]:
    """While inside, an end before the end is written to the run's log and says where the work stands."""
    log = logging.getLogger("skyanchor")
    try:
        yield
    except KeyboardInterrupt as stop:
        log.info(standing.sentence())
        raise Stopped(f"{standing.sentence()}; the same command goes on.", exit_code(stop)) from stop
    except SkyAnchorError as error:
        log.info(f"error: {error}")
        raise
    except Exception as mistake:
        log.error("unexpected error", exc_info=mistake)
        if isinstance(mistake, OSError) and mistake.errno in DISK:
            where = mistake.filename or run
            raise SkyAnchorError(
                f"{where}: {mistake.strerror}. Once that is mended, the same command goes on."
            ) from None
        raise UnexpectedError(run / LOG) from mistake


def said_of(mistake: Exception) -> str:
    """One line on an unexpected error, and where its traceback lies."""
    cause = mistake.__cause__ if isinstance(mistake, UnexpectedError) else mistake
    log = mistake.log if isinstance(mistake, UnexpectedError) else _written(mistake)
    last = (str(cause).strip().splitlines() or [""])[-1]
    return f"unexpected {type(cause).__name__}: {last}. This is a mistake of ours: please report it with {log}"


def _written(mistake: Exception) -> Path:
    """The traceback in a file of its own, for verbs that have no run folder."""
    with tempfile.NamedTemporaryFile("w", prefix="skyanchor-", suffix=".txt", delete=False) as file:
        file.writelines(traceback.format_exception(mistake))
    return Path(file.name)
