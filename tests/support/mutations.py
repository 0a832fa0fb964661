"""Files altered as disks, transfers and other programs alter them: a bounded number of ways, the same every time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

NUMBERS = (0, 1, 0x7F, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 1 << 40)
"""Counts, ids and lengths that break things."""
FLOATS = (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e300, 1e-300)
WORDS = (
    *(b"nan", b"-1", b"0", b"1e999", b"99999999999999999999", b"null", b"[]", b"{}", b'""', b"\xff\xfe", b"", b"["),
    *(b"[" * 5000, b"1" * 5000, b"true", b"../../x", b"\0", b"\n", b"#", b"-inf", b"0x10", b"\xe2\x80\xa8"),
)


def mutated(data: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """So many altered copies of a file's bytes."""
    rng = np.random.default_rng(seed)
    yield b""
    for _ in range(count - 1):
        altered = bytearray(data)
        for _ in range(int(rng.integers(1, 4))):
            _alter(altered, rng)
        yield bytes(altered)


def _alter(data: bytearray, rng: np.random.Generator) -> None:
    at = int(rng.integers(0, len(data) + 1)) if rng.random() < 0.5 else int(rng.integers(0, min(len(data), 96) + 1))
    how = int(rng.integers(0, 7))
    if how == 0:
        del data[at:]
    elif how == 1 and at < len(data):
        data[at] ^= 1 << int(rng.integers(0, 8))
    elif how == 2:
        width = int(rng.choice([1, 2, 4, 8]))
        number = NUMBERS[rng.integers(len(NUMBERS))] & ((1 << 8 * width) - 1)
        data[at : at + width] = number.to_bytes(width, "little")
    elif how == 3:
        data[at : at + 8] = np.array(FLOATS[rng.integers(len(FLOATS))], "<f8").tobytes()
    elif how == 4:
        _replace_word(data, at, WORDS[rng.integers(len(WORDS))])
    elif how == 5:
        piece = data[at : at + int(rng.integers(1, 64))]
        data[at:at] = piece
    else:
        del data[at : at + int(rng.integers(1, 64))]


def _replace_word(data: bytearray, at: int, word: bytes) -> None:
    """Put a word where the number or name around a place stands."""
    stop = b' ,:[]{}\n\t"'
    first = at
    while first > 0 and data[first - 1] not in stop:
        first -= 1
    last = at
    while last < len(data) and data[last] not in stop:
        last += 1
    data[first : min(last, first + 64)] = word
