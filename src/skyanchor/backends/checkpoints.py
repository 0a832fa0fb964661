"""Tensors out of a checkpoint file, and nothing else: no code stored in a checkpoint is ever run."""

from __future__ import annotations

import argparse
import json
import mmap
import pickle
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from skyanchor.backends.weights import Weights, resolve
from skyanchor.errors import BackendError

NESTED = ("model", "state_dict", "model_state_dict")
"""Entries under which trainers keep the weights beside other things."""
HARMLESS = (argparse.Namespace,)
"""Types other than tensors and plain values that are let through; they only hold settings, which are ignored."""
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
DTYPES |= {"I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8}
DTYPES |= {"U8": torch.uint8, "BOOL": torch.bool}
"""Number types of the safetensors format."""


def checked(known: Weights, given: Path | None = None) -> Path:
    """The file of the weights, opened and read through for what it holds; BackendError where that cannot be them.

    Numbers stay on the disk where the format allows it, so that gigabytes take no longer than megabytes.
    """
    path = resolve(known, given)
    if not any(name.startswith(known.part) for name in read_state(path)):
        raise BackendError(f"{path} belongs to another network: it has no {known.part}*. Get it: {known.command}")
    return path


def read_state(path: Path) -> dict[str, Any]:
    """Tensors by name, on the CPU; BackendError when the file holds anything that could run code."""
    held = read_safetensors(path) if path.suffix == ".safetensors" else _unpickled(path)
    for name in NESTED:
        if isinstance(held, Mapping) and isinstance(held.get(name), Mapping):
            held = held[name]
    if not isinstance(held, Mapping) or not held:
        raise BackendError(f"{path} holds no weights by name. Give the checkpoint that its authors publish")
    return {str(name): value for name, value in held.items() if isinstance(value, torch.Tensor)}


def read_tensor(path: Path) -> Any:
    """The one tensor that a file holds."""
    held = _unpickled(path)
    if not isinstance(held, torch.Tensor):
        raise BackendError(f"{path} holds no single tensor. Give the file that its authors publish")
    return held


def _unpickled(path: Path) -> Any:
    """What the file holds, through torch's unpickler for weights alone; its advice to trust the file is kept back."""
    try:
        with torch.serialization.safe_globals(list(HARMLESS)), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except pickle.UnpicklingError:
        reason = "it holds objects that are no weights, which could run code"
        raise BackendError(f"{path} is refused: {reason}. Save its state_dict alone and give that") from None
    except (RuntimeError, EOFError, ValueError, LookupError, TypeError, AttributeError):
        raise BackendError(f"{path} cannot be read as a checkpoint. Download it again") from None


def read_safetensors(path: Path) -> dict[str, Any]:
    """Tensors of a .safetensors file: 8 bytes length, a JSON header with places, then the numbers."""
    try:
        return _safetensors(path)
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise BackendError(f"{path} is no whole .safetensors file ({error}). Download it again") from error


def _safetensors(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > path.stat().st_size:
            raise BackendError(f"{path} is cut off. Download it again")
        header = json.loads(file.read(length))
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    body = torch.frombuffer(whole, dtype=torch.uint8)[8 + length :]
    return {name: _tensor(body, entry) for name, entry in header.items() if name != "__metadata__"}


def _tensor(body: Any, entry: Mapping[str, Any]) -> Any:
    """One tensor of the file, in place; a copy where its numbers start at a byte at which no tensor may."""
    first, last = entry["data_offsets"]
    held, kind = body[first:last], DTYPES[entry["dtype"]]
    held = held.clone() if held.storage_offset() % kind.itemsize else held
    return held.view(kind).reshape(entry["shape"])


def load_into(network: Any, state: Mapping[str, Any], path: Path, what: str) -> None:
    """Give a network (which may be on the meta device) its weights; BackendError when some are missing or differ."""
    try:
        missing = network.load_state_dict(state, strict=False, assign=True).missing_keys
    except RuntimeError as error:
        raise BackendError(other_architecture(path, what, error)) from error
    if missing:
        raise BackendError(f"{path} is no checkpoint of {what}: {len(missing)} weights are missing, {missing[0]} first")


def other_architecture(path: Path, what: str, error: Exception) -> str:
    """The first of the differences that torch lists, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = lines[min(1, len(lines) - 1)] if lines else type(error).__name__
    return f"{path} belongs to another architecture than {what}: {first[:160]}"


@contextmanager
def without_downloads(local: Mapping[str, Path]) -> Iterator[None]:
    """While inside, weights that a package would download are read from local files; others are refused.

    `local` maps the end of an address to the file that holds the same weights.
    """
    hub = torch.hub
    originals = hub.load_state_dict_from_url, hub.download_url_to_file

    def refuse(url: str, *_: Any, **__: Any) -> None:
        raise BackendError(f"{url} would be downloaded. Get it into your weights folder or torch's cache first")

    def read(url: str, *_: Any, **__: Any) -> Any:
        path = next((path for ending, path in local.items() if url.endswith(ending)), None)
        return refuse(url) if path is None else read_state(path)

    hub.load_state_dict_from_url, hub.download_url_to_file = read, refuse
    try:
        yield
    finally:
        hub.load_state_dict_from_url, hub.download_url_to_file = originals
