"""The dense solver: noise in, error near noise out; constant cameras keep their bits; honest covariance."""

from dataclasses import replace

import numpy as np
import pytest
from street_bundle import LENS, disturbed, scene

from skyanchor.geometry import cameras, rigid
from skyanchor.sfm import bundle as ba
from skyanchor.sfm.adjustment import Adjusted, adjust
from skyanchor.sfm.dense import Dense
from skyanchor.types import Pose


def errors(done: Adjusted, truth: ba.Bundle) -> np.ndarray:
    ours = rigid.centres_in_world(done.bundle.cams_from_world[:4])
    return np.linalg.norm(ours - rigid.centres_in_world(truth.cams_from_world[:4]), axis=1)


def test_noise_free_is_exact() -> None:
    truth, _ = scene(0)
    done = adjust(disturbed(truth, 1), Dense(iterations=40, tolerance=0.0))
    assert errors(done, truth).max() < 1e-5
    assert done.residuals.max() < 1e-3


def test_constant_cameras_keep_their_bits() -> None:
    truth, seen = scene(2)
    done = adjust(disturbed(seen, 3), Dense())
    for before, after in zip(truth.cams_from_world[4:], done.bundle.cams_from_world[4:], strict=True):
        assert np.array_equal(before.rotation, after.rotation)
        assert np.array_equal(before.translation, after.translation)
    assert errors(done, truth).min() > 0.0


def test_outliers_lose() -> None:
    truth, seen = scene(4)
    rng = np.random.default_rng(5)
    xy = seen.xy.copy()
    wrong = (rng.random(len(xy)) < 0.15) & (seen.camera < 4)
    xy[wrong] += rng.uniform(-80, 80, (int(wrong.sum()), 2))
    done = adjust(disturbed(replace(seen, xy=xy), 6), Dense(iterations=40))
    assert errors(done, truth).max() < 0.06
    assert np.median(done.residuals[wrong]) > 10.0


def test_covariance_tells_the_error() -> None:
    """Normalised squared error of the pose has mean 6 over many noises."""
    scores = []
    for seed in range(30):
        truth, seen = scene(seed, points=60)
        done = adjust(seen, Dense(loss_scale=50.0))
        for k in range(4):
            off = done.bundle.cams_from_world[k] @ truth.cams_from_world[k].inverse
            step = np.concatenate([rigid.rotation_log(off.rotation), off.translation])
            scores.append(step @ np.linalg.solve(done.covariances[k], step))
    assert 4.5 < np.mean(scores) < 7.5


def test_focal_length_is_found() -> None:
    truth, seen = scene(7, noise_px=0.2)
    wrong = (cameras.pinhole(640, 360, 630.0),) * 4 + (LENS,) * 3
    done = adjust(replace(seen, lenses=wrong), Dense(iterations=50, refine_focal=True))
    assert done.bundle.lenses[0].params[0] == pytest.approx(600.0, rel=0.01)
    assert done.bundle.lenses[4:] == (LENS,) * 3
    assert errors(done, truth).max() < 0.15


def test_a_prior_holds_a_point_that_one_camera_sees() -> None:
    _, seen = scene(8)
    single = seen.point == 0
    keep = ~single | (seen.camera == 4)
    part = replace(seen, camera=seen.camera[keep], point=seen.point[keep], xy=seen.xy[keep], sigma=seen.sigma[keep])
    information = np.zeros((len(seen.points), 3, 3))
    information[0] = np.eye(3) / 0.1**2
    prior = seen.points.copy()
    done = adjust(replace(part, prior=prior, prior_information=information), Dense())
    assert np.linalg.norm(done.bundle.points[0] - prior[0]) < 0.25


def test_a_camera_whose_points_are_free_goes_where_it_is_held_and_is_known_as_well() -> None:
    truth, seen = scene(21)
    one, _ = ba.selected(seen, seen.camera == 0)
    start = Pose(rigid.rotation_exp(np.array([0.01, -0.02, 0.005])), np.array([0.05, -0.1, 0.03]))
    spread = np.diag([1e-3, 2e-3, 1e-3, 0.02, 0.05, 0.03]) ** 2
    spread[3, 4] = spread[4, 3] = 4e-4
    held = ba.HeldPoses(np.array([0]), (truth.cams_from_world[0],), np.linalg.inv(spread))
    given = replace(one, cams_from_world=(start @ truth.cams_from_world[0], *one.cams_from_world[1:]), held=(held,))
    done = adjust(given, Dense(iterations=40, tolerance=0.0))
    assert np.linalg.norm(ba.from_held(given, held)) > 0.1 and np.linalg.norm(ba.from_held(done.bundle, held)) < 1e-4
    assert done.covariances is not None
    np.testing.assert_allclose(np.diag(done.covariances[0]), np.diag(spread), rtol=0.08)
