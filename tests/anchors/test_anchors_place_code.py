"""Descriptors in few bits: what comes back is near what went in, and cosines with it mean what they did."""

from __future__ import annotations

import numpy as np
import pytest

from skyanchor.anchors.place_code import BITS, encoded
from skyanchor.types import Floats32


def drawn(count: int, size: int = 64, seed: int = 4) -> Floats32:
    """(N, D) unit vectors with a mean in common and axes of unequal use, as those of a network are."""
    rng = np.random.default_rng(seed)
    axes, _ = np.linalg.qr(rng.normal(size=(size, size)))
    spread = 0.26 * np.exp(-np.arange(size) / (0.2 * size))
    held = axes[0] * 0.8 + (rng.normal(size=(count, size)) * spread) @ axes.T
    return (held / np.linalg.norm(held, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("size", [64, 128, 30])
def test_what_comes_back_is_near_what_went_in(size: int) -> None:
    held = drawn(5000, size)
    code, packed = encoded(held)
    assert packed.shape == (5000, max(1, round(BITS * size / 8)))
    off = np.linalg.norm(code.decoded(packed) - held, axis=1)
    assert np.median(off) < 0.06 and off.max() < 0.4  # what lies beyond the range of its axis is kept as its end
    even = np.abs(held).max() / 2.0**3.5  # half a step of as many bits, the same for every component
    assert np.sqrt((off**2).mean()) < 0.4 * even * np.sqrt(size / 3.0)


def test_bits_of_an_axis_count_up_from_its_lower_end() -> None:
    """One axis alone is in use: steps of 1 / 256 of its range, each half a step off at most."""
    line = np.linspace(-1.0, 1.0, 4001)
    direction = np.array([0.6, 0.8, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    held = (0.1 + line[:, None] * direction).astype(np.float32)
    code, packed = encoded(held)
    back = (code.decoded(packed) - 0.1) @ direction
    inside = np.abs(line) < 0.999
    assert np.abs(back - line)[inside].max() <= 0.5 * 2.0 / 256 + 1e-5
    assert len(np.unique(back.round(4))) == 256


def test_cosines_of_kept_descriptors_keep_their_mean() -> None:
    """A threshold on cosines means the same for what was kept: no shift, and a spread of less than 0.01."""
    held = drawn(4000)
    rng = np.random.default_rng(5)
    asked = held + 0.05 * rng.normal(size=held.shape).astype(np.float32)
    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
    code, packed = encoded(held)
    off = ((code.decoded(packed) - held) * asked).sum(axis=1)
    assert abs(off.mean()) < 0.001 and off.std() < 0.01


def test_descriptors_that_differ_little_or_not_at_all() -> None:
    same = np.repeat(drawn(1), 3, axis=0)
    for held in (same, same[:1], np.zeros((4, 64), np.float32)):
        code, packed = encoded(held)
        assert np.allclose(code.decoded(packed), held, atol=1e-6)


def test_the_same_descriptors_are_the_same_bytes() -> None:
    one, other = (encoded(drawn(300)) for _ in range(2))
    assert one[1].tobytes() == other[1].tobytes() and np.array_equal(one[0].steps, other[0].steps)
