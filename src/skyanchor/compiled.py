"""Numba kernels that a process of its own compiles and keeps, and that every process which computes loads.

Numba optimises the parts of a kernel alone and then, linked together, once more. What is kept is the second; the
process that compiles goes on to run the first, since their names are the same and its engine has those already, even
if it loads what it kept. With `fastmath` the two have other last digits. So a kernel that is not in the cache is
compiled in another process, which never runs one: the first run on a machine finds the digits of all later ones.
"""

from __future__ import annotations

import base64
import fcntl
import importlib
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import numba
from numba import cloudpickle
from numba.core.caching import FunctionCache, NullCache
from numba.core.serialize import dumps

log = logging.getLogger(__name__)

IDLE_S = 15.0
"""Seconds without a kernel after which the process that compiles ends; it is started again when one is missing."""
DONE = b"done\n"
"""What it answers when a kernel is kept; anything else says why it is not."""
MAY_DIFFER = "they are compiled here, and last digits may differ from those of other runs"


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Numba's decorator; with `cache=True` the kernel is compiled by another process and loaded by this one.

    A number over zero is infinite or none, as in numpy. By numba's own choice it ends the run, and one pixel on a
    camera's plane, or one row of points in one spot, is enough for that.
    """
    kept, options = options.pop("cache", False), {"error_model": "numpy", **options}

    def decorate(function: Callable[..., Any]) -> Any:
        kernel = numba.njit(**options)(function)
        if kept and kernel is not function:  # as it is where NUMBA_DISABLE_JIT is set
            kernel._cache = _cache(function, options)
        return kernel

    return decorate


def _cache(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    try:
        return _Kept(function, options)
    except RuntimeError as error:  # neither beside the sources nor in the user's cache can anything be written
        _not_kept(str(error))
        return NullCache()


class _Kept(FunctionCache):  # type: ignore[misc]
    """Numba's cache of one kernel; what it does not hold is put into it by another process first."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__(function)
        self._options = "; ".join(f"{name}={_in_order(options[name])}" for name in sorted(options))

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        """What tells one kept kernel from another: numba's, and how it is compiled, which its source does not hold."""
        return (*super()._index_key(sig, codegen), self._options)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kernel for arguments of these types; None makes numba compile it here."""
        found = super().load_overload(sig, target_context)
        if found is None and _ELSEWHERE.compile(self._py_func, sig):
            found = super().load_overload(sig, target_context)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a kernel that was compiled here, where that is possible."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            if _ELSEWHERE.is_this:
                raise  # for the process that asks to tell
            _not_kept(str(error))


def _in_order(value: Any) -> str:
    return str(sorted(value) if isinstance(value, (set, frozenset)) else value)


class _Compiler:
    """The process that compiles for this one."""

    def __init__(self) -> None:
        self.is_this = False
        """Whether this process is one that compiles for another."""
        self._process: subprocess.Popen[bytes] | None = None
        self._gave_up = False

    def compile(self, function: Callable[..., Any], sig: Any) -> bool:
        """Whether the kernel is kept now. Numba holds its lock meanwhile: one thread asks at a time."""
        if self.is_this or self._gave_up:
            return False
        log.info("compiling %s", function.__qualname__)
        types = base64.b64encode(dumps(sig)).decode()
        asked = f"{function.__module__} {function.__qualname__} {types}\n".encode()
        answer = self._ask(asked) or self._ask(asked)  # the first may have ended just then for want of work
        if not answer:
            self._gave_up = True
            log.warning("no other process could compile kernels: %s", MAY_DIFFER)
        return answer == DONE  # an error in the kernel is met again here, and told

    def forget(self) -> None:
        """In a copy of this process, or when its answer is no longer waited for: it sees that and ends."""
        self._process = None

    def _ask(self, asked: bytes) -> bytes:
        """Its answer; empty when it ended instead."""
        try:
            if self._process is None or self._process.poll() is not None:
                self._process = _start()
            assert self._process.stdin is not None and self._process.stdout is not None
            self._process.stdin.write(asked)
            self._process.stdin.flush()
            return self._process.stdout.readline()
        except OSError:
            self.forget()
            return b""
        except BaseException:  # stopped while it compiles
            self.forget()
            raise


_ELSEWHERE = _Compiler()
os.register_at_fork(after_in_child=_ELSEWHERE.forget)


def _start() -> subprocess.Popen[bytes]:
    """A fresh interpreter that compiles what it is asked for; it ends with this process or when nothing is asked."""
    return subprocess.Popen(
        [sys.executable, "-c", "from skyanchor.compiled import serve; serve()"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # what goes wrong is in the answer
        process_group=0,  # Ctrl-C is for the process that asks
    )


_told: set[str] = set()


def _not_kept(why: str) -> None:
    """Say once that kernels cannot be kept."""
    if not _told:
        _told.add(why)
        log.warning("kernels cannot be kept (%s): %s", why, MAY_DIFFER)


# --- the other side -----------------------------------------------------------------------------------------------


def serve() -> NoReturn:
    """Compile what comes in until the process that asks is gone, whatever is being done, or nothing was asked for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _ELSEWHERE.is_this = True
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    asked: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_receive, args=(asked,), daemon=True).start()
    while True:
        try:
            line = asked.get(timeout=IDLE_S)
        except queue.Empty:
            os._exit(0)
        answers.write(_answer(line))
        answers.flush()


def _receive(asked: queue.Queue[str]) -> None:
    for line in sys.stdin:
        asked.put(line)
    os._exit(0)


def _answer(line: str) -> bytes:
    """`DONE` when the kernel is kept, by this process or another; the error otherwise, in a line."""
    try:
        module, name, types = line.split()
        kernel = getattr(importlib.import_module(module), name)
        with _alone_in(Path(kernel._cache.cache_path)):
            kernel.compile(cloudpickle.loads(base64.b64decode(types)))
        return DONE
    except Exception as error:  # the process that asks will meet it, or do without
        return f"{type(error).__name__}: {error}".replace("\n", " ").encode() + b"\n"


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """A block that no other process is in for the same folder; where a disk knows no locks, all may."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
