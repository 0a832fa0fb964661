"""Verdict on synthetic groups: what is accepted is as good as it says, and an alignment without scale is refused."""

from __future__ import annotations

from dataclasses import asdict, replace
from math import comb

import numpy as np
import pytest

from skyanchor.anchors.adjustment import FixedAerial
from skyanchor.anchors.evidence import CrossMatches, GroupAt, joined, sightings, subset
from skyanchor.anchors.expected import Expected, expected_in
from skyanchor.anchors.likelihood import (
    COPIES,
    LOOK_ALIKE,
    ONE_HOUSE,
    RIGHT,
    ROUGH,
    Found,
    halves_log_odds,
    log_odds,
    residual_log_odds,
)
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.solve import GroupSolution, SolveConfig, solve_group
from skyanchor.anchors.verdict import (
    Halves,
    VerdictConfig,
    compare_halves,
    found_at,
    honest_covariances,
    is_sure,
    judge,
    measure,
    recognised,
    sample_in_photos,
    shared_by_photos,
    supported,
    unsupported,
)
from skyanchor.bridges.ground import Ground
from skyanchor.bridges.views import Bridge, Rig
from skyanchor.geometry import cameras, rigid, similarity
from skyanchor.sfm import bundle as ba
from skyanchor.sfm.adjustment import adjust
from skyanchor.sfm.dense import Dense
from skyanchor.types import GroupFigures, Photo, Pose, Reason, Similarity

UP = np.array([0.0, 0.0, 1.0])
CAMERA = cameras.pinhole(640, 360, 457.0)
GSD = 0.08
"""Metres: a pixel of the aerial depth on the surface."""
FINE = GroupFigures(
    support=500, ratio=0.9, frame_share=1.0, aerial_views=9, spread=0.6, reprojection=0.8, aerial_reprojection=0.8,
    tilt_deg=3.0, height_m=1.7, bend=0.0, turn_deg=0.0, sigma_m=0.03, halves_m=0.02, halves_scale=0.01,
)  # fmt: skip
"""Figures of a group that nothing speaks against."""


def walk(rng: np.random.Generator, step: float = 0.6) -> tuple[Pose, ...]:
    eyes = [np.array([0.1 * np.sin(k), step * k, 1.7]) + rng.normal(0, 0.02, 3) for k in range(6)]
    return tuple(rigid.look_at(eye, eye + np.array([0.1 * np.cos(k), 1.0, 0.02]), UP) for k, eye in enumerate(eyes))


def local_group(poses: tuple[Pose, ...]) -> LocalGroup:
    """The group's own shape, exact, in a frame of its own."""
    turn = rigid.rotation_exp(np.array([0.3, -0.8, 0.5]))
    local_from_world = Similarity(1.0 / 0.6, turn, np.array([3.0, -2.0, 1.0]))
    shape = tuple(similarity.transform_camera(local_from_world, pose) for pose in poses)
    lenses, free = (CAMERA,) * len(poses), np.zeros(len(poses), bool)
    empty = replace(ba.nothing(), cams_from_world=shape, lenses=lenses, constant=free)
    return LocalGroup(tuple(range(len(poses))), shape, empty, 0.5, 5.0)


def street(rng: np.random.Generator, count: int, near: float, far: float) -> np.ndarray:
    """Points of two rows of house fronts, (N, 3)."""
    side = np.where(rng.random(count) < 0.5, -7.0, 7.0) + rng.normal(0, 0.5, count)
    return np.stack([side, rng.uniform(near, far, count), rng.uniform(0, 8, count)], axis=1)


def surface_error(rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
    """What a depth map gets wrong: a shift of all, a shift per house front, noise per point, metres."""
    patch = np.floor(points / 10.0).astype(int)
    _, label = np.unique(patch, axis=0, return_inverse=True)
    label = np.ravel(label)
    patches = rng.normal(0, 0.5 * GSD, (label.max() + 1, 3))
    return rng.normal(0, 0.2 * GSD, 3) + patches[label] + rng.normal(0, 0.5 * GSD, points.shape)


def seen_from(poses: tuple[Pose, ...], rng: np.random.Generator, points: np.ndarray) -> CrossMatches:
    """Matches of the points in all frames that see them, pixel noise 1, every fifth one wrong."""
    frame = np.repeat(np.arange(len(poses)), len(points))
    many = np.tile(points, (len(poses), 1))
    in_cam = np.concatenate([pose(points) for pose in poses])
    xy = cameras.project(CAMERA, in_cam) + rng.normal(0, 1.0, (len(in_cam), 2))
    wrong = rng.random(len(xy)) < 0.2
    xy[wrong] = rng.uniform(0, [640.0, 360.0], (int(wrong.sum()), 2))
    inside = (in_cam[:, 2] > 1.0) & (xy >= 0).all(axis=1) & (xy < [640.0, 360.0]).all(axis=1)
    inside &= rng.random(len(xy)) < 0.5
    nothing = np.zeros(int(inside.sum()), np.int64)
    normals = np.tile(UP, (len(nothing), 1))
    ones = np.ones(len(nothing))
    return CrossMatches(frame[inside], xy[inside], ones, many[inside], normals, nothing, nothing)


def with_error(matches: CrossMatches, rng: np.random.Generator) -> CrossMatches:
    return CrossMatches(
        matches.frame, matches.xy, matches.sigma_px, matches.points + surface_error(rng, matches.points),
        matches.normals, matches.source, matches.point,
    )  # fmt: skip


def adjusted(matches: CrossMatches, solution: GroupSolution) -> FixedAerial:
    """The group against points that are known to two ground sample distances."""
    count, frames = len(matches), len(solution.cams_from_world)
    bundle = ba.Bundle(
        solution.cams_from_world, (CAMERA,) * frames, np.zeros(frames, bool), matches.points,
        matches.frame, np.arange(count), matches.xy, matches.sigma_px,
        prior=matches.points, prior_information=np.tile(np.eye(3) / (2.0 * GSD) ** 2, (count, 1, 1)),
    )  # fmt: skip
    done = adjust(bundle, Dense())
    assert done.covariances is not None
    every, factor = np.arange(count), max(1.0, float(np.median(done.residuals)) ** 2 / 1.386)
    return FixedAerial(
        done.bundle.cams_from_world, done.covariances * factor, every, every, every,
        1.0, 1.0, done.bundle.points, 1.0, count,
    )  # fmt: skip


def localised(seed: int) -> tuple[bool, np.ndarray, np.ndarray]:
    """(accepted, errors of the six centres along the axes of their cameras in metres, their stated deviations)."""
    rng = np.random.default_rng(seed)
    poses = walk(rng)
    local = local_group(poses)
    matches = with_error(seen_from(poses, rng, street(rng, 1200, 8.0, 35.0)), rng)
    solution = solve_group(sightings(matches, CAMERA), local.cams_from_local, UP, SolveConfig())
    assert solution is not None
    agreeing = subset(matches, solution.inliers)
    done = adjusted(agreeing, solution)
    halves = compare_halves(agreeing, local, CAMERA, solution.world_from_local)
    figures = replace(FINE, halves_m=halves.metres, halves_scale=halves.scale)
    stated = honest_covariances(done, halves.metres, shared_by_photos(GSD))
    off = rigid.centres_in_world(done.cams_from_world) - rigid.centres_in_world(poses)
    along = np.stack([pose.rotation @ one for pose, one in zip(poses, off, strict=True)])
    sigma = np.sqrt([np.diag(one[3:, 3:]) for one in stated])
    return judge(figures, VerdictConfig()) is None, along, sigma


def test_accepted_means_within_what_is_stated() -> None:
    """Over many walks with outliers and depth that is wrong front by front: neither too proud nor too modest."""
    results = [localised(seed) for seed in range(24)]
    accepted = [one for one in results if one[0]]
    assert len(accepted) >= 20
    along, sigmas = (np.concatenate([one[k] for one in accepted]) for k in (1, 2))
    per_axis = np.sqrt((along**2 / sigmas**2).mean(axis=0))
    assert (per_axis > 0.7).all() and (per_axis < 1.35).all()
    error, sigma = np.linalg.norm(along, axis=1), np.linalg.norm(sigmas, axis=1)
    assert error.max() < 0.3
    assert (error < 2.0 * sigma).mean() > 0.9
    assert 0.6 < np.sqrt((error**2).mean() / (sigma**2).mean()) < 1.4  # 1.8 with the formal covariances


def test_what_all_matches_share_follows_the_photos_that_show_them() -> None:
    """Two photos look down from 40 and 60 m; three of four matches lie in the first, on roofs and in the street."""
    down = np.diag([1.0, -1.0, -1.0])
    rig = Rig(
        photos=np.array([[500.0, 500.0, 320.0, 240.0], [500.0, 500.0, 320.0, 240.0]]),
        sizes=np.array([[640, 480]] * 2),
        fronts=np.ones((2, 4)),
        front_sizes=np.array([[64, 48]] * 2),
        rotations=np.stack([down, down]),
        centres=np.array([[0.0, 0.0, 40.0], [5.0, 0.0, 60.0]]),
    )
    points, view = (
        np.array([[3.0, 1.0, 0.0], [9.0, 2.0, 0.0], [1.0, 0.0, 10.0], [4.0, 4.0, 0.0]]),
        np.array([0, 0, 0, 1]),
    )
    every, pose = np.arange(4), Pose(np.eye(3), np.zeros(3))
    done = FixedAerial((pose,), np.zeros((1, 6, 6)), every, every, view, 1.0, 1.0, points, 1.0)
    assert sample_in_photos(rig, done) == pytest.approx(40.0 / 500.0)
    coarser = replace(rig, photos=0.5 * rig.photos)
    assert shared_by_photos(sample_in_photos(coarser, done)) == pytest.approx(0.25 * 80.0 / 500.0)


def test_matches_in_one_frame_give_no_scale() -> None:
    """The other frames see nothing of the scaffold: their distances hang in the air."""
    rng = np.random.default_rng(3)
    poses = walk(rng)
    local = local_group(poses)
    matches = seen_from(poses, rng, street(rng, 300, 8.0, 35.0))
    alone = subset(matches, matches.frame == 2)
    solution = solve_group(sightings(matches, CAMERA), local.cams_from_local, UP, SolveConfig())
    assert solution is not None
    halves = compare_halves(alone, local, CAMERA, solution.world_from_local)
    refusal = judge(replace(FINE, halves_m=halves.metres, halves_scale=halves.scale), VerdictConfig())
    assert refusal is not None and refusal.reason == Reason.HALVES_DISAGREE


def measured(
    config: VerdictConfig, residual: float = 0.8, expected: tuple[Expected, ...] = (), halves_m: float = 0.02
) -> GroupFigures:
    """Figures of a true walk; frames and aerial views see from 30 matches down to a few."""
    rng = np.random.default_rng(5)
    poses = walk(rng)
    matches = seen_from(poses, rng, street(rng, 600, 8.0, 35.0))
    counts = (30, 20, 9, 8, 7, 3)
    matches = subset(matches, np.concatenate([np.flatnonzero(matches.frame == k)[:n] for k, n in enumerate(counts)]))
    every, views = np.arange(len(matches)), np.repeat(np.arange(5), (50, 12, 5, 4, 6))
    covariances = np.tile(np.eye(6) * 1e-4, (len(poses), 1, 1))
    done = FixedAerial(poses, covariances, every, every, views, residual, 0.8, matches.points, 1.0, len(matches))
    flat = np.zeros((100, 100))
    ground = Ground(np.eye(3)[:2], UP, np.array([-50.0, -50.0]), 1.0, flat, np.ones((100, 100), bool))
    twice = joined([matches, matches])
    half = GroupSolution(similarity.identity(), poses, np.arange(len(twice)) < len(matches), 0.8)
    at = GroupAt(local_group(poses), CAMERA, half, twice, expected)
    return measure(at, done, Halves(halves_m, 0.1, 0.01), ground, config)


def test_what_is_enough_for_a_frame_and_a_view_is_a_setting() -> None:
    usual = measured(VerdictConfig())
    assert usual.frame_share == 4 / 6 and usual.aerial_views == 4  # 8 matches a frame, 5 a view
    assert usual.ratio == 0.5 and usual.height_m == pytest.approx(1.7, abs=0.03) and usual.step_m > 0.5
    assert usual.halves_m == 0.02 and usual.sigma_m == pytest.approx(0.01) and usual.bend < 1e-9
    strict = measured(VerdictConfig(least_frame_support=20, least_view_support=6))
    assert strict.frame_share == 2 / 6 and strict.aerial_views == 3
    lax = measured(VerdictConfig(least_frame_support=1, least_frame_of_best=0.1, least_view_support=1))
    assert lax.frame_share == 1.0 and lax.aerial_views == 5
    beside = measured(VerdictConfig(least_frame_support=1, least_frame_of_best=0.29))
    assert beside.frame_share == 3 / 6  # 9 of 30
    refusal = judge(strict, VerdictConfig(least_support=1, least_views=3))
    assert refusal is not None and refusal.reason is Reason.FRAMES_WITHOUT_SUPPORT


def test_the_odds_of_a_group_count_what_is_recognised_and_how_well_it_fits() -> None:
    whole = np.ones((9, 16), bool)
    well, badly = (measured(VerdictConfig(), residual, (Expected(0, whole, whole),)) for residual in (0.35, 0.8))
    assert well.reprojection == 0.35 and well.fronts == 144.0
    less = residual_log_odds(0.35) - residual_log_odds(0.8)
    assert less > 1.0 and well.log_odds - badly.log_odds == pytest.approx(less)
    apart = measured(VerdictConfig(), 0.35, (Expected(0, whole, whole),), halves_m=0.3)
    assert well.log_odds - apart.log_odds == pytest.approx(halves_log_odds(0.02) - halves_log_odds(0.3))
    assert np.isnan(measured(VerdictConfig()).log_odds), "no views, no odds"


def view_of(pixels: np.ndarray, painted: np.ndarray, pitch: float = 0.0) -> Bridge:
    camera, flat = cameras.pinhole(160, 90, 120.0), np.ones((90, 160), np.float32)
    photo = Photo("view", np.repeat(pixels[..., None], 3, axis=2).astype(np.uint8), painted)
    ahead = rigid.look_at(np.zeros(3), np.array([0.0, 1.0, pitch]), UP)
    return Bridge(camera, ahead, photo, flat, np.zeros((90, 160, 3), np.float32), np.zeros((90, 160), int))


def test_something_is_to_be_recognised_where_a_view_is_painted_and_not_plain() -> None:
    stripes = np.where(np.arange(160) // 3 % 2, 90, 140) * np.ones((90, 1))
    plain, everywhere = np.full((90, 160), 120), np.ones((90, 160), bool)
    whole = expected_in(view_of(stripes, everywhere), 2, UP)
    assert whole.frame == 2 and whole.cells.shape == (9, 16) and whole.cells.all()
    assert np.array_equal(whole.fronts, np.tile(np.arange(9)[:, None] < 4, (1, 16)))  # above the horizon
    assert not expected_in(view_of(plain, everywhere), 0, UP).cells.any()
    left = everywhere & (np.arange(160) < 80)
    assert np.array_equal(expected_in(view_of(stripes, left), 0, UP).cells, np.tile(np.arange(16) < 8, (9, 1)))
    edge = np.where(left, plain, 255)  # what is not painted has no contrast with what is
    assert not expected_in(view_of(edge, left), 0, UP).cells.any()
    down, up = (expected_in(view_of(stripes, everywhere, pitch), 0, UP).fronts for pitch in (-0.5, 0.5))
    assert not down.any() and up.all()
    assert np.array_equal(expected_in(view_of(stripes, left), 0, UP).fronts, whole.fronts & (np.arange(16) < 8))


def at_place(
    frame: list[int], xy: list[tuple[float, float]], agrees: list[bool], expected: tuple[Expected, ...]
) -> GroupAt:
    """A group of three frames with given matches."""
    count, poses = len(frame), walk(np.random.default_rng(0))[:3]
    where, none, zeros = np.array(xy).reshape(-1, 2), np.zeros((count, 3)), np.zeros(count, np.int64)
    matches = CrossMatches(np.array(frame, np.int64), where, np.ones(count), none, none, zeros, zeros)
    solution = GroupSolution(similarity.identity(), poses, np.array(agrees, bool), 0.5)
    return GroupAt(local_group(poses), CAMERA, solution, matches, expected)


def test_a_frame_that_hangs_on_traffic_is_told_by_what_agrees_in_the_others() -> None:
    """Counts of a group behind a car: its shape followed the car, and half of its frames lay metres off."""
    counts, whole = (575, 525, 104, 7, 0), np.ones((9, 16), bool)
    frame = [k for k, n in enumerate(counts) for _ in range(n)]
    at = at_place(
        frame, [(5.0, 5.0)] * len(frame), [True] * len(frame), tuple(Expected(k, whole, whole) for k in (0, 2, 3))
    )
    at = replace(at, local=local_group(walk(np.random.default_rng(0))[:5]))
    every = np.arange(len(frame))
    done = FixedAerial((), np.empty((0, 6, 6)), every, every, every, 1.0, 1.0, np.empty((0, 3)), 1.0)
    assert unsupported(at, done, VerdictConfig()) == {2, 3}, "of those that were looked at"
    assert unsupported(at, done, VerdictConfig(least_frame_of_best=0.1)) == {3}
    half = replace(done, cross=every[: counts[0]])
    assert unsupported(at, half, VerdictConfig()) == {2, 3}
    assert not supported(subset(at.matches, every[:0]), 5, VerdictConfig()).any()


def test_fronts_are_confirmed_cell_by_cell() -> None:
    """A twin of one house is found by many matches, all in a few cells; what stands beside it is missed."""
    upper, whole = np.zeros((9, 16), bool), np.ones((9, 16), bool)
    upper[:2] = True
    expected = (Expected(0, whole, whole), Expected(2, whole, upper))
    xy = [(5.0, 5.0), (6.0, 6.0), (639.0, 359.0), (45.0, 5.0), (45.0, 100.0), (5.0, 5.0)]
    at = at_place([0, 0, 0, 2, 2, 1], xy, [True] * 6, expected)
    assert found_at(at) == Found((144 + 32) / 2, (2 + 1) / (144 + 32), 112 / 2, 1 / 112)
    assert recognised(expected[1], at.matches, at.solution.inliers, CAMERA) == 2 / 144  # the ground included
    crowd = at_place([0] * 50, [(5.0 + 0.1 * k, 5.0) for k in range(50)], [True] * 50, expected[:1])
    assert found_at(crowd) == Found(144, 1 / 144, 0, 0)
    most = at_place([0] * 4, [(5.0, 5.0)] * 4, [True, True, False, False], expected[:1])
    assert found_at(most) == Found(144, 1 / 144, 0, 0)
    few = at_place([0] * 5, [(5.0, 5.0)] * 5, [True, True, False, False, False], expected[:1])
    assert found_at(few) == Found(144, 0, 0, 0)
    assert found_at(at_place([0], [(5.0, 5.0)], [True], ())) is None
    assert found_at(at_place([0], [(5.0, 5.0)], [True], (Expected(0, ~whole, ~whole),))) == Found(0, 0, 0, 0)


def test_halves_that_differ_in_scale_are_refused() -> None:
    """Such a group lay half a metre off, with halves 0.28 m and 12 % apart."""
    assert judge(replace(FINE, halves_scale=0.08), VerdictConfig()) is None
    refusal = judge(replace(FINE, halves_m=0.28, halves_scale=0.12), VerdictConfig())
    assert refusal is not None and refusal.reason is Reason.SCALE_OF_HALVES


def test_ground_that_is_covered_speaks_little_against_a_place() -> None:
    """Crowds, rain and snow hide it; fronts that are not there have no such excuse."""
    bare = Found(20.0, 0.7, 0.0, 0.0)
    for share in (0.0, 0.2, 0.3):
        cost = log_odds(bare, 0.8) - log_odds(replace(bare, ground=50.0, ground_confirmed=share), 0.8)
        assert 0.0 < cost < np.log10(5.0)
    assert log_odds(replace(bare, confirmed=0.1), 0.8) < log_odds(bare, 0.8) - 1.5


def test_odds_follow_from_what_is_recognised() -> None:
    half = Found(20.0, 0.5, 50.0, 0.5)
    for name in ("confirmed", "ground_confirmed"):
        odds = [log_odds(replace(half, **{name: share}), 0.75) for share in (0.05, 0.3, 0.5, 0.7, 0.9)]
        assert np.all(np.diff(odds) >= 0) and np.all(np.diff(odds[1:]) > 0)
    assert np.all(np.diff([log_odds(half, ratio) for ratio in (0.2, 0.5, 0.7, 0.8, 0.95)]) > 0)
    assert log_odds(Found(25.0, 0.05, 50.0, 0.3), 0.5) < -3.0
    odds = [log_odds(Found(n, 0.9, 50.0, 0.5), 0.8) for n in (3.0, 10.0, 30.0)]
    assert np.all(np.diff(odds) > 0)  # the more there is to look at, the surer
    crossing = Found(6.0, 0.1, 50.0, 0.65)  # its markings agree, the fronts do not
    assert log_odds(crossing, 0.74) < 0.0 < log_odds(replace(crossing, fronts=0.0), 0.74) < 1.0
    total = sum(np.exp(RIGHT.fronts.log_chance(k, 20.0)) * comb(20, k) for k in range(21))
    assert total == pytest.approx(1.0)
    x = np.linspace(0.01, 0.99, 981)
    density = [np.exp(LOOK_ALIKE.matches.log_density(share)) for share in x]
    assert np.trapezoid(density, x) == pytest.approx(1.0, abs=0.01)


def test_all_that_a_copy_shows_too_is_worth_no_more_than_copies_are_rare() -> None:
    """A walk through a town of the same designs had 10^3.1 with three figures that all saw the same houses again."""
    everything = Found(25.0, 0.9, 50.0, 0.9, 25.0, 0.9)
    assert log_odds(everything, 0.93, copies=0.0) > 5.0
    assert -np.log10(COPIES) - 0.05 < log_odds(everything, 0.93) <= -np.log10(COPIES)
    twin = Found(23.5, 0.73, 48.7, 0.54, 25.0, 0.87)
    assert log_odds(twin, 0.79, copies=0.0) > 3.0 and log_odds(twin, 0.79) < 1.75
    poor = Found(20.0, 0.3, 40.0, 0.3, 20.0, 0.3)
    assert log_odds(poor, 0.6) == pytest.approx(log_odds(poor, 0.6, copies=0.0), abs=0.05)


def test_matches_that_fit_badly_are_those_of_another_street() -> None:
    """A walk of another town was accepted with residuals of 0.7 and 0.9 sigmas, where right places have 0.3 to 0.5."""
    odds = [residual_log_odds(residual) for residual in (0.36, 0.45, 0.55, 0.7, 0.9, 2.0)]
    assert np.all(np.diff(odds) < 0) and 0.2 < odds[0] < 0.6 and odds[3] < -0.6
    assert odds[-1] == pytest.approx(np.log10(ROUGH), abs=0.01), "blur may be the cause: no more than that"
    x = np.linspace(-4.0, 3.0, 2001)
    assert np.trapezoid([np.exp(RIGHT.residuals.log_density(np.exp(v))) for v in x], x) == pytest.approx(1.0, abs=1e-3)


def test_halves_of_a_copy_lead_to_places_apart() -> None:
    """Houses of the same designs stand otherwise beside each other: two copies had 0.2 and 0.4 m."""
    odds = [halves_log_odds(metres) for metres in (0.02, 0.06, 0.1, 0.2, 0.37, 1.0, 3.0)]
    assert np.all(np.diff(odds) < 0) and odds[1] > 0.3 > odds[2] > 0.0 > -0.4 > odds[3] and odds[4] < -0.7
    assert odds[-1] > np.log10(ROUGH), "shapes may be bent: no more than that"
    assert 0.7 < odds[0] < -np.log10(ONE_HOUSE), "halves of one house agree wherever it stands"
    assert halves_log_odds(float("nan")) == 0.0, "too little in one half says nothing"
    limit = halves_log_odds(float("inf"))
    assert limit == pytest.approx(halves_log_odds(1e5)) == pytest.approx(np.log10(ROUGH / (1.0 - ONE_HOUSE)))
    assert residual_log_odds(float("inf")) == pytest.approx(np.log10(ROUGH))


def test_stated_odds_are_those_that_draws_have() -> None:
    """Of places drawn of both kinds in equal numbers, those with odds of about 10:1 are right 10 times in 11."""
    rng = np.random.default_rng(3)
    right, of = rng.random(20_000) < 0.5, rng.integers(3, 30, 20_000)
    as_right = right | (rng.random(20_000) < COPIES)

    def drawn(name: str) -> np.ndarray:
        kinds = [getattr(kind, name) for kind in (RIGHT, LOOK_ALIKE)]
        mean, weight = (np.where(as_right, *(getattr(kind, field) for kind in kinds)) for field in ("mean", "weight"))
        return rng.beta(mean * weight, (1.0 - mean) * weight)

    above, below = (rng.binomial(of, drawn(name)) / of for name in ("fronts", "ground"))
    rows = zip(of.tolist(), above.tolist(), below.tolist(), drawn("matches").tolist(), strict=True)
    stated = np.array([log_odds(Found(n, a, n, b), ratio) for n, a, b, ratio in rows])
    near = np.abs(stated - 1.0) < 0.2
    assert near.sum() > 200 and right[near].mean() == pytest.approx(10 / 11, abs=0.04)


def test_a_group_is_sure_by_its_odds() -> None:
    config = VerdictConfig()
    assert is_sure(replace(FINE, log_odds=1.5), config) and not is_sure(replace(FINE, log_odds=1.4), config)
    assert is_sure(replace(FINE, ratio=0.7), config) and not is_sure(replace(FINE, ratio=0.69), config)  # no views
    assert not is_sure(replace(FINE, ratio=0.95, log_odds=0.0), config)  # views without fronts
    assert is_sure(GroupFigures(support=80), config)  # nothing was matched again, so nothing disagrees


@pytest.mark.parametrize(
    ("spoilt", "reason"),
    [
        (replace(FINE, support=59), Reason.TOO_LITTLE_SUPPORT),
        (replace(FINE, ratio=0.49), Reason.TOO_MANY_DISAGREE),
        (replace(FINE, log_odds=-0.1), Reason.LOOK_ALIKE),
        (replace(FINE, spread=0.09), Reason.SUPPORT_IN_ONE_SPOT),
        (replace(FINE, reprojection=2.1), Reason.GROUND_REPROJECTION),
        (replace(FINE, aerial_reprojection=2.1), Reason.AERIAL_REPROJECTION),
        (replace(FINE, tilt_deg=26.0), Reason.CAMERA_TILT),
        (replace(FINE, height_m=-1.0), Reason.CAMERA_HEIGHT),
        (replace(FINE, height_m=5.1), Reason.CAMERA_HEIGHT),
        (replace(FINE, bend=0.09), Reason.SHAPE_BENT),
        (replace(FINE, turn_deg=1.1), Reason.SHAPE_TURNED),
        (replace(FINE, halves_m=float("nan")), Reason.HALVES_DISAGREE),
        (replace(FINE, sigma_m=0.16), Reason.TOO_UNCERTAIN),
        (replace(FINE, routes_m=0.6), Reason.ROUTES_DISAGREE),
    ],
)
def test_each_figure_has_its_limit(spoilt: GroupFigures, reason: Reason) -> None:
    assert judge(FINE, VerdictConfig()) is None
    refusal = judge(spoilt, VerdictConfig())
    assert refusal is not None and refusal.reason is reason and refusal.figures.keys() == asdict(spoilt).keys()


@pytest.mark.parametrize(("near", "far", "step", "refused"), [(8.0, 35.0, 0.6, False), (400.0, 600.0, 0.05, True)])
def test_a_scale_that_nothing_tells_is_refused(near: float, far: float, step: float, refused: bool) -> None:
    """Six frames on 25 cm of the way that see only what is half a kilometre away: any scale fits."""
    rng = np.random.default_rng(4)
    poses = walk(rng, step)
    local = local_group(poses)
    points = street(rng, 300, near, far) * np.array([far / 35.0, 1.0, far / 35.0])
    matches = seen_from(poses, rng, points)
    solution = solve_group(sightings(matches, CAMERA), local.cams_from_local, UP, SolveConfig())
    assert solution is not None
    agreeing = subset(matches, solution.inliers)
    halves = compare_halves(agreeing, local, CAMERA, solution.world_from_local)
    verdict = judge(replace(FINE, halves_m=halves.metres, halves_scale=halves.scale), VerdictConfig())
    assert (verdict is not None) == refused
    if verdict is not None:
        assert verdict.reason in (Reason.HALVES_DISAGREE, Reason.SCALE_OF_HALVES)
