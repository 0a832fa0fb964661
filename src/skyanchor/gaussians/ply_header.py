"""What a .ply says about its vertices, and whether they are explicit Gaussians of the INRIA convention."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from skyanchor.errors import InputError

NUMPY_TYPES = {"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4"}
NUMPY_TYPES |= {"float": "f4", "double": "f8", "float32": "f4", "float64": "f8"}
NUMPY_TYPES |= {"int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4"}
BYTE_ORDERS = {"binary_little_endian": "<", "binary_big_endian": ">", "ascii": "="}
SH_DEGREES = {0: 0, 9: 1, 24: 2, 45: 3}
"""By the number of f_rest properties."""
REST_COUNTS = tuple(SH_DEGREES)
LARGEST_HEADER = 1 << 16
"""Bytes; an INRIA header has 1.5 kB."""

PACKED = "packed_position"
"""A property of SuperSplat's compressed .ply, whose vertices come after an element `chunk`."""

TRAIN_ADVICE = "Give a 3D Gaussian .ply of the INRIA convention (as gsplat, Splatfacto or 3DGS export it)."


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


def rest_count(header: Header) -> int:
    """How many f_rest properties there are."""
    return sum(name.startswith("f_rest_") for name in header.names)


def dtype_of(header: Header) -> list[tuple[str, str]]:
    """A record of a vertex, (name, numpy type) of each property."""
    return [(name, header.byte_order + kind) for name, kind in header.properties]


def row_size(header: Header) -> int:
    """Bytes of a Gaussian."""
    return np.dtype(dtype_of(header)).itemsize
