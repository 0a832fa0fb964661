"""Splat files: INRIA-convention .ply in and out, gsplat checkpoints in, .splat out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from skyanchor.errors import InputError
from skyanchor.gaussians.harmonics import SH_C0
from skyanchor.gaussians.splats import Splats, empty, select, with_sh_degree
from skyanchor.storage import codec, files
from skyanchor.storage.foreign import refuse_no_file
from skyanchor.types import Bools, Bytes, Floats, Floats32

log = logging.getLogger(__name__)

Table: TypeAlias = npt.NDArray[np.void]

NUMPY_TYPES = {"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4"}
NUMPY_TYPES |= {"float": "f4", "double": "f8", "float32": "f4", "float64": "f8"}
NUMPY_TYPES |= {"int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4"}
BYTE_ORDERS = {"binary_little_endian": "<", "binary_big_endian": ">", "ascii": "="}
SH_DEGREES = {0: 0, 9: 1, 24: 2, 45: 3}
"""By the number of f_rest properties."""
REST_COUNTS = tuple(SH_DEGREES)
FLAT_LOG_RATIO = float(np.log(1e-3))
"""A 2DGS disc gets a third scale of 1/1000 of its smaller one."""
CHECKPOINTS = (".pt", ".pth", ".ckpt")
"""Endings of a gsplat trainer's files."""
LARGEST_HEADER = 1 << 16
"""Bytes; an INRIA header has 1.5 kB."""

PACKED = "packed_position"
"""A property of SuperSplat's compressed .ply, whose vertices come after an element `chunk`."""

TRAIN_ADVICE = "Give a 3D Gaussian .ply of the INRIA convention (as gsplat, Splatfacto or 3DGS export it)."
CHECKED_AT_ONCE = 1 << 16
"""Gaussians looked through at a time."""


@dataclass(frozen=True)
class Header:
    """What a .ply says about its vertices."""

    byte_order: str
    count: int
    properties: tuple[tuple[str, str], ...]
    """(name, numpy type without byte order)."""
    size: int
    """Bytes up to the first vertex."""

    @property
    def names(self) -> tuple[str, ...]:
        """Property names in file order."""
        return tuple(name for name, _ in self.properties)


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
    dtype = np.dtype(_dtype(header))
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


def row_size(header: Header) -> int:
    """Bytes of a Gaussian."""
    return np.dtype(_dtype(header)).itemsize


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
    rest_count = _rest_count(header)
    dc = _columns(table, ("f_dc_0", "f_dc_1", "f_dc_2"))[:, None]
    rest = _columns(table, tuple(f"f_rest_{k}" for k in range(rest_count)))
    return np.concatenate([dc, rest.reshape(len(table), 3, rest_count // 3).transpose(0, 2, 1)], axis=1)


def _rest_count(header: Header) -> int:
    return sum(name.startswith("f_rest_") for name in header.names)


def _columns(table: Table, names: tuple[str, ...], dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
    """(N, len(names)) of the named properties."""
    columns = np.empty((len(table), len(names)), dtype)
    for k, name in enumerate(names):
        columns[:, k] = table[name]
    return columns


def read_header(path: Path) -> Header:
    """What the file says about its vertices; InputError when it is no .ply."""
    with path.open("rb") as file:
        return header_in(path, file.read(LARGEST_HEADER), path.stat().st_size)


def header_in(path: Path, head: bytes, size: int) -> Header:
    """What the first bytes of a file of so many say about its vertices."""
    end = head.find(b"end_header")
    newline = head.find(b"\n", end)
    if not head.startswith(b"ply") or end < 0 or newline < 0:
        raise InputError(path, "is not a .ply file (no header found)", TRAIN_ADVICE)
    lines = head[:end].decode("ascii", errors="replace").split("\n")
    try:
        header = _parse_header(lines, newline + 1)
    except (KeyError, ValueError, IndexError) as error:
        raise InputError(path, f"has a .ply header that cannot be understood ({error})", TRAIN_ADVICE) from error
    if header.count > size:
        raise InputError(path, f"is cut short: it announces {header.count} Gaussians", "Copy or export the file again.")
    return header


def check_header(path: Path) -> Header:
    """The header of a .ply that holds explicit Gaussians; InputError for any other."""
    header = read_header(path)
    _refuse_other_conventions(path, header)
    return header


def _parse_header(lines: list[str], size: int) -> Header:
    byte_order, count, properties, element, ahead = "", -1, [], "", ""
    for line in lines[1:]:
        words = line.split()
        if not words or words[0] in ("comment", "obj_info"):
            continue
        if words[0] == "format":
            byte_order = BYTE_ORDERS[words[1]]
        elif words[0] == "element":
            element = words[1]
            ahead = ahead or ("" if count >= 0 or element == "vertex" else element)
            count = int(words[2]) if element == "vertex" else count
        elif words[0] == "property" and element == "vertex":
            properties.append((words[2], NUMPY_TYPES[words[1]]))
    if not byte_order or count < 0:
        raise ValueError("no format or no vertices")
    twice = next((name for k, (name, _) in enumerate(properties) if name in dict(properties[:k])), None)
    if twice is not None:
        raise ValueError(f"it has the property {twice} twice")
    if ahead and PACKED not in dict(properties):
        raise ValueError(f"its first element is {ahead}, not vertex")
    return Header(byte_order, count, tuple(properties), size)


def _refuse_other_conventions(path: Path, header: Header) -> None:
    """Raise unless the properties are those of explicit Gaussians."""
    names = set(header.names)
    if any(name.startswith(("f_offset", "f_anchor_feat")) for name in names):
        raise InputError(
            path,
            "holds anchors of a Scaffold-GS, Octree-GS or Horizon-GS model, whose Gaussians live in its networks",
            "Export explicit 3D Gaussians from that trainer, or leave the .ply out and run `skyanchor scaffold train`.",
        )
    if PACKED in names:
        raise InputError(path, "is a compressed splat .ply", "Export it as a plain .ply first, SuperSplat can.")
    wanted = {"x", "y", "z", "opacity", "scale_0", "scale_1"}
    wanted |= {f"rot_{k}" for k in range(4)} | {f"f_dc_{k}" for k in range(3)}
    if missing := sorted(wanted - names):
        raise InputError(path, f"has no Gaussians (no property {', '.join(missing)})", TRAIN_ADVICE)
    rest = sorted(name for name in names if name.startswith("f_rest_"))
    if len(rest) not in REST_COUNTS or rest != sorted(f"f_rest_{k}" for k in range(len(rest))):
        raise InputError(path, f"has {len(rest)} f_rest properties; SH degree 0 to 3 has 0, 9, 24 or 45", TRAIN_ADVICE)


def _read_table(path: Path, header: Header) -> Table:
    if header.byte_order == "=":
        return _read_ascii(path, header)
    _refuse_cut(path, header)
    return np.fromfile(path, dtype=_dtype(header), count=header.count, offset=header.size)


def _refuse_cut(path: Path, header: Header) -> None:
    size, held = np.dtype(_dtype(header)).itemsize, path.stat().st_size - header.size
    if held < header.count * size:
        raise InputError(
            path,
            f"is cut short: {held // size} of {header.count} Gaussians are there",
            "Copy or export the file again.",
        )


def _dtype(header: Header) -> list[tuple[str, str]]:
    return [(name, header.byte_order + kind) for name, kind in header.properties]


def _rows(data: bytes, header: Header) -> Bytes:
    """(N, row size) of a whole file."""
    return np.frombuffer(data, np.uint8, offset=header.size).reshape(header.count, row_size(header))


def table_of(rows: Bytes, header: Header) -> Table:
    """A view of contiguous row bytes (N, row size) as records."""
    return rows.view(np.dtype(_dtype(header)))[:, 0]


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


# --- gsplat checkpoint in ---------------------------------------------------------------------------------------


def read_gsplat_checkpoint(path: Path, offset: Floats | None = None) -> Splats:
    """The Gaussians of a gsplat trainer's .pt (entry `splats`), read without unpickling code."""
    import pickle

    import torch

    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
        parts = {name: np.atleast_1d(value.detach().numpy()) for name, value in stored["splats"].items()}
        means, quats, scales = parts["means"], parts["quats"], parts["scales"]
        sh = np.concatenate([parts["sh0"], parts["shN"]], axis=1)
        opacities = parts["opacities"]
    except pickle.UnpicklingError:  # torch's own text ends in the advice to trust the file
        raise InputError(path, "is not a gsplat checkpoint (it holds more than tensors)", TRAIN_ADVICE) from None
    except codec.UNREADABLE as error:
        reason = str(error).split("\n")[0]
        raise InputError(path, f"is not a gsplat checkpoint ({reason})", TRAIN_ADVICE) from None
    _refuse_other_shapes(path, {"means": means, "quats": quats, "scales": scales, "opacities": opacities, "sh": sh})
    if offset is not None:
        means = means.astype(np.float64) - offset
    return Splats(
        means.astype(np.float32),
        quats.astype(np.float32),
        scales.astype(np.float32),
        opacities.reshape(-1).astype(np.float32),
        sh.astype(np.float32),
        np.zeros(len(means), np.int32),
    )


def _refuse_other_shapes(path: Path, parts: dict[str, npt.NDArray[Any]]) -> None:
    """Raise unless the arrays are those of one set of Gaussians."""
    count = len(parts["means"])
    bands: set[tuple[int, ...]] = {(rest // 3 + 1, 3) for rest in REST_COUNTS}
    wanted: dict[str, set[tuple[int, ...]]]
    wanted = {"means": {(3,)}, "quats": {(4,)}, "scales": {(3,)}, "opacities": {(), (1,)}, "sh": bands}
    for name, array in parts.items():
        if array.dtype.kind != "f" or array.shape[1:] not in wanted[name] or len(array) != count:
            problem = f"is no checkpoint of Gaussians ({name} is {array.dtype} of {array.shape})"
            raise InputError(path, problem, TRAIN_ADVICE)


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
    degree = max((SH_DEGREES[_rest_count(header)] for header in headers), default=3)

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
