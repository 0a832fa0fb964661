"""Planes averaged over neighbours: less noise on a slope, the step beside it stays, what stands alone goes."""

from __future__ import annotations

import numpy as np

from skyanchor.stereo.planes import PlaneField
from skyanchor.stereo.smoothing import SmoothConfig, smoothed

STEP = 0.004
"""Inverse depth of a pixel's motion, 1/m."""
SHAPE = (48, 64)
LEFT = np.s_[10:-10, 8:28]
RIGHT = np.s_[10:-10, 36:56]


def slope_and_step(noise: float) -> tuple[PlaneField, np.ndarray]:
    """A slope at the left, a nearer wall at the right by eight steps, both with noise; and what is true."""
    rng = np.random.default_rng(3)
    x = np.broadcast_to(np.arange(SHAPE[1], dtype=np.float64), SHAPE)
    true = np.where(x < 32, 0.1 + 0.0005 * x, 0.1 + 8 * STEP)
    a = np.where(x < 32, 0.0005, 0.0) + rng.normal(0.0, 0.02 * STEP, SHAPE)
    w = true + rng.normal(0.0, noise, SHAPE)
    return PlaneField(w.astype(np.float32), a.astype(np.float32), np.zeros(SHAPE, np.float32)), true


def test_noise_is_averaged_and_the_step_stays() -> None:
    planes, true = slope_and_step(0.25 * STEP)
    grey, cost = np.full(SHAPE, 100.0, np.float32), np.full(SHAPE, 0.2, np.float32)
    found, after = smoothed(grey, planes, cost, STEP, SmoothConfig())
    for part in (LEFT, RIGHT):
        before, now = (float(np.std((one.w - true)[part])) for one in (planes, found))
        assert 0.02 * before < now < 0.4 * before
    assert np.abs(found.w - true)[10:-10].max() < STEP  # beside the step too
    assert np.median(after[LEFT]) < 0.4


def test_a_pixel_that_no_neighbour_agrees_with_has_no_depth() -> None:
    planes, _ = slope_and_step(0.1 * STEP)
    planes.w[24, 16] += 5 * STEP
    grey = np.full(SHAPE, 100.0, np.float32)
    found, cost = smoothed(grey, planes, np.full(SHAPE, 0.2, np.float32), STEP, SmoothConfig())
    assert found.w[24, 16] == 0.0 and cost[24, 16] == 1.0
    assert (found.w[LEFT] > 0).sum() == found.w[LEFT].size - 1
