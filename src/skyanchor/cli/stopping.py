"""How work ends before its end: Ctrl-C, SIGTERM, a full disk, a mistake of ours. One line each, and no traceback."""

from __future__ import annotations

import errno
import logging
import os
import signal
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from skyanchor.errors import SkyAnchorError
from skyanchor.report.progress import LOG, Standing

DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.ESTALE)
"""What a disk may refuse: nobody's mistake but the machine's."""
OFTEN = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EMFILE, errno.ENFILE)
"""What a path or the machine may not allow."""


LONGEST = 300
"""Characters of an unexpected error's own words that are shown."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: what a batch system sends before it kills."""


class Stopped(BaseException):
    """Work that was stopped from outside; says where it stands."""

    def __init__(self, where: str, code: int) -> None:
        super().__init__(where)
        self.code = code


class UnexpectedError(Exception):
    """A mistake of ours, its traceback in a file already; the cause is the error itself."""

    def __init__(self, log: Path | None) -> None:
        super().__init__(log)
        self.log = log


@contextmanager
def armed() -> Iterator[None]:
    """While inside, Ctrl-C and SIGTERM raise where the work is; a second one ends the process at once."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    with _held_back(*numbers):
        with suppress(ImportError):
            import pycolmap  # noqa: F401  it takes SIGTERM for itself when it is imported, so it comes first
        before = [signal.signal(number, _stop) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _held_back(*numbers: signal.Signals) -> Iterator[None]:
    """While inside, these signals wait."""
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


def _stop(number: int, frame: FrameType | None) -> None:
    for every in (signal.SIGINT, signal.SIGTERM):
        signal.signal(every, signal.SIG_DFL)
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def exit_code(stop: KeyboardInterrupt) -> int:
    """128 and the number of the signal."""
    return 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)


def stop_in(mistake: Exception) -> KeyboardInterrupt | None:
    """The signal that compiled code has wrapped; None where it was none.

    One that arrives while a Numba kernel hands back its result comes as a SystemError with the stop as its cause.
    """
    found: BaseException | None = mistake if isinstance(mistake, SystemError) else None
    while found is not None and not isinstance(found, KeyboardInterrupt):
        found = found.__cause__ or found.__context__
    return found


def _stopped(standing: Standing, stop: KeyboardInterrupt) -> Stopped:
    return Stopped(f"{standing.sentence()}; the same command goes on.", exit_code(stop))


@contextmanager
def accounted(run: Path, standing: Standing) -> Iterator[None]:
    """While inside, an end before the end is written to the run's log and says where the work stands."""
    log = logging.getLogger("skyanchor")
    try:
        yield
    except KeyboardInterrupt as stop:
        log.info(standing.sentence())
        raise _stopped(standing, stop) from stop
    except SkyAnchorError as error:
        log.info(f"error: {error}")
        raise
    except Exception as mistake:
        wrapped = stop_in(mistake)
        if wrapped is not None:
            log.info(standing.sentence())
            raise _stopped(standing, wrapped) from wrapped
        log.error("unexpected error", exc_info=mistake)
        known = of_the_machine(mistake, run)
        if known is not None:
            raise known from None
        raise UnexpectedError(_log_of(run, mistake)) from mistake


NO_MEMORY = ("failed to map segment", "Cannot allocate memory", "DefaultCPUAllocator: can't allocate memory")
"""What the loader of libraries, the system and torch say where memory does not suffice."""


def of_the_machine(mistake: Exception, run: Path | None = None) -> SkyAnchorError | None:
    """What to tell where disk or memory ended the work; None where it was a mistake of ours."""
    if isinstance(mistake, MemoryError) or any(text in str(mistake) for text in NO_MEMORY):
        return SkyAnchorError("there is not enough memory for this. Use fewer --workers, or a machine with more.")
    if isinstance(mistake, OSError) and mistake.errno in (*DISK, *OFTEN):
        where = os.fsdecode(mistake.filename) if mistake.filename is not None else run or "a file"
        return SkyAnchorError(f"{where}: {mistake.strerror}. Once that is mended, the same command goes on.")
    return None


def said_of(mistake: Exception) -> str:
    """One line on an unexpected error, and where its traceback lies."""
    cause = mistake.__cause__ if isinstance(mistake, UnexpectedError) else mistake
    log = mistake.log if isinstance(mistake, UnexpectedError) else _written(mistake)
    last = (str(cause).strip().splitlines() or [""])[-1][:LONGEST]
    where = "what --traceback prints" if log is None else str(log)
    return f"unexpected {type(cause).__name__}: {last}. This is a mistake of ours: please report it with {where}"


def _log_of(run: Path, mistake: Exception) -> Path | None:
    """The run's log if the traceback got there, else a file of its own."""
    log, last = run / LOG, traceback.format_exception_only(mistake)[-1].strip()
    with suppress(OSError):
        if log.is_file() and last in log.read_text(errors="replace"):
            return log
    return _written(mistake)


def _written(mistake: Exception) -> Path | None:
    """The traceback in a file of its own; None where no file can be written."""
    with suppress(OSError), tempfile.NamedTemporaryFile("w", prefix="skyanchor-", suffix=".txt", delete=False) as file:
        file.writelines(traceback.format_exception(mistake))
        file.flush()
        return Path(file.name)
    return None
