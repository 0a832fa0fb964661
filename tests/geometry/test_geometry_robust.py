"""Robust statistics against their definitions and against contamination."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyanchor.geometry import robust


def test_mad_is_sigma_for_normal_numbers_and_forgives_a_third_of_outliers() -> None:
    values = np.random.default_rng(0).normal(5.0, 2.0, 20_000)
    assert robust.mad_sigma(values) == pytest.approx(2.0, rel=0.03)
    assert robust.residual_sigma(values - 5.0) == pytest.approx(2.0, rel=0.03)
    values[:6000] = 1e6
    assert 2.0 < robust.mad_sigma(values) < 5.0
    assert np.isnan(robust.mad_sigma(np.zeros(0)))


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40), st.integers(1, 5))
def test_weighted_median_is_the_median_of_repeated_values(values: list[float], weight: int) -> None:
    numbers = np.array(values)
    weights = np.arange(1, len(numbers) + 1) * weight
    repeated = np.sort(np.repeat(numbers, weights))
    assert robust.weighted_median(numbers, weights) == repeated[(len(repeated) - 1) // 2]


def test_weighted_quantile_ends() -> None:
    values, weights = np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0])
    assert robust.weighted_quantile(values, weights, 0.0) == 1.0
    assert robust.weighted_quantile(values, weights, 1.0) == 3.0
    assert np.isnan(robust.weighted_quantile(values, np.zeros(3), 0.5))


@pytest.mark.parametrize(
    ("weights", "loss"),
    [
        (robust.soft_l1_weights, lambda r, s: 2 * s**2 * (np.sqrt(1 + (r / s) ** 2) - 1)),
        (robust.huber_weights, lambda r, s: np.where(np.abs(r) <= s, r**2, 2 * s * np.abs(r) - s**2)),
        (robust.cauchy_weights, lambda r, s: s**2 * np.log1p((r / s) ** 2)),
    ],
)
def test_weights_are_the_slope_of_their_loss(weights, loss) -> None:  # type: ignore[no-untyped-def]
    """w(r) = ρ'(r) / (2 r) when ρ ~ r² near zero."""
    r, h = np.array([-7.3, -1.4, -0.2, 0.3, 2.6, 40.0]), 1e-5
    slope = (loss(r + h, 1.5) - loss(r - h, 1.5)) / (2 * h)
    assert np.allclose(weights(r, 1.5), slope / (2 * r), rtol=1e-4)
    assert weights(np.array([0.0]), 1.5)[0] == pytest.approx(1.0)


def test_geometric_median_and_mode_ignore_a_minority() -> None:
    rng = np.random.default_rng(2)
    points = np.concatenate([rng.normal([1, 2, 3], 0.1, (60, 3)), rng.normal(100, 1, (40, 3))])
    assert np.linalg.norm(robust.geometric_median(points) - [1, 2, 3]) < 0.3
    values = np.concatenate([rng.normal(4.0, 0.05, 300), rng.uniform(-50, 50, 700)])
    assert robust.half_sample_mode(values) == pytest.approx(4.0, abs=0.15)
    assert robust.inliers_by_mad(np.array([1.0, 1.1, 0.9, 50.0])).tolist() == [True, True, True, False]


def test_ransac_trials_follow_the_formula() -> None:
    assert robust.ransac_trials(0.5, 3, 0.99) == 35  # log 0.01 / log(1 - 1/8) = 34.5
    assert robust.ransac_trials(1.0, 3) == 1
    assert robust.ransac_trials(0.0, 3, most=500) == 500
