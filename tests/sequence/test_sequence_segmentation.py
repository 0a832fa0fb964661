"""Masks from a segmentation network: a tiny ONNX file that calls blue pixels sky."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from onnx_by_hand import write_convolution

from skyanchor.cli.main import main
from skyanchor.errors import BackendError, InputError
from skyanchor.events import Event, Progress
from skyanchor.sequence import load_sequence
from skyanchor.sequence.networks import load_network
from skyanchor.sequence.segmentation import SegmentationConfig, labels_of, usable, write_masks


def blue_is_class_ten(path: Path, width: int, height: int) -> None:
    """A 1 x 1 convolution with 11 classes: the last where blue is stronger than red, else the first."""
    weights, bias = np.zeros((11, 3, 1, 1)), np.full(11, -9.0)
    weights[10, :, 0, 0], bias[0], bias[10] = (-1.0, 0.0, 1.0), 0.0, -0.5
    write_convolution(path, weights, bias, width, height)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "walk/images"
    folder.mkdir(parents=True)
    blue_is_class_ten(tmp_path / "net.onnx", 128, 64)
    for k in range(6):
        image = np.full((120, 256, 3), (90, 100, 110), np.uint8)
        image[: 40 + 2 * k] = (250, 120, 20)  # BGR: sky above
        assert cv2.imwrite(str(folder / f"{k}.png"), image)
    return folder


CONFIG = SegmentationConfig(longest=128, multiple=32, grow=0.0)


def test_blue_sky_is_masked_and_the_sequence_finds_it(photos: Path, tmp_path: Path) -> None:
    told: list[Event] = []
    out = write_masks(tmp_path / "walk", tmp_path / "net.onnx", CONFIG, told.append)
    assert out == tmp_path / "walk/masks" and isinstance(told[-1], Progress) and told[-1].done == 6
    mask = cv2.imread(str(out / "3.png.png"), cv2.IMREAD_GRAYSCALE)
    assert mask.shape == (120, 256) and set(np.unique(mask)) == {0, 255}
    rows = np.flatnonzero((mask > 0).all(axis=1))
    assert abs(int(rows[0]) - 46) <= 2 and len(rows) == 120 - rows[0] and not mask[:44].any()
    frames = load_sequence(tmp_path / "walk").frames
    assert [frame.mask_path for frame in frames] == [out / f"{k}.png.png" for k in range(6)]


def test_masks_that_are_there_stay(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "walk/masks").mkdir()
    (tmp_path / "walk/masks/2.png.png").write_bytes(b"mine")
    write_masks(photos, tmp_path / "net.onnx", CONFIG)
    assert (tmp_path / "walk/masks/2.png.png").read_bytes() == b"mine"
    assert len(list((tmp_path / "walk/masks").iterdir())) == 6


def test_masked_regions_are_widened() -> None:
    labels = np.zeros((50, 100), np.int64)
    labels[20:30, 40:60], labels[5, 5] = 11, 3
    keep = usable(labels, SegmentationConfig(grow=0.03))
    assert not keep[17:33, 45:55].any() and keep[16].all() and keep[5, 5] and not keep[25, 37] and keep[25, 36]


def test_wrong_files_are_told(tmp_path: Path, photos: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        load_network(tmp_path / "none.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"not a network at all")
    with pytest.raises(BackendError, match="no network that OpenCV can read"):
        load_network(tmp_path / "bad.onnx")


def test_classes_instead_of_scores() -> None:
    class Labels:
        def setInput(self, blob: np.ndarray) -> None:
            self.shape = blob.shape

        def forward(self) -> np.ndarray:
            return np.repeat(np.array([10.0, 0.0]), [16, 16])[None, :, None] * np.ones((1, 32, 64))

    found = labels_of(Labels(), np.zeros((100, 200, 3), np.uint8), SegmentationConfig(longest=64, multiple=32))
    assert found.shape == (100, 200) and (found[:48] == 10).all() and (found[52:] == 0).all()


def test_the_command_line_writes_them(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["masks", str(photos), "--model", str(tmp_path / "net.onnx"), "--longest", "128"]) == 0
    assert "walk/masks" in capsys.readouterr().out
    assert not cv2.imread(str(tmp_path / "walk/masks/0.png.png"))[:30].any()
