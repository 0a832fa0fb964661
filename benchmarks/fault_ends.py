"""Runs that are killed or stopped, at any moment, and go on, and the first on a machine: `kills`, `stops`, `firsts`."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from fault_frame import Bench, Case, Ended, Start, contents, differences, ended, nothing_left

TIMES = 12
"""Kills before a run is left to itself."""
LONGEST_S = 60.0
"""From the start of a process to its kill at most, seconds; the moments are even between nothing and this."""
LINES = 2
"""Of a run that was stopped: what it may say after the signal."""


def _below(process: int) -> list[int]:
    """The processes that it started, and those that they started."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True, check=False)
    children = [int(word) for word in found.stdout.split()]
    return [*children, *(one for child in children for one in _below(child))]


def _gone(processes: list[int]) -> bool:
    """Whether all of them end within seconds."""
    for _ in range(100):
        if not any(Path(f"/proc/{one}").exists() for one in processes):
            return True
        time.sleep(0.1)
    return False


def _waited(process: subprocess.Popen[str], seconds: float) -> bool:
    """Whether the process is still there after a while."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
        return False
    return True


def _moments(seed: int) -> Iterator[float]:
    chance = random.Random(seed)
    for _ in range(TIMES):
        yield chance.uniform(0.0, LONGEST_S)


def killed(workers: int, one_worker: bool = False) -> Callable[[Bench], str]:
    """A whole run that is killed again and again ends with the bytes of one that was not, and leaves no process.

    With `one_worker` it is one of its workers that is killed, which the run must tell in a line.
    """

    def work(bench: Bench) -> str:
        out, words = bench.folder / "run", bench.update_words(bench.folder / "run", "--workers", str(workers))
        bench.whole_run()
        for seconds in _moments(workers + 10 * one_worker):
            process = bench.start(*words)
            if not _waited(process, seconds):
                process.communicate()
                break
            below = _below(process.pid)
            os.kill(random.Random(seconds).choice(below) if one_worker and below else process.pid, signal.SIGKILL)
            answer = ended(process, time.monotonic())
            if one_worker and below and answer.code not in (0, 2):
                return f"exit code {answer.code} after a worker was killed: {answer.last}"
            if not _gone(below):
                return "a worker outlived its run"
        return _ends_the_same(bench, out, words)

    return work


def _ends_the_same(bench: Bench, out: Path, words: tuple[str, ...]) -> str:
    answer = bench.call(*words)
    if answer.code != 0:
        return f"the last run ended with {answer.code}: {answer.last}"
    return differences(out, bench.whole_run()) or nothing_left(out)


def killed_report(bench: Bench) -> str:
    """A report that is killed while it is written leaves the page before or a whole one."""
    run = shutil.copytree(bench.whole_run(), bench.folder / "run", symlinks=True)
    for seconds in (2.0, 4.0, 6.0, 8.0, 10.0, 12.0):
        page = (run / "report.html").read_bytes()
        process = bench.start("report", str(run))
        _waited(process, seconds)
        process.kill()
        process.communicate()
        now = (run / "report.html").read_bytes()
        if now != page and not now.rstrip().endswith(b"</html>"):
            return f"half a page after {seconds} s"
    answer = bench.call("report", str(run))
    return (f"exit code {answer.code}" if answer.code else "") or differences(run, bench.whole_run())


def stopped(number: signal.Signals, workers: int) -> Callable[[Bench], str]:
    """A run that gets the signal, as does every process of its session, says where it stands in a line or two."""

    def work(bench: Bench) -> str:
        out, words = bench.folder / "run", bench.update_words(bench.folder / "run", "--workers", str(workers))
        slowest = 0.0
        for seconds in _moments(number):
            process = bench.start(*words)
            if not _waited(process, seconds):
                process.communicate()
                break
            below, start = _below(process.pid), time.monotonic()
            for one in (process.pid, *below):
                with suppress(ProcessLookupError):
                    os.kill(one, number)
            answer = ended(process, start)
            slowest = max(slowest, answer.seconds)
            problem = _said_badly(answer, number) or ("" if _gone(below) else "a worker outlived its run")
            if problem:
                return f"{problem} (after {seconds:.1f} s)"
        return _ends_the_same(bench, out, words)

    return work


WORK = ("1-scaffold/depth", "2-anchors", "3-trajectory", "1-scaffold/splats", "4-scene")
"""Folders of a run whose work is stopped, in the order in which they are begun."""


def stopped_in_each_stage(bench: Bench) -> str:
    """Ctrl-C in every stage names it, and the same command ends with the bytes of a run that was left alone."""
    out, words = bench.folder / "run", bench.update_words(bench.folder / "run")
    for folder in WORK:
        process = bench.start(*words)
        while _waited(process, 0.05) and not (out / folder / "progress").is_dir():
            pass
        if not _waited(process, 0.1):
            process.communicate()
            return f"{folder} was done before it could be stopped"
        process.send_signal(signal.SIGINT)
        answer = ended(process, time.monotonic())
        said = f"Stopped in stage {folder[0]}" in answer.err and "the same command goes on." in answer.err
        if answer.code != 128 + signal.SIGINT or not said:
            return f"{folder}: exit code {answer.code}, {answer.last}"
    return _ends_the_same(bench, out, words)


def _said_badly(answer: Ended, number: signal.Signals) -> str:
    """Empty when the last lines are those of a stopped run; one that had not begun may say nothing."""
    if answer.code not in (128 + number, -number, 0, 2):
        return f"exit code {answer.code}: {answer.last}"
    odd = ("Traceback", "*** ", "    @ ", "mistake of ours")
    return next((f"{word.strip()!r} in what it said" for word in odd if word in answer.err), "")


def second_signal(bench: Bench) -> str:
    """Two signals in a row end the process in seconds, and the run goes on."""
    words = bench.update_words(bench.folder / "run", "--workers", "1")
    process = bench.start(*words)
    _waited(process, 25.0)
    start = time.monotonic()
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    answer = ended(process, start)
    if "Traceback" in answer.err:
        return "a traceback"
    return _ends_the_same(bench, bench.folder / "run", words)


def stopped_elsewhere(bench: Bench) -> str:
    """A verb without a run folder, stopped: one line, nothing left."""
    process = bench.start("town", str(bench.folder / "town"), "--preset", "mini")
    _waited(process, 15.0)
    process.send_signal(signal.SIGTERM)
    answer = ended(process, time.monotonic())
    return _said_badly(answer, signal.SIGTERM) or ("something is left" if contents(bench.folder) else "")


def compiles_first(bench: Bench) -> str:
    """The run that compiles the kernels ends with the bytes of one that finds them."""
    given, runs = Start({"NUMBA_CACHE_DIR": str(bench.folder / "kernels")}), ("first", "later")
    for name in runs:
        answer = bench.call(*bench.update_words(bench.folder / name), given=given)
        if answer.code != 0:
            return f"{name}: exit code {answer.code}, {answer.last}"
    return differences(*(bench.folder / name for name in runs))


KILLS = (
    Case(f"SIGKILL, {TIMES} random moments, in one process", killed(1)),
    Case(f"SIGKILL, {TIMES} random moments, two workers", killed(2)),
    Case(f"SIGKILL of a worker, {TIMES} random moments", killed(2, one_worker=True)),
    Case("SIGKILL while the report is written", killed_report),
)
STOPS = (
    Case(f"SIGTERM to all processes, {TIMES} random moments", stopped(signal.SIGTERM, 2)),
    Case(f"Ctrl-C, {TIMES} random moments", stopped(signal.SIGINT, 1)),
    Case("Ctrl-C in every stage", stopped_in_each_stage),
    Case("Ctrl-C twice", second_signal),
    Case("SIGTERM while a town is built", stopped_elsewhere),
)
FIRSTS = (Case("the first run on a machine, which compiles", compiles_first),)
