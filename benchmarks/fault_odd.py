"""What has the name of a file and is none, what would be written over, words that say nothing: family `odd`.

Each is refused in a line, and what was there stays. The verbs are quick ones, which read as the long ones do.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from fault_frame import Bench, Case, contents, nothing_left, told
from fault_inputs import called_with

LENSES = {
    "PINHOLE 320 240 280 280 99999 120": "a principal point far away",
    "OPENCV 320 240 230 230 160 120 1e3 0 0 0": "k1 = 1000",
    "OPENCV 320 240 230 230 160 120 -5 0 0 0": "k1 = -5",
    "OPENCV 320 240 230 230 160 120 0 0 9 9": "tangential terms of 9",
    "OPENCV_FISHEYE 320 240 230 230 160 120 900 0 0 0": "a fisheye of 900",
    "FOV 320 240 230 230 160 120 5": "a field of five radians",
    "EUCM 320 240 230 230 160 120 -4 -3": "EUCM below nothing",
    "DIVISION 320 240 230 230 160 120 -90": "a division by less than nothing",
}
AERIAL, STREET = ("scaffold", "check", "FOLDER/scene/aerial"), ("walk", "check", "FOLDER/scene/ground")
PLACES = {
    "scene/ground/images/g003.png": STREET,
    "scene/ground/masks/g003.png": STREET,
    "scene/aerial/images/a003.png": AERIAL,
    "scene/aerial/masks/a003.png": AERIAL,
    "scene/aerial/georef.json": AERIAL,
    "scene/aerial/splats.ply": AERIAL,
    "scene/aerial/sparse/rigs.bin": AERIAL,
}
KINDS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link to nowhere": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path),
}


def odd(words: tuple[str, ...], change: Callable[[Path], object], *needed: str) -> Callable[[Bench], str]:
    """A verb on a scene with something changed, FOLDER, is refused and changes nothing."""

    def work(bench: Bench) -> str:
        bench.own_scene()
        change(bench.folder)
        before, names = contents(bench.folder), set(bench.folder.rglob("*"))
        answer = bench.ask(*(word.replace("FOLDER", str(bench.folder)) for word in words))
        same = contents(bench.folder) == before and set(bench.folder.rglob("*")) == names
        return told(answer, *needed) or nothing_left(bench.folder) or ("" if same else "something was changed")

    return work


def replaced(name: str, kind: Callable[[Path], None]) -> Callable[[Path], None]:
    """Something else by the name of a file."""

    def change(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        kind(path)

    return change


def with_lens(line: str) -> Callable[[Path], None]:
    """The model as text, with this camera."""

    def change(folder: Path) -> None:
        import pycolmap

        sparse = folder / "scene/aerial/sparse"
        pycolmap.Reconstruction(str(sparse)).write_text(str(sparse))
        for path in (*sparse.glob("*.bin"), sparse / "rigs.txt", sparse / "frames.txt"):
            path.unlink(missing_ok=True)
        (sparse / "cameras.txt").write_text(f"1 {line}\n")

    return change


def over(name: str, put: Callable[[Path], None], *words: str) -> Callable[[Bench], str]:
    """A verb on the splats of a run, RUN, whose --out has a name that something of others has."""

    def work(bench: Bench) -> str:
        run = shutil.copytree(bench.whole_run(), bench.folder / "run", symlinks=True)
        out = bench.folder / name
        put(out)
        before = contents(bench.folder)
        answer = bench.ask(*(word.replace("RUN", str(run)) for word in words), "--out", str(out))
        kept = contents(bench.folder) == before and (out.is_fifo() or out.is_file())
        return told(answer) or nothing_left(bench.folder) or ("" if kept else "it was written over")

    return work


def _thesis(path: Path) -> None:
    path.write_text("my thesis")


def cases() -> Iterator[Case]:
    """All of them."""
    for name, words in PLACES.items():
        for what, kind in KINDS.items():
            yield Case(f"{name} is a {what}", odd(words, replaced(name, kind), Path(name).name))
    for line, what in LENSES.items():
        yield Case(f"a lens with {what}", odd(AERIAL, with_lens(line), "cameras.txt"))
    splats, patch = "RUN/1-scaffold/splats/splats.ply", "RUN/4-scene/patch.npz"
    for name, put in (("thesis.ply", _thesis), ("pipe.ply", os.mkfifo)):
        yield Case(f"patch apply onto {name}", over(name, put, "patch", "apply", splats, patch))
        yield Case(f"patch export onto {name}", over(name, put, "patch", "export", splats))
    for words in (
        ("update", "--scaffold", "a", "--ground", "b", "--out", ""), ("prepare", "", "--out", "b"),
        ("merge", "RUN", "--out="), ("town", ""), ("patch", "list", ""),
    ):  # fmt: skip
        yield Case(" ".join(word or "''" for word in words), called_with(*words, needed="empty"))
    for kind in ("RUN", "RUN/1-scaffold"):
        for verb in ("scaffold", "walk"):
            words = (verb, "check", kind)
            yield Case(" ".join(words), called_with(*words, needed="is a "))
    for words in (("report", "RUN"), ("evaluate", "RUN")):
        truth = "RUN/3-trajectory/model"
        yield Case(f"{words[0]} --truth {truth}", called_with(*words, "--truth", truth, needed="with itself"))
    for words in (("patch", "apply"), ("patch", "remove")):
        given = ("RUN/4-scene/updated.ply", "RUN/4-scene/patch.npz", "--out", "FOLDER/o.splat")
        yield Case(f"{' '.join(words)} --out o.splat", called_with(*words, *given, needed="called .splat"))
    for words in (("udpate",), ("patch",), ("patch", "aply"), ("evaluate",), ("mesh", "RUN", "--voxel", "fine")):
        yield Case(" ".join(words), called_with(*words, needed="--help"))
    yield Case("merge of a run and itself", called_with("merge", "RUN", "RUN", "--out", "FOLDER/all", needed="twice"))
    yield Case("changes of a run since itself", called_with("changes", "RUN", "--since", "RUN", needed="twice"))
    for voxel in ("1e-9", "1e9"):
        yield Case(f"mesh --voxel {voxel}", called_with("mesh", "RUN", "--voxel", voxel, needed="voxel"))
    yield Case(
        "evaluate RUN --fps", called_with("evaluate", "RUN", "--truth", "x", "--fps", "3", needed="says nothing")
    )
    for folder in ("../victim", "/victim"):
        protocol = (
            f'{{"title": "x", "source": "", "aerial": 1, "dropped": 0, "walks": [{{"folder": "{folder}", "camera": '
            '"f=60", "frames": 14}], "submap": 10, "group_size": 6, "held_out": [], "paper": null}'
        )
        words = ("dataset", "run", "FOLDER/scene", "--out", "FOLDER/runs")
        named = replaced("scene/protocol.json", lambda path, text=protocol: path.write_text(text))  # type: ignore[misc]
        yield Case(f"a protocol whose walk lies in {folder}", odd(words, named, "lead out of it"))
    for ends in ("a010.png:a999.png", "a010.png:a015.png,a013.png:a019.png", ":"):
        joint = ("dataset", "folder", "FOLDER/scene/aerial", "--aerial", "a00*", "--ground", "a01*")
        words = (*joint, "--out", "FOLDER/made", "--segments", ends)
        yield Case(f"dataset --segments {ends}", odd(words, lambda folder: None, "--segments"))


CASES = tuple(cases())
