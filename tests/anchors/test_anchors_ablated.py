"""Groups with a part of the method left out: which way is taken, and what it makes of its places."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from skyanchor.anchors import ablated, walk
from skyanchor.anchors.adjustment import FixedAerial
from skyanchor.anchors.config import AnchorAblation, AnchorConfig, Route
from skyanchor.anchors.group import Settle, settle_on_bridges
from skyanchor.anchors.ladder import Rung
from skyanchor.anchors.paper_route import route as paper
from skyanchor.anchors.paper_route.route import settle_both_ways, settle_by_similarity, settle_on_cameras
from skyanchor.anchors.paper_route.support import settle_on_photos
from skyanchor.anchors.place_finding import PlaceHypothesis
from skyanchor.anchors.place_refinement import Settled
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.incremental import LocalGroup, single_frame
from skyanchor.anchors.solve import GroupSolution
from skyanchor.geometry import cameras, rigid, similarity
from skyanchor.step_clock import StepClock
from skyanchor.types import AnchorGroup, Frame, GroupFigures, LocalisedGroup, Reason, Refusal, Sequence

CAMERA = cameras.pinhole(640, 360, 457.0)
UP = np.array([0.0, 0.0, 1.0])
POSES = tuple(rigid.look_at(np.array([0.0, y, 1.7]), np.array([0.0, y + 9.0, 1.7]), UP) for y in (0.0, 0.7, 1.4))
GROUP = AnchorGroup(0, tuple(range(6)), ())
FINE = GroupFigures(
    support=500, ratio=0.9, frame_share=1.0, aerial_views=9, spread=0.6, reprojection=0.8, aerial_reprojection=0.8,
    tilt_deg=3.0, height_m=1.7, bend=0.0, turn_deg=0.0, sigma_m=0.03, halves_m=0.02, halves_scale=0.01,
)  # fmt: skip
"""Figures of a group that nothing speaks against."""


def search_with(ablation: AnchorAblation) -> Search:
    names = tuple(Frame(k, str(k), Path(str(k))) for k in range(6))
    frames: Any = SimpleNamespace(sequence=Sequence(Path(), names, CAMERA, False, (), (GROUP,)), clock=StepClock())
    prepared: Any = SimpleNamespace(surface=SimpleNamespace(gsd=0.08))
    return Search(prepared, frames, AnchorConfig(ablation=ablation))


def found_at(support: int) -> tuple[PlaceHypothesis, ...]:
    solution = GroupSolution(similarity.identity(), POSES, np.empty(0, bool), 0.0)
    return (PlaceHypothesis(solution, support, 9.0),)


@pytest.mark.parametrize(
    ("ablation", "way", "frames"),
    [
        (AnchorAblation(bridges=False), settle_on_photos, [GROUP.frames] * 2),
        (AnchorAblation(metric_alignment=False), ablated.unaligned, [GROUP.frames] * 2),
        (AnchorAblation(bridges=False, visibility_graph=False), settle_on_photos, [GROUP.frames] * 2),
    ],
)
def test_the_switches_choose_the_way(
    ablation: AnchorAblation, way: Settle, frames: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[tuple[Rung, ...], Settle]] = []

    def climbed(search: Search, group: AnchorGroup, ladder: tuple[Rung, ...], way: Settle) -> Any:
        asked.append((ladder, way))
        return LocalisedGroup(group, (), Refusal(Reason.NO_PLACE, "nowhere")), 1.0

    monkeypatch.setattr(ablated, "climbed", climbed)
    monkeypatch.setattr(walk, "localise_group", lambda *_: pytest.fail("the whole method was asked"))
    walk.verdict_on(search_with(ablation), walk.GroupTask(GROUP, ()))
    ((ladder, chosen),) = asked
    assert chosen is way and [rung.frames for rung in ladder] == frames


def test_the_whole_method_asks_for_no_ablation(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = LocalisedGroup(GROUP, (), Refusal(Reason.NO_PLACE, "nowhere"))
    monkeypatch.setattr(walk, "localise_group", lambda search, group: (verdict, 0.9))
    monkeypatch.setattr(walk, "localise_ablated", lambda *_: pytest.fail("an ablation was asked"))
    got = walk.verdict_on(search_with(AnchorAblation()), walk.GroupTask(GROUP, ()))
    assert got.localised is verdict and got.focal_scale == 0.9


@pytest.mark.parametrize(("route", "way"), [("paper", settle_on_cameras), ("both", settle_both_ways)])
def test_the_route_chooses_the_way(route: Route, way: Settle, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Settle] = []

    def climbed(search: Search, group: AnchorGroup, ladder: tuple[Rung, ...], way: Settle) -> Any:
        asked.append(way)
        assert [rung.config.paper.retrieved for rung in ladder] == [20, 40]  # more candidates before it is given up
        return LocalisedGroup(group, (), Refusal(Reason.NO_PLACE, "nowhere")), 1.0

    monkeypatch.setattr(walk, "climbed", climbed)
    monkeypatch.setattr(walk, "localise_group", lambda *_: pytest.fail("the default way was gone"))
    search = search_with(AnchorAblation())
    walk.verdict_on(replace(search, config=replace(search.config, route=route)), walk.GroupTask(GROUP, ()))
    assert asked == [way]


@pytest.mark.parametrize(("apart", "refusal"), [(0.2, None), (0.9, Reason.ROUTES_DISAGREE)])
def test_both_ways_must_agree_where_both_succeed(
    apart: float, refusal: Reason | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    local, fine = single_frame(0, CAMERA), replace(FINE, routes_m=float("nan"))
    nothing, none = np.empty(0, np.int64), np.empty((0, 3))
    moved = tuple(rigid.from_centre(p.rotation, rigid.centre_in_world(p) + np.array([0.0, apart, 0.0])) for p in POSES)
    here, there = (
        FixedAerial(poses, np.zeros((3, 6, 6)), nothing, nothing, nothing, 1.0, 1.0, none, 1.0)
        for poses in (POSES, moved)
    )
    found, other = Settled(local, here, None, fine), Settled(local, there, None, fine)
    lost = Settled(local, None, Refusal(Reason.NO_SEED, "nothing"))
    monkeypatch.setattr(paper, "settle_on_bridges", lambda *_: found)
    monkeypatch.setattr(paper, "settle_on_cameras", lambda *_: other)
    both = settle_both_ways(search_with(AnchorAblation()), local)
    assert both.done is here and both.figures.routes_m == pytest.approx(apart)
    assert (None if both.refusal is None else both.refusal.reason) is refusal
    monkeypatch.setattr(paper, "settle_on_cameras", lambda *_: lost)
    assert settle_both_ways(search_with(AnchorAblation()), local) is found
    monkeypatch.setattr(paper, "settle_on_bridges", lambda *_: lost)
    assert settle_both_ways(search_with(AnchorAblation()), local) is lost


def test_unaligned_is_the_best_place_as_it_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    search, local = search_with(AnchorAblation(metric_alignment=False)), single_frame(0, CAMERA)
    monkeypatch.setattr(ablated, "places_of", lambda *_: found_at(60))
    settled = ablated.unaligned(search, local)
    assert settled.refusal is None and settled.done is not None and settled.done.cams_from_world == POSES
    assert settled.figures.support == 60 and settled.figures.step_m == pytest.approx(0.7)
    assert np.allclose([np.sqrt(np.diag(covariance)) for covariance in settled.done.covariances], 0.5)
    monkeypatch.setattr(ablated, "places_of", lambda *_: found_at(59))
    refused = ablated.unaligned(search, local).refusal
    assert refused is not None and refused.reason is Reason.NO_PLACE


@pytest.mark.parametrize(
    ("route", "switches", "way"),
    [
        ("paper", {"visibility_graph": False}, settle_on_cameras),
        ("paper", {"metric_alignment": False}, settle_by_similarity),
        ("both", {"visibility_graph": False}, settle_both_ways),
        ("both", {"bridges": False}, settle_on_photos),
        ("both", {"metric_alignment": False}, ablated.unaligned),
        ("both", {"single_frame": True}, settle_on_bridges),
        ("both", {"ground_first": False}, settle_on_bridges),
    ],
)
def test_a_switch_leaves_the_route_as_it_is(route: Route, switches: dict[str, bool], way: Settle) -> None:
    assert ablated.way_left(AnchorConfig(route=route, ablation=AnchorAblation(**switches))) is way


@pytest.mark.parametrize(
    ("route", "bridges", "way"),
    [
        ("bridges", True, settle_on_bridges),
        ("bridges", False, settle_on_photos),
        ("paper", True, settle_on_photos),  # one frame alone has no reconstruction
        ("both", True, settle_on_bridges),
    ],
)
def test_single_frames_are_all_asked_alone(
    route: Route, bridges: bool, way: Settle, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[tuple[int, ...], Settle]] = []

    def attempt(search: Search, frames: tuple[int, ...], way: Settle) -> Settled:
        asked.append((frames, way))
        return Settled(None, None, Refusal(Reason.NO_PLACE, "nowhere"))

    monkeypatch.setattr(ablated, "attempt", attempt)
    search = search_with(AnchorAblation(bridges=bridges, single_frame=True))
    found, _ = ablated.localise_ablated(replace(search, config=replace(search.config, route=route)), GROUP)
    assert asked == [((k,), way) for k in range(6)] and not found.accepted


def test_without_ground_first_lone_poses_start_the_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames 0, 2 and 4 stand alone; their poses make the shape, and the group is settled as one."""
    search, led = search_with(AnchorAblation(ground_first=False)), []
    poses = dict(zip((0, 2, 4), POSES, strict=True))
    nothing, none = np.empty(0, np.int64), np.empty((0, 3))

    def attempt(search: Search, frames: tuple[int, ...], way: Settle) -> Settled:
        local = single_frame(frames[0], CAMERA)
        if frames[0] not in poses:
            return Settled(local, None, Refusal(Reason.PLACE_NOT_CONFIRMED, f"frame {frames[0]}"))
        done = FixedAerial((poses[frames[0]],), np.zeros((1, 6, 6)), nothing, nothing, nothing, 1.0, 1.0, none, 1.0)
        return Settled(local, done, None, FINE)

    def shape(frames: tuple[int, ...], *given: Any) -> LocalGroup:
        led.append([frame.cam_from_free for frame in given[3].frames])
        return replace(single_frame(0, CAMERA), frames=frames, cams_from_local=POSES)

    def settle(search: Search, local: LocalGroup, start: GroupSolution) -> Settled:
        assert start.cams_from_world == POSES
        done = FixedAerial(POSES, np.zeros((3, 6, 6)), nothing, nothing, nothing, 1.0, 1.0, none, 1.02)
        return Settled(local, done, None, FINE)

    search.frames.features = lambda *_: None  # type: ignore[method-assign,assignment,return-value]
    monkeypatch.setattr(ablated, "attempt", attempt)
    monkeypatch.setattr(ablated, "shape_from_free", shape)
    monkeypatch.setattr(ablated, "settle", settle)
    found, focal = ablated.localise_ablated(search, GROUP)
    assert found.accepted and [pose.frame for pose in found.poses] == [0, 2, 4] and focal == 1.02
    assert led == [list(POSES)] and found.group is GROUP and found.figures == FINE
    apart = Refusal(Reason.NO_GROUND_MATCHES, "no two frames")
    monkeypatch.setattr(ablated, "shape_from_free", lambda *_: apart)
    refused, _ = ablated.localise_ablated(search, GROUP)
    assert refused.refusal is apart and refused.poses == ()
    lonely, _ = ablated.localise_ablated(search, replace(GROUP, frames=(0, 1)))
    assert lonely.refusal is not None and lonely.refusal.reason is Reason.GROUP_FALLS_APART


def test_settings_of_the_papers_way_count_where_it_is_gone() -> None:
    assert AnchorConfig().unused == ("paper", "mixed")
    for used in (AnchorConfig(route="paper"), AnchorConfig(route="both"), AnchorConfig(ablation=AnchorAblation(False))):
        assert used.unused == ()


def test_frame_by_frame_keeps_the_frames_that_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even frames find a place of their own, odd ones do not."""
    search = search_with(AnchorAblation(ground_first=False))
    monkeypatch.setattr(ablated, "places_of", lambda *_: tuple(replace(one, solution=alone) for one in found_at(80)))
    alone = GroupSolution(similarity.identity(), POSES[:1], np.empty(0, bool), 0.0)

    def attempt(search: Search, frames: tuple[int, ...], way: Settle) -> Settled:
        local: LocalGroup = single_frame(frames[0], CAMERA)
        nowhere = Refusal(Reason.PLACE_NOT_CONFIRMED, f"frame {frames[0]}")
        return Settled(local, None, nowhere) if frames[0] % 2 else ablated.unaligned(search, local)

    monkeypatch.setattr(ablated, "attempt", attempt)
    found = ablated.frame_by_frame(search, GROUP, ablated.unaligned)
    assert found.accepted and [pose.frame for pose in found.poses] == [0, 2, 4]
    assert [why.detail for why in found.attempts] == ["frame 1", "frame 3", "frame 5"] and found.figures.support == 80
    odd = ablated.frame_by_frame(search, replace(GROUP, frames=(1, 3)), ablated.unaligned)
    assert odd.poses == () and odd.refusal is not None and odd.refusal.detail == "frame 3"
