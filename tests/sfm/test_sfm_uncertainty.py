"""How sure a walk says it is: the radius for 95 % against errors drawn from what is stated."""

from __future__ import annotations

import numpy as np
import pytest

from skyanchor.sfm.uncertainty import RADIUS_95, centre_sigma_m, position_sigma_m, radius_95_m


def test_the_radius_of_a_ball_holds_for_95_percent() -> None:
    errors = np.linalg.norm(0.03 * np.random.default_rng(0).normal(size=(200_000, 3)), axis=1)
    assert (errors < RADIUS_95 * 0.03).mean() == pytest.approx(0.95, abs=0.002)
    assert radius_95_m([0.03] * 7) == pytest.approx(RADIUS_95 * 0.03) and pytest.approx(2.795, abs=1e-3) == RADIUS_95


@pytest.mark.parametrize("axes", [(1.0, 1.0, 1.0), (1.0, 1.0, 0.2), (1.0, 0.1, 0.1)])
def test_it_holds_for_more_where_other_axes_are_better_known(axes: tuple[float, ...]) -> None:
    covariance = np.diag([0.0] * 3 + [(0.05 * a) ** 2 for a in axes])
    errors = np.random.default_rng(1).multivariate_normal(np.zeros(3), covariance[3:, 3:], 100_000)
    inside = (np.linalg.norm(errors, axis=1) < RADIUS_95 * centre_sigma_m(covariance)).mean()
    assert 0.948 < inside <= 1.0


def test_the_radius_of_a_walk_counts_its_frames() -> None:
    rng = np.random.default_rng(2)
    sigmas = np.concatenate([np.full(90, 0.02), np.full(10, 0.4)])
    errors = np.linalg.norm(rng.normal(size=(4000, 100, 3)) * sigmas[:, None], axis=2)
    radius = radius_95_m(sigmas)
    assert (errors < radius).mean() == pytest.approx(0.95, abs=0.003)
    assert RADIUS_95 * 0.02 < radius < RADIUS_95 * 0.4 and position_sigma_m(sigmas) == 0.02


def test_frames_that_say_nothing_do_not_count() -> None:
    assert radius_95_m([0.1, float("nan")]) == pytest.approx(RADIUS_95 * 0.1) and np.isnan(radius_95_m([]))
