"""What contents are known by: digests of bytes, of files and of many of them together."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

from skyanchor.errors import InputError


def digest(data: bytes) -> str:
    """BLAKE2b of the bytes, 128 bit, hexadecimal."""
    return blake2b(data, digest_size=16).hexdigest()


def file_digest(path: Path) -> str:
    """`digest` of a file's contents."""
    state = blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                state.update(block)
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise InputError(path, problem, "Check that the file exists and that you may read it.") from error
    return state.hexdigest()


def joint_digest(each: Mapping[str, str]) -> str:
    """One digest of named digests; their order does not matter."""
    return digest("".join(f"{name}\0{value}\n" for name, value in sorted(each.items())).encode())
