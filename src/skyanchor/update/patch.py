"""The update as a patch on the aerial .ply: applied and removed without losing a byte of the original.

    updated = header with a comment per patch, original rows (some replaced), rows of the new Gaussians
    patch   = original header, replaced rows before and after, new rows, which rows are hidden, recipe

A hidden Gaussian keeps its row with an opacity too small to be drawn, so hiding is a replaced row like any other.
Patches form a stack: the one applied last is removed first.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from skyanchor.errors import InputError
from skyanchor.gaussians import ply
from skyanchor.gaussians.splats import Splats, select, with_sh_degree
from skyanchor.storage import codec, files
from skyanchor.types import Bools, Bytes, Ints

COMMENT = "comment skyanchor patch "
HIDDEN_LOGIT = np.float32(-20.0)
"""Logit opacity of a hidden Gaussian: 2e-9, far below the 1/255 that is drawn."""


@dataclass(frozen=True, eq=False)
class Patch:
    """What turns one .ply into the next and back."""

    name: str
    """Unique within a stack, e.g. the sequence's name."""
    base_digest: str
    """Digest of the file before."""
    result_digest: str
    """Digest of the file after."""
    header: Bytes
    """Header bytes of the file before."""
    count: int
    """Gaussians before."""
    changed: Ints
    """(C,), rows replaced, ascending."""
    before: Bytes
    """(C, row size), their bytes before."""
    after: Bytes
    """(C, row size), their bytes after."""
    added: Bytes
    """(A, row size), new rows."""
    hidden: Ints
    """(H,), rows hidden; a subset of `changed`."""
    recipe: str
    """JSON of what made the update."""


@dataclass(frozen=True)
class PatchSummary:
    """One line of `patch list`."""

    name: str
    added: int
    changed: int
    hidden: int


@dataclass(frozen=True, eq=False)
class Change:
    """An update in memory, in the frame of the .ply it is meant for."""

    aerial: Splats
    """The aerial set as it is now, same rows as the file."""
    moved: Bools
    """(N,), rows whose values differ from the file's; the others keep their bytes."""
    hidden: Bools
    """(N,), rows to put out of sight."""
    ground: Splats
    """New Gaussians."""


def make_patch(base: Path, name: str, change: Change, recipe: str) -> Patch:
    """The patch that brings the change into `base`."""
    header, head, rows = _read(base)
    if len(change.aerial) != header.count:
        raise ValueError(f"the aerial set has {len(change.aerial)} Gaussians, {base} has {header.count}")
    if name in _applied(head):
        raise InputError(
            base, f"already holds a patch named {name}", "Remove it first, or name the new one differently."
        )
    wanted = rows.copy()
    wanted[change.moved] = _rows_of(header, select(change.aerial, change.moved), rows[change.moved])
    _table(wanted, header)["opacity"][change.hidden] = HIDDEN_LOGIT
    changed = np.flatnonzero((wanted != rows).any(axis=1))
    blank = np.zeros((len(change.ground), rows.shape[1]), np.uint8)
    added = _rows_of(header, change.ground, blank)
    patch = Patch(
        name, files.file_digest(base), "", np.frombuffer(head, np.uint8), header.count,
        changed, rows[changed], wanted[changed], added, np.flatnonzero(change.hidden), recipe,
    )  # fmt: skip
    result = files.digest(_patched(head, rows, patch))
    return Patch(**{**patch.__dict__, "result_digest": result})


def apply_patch(base: Path, patch: Patch, out: Path) -> None:
    """Write the patched file; InputError when `base` is not the file the patch was made for."""
    _check_digest(base, patch.base_digest, f"is not the file that patch {patch.name} was made for")
    _, head, rows = _read(base)
    files.write_bytes(out, _patched(head, rows, patch))


def remove_patch(updated: Path, patch: Patch, out: Path) -> None:
    """Write the file as it was before the patch, byte for byte."""
    _check_digest(updated, patch.result_digest, f"does not end with patch {patch.name} unchanged")
    _, _, rows = _read(updated)
    original = rows[: patch.count].copy()
    original[patch.changed] = patch.before
    data = patch.header.tobytes() + original.tobytes()
    assert files.digest(data) == patch.base_digest
    files.write_bytes(out, data)


def save_patch(path: Path, patch: Patch) -> None:
    """Write the patch as one .npz file."""
    files.write_bytes(path, codec.pack(patch))


def load_patch(path: Path) -> Patch:
    """The patch that `save_patch` wrote."""
    return files.load(path, Patch)


def summary(patch: Patch) -> PatchSummary:
    """What the patch does, in counts; hidden rows are not counted as changed."""
    return PatchSummary(patch.name, len(patch.added), len(patch.changed) - len(patch.hidden), len(patch.hidden))


def applied_patches(path: Path) -> tuple[PatchSummary, ...]:
    """The patches a .ply holds, first applied first."""
    _, head, _ = _read(path)
    return tuple(_comments(head))


def visible_rows(path: Path) -> Bools:
    """(N,), False for the Gaussians that patches hide."""
    header, _, rows = _read(path)
    return np.asarray(_table(rows, header)["opacity"] > HIDDEN_LOGIT, np.bool_)


# --- bytes ------------------------------------------------------------------------------------------------------


def _read(path: Path) -> tuple[ply.Header, bytes, Bytes]:
    """Header, its bytes, and the rows as bytes (N, row size)."""
    header = ply.read_header(path)
    if header.byte_order != "<":
        raise InputError(
            path,
            "is not a binary little-endian .ply",
            "Export it as binary_little_endian, the default of every splat trainer.",
        )
    data = path.read_bytes()
    size = np.dtype(_dtype(header)).itemsize
    if len(data) != header.size + header.count * size:
        raise InputError(path, "holds more or less than its header says", "Copy or export the file again.")
    rows = np.frombuffer(data, np.uint8, offset=header.size).reshape(header.count, size)
    return header, data[: header.size], rows


def _dtype(header: ply.Header) -> list[tuple[str, str]]:
    return [(name, header.byte_order + kind) for name, kind in header.properties]


def _table(rows: Bytes, header: ply.Header) -> npt.NDArray[np.void]:
    """A view of contiguous row bytes as records."""
    return rows.view(np.dtype(_dtype(header)))[:, 0]


def _rows_of(header: ply.Header, splats: Splats, like: Bytes) -> Bytes:
    """The set as rows of the file's layout; properties that a splat set does not know are taken from `like`."""
    rows = like.copy()
    _fill(_table(rows, header), header, splats)
    return rows


def _fill(table: npt.NDArray[np.void], header: ply.Header, splats: Splats) -> None:
    rest = sum(name.startswith("f_rest_") for name in header.names)
    full = with_sh_degree(splats, {0: 0, 9: 1, 24: 2, 45: 3}[rest])
    bands = full.sh[:, 1:].transpose(0, 2, 1).reshape(len(full), rest)
    columns = {f"f_rest_{k}": bands[:, k] for k in range(rest)}
    columns |= {f"f_dc_{k}": full.sh[:, 0, k] for k in range(3)}
    columns |= dict(zip("xyz", full.means.T, strict=True)) | {"opacity": full.logit_opacities}
    columns |= {f"scale_{k}": full.log_scales[:, k] for k in range(3)} | {
        f"rot_{k}": full.quats[:, k] for k in range(4)
    }
    for name in set(columns) & set(header.names):
        table[name] = columns[name]
    if "owner" in header.names:
        table["owner"] = full.owner


def _patched(head: bytes, rows: Bytes, patch: Patch) -> bytes:
    """Bytes of the file after the patch."""
    result = rows.copy()
    result[patch.changed] = patch.after
    facts = summary(patch)
    line = COMMENT + json.dumps([facts.name, facts.added, facts.changed, facts.hidden], ensure_ascii=True) + "\n"
    count = f"element vertex {patch.count}".encode()
    assert head.count(count) == 1
    new_count = f"element vertex {patch.count + len(patch.added)}".encode()
    return head.replace(count, line.encode() + new_count) + result.tobytes() + patch.added.tobytes()


def _comments(head: bytes) -> list[PatchSummary]:
    lines = head.decode("ascii", errors="replace").splitlines()
    return [PatchSummary(*json.loads(line.removeprefix(COMMENT))) for line in lines if line.startswith(COMMENT)]


def _applied(head: bytes) -> list[str]:
    return [facts.name for facts in _comments(head)]


def _check_digest(path: Path, wanted: str, problem: str) -> None:
    if files.file_digest(path) != wanted:
        held = ", ".join(facts.name for facts in applied_patches(path)) or "none"
        raise InputError(
            path, f"{problem} (it holds: {held})", "Patches come off in reverse order: the last one first."
        )
