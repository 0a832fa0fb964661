"""Outputs that cannot be written, and things of the user's that lie where a run would write: family `outputs`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from fault_frame import Bench, Case, Ended, Start, contents, nothing_left, told

OUT = "out"


def refused(prepare: Callable[[Path], None], *needed: str, redo: bool = False) -> Callable[[Bench], str]:
    """A whole run into `out` as it was prepared is refused in one line, and nothing there is changed or gone."""

    def work(bench: Bench) -> str:
        prepare(bench.folder)
        before = contents(bench.folder)
        answer = bench.ask(*bench.update_words(bench.folder / OUT, *(["--redo"] if redo else [])))
        changed = [name for name, data in before.items() if contents(bench.folder).get(name) != data]
        return told(answer, *needed) or (f"{changed[0]} was changed" if changed else "")

    return work


def _a_file(folder: Path) -> None:
    (folder / OUT).write_text("mine")


def _below_a_file(folder: Path) -> None:
    (folder / "file").write_text("mine")
    (folder / OUT).symlink_to(folder / "file/below")


def _nowhere(folder: Path) -> None:
    (folder / OUT).symlink_to(folder / "gone/away")


def _around(folder: Path) -> None:
    (folder / OUT).symlink_to(folder / OUT)


def _holding(name: str) -> Callable[[Path], None]:
    """A folder of the user's with one file of that name in it."""

    def prepare(folder: Path) -> None:
        path = folder / OUT / name
        path.parent.mkdir(parents=True)
        path.write_text("mine")

    return prepare


def _kept(bench: Bench) -> str:
    """Files of the user's that look like drafts stay, whether the run is refused or not."""
    names = (".notes.tmp", ".state/.old.12.tmp", "deep/.thesis.4711.tmp/chapter.txt", "1-scaffold.txt")
    for name in names:
        path = bench.folder / OUT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    answer = bench.ask("anchors", "--out", str(bench.folder / OUT), "--preset", "cpu", "--workers", "1")
    gone = [name for name in names if not (bench.folder / OUT / name).is_file()]
    return told(answer) or (f"{gone[0]} is gone" if gone else "")


def _small_files(*words: str, limit: int, needed: str = "too large") -> Callable[[Bench], str]:
    """The command where no file may be larger than so many bytes."""

    def work(bench: Bench) -> str:
        filled = [word.replace("OUT", str(bench.folder / OUT)) for word in words]
        answer: Ended = bench.call(*filled, given=Start(file_bytes=limit))
        return told(answer, needed) or nothing_left(bench.folder)

    return work


def _of_another_kind(*words: str, needed: str) -> Callable[[Bench], str]:
    """What makes one kind of folder is told to write into the other kind, a copy of a run, RUN: nothing changes."""

    def work(bench: Bench) -> str:
        run = shutil.copytree(bench.whole_run(), bench.folder / "run", symlinks=True)
        places = {"RUN": str(run), "AERIAL": str(bench.scene / "aerial"), "GROUND": str(bench.scene / "ground")}
        before, filled = contents(run), list(words)
        for name, place in places.items():
            filled = [word.replace(name, place) for word in filled]
        problem = told(bench.ask(*filled, "--preset", "cpu", "--workers", "1"), needed)
        return problem or ("" if contents(run) == before else "something was changed")

    return work


OWN_NAMES = ("log.txt", "report.html", "timings.json", "frames/frame_000001.jpg", "plots/trajectory.png")

CASES = (
    Case("--out is a file", refused(_a_file, "is a file")),
    Case("--out lies below a file", refused(_below_a_file)),
    Case("--out is a link to nowhere", refused(_nowhere)),
    Case("--out is a link to itself", refused(_around)),
    *(
        Case(f"--out holds a user's {name}{' with --redo' if redo else ''}", refused(_holding(name), redo=redo))
        for name in ("1-scaffold", "2-anchors/notes.txt", "4-scene/recipe.json", *OWN_NAMES)
        for redo in (False, True)
    ),
    Case("--out holds files named like drafts", _kept),
    Case("prepare into a run", _of_another_kind("prepare", "AERIAL", "--out", "RUN", needed="is a run already")),
    Case(
        "a run into a prepared scaffold",
        _of_another_kind(
            *("anchors", "--scaffold", "AERIAL", "--ground", "GROUND", "--out", "RUN/1-scaffold"),
            needed="is a prepared scaffold already",
        ),
    ),
    Case("town, files of at most 20 kB", _small_files("town", "OUT", "--preset", "mini", limit=20_000)),
)
