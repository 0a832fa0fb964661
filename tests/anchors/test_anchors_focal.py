"""The focal length that groups vote for."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from skyanchor.anchors import walk
from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.focal import FocalVotes, agreed, between, elected, neighbours
from skyanchor.anchors.frames import Lens
from skyanchor.anchors.walk import GroupTask, GroupVerdict
from skyanchor.geometry import rigid
from skyanchor.types import AnchorGroup, AnchorPose, GroupFigures, LocalisedGroup, Overlap, Reason, Refusal

FACTORS = (0.7, 1.0, 1.4)


def group(ratio: float, refused: bool = False) -> LocalisedGroup:
    """A verdict with this share of matches that fit."""
    refusal = Refusal(Reason.TOO_MANY_DISAGREE, "by design") if refused else None
    return LocalisedGroup(AnchorGroup(0, (0, 1), ()), (), refusal, GroupFigures(ratio=ratio))


def test_every_group_has_one_vote() -> None:
    loud, quiet = FocalVotes((900.0, 300.0, 0.0)), FocalVotes((10.0, 80.0, 0.0))
    assert elected((loud, quiet, quiet), FACTORS) == 1.0
    assert elected((loud, loud, quiet), FACTORS) == pytest.approx(0.7)


def test_without_any_place_the_guess_stays() -> None:
    assert elected((FocalVotes((0.0, 0.0, 0.0)),), FACTORS) == 1.0


def test_finer_steps_lie_round_the_elected_factor() -> None:
    finer = between((0.5, 1.0, 2.0), 1.0)
    assert finer == pytest.approx((2**-0.5, 2**-0.25, 1.0, 2**0.25, 2**0.5))
    assert between((1.0,), 1.0) == pytest.approx((1.0,) * 5)


def test_of_two_groups_the_one_whose_matches_fit_decides() -> None:
    assert agreed((group(0.66), group(0.87)), (0.999, 0.916)) == 0.916
    assert agreed((group(0.87), group(0.66)), (0.916, 0.999)) == 0.916
    assert agreed((group(0.66), group(0.87)), (0.916, 0.999)) == 0.999
    assert agreed((group(0.9), group(0.9), group(0.9)), (0.8, 0.91, 0.92)) == 0.91


def test_refused_groups_do_not_say_what_the_focal_length_is() -> None:
    assert agreed((group(0.9, refused=True), group(0.7)), (0.5, 0.93)) == 0.93
    assert agreed((group(0.9, refused=True),), (0.5,)) == 1.0


def test_the_neighbours_of_a_factor_are_tried_first() -> None:
    factors = (0.58, 0.69, 0.83, 1.0, 1.2, 1.44)
    assert neighbours(factors, 1.0) == (0.83, 1.0, 1.2)
    assert neighbours(factors, 0.58) == (0.58, 0.69)
    assert neighbours((1.0,), 1.0) == (1.0,)


class Ballot:
    """Groups that agree most at one focal length, and what they were asked."""

    def __init__(self, true: float) -> None:
        self.true, self.asked = true, list[float]()

    def votes(self, tasks: tuple[object, ...], factors: tuple[float, ...]) -> tuple[FocalVotes, ...]:
        self.asked += factors
        return tuple(
            FocalVotes(tuple(100.0 / (1.0 + 9.0 * abs(np.log(f / self.true))) for f in factors)) for _ in tasks
        )


@pytest.mark.parametrize("true", [0.6, 0.75, 0.914, 1.0, 1.3])
def test_the_vote_walks_to_the_best_and_asks_nothing_twice(true: float) -> None:
    ballot = Ballot(true)
    outing = SimpleNamespace(config=AnchorConfig(), runner=ballot)
    found = walk._elected(outing, tuple(GroupTask(AnchorGroup(k, (0,), ()), ()) for k in range(5)))  # type: ignore[arg-type]
    assert found == pytest.approx(true, rel=0.03)
    assert len(set(ballot.asked)) == len(ballot.asked) <= 11


def test_groups_with_nearly_the_shared_focal_length_keep_their_odds_where_the_flight_gave_them() -> None:
    asked: list[GroupTask] = []

    def looked(tasks: tuple[GroupTask, ...]) -> tuple[GroupVerdict, ...]:
        asked.extend(tasks)
        return tuple(GroupVerdict(group(0.9), 1.0, {}) for _ in tasks)

    stands = replace(group(0.8), poses=(AnchorPose(0, rigid.identity(), np.eye(6)),))
    groups = [stands, stands, group(0.9, refused=True), replace(stands, overlap=Overlap((), 3, 50, False))]
    sequence = SimpleNamespace(groups=tuple(one.group for one in groups))
    prepared = SimpleNamespace(ground=SimpleNamespace(across=np.eye(3)[:2]))
    outing = SimpleNamespace(
        config=AnchorConfig(), runner=SimpleNamespace(groups=looked), sequence=sequence, prepared=prepared
    )
    walk._calibrated(outing, groups, Lens(0.9), (1.004, 0.97, 1.0, 1.0))  # type: ignore[arg-type]
    assert [task.figures for task in asked] == [stands.figures, None, None]
    assert {task.lens.factor for task in asked} == {0.9}
