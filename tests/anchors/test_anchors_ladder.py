"""What is tried before a group is given up: always inside the sequence, nothing twice."""

from dataclasses import replace
from pathlib import Path

import pytest

from skyanchor.anchors.config import AnchorAblation, AnchorConfig, LadderConfig
from skyanchor.anchors.ladder import SHADE_COSINE, rungs
from skyanchor.geometry import cameras
from skyanchor.matching import XFeatStar
from skyanchor.types import AnchorGroup, Frame, Sequence, Submap

CONFIG = AnchorConfig(ladder=LadderConfig(shift=6, enlarge=12, shade=True))


def sequence(count: int) -> Sequence:
    frames = tuple(Frame(k, f"{k}.jpg", Path(f"{k}.jpg")) for k in range(count))
    every = tuple(range(count))
    submap = Submap(0, every, every[:6], every[-6:])
    return Sequence(Path(), frames, cameras.pinhole(640, 360, 457.0), False, (submap,), ())


def tried(count: int, first: int) -> list[tuple[int, ...]]:
    group = AnchorGroup(0, tuple(range(first, first + 6)), (0,))
    return [rung.frames for rung in rungs(sequence(count), group, CONFIG)]


@pytest.mark.parametrize(("first", "shifted", "larger"), [(0, 6, (0, 12)), (34, 28, (28, 40))])
def test_groups_are_shifted_and_enlarged_into_their_submap(first: int, shifted: int, larger: tuple[int, int]) -> None:
    group = tuple(range(first, first + 6))
    assert tried(40, first) == [group, group, group, tuple(range(shifted, shifted + 6)), tuple(range(*larger))]


def test_what_leaves_the_sequence_is_not_tried() -> None:
    group = tuple(range(6))
    assert tried(8, 0) == [group, group, group]


def test_the_second_rung_sees_through_shade_and_changes_nothing_else() -> None:
    group = AnchorGroup(0, tuple(range(6)), (0,))
    first, shade, *_ = (rung.config for rung in rungs(sequence(40), group, CONFIG))
    assert shade.places.features == replace(first.places.features, through_shade=True)
    assert isinstance(first.refine.matcher, XFeatStar)
    assert shade.refine.matcher == replace(first.refine.matcher, through_shade=True, least_cosine=SHADE_COSINE)
    assert shade.ground_matcher == first.ground_matcher  # shapes made through shade are not to be trusted
    assert shade.verdict == first.verdict and shade.places.least_support == first.places.least_support


def test_shade_is_asked_for_and_ablations_do_without() -> None:
    group = AnchorGroup(0, tuple(range(6)), (0,))
    without = AnchorConfig()
    ablated = replace(CONFIG, ablation=AnchorAblation(metric_alignment=False))
    for config in (without, ablated):
        assert not any(rung.config.places.features.through_shade for rung in rungs(sequence(40), group, config))


def test_the_third_rung_searches_wider() -> None:
    group = AnchorGroup(0, tuple(range(6)), (0,))
    first, _, wide, *_ = (rung.config for rung in rungs(sequence(40), group, CONFIG))
    assert first is CONFIG
    assert wide.places.shortlist == 2 * CONFIG.places.shortlist and wide.places.voters == 2 * CONFIG.places.voters
    assert wide.ladder.places == 2 * CONFIG.ladder.places and wide.verdict == CONFIG.verdict
