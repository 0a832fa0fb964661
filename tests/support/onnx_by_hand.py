"""ONNX files by hand: a message is fields, a field is (number << 3 | kind) and a varint or bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def varint(value: int) -> bytes:
    low, rest = value & 127, value >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(name: str, values: np.ndarray) -> bytes:
    dims = b"".join(field(1, size) for size in values.shape)
    return dims + field(2, 1) + field(8, name) + field(9, values.astype("<f4").tobytes())


def shaped(name: str, shape: tuple[int, ...]) -> bytes:
    dims = b"".join(field(1, field(1, size)) for size in shape)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))


def write_convolution(path: Path, weights: np.ndarray, bias: np.ndarray, width: int, height: int) -> None:
    """A network of one 1 x 1 convolution, weights (out, 3, 1, 1), on pictures of one size."""
    kernel = field(5, field(1, "kernel_shape") + field(8, 1) + field(8, 1) + field(20, 7))
    node = field(1, "x") + field(1, "w") + field(1, "b") + field(2, "y") + field(4, "Conv") + kernel
    graph = field(1, node) + field(2, "net") + field(5, tensor("w", weights)) + field(5, tensor("b", bias))
    graph += field(11, shaped("x", (1, 3, height, width))) + field(12, shaped("y", (1, len(bias), height, width)))
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13)))
