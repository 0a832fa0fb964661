"""Things that change while a run goes on, or work beside it: photos, clocks, other processes: family `races`."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from fault_frame import CAMERA, Bench, Case, Ended, Start, differences, ended, told

CLOCK = """
import random, time
_true, _chance = time.time, random.Random(1)
time.time = lambda: _true() + _chance.choice([-1e7, -3600.0, -1.0, 0.0, 1.0, 3600.0, 1e7])
_ns = time.time_ns
time.time_ns = lambda: _ns() + int(1e9) * _chance.choice([-10**7, 0, 10**7])
"""


def _until(process: subprocess.Popen[str], text: str) -> bool:
    """Whether the run says the text before it ends."""
    assert process.stderr is not None
    return any(text in line for line in process.stderr)


def _with(change: Callable[[Path], None], moment: str, where: str = "aerial/images") -> Callable[[Bench], str]:
    """A photo of the scene changes at a moment: that is told by its name, and once it is back the run goes on."""

    def work(bench: Bench) -> str:
        bench.whole_run()
        scene, out = bench.own_scene(), bench.folder / "run"
        words = bench.update_words(out, scene=scene)
        photos = sorted((scene / where).iterdir())
        photo = photos[len(photos) // 2]
        return _spoilt(bench, words, photo, change, moment) or differences(out, bench.whole_run())

    return work


def of_earlier_walk(bench: Bench) -> str:
    """A photo of the walk that another stands on is replaced while that one is placed."""
    scene, first, out = bench.own_scene(), bench.folder / "first", bench.folder / "run"
    later, alone = shutil.copytree(scene / "ground", bench.folder / "later"), bench.folder / "alone"
    words = ("trajectory", "--scaffold", str(scene / "aerial"), "--camera", CAMERA, "--preset", "cpu", "--workers", "1")
    for root, walk, onto in ((first, scene / "ground", ()), (alone, later, ("--onto", str(first)))):
        answer = bench.call(*words, "--ground", str(walk), "--out", str(root), *onto)
        if answer.code:
            return f"{root.name} ended with {answer.code}: {answer.last}"
    words = (*words, "--ground", str(later), "--out", str(out), "--onto", str(first))
    photo = sorted((scene / "ground/images").iterdir())[1]  # of a group, so that its walk rests on it
    return _spoilt(bench, words, photo, _turn, "submaps ") or differences(out, alone)


def _spoilt(bench: Bench, words: tuple[str, ...], photo: Path, change: Callable[[Path], None], moment: str) -> str:
    """A photo changes at a moment of a run, which tells it, and goes on once it is back."""
    kept = bench.folder / "kept"
    shutil.copy2(photo, kept)
    process = bench.start(*words)
    if not _until(process, moment):
        return f"it never said {moment!r}"
    change(photo)
    answer: Ended = ended(process, time.monotonic())
    problem = told(answer, photo.name)
    if problem:
        return f"{problem}: {answer.last}"
    shutil.copy2(kept, photo)
    answer = bench.call(*words)
    return f"afterwards it ended with {answer.code}: {answer.last}" if answer.code else ""


def _remove(photo: Path) -> None:
    photo.unlink()


def _turn(photo: Path) -> None:
    """The photo upside down, same size."""
    from PIL import Image

    with Image.open(photo) as image:
        turned = image.rotate(180)
    turned.save(photo)


def two_processes(bench: Bench) -> str:
    """The second run in a folder is told that it is in use, and the first one does not notice."""
    bench.whole_run()
    out = bench.folder / "run"
    words = bench.update_words(out)
    first = bench.start(*words)
    if not _until(first, "depth measured"):
        return "it never measured depth"
    problem = told(bench.call(*words), "in use by process", str(first.pid))
    answer = ended(first, time.monotonic())
    if problem or answer.code:
        return problem or f"the first one ended with {answer.code}"
    return differences(out, bench.whole_run())


def jumping_clock(bench: Bench) -> str:
    """A clock that jumps to and fro changes nothing."""
    bench.whole_run()
    (bench.folder / "clock").mkdir()
    (bench.folder / "clock/sitecustomize.py").write_text(CLOCK)
    out = bench.folder / "run"
    path = os.pathsep.join([str(bench.folder / "clock"), os.environ.get("PYTHONPATH", "")])
    answer = bench.call(*bench.update_words(out), given=Start({"PYTHONPATH": path}))
    return (f"exit code {answer.code}: {answer.last}" if answer.code else "") or differences(out, bench.whole_run())


def workers(count: int) -> Callable[[Bench], str]:
    """A whole run with so many workers finds what one process finds, byte by byte."""

    def work(bench: Bench) -> str:
        out = bench.folder / "run"
        answer = bench.call(*bench.update_words(out, "--workers", str(count)))
        return (f"exit code {answer.code}: {answer.last}" if answer.code else "") or differences(out, bench.whole_run())

    return work


CASES = (
    *(Case(f"{count} workers against one process", workers(count)) for count in (2, 3)),
    Case("an aerial photo removed while depth is measured", _with(_remove, "depth measured 1/")),
    Case("an aerial photo replaced while depth is measured", _with(_turn, "depth measured 1/")),
    Case("an aerial photo replaced while places are described", _with(_turn, "describe places ")),
    Case("an aerial photo replaced while groups are placed", _with(_turn, "groups ")),
    Case("an aerial photo replaced while poses are found", _with(_turn, "submaps ")),
    Case("an aerial photo replaced while the street is measured", _with(_turn, "street depth measured ")),
    Case("a street photo replaced while groups are placed", _with(_turn, "groups ", "ground/images")),
    Case("a street photo replaced while poses are found", _with(_turn, "submaps ", "ground/images")),
    Case(
        "a street photo replaced while the street is measured", _with(_turn, "street depth measured ", "ground/images")
    ),
    Case("a photo of an earlier walk replaced while poses are found", of_earlier_walk),
    Case("two processes on one run", two_processes),
    Case("a clock that jumps", jumping_clock),
)
