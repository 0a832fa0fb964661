"""A two-stage run that a test kills: `python killable.py RUN DIE_AT ENGINE`; DIE_AT counts renames, 0 = never."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from skyanchor.events import Listener
from skyanchor.run.executor import Executor, InProcess, Processes
from skyanchor.run.folder import RunFolder, Stage
from skyanchor.run.job import Job
from skyanchor.storage import files
from skyanchor.types import Floats

UNITS, ITERATIONS, EVERY = 4, 30, 10


@dataclass(frozen=True, eq=False)
class State:
    """What the second stage carries from one checkpoint to the next."""

    iteration: int
    values: Floats


def unit(out: str, seed: int, listen: Listener) -> None:
    """One file of noise."""
    files.save(Path(out), State(seed, np.random.default_rng(seed).normal(size=100)))


def first(run: RunFolder, executor: Executor, settings: object) -> Stage:
    """Independent units, and a sum over them."""
    stage = run.stage("1-units", "units", settings, {"source": run.digest({"me": Path(__file__)})})
    if not stage.done:
        jobs = {f"units/{seed}.npz": Job.of(unit, seed=seed) for seed in range(UNITS)}
        parts = [files.load(path, State).values for path in stage.produce("units", jobs, executor)]
        stage.save("sum.json", State(0, np.sum(parts, axis=0)))
        stage.finish()
    return stage


def second(run: RunFolder, above: Stage) -> Stage:
    """An iteration with a checkpoint now and then."""
    stage = run.stage("2-iterations", "iterations", {"iterations": ITERATIONS}, {}, (above,))
    if not stage.done:
        start = State(0, above.load("sum.json", State).values)
        for upto in range(EVERY, ITERATIONS + 1, EVERY):
            start = stage.cached(f"progress/{upto:04}.npz", State, advance(start, upto))
        stage.save("result.npz", start)
        files.write_through(stage.path("model"), model_writer(start))
        stage.finish()
    return stage


def advance(state: State, upto: int) -> Callable[[], State]:
    """A function that iterates x <- sin(x) + x / 2."""

    def make() -> State:
        values = state.values
        for _ in range(state.iteration, upto):
            values = np.sin(values) + values / 2
        return State(upto, values)

    return make


def model_writer(state: State) -> Callable[[Path], None]:
    """A function that writes a folder of two files."""

    def write(folder: Path) -> None:
        folder.mkdir()
        (folder / "a.bin").write_bytes(state.values.tobytes())
        (folder / "b.txt").write_text(str(state.iteration))

    return write


def die_at(count: int) -> None:
    """Make the process kill itself before its `count`-th rename: the moment when something becomes visible."""
    rename, seen = os.replace, [0]

    def counted(source: Any, target: Any) -> None:
        seen[0] += 1
        if seen[0] == count:
            os.kill(os.getpid(), signal.SIGKILL)
        rename(source, target)

    Path.replace = counted  # type: ignore[assignment,method-assign]
    Path.rename = counted  # type: ignore[assignment,method-assign]


if __name__ == "__main__":
    sys.modules["killable"] = sys.modules["__main__"]
    unit.__module__ = "killable"
    die_at(int(sys.argv[2]))
    engine: Executor = Processes(workers=2, threads=1) if sys.argv[3] == "processes" else InProcess()
    with RunFolder(Path(sys.argv[1])) as run:
        second(run, first(run, engine, {"units": UNITS}))
