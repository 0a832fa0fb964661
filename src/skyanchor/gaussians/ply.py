"""Splat files: INRIA-convention .ply in and out, byte for byte for a patch; .splat out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from skyanchor.errors import InputError
from skyanchor.gaussians.gsplat_checkpoint import CHECKPOINTS, read_gsplat_checkpoint
from skyanchor.gaussians.harmonics import SH_C0
from skyanchor.gaussians.ply_header import (
    LARGEST_HEADER,
    SH_DEGREES,
    TRAIN_ADVICE,
    Header,
    check_header,
    dtype_of,
    header_in,
    rest_count,
    row_size,
)
from skyanchor.gaussians.splats import Splats, empty, select, with_sh_degree
from skyanchor.storage import files
from skyanchor.storage.foreign import refuse_no_file
from skyanchor.types import Bools, Bytes, Floats, Floats32

log = logging.getLogger(__name__)

Table: TypeAlias = npt.NDArray[np.void]

FLAT_LOG_RATIO = float(np.log(1e-3))
"""A 2DGS disc gets a third scale of 1/1000 of its smaller one."""
CHECKED_AT_ONCE = 1 << 16
"""Gaussians looked through at a time."""


@dataclass(frozen=True, eq=False)
class PlyBytes:
    """A binary splat .ply in memory, byte for byte."""

    path: Path
    header: Header
    data: bytes
    """The whole file."""
    usable: Bools
    """(N,), rows whose numbers are all finite: the Gaussians that are read."""

    @property
    def head(self) -> bytes:
        """The header as it stands in the file."""
        return self.data[: self.header.size]

    @property
    def rows(self) -> Bytes:
        """(N, row size)."""
        return _rows(self.data, self.header)

    def splats(self, offset: Floats | None = None) -> Splats:
        """The usable Gaussians in the order of their rows, minus `offset` (3,)."""
        return select(_splats(table_of(self.rows, self.header), self.header, offset), self.usable)


@dataclass(frozen=True)
class SplatCheck:
    """What a splat file holds, known without training on it."""

    gaussians: int
    """Rows of the file."""
    unusable: int
    """Rows with a number that is not finite: neither drawn nor changed."""


def read_splats(path: Path, offset: Floats | None = None) -> Splats:
    """The Gaussians of a .ply or of a gsplat checkpoint (.pt), minus `offset` (3,) where their frame is a moved one."""
    refuse_no_file(path, "Give the path of a .ply file or of a gsplat checkpoint.")
    if path.suffix in CHECKPOINTS:
        return _finite(path, read_gsplat_checkpoint(path, offset))
    return _finite(path, read_ply(path, offset))


def check_splats(path: Path) -> SplatCheck:
    """What a .ply that is to be patched holds; InputError, before any work, when it cannot be."""
    header = patchable_header(path)
    dtype = np.dtype(dtype_of(header))
    unusable = 0
    with path.open("rb") as file:
        file.seek(header.size)
        while block := file.read(CHECKED_AT_ONCE * dtype.itemsize):
            unusable += int((~_usable(np.frombuffer(block, dtype), header)).sum())
    if unusable == header.count:
        raise InputError(path, "holds no usable Gaussian", TRAIN_ADVICE)
    return SplatCheck(header.count, unusable)


def read_bytes(path: Path) -> PlyBytes:
    """The file as it is, for a patch; InputError when it cannot be patched."""
    header = patchable_header(path)
    held = _held(path, header, path.read_bytes())
    if not held.usable.any():
        raise InputError(path, "holds no usable Gaussian", TRAIN_ADVICE)
    return held


def with_data(held: PlyBytes, data: bytes) -> PlyBytes:
    """The same file after a change of its bytes that is not on disk."""
    return _held(held.path, header_in(held.path, data[:LARGEST_HEADER], len(data)), data)


def _held(path: Path, header: Header, data: bytes) -> PlyBytes:
    return PlyBytes(path, header, data, _usable(table_of(_rows(data, header), header), header))


def patchable_header(path: Path) -> Header:
    """The header of a binary little-endian .ply of Gaussians that holds exactly what its header says."""
    refuse_no_file(path, "Give the path of a .ply file.")
    export = f"Write it as one first: `skyanchor patch export {path} --out {path.stem}-plain.ply`."
    if path.suffix in CHECKPOINTS:
        raise InputError(path, "is a checkpoint, and only a .ply can be patched", export)
    header = check_header(path)
    if header.byte_order != "<":
        raise InputError(path, "is not a binary little-endian .ply", export)
    _refuse_cut(path, header)
    if path.stat().st_size > header.size + header.count * row_size(header):
        raise InputError(path, "holds more than the Gaussians of its header", export)
    return header


# --- .ply in ----------------------------------------------------------------------------------------------------


def read_ply(path: Path, offset: Floats | None = None) -> Splats:
    """The Gaussians of an INRIA-convention .ply, bit for bit; a 2DGS disc gets a tiny third scale."""
    header = check_header(path)
    return _splats(_read_table(path, header), header, offset)


def _splats(table: Table, header: Header, offset: Floats | None) -> Splats:
    means = _columns(table, ("x", "y", "z"), np.float64 if offset is not None else np.float32)
    if offset is not None:
        means = means - offset
    scales = _columns(table, tuple(f"scale_{k}" for k in range(3) if f"scale_{k}" in header.names))
    if scales.shape[1] == 2:
        scales = np.concatenate([scales, scales.min(axis=1, keepdims=True) + np.float32(FLAT_LOG_RATIO)], axis=1)
    owner = table["owner"].astype(np.int32) if "owner" in header.names else np.zeros(len(table), np.int32)
    return Splats(
        means.astype(np.float32),
        _columns(table, ("rot_0", "rot_1", "rot_2", "rot_3")),
        scales,
        _columns(table, ("opacity",))[:, 0],
        _harmonics(table, header),
        owner,
    )


def _harmonics(table: Table, header: Header) -> Floats32:
    """(N, K, 3) from f_dc and channel-major f_rest: f_rest[c (K - 1) + k - 1] is coefficient k of channel c."""
    count = rest_count(header)
    dc = _columns(table, ("f_dc_0", "f_dc_1", "f_dc_2"))[:, None]
    rest = _columns(table, tuple(f"f_rest_{k}" for k in range(count)))
    return np.concatenate([dc, rest.reshape(len(table), 3, count // 3).transpose(0, 2, 1)], axis=1)


def _columns(table: Table, names: tuple[str, ...], dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
    """(N, len(names)) of the named properties."""
    columns = np.empty((len(table), len(names)), dtype)
    for k, name in enumerate(names):
        columns[:, k] = table[name]
    return columns


def _read_table(path: Path, header: Header) -> Table:
    if header.byte_order == "=":
        return _read_ascii(path, header)
    _refuse_cut(path, header)
    return np.fromfile(path, dtype=dtype_of(header), count=header.count, offset=header.size)


def _refuse_cut(path: Path, header: Header) -> None:
    size, held = np.dtype(dtype_of(header)).itemsize, path.stat().st_size - header.size
    if held < header.count * size:
        raise InputError(
            path,
            f"is cut short: {held // size} of {header.count} Gaussians are there",
            "Copy or export the file again.",
        )


def _rows(data: bytes, header: Header) -> Bytes:
    """(N, row size) of a whole file."""
    return np.frombuffer(data, np.uint8, offset=header.size).reshape(header.count, row_size(header))


def table_of(rows: Bytes, header: Header) -> Table:
    """A view of contiguous row bytes (N, row size) as records."""
    return rows.view(np.dtype(dtype_of(header)))[:, 0]


def _usable(table: Table, header: Header) -> Bools:
    """(N,), rows whose numbers are all finite as float32; properties that a splat does not know do not count."""
    good = np.ones(len(table), np.bool_)
    for name in header.names:
        if name in ("x", "y", "z", "opacity") or name.startswith(("scale_", "rot_", "f_dc_", "f_rest_")):
            good &= np.abs(table[name]) <= np.finfo(np.float32).max
    return good


def _read_ascii(path: Path, header: Header) -> Table:
    dtype = np.dtype(list(header.properties))
    with path.open("rb") as file:
        file.seek(header.size)
        try:
            table = np.loadtxt(file, dtype=dtype, max_rows=header.count, ndmin=1)
        except (ValueError, OverflowError, TypeError) as error:
            raise InputError(path, f"has a line that is no Gaussian ({error})", "Export the file again.") from error
    if len(table) < header.count:
        raise InputError(path, f"is cut short: {len(table)} of {header.count} Gaussians are there", "Copy it again.")
    return table


def _finite(path: Path, splats: Splats) -> Splats:
    """Without the rows that hold a number that is not finite, which some trainers leave behind."""
    arrays = (splats.means, splats.quats, splats.log_scales, splats.logit_opacities[:, None], splats.sh)
    good = np.ones(len(splats), np.bool_)
    for array in arrays:
        good &= np.isfinite(array).all(axis=tuple(range(1, array.ndim)))
    if not good.any():
        raise InputError(path, "holds no usable Gaussian", TRAIN_ADVICE)
    if good.all():
        return splats
    log.warning("%s: left out %d Gaussians with values that are not finite", path, int((~good).sum()))
    return select(splats, good)


# --- out --------------------------------------------------------------------------------------------------------


def write_ply(path: Path, splats: Splats, *, owners: bool = False) -> None:
    """Write an INRIA-convention .ply, whole or not at all; `owners` adds a property that strict viewers refuse."""
    table = _table(splats, owners)
    files.write_bytes(path, _head(table.dtype, len(splats)) + table.tobytes())


def join_plys(path: Path, parts: Sequence[Path]) -> int:
    """Write the Gaussians of several files as one, as `write_ply` of them all; returns how many there are.

    One part at a time is in memory. All have the highest degree of any of them.
    """
    headers = [check_header(part) for part in parts]
    count = sum(header.count for header in headers)
    degree = max((SH_DEGREES[rest_count(header)] for header in headers), default=3)

    def write(draft: Path) -> None:
        with draft.open("wb") as file:
            file.write(_head(_table(empty(degree), owners=False).dtype, count))
            for part in parts:
                file.write(_table(with_sh_degree(read_ply(part), degree), owners=False).data)

    files.write_through(path, write)
    return count


def _head(dtype: np.dtype[np.void], count: int) -> bytes:
    """The header of so many rows."""
    assert dtype.names is not None
    lines = ["ply", "format binary_little_endian 1.0", f"element vertex {count}"]
    lines += [f"property {'int' if name == 'owner' else 'float'} {name}" for name in dtype.names]
    return "\n".join([*lines, "end_header", ""]).encode("ascii")


def _table(splats: Splats, owners: bool) -> Table:
    rest = splats.sh[:, 1:].transpose(0, 2, 1).reshape(len(splats), 3 * (splats.sh.shape[1] - 1))
    blocks = {
        "x y z": splats.means,
        "nx ny nz": np.zeros((len(splats), 3), np.float32),
        "f_dc_0 f_dc_1 f_dc_2": splats.sh[:, 0],
        " ".join(f"f_rest_{k}" for k in range(rest.shape[1])): rest,
        "opacity": splats.logit_opacities[:, None],
        "scale_0 scale_1 scale_2": splats.log_scales,
        "rot_0 rot_1 rot_2 rot_3": splats.quats,
    }
    names = [name for block in blocks for name in block.split()]
    dtype = [(name, "<f4") for name in names] + [("owner", "<i4")] * owners
    table = np.empty(len(splats), dtype=dtype)
    for block, values in blocks.items():
        for k, name in enumerate(block.split()):
            table[name] = values[:, k]
    if owners:
        table["owner"] = splats.owner
    return table


def write_splat(path: Path, splats: Splats) -> None:
    """Write the 32-byte web format (.splat)."""
    files.write_bytes(path, splat_bytes(splats))


def splat_bytes(splats: Splats) -> bytes:
    """The .splat format, 32 bytes each: position, linear scale, RGBA, quaternion; most visible first, no bands."""
    scales = np.exp(splats.log_scales)
    opacity = 1.0 / (1.0 + np.exp(-splats.logit_opacities.astype(np.float64)))
    order = np.argsort(-opacity * np.exp(splats.log_scales.astype(np.float64).sum(axis=1)), kind="stable")
    color = np.concatenate([0.5 + SH_C0 * splats.sh[:, 0].astype(np.float64), opacity[:, None]], axis=1)
    unit = splats.quats / np.linalg.norm(splats.quats, axis=1, keepdims=True)
    kinds = [("position", "<f4", 3), ("scale", "<f4", 3), ("rgba", "u1", 4), ("rotation", "u1", 4)]
    table = np.empty(len(splats), dtype=kinds)
    table["position"], table["scale"] = splats.means, scales
    table["rgba"] = np.round(np.clip(color, 0.0, 1.0) * 255.0)
    table["rotation"] = np.clip(np.round(unit * 128.0 + 128.0), 0, 255)
    return bytes(table[order].tobytes())
