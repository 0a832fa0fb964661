"""Independent jobs, in this process, its threads or several processes: the results do not depend on which.

Workers are copies of a fresh interpreter that speak JSON lines over pipes, so nothing is pickled, a script needs no
`__main__` guard, and a worker whose parent was killed ends by itself.
"""

from __future__ import annotations

import importlib
import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from skyanchor.bounds import Workers, checked
from skyanchor.errors import SkyAnchorError
from skyanchor.events import Event, Listener, silent
from skyanchor.run.job import Job
from skyanchor.run.pool import Done, Held, drive, settle, usual_workers
from skyanchor.run.worker import cores, free_gpu, worker_environment
from skyanchor.storage.codec import Json

PROCESSES, RAY = "processes", "ray"
"""Where jobs run: worker processes of this machine, or a Ray cluster."""


class Executor(Protocol):
    """Runs jobs that do not depend on each other."""

    def run(self, jobs: Sequence[Job], listen: Listener = silent, done: Done | None = None) -> list[Json]:
        """The jobs' results in the order of the jobs; the first failure ends the run."""
        ...

    def held(self, modules: tuple[str, ...] = ()) -> AbstractContextManager[None]:
        """A block in which workers stay from one run to the next, with what they have imported and read.

        With `modules` they start at once and import those, while this process goes on.
        """
        ...

    def ahead(self, jobs: Sequence[Job]) -> None:
        """Jobs for workers of the block that would wait while others work, in this order.

        What they leave is what later jobs look for first and make where it is not there: none of them need come to its
        turn, and whatever one returns or meets is nobody's concern.
        """
        ...


@dataclass(frozen=True)
class InProcess:
    """One job after the other, here."""

    def run(self, jobs: Sequence[Job], listen: Listener = silent, done: Done | None = None) -> list[Json]:
        """The jobs' results in order."""
        importlib.import_module("torch")  # before the first job, whose sums would else have its own threads
        results = []
        for index, job in enumerate(jobs):
            results.append(job.run(listen))
            if done is not None:
                done(index, results[-1])
        return results

    def held(self, modules: tuple[str, ...] = ()) -> AbstractContextManager[None]:
        """Nothing to hold."""
        return nullcontext()

    def ahead(self, jobs: Sequence[Job]) -> None:
        """Nobody waits here."""


@dataclass(frozen=True)
class Threads:
    """Several threads of this process: for jobs that take turns on one GPU, and read and write while others have it."""

    workers: int
    """Jobs at a time."""

    def run(self, jobs: Sequence[Job], listen: Listener = silent, done: Done | None = None) -> list[Json]:
        """The jobs' results in order; events reach the listener on the caller's thread."""
        results: dict[int, Json] = {}
        messages: queue.SimpleQueue[Event | _Ended] = queue.SimpleQueue()
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                for index, job in enumerate(jobs):
                    pool.submit(_ran, index, job, messages)
                while len(results) < len(jobs):
                    message = messages.get()
                    if not isinstance(message, _Ended):
                        listen(message)
                        continue
                    results[message.index] = message.result()
                    if done is not None:
                        done(message.index, results[message.index])
            finally:
                pool.shutdown(cancel_futures=True)
                free_gpu()
        return [results[index] for index in range(len(jobs))]

    def held(self, modules: tuple[str, ...] = ()) -> AbstractContextManager[None]:
        """Nothing to hold."""
        return nullcontext()

    def ahead(self, jobs: Sequence[Job]) -> None:
        """Nobody waits here."""


@dataclass(frozen=True)
class _Ended:
    """A job of a thread that came to its end."""

    index: int
    value: Json = None
    error: Exception | None = None

    def result(self) -> Json:
        """What it returned, or the error that ended it."""
        if self.error is not None:
            raise self.error
        return self.value


def _ran(index: int, job: Job, messages: queue.SimpleQueue[Event | _Ended]) -> None:
    """Run a job and say how it ended."""
    try:
        messages.put(_Ended(index, job.run(messages.put)))
    except Exception as error:  # the caller raises it
        messages.put(_Ended(index, error=error))


@dataclass(frozen=True)
class Processes:
    """Several worker processes, each with a fair share of the cores."""

    workers: int
    """Worker processes."""
    threads: int = 0
    """Threads per worker; 0 = cores / workers."""
    _held: Held = field(default_factory=Held, compare=False, repr=False)

    def run(self, jobs: Sequence[Job], listen: Listener = silent, done: Done | None = None) -> list[Json]:
        """The jobs' results in order; events reach the listener on the caller's thread."""
        if not jobs:
            return []
        workers = min(self.workers, len(jobs))
        threads = self.threads or max(1, cores() // workers)
        with self._held.pool(workers, self._environment) as pool:
            settle(pool)
            return drive(pool, workers, jobs, threads, listen, done, self._held.waiting)

    @property
    def _environment(self) -> dict[str, str]:
        return worker_environment(self.threads or cores())

    @contextmanager
    def held(self, modules: tuple[str, ...] = ()) -> Iterator[None]:
        """A block in which workers stay from one run to the next; a run that fails ends them all."""
        self._held.depth += 1
        try:
            if modules and not self._held.idle:
                with self._held.pool(self.workers, self._environment, modules):
                    pass
            yield
        finally:
            self._held.depth -= 1
            if not self._held.depth:
                self._held.close()

    def ahead(self, jobs: Sequence[Job]) -> None:
        """Jobs for workers of the block that would wait; see `Executor`."""
        if self._held.depth:
            self._held.waiting.extend(jobs)


@checked
def executor_of(workers: Workers, engine: str = PROCESSES) -> Executor:
    """So many worker processes; 1 works in this process, 0 means `usual_workers`. Or so many jobs at a time on Ray."""
    name, _, address = engine.partition(":")
    if name == RAY:
        from skyanchor.run.cluster import OnRay

        return OnRay(address, workers)
    if engine != PROCESSES:
        raise SkyAnchorError(f"there is no engine {engine}: {PROCESSES}, {RAY} or {RAY}:HOST:PORT")
    count = workers or usual_workers()
    return InProcess() if count == 1 else Processes(count)


def in_threads(executor: Executor) -> Executor:
    """As many threads of this process as there would be processes."""
    return Threads(executor.workers) if isinstance(executor, Processes) else executor


def alone(executor: Executor) -> Executor:
    """Where one job has all cores: in a worker of this machine, so that others may work ahead, else here."""
    return executor if isinstance(executor, Processes) else InProcess()


def one_by_one(executor: Executor) -> Executor:
    """One job after the other where the jobs would share this machine's GPU."""
    return InProcess() if isinstance(executor, Processes | Threads) else executor
