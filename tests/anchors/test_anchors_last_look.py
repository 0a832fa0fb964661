"""The last look at a group that stands: whose poses are taken, on whose odds, and when it is not asked at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from skyanchor.anchors import group, last_look
from skyanchor.anchors.adjustment import FixedAerial
from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.focal import standing
from skyanchor.anchors.last_look import sharpened
from skyanchor.anchors.likelihood import exact_log_odds
from skyanchor.anchors.place_refinement import Settled, Turn
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.incremental import LocalGroup, single_frame
from skyanchor.anchors.solve import GroupSolution
from skyanchor.geometry import cameras, rigid, similarity
from skyanchor.matching import Sift, XFeatStar
from skyanchor.pipeline import CPU, with_matcher
from skyanchor.sfm import bundle as ba
from skyanchor.step_clock import StepClock
from skyanchor.types import AnchorGroup, AnchorPose, Frame, GroupFigures, Pose, Reason, Refusal, Sequence

UP = np.array([0.0, 0.0, 1.0])
FIRST = tuple(rigid.look_at(np.array([0.0, y, 1.7]), np.array([0.0, y + 9.0, 1.7]), UP) for y in (0.0, 0.7, 1.4))
LAST = tuple(rigid.from_centre(p.rotation, rigid.centre_in_world(p) + np.array([0.02, 0.0, 0.0])) for p in FIRST)
FINE = GroupFigures(
    support=500, ratio=0.9, frame_share=1.0, aerial_views=9, spread=0.6, fronts=40.0, confirmed=0.8, ground=20.0,
    ground_confirmed=0.7, log_odds=4.0, reprojection=0.8, aerial_reprojection=0.8, tilt_deg=3.0, height_m=1.7,
    bend=0.0, turn_deg=0.0, sigma_m=0.03, halves_m=0.04, halves_scale=0.01,
)  # fmt: skip
"""Figures of a group that nothing speaks against."""


MANY, HARDLY_ANY = Turn(500, 300, 290), Turn(500, 40, 38)
"""What keypoints say at the right place, and at a look-alike."""


def settled(
    poses: tuple[Pose, ...], figures: GroupFigures, refusal: Refusal | None = None, turn: Turn = MANY
) -> Settled:
    none, nothing = np.empty(0, np.int64), np.empty((0, 3))
    done = FixedAerial(poses, np.zeros((3, 6, 6)), none, none, none, 1.0, 1.0, nothing, 1.0)
    local = LocalGroup((0, 1, 2), FIRST, ba.nothing(), 0.5, 5.0)
    return Settled(local, done, refusal, figures, figures.support, turns=(turn,))


def looked(
    monkeypatch: pytest.MonkeyPatch, last: Settled | None, first: Settled, config: AnchorConfig | None = None
) -> Settled:
    """The place after a last look that comes to `last`; None where no look may be asked for."""
    watched: list[Settled] = []
    frames = tuple(Frame(k, str(k), Path(str(k))) for k in range(3))
    camera = cameras.pinhole(640, 360, 457.0)
    held: Any = SimpleNamespace(sequence=Sequence(Path(), frames, camera, False, (), ()), clock=StepClock())
    nothing: Any = SimpleNamespace()
    search = Search(nothing, held, config or AnchorConfig(), watch=watched.append)

    def settle(exact: Search, local: LocalGroup, start: GroupSolution, warm: bool = False) -> Settled:
        assert last is not None, "a look that nobody asked for"
        assert isinstance(exact.config.refine.matcher, Sift) and warm
        assert exact.lens.factor == first.focal, "seen with the focal length that the group has found"
        np.testing.assert_allclose(rigid.centres_in_world(start.cams_from_world), rigid.centres_in_world(FIRST))
        exact.watch(last)
        return last

    monkeypatch.setattr(last_look, "settle", settle)
    got = sharpened(search, first)
    assert watched == ([] if last is None else [got]), "what looks on is told of the place by both looks, once"
    return got


def test_its_poses_and_figures_are_taken_with_the_odds_of_both_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(FINE, support=200, ratio=0.6, halves_m=0.01, confirmed=0.2, ground_confirmed=0.1, log_odds=-3.0)
    look_alike = Refusal(Reason.LOOK_ALIKE, "few keypoints are confirmed")
    got = looked(monkeypatch, settled(LAST, few, look_alike), settled(FIRST, FINE))
    assert got.done is not None and got.done.cams_from_world == LAST and got.placed
    odds = FINE.log_odds + exact_log_odds(300, 500)
    assert got.figures == replace(
        FINE, support=200, ratio=0.6, halves_m=0.01, exact=500, exact_share=0.6, log_odds=odds
    )
    assert odds > FINE.log_odds + 1.0


@pytest.mark.parametrize("worse", [{"halves_m": 0.4}, {"ratio": 0.4}, {"support": 20}, {"sigma_m": 0.3}, {"bend": 0.2}])
def test_the_place_stays_as_it_was_where_the_last_look_does_not_bear_it_out(
    worse: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = settled(FIRST, FINE)
    got = looked(monkeypatch, settled(LAST, replace(FINE, **worse)), first)
    assert got.done is first.done and got.placed and got.support == first.support
    assert replace(got.figures, exact=FINE.exact, exact_share=FINE.exact_share, log_odds=4.0) == FINE


@pytest.mark.parametrize("turn", [HARDLY_ANY, Turn(60, 0, 0), Turn(500, 10, 10)])
def test_a_place_that_hardly_any_keypoint_agrees_with_must_have_been_sure(
    turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = Settled(None, None, Refusal(Reason.PLACE_NOT_CONFIRMED, "nothing agrees"), turns=(turn,))
    stays = looked(monkeypatch, nothing, settled(FIRST, FINE))
    assert stays.placed and 2.9 < stays.figures.log_odds < 3.2, "bare walls, another light: not the end of a sure place"
    goes = looked(monkeypatch, nothing, settled(FIRST, replace(FINE, log_odds=0.8)))
    assert goes.refusal is not None and goes.refusal.reason is Reason.LOOK_ALIKE
    assert goes.figures.log_odds < 0.0 and goes.figures.exact_share == turn.agreeing / turn.matches


def test_a_last_look_without_a_match_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = Settled(None, None, Refusal(Reason.PLACE_NOT_CONFIRMED, "nothing agrees"), turns=(Turn(0, 0, 0),))
    got = looked(monkeypatch, nothing, settled(FIRST, replace(FINE, log_odds=0.1)))
    assert got.placed and got.figures.log_odds == pytest.approx(0.1)


def test_the_odds_of_the_last_look_grow_with_what_agrees() -> None:
    told = [exact_log_odds(agreeing, 400) for agreeing in (40, 120, 160, 200, 240)]
    assert told == sorted(told) and told[0] < -0.8 and told[-1] > 1.0
    assert exact_log_odds(12, 20) < exact_log_odds(240, 400), "few matches say less"


def test_it_looks_through_the_lens_that_the_group_has_found(monkeypatch: pytest.MonkeyPatch) -> None:
    got = looked(monkeypatch, settled(LAST, FINE), replace(settled(FIRST, FINE), focal=1.1))
    assert got.focal == 1.1 and got.done is not None and got.done.cams_from_world == LAST


@pytest.mark.parametrize(("reason", "odds"), [(Reason.HALVES_DISAGREE, 4.0), (Reason.LOOK_ALIKE, -2.5)])
def test_a_refused_place_gets_no_last_look(reason: Reason, odds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    first = settled(FIRST, replace(FINE, log_odds=odds), Refusal(reason, "refused"))
    assert looked(monkeypatch, None, first) is first


@pytest.mark.parametrize(("turn", "placed"), [(MANY, True), (HARDLY_ANY, False)])
def test_keypoints_can_tell_a_place_from_a_look_alike(
    turn: Turn, placed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = settled(FIRST, replace(FINE, log_odds=-0.5), Refusal(Reason.LOOK_ALIKE, "odds"))
    got = looked(monkeypatch, settled(LAST, FINE, turn=turn), first)
    assert got.placed == placed and (got.refusal is None) == placed
    assert got.done is not None and got.done.cams_from_world == (LAST if placed else FIRST)


def test_none_leaves_it_out_and_so_does_a_matcher_of_ones_own_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = AnchorConfig()
    off = replace(plain, refine=replace(plain.refine, last=None))
    first = settled(FIRST, FINE)
    assert looked(monkeypatch, None, first, off) is first
    assert looked(monkeypatch, None, first, with_matcher(CPU, XFeatStar(), "cross-view").anchors) is first


def test_a_frame_alone_is_looked_at_again_where_it_stood() -> None:
    local = single_frame(0, cameras.pinhole(640, 360, 457.0))
    found = standing(local, FIRST[:1])
    again = similarity.transform_camera(found.world_from_local, local.cams_from_local[0])
    np.testing.assert_allclose(again.matrix, FIRST[0].matrix, atol=1e-12)


@pytest.mark.parametrize("stands", [True, False])
def test_a_group_that_keeps_its_odds_is_placed_again_by_the_last_look_alone(
    stands: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[type] = []
    few = replace(FINE, support=200, log_odds=-3.0, halves_m=0.01 if stands else 0.4)

    def settle(search: Search, local: LocalGroup, start: GroupSolution, warm: bool = False) -> Settled:
        asked.append(type(search.config.refine.matcher))
        return settled(LAST, few if asked[-1] is Sift else FINE)

    monkeypatch.setattr(last_look, "settle", settle)
    monkeypatch.setattr(group, "settle", settle)
    monkeypatch.setattr(group, "group_shape", lambda *_: settled(FIRST, FINE).local)
    monkeypatch.setattr(group, "anchor_poses", lambda search, found, kept: ())
    camera = cameras.pinhole(640, 360, 457.0)
    held: Any = SimpleNamespace(sequence=SimpleNamespace(camera=camera), clock=StepClock())
    nothing: Any = SimpleNamespace()
    found = tuple(AnchorPose(k, pose, np.eye(6)) for k, pose in enumerate(FIRST))
    search = Search(nothing, held, AnchorConfig())
    verdict, _ = group.localise_again(search, AnchorGroup(0, (0, 1, 2), ()), found, replace(FINE, log_odds=5.0))
    assert verdict.accepted and asked == ([Sift] if stands else [Sift, XFeatStar, Sift])
    assert verdict.figures.log_odds == (5.0 if stands else FINE.log_odds + exact_log_odds(MANY.agreeing, MANY.matches))
