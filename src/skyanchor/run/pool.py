"""The workers of a run, seen from the process that started them: who is there, who is at what, who waits."""

from __future__ import annotations

import functools
import json
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

from skyanchor.backends.devices import cuda_is_here
from skyanchor.errors import SkyAnchorError
from skyanchor.events import Listener
from skyanchor.run.job import Job, event_of, outcome
from skyanchor.run.nursery import Nursery
from skyanchor.run.worker import SHARED_VARIABLES, cores, send, serve, worker_environment
from skyanchor.storage.codec import Json

Done: TypeAlias = Callable[[int, Json], None]
"""Told the position and the result of each job as soon as it ends."""

WORKER_BYTES = 3 << 30
"""Memory that a worker may need: measured up to 2.2 GB in the anchor stage."""
CUDA_WORKER_BYTES = 5 << 30
"""GPU memory that a worker may need for the networks that match photos; depth on a GPU is measured in one process."""

IN_WORKERS = ("skyanchor.pipeline", "torch")
"""What the workers of a run import while the user's data are read."""
AHEAD = -1
"""In place of the position of a job that is not of the run."""


class WorkerError(SkyAnchorError):
    """A job ended without a result."""


@dataclass(frozen=True)
class _Message:
    worker: int
    body: dict[str, Any] | None
    """None when the worker's pipe has closed."""


class Pool:
    """Workers and what they say."""

    def __init__(self, environment: Mapping[str, str], modules: tuple[str, ...] = ()) -> None:
        self.messages: queue.Queue[_Message] = queue.Queue()
        self.workers: list[_Worker] = []
        self.threads, self.modules = environment[SHARED_VARIABLES[0]], modules
        work = f"{serve.__module__}:{serve.__name__}"
        self.nursery = Nursery(work, environment, modules, apart=cuda_is_here())

    def grow(self, workers: int) -> None:
        """Start what is missing to so many workers."""
        for _ in range(len(self.workers), workers):
            self.workers.append(_Worker(self.nursery, self.messages))

    def close(self) -> None:
        """End the workers, whatever they are doing."""
        self.nursery.close()
        for worker in self.workers:
            worker.close()


def usual_workers() -> int:
    """One worker per core, fewer where they would not fit into the memory of the machine or of its GPU."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    fitting = int(0.75 * memory / WORKER_BYTES)
    if cuda_is_here():
        import torch

        fitting = min(fitting, int(torch.cuda.mem_get_info()[1] / CUDA_WORKER_BYTES))
    return max(1, min(cores(), fitting))


EARLY: list[Pool] = []
"""Workers that were started before anybody held them."""


@contextmanager
def starting_early() -> Iterator[None]:
    """A block that begins with the start of the workers of a run: they import while this process does."""
    if usual_workers() > 1:
        EARLY.append(Pool(worker_environment(cores()), IN_WORKERS))
    try:
        yield
    finally:
        while EARLY:
            EARLY.pop().close()


def _early(environment: Mapping[str, str], modules: tuple[str, ...]) -> Pool | None:
    """Workers that were started early with as many threads and with these modules."""
    fitting = [pool for pool in EARLY if (pool.threads, pool.modules) == (environment[SHARED_VARIABLES[0]], modules)]
    if not fitting:
        return None
    EARLY.remove(fitting[0])
    return fitting[0]


@dataclass(eq=False)
class Held:
    """The workers of an executor that are between two runs."""

    depth: int = 0
    """Blocks that want them held."""
    idle: list[Pool] = field(default_factory=list)
    waiting: deque[Job] = field(default_factory=deque)
    """For workers that would wait."""

    @contextmanager
    def pool(self, workers: int, environment: Mapping[str, str], modules: tuple[str, ...] = ()) -> Iterator[Pool]:
        """So many idle workers or more, kept afterwards if they are wanted and nothing failed."""
        pool = self.idle.pop() if self.idle else _early(environment, modules) or Pool(environment, modules)
        try:
            pool.grow(workers)
            yield pool
        except BaseException:
            pool.close()
            raise
        if self.depth:
            self.idle.append(pool)
        else:
            pool.close()

    def close(self) -> None:
        """End all workers."""
        self.waiting.clear()
        while self.idle:
            self.idle.pop().close()


class _Worker:
    """A worker process and the thread that reads what it says."""

    def __init__(self, nursery: Nursery, messages: queue.Queue[_Message]) -> None:
        self.nursery = nursery
        self.number, self.stdin, self.stdout = nursery.worker()
        self.job: int | None = None
        """Position in the run of the job that it is at."""
        self._gone = functools.partial(messages.put, _Message(self.number, None))
        self._reader = threading.Thread(target=self._read, args=(messages,), daemon=True)
        self._reader.start()

    def _read(self, messages: queue.Queue[_Message]) -> None:
        for line in self.stdout:
            messages.put(_Message(self.number, json.loads(line)))
        self._gone()

    def give(self, index: int, job: Job, threads: int) -> None:
        """Send a job that may use so many threads; a dead worker shows as a closed pipe soon after."""
        self.job = index
        with suppress(BrokenPipeError):
            body = {"function": job.function, "arguments": dict(job.arguments), "threads": threads}
            send(self.stdin, body)
        if not self._reader.is_alive():  # it died between two runs, when nobody listened
            self._gone()

    def close(self) -> None:
        """Close the pipes of a process that is gone."""
        self._reader.join()
        for pipe in (self.stdin, self.stdout):
            with suppress(BrokenPipeError):
                pipe.close()


def settle(pool: Pool) -> None:
    """Wait until no worker is at a job that was ahead: each then takes the job that its memory is prepared for."""
    while any(worker.job is not None for worker in pool.workers):
        message = pool.messages.get()
        if message.body is None or "event" not in message.body:
            pool.workers[message.worker].job = None


def drive(
    pool: Pool,
    count: int,
    jobs: Sequence[Job],
    threads: int,
    listen: Listener,
    done: Done | None,
    ahead: deque[Job],
) -> list[Json]:
    """Keep the first `count` workers busy until all results are in, those who would wait with what is ahead."""
    waiting = Stretches(len(jobs), count)
    results: dict[int, Json] = {}

    def employ(worker: _Worker) -> None:
        index = waiting.take(worker.number) if worker.number < count else None
        if index is not None:
            worker.give(index, jobs[index], threads)
        elif ahead and len(results) < len(jobs):
            worker.give(AHEAD, ahead.popleft(), 1)

    for worker in pool.workers:
        employ(worker)
    while len(results) < len(jobs):
        message = pool.messages.get()
        worker = pool.workers[message.worker]
        if message.body is not None and "event" in message.body:
            if worker.job != AHEAD:
                listen(event_of(message.body))
            continue
        if worker.job is None:
            continue
        index, worker.job = worker.job, None
        if index != AHEAD:
            results[index] = _result(message.body, worker, jobs[index])
        employ(worker)
        if index != AHEAD and done is not None:
            done(index, results[index])
    return [results[index] for index in range(len(jobs))]


class Stretches:
    """Jobs that wait, a stretch of the list for every worker.

    Neighbours in the list often read the same photos, which a worker has then. One that is through with its own stretch
    takes the far half of the longest that is left.
    """

    def __init__(self, jobs: int, workers: int) -> None:
        edges = [jobs * k // workers for k in range(workers + 1)]
        self._left = [range(first, last) for first, last in pairwise(edges)]

    def take(self, worker: int) -> int | None:
        """The next job of a worker; None when nothing waits."""
        if not self._left[worker]:
            longest = max(range(len(self._left)), key=lambda k: len(self._left[k]))
            held = self._left[longest]
            self._left[longest], self._left[worker] = held[: len(held) // 2], held[len(held) // 2 :]
        own = self._left[worker]
        self._left[worker] = own[1:]
        return own[0] if own else None


def _result(body: dict[str, Any] | None, worker: _Worker, job: Job) -> Json:
    if body is None:
        code = worker.nursery.exit_code(worker.number)
        how = f"signal {-code}, often out of memory" if code < 0 else f"exit code {code}"
        raise WorkerError(
            f"{job.function}: its worker process died ({how}). Run again, with fewer workers if it recurs."
        )
    return outcome(body, job)
