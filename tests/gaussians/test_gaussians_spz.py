"""The .spz writer against a reader written from the format's description: what is seen stays what it was."""

from __future__ import annotations

import gzip
import struct
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from skyanchor.errors import InputError
from skyanchor.gaussians.harmonics import basis
from skyanchor.gaussians.splats import Splats
from skyanchor.gaussians.spz import write_spz
from skyanchor.geometry import rigid

TURN = np.diag([1.0, -1.0, -1.0])


def some_splats(count: int = 200, degree: int = 3) -> Splats:
    rng = np.random.default_rng(4)
    return Splats(
        rng.uniform(-300.0, 300.0, (count, 3)).astype(np.float32),
        rng.normal(size=(count, 4)).astype(np.float32),
        rng.uniform(-6.0, 1.0, (count, 3)).astype(np.float32),
        rng.uniform(-4.0, 4.0, count).astype(np.float32),
        rng.uniform(-0.4, 0.4, (count, (degree + 1) ** 2, 3)).astype(np.float32),
        np.zeros(count, np.int32),
    )


def read(path: Path) -> tuple[int, Splats]:
    """Bits after the point, and the Gaussians as they are stored."""
    raw = gzip.decompress(path.read_bytes())
    magic, version, count, degree, bits, flags, _ = struct.unpack("<IIIBBBB", raw[:16])
    assert (magic, version, flags) == (0x5053474E, 2, 0)
    bands = (degree + 1) ** 2 - 1
    widths = (9, 1, 3, 3, 3, 3 * bands)
    assert len(raw) == 16 + count * sum(widths)
    ends = 16 + count * np.cumsum((0, *widths))
    parts = [np.frombuffer(raw[a:b], np.uint8).astype(np.float64) for a, b in pairwise(ends)]
    low, middle, high = np.moveaxis(parts[0].reshape(count, 3, 3), 2, 0)
    whole = low + 256.0 * middle + 65536.0 * high
    means = np.where(whole >= 2**23, whole - 2**24, whole) / 2.0**bits
    alpha = np.clip(parts[1] / 255.0, 1e-3, 1.0 - 1e-3)
    xyz = parts[4].reshape(count, 3) / 127.5 - 1.0
    w = np.sqrt(np.maximum(0.0, 1.0 - (xyz**2).sum(axis=1, keepdims=True)))
    colour = (parts[2].reshape(count, 1, 3) / 255.0 - 0.5) / 0.15
    rest = (parts[5].reshape(count, bands, 3) - 128.0) / 128.0
    arrays = (
        means, np.concatenate([w, xyz], axis=1), parts[3].reshape(count, 3) / 16.0 - 10.0,
        np.log(alpha / (1.0 - alpha)), np.concatenate([colour, rest], axis=1),
    )  # fmt: skip
    return bits, Splats(*(array.astype(np.float32) for array in arrays), owner=np.zeros(count, np.int32))


def shapes(splats: Splats) -> np.ndarray:
    """(N, 3, 3), covariance over its largest variance."""
    turns = np.array([rigid.rotation_from_quaternion(q / np.linalg.norm(q)) for q in splats.quats.astype(np.float64)])
    variances = np.exp(2.0 * splats.log_scales.astype(np.float64))
    covariance = np.einsum("nij,nj,nkj->nik", turns, variances, turns)
    return covariance / variances.max(axis=1)[:, None, None]


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_places_shapes_and_colours_are_kept_half_a_turn_about_x(tmp_path: Path, degree: int) -> None:
    before = some_splats(degree=degree)
    write_spz(tmp_path / "a.spz", before)
    bits, after = read(tmp_path / "a.spz")
    assert bits == 12 and after.sh_degree == degree
    np.testing.assert_allclose(after.means, before.means @ TURN, atol=0.6 / 4096)
    np.testing.assert_allclose(after.log_scales, before.log_scales, atol=0.51 / 16)
    off = shapes(after) - TURN @ shapes(before) @ TURN
    assert np.sqrt(np.mean(off**2)) < 0.02 < 0.1 * np.std(shapes(before))
    opacity = [1.0 / (1.0 + np.exp(-one.logit_opacities)) for one in (before, after)]
    np.testing.assert_allclose(opacity[1], opacity[0], atol=0.51 / 255)
    directions = np.random.default_rng(5).normal(size=(30, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    seen = np.einsum("dk,nkc->ndc", basis(directions, degree), before.sh)
    again = np.einsum("dk,nkc->ndc", basis(directions @ TURN, degree), after.sh)
    assert np.sqrt(np.mean((seen - again) ** 2)) < 0.2 * np.std(seen)


def test_a_wide_scene_gets_fewer_bits_and_a_far_one_is_refused(tmp_path: Path) -> None:
    wide = replace(some_splats(), means=some_splats().means * np.float32(30.0))
    write_spz(tmp_path / "wide.spz", wide)
    bits, after = read(tmp_path / "wide.spz")
    assert bits == 9
    np.testing.assert_allclose(after.means, wide.means @ TURN, atol=0.6 / 512)
    far = replace(wide, means=wide.means + np.float32(4e6))
    with pytest.raises(InputError, match="cannot hold coordinates of 40"):
        write_spz(tmp_path / "far.spz", far)
    assert not (tmp_path / "far.spz").exists()


def test_another_reader_agrees(tmp_path: Path) -> None:
    gsply = pytest.importorskip("gsply")
    before = some_splats()
    write_spz(tmp_path / "a.spz", before)
    theirs, (_, ours) = gsply.read_spz(tmp_path / "a.spz"), read(tmp_path / "a.spz")
    np.testing.assert_allclose(theirs.means, ours.means, atol=1e-5)
    np.testing.assert_allclose(theirs.scales, ours.log_scales, atol=1e-5)
    np.testing.assert_allclose(theirs.sh0, ours.sh[:, 0], atol=1e-5)
    np.testing.assert_allclose(np.reshape(theirs.shN, ours.sh[:, 1:].shape), ours.sh[:, 1:], atol=1e-5)
    np.testing.assert_allclose(np.abs((theirs.quats * ours.quats).sum(axis=1)), 1.0, atol=0.02)
