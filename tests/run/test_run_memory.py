"""Most memory of a stage: of this process and its workers, on top of what an interrupted attempt took."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from skyanchor.events import Progress
from skyanchor.run import memory
from skyanchor.run.executor import InProcess
from skyanchor.run.folder import RunFolder
from skyanchor.run.memory import MemoryWatch, Peak, peaks, tree_bytes

MEGABYTE = 1 << 20


def held_by_a_child(megabytes: int) -> subprocess.Popen[bytes]:
    """A process that holds so much memory until its stdin closes."""
    code = f"held = bytearray(b'x' * {megabytes * MEGABYTE}); print(1, flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"1\n"
    return child


def test_children_count() -> None:
    before = tree_bytes(os.getpid())
    with held_by_a_child(64) as child:
        grown = tree_bytes(os.getpid()) - before
        child.communicate(b"\n")
    assert 60 * MEGABYTE < grown < 160 * MEGABYTE


def test_pages_of_files_do_not_count(tmp_path: Path) -> None:
    np.zeros(64 * MEGABYTE, np.uint8).tofile(tmp_path / "file")
    before = tree_bytes(os.getpid())
    mapped = np.memmap(tmp_path / "file", np.uint8, "r")
    assert mapped.sum() == 0
    assert tree_bytes(os.getpid()) - before < 16 * MEGABYTE


def test_a_short_peak_stays(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(memory, "EVERY_S", 0.01)
    watch = MemoryWatch(tmp_path, "2-anchors")
    watch.start()
    with held_by_a_child(64) as child:
        high = tree_bytes(os.getpid())
        child.communicate(b"\n")
    watch.stop()
    assert peaks(tmp_path)["2-anchors"].bytes >= 0.9 * high


def test_processes_are_weighed_when_they_have_grown(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    weighed: list[int] = []

    def own_bytes(entry: Path) -> int:
        weighed.append(int(entry.name))
        return 1

    monkeypatch.setattr(memory, "_own_bytes", own_bytes)
    watch = MemoryWatch(tmp_path, "2-anchors")
    watch._look()
    once = len(weighed)
    watch._most += 32 * MEGABYTE  # room for what this process takes meanwhile
    watch._look()
    assert once == len(weighed) > 0
    with held_by_a_child(64) as child:
        watch._look()
        assert child.pid in weighed[once:]
        child.communicate(b"\n")


def test_each_step_has_its_own_peak(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    sizes = iter((900, 100, 300, 200))
    monkeypatch.setattr(memory, "family", lambda process: [Path("one")])
    monkeypatch.setattr(memory, "_mapped_bytes", lambda entry: 1 if watch.step == "quiet" else 2)
    monkeypatch.setattr(memory, "_own_bytes", lambda entry: next(sizes))
    watch = MemoryWatch(tmp_path, "2-anchors")
    for step in ("", "busy", "quiet", "busy"):
        watch.at(step)
        watch._look()
        watch._look()  # nothing has grown: not weighed
    assert (watch.peak.bytes, {name: peak.bytes for name, peak in watch.peak.steps.items()}) == (
        900,
        {"busy": 200, "quiet": 300},
    )


def test_a_stage_says_which_step_it_is_at(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        stage = run.stage("one", "work", {}, {})
        stage.listen(Progress("one", "counting", 1, 2))
        stage._memory._look()
        stage.produce("making", {}, InProcess())
        stage._memory._look()
        stage.finish()
    assert {"counting", "making"} <= set(peaks(tmp_path)["one"].steps)


def test_the_larger_attempt_counts(tmp_path: Path) -> None:
    (tmp_path / memory.MEMORY).write_text('{"a": {"bytes": 99999999999999, "gpu_bytes": 7}, "b": {"bytes": 1}}')
    watch = MemoryWatch(tmp_path, "a")
    watch.start()
    watch.stop()
    watch.stop()
    assert peaks(tmp_path) == {"a": Peak(99999999999999, 7), "b": Peak(1)}


def test_a_stage_writes_it_when_it_ends_and_when_it_is_broken_off(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        run.stage("one", "work", {}, {}).finish()
        assert peaks(tmp_path)["one"].bytes > 0
        run.stage("two", "work", {}, {})
    assert set(peaks(tmp_path)) == {"one", "two"}
