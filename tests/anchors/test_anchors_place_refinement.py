"""How long a place is looked at: not on where the first photo is nothing like it, and once more where that pays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from skyanchor.anchors import place_refinement
from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.evidence import CrossMatches, GroupAt, joined
from skyanchor.anchors.expected import Expected
from skyanchor.anchors.frames import GroundFrames, Lens
from skyanchor.anchors.place_refinement import Settled, Turn, settle
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.solve import GroupSolution
from skyanchor.geometry import cameras, rigid, similarity
from skyanchor.sfm import bundle as ba
from skyanchor.types import Frame, GroupFigures, Pose, Reason, Sequence

UP = np.array([0.0, 0.0, 1.0])
CAMERA = cameras.pinhole(640, 360, 457.0)
POSES = tuple(rigid.look_at(np.array([0.0, k, 1.7]), np.array([0.0, k + 1.0, 1.7]), UP) for k in range(6))


def points(rng: np.random.Generator, count: int) -> np.ndarray:
    """Of the fronts of a street ahead of all frames, (N, 3)."""
    side = np.where(rng.random(count) < 0.5, -6.0, 6.0) + rng.normal(0.0, 0.3, count)
    return np.stack([side, rng.uniform(14.0, 40.0, count), rng.uniform(0.0, 8.0, count)], axis=1)


def seen(slot: int, pose: Pose, right: int, wrong: int, top: float = 0.0) -> CrossMatches:
    """Matches of one frame, the wrong ones anywhere in the picture below `top`."""
    rng = np.random.default_rng([slot, right, wrong])
    world = points(rng, right + wrong)
    xy = cameras.project(CAMERA, pose(world))
    xy[right:] = rng.uniform([0.0, top], [640.0, 360.0], (wrong, 2))
    zeros, ones = np.zeros(len(xy), np.int64), np.ones(len(xy))
    return CrossMatches(np.full(len(xy), slot), xy, ones, world, np.zeros((len(xy), 3)), zeros, zeros)


def looked_at(monkeypatch: pytest.MonkeyPatch, shares: tuple[tuple[int, int], ...]) -> tuple[list[int], list[Turn]]:
    """(views rendered per turn, the turns) where each turn gives so many right and wrong matches a frame."""
    views, settled = settled_by(monkeypatch, shares)
    assert (settled.refusal is None) == (len(shares) == len(settled.turns) and settled.at is not None)
    if settled.refusal is not None:
        assert settled.refusal.reason is Reason.PLACE_NOT_CONFIRMED
    return views, list(settled.turns)


def settled_by(
    monkeypatch: pytest.MonkeyPatch,
    shares: tuple[tuple[int, int], ...],
    been: tuple[Settled, ...] = (),
    covered: tuple[tuple[int, int], ...] = (),
    warm: bool = False,
    lens: Lens = Lens(),  # noqa: B008 - frozen
) -> tuple[list[int], Settled]:
    """(views rendered per turn, the place) where each turn gives so many right and wrong matches a frame.

    Of frames that are `covered` in a turn, (turn, slot), hardly anything matches.
    """
    frames = tuple(Frame(k, f"{k}.jpg", Path(f"{k}.jpg")) for k in range(6))
    search = Search(
        SimpleNamespace(ground=SimpleNamespace(up=UP)),  # type: ignore[arg-type]
        GroundFrames(Sequence(Path(), frames, CAMERA, False, (), ())), AnchorConfig(), lens,
    )  # fmt: skip
    rendered: list[list[int]] = []

    def matched(_: Search, frame: int, slot: int, pose: Pose) -> tuple[CrossMatches, Expected]:
        rendered[-1].append(slot)
        right, wrong = (0, 4) if (len(rendered) - 1, slot) in covered else shares[len(rendered) - 1]
        return seen(slot, POSES[slot], right, wrong), Expected(slot, np.ones((9, 16), bool), np.ones((9, 16), bool))

    def turned(*given: Any) -> Any:
        rendered.append([])
        return whole(*given)

    whole = place_refinement._rendered_matches
    monkeypatch.setattr(place_refinement, "_rendered_matches", turned)
    monkeypatch.setattr(place_refinement, "_matched_view", matched)
    monkeypatch.setattr(place_refinement, "_shown", lambda *_: None)
    monkeypatch.setattr(
        place_refinement, "adjusted", lambda _, at, seen: Settled(at.local, None, None, at=at, seen=seen)
    )
    local = LocalGroup(tuple(range(6)), POSES, ba.nothing(), 0.5, 5.0)
    start = GroupSolution(similarity.identity(), POSES, np.empty(0, bool), 0.0)
    settled = settle(search, local, start, warm, been)
    monkeypatch.setattr(place_refinement, "_rendered_matches", whole)
    return [len(slots) for slots in rendered], settled


def test_a_right_place_takes_two_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    views, turns = looked_at(monkeypatch, ((90, 30), (110, 30)))
    assert views == [3, 6]
    assert [turn.matches for turn in turns] == [3 * 120, 6 * 140]
    assert all(turn.agreeing >= turn.support >= 200 for turn in turns)


def moved(settled: Settled, by_m: float, turned_deg: float = 0.0) -> Settled:
    """A place that lies elsewhere, or that the frames look from in another direction."""
    assert settled.at is not None
    turn = rigid.rotation_exp(np.array([0.0, np.radians(turned_deg), 0.0]))
    poses = tuple(
        rigid.from_centre(turn @ pose.rotation, rigid.centre_in_world(pose) + np.array([by_m, 0.0, 0.0]))
        for pose in settled.at.solution.cams_from_world
    )
    return replace(settled, at=replace(settled.at, solution=replace(settled.at.solution, cams_from_world=poses)))


def test_a_look_that_leads_to_a_settled_place_ends_there(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = ((90, 30), (110, 30))
    _, known = settled_by(monkeypatch, shares)
    elsewhere, aside, gone = moved(known, 3.0), moved(known, 0.0, 20.0), replace(known, at=None)
    for been in ((elsewhere,), (aside,), (gone,)):
        views, settled = settled_by(monkeypatch, shares, been)
        assert views == [3, 6] and not any(settled is one for one in been)
    views, settled = settled_by(monkeypatch, shares, (elsewhere, near := moved(known, 0.5)))
    assert views == [3] and settled is near


def test_a_place_is_left_after_one_photo_that_is_nothing_like_it(monkeypatch: pytest.MonkeyPatch) -> None:
    views, turns = looked_at(monkeypatch, ((0, 5),))
    assert views == [1] and turns == [Turn(5, 0, 0)]


def test_a_second_look_ends_where_little_of_a_photo_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    views, turns = looked_at(monkeypatch, ((30, 40), (8, 40)))
    assert views == [3, 1] and turns[1].support == 0


def test_a_second_look_ends_where_two_photos_leave_a_place_no_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """What all of them see is much the same, and nothing that is asked later makes up for it."""
    views, settled = settled_by(monkeypatch, ((30, 100), (30, 100)))
    assert views == [3, 2] and settled.seen == pytest.approx(2 / 6)
    assert settled.at is not None and len(settled.at.expected) == 2, "it is judged by those"
    assert settled.turns[1].matches == 2 * 130


def test_places_with_a_chance_are_looked_at_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    nearer, promising, likelier = ((25, 100), (60, 80)), ((90, 60), (30, 100)), ((45, 60), (100, 40))
    for shares in (nearer, promising, likelier):
        views, settled = settled_by(monkeypatch, (*shares, (110, 30)))
        assert views[:2] == [3, 6] and settled.seen == 1.0
    unknown = settled_by(monkeypatch, ((30, 100), (30, 100)), lens=Lens(1.0, known=False))
    assert unknown[0] == [3, 6], "another focal length may do"


@pytest.mark.parametrize(
    ("seen", "reason", "asked"), [(1.0, Reason.TOO_LITTLE_SUPPORT, 1), (1 / 3, Reason.TOO_MANY_DISAGREE, 0)]
)
def test_a_place_seen_in_part_is_refused_for_what_it_shows_and_its_edges_are_not_asked(
    seen: float, reason: Reason, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few matches agree since few photos were looked at: that is not why."""
    edges: list[int] = []

    def compared(*_: Any) -> tuple[float, float]:
        edges.append(1)
        return 20.0, 0.3

    figures = GroupFigures(support=40, ratio=0.3, log_odds=-6.0)
    for name, gives in (
        ("adjust_fixed_aerial", SimpleNamespace(cams_from_world=POSES)),
        ("compare_halves", None),
        ("photos_of", SimpleNamespace(of_view=None)),
        ("measure", figures),
        ("shown_adjusted", None),
    ):
        monkeypatch.setattr(place_refinement, name, lambda *_, gives=gives: gives)
    monkeypatch.setattr(place_refinement, "_edges", compared)
    scaffold: Any = SimpleNamespace(atlas=None, scaffold=None, ground=None)
    search = Search(scaffold, GroundFrames(Sequence(Path(), (), CAMERA, False, (), ())), AnchorConfig())
    local = LocalGroup(tuple(range(6)), POSES, ba.nothing(), 0.5, 5.0)
    at = GroupAt(local, CAMERA, GroupSolution(similarity.identity(), POSES, np.empty(0, bool), 0.0), joined([]))
    settled = place_refinement.adjusted(search, at, seen)
    assert settled.refusal is not None and settled.refusal.reason is reason and len(edges) == asked
    assert settled.figures == figures and settled.support == 40


def test_a_bus_before_a_photo_does_not_end_the_look_at_a_promising_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under traffic a place where 1054 of 1266 matches agreed was dropped for one covered photo."""
    middle = 3
    views, settled = settled_by(monkeypatch, ((90, 30), (110, 30)), covered=((1, middle),))
    assert views == [3, 6] and settled.refusal is None
    views, settled = settled_by(monkeypatch, ((30, 40), (110, 30)), covered=((1, middle),))
    assert views == [3, 1] and settled.refusal is not None


def test_a_look_at_a_settled_place_is_at_all_photos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under another sun keypoints saw little in two photos of a right place, and none of 112 were said to agree."""
    for covered in ((3,), (3, 0), (3, 0, 1)):
        hidden, clear = tuple((0, slot) for slot in covered), 6 - len(covered)
        views, settled = settled_by(monkeypatch, ((110, 30),), covered=hidden, warm=True)
        assert views == [6] and settled.refusal is None
        assert settled.turns[0].matches == clear * 140 + len(covered) * 4
        assert clear * 100 <= settled.turns[0].agreeing <= clear * 115


def test_a_turn_is_added_where_the_last_doubled_the_agreement(monkeypatch: pytest.MonkeyPatch) -> None:
    views, turns = looked_at(monkeypatch, ((25, 100), (90, 100), (120, 30)))
    assert views == [3, 6, 6] and turns[2].matches == 6 * 150
