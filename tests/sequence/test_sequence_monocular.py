"""Depth maps from a network that the user has: a tiny random one, whose answer is known by hand."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from onnx_by_hand import write_convolution

from skyanchor.anchors.shape.depth import depth_of_frames
from skyanchor.anchors.shape.incremental import LocalConfig
from skyanchor.cli.main import main
from skyanchor.errors import BackendError
from skyanchor.sequence import SequenceConfig, load_sequence
from skyanchor.sequence.depth_files import read_depth
from skyanchor.sequence.monocular import MonocularConfig, depth_of, write_depth
from skyanchor.sequence.networks import MEAN, SPREAD, load_network
from skyanchor.types import Bytes, Floats

CONFIG = MonocularConfig(longest=56, multiple=14)
RNG = np.random.default_rng(0)
WEIGHTS, BIAS = RNG.uniform(0.1, 1.0, (1, 3, 1, 1)), np.array([8.0])


def _answer(pixels: Bytes) -> Floats:
    normal = (pixels / 255.0 - MEAN) / SPREAD
    return np.asarray(normal @ WEIGHTS[0, :, 0, 0] + BIAS[0])


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "walk/images"
    folder.mkdir(parents=True)
    write_convolution(tmp_path / "net.onnx", WEIGHTS, BIAS, 56, 28)
    for k in range(6):
        image = np.zeros((56, 112, 3), np.uint8)
        image[:, 56:] = (40 + 20 * k, 90, 200)
        assert cv2.imwrite(str(folder / f"{k}.png"), image)
    return folder


@pytest.mark.parametrize("inverse", [False, True])
def test_the_maps_are_those_that_groups_look_for(photos: Path, tmp_path: Path, inverse: bool) -> None:
    words = ["--longest", "56", *(["--inverse"] if inverse else [])]
    assert main(["depth", str(photos), "--model", str(tmp_path / "net.onnx"), *words]) == 0
    out = tmp_path / "walk/depth"
    depth, _ = read_depth(out / "3.png.npz")
    assert depth.shape == (28, 56)
    left, right = (_answer(np.array(colour)) for colour in ((0, 0, 0), (200, 90, 100)))
    wanted = [1.0 / value if inverse else value for value in (left, right)]
    np.testing.assert_allclose([depth[5, 5], depth[20, 50]], wanted, rtol=2e-3)
    walk = load_sequence(tmp_path / "walk", SequenceConfig(camera="f=100"))
    at = depth_of_frames(walk, (2, 3), LocalConfig(depth=out))
    assert at is not None
    np.testing.assert_allclose(at(1, np.array([[10.0, 10.0], [100.0, 40.0]])), wanted, rtol=2e-3)


def test_maps_that_are_there_stay(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "walk/depth").mkdir()
    (tmp_path / "walk/depth/2.png.npz").write_bytes(b"mine")
    assert write_depth(photos, tmp_path / "net.onnx", CONFIG) == tmp_path / "walk/depth"
    assert (tmp_path / "walk/depth/2.png.npz").read_bytes() == b"mine"
    assert len(list((tmp_path / "walk/depth").iterdir())) == 6


def test_an_answer_that_is_no_depth_is_told(tmp_path: Path) -> None:
    picture = np.full((28, 56, 3), 128, np.uint8)
    write_convolution(tmp_path / "two.onnx", RNG.normal(size=(2, 3, 1, 1)), np.zeros(2), 56, 28)
    with pytest.raises(BackendError, match="2 x 28 x 56 numbers"):
        depth_of(load_network(tmp_path / "two.onnx"), picture, CONFIG)
    write_convolution(tmp_path / "below.onnx", WEIGHTS, np.array([-9.0]), 56, 28)
    with pytest.raises(BackendError, match="no depth above 0"):
        depth_of(load_network(tmp_path / "below.onnx"), picture, CONFIG)


def test_where_the_network_is_silent_there_is_no_depth(tmp_path: Path) -> None:
    picture = np.zeros((28, 56, 3), np.uint8)
    picture[:, 28:] = 255
    write_convolution(tmp_path / "net.onnx", WEIGHTS, np.array([0.0]), 56, 28)
    for inverse in (False, True):
        found = depth_of(load_network(tmp_path / "net.onnx"), picture, MonocularConfig(56, 14, inverse))
        assert not found[:, :28].any() and (found[:, 28:] > 0).all() and np.isfinite(found).all()
