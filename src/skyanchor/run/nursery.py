"""Worker processes as copies of one interpreter: what all of them need is imported once, not in each.

The interpreter that is copied is a fresh one, which has no threads and no files of the process that asks for workers.
It ends with that process, and the workers see by themselves when their pipes close.
"""

from __future__ import annotations

import gc
import importlib
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, NoReturn, TypeAlias

Worker: TypeAlias = str
"""module:name of the function that a worker calls; it reads from stdin, writes to stdout, and does not return."""

ASKED = struct.Struct("<i")
"""How the two sides ask and answer: one number."""
ANOTHER = -1
"""Asks for a worker; the two handles of its pipes come along. Other numbers ask how that worker ended."""
TOGETHER, APART = "together", "apart"
"""Whether modules are imported before workers are copied, or by each."""

DEAF = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})"
"""SIGTERM waits in all threads while modules are imported: pycolmap answers one then by a stack, or never."""
PATIENCE_S = 20.0
"""Seconds that it has to end when it is told to; it is killed then."""
OPEN_FILES = 8192
"""That a worker may have open, where the system allows it: a search looks at one for every square of the map."""


class Nursery:
    """An interpreter whose copies are workers."""

    def __init__(
        self, work: Worker, environment: Mapping[str, str], modules: Sequence[str] = (), apart: bool = False
    ) -> None:
        """Start it; workers that are to work on a GPU import `apart`, for no copy could use what a driver has begun."""
        self._line, theirs = socket.socketpair()
        command = [sys.executable, "-c", f"{DEAF}; from skyanchor.run.nursery import serve; serve()"]
        with theirs:
            self.process = subprocess.Popen(
                [*command, str(theirs.fileno()), work, APART if apart else TOGETHER, *modules],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                process_group=0,  # a group of its own: Ctrl-C is for the parent, which decides when to stop
            )
        self._count = 0

    def worker(self) -> tuple[int, IO[bytes], IO[bytes]]:
        """(number, its stdin, its stdout) of a worker that starts when what it needs is imported."""
        (reads, ours), (theirs, writes) = os.pipe(), os.pipe()
        with suppress(OSError):  # where it is dead the pipes are closed, as those of a dead worker
            socket.send_fds(self._line, [ASKED.pack(ANOTHER)], [reads, writes])
        os.close(reads)
        os.close(writes)
        self._count += 1
        return self._count - 1, os.fdopen(ours, "wb"), os.fdopen(theirs, "rb")

    def exit_code(self, number: int) -> int:
        """How a worker ended whose pipes are closed: its exit code, or minus the signal; that of the nursery itself."""
        try:
            self._line.sendall(ASKED.pack(number))
            return int(ASKED.unpack(self._line.recv(ASKED.size))[0])
        except (OSError, struct.error):
            return self.process.wait()

    def close(self) -> None:
        """End all workers, whatever they are doing, and wait until they are gone."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        self._line.close()  # it ends by this too: a signal that comes just before it listens wakes nobody
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


# --- the other side -----------------------------------------------------------------------------------------------


def serve() -> NoReturn:
    """Import, then make workers as they are asked for, until the process that asks is gone."""
    line, (work, when, *modules) = socket.socket(fileno=int(sys.argv[1])), sys.argv[2:]
    _may_open_more()
    with suppress(ImportError):
        import pycolmap  # noqa: F401  it takes SIGTERM for itself when it is imported
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    module, _, name = work.partition(":")
    function = getattr(importlib.import_module(module), name)
    if when == TOGETHER:
        _import(modules)
    gc.freeze()  # what is there stays shared
    workers: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: _end(workers))
    while True:
        message, handles, _, _ = socket.recv_fds(line, ASKED.size, 2)
        if not message:
            _end(workers)
        (asked,) = ASKED.unpack(message)
        if asked != ANOTHER:
            line.sendall(ASKED.pack(os.waitstatus_to_exitcode(os.waitpid(workers[asked], 0)[1])))
            continue
        workers.append(os.fork())
        if not workers[-1]:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            line.close()
            os.dup2(handles[0], 0)
            os.dup2(handles[1], 1)
        for handle in handles:
            os.close(handle)
        if not workers[-1]:
            _import(modules)
            function()


def _may_open_more() -> None:
    """Have room for OPEN_FILES, in this process and its copies, where it has less and the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _import(modules: Sequence[str]) -> None:
    for needed in modules:
        with suppress(Exception):  # a job that needs it will say what is wrong
            importlib.import_module(needed)


def _end(workers: list[int]) -> NoReturn:
    """Wait for the workers, which the same signal or their closed pipes end, so that their seconds count."""
    for one in workers:
        with suppress(ChildProcessError):
            os.waitpid(one, 0)
    os._exit(0)
