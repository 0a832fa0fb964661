"""The paper's route on photos with known truth: retrieval, seeds, support, registration, alignment, verdict.

The cross-view matcher is an oracle with noise and outliers: that of the paper is the user's. All else is the method's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from anchors_street import AERIAL, GROUND, aerial_poses, faces, localised, shoot, small_config, street_poses

from skyanchor.anchors.config import AnchorConfig, Route
from skyanchor.anchors.frames import GroundFrames
from skyanchor.anchors.group import attempt
from skyanchor.anchors.paper import apart_m, settle_on_cameras
from skyanchor.anchors.place import Settled, seen_from
from skyanchor.anchors.prepare import PreparedScaffold
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.choice import group_shape
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.verdict import VerdictConfig, with_odds
from skyanchor.geometry import cameras
from skyanchor.geometry.depth import inside, under
from skyanchor.matching import Features, Sift, VerifyConfig
from skyanchor.types import Camera, Floats, GroupFigures, Matches, Photo, Pose, Reason, Sequence

NOISE_PX = 0.7


@cache
def landmarks() -> Floats:
    """(N, 3), spots of the ground and the facades."""
    rng = np.random.default_rng(3)
    spots = []
    for face in faces():
        u, v = rng.random((2, 500, 1)) * np.array(face.size)[:, None, None]
        spots.append(face.corner + u * face.first + v * face.second)
    return np.concatenate(spots)


@cache
def seen(name: str) -> Floats:
    """(N, 2), where a photo shows the landmarks; nan where it does not."""
    kind, number = name[0], int(name[1:3])
    camera, pose = _taken(kind, number)
    in_cam = pose(landmarks())
    xy = cameras.project(camera, in_cam)
    depth = shoot(camera, pose)[1]
    shown = inside(camera, np.nan_to_num(xy, nan=-1.0)) & (in_cam[:, 2] > 0.2)
    at = under(depth, np.where(shown[:, None], np.nan_to_num(xy), 1.0))
    shown &= np.abs(at - in_cam[:, 2]) < 0.1 + 0.02 * in_cam[:, 2]
    return np.where(shown[:, None], xy, np.nan)


def _taken(kind: str, number: int) -> tuple[Camera, Pose]:
    return (AERIAL, aerial_poses()[number]) if kind == "a" else (GROUND, street_poses()[number])


class Oracle:
    """Knows which pixels show the same spot: off by a normal error, every fifth one wrong; pairs alone, no tracks."""

    key = "oracle"
    blind = False
    """Wrong about every aerial photo: what it matches is never the same spot."""

    def extract(self, photo: Photo) -> Features:
        code, one = np.frombuffer(photo.name.encode(), np.uint8).astype(np.float32)[None], np.ones(1, np.float32)
        size = (AERIAL if photo.name[0] == "a" else GROUND).width, 1
        return Features(np.zeros((1, 2)), code, one, one, *size, 1.0)

    def match_extracted(self, a: Features, b: Features) -> Matches:
        names = [bytes(one.descriptors[0].astype(np.uint8)).decode() for one in (a, b)]
        rng = np.random.default_rng(sum(names[0].encode()) * 1000 + sum(names[1].encode()))
        rows = np.flatnonzero(np.isfinite(seen(names[0])[:, 0]) & np.isfinite(seen(names[1])[:, 0]))
        xy_a, xy_b = (seen(name)[rows] + rng.normal(0, NOISE_PX, (len(rows), 2)) for name in names)
        wrong = rng.random(len(rows)) < (1.0 if self.blind and "a" in (names[0][0], names[1][0]) else 0.2)
        xy_b[wrong] = rng.uniform(0, [b.width, 0.6 * b.width], (int(wrong.sum()), 2))
        return Matches(xy_a, xy_b, np.ones(len(rows)), 1.0)

    def match(self, a: Photo, b: Photo) -> Matches:
        return self.match_extracted(self.extract(a), self.extract(b))


class Blind(Oracle):
    blind = True


@dataclass(frozen=True)
class Choice:
    """The oracle as a choice of matcher."""

    kind: type[Oracle] = Oracle

    def load(self) -> Oracle:
        return self.kind()


def config(route: Route, kind: type[Oracle] = Oracle) -> AnchorConfig:
    base, matcher = small_config(), Choice(kind)
    oracle: Any = matcher
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
    wrong = config("paper", Blind)
    quick = replace(wrong, paper=replace(wrong.paper, verify=VerifyConfig(trials=(100, 300))))
    refusal = settled(prepared, walk, quick).refusal
    assert refusal is not None and refusal.reason is Reason.NO_SEED


@pytest.mark.slow
def test_bridge_views_and_the_papers_way_agree(prepared: PreparedScaffold, walk: Sequence) -> None:
    few = replace(walk, groups=walk.groups[:1])
    (group,) = localised(prepared, few, config("both")).groups
    assert group.accepted and 0.0 < group.figures.routes_m < 0.15
