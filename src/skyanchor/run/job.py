"""A job: an importable function and JSON arguments, and how its end and its events travel between processes.

Big inputs and outputs are files that the arguments name. Whatever runs it, a job adds up in one thread.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from threadpoolctl import threadpool_limits

from skyanchor.errors import BackendError, SkyAnchorError
from skyanchor.events import Event, Listener
from skyanchor.storage import codec
from skyanchor.storage.codec import Json


@dataclass(eq=False)
class _Sums:
    """How numpy and torch add up in this process."""

    jobs: int = 0
    """Jobs that run."""
    restore: Callable[[], None] = lambda: None
    """Gives the threads back."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def in_one_thread(self) -> Iterator[None]:
        """A block whose sums do not depend on the cores of the machine, nor on how many workers share them."""
        with self.lock:
            self.jobs += 1
            if self.jobs == 1:
                self.restore = _limited()
        try:
            yield
        finally:
            with self.lock:
                self.jobs -= 1
                if not self.jobs:
                    self.restore()


SUMS = _Sums()


def _limited() -> Callable[[], None]:
    """Give BLAS, and torch where it is loaded, one thread; the way back.

    Numba's threads are started before: as they start they set those of OpenMP, which torch shares.
    """
    import numba

    numba.get_num_threads()
    blas, torch = threadpool_limits(1, "blas"), sys.modules.get("torch")
    if torch is None:
        return blas.restore_original_limits
    before = torch.get_num_threads()
    torch.set_num_threads(1)

    def restore() -> None:
        blas.restore_original_limits()
        torch.set_num_threads(before)

    return restore


@dataclass(frozen=True)
class Job:
    """An importable function and its JSON arguments; it is called with `listen` besides them."""

    function: str
    """module:name."""
    arguments: Mapping[str, Json] = field(default_factory=dict)
    gpu: bool = True
    """Whether it may work on a GPU: on a cluster that has some it asks for a share of one."""
    alone: bool = False
    """Whether it wants that GPU to itself."""

    @staticmethod
    def of(function: Callable[..., Json], **arguments: object) -> Job:
        """A job that calls a module-level function; the arguments may be any value that the codec writes."""
        name = f"{function.__module__}:{function.__qualname__}"
        if "<" in name:
            raise TypeError(f"{name} cannot be imported: a job needs a module-level function")
        return Job(name, {key: codec.to_json(value) for key, value in arguments.items()})

    def run(self, listen: Listener) -> Json:
        """The function's result, as it reads after a trip through JSON."""
        module, _, name = self.function.partition(":")
        function = getattr(importlib.import_module(module), name)
        arguments = json.loads(json.dumps(dict(self.arguments)))
        with SUMS.in_one_thread():
            return json.loads(json.dumps(function(**arguments, listen=listen)))


# --- how a job ends ----------------------------------------------------------------------------------------------


def answer(job: Job, listen: Listener) -> dict[str, Any]:
    """What a job returned, or the error that it met, for the parent to raise."""
    try:
        return {"result": job.run(listen)}
    except SkyAnchorError as error:
        return {"error": str(error), "backend": isinstance(error, BackendError)}
    except Exception:  # the parent raises it, with this traceback
        return {"traceback": traceback.format_exc()}


def outcome(body: dict[str, Any], job: Job) -> Json:
    """The result in what `answer` said of a job; the error that it met is raised."""
    if "error" in body:
        raise (BackendError if body.get("backend") else SkyAnchorError)(body["error"])
    if "traceback" in body:
        raise RuntimeError(f"{job.function} failed in its worker:\n{body['traceback']}")
    return body["result"]


@dataclass(frozen=True)
class _Envelope:
    event: Event


def event_body(event: Event) -> Json:
    """An event as it travels."""
    return codec.to_json(_Envelope(event))


def event_of(body: Json) -> Event:
    """The event that travelled."""
    return codec.from_json(_Envelope, body).event
