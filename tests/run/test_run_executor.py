"""One contract for all engines, and what happens when a worker dies."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from child_process import importing_what_pytest_does

from skyanchor.errors import BackendError, InputError, SkyAnchorError
from skyanchor.events import Event, Listener, Note, Progress
from skyanchor.run import executor, pool, worker
from skyanchor.run.executor import Executor, InProcess, Processes, Threads, executor_of, in_threads
from skyanchor.run.job import Job
from skyanchor.run.nursery import OPEN_FILES, Nursery
from skyanchor.run.pool import Stretches, WorkerError, starting_early, usual_workers

ENGINES = [InProcess(), Threads(workers=2), Processes(workers=2)]


def square(number: int, wait_s: float, listen: Listener) -> dict[str, float]:
    time.sleep(wait_s)
    print("libraries print what they like")
    listen(Progress("test", "squares", number, 5, {"half": number / 2}))
    return {"square": number**2, "third": number / 3}


def refuse(listen: Listener) -> None:
    raise InputError("photo.jpg", "cannot be read", "Give another")


def crash(listen: Listener) -> None:
    raise ZeroDivisionError("by design")


def die(listen: Listener) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def lack(listen: Listener) -> None:
    raise BackendError("nothing to match with")


def is_loaded(module: str, listen: Listener) -> bool:
    return module in sys.modules


def thread_counts(listen: Listener) -> list[int]:
    import cv2
    import numba

    return [cv2.getNumThreads(), numba.get_num_threads(), int(os.environ["OMP_NUM_THREADS"])]


def process_number(listen: Listener) -> int:
    return os.getpid()


def parent_number(listen: Listener) -> int:
    return os.getppid()


def room_for_places(listen: Listener) -> list[int]:
    from skyanchor.anchors.place_index import _mapped

    return [resource.getrlimit(resource.RLIMIT_NOFILE)[0], int(_mapped.cache_info().maxsize or 0)]


def is_gone(number: int) -> bool:
    """Whether no process has this number."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    return False


def write_after(path: str, wait_s: float, listen: Listener) -> None:
    Path(path + ".started").touch()
    time.sleep(wait_s)
    Path(path).touch()


def wait_for(path: str, listen: Listener) -> None:
    while not Path(path).exists():
        time.sleep(0.02)


@pytest.mark.parametrize("engine", ENGINES)
def test_results_in_order_and_events_forwarded(engine: Executor) -> None:
    heard: list[Event] = []
    finished: list[int] = []
    jobs = [Job.of(square, number=n, wait_s=0.3 if n == 0 else 0.0) for n in range(5)]
    results = engine.run(jobs, heard.append, lambda index, _: finished.append(index))
    assert results == [{"square": n**2, "third": n / 3} for n in range(5)]
    assert sorted(finished) == list(range(5))
    assert sorted(e.done for e in heard if isinstance(e, Progress)) == list(range(5))
    assert Progress("test", "squares", 3, 5, {"half": 1.5}) in heard


def test_a_worker_goes_on_beside_what_it_did_and_helps_the_one_with_most_left() -> None:
    waiting = Stretches(10, 2)
    assert [waiting.take(0) for _ in range(3)] == [0, 1, 2] and waiting.take(1) == 5
    assert [waiting.take(0) for _ in range(3)] == [3, 4, 8]  # 6 to 9 are left: the far half of them
    assert [waiting.take(k) for k in (1, 1, 1, 0, 1)] == [6, 7, 9, None, None]


@pytest.mark.parametrize("engine", ENGINES[1:])
def test_a_fast_job_is_told_while_a_slow_one_runs(engine: Executor, tmp_path: Path) -> None:
    finished: list[int] = []
    flag = str(tmp_path / "flag")
    jobs = [Job.of(wait_for, path=flag), Job.of(square, number=1, wait_s=0.0), Job.of(write_after, path=flag, wait_s=0)]
    engine.run(jobs, done=lambda index, _: finished.append(index))
    assert finished.index(1) < finished.index(0)


@pytest.mark.parametrize("engine", ENGINES)
def test_known_errors_stay_one_line(engine: Executor) -> None:
    with pytest.raises(SkyAnchorError, match=r"^photo.jpg: cannot be read. Give another$"):
        engine.run([Job.of(refuse)])


def test_threads_are_this_process_and_its_listener_hears_on_its_own_thread() -> None:
    heard: list[int] = []
    assert Threads(2).run([Job.of(process_number)] * 3) == [os.getpid()] * 3
    Threads(2).run([Job.of(square, number=1, wait_s=0.0)] * 4, lambda _: heard.append(threading.get_ident()))
    assert heard == [threading.get_ident()] * 4
    assert in_threads(Processes(3)) == Threads(3) and in_threads(InProcess()) == InProcess()


def test_a_thread_that_fails_ends_the_run(tmp_path: Path) -> None:
    late = [Job.of(write_after, path=str(tmp_path / str(k)), wait_s=0.0) for k in range(20)]
    with pytest.raises(ZeroDivisionError, match="by design"):
        Threads(1).run([Job.of(square, number=1, wait_s=0.2), Job.of(crash), *late])
    assert len(list(tmp_path.iterdir())) < 40
    assert Threads(2).run([]) == []


def test_unknown_errors_keep_the_workers_traceback() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)crash failed.*Traceback.*ZeroDivisionError: by design"):
        Processes(workers=1).run([Job.of(crash)])


def test_a_dead_worker_is_named() -> None:
    with pytest.raises(WorkerError, match=r"test_run_executor:die: its worker process died \(signal 9"):
        Processes(workers=2).run([Job.of(die), Job.of(square, number=2, wait_s=0.1)])


def test_held_workers_stay_until_the_block_ends() -> None:
    engine, jobs = Processes(workers=2), [Job.of(process_number), Job.of(process_number)]
    with engine.held():
        first, again = set(map(int, engine.run(jobs))), set(map(int, engine.run(jobs)))
        with engine.held():
            assert set(map(int, engine.run(jobs))) <= first
        assert set(map(int, engine.run(jobs))) <= first
    assert again <= first and all(is_gone(number) for number in first)
    assert not set(map(int, engine.run(jobs))) & first


def test_workers_start_at_once_with_what_they_will_need() -> None:
    engine = Processes(workers=2)
    with engine.held(("colorsys", "no_such_module")):
        assert len(engine._held.idle[0].workers) == 2
        assert engine.run([Job.of(is_loaded, module="colorsys")] * 2) == [True, True]
    assert engine.run([Job.of(is_loaded, module="colorsys")]) == [False]


def test_a_worker_that_died_between_two_runs_is_named() -> None:
    engine = Processes(workers=1)
    with engine.held():
        (number,) = engine.run([Job.of(process_number)])
        os.kill(int(number), signal.SIGKILL)
        engine._held.idle[0].workers[0]._reader.join(10.0)
        engine._held.idle[0].messages.get(timeout=10.0)
        with pytest.raises(WorkerError, match="signal 9"):
            engine.run([Job.of(process_number)])


def test_workers_are_copies_of_one_interpreter() -> None:
    engine = Processes(workers=2)
    with engine.held(("colorsys",)):
        parents = engine.run([Job.of(parent_number)] * 2)
        nursery = engine._held.idle[0].nursery.process.pid
    assert set(map(int, parents)) == {nursery} and is_gone(nursery)


def test_workers_may_have_more_files_open_than_this_process() -> None:
    """Places are a file each: as many stay open as the system allows, not as many as a shell has by default."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
        allowed, places = Processes(workers=1).run([Job.of(room_for_places)])[0]
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert allowed == (OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard))
    assert places == allowed // 4


def test_workers_that_start_early_are_those_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "IN_WORKERS", ("colorsys",))
    monkeypatch.setattr(pool, "usual_workers", lambda: 2)
    engine = Processes(workers=2)
    with starting_early():
        early = pool.EARLY[0].nursery.process.pid
        with engine.held(("wave",)):
            assert engine._held.idle[0].nursery.process.pid != early
        with engine.held(("colorsys",)):
            assert set(map(int, engine.run([Job.of(parent_number)] * 2))) == {early}
        assert is_gone(early)
    with starting_early():
        unused = pool.EARLY[0].nursery.process.pid
    assert is_gone(unused) and not pool.EARLY


def test_a_worker_that_would_wait_works_ahead(tmp_path: Path) -> None:
    """The job of the run ends when a job ahead of it has written its file; what others meet troubles nobody."""
    engine, flag = Processes(workers=2), str(tmp_path / "flag")
    with engine.held(("colorsys",)):
        heard: list[Event] = []
        square_ahead = Job.of(square, number=3, wait_s=0.0)
        engine.ahead([Job.of(crash), square_ahead, Job.of(write_after, path=flag, wait_s=0.0)])
        assert engine.run([Job.of(wait_for, path=flag)], heard.append) == [None]
        assert heard == []


def test_the_next_run_finds_all_workers_at_its_disposal(tmp_path: Path) -> None:
    engine, late, never = Processes(workers=2), tmp_path / "late", tmp_path / "never"
    with engine.held(("colorsys",)):
        before = engine.run([Job.of(process_number), Job.of(process_number)])
        engine.ahead([Job.of(write_after, path=str(late), wait_s=0.4)])
        engine.run([Job.of(wait_for, path=f"{late}.started")])
        slow = [Job.of(wait_for, path=str(late)), Job.of(process_number)]
        assert engine.run(slow)[1] in before and late.exists()
        engine.ahead([Job.of(die)])
    engine.ahead([Job.of(write_after, path=str(never), wait_s=0.0)])
    engine.run([Job.of(square, number=1, wait_s=0.3)])
    assert not never.with_name("never.started").exists()


def test_a_worker_that_dies_ahead_of_a_run_is_named_by_it(tmp_path: Path) -> None:
    engine = Processes(workers=2)
    with engine.held(("colorsys",)):
        engine.run([Job.of(process_number)] * 2)
        engine.ahead([Job.of(die)])
        engine.run([Job.of(square, number=1, wait_s=0.5)])
        with pytest.raises(WorkerError, match="signal 9"):
            engine.run([Job.of(square, number=1, wait_s=0.1)] * 2)


def test_a_backend_that_a_worker_misses_is_told_as_such() -> None:
    with pytest.raises(BackendError, match="nothing to match with"):
        Processes(workers=1).run([Job.of(lack)])


def test_few_jobs_take_workers_that_are_there_and_have_all_their_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "cores", lambda: 4)
    engine = Processes(workers=2)
    with engine.held():
        (first,) = engine.run([Job.of(process_number)])
        both = engine.run([Job.of(process_number), Job.of(process_number)])
        assert first in both and len({*map(int, both)}) <= 2
        assert engine.run([Job.of(process_number)]) == [first]
        assert engine.run([Job.of(thread_counts)]) == [[4, 4, 1]]
        assert engine.run([Job.of(thread_counts)] * 2) == [[2, 2, 1]] * 2


@pytest.mark.parametrize("works_there", [True, False])
def test_a_worker_keeps_no_memory_of_a_gpu_that_it_does_not_use(
    works_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    emptied: list[bool] = []
    cuda = SimpleNamespace(is_initialized=lambda: works_there, empty_cache=lambda: emptied.append(True))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))  # type: ignore[misc]
    worker.free_gpu()
    assert emptied == [True] * works_there
    monkeypatch.delitem(sys.modules, "torch")
    worker.free_gpu()


def test_a_run_that_fails_ends_its_workers_and_the_next_has_new_ones() -> None:
    engine = Processes(workers=1)
    with engine.held():
        (first,) = engine.run([Job.of(process_number)])
        with pytest.raises(RuntimeError, match="by design"):
            engine.run([Job.of(crash)])
        assert is_gone(int(first)) and engine.run([Job.of(process_number)]) != [first]


def test_threads_are_capped() -> None:
    assert Processes(workers=1, threads=1).run([Job.of(thread_counts)]) == [[1, 1, 1]]


def test_a_job_must_be_importable_and_plain() -> None:
    with pytest.raises(TypeError, match="module-level"):
        Job.of(lambda listen: None)
    with pytest.raises(TypeError, match="JSON"):
        Job.of(square, number=object())
    assert Processes(2).run([]) == []
    note = Job.of(refuse, note=Note("test", "words"))
    assert note.arguments == {"note": {"stage": "test", "text": "words", "warning": False}}


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    """The parent gets SIGKILL while its worker sleeps: the worker must not go on to write its file."""
    target = tmp_path / "late"
    script = (
        "import test_run_executor as t\n"
        f"t.Processes(workers=1).run([t.Job.of(t.write_after, path={str(target)!r}, wait_s=1.5)])"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], env=importing_what_pytest_does())
    started = tmp_path / "late.started"
    for _ in range(600):
        if started.exists():
            break
        time.sleep(0.05)
    assert started.exists()
    parent.kill()
    parent.wait()
    time.sleep(2.5)
    assert not target.exists()


def test_workers_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "cores", lambda: 16)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": (64 << 30) // 4096}
    monkeypatch.setattr(pool.os, "sysconf", sizes.__getitem__)
    assert usual_workers() == 16
    sizes["SC_PHYS_PAGES"] = (16 << 30) // 4096
    assert usual_workers() == 4
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda: (1 << 30, 12 << 30))
    assert usual_workers() == 2
    sizes["SC_PHYS_PAGES"] = (2 << 30) // 4096
    assert usual_workers() == 1
    assert executor_of(0) == InProcess() == executor_of(1)
    assert executor_of(3) == Processes(3)


def test_workers_end_though_their_signal_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "killpg", lambda *_: None)
    nursery = Nursery("skyanchor.run.worker:serve", dict(os.environ))
    ended = threading.Thread(target=nursery.close, daemon=True)
    ended.start()
    ended.join(60.0)
    assert nursery.process.poll() == 0


def test_threads_give_the_gpu_back(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[bool] = []
    monkeypatch.setattr(executor, "free_gpu", lambda: given.append(True))
    assert executor.Threads(2).run([]) == [] and given == [True]
