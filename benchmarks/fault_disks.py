"""Disks that fill up and files that may not grow, in every stage, and runs that go on afterwards: family `disks`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fault_frame import Bench, Case, Ended, NotTriedError, Start, differences, nothing_left, told
from fault_verbs import OTHERS, UPDATE, Verb

GROWTH = 1.5
FIRST_BYTES, FIRST_FILE_BYTES = 200_000, 20_000
"""Of a disk, and of the largest file, at first."""
STEPS = 30
LARGEST_BYTES = 1 << 30
"""Of a disk while what a command begins with is put there."""


@contextmanager
def small_disk(at: Path, size: int) -> Iterator[Path]:
    """A disk of so many bytes; NotTriedError where none can be mounted."""
    at.mkdir()
    if _mount(at, size, "") != 0:
        raise NotTriedError("no disk can be mounted here")
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=False)


def _mount(at: Path, size: int, how: str) -> int:
    words = ["mount", "-t", "tmpfs", "-o", f"{how}size={size}", "tmpfs", str(at)]
    return subprocess.run(words, check=False, capture_output=True).returncode


def _stage_of(out: Path) -> str:
    """The stage that was at work, from the log."""
    log = out / "log.txt"
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    found = [line.split("  ", 1)[-1].partition(":")[0] for line in lines if ": " in line]
    return next((name for name in reversed(found) if name[:1].isdigit() and "-" in name), "before")


def _until_it_fits(
    bench: Bench, verb: Verb, out: Path, attempt: Callable[[int], Ended], needed: str, first: int
) -> str:
    """Attempts with ever more room: each is told in a line and leaves no half file, the last one is whole."""
    room, where = first, []
    for _ in range(STEPS):
        answer = attempt(room)
        if answer.code == 0:
            problem = differences(out, verb.whole(bench))
            print(f"         full {len(where)} times, in: {', '.join(dict.fromkeys(where)) or 'nothing'}", flush=True)
            return problem or ("" if where else "there was room from the start")
        problem = told(answer, needed) or nothing_left(out.parent)
        if problem:
            return f"{problem}: {answer.last[-200:]} ({room} bytes)"
        where.append(_stage_of(out))
        room = int(room * GROWTH)
    return f"still no room after {STEPS} steps"


def full_disk(workers: int, verb: Verb = UPDATE) -> Callable[[Bench], str]:
    """A command on a disk that is full again and again, and then is not."""

    def work(bench: Bench) -> str:
        verb.whole(bench)
        with small_disk(bench.folder / "disk", LARGEST_BYTES) as disk:
            out = disk / "run"
            verb.begin(bench, out)
            words, held = verb.words(bench, out, workers), shutil.disk_usage(disk).used

            def attempt(room: int) -> Ended:
                _mount(disk, held + room, "remount,")
                return bench.call(*words)

            return _until_it_fits(bench, verb, out, attempt, "no space left", FIRST_BYTES)

    return work


def small_files(verb: Verb) -> Callable[[Bench], str]:
    """A command where no file may grow beyond a limit, which is raised again and again."""

    def work(bench: Bench) -> str:
        verb.whole(bench)
        out = bench.folder / "run"
        verb.begin(bench, out)

        def attempt(room: int) -> Ended:
            return bench.call(*verb.words(bench, out, 1), given=Start(file_bytes=room))

        return _until_it_fits(bench, verb, out, attempt, "too large", FIRST_FILE_BYTES)

    return work


def read_only(bench: Bench) -> str:
    """Outputs on a disk that cannot be written to."""
    run = bench.whole_run()
    with small_disk(bench.folder / "disk", 1 << 20) as disk:
        _mount(disk, 1 << 20, "remount,ro,")
        patch, base = run / "4-scene/patch.npz", run / "1-scaffold/splats/splats.ply"
        for words in (
            bench.update_words(disk / "run"),
            ("town", str(disk / "town"), "--preset", "mini"),
            ("patch", "apply", str(base), str(patch), "--out", str(disk / "x.ply")),
            ("patch", "export", str(base), "--out", str(disk / "x.splat")),
        ):
            problem = told(bench.call(*words), "read-only")
            if problem:
                return f"{words[0]}: {problem}"
    return ""


def full_patch(bench: Bench) -> str:
    """patch apply, remove and export onto a disk without room leave nothing."""
    run = bench.whole_run()
    patch, base = run / "4-scene/patch.npz", run / "1-scaffold/splats/splats.ply"
    with small_disk(bench.folder / "disk", 100_000) as disk:
        for words in (
            ("patch", "apply", str(base), str(patch), "--out", str(disk / "x.ply")),
            ("patch", "remove", str(run / "4-scene/updated.ply"), str(patch), "--out", str(disk / "x.ply")),
            ("patch", "export", str(base), "--out", str(disk / "x.ply")),
        ):
            problem = told(bench.call(*words), "no space left") or ("a half file" if os.listdir(disk) else "")  # noqa: PTH208
            if problem:
                return f"{' '.join(words[:2])}: {problem}"
    return ""


def full_video(bench: Bench) -> str:
    """Frames of a video that find no room."""
    import cv2
    import numpy as np

    rng = np.random.default_rng(0)
    video = bench.folder / "walk.avi"
    writer = cv2.VideoWriter(str(video), cv2.VideoWriter_fourcc(*"MJPG"), 10.0, (320, 180))
    texture = cv2.resize(rng.integers(0, 255, (60, 400, 3), dtype=np.uint8), (1600, 240), interpolation=cv2.INTER_CUBIC)
    for k in range(60):
        writer.write(np.ascontiguousarray(texture[:180, 20 * k : 20 * k + 320]))
    writer.release()
    with small_disk(bench.folder / "disk", 300_000) as disk:
        words = (
            "anchors",
            "--scaffold",
            str(bench.scene / "aerial"),
            "--ground",
            str(video),
            "--out",
            str(disk / "run"),
        )
        answer = bench.call(*words, "--preset", "cpu", "--workers", "1", "--sequence.video.frames-per-second", "10")
        return told(answer, "no space left", "frames") or nothing_left(disk)


CASES = (
    Case("a disk that is full in every stage, one process", full_disk(1)),
    Case("a disk that is full in every stage, two workers", full_disk(2)),
    Case("files of limited size in every stage", small_files(UPDATE)),
    *(Case(f"{verb.name}: a disk that is full again and again", full_disk(2, verb)) for verb in OTHERS),
    *(Case(f"{verb.name}: files of limited size", small_files(verb)) for verb in OTHERS),
    Case("a disk that is read-only", read_only),
    Case("no room for a patched .ply", full_patch),
    Case("no room for the frames of a video", full_video),
)
