"""Photos from disk: colours, sizes, undistortion, masks, order, and the bounded cache."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pytest

from skyanchor import photos
from skyanchor.errors import InputError
from skyanchor.geometry import cameras
from skyanchor.photos import PhotoCache, find_mask, load_photo, natural_key, photo_size, read_mask, read_pixels
from skyanchor.types import Camera, Photo

CAMERA = Camera("PINHOLE", 80, 60, (70.0, 70.0, 40.0, 30.0))


def write(path: Path, pixels: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), pixels)
    return path


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """Red on the left half, blue on the right; OpenCV writes BGR."""
    pixels = np.zeros((60, 80, 3), np.uint8)
    pixels[:, :40, 2], pixels[:, 40:, 0] = 255, 255
    return write(tmp_path / "images" / "a.png", pixels)


def test_pixels_are_rgb(photo: Path) -> None:
    pixels = read_pixels(photo)
    assert pixels[30, 10].tolist() == [255, 0, 0] and pixels[30, 70].tolist() == [0, 0, 255]


def test_photo_is_scaled_with_its_camera(photo: Path) -> None:
    loaded, camera = load_photo("a", photo, CAMERA, 40)
    assert loaded.pixels.shape == (30, 40, 3) and (camera.width, camera.height) == (40, 30)
    assert camera.params == (35.0, 35.0, 20.0, 15.0)
    whole, same = load_photo("a", photo, CAMERA, 4000)  # never enlarged
    assert whole.pixels.shape == (60, 80, 3) and same == CAMERA


def test_distorted_photo_comes_with_the_pinhole_it_now_has(photo: Path) -> None:
    camera = Camera("SIMPLE_RADIAL", 80, 60, (70.0, 40.0, 30.0, 0.3))
    loaded, target = load_photo("a", photo, camera, 80)
    assert target.model == "PINHOLE" and np.allclose(cameras.calibration(target), cameras.calibration(camera))
    assert loaded.pixels[30, 10].tolist() == [255, 0, 0]


def test_photo_of_another_size_is_refused(photo: Path) -> None:
    other = Camera("PINHOLE", 160, 120, (70.0, 70.0, 80.0, 60.0))
    with pytest.raises(InputError, match="is 80x60 but its camera says 160x120"):
        load_photo("a", photo, other, 80)
    with pytest.raises(InputError, match="cannot be read as an image"):
        read_pixels(photo.parent / "none.png")


def test_masks_are_true_where_the_photo_may_be_used(photo: Path) -> None:
    mask = np.zeros((60, 80), np.uint8)
    mask[:, 20:] = 255
    path = write(photo.parent.parent / "masks" / "a.png.png", mask)
    assert find_mask(photo.parent, "a.png") == path and find_mask(photo.parent, "b.png") is None
    assert read_mask(path, 80, 60).sum() == 60 * 60
    loaded, _ = load_photo("a", photo, CAMERA, 40, path)
    assert loaded.mask is not None and not loaded.mask[:, :9].any() and loaded.mask[:, 11:].all()
    write(path, mask[:30])
    with pytest.raises(InputError, match="is 80x30 but its photo is 80x60"):
        load_photo("a", photo, CAMERA, 40, path)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
@pytest.mark.parametrize("kind", ["png", "jpg", "bmp", "tif"])
def test_size_and_cut_off_files(tmp_path: Path, kind: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (60, 80, 3), dtype=np.uint8)
    path = write(tmp_path / f"a.{kind}", pixels)
    assert photo_size(path) == (80, 60)
    path.write_bytes(path.read_bytes()[:-1500])
    with pytest.raises(InputError, match=rf"a\.{kind}: (is cut off before its end|cannot be read as an image)"):
        photo_size(path)


def test_bytes_behind_a_whole_jpeg_do_no_harm(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jpg", np.random.default_rng(0).integers(0, 255, (60, 80, 3), dtype=np.uint8))
    path.write_bytes(path.read_bytes() + b"MotionPhoto_Data" * 100)
    assert photo_size(path) == (80, 60)


def test_natural_order() -> None:
    names = ["frame1", "frame2", "Frame3", "frame10", "frame010b", "frame11", "g1", "x/2/a9", "x/10/a1"]
    shuffled = random.Random(0).sample(names, len(names))
    assert sorted(shuffled, key=natural_key) == names


def test_cache_gives_the_same_object_and_forgets_the_oldest(photo: Path) -> None:
    cache = PhotoCache(limit_bytes=3 * 60 * 80 * 2)  # two whole photos
    paths = [photo, *(write(photo.parent / f"{k}.png", read_pixels(photo)) for k in range(2))]
    first = cache.photo("a", paths[0], CAMERA, 80)
    assert cache.photo("a", paths[0], CAMERA, 80) is first
    for path in paths[1:]:
        cache.photo(path.name, path, CAMERA, 80)
    assert cache.photo("a", paths[0], CAMERA, 80) is not first


def test_a_cache_that_threads_share_counts_each_photo_once(photo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both threads find the photo missing and read it; one of the two is kept, and its bytes are counted once."""
    both_read = threading.Barrier(2)

    def slow(*given: object) -> tuple[Photo, Camera]:
        loaded = load_photo("a", photo, CAMERA, 80)
        both_read.wait(timeout=10.0)
        return loaded

    monkeypatch.setattr(photos, "load_photo", slow)
    cache = PhotoCache()
    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(cache.photo, "a", photo, CAMERA, 80) for _ in range(2)]
        assert {one.result()[0].pixels.shape for one in found} == {(60, 80, 3)}
    assert cache._bytes == 3 * 60 * 80
    assert any(cache.photo("a", photo, CAMERA, 80) is one.result() for one in found)
