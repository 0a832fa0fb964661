"""One bundle, two solvers: both reach the truth, agree with each other and state the same uncertainty."""

import numpy as np
import pytest
from street_bundle import disturbed, scene

from skyanchor.geometry import rigid
from skyanchor.sfm.adjustment import AnySolver, adjust
from skyanchor.sfm.ceres import Ceres
from skyanchor.sfm.dense import Dense
from skyanchor.sfm.uncertainty import pose_covariances, resected_covariance

SOLVERS = (Dense(iterations=60, loss_scale=50.0, tolerance=0.0), Ceres(iterations=100, loss_scale=50.0))


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
def test_noise_in_error_near_noise_and_constant_bits(solver: AnySolver) -> None:
    truth, seen = scene(11)
    given = disturbed(seen, 12)
    done = adjust(given, solver)
    off = np.linalg.norm(
        rigid.centres_in_world(done.bundle.cams_from_world) - rigid.centres_in_world(truth.cams_from_world), axis=1
    )
    assert 1e-4 < off[:4].max() < 0.06 and (off[4:] == 0.0).all()
    assert np.median(done.residuals) == pytest.approx(np.sqrt(1.386), rel=0.15)
    assert done.bundle.lenses == given.lenses and np.array_equal(done.bundle.xy, given.xy)


def test_both_solvers_find_the_same_optimum() -> None:
    """Losses far beyond the residuals: both are least squares."""
    _, seen = scene(13)
    dense, ceres = (adjust(disturbed(seen, 14), solver).bundle for solver in SOLVERS)
    assert np.allclose(
        rigid.centres_in_world(dense.cams_from_world), rigid.centres_in_world(ceres.cams_from_world), atol=1e-3
    )
    assert np.allclose(dense.points, ceres.points, atol=5e-3)


def test_marginals_of_the_large_problem_are_the_covariances_of_the_small_one() -> None:
    _, seen = scene(15)
    done = adjust(seen, SOLVERS[0])
    assert done.covariances is not None
    ratio = np.median(done.residuals) ** 2 / 1.386
    assert np.allclose(pose_covariances(done.bundle), done.covariances * ratio, rtol=0.05, atol=1e-9)


def test_a_resected_camera_is_known_as_well_as_one_whose_points_are_fixed() -> None:
    """Scatter of a camera over noises, its points held: (JᵀJ)⁻¹ tells it."""
    truth, _ = scene(16)
    rows = truth.camera == 0
    seen = truth.cams_from_world[0](truth.points[truth.point[rows]])
    covariance = resected_covariance(seen, np.full((len(seen), 2), 0.5), 600.0)
    turned = np.array([0.001, -0.0005, 0.0008, 0.004, -0.003, 0.01])
    moved = seen + np.cross(turned[:3], seen) + turned[3:]
    change = 600.0 * (moved[:, :2] / moved[:, 2:] - seen[:, :2] / seen[:, 2:])
    variance = 0.25 * 2 * len(seen) / (2 * len(seen) - 6)
    assert turned @ np.linalg.solve(covariance, turned) == pytest.approx((change**2).sum() / variance, rel=0.01)
