"""The fixed-aerial adjustment's own account of how well aerial photos fit: where a match was lifted proves nothing."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from skyanchor.anchors import adjustment
from skyanchor.anchors.adjustment import AdjustmentConfig, FixedAerial, adjust_fixed_aerial
from skyanchor.anchors.evidence import CrossMatches, GroupAt
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.solve import GroupSolution
from skyanchor.bridges.carry import AerialSightings
from skyanchor.geometry import cameras, rigid, similarity
from skyanchor.sfm import bundle as ba

UP = np.array([0.0, 0.0, 1.0])
STREET, ABOVE = cameras.pinhole(640, 360, 457.0), cameras.pinhole(1200, 800, 1000.0)
FRAMES = tuple(rigid.look_at(np.array([0.0, 0.7 * k, 1.7]), np.array([0.0, 20.0, 3.0]), UP) for k in range(4))
AERIAL = tuple(rigid.look_at(np.array([x, -12.0, 45.0]), np.array([0.0, 18.0, 2.0]), UP) for x in (-18.0, 0.0, 18.0))


def adjusted(others: int, noise_px: float, monkeypatch: pytest.MonkeyPatch) -> FixedAerial:
    """A group whose matches were lifted from photo 0 and found again in others, so many pixels off on either axis."""
    rng = np.random.default_rng(0)
    points = np.stack([rng.choice([-6.0, 6.0], 240), rng.uniform(9, 30, 240), rng.uniform(0, 7, 240)], axis=1)
    frame = np.arange(240) % len(FRAMES)
    seen = np.stack([cameras.project(STREET, FRAMES[f](x[None]))[0] for f, x in zip(frame, points, strict=True)])
    xy, nothing = seen + rng.normal(0, 0.7, seen.shape), np.zeros(240, np.int64)
    matches = CrossMatches(frame, xy, np.ones(240), points, np.tile(UP, (240, 1)), nothing, nothing)
    every = np.arange(240)

    def carried(*_: object) -> AerialSightings:
        above = [cameras.project(ABOVE, pose(points)) for pose in AERIAL[: 1 + others]]
        above = [above[0], *(one + rng.normal(0, noise_px, one.shape) for one in above[1:])]
        views = np.repeat(np.arange(1 + others), 240)
        return AerialSightings(np.tile(every, 1 + others), views, np.concatenate(above), (views == 0).astype(np.int64))

    monkeypatch.setattr(adjustment, "carry", carried)
    views = tuple(SimpleNamespace(cam_from_world=pose) for pose in AERIAL)
    atlas: Any = SimpleNamespace(views=views, surface=SimpleNamespace(gsd=0.08), photo_camera=lambda j: ABOVE)
    empty = replace(
        ba.nothing(), cams_from_world=FRAMES, lenses=(STREET,) * len(FRAMES), constant=np.zeros(len(FRAMES), bool)
    )
    local = LocalGroup(tuple(range(len(FRAMES))), FRAMES, empty, 0.5, 5.0)
    solution = GroupSolution(similarity.identity(), FRAMES, np.ones(240, bool), 1.0)
    done = adjust_fixed_aerial(atlas, GroupAt(local, STREET, solution, matches), AdjustmentConfig())
    assert done is not None
    return done


def test_aerial_residuals_are_those_of_photos_that_the_match_was_not_lifted_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    near, far = adjusted(2, 0.6, monkeypatch), adjusted(2, 1.2, monkeypatch)
    assert 0.6 < near.aerial_reprojection < 1.2 < far.aerial_reprojection < 2.4  # sigmas of 0.6 px
    assert (near.views_per_match == 3).mean() > 0.9
    assert near.covariances[0][3, 3] < far.covariances[0][3, 3]


def test_without_another_photo_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = adjusted(0, 0.6, monkeypatch)
    assert alone.aerial_reprojection == np.inf and (alone.views_per_match == 1).all() and len(alone.cross) > 200
