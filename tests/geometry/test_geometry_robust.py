"""Robust statistics against their definitions and against contamination."""

from __future__ import annotations

import numpy as np
import pytest

from skyanchor.geometry import robust


def test_spread_of_normal_residuals_is_their_sigma_and_forgives_a_third_of_outliers() -> None:
    residuals = np.random.default_rng(0).normal(0.0, 2.0, 20_000)
    assert robust.residual_sigma(residuals) == pytest.approx(2.0, rel=0.03)
    residuals[:6000] = 1e6
    assert 2.0 < robust.residual_sigma(residuals) < 5.0
    assert np.isnan(robust.residual_sigma(np.zeros(0)))


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


def test_ransac_trials_follow_the_formula() -> None:
    assert robust.ransac_trials(0.5, 3, 0.99) == 35  # log 0.01 / log(1 - 1/8) = 34.5
    assert robust.ransac_trials(1.0, 3) == 1
    assert robust.ransac_trials(0.0, 3, most=500) == 500
