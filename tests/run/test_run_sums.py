"""What a job adds up depends neither on the number of workers nor on their threads."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from skyanchor.events import Listener, silent
from skyanchor.run.executor import InProcess, Processes
from skyanchor.run.job import Job
from skyanchor.run.worker import HEAP_VARIABLES, WAITING_VARIABLES, worker_variables
from skyanchor.storage.digests import digest


def sums(listen: Listener) -> list[int | str]:
    """Threads of torch and BLAS, and a digest of what they add up."""
    rng = np.random.default_rng(0)
    a, image = rng.normal(size=(700, 900)).astype(np.float32), torch.tensor(rng.normal(size=(1, 8, 160, 160)))
    added = torch.nn.functional.conv2d(image, torch.tensor(rng.normal(size=(8, 8, 5, 5)))).numpy()
    blas = max(held["num_threads"] for held in threadpool_info() if held["user_api"] == "blas")
    return [torch.get_num_threads(), blas, digest((a @ a.T).tobytes() + added.tobytes())]


def test_sums_depend_neither_on_workers_nor_on_threads() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threadpool_limits(2, "blas"):
            (here,) = InProcess().run([Job.of(sums)])
            given_back = sums(silent)[:2]
    finally:
        torch.set_num_threads(before)
    (elsewhere,) = Processes(workers=1, threads=2).run([Job.of(sums)])
    assert isinstance(here, list) and here[:2] == [1, 1] and given_back == [2, 2]
    assert here == elsewhere


def test_workers_share_the_cores_and_add_up_alone() -> None:
    said = worker_variables(3)
    assert (said["NUMBA_NUM_THREADS"], said["OMP_NUM_THREADS"], said["OPENBLAS_NUM_THREADS"]) == ("3", "1", "1")


def test_workers_keep_memory_that_they_have_done_with_and_wait_asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {name: str(value) for name, value in (HEAP_VARIABLES | WAITING_VARIABLES).items()}
    for name in given:
        monkeypatch.delenv(name, raising=False)
    assert {name: worker_variables(1)[name] for name in given} == given
    (there,) = Processes(workers=1, threads=1).run([Job.of(told)])
    assert there == given
    monkeypatch.setenv("MALLOC_TOP_PAD_", "77")
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    said = worker_variables(1)
    assert (said["MALLOC_TOP_PAD_"], said["OMP_WAIT_POLICY"]) == ("77", "ACTIVE")  # as the user says


def told(listen: Listener) -> dict[str, str | None]:
    """What the allocator and OpenMP of a worker were told."""
    return {name: os.environ.get(name) for name in (*HEAP_VARIABLES, *WAITING_VARIABLES)}


def test_the_threads_of_numba_that_start_in_a_job_leave_torch_alone() -> None:
    """In an interpreter of its own: only the first start of numba's threads sets those of OpenMP."""
    lines = (
        "import torch, numba, numpy as np",
        "from skyanchor.run.job import SUMS",
        "add = numba.njit(parallel=True)(lambda x: x + x)",
        "with SUMS.in_one_thread():",
        "    add(np.ones(100000))",
        "    print(torch.get_num_threads())",
    )
    environment = {**os.environ, "NUMBA_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    ended = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.stdout.strip() == "1", ended.stderr
