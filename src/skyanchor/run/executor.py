"""Independent jobs, in this process, its threads or several processes: the results do not depend on which.

A job is an importable function and JSON arguments; big inputs and outputs are files that the arguments name. Workers
are copies of a fresh interpreter that speak JSON lines over pipes, so nothing is pickled, a script needs no `__main__`
guard, and a worker whose parent was killed ends by itself.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import queue
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NoReturn, Protocol, TypeAlias

from threadpoolctl import threadpool_limits

from skyanchor.backends.devices import cuda_is_here
from skyanchor.bounds import Workers, checked
from skyanchor.errors import BackendError, SkyAnchorError
from skyanchor.events import Event, Listener, silent
from skyanchor.run.nursery import Nursery
from skyanchor.storage import codec
from skyanchor.storage.codec import Json

Done: TypeAlias = Callable[[int, Json], None]
"""Told the position and the result of each job as soon as it ends."""

PROCESSES, RAY = "processes", "ray"
"""Where jobs run: worker processes of this machine, or a Ray cluster."""

SHARED_VARIABLES = ("NUMBA_NUM_THREADS", "OPENCV_FOR_THREADS_NUM")
"""What numba and OpenCV read when they start: our kernels and its filters give the same bits in any number."""
SUMMING_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""What numpy and torch read: they cut sums by the number of threads, so in a job it is one, however many jobs run."""


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
                _free_gpu()
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
    _held: _Held = field(default_factory=lambda: _Held(), compare=False, repr=False)  # noqa: PLW0108 defined below

    def run(self, jobs: Sequence[Job], listen: Listener = silent, done: Done | None = None) -> list[Json]:
        """The jobs' results in order; events reach the listener on the caller's thread."""
        if not jobs:
            return []
        workers = min(self.workers, len(jobs))
        threads = self.threads or max(1, cores() // workers)
        with self._held.pool(workers, self._environment) as pool:
            _settle(pool)
            return _drive(pool, workers, jobs, threads, listen, done, self._held.waiting)

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


def usual_workers() -> int:
    """One worker per core, fewer where they would not fit into the memory of the machine or of its GPU."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    fitting = int(0.75 * memory / WORKER_BYTES)
    if cuda_is_here():
        import torch

        fitting = min(fitting, int(torch.cuda.mem_get_info()[1] / CUDA_WORKER_BYTES))
    return max(1, min(cores(), fitting))


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


def worker_environment(threads: int) -> dict[str, str]:
    """The environment of a worker that may use `threads` threads and imports what this process can import."""
    return {**os.environ, **worker_variables(threads)}


def worker_variables(threads: int) -> dict[str, str]:
    """What of a worker's environment is not this process's."""
    caps = {**dict.fromkeys(SHARED_VARIABLES, str(threads)), **dict.fromkeys(SUMMING_VARIABLES, "1")}
    return {**caps, "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- the parent's side --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Message:
    worker: int
    body: dict[str, Any] | None
    """None when the worker's pipe has closed."""


class _Pool:
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


EARLY: list[_Pool] = []
"""Workers that were started before anybody held them."""


@contextmanager
def starting_early() -> Iterator[None]:
    """A block that begins with the start of the workers of a run: they import while this process does."""
    if usual_workers() > 1:
        EARLY.append(_Pool(worker_environment(cores()), IN_WORKERS))
    try:
        yield
    finally:
        while EARLY:
            EARLY.pop().close()


def _early(environment: Mapping[str, str], modules: tuple[str, ...]) -> _Pool | None:
    """Workers that were started early with as many threads and with these modules."""
    fitting = [pool for pool in EARLY if (pool.threads, pool.modules) == (environment[SHARED_VARIABLES[0]], modules)]
    if not fitting:
        return None
    EARLY.remove(fitting[0])
    return fitting[0]


@dataclass(eq=False)
class _Held:
    """The workers of an executor that are between two runs."""

    depth: int = 0
    """Blocks that want them held."""
    idle: list[_Pool] = field(default_factory=list)
    waiting: deque[Job] = field(default_factory=deque)
    """For workers that would wait."""

    @contextmanager
    def pool(self, workers: int, environment: Mapping[str, str], modules: tuple[str, ...] = ()) -> Iterator[_Pool]:
        """So many idle workers or more, kept afterwards if they are wanted and nothing failed."""
        pool = self.idle.pop() if self.idle else _early(environment, modules) or _Pool(environment, modules)
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
            _send(self.stdin, body)
        if not self._reader.is_alive():  # it died between two runs, when nobody listened
            self._gone()

    def close(self) -> None:
        """Close the pipes of a process that is gone."""
        self._reader.join()
        for pipe in (self.stdin, self.stdout):
            with suppress(BrokenPipeError):
                pipe.close()


def _settle(pool: _Pool) -> None:
    """Wait until no worker is at a job that was ahead: each then takes the job that its memory is prepared for."""
    while any(worker.job is not None for worker in pool.workers):
        message = pool.messages.get()
        if message.body is None or "event" not in message.body:
            pool.workers[message.worker].job = None


def _drive(
    pool: _Pool,
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


# --- the worker's side --------------------------------------------------------------------------------------------


def _send(pipe: IO[bytes], body: Json) -> None:
    pipe.write(json.dumps(body).encode() + b"\n")
    pipe.flush()


def serve() -> NoReturn:
    """Answer jobs from stdin until it closes; whatever libraries print goes to stderr."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    jobs: queue.Queue[tuple[Job, int]] = queue.Queue()
    threading.Thread(target=_receive, args=(jobs,), daemon=True).start()
    while True:
        job, threads = jobs.get()
        _share(threads)
        said = answer(job, lambda event: _send(replies, event_body(event)))
        _free_gpu()
        _send(replies, said)


def _free_gpu() -> None:
    """Give back what torch keeps of the GPU's memory for later: the next job may be another worker's."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _receive(jobs: queue.Queue[tuple[Job, int]]) -> None:
    """Queue the parent's jobs; when the parent is gone, so is the worker, whatever it is doing."""
    for line in sys.stdin.buffer:
        body = json.loads(line)
        threads = body.pop("threads", 1)
        jobs.put((Job(**body), threads))
    os._exit(0)


def _share(threads: int) -> None:
    """Let numba and OpenCV use so many threads, at most those that they started with."""
    import cv2
    import numba

    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    cv2.setNumThreads(threads)


def answer(job: Job, listen: Listener) -> dict[str, Any]:
    """What a job returned, or the error that it met, for the parent to raise."""
    try:
        return {"result": job.run(listen)}
    except SkyAnchorError as error:
        return {"error": str(error), "backend": isinstance(error, BackendError)}
    except Exception:  # the parent raises it, with this traceback
        return {"traceback": traceback.format_exc()}
