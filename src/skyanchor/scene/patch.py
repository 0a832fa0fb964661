"""The update as a patch on the aerial .ply: applied and removed without losing a byte of the original.

    updated = header with a comment per patch, original rows (some replaced), rows of the new Gaussians
    patch   = original header, replaced rows before and after, new rows, which rows are hidden, recipe

A hidden Gaussian keeps its row with an opacity too small to be drawn, so hiding is a replaced row like any other.
Patches form a stack, and every new Gaussian belongs to one of them. One may be put on or taken off at any place of the
stack as long as no other replaced the same rows; where they overlap, the later one comes off first.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from skyanchor.errors import InputError
from skyanchor.gaussians import ply
from skyanchor.gaussians.ply import PlyBytes
from skyanchor.gaussians.ply_header import SH_DEGREES, Header
from skyanchor.gaussians.splats import Owners, Splats, select, with_sh_degree
from skyanchor.scene.patch_head import (
    COMMENT,
    COUNT,
    Layer,
    PatchSummary,
    count_in,
    counted,
    layers_of,
    names_in,
    patches_in,
    rows_in,
    without,
    without_patches,
)
from skyanchor.storage import codec, files, taken
from skyanchor.storage.digests import digest
from skyanchor.storage.foreign import refuse_no_file
from skyanchor.types import Bools, Bytes, Ints

HIDDEN_LOGIT = np.float32(-20.0)
"""Logit opacity of a hidden Gaussian: 2e-9, far below the 1/255 that is drawn."""
AGAIN = "Copy the patch again from the run that made it."


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
    """(H,), rows that this patch hides; a subset of `changed`."""
    recipe: str
    """JSON of what made the update."""


@dataclass(frozen=True, eq=False)
class Change:
    """An update in memory, in the frame of the .ply it is meant for."""

    aerial: Splats
    """The aerial set as it is now, in the order of the file's usable rows."""
    moved: Bools
    """(N,), rows whose values differ from the file's; the others keep their bytes."""
    hidden: Bools
    """(N,), rows to put out of sight."""
    ground: Splats
    """New Gaussians."""


def make_patch(base: PlyBytes, name: str, change: Change, recipe: str) -> Patch:
    """The patch that brings the change into `base`."""
    return made_patch(base, name, change, recipe)[0]


def made_patch(base: PlyBytes, name: str, change: Change, recipe: str) -> tuple[Patch, bytes]:
    """The patch that brings the change into `base`, and the bytes of the file after it."""
    usable = np.flatnonzero(base.usable)
    if len(change.aerial) != len(usable):
        raise ValueError(f"the aerial set has {len(change.aerial)} Gaussians, {base.path} has {len(usable)}")
    _refuse_name(base.path, base.head, name)
    rows, moved = base.rows, usable[change.moved]
    wanted = rows.copy()
    wanted[moved] = _rows_of(base.header, select(change.aerial, change.moved), rows[moved])
    ply.table_of(wanted, base.header)["opacity"][usable[change.hidden]] = HIDDEN_LOGIT
    changed = np.flatnonzero((wanted != rows).any(axis=1))
    was_seen = ply.table_of(rows, base.header)["opacity"] > HIDDEN_LOGIT
    hidden = np.flatnonzero(was_seen & np.isin(np.arange(base.header.count), usable[change.hidden]))
    blank = np.zeros((len(change.ground), rows.shape[1]), np.uint8)
    added = _rows_of(base.header, change.ground, blank)
    patch = Patch(
        name, digest(base.data), "", np.frombuffer(base.head, np.uint8), base.header.count,
        changed, rows[changed], wanted[changed], added, hidden, recipe,
    )  # fmt: skip
    data = _patched(base, patch)
    return replace(patch, result_digest=digest(data)), data


def apply_patch(base: PlyBytes, patch: Patch, out: Path) -> None:
    """Write the patched file; InputError when `base` is not the file the patch was made for, nor has its rows."""
    taken.refuse_lost(out, base.path, begins=taken.PLY)
    files.write_bytes(out, patched(base, patch))


def patched(base: PlyBytes, patch: Patch) -> bytes:
    """Bytes of the file after the patch, wherever its rows are in `base`; InputError where they are not."""
    made_for_it = digest(base.data) == patch.base_digest
    fitted = patch if made_for_it else rebased(patch, base)
    data = _patched(base, fitted)
    undone = fitted.header.tobytes() == base.head and bool((fitted.before == base.rows[fitted.changed]).all())
    if not undone or (made_for_it and digest(data) != patch.result_digest):
        raise InputError(base.path, f"would not become what patch {patch.name} says: it was altered", AGAIN)
    return data


def remove_patch(updated: PlyBytes, patch: Patch, out: Path) -> None:
    """Write the file as it would be without the patch, byte for byte; InputError where a later one overlaps with it."""
    taken.refuse_lost(out, updated.path, begins=taken.PLY)
    if digest(updated.data) != patch.result_digest:
        files.write_bytes(out, _taken_out(updated, patch))
        return
    files.write_bytes(out, before_last(updated, patch).data)


def before_last(updated: PlyBytes, patch: Patch) -> PlyBytes:
    """The file as it was before the patch, which is its last one; InputError where the patch was altered."""
    original = updated.rows[: patch.count].copy()
    original[patch.changed] = patch.before
    data = patch.header.tobytes() + original.tobytes()
    if digest(data) != patch.base_digest:
        raise InputError(updated.path, f"would not become what it was: patch {patch.name} was altered", AGAIN)
    return ply.with_data(updated, data)


def save_patch(path: Path, patch: Patch) -> None:
    """Write the patch as one .npz file."""
    files.write_bytes(path, codec.pack(patch))


def load_patch(path: Path) -> Patch:
    """The patch that `save_patch` wrote; InputError when the file is another or damaged."""
    refuse_no_file(path, "Give 4-scene/patch.npz of a run.")
    try:
        return _checked(codec.unpack(Patch, path.read_bytes()))
    except (ValueError, TypeError, KeyError, OverflowError, OSError) as error:
        raise InputError(path, f"is no patch, or a damaged one ({error})", AGAIN) from error


def _checked(patch: Patch) -> Patch:
    """The patch, if its parts fit each other; ValueError else."""
    shapes = [part.shape[1:] for part in (patch.before, patch.after, patch.added)]
    fits = (
        all(part.dtype == np.uint8 for part in (patch.header, patch.before, patch.after, patch.added))
        and count_in(patch.header.tobytes()) == patch.count
        and len(shapes[0]) == 1
        and shapes[0] == shapes[1] == shapes[2]
        and all(rows.dtype == np.int64 and rows.ndim == 1 for rows in (patch.changed, patch.hidden))
        and len(patch.before) == len(patch.after) == len(patch.changed)
        and (np.diff(patch.changed, prepend=-1, append=patch.count) > 0).all()
        and np.isin(patch.hidden, patch.changed).all()
    )
    if not fits:
        raise ValueError("its rows do not fit each other")
    return patch


def summary(patch: Patch) -> PatchSummary:
    """What the patch does, in counts; hidden rows are not counted as changed."""
    return PatchSummary(patch.name, len(patch.added), len(patch.changed) - len(patch.hidden), len(patch.hidden))


def applied_patches(held: PlyBytes) -> tuple[PatchSummary, ...]:
    """The patches a .ply holds, first applied first."""
    return patches_in(held.head)


def visible(splats: Splats) -> Splats:
    """Without the Gaussians that patches hide."""
    return select(splats, splats.logit_opacities > HIDDEN_LOGIT)


# --- layers -----------------------------------------------------------------------------------------------------


def layers(held: PlyBytes) -> tuple[Layer, ...]:
    """Where the rows of a file come from: those of the original, then of each patch that it holds."""
    return layers_of(held.head, held.header.count)


def owners(held: PlyBytes) -> Owners:
    """(N,), whose each row is: 0 for the original's, k for those of the k-th patch, unless the file says otherwise."""
    if "owner" in held.header.names:
        return ply.table_of(held.rows, held.header)["owner"].astype(np.int32)
    return np.repeat(np.arange(len(layers(held)), dtype=np.int32), [layer.count for layer in layers(held)])


def rebased(patch: Patch, base: PlyBytes) -> Patch:
    """The same change for a file with other patches than it was made on; InputError where they overlap."""
    moved = moved_to(patch, base.path, base.head, base.header.count)
    refuse_overlap(base.path, patch, base.rows[moved.changed], moved.before, names_in(base.head))
    moved = replace(moved, base_digest=digest(base.data))
    return replace(moved, result_digest=digest(_patched(base, moved)))


def moved_to(patch: Patch, path: Path, head: bytes, count: int, like_is_known: bool = True) -> Patch:
    """The same change by the rows of a file with other patches than it was made on; what they hold is not looked at.

    Where it is known that the file is another one, the same patches in the same order are an InputError as well.
    """
    own, here = layers_of(patch.header.tobytes(), patch.count), layers_of(head, count)
    _refuse_name(path, head, patch.name)
    alike = without_patches(patch.header.tobytes()) == without_patches(head) and own[0] == here[0]
    if not alike or (like_is_known and own == here):
        names = ", ".join(names_in(head)) or "none"
        problem = f"is not the file that patch {patch.name} was made for (it holds: {names})"
        raise InputError(path, problem, "Give the .ply that the run of the patch began with, or one like it.")
    rows = rows_in(patch.changed, own, here)
    if (rows < 0).any():
        missing = " and ".join(layer.name for layer in own[1:] if layer.name not in {one.name for one in here})
        problem = f"lacks patch {missing}, whose Gaussians patch {patch.name} changes"
        raise InputError(path, problem, f"Apply {missing} first.")
    order = np.argsort(rows, kind="stable")
    return replace(
        patch, base_digest="", result_digest="", header=np.frombuffer(head, np.uint8),
        count=count, changed=rows[order], before=patch.before[order], after=patch.after[order],
        hidden=np.sort(rows_in(patch.hidden, own, here)),
    )  # fmt: skip


def _taken_out(updated: PlyBytes, patch: Patch) -> bytes:
    """Bytes of the file without a patch that others may lie upon."""
    layer, changed, later = held_in(updated.path, updated.head, updated.header.count, patch)
    added = slice(layer.start, layer.start + layer.count)
    refuse_overlap(updated.path, patch, updated.rows[changed], patch.after, later)
    refuse_overlap(updated.path, patch, updated.rows[added], patch.added, later)
    rows = updated.rows.copy()
    rows[changed] = patch.before
    return head_without(updated.head, patch) + np.delete(rows, added, axis=0).tobytes()


def held_in(path: Path, head: bytes, count: int, patch: Patch) -> tuple[Layer, Ints, list[str]]:
    """(rows that a patch added to a file, rows that it changed there, patches after it); InputError if it is not on."""
    own, here = layers_of(patch.header.tobytes(), patch.count), layers_of(head, count)
    names = [layer.name for layer in here]
    if patch.name not in names[1:] or here[names.index(patch.name)].count != len(patch.added) or own[0] != here[0]:
        held = ", ".join(names[1:]) or "none"
        advice = "Give the patch of one that it holds."
        raise InputError(path, f"does not hold patch {patch.name} (it holds: {held})", advice)
    at = names.index(patch.name)
    return here[at], rows_in(patch.changed, own, here), names[at + 1 :]


def _refuse_name(path: Path, head: bytes, name: str) -> None:
    """InputError where the file holds a patch of that name."""
    if name in names_in(head):
        advice = "Remove it first, or name the new one differently."
        raise InputError(path, f"already holds a patch named {name}", advice)


def refuse_overlap(path: Path, patch: Patch, rows: Bytes, wanted: Bytes, others: list[str]) -> None:
    """InputError where rows of a patch are not as it left or found them: another changed them."""
    touched = int((rows != wanted).any(axis=1).sum())
    if touched:
        said = " or ".join(others) or "another hand"
        problem = f"has {touched} Gaussians that both patch {patch.name} and {said} changed"
        raise InputError(path, problem, "They overlap: patches that do come off in reverse order, the last first.")


def head_with(head: bytes, patch: Patch) -> bytes:
    """The header after a patch that fits it."""
    facts = summary(patch)
    line = COMMENT + json.dumps([facts.name, facts.added, facts.changed, facts.hidden], ensure_ascii=True) + "\n"
    new_count = line.encode() + f"element vertex {patch.count + len(patch.added)}".encode()
    return COUNT.sub(lambda _: new_count, head, count=1)


def head_without(head: bytes, patch: Patch) -> bytes:
    """The header after a patch that it names was taken off."""
    return counted(without(head, patch.name), (count_in(head) or 0) - len(patch.added))


# --- bytes ------------------------------------------------------------------------------------------------------


def _rows_of(header: Header, splats: Splats, like: Bytes) -> Bytes:
    """The set as rows of the file's layout; properties that a splat set does not know are taken from `like`."""
    rows = like.copy()
    _fill(ply.table_of(rows, header), header, splats)
    return rows


def _fill(table: npt.NDArray[np.void], header: Header, splats: Splats) -> None:
    rest = sum(name.startswith("f_rest_") for name in header.names)
    full = with_sh_degree(splats, SH_DEGREES[rest])
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


def _patched(base: PlyBytes, patch: Patch) -> bytes:
    """Bytes of the file after the patch."""
    if patch.count != base.header.count or patch.after.shape[1] != base.rows.shape[1]:
        raise InputError(base.path, f"has other rows than patch {patch.name} speaks of", AGAIN)
    result = base.rows.copy()
    result[patch.changed] = patch.after
    return head_with(base.head, patch) + result.tobytes() + patch.added.tobytes()
