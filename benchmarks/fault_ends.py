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

from fault_frame import Bench, Case, Ended, Start, contents, differences, ended
from fault_verbs import OTHERS, UPDATE, Verb

TIMES = 12
"""Kills before a run is left to itself."""
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


def _moments(seed: int, longest_s: float) -> Iterator[float]:
    chance = random.Random(seed)
    for _ in range(TIMES):
        yield chance.uniform(0.0, longest_s)


def killed(workers: int, one_worker: bool = False, verb: Verb = UPDATE) -> Callable[[Bench], str]:
    """A command that is killed again and again leaves the bytes of one that was not, and no process.

    With `one_worker` it is one of its workers that is killed, which the run must tell in a line.
    """

    def work(bench: Bench) -> str:
        out = bench.folder / "run"
        verb.begin(bench, out)
        words = verb.words(bench, out, workers)
        for seconds in _moments(workers + 10 * one_worker, verb.longest_s(bench)):
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
        return verb.ends_the_same(bench, out, workers)

    return work


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


def stopped(number: signal.Signals, workers: int, verb: Verb = UPDATE) -> Callable[[Bench], str]:
    """A command that gets the signal, as does every process of its session, says where it stands in a line or two."""

    def work(bench: Bench) -> str:
        out, slowest = bench.folder / "run", 0.0
        verb.begin(bench, out)
        words = verb.words(bench, out, workers)
        for seconds in _moments(number, verb.longest_s(bench)):
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
        return verb.ends_the_same(bench, out, workers)

    return work


def stopped_in_each_stage(verb: Verb) -> Callable[[Bench], str]:
    """Ctrl-C in every stage names it, and the same command leaves the bytes of one that was left alone."""

    def work(bench: Bench) -> str:
        out = bench.folder / "run"
        verb.begin(bench, out)
        for folder, told in verb.parts:
            process = bench.start(*verb.words(bench, out, 1))
            while _waited(process, 0.05) and not any(out.glob(f"{folder}/progress")):
                pass
            if not _waited(process, 0.1):
                process.communicate()
                return f"{folder} was done before it could be stopped"
            process.send_signal(signal.SIGINT)
            answer = ended(process, time.monotonic())
            said = told in answer.err and "the same command goes on." in answer.err
            if answer.code != 128 + signal.SIGINT or not said:
                return f"{folder}: exit code {answer.code}, {answer.last}"
        return verb.ends_the_same(bench, out, 1)

    return work


def _said_badly(answer: Ended, number: signal.Signals) -> str:
    """Empty when the last lines are those of a stopped run; one that had not begun may say nothing."""
    if answer.code not in (128 + number, -number, 0, 2):
        return f"exit code {answer.code}: {answer.last}"
    odd = ("Traceback", "*** ", "    @ ", "mistake of ours")
    return next((f"{word.strip()!r} in what it said" for word in odd if word in answer.err), "")


def second_signal(bench: Bench) -> str:
    """Two signals in a row end the process in seconds, and the run goes on."""
    process = bench.start(*bench.update_words(bench.folder / "run", "--workers", "1"))
    _waited(process, 25.0)
    start = time.monotonic()
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    answer = ended(process, start)
    if "Traceback" in answer.err:
        return "a traceback"
    return UPDATE.ends_the_same(bench, bench.folder / "run", 1)


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
    *(Case(f"{verb.name}: SIGKILL, {TIMES} random moments", killed(2, verb=verb)) for verb in OTHERS),
    *(
        Case(f"{verb.name}: SIGKILL of a worker, {TIMES} random moments", killed(2, one_worker=True, verb=verb))
        for verb in OTHERS
        if not verb.once
    ),
)
STOPS = (
    Case(f"SIGTERM to all processes, {TIMES} random moments", stopped(signal.SIGTERM, 2)),
    Case(f"Ctrl-C, {TIMES} random moments", stopped(signal.SIGINT, 1)),
    Case("Ctrl-C in every stage", stopped_in_each_stage(UPDATE)),
    *(Case(f"{verb.name}: Ctrl-C in every stage", stopped_in_each_stage(verb)) for verb in OTHERS if verb.parts),
    *(Case(f"{verb.name}: Ctrl-C, {TIMES} random moments", stopped(signal.SIGINT, 2, verb)) for verb in OTHERS),
    Case("Ctrl-C twice", second_signal),
    Case("SIGTERM while a town is built", stopped_elsewhere),
)
FIRSTS = (Case("the first run on a machine, which compiles", compiles_first),)
