"""A worker process: jobs come in as JSON lines, events and results go out."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from pathlib import Path
from typing import IO, NoReturn

from skyanchor.run.job import Job, answer, event_body
from skyanchor.storage.codec import Json

SHARED_VARIABLES = ("NUMBA_NUM_THREADS", "OPENCV_FOR_THREADS_NUM")
"""What numba and OpenCV read when they start: our kernels and its filters give the same bits in any number."""
SUMMING_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""What numpy and torch read: they cut sums by the number of threads, so in a job it is one, however many jobs run."""
HEAP_VARIABLES = {
    "MALLOC_MMAP_THRESHOLD_": 32 << 20,
    "MALLOC_TRIM_THRESHOLD_": 256 << 20,
    "MALLOC_TOP_PAD_": 16 << 20,
}
"""What glibc's allocator reads, bytes: with these a worker keeps the memory of arrays up to the first size that it has
done with, up to the second in all, where the kernel would give it the same pages again, zeroed one by one."""
WAITING_VARIABLES = {"OMP_WAIT_POLICY": "PASSIVE"}
"""What OpenMP reads: threads of a kernel sleep between its calls, since others have work for their cores."""


def serve() -> NoReturn:
    """Answer jobs from stdin until it closes; whatever libraries print goes to stderr."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    jobs: queue.Queue[tuple[Job, int]] = queue.Queue()
    threading.Thread(target=_receive, args=(jobs,), daemon=True).start()
    while True:
        job, threads = jobs.get()
        _share(threads)
        said = answer(job, lambda event: send(replies, event_body(event)))
        free_gpu()
        send(replies, said)


def send(pipe: IO[bytes], body: Json) -> None:
    """Write one line of JSON."""
    pipe.write(json.dumps(body).encode() + b"\n")
    pipe.flush()


def free_gpu() -> None:
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


def worker_environment(threads: int) -> dict[str, str]:
    """The environment of a worker that may use `threads` threads and imports what this process can import."""
    return {**os.environ, **worker_variables(threads)}


def worker_variables(threads: int) -> dict[str, str]:
    """What of a worker's environment is not this process's."""
    caps = {**dict.fromkeys(SHARED_VARIABLES, str(threads)), **dict.fromkeys(SUMMING_VARIABLES, "1")}
    for name, value in (*HEAP_VARIABLES.items(), *WAITING_VARIABLES.items()):
        caps[name] = os.environ.get(name, str(value))
    return {**caps, "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
