"""Most memory that a stage held at a time, its workers included, beside the seconds that it took."""

from __future__ import annotations

import os
import sys
import threading
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

from skyanchor.storage import codec, files

MEMORY = "memory.json"
PROCESSES = Path("/proc")
EVERY_S = 0.5
"""Between two looks, seconds."""


@dataclass(frozen=True)
class Peak:
    """Most memory at a time."""

    bytes: int = 0
    """Of this process and those it started, pages that they share counted once; 0 where the system does not say.

    Pages of files, which the system takes back when it needs them, do not count."""
    gpu_bytes: int = 0
    """In use on the GPU, by whatever program; 0 without one."""
    steps: dict[str, Peak] = field(default_factory=dict)
    """Of a stage: the same while each of its steps was the one that it told of."""

    def with_(self, other: Peak) -> Peak:
        """The larger of both, step by step."""
        steps = dict(self.steps)
        for name, peak in other.steps.items():
            steps[name] = peak.with_(steps.get(name, Peak()))
        return Peak(max(self.bytes, other.bytes), max(self.gpu_bytes, other.gpu_bytes), steps)


def peaks(root: Path) -> dict[str, Peak]:
    """Most memory of every stage of a run or a prepared scaffold that was measured."""
    path = root / MEMORY
    return files.recall(path, dict[str, Peak]) or {}


@dataclass
class MemoryWatch:
    """Looks at the memory while a stage is at work; an interrupted attempt counts as well."""

    root: Path
    stage: str
    peak: Peak = field(default_factory=Peak)
    step: str = ""
    """What the stage is at; empty before its first step."""
    _most: int = 0
    """Bytes that the processes had mapped when they had most in this step; a weighing takes its time, and is due
    beyond them."""
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Look from now on."""
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def at(self, step: str) -> None:
        """What is seen from now on belongs to this step."""
        if step != self.step:
            self.step, self._most = step, 0

    def stop(self) -> None:
        """Look no more, and write what was seen."""
        if self._thread is None:
            return
        self._ended.set()
        self._thread.join()
        self._thread = None
        held = peaks(self.root)
        known = {**held, self.stage: self.peak.with_(held.get(self.stage, Peak()))}
        files.write_bytes(self.root / MEMORY, codec.dumps(dict(sorted(known.items()))).encode())

    def _watch(self) -> None:
        while True:
            self._look()
            if self._ended.wait(EVERY_S):
                return

    def _look(self) -> None:
        """Weigh the processes where they may have more than ever before."""
        step, tree = self.step, family(os.getpid())
        mapped, held = sum(map(_mapped_bytes, tree)), 0
        if mapped > self._most:
            self._most, held = mapped, sum(map(_own_bytes, tree))
        seen = Peak(held, gpu_bytes())
        self.peak = self.peak.with_(replace(seen, steps={step: seen} if step else {}))


def tree_bytes(process: int) -> int:
    """Memory of a process and all that it started; 0 where there is no /proc."""
    return sum(map(_own_bytes, family(process)))


def family(process: int) -> list[Path]:
    """Folders of a process and of all that it started, itself first; none where there is no /proc."""
    children: dict[int, list[int]] = defaultdict(list)
    for name in os.listdir(PROCESSES) if PROCESSES.is_dir() else ():  # noqa: PTH208 as below
        parent = _parent(name) if name.isdigit() else None
        if parent is not None:
            children[parent].append(int(name))
    found = [process]
    for one in found:
        found += children[one]
    return [PROCESSES / str(one) for one in found]


def _parent(name: str) -> int | None:
    """Number of the process that started this one; None when it is gone."""
    try:
        with open(f"{PROCESSES}/{name}/stat", "rb") as stat:  # noqa: PTH123 there are hundreds, twice a second
            return int(stat.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _mapped_bytes(entry: Path) -> int:
    """Memory that one process has mapped besides files, at least what `_own_bytes` says; 0 when it is gone."""
    try:
        lines = (entry / "status").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


def _own_bytes(entry: Path) -> int:
    """Memory of one process, shared pages by the share of those that have them; 0 when it is gone."""
    try:
        lines = (entry / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    found = {name: 1024 * int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines[1:])}
    return found.get("Pss", 0) - found.get("Pss_File", 0)


def gpu_bytes() -> int:
    """Memory in use on the GPU; 0 unless this process or one that it started works there."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)  # torch may be half imported by another thread
    if cuda is None or not hasattr(cuda, "mem_get_info") or not cuda.is_available() or not cuda.is_initialized():
        return 0
    free, whole = cuda.mem_get_info()
    return int(whole - free)
