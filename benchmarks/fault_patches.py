"""Patches that are cut, flipped, foreign or missing, and outputs that would be lost: family `patches`."""

from __future__ import annotations

import io
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from fault_frame import Bench, Case, contents, told

FLIPS = 8


def _files(bench: Bench) -> tuple[Path, Path]:
    """Copies of a base and its patch."""
    run = bench.whole_run()
    base, patch = bench.folder / "base.ply", bench.folder / "patch.npz"
    shutil.copyfile(run / "1-scaffold/splats/splats.ply", base)
    shutil.copyfile(run / "4-scene/patch.npz", patch)
    return base, patch


def damaged(change: Callable[[bytes], bytes | None], *needed: str) -> Callable[[Bench], str]:
    """A patch after the change is refused in a line, and nothing is written; None takes it away."""

    def work(bench: Bench) -> str:
        base, patch = _files(bench)
        data = change(patch.read_bytes())
        patch.unlink()
        if data is not None:
            patch.write_bytes(data)
        before = contents(bench.folder)
        answer = bench.call("patch", "apply", str(base), str(patch), "--out", str(bench.folder / "x.ply"))
        problem = told(answer, "patch.npz", *needed)
        return problem or ("something was written" if contents(bench.folder) != before else "")

    return work


def flipped(seed: int) -> Callable[[bytes], bytes]:
    """One bit of the arrays is another."""

    def change(data: bytes) -> bytes:
        chance, other = random.Random(seed), bytearray(data)
        other[chance.randrange(len(data) // 4, 3 * len(data) // 4)] ^= 1 << chance.randrange(8)
        return bytes(other)

    return change


def _bomb(data: bytes) -> bytes:
    held = dict(np.load(io.BytesIO(data)))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{**held, "array0": np.zeros(1 << 30, np.uint8)})
    return buffer.getvalue()


def lost(which: str) -> Callable[[Bench], str]:
    """--out that names a file which is read."""

    def work(bench: Bench) -> str:
        base, patch = _files(bench)
        link = bench.folder / "link.ply"
        link.symlink_to(base)
        out = {"base": base, "patch": patch, "link to the base": link}[which]
        before = contents(bench.folder)
        answer = bench.call("patch", "apply", str(base), str(patch), "--out", str(out))
        return told(answer, "would be lost") or ("a file was changed" if contents(bench.folder) != before else "")

    return work


def there_and_back(bench: Bench) -> str:
    """Applied and removed, the file is what it was."""
    base, patch = _files(bench)
    new, old = bench.folder / "new.ply", bench.folder / "old.ply"
    for words in (
        ("apply", str(base), str(patch), "--out", str(new)),
        ("remove", str(new), str(patch), "--out", str(old)),
    ):
        answer = bench.call("patch", *words)
        if answer.code:
            return f"{words[0]} ended with {answer.code}: {answer.last}"
    return "" if old.read_bytes() == base.read_bytes() else "the file is another one"


CASES = (
    Case("there and back", there_and_back),
    Case("a patch that is missing", damaged(lambda _: None, "is no file")),
    Case("an empty patch", damaged(lambda _: b"")),
    Case("half a patch", damaged(lambda data: data[: len(data) // 2])),
    Case("a patch without its last byte", damaged(lambda data: data[:-1])),
    Case("a patch that is text", damaged(lambda _: b"hello\n" * 1000)),
    Case("a patch that is a bomb of a gigabyte", damaged(_bomb)),
    *(Case(f"a patch with another bit, {seed}", damaged(flipped(seed))) for seed in range(FLIPS)),
    *(Case(f"--out is the {which}", lost(which)) for which in ("base", "patch", "link to the base")),
)
