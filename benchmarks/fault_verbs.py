"""Commands that are killed, stopped or run out of disk: how each is called, what it begins with, what it leaves."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fault_frame import CAMERA, Bench, Ended, differences, nothing_left


def nothing(bench: Bench, out: Path) -> None:
    """A command that begins with nothing."""


@dataclass(frozen=True)
class Verb:
    """A command that leaves something at a path."""

    name: str
    words: Callable[[Bench, Path, int], tuple[str, ...]]
    """What is typed, for a path and so many workers."""
    parts: tuple[tuple[str, str], ...] = ()
    """Folders at that path whose work can be stopped, in the order in which they are begun, and how that is told."""
    begin: Callable[[Bench, Path], None] = nothing
    """Puts there what it begins with."""
    once: bool = False
    """It wants an empty path, and leaves all or nothing."""

    def whole(self, bench: Bench) -> Path:
        """What it leaves undisturbed, made once for all cases; not to be changed."""
        path = bench.shared / self.name
        if not self._seconds(bench).is_file():
            shutil.rmtree(path, ignore_errors=True)
            self.begin(bench, path)
            words = self.words(bench, path, 1)
            ended = bench.call(*words)
            assert ended.code == 0, ended.err
            self._seconds(bench).write_text(f"{ended.seconds:.1f}")
        return path

    def longest_s(self, bench: Bench) -> float:
        """From its start to its end undisturbed: moments to disturb it are even between nothing and this, seconds."""
        self.whole(bench)
        return float(self._seconds(bench).read_text())

    def _seconds(self, bench: Bench) -> Path:
        return bench.shared / f"{self.name}-seconds.txt"

    def ends_the_same(self, bench: Bench, out: Path, workers: int) -> str:
        """Empty when the command, given once more, leaves what it leaves undisturbed, and no half file anywhere."""
        if not (self.once and out.exists()):
            answer: Ended = bench.call(*self.words(bench, out, workers))
            if answer.code != 0:
                return f"the last run ended with {answer.code}: {answer.last}"
        return differences(out, self.whole(bench)) or nothing_left(out.parent)


def _run(bench: Bench, out: Path) -> None:
    """A whole run that the command adds to."""
    shutil.copytree(bench.whole_run(), out, symlinks=True)


def _second(bench: Bench) -> Path:
    """The trajectory of a second walk on the same flight, made once; not to be changed."""
    path, photos = bench.shared / "second", bench.shared / "second-ground"
    if not (path / "3-trajectory/recipe.json").is_file():
        shutil.copytree(bench.scene / "ground", photos, dirs_exist_ok=True)
        words = ("trajectory", "--scaffold", str(bench.whole_run()), "--ground", str(photos), "--out", str(path))
        ended = bench.call(*words, "--camera", CAMERA, "--preset", "cpu", "--workers", "1")
        assert ended.code == 0, ended.err
    return path


def _prepare(bench: Bench, out: Path, workers: int) -> tuple[str, ...]:
    words = ("prepare", str(bench.scene / "aerial"), "--out", str(out), "--camera", CAMERA, "--preset", "cpu")
    return (*words, "--ground", str(bench.scene / "ground"), "--workers", str(workers))


def _changes(bench: Bench, out: Path, workers: int) -> tuple[str, ...]:
    return ("changes", str(out), "--since", str(_second(bench)), "--workers", str(workers))


def _merge(bench: Bench, out: Path, workers: int) -> tuple[str, ...]:
    return ("merge", str(bench.whole_run()), str(_second(bench)), "--out", str(out), "--adjust")


IN_STAGE_1 = "Stopped in stage 1"
UPDATE = Verb(
    "update",
    lambda bench, out, workers: bench.update_words(out, "--workers", str(workers)),
    (
        ("1-scaffold/depth", IN_STAGE_1),
        ("2-anchors", "Stopped in stage 2"),
        ("3-trajectory", "Stopped in stage 3"),
        ("1-scaffold/splats", IN_STAGE_1),
        ("4-scene", "Stopped in stage 4"),
    ),
)
PREPARE = Verb(
    "prepare",
    _prepare,
    tuple((part, IN_STAGE_1) for part in ("depth", "surface", "places/*", "splats")),
)
MESH = Verb(
    "mesh",
    lambda bench, out, workers: ("mesh", str(out), "--voxel", "0.1", "--workers", str(workers)),
    (("5-mesh", "Stopped in stage 5"),),
    _run,
)
CHANGES = Verb("changes", _changes, (("6-changes", "Stopped in stage 6"),), _run)
MERGE = Verb("merge", _merge, once=True)
OTHERS = (PREPARE, MESH, CHANGES, MERGE)
