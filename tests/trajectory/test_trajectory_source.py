"""Matches that were found ahead of need: the same as those found in time, and only where they are of these photos."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from skyanchor.errors import InputError
from skyanchor.events import silent
from skyanchor.matching import Sift, VerifyConfig
from skyanchor.stages.beforehand import REACH, match_frames_job, pair_jobs
from skyanchor.stages.trajectory import HELD_FRAMES, held_source
from skyanchor.step_clock import StepClock
from skyanchor.storage import files
from skyanchor.trajectory import PhotoFeatures, TrajectoryConfig
from skyanchor.trajectory.localmap import PairFinder
from skyanchor.trajectory.source import SHELF
from skyanchor.types import Camera, Frame, Sequence

CAMERA = Camera("PINHOLE", 160, 120, (150.0, 150.0, 80.0, 60.0))
CONFIG = TrajectoryConfig(matcher=Sift(keypoints=300))


@pytest.fixture
def walk(tmp_path: Path) -> Sequence:
    """Nine pictures of one wall, each a little further on."""
    noise = np.random.default_rng(0).integers(0, 255, (160, 320, 3), dtype=np.uint8)
    wall = cv2.normalize(cv2.GaussianBlur(noise, (0, 0), 2.5), None, 0, 255, cv2.NORM_MINMAX)
    frames = []
    for k in range(9):
        path = tmp_path / f"f{k}.png"
        cv2.imwrite(str(path), wall[20:140, 10 * k : 10 * k + 160])
        frames.append(Frame(k, path.name, path))
    return Sequence(tmp_path, tuple(frames), CAMERA, False, (), (), cuts=(7,))


def laid(walk: Sequence, root: Path) -> PhotoFeatures:
    """The frames' features with all matches that the jobs ahead leave."""
    file, folder = root / "sequence.json", root / "features"
    files.save(file, walk)
    jobs = pair_jobs(SimpleNamespace(sequence_file=file, features=folder, sequence=walk), CONFIG)  # type: ignore[arg-type]
    assert [job.arguments["first"] for job in jobs] == [0, 5]
    for job in jobs:
        match_frames_job(**dict(job.arguments), listen=silent)  # type: ignore[arg-type]
    return PhotoFeatures(walk, CONFIG.matcher, folder)


def test_matches_found_ahead_are_those_of_the_matcher(walk: Sequence, tmp_path: Path) -> None:
    source, matcher = laid(walk, tmp_path), CONFIG.matcher.load("cpu")
    for i in range(9):
        for j in range(i + 1, 9):
            known = source.matched(i, j)
            there = j - i <= REACH and (j < 7 or i >= 7)  # frame 7 begins a stretch
            assert (known is not None) == there
            if known is not None:
                assert np.array_equal(known, matcher.pairs(source.features(i), source.features(j)))
    assert len(source.matched(0, 1)) > 50  # type: ignore[arg-type]


def test_they_are_not_looked_for_again(walk: Sequence, tmp_path: Path) -> None:
    source = laid(walk, tmp_path)
    asked = list[int]()
    matcher = SimpleNamespace(pairs=lambda a, b: asked.append(1) or np.empty((0, 2), np.int64))
    finder = PairFinder(source, matcher, CAMERA, VerifyConfig(), StepClock())  # type: ignore[arg-type]
    finder.pairs(0, 1)
    assert asked == []
    finder.pairs(0, 8)
    assert asked == [1]


def test_other_photos_other_settings_and_damage_are_noticed(walk: Sequence, tmp_path: Path) -> None:
    folder = laid(walk, tmp_path).folder
    assert PhotoFeatures(walk, replace(CONFIG.matcher, ratio=0.7), folder).matched(0, 1) is None
    assert PhotoFeatures(walk, CONFIG.matcher).matched(0, 1) is None
    pixels = cv2.imread(str(walk.frames[1].path))
    cv2.imwrite(str(walk.frames[1].path), pixels[::-1])
    fresh = PhotoFeatures(walk, CONFIG.matcher, folder)
    assert fresh.matched(0, 1) is None and fresh.matched(0, 2) is not None
    for file in folder.glob(f"*{SHELF}"):
        file.write_bytes(file.read_bytes()[:200])
    assert PhotoFeatures(walk, CONFIG.matcher, folder).matched(0, 2) is None


def test_a_frame_that_was_seen_needs_its_photo_no_more(walk: Sequence, tmp_path: Path) -> None:
    source = replace(laid(walk, tmp_path), limit=2)
    first = [source.features(k).xy for k in range(5)]
    for frame in walk.frames:
        frame.path.unlink()
    assert len(source._held) == 2
    assert all(np.array_equal(source.features(k).xy, first[k]) for k in range(5))
    for kept in (tmp_path / "features").glob("*.npz"):
        kept.unlink()
    with pytest.raises(InputError):
        source.features(0)


def test_a_worker_holds_keypoints_from_job_to_job(walk: Sequence, tmp_path: Path) -> None:
    laid(walk, tmp_path)
    given = (str(tmp_path / "sequence.json"), str(tmp_path / "features"), CONFIG.matcher)
    source = held_source(*given, "cpu")
    assert held_source(*given, "cpu") is source and source.limit == HELD_FRAMES
    assert sorted(source._held) == list(range(9))  # of the jobs ahead
    files.save(tmp_path / "sequence.json", walk)
    assert held_source(*given, "cpu") is not source  # another walk may stand there now
