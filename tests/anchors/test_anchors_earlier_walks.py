"""Groups beside earlier walks on house fronts: carried where the flight is silent, refused where it differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from skyanchor.anchors.adjustment import AdjustmentConfig, FixedSightings, FixedView, adjust_against
from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.earlier_walks import beside_flight
from skyanchor.anchors.earlier_walks.beside_flight import beside_walks
from skyanchor.anchors.earlier_walks.keyframes import Keyframe, described_walks
from skyanchor.anchors.earlier_walks.street_points import recalled
from skyanchor.anchors.evidence import CrossMatches, GroupAt
from skyanchor.anchors.place_refinement import Settled, shared_of
from skyanchor.anchors.priors import Near
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.solve import GroupSolution
from skyanchor.anchors.verdict import honest_covariances
from skyanchor.bridges.ground import Ground
from skyanchor.geometry import cameras, rigid, similarity
from skyanchor.matching import Features
from skyanchor.sfm import bundle as ba
from skyanchor.sfm.uncertainty import centre_sigma_m
from skyanchor.step_clock import StepClock
from skyanchor.storage import files
from skyanchor.types import GroupFigures, Pose, Reason, Refusal, Sequence, Similarity, View

UP = np.array([0.0, 0.0, 1.0])
CAMERA = cameras.pinhole(640, 360, 457.0)
SIGMA = 0.04
"""Of every keyframe, metres."""
NOWHERE = Refusal(Reason.NO_PLACE, "No place of the scaffold looks like these frames.")


def fronts(rng: np.random.Generator) -> np.ndarray:
    """(N, 3), points of two rows of houses."""
    side = np.where(rng.random(420) < 0.5, -6.0, 6.0) + rng.normal(0, 0.4, 420)
    return np.stack([side, rng.uniform(6, 34, 420), rng.uniform(0, 7, 420)], axis=1)


RNG = np.random.default_rng(3)
POINTS = fronts(RNG)
WORDS = RNG.normal(size=(len(POINTS), 128)).astype(np.float32)
WORDS /= np.linalg.norm(WORDS, axis=1, keepdims=True)


def ahead(x: float, y: float) -> Pose:
    eye = np.array([x, y, 1.7])
    return rigid.look_at(eye, eye + np.array([0.0, 1.0, 0.05]), UP)


GROUP = tuple(ahead(0.3, 0.5 * k) for k in range(6))
WALK = tuple(ahead(-0.5, 0.8 * k - 1.0) for k in range(10))
FLOWN = rigid.look_at(np.array([0.0, -20.0, 40.0]), np.array([0.0, 15.0, 2.0]), UP)


def seen(pose: Pose, seed: int) -> Features:
    """Keypoints of the house fronts, half a pixel off."""
    rng, in_cam = np.random.default_rng(seed), pose(POINTS)
    xy = cameras.project(CAMERA, in_cam)
    there = np.flatnonzero((in_cam[:, 2] > 2) & (xy > 0).all(axis=1) & (xy < [640, 360]).all(axis=1))
    ones = np.ones(len(there), np.float32)
    return Features(xy[there] + rng.normal(0, 0.5, (len(there), 2)), WORDS[there], ones, ones, 640, 360, 1.0)


def search_beside(folder: Path, *shifts: float, near: tuple[Near, ...] = ()) -> Search:
    """The look for a group beside walks, one without a shift, whose poses are off by so many metres to the east."""
    keyframes, paths = [], []
    for name, shift in zip(("first", "second"), shifts or (0.0,), strict=False):
        for k, pose in enumerate(WALK):
            paths.append(folder / f"{name}-{k}.npz")
            files.save(paths[-1], seen(pose, len(keyframes)))
            moved = rigid.from_centre(pose.rotation, rigid.centres_in_world([pose])[0] + [shift, 0.0, 0.0])
            photo = f"{name}-{k}.jpg"
            keyframes.append(Keyframe(name, View(photo, Path(photo), CAMERA, moved), SIGMA))
    flat = np.zeros((80, 80), np.float32)
    ground = Ground(np.eye(3)[:2], UP, np.array([-40.0, -40.0]), 1.0, flat, flat == 0)
    above = rigid.centres_in_world([FLOWN])
    rig = SimpleNamespace(photos=np.array([[500.0] * 4]), rotations=FLOWN.rotation[None], centres=above)
    prepared: Any = SimpleNamespace(ground=ground, atlas=SimpleNamespace(views=(), rig=rig))
    sequence = Sequence(Path(), (), CAMERA, False, (), ())
    frames: Any = SimpleNamespace(
        sequence=sequence, clock=StepClock(), features=lambda index, choice: seen(GROUP[index], 100 + index)
    )
    walks = described_walks(tuple(keyframes), tuple(paths))
    return Search(prepared, frames, AnchorConfig(), near=near, earlier=walks)


def shape() -> LocalGroup:
    """The group's own shape, exact, in a frame of its own."""
    local_from_world = Similarity(2.0, rigid.rotation_exp(np.array([0.3, -0.8, 0.5])), np.array([3.0, -2.0, 1.0]))
    poses = tuple(similarity.transform_camera(local_from_world, pose) for pose in GROUP)
    bundle = replace(ba.nothing(), cams_from_world=poses, lenses=(CAMERA,) * 6, constant=np.zeros(6, bool))
    return LocalGroup(tuple(range(6)), poses, bundle, 0.5, 5.0)


def from_above(atlas: object, matches: CrossMatches, config: object) -> FixedSightings:
    """One aerial photo shows all matches, and the surface holds them to 2 cm."""
    xy, count = cameras.project(CAMERA, FLOWN(matches.points)), np.arange(len(matches))
    nothing, ones = np.zeros(len(matches), np.int64), np.ones(len(matches))
    return FixedSightings((FixedView(CAMERA, FLOWN),), count, nothing, xy, ones, nothing, 0.02 * ones)


def by_flight(halves_m: float = 0.02) -> Settled:
    """The group where the flight puts it: at the truth, and two halves of its matches so far apart."""
    local, rng = shape(), np.random.default_rng(1)
    frame, point = np.repeat(np.arange(6), 60), rng.integers(len(POINTS), size=360)
    in_cam = np.stack([GROUP[f](POINTS[p][None])[0] for f, p in zip(frame, point, strict=True)])
    there = in_cam[:, 2] > 2
    frame, xy = frame[there], cameras.project(CAMERA, in_cam[there]) + rng.normal(0, 0.5, (int(there.sum()), 2))
    nothing, ones = np.zeros(len(frame), np.int64), np.ones(len(frame))
    matches = CrossMatches(frame, xy, ones, POINTS[point[there]], np.tile(UP, (len(frame), 1)), nothing, nothing)
    world_from_local = similarity.align_cameras(local.cams_from_local, GROUP)
    at = GroupAt(local, CAMERA, GroupSolution(world_from_local, GROUP, np.ones(len(frame), bool), 1.0), matches)
    done = adjust_against(at, lambda some: from_above(None, some, None), AdjustmentConfig())
    return Settled(
        local,
        done,
        None,
        GroupFigures(support=300, ratio=0.9, halves_m=halves_m, halves_deg=0.05, halves_scale=0.005),
        300,
        at,
    )


def errors(settled: Settled) -> np.ndarray:
    assert settled.done is not None
    return np.asarray(
        np.linalg.norm(rigid.centres_in_world(settled.done.cams_from_world) - rigid.centres_in_world(GROUP), axis=1)
    )


def test_without_earlier_walks_nothing_is_asked(tmp_path: Path) -> None:
    found = Settled(shape(), None, NOWHERE)
    assert beside_walks(replace(search_beside(tmp_path), earlier=None), found) is found


def test_where_the_flight_is_silent_an_earlier_walk_carries_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside_flight, "settle", lambda *_, **__: Settled(None, None, NOWHERE))
    search = search_beside(tmp_path)
    carried = beside_walks(search, Settled(shape(), None, NOWHERE))
    assert carried.placed and carried.instead_of is NOWHERE and errors(carried).max() < 0.02
    assert carried.overlap is not None and carried.overlap.carried and carried.overlap.walks == ("first",)
    assert carried.overlap.keyframes >= 4 and np.isnan(carried.overlap.sigmas)
    assert carried.shared_m == pytest.approx(SIGMA)
    covariances = honest_covariances(carried.done, carried.figures.halves_m, shared_of(search, carried))
    assert min(centre_sigma_m(covariance) for covariance in covariances) > SIGMA


@pytest.mark.parametrize(("halves_m", "least", "most"), [(0.02, 0.0, 0.02), (0.2, 0.03, 0.06)])
def test_of_both_the_surer_weighs_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, halves_m: float, least: float, most: float
) -> None:
    monkeypatch.setattr(beside_flight, "sightings_from_above", from_above)
    search = search_beside(tmp_path, 0.05)
    search.prepared.atlas.views = (None,)  # type: ignore[misc, assignment]
    both = beside_walks(search, by_flight(halves_m))
    assert both.placed and both.overlap is not None and not both.overlap.carried
    assert both.overlap.metres == pytest.approx(0.05, abs=0.02) and 0.3 < both.overlap.position_sigmas < 5.0
    assert least < errors(both).mean() < most and both.shared_m is None


def test_a_contradiction_is_refused_with_a_reason_of_its_own(tmp_path: Path) -> None:
    refused = beside_walks(search_beside(tmp_path, 0.6), by_flight())
    assert refused.refusal is not None and refused.refusal.reason is Reason.EARLIER_WALK_DISAGREES
    assert refused.overlap is not None and refused.overlap.metres == pytest.approx(0.6, abs=0.03)
    assert refused.overlap.position_sigmas > 5.0 > refused.overlap.turn_sigmas
    assert "first put the group 0.6" in refused.refusal.detail


@pytest.mark.parametrize("by_the_flight", [False, True])
def test_earlier_walks_that_contradict_each_other_refuse_the_group(tmp_path: Path, by_the_flight: bool) -> None:
    """The one of them that the flight bears out does not outvote the other."""
    found = by_flight() if by_the_flight else Settled(shape(), None, NOWHERE)
    refused = beside_walks(search_beside(tmp_path, 0.0, 0.6), found)
    assert refused.refusal is not None and refused.refusal.reason is Reason.EARLIER_WALK_DISAGREES
    assert refused.refusal.detail.startswith("The earlier walks first and second put the group 0.6")
    assert refused.refusal.figures["sigmas"] > 5.0 and refused.instead_of is found.refusal
    assert refused.overlap is not None and not refused.overlap.carried


@pytest.mark.parametrize(("apart", "together"), [(0.0, True), (0.2, False)])
def test_walks_a_little_apart_are_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: float, together: bool
) -> None:
    """One front of the first and one of the second fit a street that is wider, and the group 0.3 m ahead."""
    monkeypatch.setattr(beside_flight, "settle", lambda *_, **__: Settled(None, None, NOWHERE))
    carried = beside_walks(search_beside(tmp_path, 0.0, apart), Settled(shape(), None, NOWHERE))
    assert carried.placed and errors(carried).mean() < apart + 0.02
    assert carried.overlap is not None and (len(carried.overlap.walks) == 2) == together


@pytest.mark.parametrize("surest", ["first", "second"])
def test_of_walks_that_are_not_mixed_the_surest_speaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, surest: str
) -> None:
    monkeypatch.setattr(beside_flight, "settle", lambda *_, **__: Settled(None, None, NOWHERE))
    search = search_beside(tmp_path, 0.0, 0.2)
    assert search.earlier is not None
    told = tuple(
        one if one.walk == surest else replace(one, sigma_m=1.3 * one.sigma_m) for one in search.earlier.keyframes
    )
    search = replace(search, earlier=replace(search.earlier, keyframes=told))
    carried = beside_walks(search, Settled(shape(), None, NOWHERE))
    assert carried.placed and carried.overlap is not None and carried.overlap.walks == (surest,)


def test_a_walk_that_shows_something_else_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = search_beside(tmp_path)
    mixed = np.random.default_rng(9).permutation(WORDS)

    def elsewhere(index: int, choice: object) -> Features:
        here = seen(GROUP[index], index)
        return replace(here, descriptors=mixed[: len(here)])

    monkeypatch.setattr(search.frames, "features", elsewhere)
    found = Settled(shape(), None, NOWHERE)
    assert beside_walks(search, found) is found


def test_keyframes_are_recalled_where_the_group_may_stand(tmp_path: Path) -> None:
    search = search_beside(tmp_path)
    assert search.earlier is not None
    everywhere = recalled(search, search.earlier, tuple(range(6)))
    assert len(everywhere) == 8 and everywhere == tuple(sorted(everywhere))
    near = replace(search, near=(Near(-0.5, -1.0, 1.0),))
    assert recalled(near, search.earlier, tuple(range(6))) == (0, 1)
