"""Videos: which frames are taken, that they are written once, and what happens to broken files."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from sequence_fixture import texture, write_video

from skyanchor.errors import InputError
from skyanchor.sequence import SequenceConfig, SubmapConfig, VideoConfig, load_sequence, video
from skyanchor.sequence.copies import Copies
from skyanchor.sequence.video import Survey, choose_frames, extract_frames, median_motion, survey_video

SHORT = SubmapConfig(group_size=2)


def test_motion_of_a_known_shift() -> None:
    grey = cv2.cvtColor(texture(), cv2.COLOR_BGR2GRAY)
    assert median_motion(grey[:, 100:420], grey[:, 107:427]) == pytest.approx(7.0, abs=0.3)
    assert median_motion(grey[:, 100:420], grey[:, 100:420]) == pytest.approx(0.0, abs=0.05)
    assert median_motion(np.zeros((50, 50), np.uint8), np.zeros((50, 50), np.uint8)) == 0.0


def test_frames_by_time() -> None:
    survey = Survey(np.zeros(100), np.ones(100), 25.0)
    assert choose_frames(survey, VideoConfig(frames_per_second=5.0)) == list(range(0, 100, 5))
    uneven = choose_frames(survey, VideoConfig(frames_per_second=10.0))
    assert len(uneven) == 40 and set(np.diff(uneven)) == {2, 3}
    assert choose_frames(survey, VideoConfig(frames_per_second=1000.0)) == list(range(100))
    with pytest.raises(InputError, match="above zero"):
        choose_frames(survey, VideoConfig(frames_per_second=0.0))


def test_frames_by_motion_keep_their_distance_and_skip_standstill() -> None:
    motion = np.concatenate([[0.0], np.full(60, 0.01), np.zeros(50), np.full(20, 0.03), [0.2], np.full(5, 0.01)])
    chosen = choose_frames(Survey(motion, np.ones(len(motion)), 25.0), VideoConfig(motion=0.03))
    travelled = np.cumsum(motion)[chosen]
    assert np.all(np.diff(travelled)[:-3] <= 0.0376) and np.all(np.diff(travelled) >= 0.0224)
    assert not any(62 <= k <= 109 for k in chosen)
    assert 131 in chosen  # the jump itself is taken, not passed over


@pytest.mark.parametrize("motion", [-1.0, 0.0, float("nan")])
def test_choosing_frames_ends_whatever_the_step(motion: float) -> None:
    survey = Survey(np.full(40, 0.01), np.ones(40), 25.0)
    chosen = choose_frames(survey, VideoConfig(motion=motion))
    assert chosen == sorted(set(chosen)) and chosen[0] == 0


def test_the_sharpest_frame_near_the_step_is_taken() -> None:
    sharpness = np.ones(40)
    sharpness[[4, 8, 11]] = 2.0
    chosen = choose_frames(Survey(np.full(40, 0.01), sharpness, 25.0), VideoConfig(motion=0.04))
    assert chosen[:4] == [0, 4, 8, 11]


def test_video_is_surveyed_extracted_and_read(tmp_path: Path) -> None:
    path = write_video(tmp_path / "walk.avi", [0] + [5] * 60, blurred=(6, 7, 13, 19, 20))
    survey = survey_video(path)
    assert survey.frame_rate == pytest.approx(20.0) and len(survey.motion) == 61
    assert np.median(survey.motion) == pytest.approx(5 / 320, rel=0.1)
    assert survey.sharpness[6] < 0.5 * survey.sharpness[5]
    config = SequenceConfig(camera="f=300", cut=SHORT, video=VideoConfig(motion=0.1))
    sequence = load_sequence(path, config, tmp_path / "frames")
    numbers = [int(frame.name[6:12]) for frame in sequence.frames]
    assert numbers[0] == 0 and 8 <= len(numbers) <= 12 and not {6, 7, 13, 19, 20} & set(numbers)
    assert (sequence.camera.width, sequence.camera.height) == (320, 180) and sequence.root == path


def test_extraction_repeats_bytes_and_is_not_done_twice(tmp_path: Path) -> None:
    path = write_video(tmp_path / "walk.avi", [0] + [5] * 20)
    config = VideoConfig(frames_per_second=5.0)
    first = extract_frames(path, config, Copies(tmp_path / "a"))
    second = extract_frames(path, config, Copies(tmp_path / "b"))
    assert [p.name for p in first] == [p.name for p in second] and len(first) == 6
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]
    stamp = first[0].stat().st_mtime_ns
    assert extract_frames(path, config, Copies(tmp_path / "a")) == first and first[0].stat().st_mtime_ns == stamp
    denser = extract_frames(path, VideoConfig(frames_per_second=10.0), Copies(tmp_path / "a"))
    assert len(denser) > len(first)


@pytest.mark.parametrize("change", ["replaced", "removed"])
def test_a_video_that_changes_while_its_frames_are_written_is_told(
    tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, choose = tmp_path / "walk.avi", video.choose_frames
    write_video(path, [0] + [5] * 20)
    whole = path.read_bytes()

    def meanwhile(survey: Survey, config: VideoConfig) -> list[int]:
        path.write_bytes(whole[:-8] + b"replaced")
        if change == "removed":
            path.unlink()
        return choose(survey, config)

    monkeypatch.setattr(video, "choose_frames", meanwhile)
    with pytest.raises(InputError, match=r"walk\.avi: (was changed or removed while its frames|cannot be opened)"):
        extract_frames(path, VideoConfig(), Copies(tmp_path / "frames"))
    assert not (tmp_path / "frames" / video.INDEX).exists()


def test_broken_videos(tmp_path: Path) -> None:
    bad = tmp_path / "bad.mp4"
    for data in (b"", b"not a video at all", np.random.default_rng(0).bytes(5000)):
        bad.write_bytes(data)
        with pytest.raises(InputError, match=r"bad\.mp4: (cannot be opened as a video|holds no frame)"):
            load_sequence(bad, SequenceConfig(), tmp_path / "frames")
    assert not (tmp_path / "frames" / "images").exists()


def test_video_cut_off(tmp_path: Path) -> None:
    path = write_video(tmp_path / "walk.avi", [0] + [5] * 40)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 4])
    with pytest.raises(InputError, match=r"walk\.avi: (is cut off: \d+ of \d+ frames|cannot be opened|holds no frame)"):
        survey_video(path)


def test_video_needs_a_place_for_its_frames(tmp_path: Path) -> None:
    path = write_video(tmp_path / "walk.avi", [0] * 10)
    with pytest.raises(InputError, match="needs a folder for its frames"):
        load_sequence(path)
    with pytest.raises(InputError, match=r"has 1 frames, fewer than one anchor group"):  # nothing moves
        load_sequence(path, None, tmp_path / "frames")
