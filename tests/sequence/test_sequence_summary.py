"""What `walk check` understands of photos and videos made for it."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import ExifTags
from sequence_fixture import exif_of, texture, write_photo, write_video, write_walk

from skyanchor.events import Event, Progress
from skyanchor.sequence import SequenceConfig, SubmapConfig, VideoConfig, load_sequence
from skyanchor.sequence.summary import blurred_among, describe, told
from skyanchor.sequence.video import choose_frames, survey_video


def test_photos_with_exif(tmp_path: Path) -> None:
    for k in range(14):
        exif = exif_of("A", "B", 5.0, 28, (47.0 + k * 1e-5, 8.0, 400.0) if k != 3 else None)
        exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = f"2026:05:01 14:03:{k:02d}"
        write_photo(tmp_path / f"{k}.jpg", exif=exif, seed=k)
    found = describe(tmp_path)
    assert (found.frames, found.given, found.width, found.height) == (14, 14, 96, 54) and found.seconds is None
    assert found.focal_from == "EXIF" and found.focal_px == pytest.approx(28 / np.hypot(36, 24) * np.hypot(96, 54))
    assert len(found.gps) == 13 and found.gps[0] == pytest.approx((47.0, 8.0, 400.0), abs=1e-5)
    assert found.taken == ("2026-05-01 14:03:00", "2026-05-01 14:03:13")
    assert (found.groups, found.submaps) == (2, 1) and found.blurred == 0.0
    assert [text for text in found.warnings if "guess" in text] == []


def test_where_the_focal_length_comes_from(tmp_path: Path) -> None:
    write_walk(tmp_path, 8)
    guess, given = describe(tmp_path), describe(tmp_path, SequenceConfig(camera="f=80"))
    assert guess.focal_from == "guess" and guess.focal_px == pytest.approx(0.78 * 96)
    assert any("give --camera f=PIXELS" in text for text in guess.warnings)
    assert (given.focal_from, given.focal_px) == ("given", 80.0)
    assert given.field_of_view_deg == pytest.approx(2 * np.degrees(np.arctan(48 / 80)))
    assert not any("guess" in text for text in given.warnings)


def test_photos_stored_sideways_are_described_upright(tmp_path: Path) -> None:
    write_walk(tmp_path, 8, exif=exif_of(orientation=6))
    found = describe(tmp_path)
    assert (found.width, found.height) == (54, 96) and not (tmp_path / "images").exists()


def test_blurred_frames_are_those_less_sharp_than_their_surroundings() -> None:
    sharpness = np.concatenate([np.full(30, 100.0), np.full(30, 10.0)])
    sharpness[[5, 40]] = 40.0, 4.0
    assert np.flatnonzero(blurred_among(sharpness)[:24]).tolist() == [5]
    assert np.flatnonzero(blurred_among(sharpness)[37:]).tolist() == [3]
    assert len(blurred_among(np.zeros(0))) == 0


def test_blurred_photos_are_counted_and_too_many_are_a_warning(tmp_path: Path) -> None:
    strip = texture()
    for k in range(12):
        picture = strip[10:190, 20 * k : 20 * k + 640]
        picture = cv2.GaussianBlur(picture, (0, 0), 6.0) if k % 4 == 1 else picture
        cv2.imwrite(str(tmp_path / f"{k}.jpg"), picture)
    found = describe(tmp_path, SequenceConfig(camera="f=500"))
    assert found.blurred == pytest.approx(0.25)
    assert found.warnings == (
        "25 % of the frames are blurred: walk slower or in better light; photos that are blurred can be taken out of "
        "the folder",
    )
    assert told(load_sequence(tmp_path, SequenceConfig(camera="f=500"))) == (
        "12 frames of 640x180, anchor groups: 2, submaps: 1; focal length 500 px (given); GPS of no frames; "
        "25 % blurred",
        *found.warnings,
    )


def test_photos_that_are_not_taken_are_named(tmp_path: Path) -> None:
    write_walk(tmp_path / "walk", 8)
    (tmp_path / "walk/notes").mkdir()
    assert not any("passed over" in text for text in describe(tmp_path / "walk").warnings)
    write_walk(tmp_path / "walk/left", 3)
    write_walk(tmp_path / "walk/masks", 2)
    said = (
        "3 photos in left/ are passed over: put them among the others, or give them as a walk of their own",
        "2 pictures in masks/ are passed over: masks belong beside the folder of photos, not in it",
    )
    assert describe(tmp_path / "walk").warnings[-2:] == told(load_sequence(tmp_path / "walk"))[-2:] == said
    (tmp_path / "walk/left").rename(tmp_path / "walk/images")
    (tmp_path / "walk/masks").rename(tmp_path / "walk/images/more")
    few = SequenceConfig(cut=SubmapConfig(group_size=2))
    found = describe(tmp_path / "walk", few)
    assert found.frames == 3 and [text[:24] for text in found.warnings[-2:]] == [
        "8 photos beside images/ ",
        "2 photos in images/more/",
    ]


def test_a_video_says_what_is_taken_and_what_is_not(tmp_path: Path) -> None:
    path = write_video(tmp_path / "walk.avi", [0] + [5] * 40 + [0] * 20 + [5] * 20)
    config = SequenceConfig(camera="f=300", cut=SubmapConfig(group_size=2), video=VideoConfig(motion=0.1))
    heard: list[Event] = []
    found = describe(path, config, heard.append)
    assert found.frames == len(choose_frames(survey_video(path), config.video)) and found.given == 81
    assert found.frames == len(load_sequence(path, config, tmp_path / "frames").frames)
    assert found.still == 20 and found.seconds == pytest.approx(81 / 20.0)
    assert "one per 10 % of the width" in found.choice and (found.width, found.height) == (320, 180)
    assert isinstance(heard[-1], Progress) and heard[-1].done == heard[-1].total == 81
    timed = describe(path, SequenceConfig(video=VideoConfig(frames_per_second=5.0)))
    assert timed.frames == 21 and timed.choice.startswith("5 a second")


def test_a_video_that_jumps_stands_or_is_short_is_warned_of(tmp_path: Path) -> None:
    still = describe(write_video(tmp_path / "still.avi", [0] * 30))
    assert any("only 1 frames: an anchor group needs 6" in text for text in still.warnings)
    assert any("nothing moves in more than half" in text for text in still.warnings)
    assert (still.groups, still.submaps) == (0, 0)
