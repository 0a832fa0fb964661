"""Small bundle adjustment: noise in, error near noise out; constant cameras keep their bits; honest covariance."""

from dataclasses import replace

import numpy as np

from skyanchor.geometry import rigid
from skyanchor.sfm import bundle as ba
from skyanchor.types import Pose

UP = np.array([0.0, 0.0, 1.0])
K = np.array([600.0, 600.0, 320.0, 180.0])


def scene(seed: int, points: int = 120, noise_px: float = 0.5) -> tuple[ba.Bundle, ba.Bundle]:
    """(truth, observed): three fixed aerial cameras, four street cameras, one wall in front of them."""
    rng = np.random.default_rng(seed)
    wall = np.stack([rng.uniform(-8, 8, points), rng.uniform(11, 14, points), rng.uniform(0, 6, points)], axis=1)
    aerial = [rigid.look_at(np.array([x, -30.0, 35.0]), np.array([0.0, 12.0, 2.0]), UP) for x in (-20.0, 0.0, 20.0)]
    street = [rigid.look_at(np.array([0.2 * k, 0.6 * k, 1.7]), np.array([0.0, 12.0, 2.5]), UP) for k in range(4)]
    poses = (*street, *aerial)
    camera = np.repeat(np.arange(7), points)
    point = np.tile(np.arange(points), 7)
    in_cam = np.concatenate([pose(wall) for pose in poses])
    xy = in_cam[:, :2] / in_cam[:, 2:] * K[:2] + K[2:]
    constant = np.arange(7) >= 4
    truth = ba.Bundle(poses, np.tile(K, (7, 1)), constant, wall, camera, point, xy, np.full(len(xy), noise_px))
    return truth, replace(truth, xy=xy + rng.normal(0, noise_px, xy.shape))


def disturbed(bundle: ba.Bundle, seed: int) -> ba.Bundle:
    rng = np.random.default_rng(seed)
    poses = list(bundle.cams_from_world)
    for k in range(4):
        step = Pose(rigid.rotation_exp(rng.normal(0, 0.01, 3)), rng.normal(0, 0.2, 3))
        poses[k] = step @ poses[k]
    moved = bundle.points + rng.normal(0, 0.2, bundle.points.shape)
    return replace(bundle, cams_from_world=tuple(poses), points=moved)


def errors(done: ba.Adjusted, truth: ba.Bundle) -> np.ndarray:
    ours = rigid.centres_in_world(done.bundle.cams_from_world[:4])
    return np.linalg.norm(ours - rigid.centres_in_world(truth.cams_from_world[:4]), axis=1)


def test_noise_free_is_exact() -> None:
    truth, _ = scene(0)
    done = ba.adjust(disturbed(truth, 1), ba.AdjustConfig(iterations=40, tolerance=0.0))
    assert errors(done, truth).max() < 1e-5
    assert done.residuals.max() < 1e-3


def test_constant_cameras_keep_their_bits() -> None:
    truth, seen = scene(2)
    done = ba.adjust(disturbed(seen, 3), ba.AdjustConfig())
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
    done = ba.adjust(disturbed(replace(seen, xy=xy), 6), ba.AdjustConfig(iterations=40))
    assert errors(done, truth).max() < 0.06
    assert np.median(done.residuals[wrong]) > 10.0


def test_covariance_tells_the_error() -> None:
    """Normalised squared error of the pose has mean 6 over many noises."""
    scores = []
    for seed in range(30):
        truth, seen = scene(seed, points=60)
        done = ba.adjust(seen, ba.AdjustConfig(loss_scale=50.0))
        for k in range(4):
            off = done.bundle.cams_from_world[k] @ truth.cams_from_world[k].inverse
            step = np.concatenate([rigid.rotation_log(off.rotation), off.translation])
            scores.append(step @ np.linalg.solve(done.covariances[k], step))
    assert 4.5 < np.mean(scores) < 7.5


def test_focal_length_is_found() -> None:
    truth, seen = scene(7, noise_px=0.2)
    wrong = seen.calibrations.copy()
    wrong[:4, :2] *= 1.05
    done = ba.adjust(replace(seen, calibrations=wrong), ba.AdjustConfig(iterations=50, refine_focal=True))
    assert abs(done.focal_scale * 1.05 - 1.0) < 0.01
    assert errors(done, truth).max() < 0.15


def test_a_prior_holds_a_point_that_one_camera_sees() -> None:
    _, seen = scene(8)
    single = seen.point == 0
    keep = ~single | (seen.camera == 4)
    part = replace(seen, camera=seen.camera[keep], point=seen.point[keep], xy=seen.xy[keep], sigma=seen.sigma[keep])
    information = np.zeros((len(seen.points), 3, 3))
    information[0] = np.eye(3) / 0.1**2
    prior = seen.points.copy()
    done = ba.adjust(replace(part, prior=prior, prior_information=information), ba.AdjustConfig())
    assert np.linalg.norm(done.bundle.points[0] - prior[0]) < 0.25


def test_triangulation_meets_the_rays() -> None:
    truth, seen = scene(9)
    assert np.allclose(ba.triangulate(truth), truth.points, atol=1e-6)
    assert 0.0 < np.abs(ba.triangulate(seen) - truth.points).max() < 0.2
    assert np.isnan(ba.triangulate(ba.selected(truth, truth.camera == 0)[0])).all()
