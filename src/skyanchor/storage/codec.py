"""Frozen values to JSON or .npz and back, driven by their type annotations: exact, typed, no pickle.

`to_json` writes arrays as nested lists: for small results that people read. `pack` keeps arrays out of line in an
.npz archive: for depth maps, points, training state. Both are exact: the shortest decimal that names a float is the
same float when read back, and nan and the infinities are spelt as strings.
"""

from __future__ import annotations

import io
import json
import math
import mmap
import os
import struct
import types
import typing
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Json: TypeAlias = dict[str, Any] | list[Any] | str | int | float | bool | None
"""What json.dumps takes."""

T = TypeVar("T")

TAG = "kind"
"""Key that names the class where a union of dataclasses leaves it open."""

MAPPED_BYTES = 1 << 24
"""Arrays of a file from this size on stay there until they are looked at."""

_DOCUMENT = "document"
_HEADER, _ZIP64 = 30, 20
"""Bytes of a zip entry's header without its name, and of the field that holds large sizes."""
_LONGEST_HEAD = 1 << 16
"""Bytes before the values of a .npy file, at most."""
DAMAGE: tuple[type[Exception], ...] = (zipfile.BadZipFile, zlib.error, EOFError, LookupError, AttributeError)
DAMAGE += (TypeError, RuntimeError, SyntaxError, TokenError, struct.error, OverflowError, MemoryError)
"""What reading a file that is cut, altered or of another kind may raise, besides ValueError."""
UNREADABLE: tuple[type[Exception], ...] = (OSError, ValueError, ArithmeticError, *DAMAGE)
"""The same of a file that may also be absent or locked, whoever decodes it."""
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


# --- values to JSON -----------------------------------------------------------------------------------------------


def to_json(value: object) -> Json:
    """The value as plain JSON, arrays as nested lists."""
    return _encoded(value, None)


def dumps(value: object) -> str:
    """The value as indented JSON text that ends with a newline; same value, same text."""
    return json.dumps(to_json(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def pack(value: object) -> bytes:
    """The value as the bytes of an .npz archive: one JSON document and its arrays."""
    buffer = io.BytesIO()
    pack_into(buffer, value)
    return buffer.getvalue()


def pack_into(file: IO[bytes], value: object) -> None:
    """Write `pack` of the value to a file that is empty, piece by piece: arrays that are on a disk stay there."""
    arrays: list[npt.NDArray[Any]] = []
    document = json.dumps(_encoded(value, arrays), ensure_ascii=False, allow_nan=False).encode()
    entries: dict[str, Any] = {f"array{index}": array for index, array in enumerate(arrays)}
    entries[_DOCUMENT] = np.frombuffer(document, np.uint8)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in entries.items():
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.extra = _padding(file.tell() + len(entry.filename))
            with archive.open(entry, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _padding(before: int) -> bytes:
    """A field of a zip header, as zipalign writes it, after which the entry begins at a multiple of 64 bytes."""
    fill = -(before + _HEADER + _ZIP64 + 4) % 64
    return struct.pack("<HH", 0xD935, fill) + bytes(fill)


def _encoded(value: Any, arrays: list[npt.NDArray[Any]] | None, tag: bool = False) -> Json:
    if isinstance(value, np.ndarray):
        return _encoded_array(value, arrays)
    if isinstance(value, Enum):
        return _encoded(value.value, arrays)
    if isinstance(value, Path):
        return value.as_posix()
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return _encoded_float(float(value))
    if isinstance(value, Mapping):
        return {str(key): _encoded(item, arrays, tag) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_encoded(item, arrays, tag) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return _encoded_dataclass(value, arrays, tag)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _encoded_dataclass(value: Any, arrays: list[npt.NDArray[Any]] | None, tag: bool) -> Json:
    """Its fields by name, with the class name where the annotation alone does not tell the class."""
    named: dict[str, Json] = {TAG: type(value).__name__} if tag else {}
    kind: Any = type(value)
    quiet = _quiet(kind)
    for name, hint in _hints(kind).items():
        if name in quiet and getattr(value, name) == quiet[name]:
            continue
        named[name] = _encoded(getattr(value, name), arrays, _is_open(hint))
    return named


def _is_open(hint: Any) -> bool:
    """Whether the annotation allows several dataclasses, itself or in its items."""
    args = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType) and sum(is_dataclass(arg) for arg in args) > 1:
        return True
    return any(_is_open(arg) for arg in args)


def _encoded_float(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _encoded_array(array: npt.NDArray[Any], arrays: list[npt.NDArray[Any]] | None) -> Json:
    """Nested lists, or the array's place in the archive."""
    if array.dtype.hasobject:
        raise TypeError("arrays of Python objects have no JSON form")
    if arrays is not None:
        arrays.append(array)
        return len(arrays) - 1
    if array.size == 0:
        return {"shape": list(array.shape)}
    return _encoded(array.tolist(), None)


# --- JSON to values -----------------------------------------------------------------------------------------------


def from_json(kind: type[T], document: Json) -> T:
    """The value of type `kind` that `to_json` wrote; ValueError where the document does not fit the type."""
    try:
        return typing.cast(T, _decoded(kind, document, None))
    except DAMAGE as error:
        raise ValueError(f"not a {getattr(kind, '__name__', kind)}: {error}") from error


def loads(kind: type[T], text: str) -> T:
    """The value of type `kind` that `dumps` wrote; ValueError for any other text."""
    try:
        document = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return from_json(kind, document)


def unpack(kind: type[T], data: bytes) -> T:
    """The value of type `kind` that `pack` wrote; ValueError where the bytes are cut, altered or others."""
    return _unpacked(kind, io.BytesIO(data), len(data), stays=False)


def unpack_file(kind: type[T], path: Path) -> T:
    """The value in a file that `pack_into` wrote; its large arrays are read when they are looked at.

    They may be written to, which changes neither the file nor what other processes see. The file may be removed or
    replaced by another meanwhile, but must not be written to.
    """
    with path.open("rb") as file:
        return _unpacked(kind, file, os.fstat(file.fileno()).st_size, stays=True)


def mapped(kind: type[T], path: Path) -> T:
    """As `unpack_file`, with every array left in the file and read only where it is used.

    They cannot be written to. The file is open once, however many arrays it holds; checksums are not compared.
    """
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            held = {name: _array_in(data, entry) for name, entry in _entries(archive, len(data)).items()}
        document = json.loads(held.pop(_DOCUMENT).tobytes().decode())
        return typing.cast(T, _decoded(kind, document, [held[f"array{index}"] for index in range(len(held))]))
    except DAMAGE as error:
        raise ValueError(f"not a whole archive: {error}") from error


def _array_in(data: mmap.mmap, entry: zipfile.ZipInfo) -> npt.NDArray[Any]:
    """The array of a member of an archive, where it lies."""
    name, extra = struct.unpack_from("<HH", data, entry.header_offset + 26)
    first = entry.header_offset + _HEADER + name + extra
    head = io.BytesIO(data[first : min(first + entry.file_size, first + _LONGEST_HEAD)])
    shape, by_column, dtype = _header(head)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != entry.file_size - head.tell():
        raise ValueError("an array is not as large as it says")
    values = np.frombuffer(data, dtype, math.prod(shape), first + head.tell())
    return values.reshape(shape, order="F" if by_column else "C")


def _entries(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The members of an archive of so many bytes by name. None is compressed, so it cannot claim more than it has."""
    entries = archive.infolist()
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise ValueError("it is compressed, which `pack` never does")
    if sum(entry.file_size for entry in entries) > size:
        raise ValueError("it claims to hold more than it is large")
    return {entry.filename.removesuffix(".npy"): entry for entry in entries}


def _unpacked(kind: type[T], file: IO[bytes], size: int, stays: bool) -> T:
    """The value in an archive; its large arrays are left there where the file `stays`."""
    try:
        held = _members(file, size, stays)
        document = json.loads(held.pop(_DOCUMENT).tobytes().decode())
        arrays = [held[f"array{index}"] for index in range(len(held))]
        return typing.cast(T, _decoded(kind, document, arrays))
    except DAMAGE as error:
        raise ValueError(f"not a whole archive: {error}") from error


def _members(file: IO[bytes], size: int, stays: bool) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an archive by name."""
    with zipfile.ZipFile(file) as archive:
        entries = _entries(archive, size)
        mapped = {name: _mapped(archive, entry, file) if stays else None for name, entry in entries.items()}
        return {name: array_of(archive.read(entries[name])) if held is None else held for name, held in mapped.items()}


def _mapped(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, file: IO[bytes]) -> npt.NDArray[Any] | None:
    """A large array that stays in the file, after its checksum was compared; None for others.

    It is the opened file's: another may have its name by now.
    """
    if entry.file_size < MAPPED_BYTES:
        return None
    with archive.open(entry) as member:
        shape, by_column, dtype = _header(member)
        begin = member.tell()
        while member.read(1 << 20):
            pass
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != entry.file_size - begin:
        raise ValueError("an array is not as large as it says")
    file.seek(entry.header_offset)
    name, extra = struct.unpack_from("<HH", file.read(_HEADER), 26)
    offset = entry.header_offset + _HEADER + name + extra + begin
    if offset % 64:
        return None
    return np.asarray(np.memmap(file, dtype, "c", offset, shape, "F" if by_column else "C"))


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """(shape, whether columns lie together, type) of a .npy file, read up to its values."""
    version = np.lib.format.read_magic(file)
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_column, dtype = reader(file)
    return shape, by_column, dtype


def array_of(member: bytes) -> npt.NDArray[Any]:
    """The array of a .npy file's bytes; memory is taken only for what is there."""
    file = io.BytesIO(member)
    shape, by_column, dtype = _header(file)
    size = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or size != len(member) - file.tell():
        raise ValueError("an array is not as large as it says")
    values = np.frombuffer(bytearray(member[file.tell() :]), dtype)
    return values.reshape(shape, order="F" if by_column else "C")


def _decoded(kind: Any, document: Any, arrays: list[npt.NDArray[Any]] | None) -> Any:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if hasattr(origin, "__value__"):  # numpy's NDArray is an alias of its own kind from 2.5 on
        return _decoded(origin.__value__[args], document, arrays)
    if kind is Any:
        return document
    if origin in (typing.Union, types.UnionType):
        return _decoded(_member(args, document), document, arrays)
    if origin is np.ndarray:
        return _decoded_array(kind, document, arrays)
    if origin is tuple:
        return _decoded_tuple(args, document, arrays)
    if origin is list:
        return [_decoded(args[0], item, arrays) for item in _checked(isinstance(document, list), kind, document)]
    if origin in (dict, Mapping):
        return {key: _decoded(args[1], item, arrays) for key, item in document.items()}
    if origin is typing.Literal:
        return _checked(document in args, kind, document)
    return _decoded_plain(kind, document, arrays)


def _decoded_plain(kind: Any, document: Any, arrays: list[npt.NDArray[Any]] | None) -> Any:
    if is_dataclass(kind):
        return _decoded_dataclass(kind, document, arrays)
    if kind is type(None):
        return _checked(document is None, kind, document)
    if kind is float:
        return _decoded_float(document)
    if kind in (int, str, bool):
        return _checked(type(document) is kind, kind, document)
    if isinstance(kind, type) and issubclass(kind, Enum | Path):
        return kind(document)
    raise TypeError(f"{kind} cannot be read from JSON")


def _decoded_dataclass(kind: Any, document: Any, arrays: list[npt.NDArray[Any]] | None) -> Any:
    _checked(isinstance(document, dict) and document.get(TAG, kind.__name__) == kind.__name__, kind, document)
    hints = _hints(kind)
    unknown = set(document) - set(hints) - {TAG}
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {sorted(unknown)[0]!r}")
    return kind(**{name: _decoded(hints[name], document[name], arrays) for name in hints if name in document})


def _decoded_tuple(args: tuple[Any, ...], document: Any, arrays: list[npt.NDArray[Any]] | None) -> Any:
    _checked(isinstance(document, list), tuple, document)
    kinds = (args[0],) * len(document) if len(args) == 2 and args[1] is Ellipsis else args
    return tuple(_decoded(kind, item, arrays) for kind, item in zip(kinds, document, strict=True))


def _decoded_array(kind: Any, document: Any, arrays: list[npt.NDArray[Any]] | None) -> npt.NDArray[Any]:
    dtype = np.dtype(typing.get_args(typing.get_args(kind)[1])[0])
    if arrays is not None:
        return arrays[document]  # an archive knows its own types
    if isinstance(document, dict):
        return np.empty(_checked(0 in document["shape"], kind, document)["shape"], dtype)
    return np.array(document, dtype=object).astype(dtype)


def _decoded_float(document: Any) -> float:
    if isinstance(document, str):
        return _NON_FINITE[document]
    return float(_checked(type(document) in (int, float), float, document))


def _member(options: tuple[Any, ...], document: Any) -> Any:
    """The member of a union that a document belongs to: by null, by class name, else the first."""
    if document is None and type(None) in options:
        return type(None)
    if isinstance(document, dict) and TAG in document:
        return next((kind for kind in options if getattr(kind, "__name__", "") == document[TAG]), options[0])
    return next(kind for kind in options if kind is not type(None))


def _checked(fits: bool, kind: Any, document: Any) -> Any:
    if not fits:
        raise ValueError(f"expected {getattr(kind, '__name__', kind)}, found {str(document)[:60]!r}")
    return document


@lru_cache(maxsize=256)
def _hints(kind: Any) -> dict[str, Any]:
    return {name: hint for name, hint in typing.get_type_hints(kind).items() if name in {f.name for f in fields(kind)}}


@lru_cache(maxsize=256)
def _quiet(kind: Any) -> dict[str, Any]:
    """Defaults of the fields that are left out where they have them."""
    quiet = [field for field in fields(kind) if "quiet" in field.metadata]
    return {one.name: one.default if one.default_factory is MISSING else one.default_factory() for one in quiet}
