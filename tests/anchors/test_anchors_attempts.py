"""What a later attempt at a group knows of an earlier one: nothing that was matched, made or refused is done again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from skyanchor.anchors import group, place_finding
from skyanchor.anchors.adjustment import FixedAerial
from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.frames import GroundFrames, Lens
from skyanchor.anchors.ladder import Rung
from skyanchor.anchors.place_description import fit_words
from skyanchor.anchors.place_finding import Compared, PlaceQuery, PlacesConfig, count_votes, place_seeds
from skyanchor.anchors.place_index import PlaceIndex, PlaceView, make_tile
from skyanchor.anchors.place_refinement import Settled
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.geometry import cameras, rigid
from skyanchor.matching import Features, match_features
from skyanchor.sfm import bundle as ba
from skyanchor.types import AnchorGroup, Pose, Reason, Refusal, Sequence

LOCAL = LocalGroup((0, 1), (rigid.identity(),) * 2, ba.nothing(), 0.5, 5.0)
NO = Refusal(Reason.LOOK_ALIKE, "not here")


def at(x: float) -> tuple[Pose, ...]:
    return (Pose(np.eye(3), np.array([-x, 0.0, 0.0])),) * 2


def place(x: float) -> Any:
    return SimpleNamespace(solution=SimpleNamespace(cams_from_world=at(x)), support=100)


def settled_at(monkeypatch: pytest.MonkeyPatch, search: Search, where: list[float], measured: bool) -> list[float]:
    """Places that an attempt settles, of those that it is given."""
    seen: list[float] = []

    def settle(_: Search, local: LocalGroup, start: Any, been: tuple[Settled, ...] = ()) -> Settled:
        seen.append(-float(start.cams_from_world[0].translation[0]))
        none, nothing = np.empty(0, np.int64), np.empty((0, 3))
        poses, flat = start.cams_from_world, np.zeros((2, 6, 6))
        done = FixedAerial(poses, flat, none, none, none, 1.0, 1.0, nothing, 1.0) if measured else None
        return Settled(local, done, NO, support=50)

    monkeypatch.setattr(group, "settle", settle)
    got = group._try_places(search, LOCAL, tuple(place(x) for x in where))
    assert got.refusal is NO
    return seen


def search_of() -> Search:
    nothing: Any = SimpleNamespace()
    return Search(nothing, SimpleNamespace(sequence=Path()), AnchorConfig())  # type: ignore[arg-type]


def wider(search: Search) -> Search:
    return replace(search, config=replace(search.config, ladder=replace(search.config.ladder, places=6)))


def test_a_wider_search_looks_at_other_places_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    search = search_of()
    assert settled_at(monkeypatch, search, [0.0, 10.0, 20.0, 30.0], True) == [0.0, 10.0, 20.0]
    again = settled_at(monkeypatch, wider(search), [0.5, 30.0, 10.0, 40.0, 50.0, 60.0], True)
    assert again == [30.0, 40.0, 50.0], "six places in all"


def test_a_place_that_came_to_nothing_may_have_been_begun_badly(monkeypatch: pytest.MonkeyPatch) -> None:
    search = search_of()
    settled_at(monkeypatch, search, [0.0, 10.0], False)
    assert settled_at(monkeypatch, wider(search), [0.5, 10.0], True) == [0.5, 10.0]


def test_another_lens_or_matcher_looks_at_all_places(monkeypatch: pytest.MonkeyPatch) -> None:
    search = search_of()
    settled_at(monkeypatch, search, [0.0, 10.0], True)
    others = (
        replace(search, lens=Lens(1.2)),
        replace(search, config=replace(search.config, refine=replace(search.config.refine, rounds=3))),
        search_of(),
    )
    for other in others:
        assert settled_at(monkeypatch, other, [0.0, 10.0], True) == [0.0, 10.0]


def test_more_frames_do_not_stand_in_for_those_that_saw_a_look_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three frames before an unnoticed splice made nine after it sure of a place in another town."""
    own, more, shifted = (3, 4, 5), (0, 1, 2, 3, 4, 5), (0, 1, 2)
    asked: list[tuple[int, ...]] = []

    def attempt(_: Search, frames: tuple[int, ...], __: Any) -> Settled:
        asked.append(frames)
        return Settled(None, None, reason)

    monkeypatch.setattr(group, "attempt", attempt)
    ladder = tuple(Rung(frames, AnchorConfig()) for frames in (own, shifted, more))
    reason = NO
    got, _ = group.climbed(search_of(), AnchorGroup(0, own, (0,)), ladder, group.settle_on_bridges)
    assert asked == [own, shifted] and got.refusal is NO
    asked.clear()
    reason = Refusal(Reason.NO_PLACE, "nowhere")
    group.climbed(search_of(), AnchorGroup(0, own, (0,)), ladder, group.settle_on_bridges)
    assert asked == [own, shifted, more]


# --- what is done once ----------------------------------------------------------------------------------------------


def features(seed: int) -> Features:
    rng = np.random.default_rng(seed)
    held = rng.normal(size=(60, 64)).astype(np.float32)
    held /= np.linalg.norm(held, axis=1, keepdims=True)
    ones = np.ones(60, np.float32)
    return Features(rng.uniform(0, [400, 230], (60, 2)), held, ones, ones, 416, 234, 1.0)


def view(number: int) -> PlaceView:
    eye = np.array([20.0 * number, 0.0, 1.7])
    points = np.random.default_rng([9, number]).normal(eye, 25.0, (60, 3)).astype(np.float32)
    return PlaceView(eye, 0.0, 416, features(number).descriptors, points, np.full(60, number))


def test_a_frame_is_matched_with_a_view_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wider search has twice the voters and twice the views, of which a quarter was matched before."""
    views = tuple(view(k) for k in range(12))
    words = fit_words(views, 16)
    index = PlaceIndex((make_tile(views, words),), words)
    ground: Any = SimpleNamespace(across=np.eye(2, 3))
    query = PlaceQuery(tuple(features(k) for k in (3, 4, 3, 4)), 640)
    narrow = PlacesConfig(shortlist=6, voters=2, seeds=2)
    wide = replace(narrow, shortlist=12, voters=4, seeds=4)
    matched: list[int] = []
    own = place_finding.match_alike

    def counted(*given: Any) -> Any:
        matched.append(1)
        return own(*given)

    monkeypatch.setattr(place_finding, "match_alike", counted)
    compared = Compared(index)
    asked = []
    for config in (narrow, narrow, wide):
        got = place_seeds(index, ground, query, config, compared)
        asked.append(len(matched))
        fresh = place_seeds(index, ground, query, config)
        matched.clear()
        assert [seed.votes for seed in got] == [seed.votes for seed in fresh]
        for one, other in zip(got, fresh, strict=True):
            assert np.array_equal(one.matches.xy, other.matches.xy)
            assert np.array_equal(one.matches.points, other.matches.points)
    assert asked == [2 * 6, 0, 4 * 12 - 2 * 6]


@pytest.mark.parametrize(("least", "vote"), [(0.2, 0.3), (0.3, 0.2)])
def test_what_is_held_gives_each_asker_the_matches_of_its_own_limit(least: float, vote: float) -> None:
    """The matcher itself is the oracle, asked with the limit of votes and with that of seeds."""
    frame, views = features(99), tuple(view(k) for k in range(12))
    words = fit_words(views, 16)
    index = PlaceIndex((make_tile(views, words),), words)
    config = PlacesConfig(shortlist=12, voters=1, seeds=1, least_cosine=least, vote_cosine=vote)
    held = [replace(frame, descriptors=index.view(k).descriptors) for k in range(12)]
    short, votes = count_votes(index, (frame,), np.ones(12, np.bool_), config)
    wanted = {k: len(match_features(frame, held[k], 1.0, vote)) for k in range(12)}
    assert dict(zip(short.tolist(), votes.tolist(), strict=True)) == wanted
    ground: Any = SimpleNamespace(across=np.eye(2, 3))
    (seed,) = place_seeds(index, ground, PlaceQuery((frame,), 416), config)
    counts = [len(match_features(frame, one, 1.0, least)) for one in held]
    best = int(short[0])
    assert counts[best] != wanted[best] and len(seed.matches) == counts[best]


def test_attempts_that_search_otherwise_share_the_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, ...]] = []

    def shape(_: Any, frames: tuple[int, ...], *__: Any) -> LocalGroup:
        made.append(frames)
        return LOCAL

    monkeypatch.setattr(group, "group_shape", shape)
    monkeypatch.setattr(group, "beside_walks", lambda _, settled: settled)
    sequence = Sequence(Path(), (), cameras.pinhole(640, 360, 457.0), False, (), ())
    search = replace(search_of(), frames=GroundFrames(sequence))
    others = (
        wider(search),
        replace(search, lens=Lens(1.2)),
        replace(search, config=replace(search.config, local=replace(search.config.local, depth_always=True))),
    )
    for one, frames in ((search, (0, 1)), (search, (2, 3)), *((other, (0, 1)) for other in others)):
        got = group.attempt(one, frames, lambda _, local: Settled(local, None, NO))
        assert got.local is LOCAL
    assert made == [(0, 1), (2, 3), (0, 1), (0, 1)], "of a wider search it is the same"


def test_a_refused_place_that_is_the_best_again_has_had_its_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Settled] = []

    def sharpened(_: Search, settled: Settled) -> Settled:
        looked.append(settled)
        return replace(settled, support=1)

    search = search_of()
    monkeypatch.setattr(group, "sharpened", sharpened)
    monkeypatch.setattr(group, "places_of", lambda *_: (place(0.0),))
    none, nothing = np.empty(0, np.int64), np.empty((0, 3))
    done = FixedAerial(at(0.0), np.zeros((2, 6, 6)), none, none, none, 1.0, 1.0, nothing, 1.0)
    monkeypatch.setattr(group, "settle", lambda *_, **__: Settled(LOCAL, done, NO, support=50))
    first, again = (group.settle_on_bridges(one, LOCAL) for one in (search, wider(search)))
    assert len(looked) == 1 and again is first and first.support == 1


@pytest.mark.parametrize(("support", "seen", "ambiguous"), [(70, 1.0, True), (50, 1.0, False), (25, 1 / 3, True)])
def test_a_place_that_was_looked_at_in_part_counts_as_if_it_were_whole(
    support: int, seen: float, ambiguous: bool
) -> None:
    none, nothing, flat = np.empty(0, np.int64), np.empty((0, 3)), np.zeros((2, 6, 6))
    best, other = (
        Settled(LOCAL, FixedAerial(at(x), flat, none, none, none, 1.0, 1.0, nothing, 1.0), NO, support=n, seen=share)
        for x, n, share in ((0.0, 100, 1.0), (30.0, support, seen))
    )
    assert (group._ambiguous(search_of(), best, [best, other]) is not None) == ambiguous
