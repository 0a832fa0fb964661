"""Folders of street photos: order, camera, masks, and every way they can be wrong."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image
from sequence_fixture import exif_of, write_photo, write_walk

from skyanchor.errors import InputError
from skyanchor.sequence import SequenceConfig, SubmapConfig, load_sequence


def refused(path: Path, match: str, config: SequenceConfig | None = None, frames: Path | None = None) -> None:
    with pytest.raises(InputError, match=match) as caught:
        load_sequence(path, config, frames)
    assert "\n" not in str(caught.value)


def test_natural_order_and_a_guess(tmp_path: Path) -> None:
    sequence = load_sequence(write_walk(tmp_path, 14))
    assert [frame.name for frame in sequence.frames] == [f"frame{k + 1}.jpg" for k in range(14)]
    assert [frame.index for frame in sequence.frames] == list(range(14))
    assert sequence.camera_is_guess and sequence.focal_sigma > 0.1
    assert sequence.camera.params[0] == pytest.approx(0.78 * 96)
    assert len(sequence.submaps) == 1 and len(sequence.groups) == 2 and sequence.gps == ()


def test_folder_that_holds_images_and_a_given_camera(tmp_path: Path) -> None:
    write_walk(tmp_path / "images", 8)
    (tmp_path / "truth").mkdir()
    sequence = load_sequence(tmp_path, SequenceConfig(camera="f=80"))
    assert sequence.camera.params == (80.0, 80.0, 48.0, 27.0)
    assert not sequence.camera_is_guess and sequence.focal_sigma == 0.0


def test_single_folder_below_is_found_and_several_are_refused(tmp_path: Path) -> None:
    write_walk(tmp_path / "cam0", 8)
    assert len(load_sequence(tmp_path).frames) == 8
    write_walk(tmp_path / "cam1", 8)
    refused(tmp_path, r"holds several folders of photos \(cam0, cam1\)")


def test_exif_gives_focal_and_gps(tmp_path: Path) -> None:
    for k in range(8):
        place = (47.0 + k * 1e-5, 8.0, 400.0) if k != 3 else None
        write_photo(tmp_path / f"{k}.jpg", exif=exif_of("A", "B", 5.0, 28, place), seed=k)
    sequence = load_sequence(tmp_path)
    assert sequence.camera.params[0] == pytest.approx(28 / np.hypot(36, 24) * np.hypot(96, 54))
    assert 0.0 < sequence.focal_sigma < 0.1 and sequence.camera_is_guess
    assert sequence.gps[3] is None and sequence.gps[7] == pytest.approx((47.00007, 8.0, 400.0), abs=1e-6)


def test_masks(tmp_path: Path) -> None:
    write_walk(tmp_path / "images", 8)
    (tmp_path / "masks").mkdir()
    cv2.imwrite(str(tmp_path / "masks" / "frame2.jpg.png"), np.zeros((54, 96), np.uint8))
    masks = [frame.mask_path for frame in load_sequence(tmp_path).frames]
    assert masks[1] == tmp_path / "masks" / "frame2.jpg.png" and masks[0] is None
    cv2.imwrite(str(tmp_path / "masks" / "frame3.jpg.png"), np.zeros((27, 96), np.uint8))
    refused(tmp_path, r"frame3\.jpg\.png: is 96x27 but its photo is 96x54")


def test_several_sizes_are_refused_by_name(tmp_path: Path) -> None:
    write_walk(tmp_path, 8)
    write_photo(tmp_path / "frame4.jpg", (64, 48))
    write_photo(tmp_path / "frame6.jpg", (64, 48))
    refused(tmp_path, r"frame4\.jpg: is 64x48 and 1 more, but 6 photos like frame1\.jpg are 96x54")


@pytest.mark.parametrize(
    ("other", "match"),
    [
        (exif_of("A", "C", 5.0), r"5\.jpg: was taken with A C at 5 mm, but 0\.jpg with A B at 5 mm"),
        (exif_of("A", "B", 9.0), r"5\.jpg: was taken with A B at 9 mm, but 0\.jpg with A B at 5 mm"),
    ],
)
def test_several_cameras_or_zooms_are_refused_by_name(tmp_path: Path, other: Image.Exif, match: str) -> None:
    for k in range(8):
        write_photo(tmp_path / f"{k}.jpg", exif=other if k == 5 else exif_of("A", "B", 5.0), seed=k)
    refused(tmp_path, match)


def test_bad_folders(tmp_path: Path) -> None:
    refused(tmp_path / "none", "none: does not exist")
    refused(tmp_path, "holds no photos")
    write_walk(tmp_path, 5)
    refused(tmp_path, "has 5 frames, fewer than one anchor group of 6")
    few = SequenceConfig(cut=SubmapConfig(group_size=4))
    assert len(load_sequence(tmp_path, few).groups) == 1


def test_bad_photos(tmp_path: Path) -> None:
    write_walk(tmp_path, 8)
    whole = (tmp_path / "frame3.jpg").read_bytes()
    (tmp_path / "frame3.jpg").write_bytes(whole[: len(whole) // 2])
    refused(tmp_path, r"frame3\.jpg: is cut off before its end")
    (tmp_path / "frame3.jpg").write_bytes(b"")
    refused(tmp_path, r"frame3\.jpg: cannot be read as an image")


def test_hidden_files_are_passed_over(tmp_path: Path) -> None:
    write_walk(tmp_path, 8)
    (tmp_path / "._frame1.jpg").write_bytes(b"resource fork")
    (tmp_path / "notes.txt").write_text("x")
    assert len(load_sequence(tmp_path).frames) == 8


def test_sideways_photos_are_turned_into_the_frames_folder(tmp_path: Path) -> None:
    photos, target = tmp_path / "walk" / "images", tmp_path / "frames"
    photos.mkdir(parents=True)
    upright = np.zeros((96, 54, 3), np.uint8)
    upright[:30] = (220, 30, 30)  # red on top
    for k in range(7):
        stored = np.rot90(upright)  # orientation 6: shown after a quarter turn clockwise
        Image.fromarray(np.ascontiguousarray(stored)).save(photos / f"{k}.jpg", exif=exif_of(orientation=6), quality=95)
    (tmp_path / "walk" / "masks").mkdir()
    mask = np.rot90(np.where(np.arange(96)[:, None] < 30, 0, 255).astype(np.uint8) * np.ones((1, 54), np.uint8))
    cv2.imwrite(str(tmp_path / "walk" / "masks" / "0.jpg.png"), np.ascontiguousarray(mask))
    refused(tmp_path / "walk", r"0\.jpg: is stored sideways")
    sequence = load_sequence(tmp_path / "walk", None, target)
    assert (sequence.camera.width, sequence.camera.height) == (54, 96)
    pixels = cv2.imread(str(sequence.frames[0].path))
    assert pixels[10, 27, 2] > 150 and pixels[80, 27, 2] < 60
    assert sequence.frames[0].mask_path is not None
    turned = cv2.imread(str(sequence.frames[0].mask_path), cv2.IMREAD_GRAYSCALE)
    assert turned.shape == (96, 54) and turned[10, 27] == 0 and turned[80, 27] == 255
    assert (photos / "0.jpg").exists()
