"""Cuts of a walk: said by name, found where photos do not go on, not believed where they are merely hard to match."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from anchors_street import make_sequence
from sequence_fixture import write_walk

from skyanchor.anchors.config import OdometryConfig
from skyanchor.errors import InputError
from skyanchor.events import silent
from skyanchor.sequence import SequenceConfig, SubmapConfig, load_sequence
from skyanchor.sequence.segments import SegmentConfig, believed, cut_at, find_cuts
from skyanchor.sequence.summary import describe, told
from skyanchor.stages.cuts import find_cuts_job
from skyanchor.storage import codec
from skyanchor.types import Sequence

LEAST = 3


@pytest.fixture(scope="module")
def streets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sequence, Sequence]:
    """Fourteen frames each of two walks."""
    folders = [tmp_path_factory.mktemp(name) for name in ("here", "elsewhere")]
    return make_sequence(folders[0]), make_sequence(folders[1], seed=7)


def spliced(*parts: Sequence) -> Sequence:
    """The frames of the parts as one walk."""
    paths = [(frame.name, frame.path) for part in parts for frame in part.frames]
    like = parts[0].frames[0]
    return replace(parts[0], frames=tuple(replace(like, index=k, name=n, path=p) for k, (n, p) in enumerate(paths)))


def some(walk: Sequence, first: int, end: int) -> Sequence:
    return replace(walk, frames=walk.frames[first:end])


def grey(walk: Sequence, folder: Path, *frames: int) -> Sequence:
    """The walk with some photos that show nothing."""
    nothing = folder / "grey.png"
    cv2.imwrite(str(nothing), np.full((224, 400, 3), 128, np.uint8))
    held = tuple(replace(f, path=nothing) if f.index in frames else f for f in walk.frames)
    return replace(walk, frames=held)


def test_a_cut_is_found_where_photos_do_not_go_on(streets: tuple[Sequence, Sequence]) -> None:
    here, there = streets
    walk = spliced(some(here, 0, 5), some(there, 0, 4))
    assert find_cuts(walk, SegmentConfig(), LEAST) == (5,)
    assert find_cuts(spliced(some(here, 0, 9)), SegmentConfig(), LEAST) == ()


def test_a_run_finds_it_by_keypoints_that_it_keeps(streets: tuple[Sequence, Sequence], tmp_path: Path) -> None:
    here, there = streets
    walk = spliced(some(here, 0, 4), some(there, 0, 4))
    given = (codec.to_json(value) for value in (walk, SegmentConfig(), OdometryConfig()))
    assert find_cuts_job(*given, str(tmp_path), 1, len(walk.frames), silent) == [4]
    assert len(list(tmp_path.iterdir())) == len(walk.frames)


def test_a_photo_that_shows_nothing_is_no_cut(streets: tuple[Sequence, Sequence], tmp_path: Path) -> None:
    here, there = streets
    assert find_cuts(grey(some(here, 0, 9), tmp_path, 4, 5), SegmentConfig(), LEAST) == ()
    cut = grey(spliced(some(here, 0, 4), some(there, 0, 5)), tmp_path, 4)  # the first of the second stretch
    assert find_cuts(cut, SegmentConfig(), LEAST) == (4, 5)


def test_photos_that_are_hard_to_match_are_not_cut() -> None:
    assert believed((20,), 40, 6) == (20,)
    assert believed((36,), 40, 6) == (36,)  # four frames too many at the end
    assert believed(tuple(range(1, 40)), 40, 6) == ()
    assert believed(tuple(range(5, 40, 5)), 40, 6) == ()


def test_the_user_says_where(tmp_path: Path) -> None:
    walk = write_walk(tmp_path, 30)

    def loaded(*begin: str) -> Sequence:
        return load_sequence(walk, SequenceConfig(segments=SegmentConfig(begin=begin)))

    named, numbered = loaded("frame16.jpg"), loaded("15")  # names count from 1, numbers from 0
    assert named.cuts == numbered.cuts == loaded("frame16").cuts == (15,)
    assert [s.frames[0] for s in named.submaps] == [0, 15] and len(named.groups) == 4
    assert named.stretch_of(14) == 0 and named.stretch_of(15) == 1
    assert loaded().cuts == () and len(loaded().groups) == 2
    with pytest.raises(InputError, match=r"has no photo frame99\.jpg"):
        loaded("frame99.jpg")
    with pytest.raises(InputError, match="no stretch of 6 frames"):
        loaded(*(str(k) for k in range(5, 30, 5)))


def test_a_run_and_a_check_say_so(streets: tuple[Sequence, Sequence], tmp_path: Path) -> None:
    here, there = streets
    walk = spliced(some(here, 0, 6), some(there, 0, 6))
    for k, frame in enumerate(walk.frames):
        (tmp_path / f"{k:02d}.png").write_bytes(frame.path.read_bytes())
    found = describe(tmp_path)
    assert found.cuts == ("06.png",) and (found.submaps, found.groups) == (2, 2)
    assert any("cut before 06.png" in text for text in found.warnings)
    cut = cut_at(load_sequence(tmp_path), (6,), SubmapConfig())
    assert any("cut before 06.png" in text for text in told(cut))
    assert not any("cut before" in text for text in told(load_sequence(tmp_path)))
