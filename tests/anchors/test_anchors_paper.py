"""The paper's route on photos with known truth: retrieval, seeds, support, registration, alignment, verdict.

The cross-view matcher is an oracle with noise and outliers: that of the paper is the user's. All else is the method's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from anchors_street import localised, small_config, street_poses
from oracle_matcher import Oracle

from skyanchor.anchors.config import AnchorConfig, Route
from skyanchor.anchors.frames import GroundFrames
from skyanchor.anchors.group import attempt
from skyanchor.anchors.paper_route import route as paper
from skyanchor.anchors.paper_route.route import apart_m, settle_by_similarity, settle_on_cameras
from skyanchor.anchors.place_refinement import Settled, seen_from
from skyanchor.anchors.prepared_scaffold import PreparedScaffold
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.choice import group_shape
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.verdict import VerdictConfig, with_odds
from skyanchor.matching import Sift, VerifyConfig
from skyanchor.types import GroupFigures, Pose, Reason, Sequence


def config(route: Route, matcher: Oracle | None = None) -> AnchorConfig:
    base = small_config()
    oracle: Any = matcher or Oracle()
    return replace(base, route=route, paper=replace(base.paper, matcher=oracle), ground_matcher=Sift(keypoints=1500))


def settled(prepared: PreparedScaffold, walk: Sequence, settings: AnchorConfig) -> Settled:
    """The first group at its first attempt, the paper's way."""
    search = Search(prepared, GroundFrames(walk), settings)
    return attempt(search, walk.groups[0].frames, settle_on_cameras)


def test_a_group_is_placed_the_papers_way(prepared: PreparedScaffold, walk: Sequence) -> None:
    found = settled(prepared, walk, config("paper"))
    assert found.refusal is None and found.done is not None and found.cross_view is not None
    assert 0.0 < apart_m(found.done.cams_from_world, street_poses()[:6]) < 0.08
    figures = found.figures
    assert figures.aerial_views >= 4 and 0.4 < figures.aerial_reprojection < 1.6 and 0.0 < figures.halves_m < 0.3
    assert figures.ratio > 0.7 and 0.0 < figures.routes_m < 0.15
    assert figures.log_odds > 1.0 and figures.confirmed > 0.5


def test_views_tell_the_odds_where_the_papers_way_has_put_a_group(prepared: PreparedScaffold, walk: Sequence) -> None:
    settings = config("paper")
    few = replace(settings, refine=replace(settings.refine, frames=(1, 2)))
    search = Search(prepared, GroundFrames(walk), few)
    local = group_shape(search.frames, walk.groups[0].frames[:3], search.camera, search.config)
    assert isinstance(local, LocalGroup)
    true = tuple(street_poses()[k] for k in local.frames)
    elsewhere = tuple(Pose(pose.rotation, pose.translation + pose.rotation @ [0.0, 4.0, 0.0]) for pose in true)
    at, back = (seen_from(search, local, poses) for poses in (true, elsewhere))
    assert with_odds(GroupFigures(), at).log_odds > 1.0 and apart_m(at.solution.cams_from_world, true) < 0.15
    assert apart_m(back.solution.cams_from_world, elsewhere) > VerdictConfig().most_routes, "they lead back"
    away = tuple(Pose(np.diag([-1.0, 1.0, -1.0]), np.zeros(3)) @ pose for pose in true)
    assert with_odds(GroupFigures(), seen_from(search, local, away)).log_odds < 0.0


def test_a_matcher_that_is_wrong_places_nothing(prepared: PreparedScaffold, walk: Sequence) -> None:
    wrong = config("paper", Oracle(blind=True))
    quick = replace(wrong, paper=replace(wrong.paper, verify=VerifyConfig(trials=(100, 300))))
    refusal = settled(prepared, walk, quick).refusal
    assert refusal is not None and refusal.reason is Reason.NO_SEED


def test_seeds_alone_are_too_few_without_the_graph(prepared: PreparedScaffold, walk: Sequence) -> None:
    """All frames of a group have the same one or two best photos; a similarity takes four."""
    base = config("paper")
    alone = replace(base, ablation=replace(base.ablation, visibility_graph=False))
    refusal = settled(prepared, walk, alone).refusal
    assert refusal is not None and refusal.reason is Reason.TOO_FEW_AERIAL_VIEWS


def test_without_alignment_frames_are_where_the_similarity_puts_them(
    prepared: PreparedScaffold, walk: Sequence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The aerial cameras of the free frame tell the place to decimetres; the adjustment at their references to less."""
    monkeypatch.setattr(paper, "adjusted_at_reference", lambda *_: pytest.fail("nothing is adjusted"))
    search = Search(prepared, GroundFrames(walk), config("paper"))
    found = attempt(search, walk.groups[0].frames, settle_by_similarity)
    assert found.refusal is None and found.done is not None
    assert 0.0 < apart_m(found.done.cams_from_world, street_poses()[:6]) < 1.0
    assert found.support > 100 and found.figures.step_m == pytest.approx(0.6, abs=0.2)
    blind = replace(search, config=config("paper", Oracle(blind=True)))
    refused = attempt(blind, walk.groups[0].frames, settle_by_similarity).refusal
    assert refused is not None and refused.reason is Reason.NO_SEED


def test_a_copy_of_the_place_passes_the_papers_tests_and_not_ours(prepared: PreparedScaffold, walk: Sequence) -> None:
    """All matches lead to a street that looks the same 6 m on: nothing in them says so, rendered views do."""
    found = settled(prepared, walk, config("paper", Oracle(copied=1.0)))
    assert found.done is not None and found.refusal is not None
    assert 5.0 < apart_m(found.done.cams_from_world, street_poses()[:6]) < 7.0
    assert found.figures.aerial_views >= 4 and found.figures.aerial_reprojection < 4.0


@pytest.mark.slow
def test_bridge_views_and_the_papers_way_agree(prepared: PreparedScaffold, walk: Sequence) -> None:
    few = replace(walk, groups=walk.groups[:1])
    (group,) = localised(prepared, few, config("both")).groups
    assert group.accepted and 0.0 < group.figures.routes_m < 0.15
