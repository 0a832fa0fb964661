"""Ground frames: a matcher is loaded when it is first used, a focal length is passed and never kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from anchors_street import GROUND

from skyanchor.anchors.frames import GroundFrames, Lens, seen_through
from skyanchor.geometry import cameras
from skyanchor.matching import Features, Sift, strongest
from skyanchor.trajectory import PhotoFeatures
from skyanchor.types import Photo, Sequence


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
