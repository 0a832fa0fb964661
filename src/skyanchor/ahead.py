"""Values in order, the following ones made on threads while one is at work."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

MOST_THREADS = 8
"""More would wait for each other's memory."""


def threads() -> int:
    """So many threads of this process can be at work at a time."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MOST_THREADS, own)


def made_ahead(make: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """`make` of every item, in order; one or two per thread are held that nobody has asked for yet.

    For what lets other threads run meanwhile: files, zlib, OpenCV, Pillow, numpy; not for Numba's parallel loops.
    """
    pool = ThreadPoolExecutor(threads(), thread_name_prefix="ahead")
    waiting: deque[Future[R]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(make, item))
            if len(waiting) > threads():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
