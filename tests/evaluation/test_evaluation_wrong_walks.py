"""Walks that do not belong: what a pairing is, how it is scored, and what tables and fits make of it."""

from __future__ import annotations

import importlib
import json
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from math import inf, nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest

from skyanchor.anchors import likelihood
from skyanchor.geometry import cameras, rigid
from skyanchor.scaffold.colmap_files import write_model
from skyanchor.scaffold.colmap_model import ColmapImage, ColmapModel, no_points
from skyanchor.town import CLEAR
from skyanchor.types import AnchorGroup, AnchorPose, GroupFigures, LocalisedGroup, Pose, Reason, Refusal

ROOT = Path(__file__).parents[2]
CAMERA = cameras.pinhole(64, 48, 60.0)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module


# --- pairings -----------------------------------------------------------------------------------------------------


def test_every_day_of_a_walk_is_another_one_than_the_clear_day(load: Any) -> None:
    of = load("wrong_pairings")
    for day in of.DAYS:
        walk = of.Walk("31", day=day)
        assert walk.preset.weather != CLEAR or (day in of.LEAVES and walk.rendered == of.Walk("31"))


def test_what_is_built_is_what_is_walked(load: Any) -> None:
    of = load("wrong_pairings")
    here, street = of.Walk("31"), of.Walk("31", street=2)
    assert street.preset.walk.corners == of.STREETS[2] != here.preset.walk.corners
    assert of.Pairing("street", here, street).needs == (here, street)
    assert of.Pairing("own", here, of.Walk("31", day="leaves-mild")).needs == (here, here), "laid over the clear day"
    assert of.Pairing("own", here, of.Walk("31", day="sun-mild")).needs == (here, of.Walk("31", day="sun-mild"))


@pytest.mark.parametrize("day", ["sun", "sun-midle", "sunny-mild", "leaves-hard", "flight-sun-mild", "sun_mild", ""])
def test_what_is_no_day_of_a_walk_is_refused(load: Any, day: str) -> None:
    of = load("wrong_pairings")
    with pytest.raises(ValueError, match="no day of a walk"):
        of.pairings([of.Walk("31")], 1, ["sun-mild", day])


def test_no_scaffold_is_there_twice_and_no_kind_is_made_up(load: Any) -> None:
    of = load("wrong_pairings")
    with pytest.raises(ValueError, match="31-9designs is given twice"):
        of.pairings([of.Walk("31"), of.Walk("43", 2), of.Walk("31")], 1)
    with pytest.raises(ValueError, match="twins is no kind"):
        of.of_kinds(of.pairings([of.Walk("31")], 1), ["twins=2"])


def test_pairings_are_what_they_are_called(load: Any) -> None:
    of = load("wrong_pairings")
    here, other, scene = of.Walk("31"), of.Walk("43", 2), of.Walk("yard")
    every = of.pairings([here, other, scene], 2, ["sun-mild", "leaves-mild"])
    assert {pairing.kind for pairing in every} == set(of.KINDS)
    assert len({pairing.name for pairing in every}) == len(every)
    for one in every:
        own = one.scaffold == of.replace(one.walk, day="", street=None)
        assert own == (one.kind not in ("twin", "foreign")) or one.kind == "mirrored"
        assert (one.walk.street is not None) == (one.kind == "street") and (one.walk.day == "" or one.kind == "own")
        assert (one.after is not None) == (one.kind in ("half", "woven")) and one.after != one.scaffold
        assert one.kind != "twin" or one.walk.designs_of == int(one.scaffold.town)
    assert [one.walk.day for one in every if one.scaffold == scene and one.kind == "own"] == ["", "leaves-mild"]
    kept = of.of_kinds(every, ["twin=1", "own"])
    assert Counter(one.kind for one in kept) == {"twin": 2, "own": 8}


def test_a_pairing_waits_for_what_it_needs_and_a_failure_holds_up_no_other(load: Any) -> None:
    of, walks = load("wrong_pairings"), load("wrong_walks")
    here, other = of.Walk("31"), of.Walk("43")
    foreign, own = of.Pairing("foreign", here, other), of.Pairing("own", other, other)
    todo = walks._Todo([foreign, own])
    assert todo.next() == (here, True) and todo.next() == (other, True) and todo.next() is None
    todo.ready.add(other)  # `here` could not be built
    assert todo.next() == own and todo.next() is None and todo.pairings == [foreign]


def test_a_failure_is_counted_and_ways_of_looking_are_kept_apart(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Town 32 cannot be built; what is found with --shade is no pairing of a start without it."""
    walks = load("wrong_walks")

    def ready(_: object, walk: Any, scaffold: bool) -> Any:
        if walk.town == "32":
            raise OSError("no room")
        return walk

    def tried(place: Any, pairing: Any, shade: bool, evidence: bool) -> Path:
        path = place.pairings / f"{pairing.name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(line(pairing=pairing.name, accepted=shade, group=0)) + "\n")
        return path

    monkeypatch.setattr(walks.os, "environ", dict(os.environ))
    monkeypatch.setattr(walks, "ProcessPoolExecutor", lambda jobs, mp_context: ThreadPoolExecutor(jobs))
    monkeypatch.setattr(walks, "made_ready", ready)
    monkeypatch.setattr(walks, "tried", tried)
    words = ["wrong_walks.py", "--work", str(tmp_path), "--kinds", "own=1", "--towns"]
    monkeypatch.setattr("sys.argv", [*words, "31", "32"])
    with pytest.raises(SystemExit, match="1 failed"):
        walks.main()
    monkeypatch.setattr("sys.argv", [*words, "31", "--shade"])
    walks.main()
    for way, accepted in (("", False), ("-shade", True)):
        (found,) = map(json.loads, (tmp_path / f"groups{way}.jsonl").read_text().splitlines())
        assert found["accepted"] is accepted and found["pairing"] == "own-31-9designs-31-9designs"
    assert len(list(tmp_path.glob("pairings*"))) == len(list(tmp_path.glob("table*.md"))) == 2


# --- photos and truth ---------------------------------------------------------------------------------------------


def centre(k: int) -> Pose:
    return Pose(rigid.rotation_exp(np.array([0.0, 0.1 * k, 0.0])), np.array([1.0 * k, 0.0, 2.0]))


def walk_in(folder: Path, seed: int) -> dict[str, np.ndarray]:
    """A walk of 18 photos with its truth; the photos by name."""
    rng, images, photos = np.random.default_rng(seed), [], {}
    (folder / "images").mkdir(parents=True)
    for k in range(18):
        name, pose = f"{k:02d}.png", centre(k)
        photos[name] = rng.integers(0, 255, (48, 64, 3), dtype=np.uint8)
        cv2.imwrite(str(folder / "images" / name), photos[name])
        quaternion, none = rigid.quaternion_from_rotation(pose.rotation), np.zeros(0, np.int64)
        images.append(ColmapImage(k + 1, 1, name, quaternion, pose.translation, np.zeros((0, 2)), none))
    write_model(folder / "truth", ColmapModel({1: CAMERA}, tuple(images), no_points()))
    return photos


@pytest.mark.parametrize("kind", ["own", "reversed", "mirrored", "upside-down", "woven", "foreign"])
def test_photos_and_truth_belong_together(load: Any, tmp_path: Path, kind: str) -> None:
    of, walks = load("wrong_pairings"), load("wrong_walks")
    here, other = of.Walk("here"), of.Walk("other")
    own, foreign = walk_in(tmp_path / "here/ground", 0), walk_in(tmp_path / "other/ground", 1)
    place = walks.Place(tmp_path / "work", {"here": tmp_path / "here", "other": tmp_path / "other"})
    walk, after = (other if kind == "foreign" else here), (other if kind == "woven" else None)
    scaffold = SimpleNamespace(scaffold=SimpleNamespace(georef=SimpleNamespace(offset=np.array([5.0, 0.0, 0.0]))))
    tried = walks.tried_photos(place, of.Pairing(kind, here, walk, after), scaffold)
    seen = [cv2.imread(str(frame.path)) for frame in tried.sequence.frames]
    handled = {"mirrored": lambda p: p[:, ::-1], "upside-down": lambda p: p[::-1, ::-1]}.get(kind, lambda p: p)
    which = {"reversed": [*range(17, -1, -1)], "woven": [*range(3, 15), None, None, None, 0, 1, 2]}.get(kind, range(18))
    for k, (frame, pixels, number) in enumerate(zip(tried.sequence.frames, seen, which, strict=True)):
        source = foreign if kind == "foreign" or number is None else own
        name = f"{k - 12 if number is None else number:02d}.png"
        assert np.array_equal(pixels, handled(source[name])) or np.abs(pixels - handled(source[name])).mean() < 1
        if kind in ("mirrored", "foreign") or number is None:
            assert frame.name not in tried.true
        else:
            true = tried.true[frame.name]
            assert np.allclose(rigid.centre_in_world(true), rigid.centre_in_world(centre(number)) - [5.0, 0.0, 0.0])
            ahead, was = true.rotation[2], centre(number).rotation[2]
            across = (-1.0 if kind == "upside-down" else 1.0) * centre(number).rotation[0]
            assert np.allclose(ahead, was) and np.allclose(true.rotation[0], across)


# --- scores -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("off_m", "turn_deg", "sigma_m", "known", "wrong"),
    [
        (0.0, 0.0, 0.02, True, False),
        (0.09, 0.0, 0.02, True, False),
        (0.11, 0.0, 0.02, True, True),  # more than five sigmas
        (0.49, 0.0, 0.2, True, False),
        (0.51, 0.0, 0.2, True, True),
        (0.0, 60.0, 0.2, True, True),
        (0.0, 0.0, 0.02, False, True),  # a photo that does not belong
    ],
)
def test_an_accepted_group_is_wrong_by_the_truth(
    load: Any, off_m: float, turn_deg: float, sigma_m: float, known: bool, wrong: bool
) -> None:
    walks = load("wrong_walks")
    turned = rigid.rotation_exp(np.array([0.0, np.radians(turn_deg), 0.0]))
    true = {f"{k}": centre(k) for k in range(3)}
    poses = [
        Pose(turned @ pose.rotation, turned @ (pose.translation + np.array([0.0, off_m, 0.0])))
        for pose in true.values()
    ]
    photos = walks.Tried(
        SimpleNamespace(frames=[SimpleNamespace(name=name) for name in true]),
        true if known else {name: pose for name, pose in true.items() if name != "1"},
    )
    covariance = np.diag([1e-6, 1e-6, 1e-6, *(sigma_m**2,) * 3])
    group = AnchorGroup(0, (0, 1, 2), (0,))
    found = LocalisedGroup(group, tuple(AnchorPose(k, pose, covariance) for k, pose in enumerate(poses)), None)
    score = walks._score(photos, found)
    assert score["accepted"] and score["wrong"] is wrong and score["sigma_m"] == pytest.approx(sigma_m)
    refused = LocalisedGroup(group, (), Refusal(Reason.LOOK_ALIKE, ""))
    assert walks._score(photos, refused)["wrong"] is False


# --- lines --------------------------------------------------------------------------------------------------------


def place(odds: float, error_m: float | None, confirmed: float = 0.5, **more: float) -> dict[str, Any]:
    shown = {"fronts": 10.0, "confirmed": confirmed, "ground": 8.0, "ground_confirmed": 0.4}
    shown |= {"edges": 6.0, "edges_met": 0.5}
    fit = {"ratio": 0.7, "reprojection": 0.4, "halves_m": 0.1, "exact": 100.0, "exact_share": 0.3}
    figures = asdict(GroupFigures()) | shown | fit | {"log_odds": odds} | more
    return {"figures": figures, "error_m": error_m, "middle": None}


def line(*places: dict[str, Any], **more: Any) -> dict[str, Any]:
    held = {"pairing": "p", "kind": "own", "day": "", "scaffold": "31-9designs", "frames": 3, "belong": 3}
    verdict = {"accepted": True, "wrong": False, "error_m": 0.05, "reason": "", "seconds": 2.0}
    return held | verdict | {"figures": {"log_odds": 2.0}, "places": list(places)} | more


def test_a_place_is_counted_once_by_its_last_look(load: Any) -> None:
    of = load("wrong_walks_table")
    first, last = place(1.0, 0.2), place(2.0, 0.1, ratio=0.9, reprojection=0.2, halves_m=0.5)
    (kept,) = of.last_words([first, last])
    assert kept["figures"]["log_odds"] == 2.0 and kept["error_m"] == 0.1
    assert [kept["figures"][name] for name in ("ratio", "reprojection", "halves_m")] == [0.7, 0.4, 0.1]
    assert len(of.last_words([first, place(2.0, 9.0, edges_met=0.6)])) == 2, "alike in fronts and ground alone"
    assert of.last_words([place(nan, 0.1), {"figures": None, "error_m": nan}]) == []


@pytest.mark.parametrize(("error_m", "right"), [(0.0, True), (0.49, True), (0.51, False), (inf, False), (None, False)])
def test_a_place_is_right_by_its_distance(load: Any, error_m: float | None, right: bool) -> None:
    held = line(place(-1.0, 0.1 if not right else 9.0, confirmed=0.1), place(3.0, error_m), belong=0)
    ((found, odds, share),) = load("wrong_walks_table").best_places([held])
    assert (found, odds, share) == (right, 3.0, 0.7)
    seen = {one.right: one.said for one in load("fit_odds").best_of([held])}
    assert seen == {right: 3.0, not right: -1.0}


def test_a_row_of_the_table(load: Any) -> None:
    lines = [
        line(place(2.5, 0.1)),
        line(place(1.5, 0.2), seconds=4.0, error_m=0.3, figures={"log_odds": 1.25}),
        line(place(0.75, 40.0), pairing="q", accepted=True, wrong=True, error_m=40.0, belong=0, seconds=6.0),
        line(pairing="q", accepted=False, reason="look-alike", belong=0, error_m=nan, seconds=12.0),
    ]
    lines += [line(kind="twin", day="sun-mild", accepted=False, reason="no-place", belong=0, error_m=nan, seconds=8.0)]
    text = load("wrong_walks_table").table(lines)
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in text.splitlines()]
    assert rows[0][0] == "walk" and len({len(row) for row in rows}) == 1
    figures = ["2", "4", "2", "3", "1", "0.300 m", "from 1.2", "up to 0.8", "5.0", "1.2", "look-alike 1"]
    assert rows[2] == ["own", *figures]
    assert rows[3] == ["twin sun-mild", "1", "1", "0", "0", "0", "-", "-", "-", "8.0", "2.0", "no-place 1"]


def test_lines_come_back_with_what_is_no_number(load: Any, tmp_path: Path) -> None:
    held = [line(place(-inf, inf)), line(place(nan, nan))]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in held))
    (tmp_path / "b.tmp").write_text("half of a li")
    again = load("wrong_walks_table").read_lines(tmp_path)
    assert len(again) == 2 and again[0]["places"][0]["error_m"] == inf
    assert load("wrong_walks_table").best_places(again) == [(True, -inf, -inf)] * 2


# --- fits ---------------------------------------------------------------------------------------------------------


def test_odds_are_those_that_the_run_gave(load: Any) -> None:
    of = load("fit_odds")
    (one,) = of.best_of([line(place(0.0, 0.1))])
    said = likelihood.log_odds(one.found, 0.7) + likelihood.residual_log_odds(0.4) + likelihood.halves_log_odds(0.1)
    said += likelihood.exact_log_odds(30.0, 100.0)
    assert of.odds_of(one, likelihood.KINDS) == pytest.approx(said)


def test_no_half_of_the_towns_judges_itself(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    of, asked = load("fit_odds"), []
    towns = ("a", "b", "c", "d", "b")
    seen = of.best_of([line(place(0.0, 0.1), scaffold=town) for town in towns])
    monkeypatch.setattr(of, "both_of", lambda some: tuple(one.town for one in some))
    monkeypatch.setattr(of, "odds_of", lambda one, fitted: asked.append((one.town, set(fitted))) or 0.0)
    of.halves(seen)
    assert asked == [(town, {"b", "d"} if town in "ac" else {"a", "c"}) for town in towns]


def test_fits_find_what_was_drawn(load: Any) -> None:
    of, rng = load("fit_odds"), np.random.default_rng(0)
    true = likelihood.Shares(0.6, 8.0)
    drawn = rng.binomial(200, rng.beta(0.6 * 8.0, 0.4 * 8.0, 400))
    found = of.fitted(lambda s: sum(s.log_chance(k, 200) for k in drawn), likelihood.Shares(0.3, 3.0))
    assert found.mean == pytest.approx(true.mean, abs=0.03) and found.weight == pytest.approx(true.weight, rel=0.2)


def test_the_share_of_copies_is_found(load: Any) -> None:
    alike = place(-5.0, inf, 0.2, fronts=40.0, ground_confirmed=0.3, edges=40.0, edges_met=0.3, ratio=0.5)
    copy = place(-5.0, inf, 0.8, fronts=40.0, ground_confirmed=0.8, edges=40.0, edges_met=0.8, ratio=0.87)
    of = load("fit_odds")
    share, low, high = of.copies_of(of.best_of([line(alike)] * 90 + [line(copy)] * 10))
    assert low < share < high and share == pytest.approx(0.1, abs=0.01)


def test_areas_and_calibration(load: Any) -> None:
    of = load("fit_odds")
    odds, right = np.array([2.0, 1.0, 1.0, -3.0]), np.array([True, True, False, False])
    assert of.area(odds, right) == pytest.approx((1 + 1 + 0.5 + 1) / 4)
    assert of.calibration(odds, right)[2:] == [
        "| 10^-inf to 10^-2 | 1 | 0% | 0% |", "| 10^1 to 10^2 | 2 | 50% | 91% |", "| 10^2 to 10^inf | 1 | 100% | 99% |",
    ]  # fmt: skip
    assert of.limits(odds, right)[-1] == "| 10^2 | 1 | 0 |"


@pytest.mark.parametrize(("miss_m", "leads"), [(0.0, 1), (4.0, 1), (60.0, 0)])
def test_the_walk_leads_from_one_group_to_the_next_or_not(load: Any, miss_m: float, leads: int) -> None:
    """Ten steps of 4 m; dead reckoning is good to some metres and a share of the way."""

    def group(k: int, x: float) -> dict[str, Any]:
        poses = {"cam_from_world": [-x, 0.0, 0.0], "cam_from_start": [-10.0 * k, 0.0, 0.0]}
        middle = {name: [*np.eye(3).ravel(), *shift] for name, shift in poses.items()} | {"walked": 10.0 * k}
        return line(place(1.0, inf, step_m=4.0) | {"middle": middle}, belong=0)

    of = load("fit_odds")
    assert of.on_one_walk([group(0, 100.0), group(1, 140.0 + miss_m)]) == (1, leads)
    assert of.on_one_walk([group(0, 100.0) | {"belong": 3}, group(1, 140.0) | {"belong": 3}]) == (0, 0)


# --- made-up walks ------------------------------------------------------------------------------------------------


def test_the_best_of_many_is_better(load: Any) -> None:
    of, rng = load("sure_walks"), np.random.default_rng(0)
    pool = of.Drawn(np.linspace(0.0, 1.0, 10_001), np.zeros(10_001, bool))
    for count in (1, 4, 19):
        assert pool.best_of(rng, 20_000, count).odds.mean() == pytest.approx(count / (count + 1), abs=0.01)


def test_drawn_places_have_the_odds_that_they_should(load: Any) -> None:
    """Odds of 10^x or more are x powers rarer among wrong places than among right ones, at least."""
    of, rng = load("sure_walks"), np.random.default_rng(1)
    right, wrong = of.drawn(rng, 1500, True, 0.0), of.drawn(rng, 6000, False, likelihood.COPIES)
    assert not right.copies.any() and wrong.copies.mean() == pytest.approx(likelihood.COPIES, abs=0.006)
    assert (right.odds >= 1.0).mean() > 0.8
    for least in (0.5, 1.0, 1.5):
        assert (wrong.odds >= least).mean() < 1.5 * 10.0**-least * (right.odds >= least).mean()
    assert wrong.odds[wrong.copies].mean() > wrong.odds[~wrong.copies].mean() + 2.0


def test_groups_of_a_foreign_walk_stand_at_copies_after_a_copy(load: Any) -> None:
    of, rng = load("sure_walks"), np.random.default_rng(2)
    wrong = of.Drawn(np.r_[np.full(9990, -5.0), np.full(10, 3.0)], np.r_[np.zeros(9990, bool), np.ones(10, bool)])
    odds, off = of.foreign(rng, wrong, 10**6, 1.0, 4)
    assert odds.tolist() == [3.0] * 4 and off.sum() == 3
    odds, _ = of.foreign(rng, wrong, 10**6, 0.0, 4)
    assert sorted(odds) == [-5.0, -5.0, -5.0, 3.0]
    odds, off = of.foreign(rng, of.Drawn(np.full(100, -5.0), np.zeros(100, bool)), 10, 1.0, 4)
    assert odds.tolist() == [-5.0] * 4 and not off.any()


@pytest.mark.parametrize(("right", "wrong", "elsewhere"), [(2.0, 1.0, False), (-1.0, 1.0, True), (-1.0, -1.0, False)])
def test_a_group_that_is_not_recognised_may_have_been_elsewhere(
    load: Any, right: float, wrong: float, elsewhere: bool
) -> None:
    of = load("sure_walks")
    pools = (of.Drawn(np.full(9, odds), np.zeros(9, bool)) for odds in (right, wrong))
    odds, off = of.belonging(np.random.default_rng(0), *pools, 3)
    assert odds.tolist() == [right] * 3 and off.tolist() == [elsewhere] * 3


def test_groups_are_accepted_by_the_rules(load: Any) -> None:
    of, none = load("sure_walks"), np.zeros(3, bool)
    assert of.accepted(np.array([3.0, 3.0, 3.0]), none, 44.0, 0.0) == 3
    assert of.accepted(np.array([3.0, -1.0, 3.0]), none, 44.0, 0.0) == 2
    assert of.accepted(np.array([0.5, 0.5, 0.5]), none, 44.0, 0.0) == 0, "none is sure"
    assert of.accepted(np.array([2.0, 2.0, 2.0]), none, 44.0, -3.0) == 3, "sure together"
    assert of.accepted(np.array([2.0, 2.0, 2.0]), none, 10.0, -3.0) == 0, "they see the same house"
