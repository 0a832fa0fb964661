"""Ground frames: a matcher is loaded when it is first used, a focal length is passed and never kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from anchors_street import GROUND

from skyanchor.anchors.frames import GroundFrames, Lens, Remembered, seen_through
from skyanchor.anchors.place_finding import PlaceSeed
from skyanchor.anchors.search import SEEDS_KEPT, Glances
from skyanchor.geometry import cameras
from skyanchor.matching import Features, Sift, strongest
from skyanchor.trajectory import PhotoFeatures
from skyanchor.types import Ints, Photo, Sequence


@dataclass(frozen=True)
class Counted:
    """A choice that tells how often it was loaded, and on which photos its matcher worked."""

    name: str
    loads: ClassVar[list[str]] = []
    photos: ClassVar[list[str]] = []

    def load(self, device: str = "auto") -> Any:
        self.loads.append(self.name)
        return self

    @property
    def key(self) -> str:
        return self.name

    def extract(self, photo: Photo) -> Features:
        self.photos.append(f"{self.name} {photo.name}")
        one = np.ones(1, np.float32)
        return Features(np.zeros((1, 2)), np.ones((1, 4), np.float32), one, one, 400, 224, 1.0)


def test_matchers_are_loaded_when_used_and_once(walk: Sequence) -> None:
    frames, a, b = GroundFrames(walk), Counted("a"), Counted("b")
    frames.photo(0)
    assert Counted.loads == []
    for index in (0, 1, 0):
        assert frames.features(index, a).width == 400  # type: ignore[arg-type]
    assert Counted.loads == ["a"] and Counted.photos == ["a g00.png", "a g01.png"]
    frames.features(0, b)  # type: ignore[arg-type]
    assert frames.matcher(Counted("a")) is a  # type: ignore[arg-type]
    assert Counted.loads == ["a", "b"]


def blank(width: int) -> Features:
    """Features without a keypoint."""
    nothing = np.empty(0, np.float32)
    return Features(np.empty((0, 2)), np.empty((0, 4), np.float32), nothing, nothing, width, 224, 1.0)


def test_a_pair_is_matched_once_while_it_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    class Widths:
        def pairs(self, a: Features, b: Features) -> Ints:
            asked.append((a.width, b.width))
            return np.array([[a.width, b.width]])

    monkeypatch.setattr("skyanchor.anchors.frames.PAIRS_KEPT", 2)
    held, photos = Remembered(Widths()), [blank(width) for width in range(4)]  # type: ignore[arg-type]
    for a, b in ((0, 1), (0, 2), (0, 1), (0, 3), (0, 2)):
        assert held.pairs(photos[a], photos[b]).tolist() == [[a, b]]
    assert asked == [(0, 1), (0, 2), (0, 3), (0, 2)]
    passing = [held.pairs(blank(width), blank(9)).tolist() for width in range(20)]  # ids come back, matches do not
    assert passing == [[[width, 9]] for width in range(20)]


def test_a_look_at_all_places_is_taken_once() -> None:
    looks: list[int] = []

    def look(k: int) -> tuple[PlaceSeed, ...]:
        looks.append(k)
        return ()

    glances = Glances()
    for k in (0, 1, 0, *range(2, SEEDS_KEPT + 1), 0):
        glances.seeds(("frames", k), lambda k=k: look(k))  # type: ignore[misc]
    assert looks == [0, 1, *range(2, SEEDS_KEPT + 1), 0]


def test_keypoints_in_a_folder_are_there_for_other_stages(walk: Sequence, tmp_path: Path) -> None:
    choice = Sift(keypoints=200)
    mine = GroundFrames(walk, tmp_path).features(0, choice)
    theirs = PhotoFeatures(walk, choice, tmp_path).features(0)
    assert len(list(tmp_path.iterdir())) == 1 and np.array_equal(mine.xy, theirs.xy)
    few = strongest(mine, 50)
    assert len(few) == 50 < len(mine) == len(mine.scores)
    assert few.scores.min() >= mine.scores[50:].max() and np.array_equal(few.descriptors, mine.descriptors[:50])


def test_the_lens_alone_sets_the_focal_length(walk: Sequence) -> None:
    wide = seen_through(walk, Lens(0.8, known=False))
    assert cameras.focal_px(wide) == pytest.approx(0.8 * cameras.focal_px(GROUND))
    assert wide.params[2:] == GROUND.params[2:] and seen_through(walk, Lens()) == GROUND
