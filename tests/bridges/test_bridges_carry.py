"""Patches searched for at all shifts at once, beside the search shift by shift."""

from __future__ import annotations

import cv2
import numpy as np

from skyanchor.bridges import carry_kernels as kernels
from skyanchor.bridges.rounding import ROUNDED


def test_all_shifts_at_once_are_the_shifts_one_by_one() -> None:
    rng, reach = np.random.default_rng(0), 4
    image = cv2.GaussianBlur(rng.integers(0, 256, (40, 50), dtype=np.uint8), (0, 0), 1.0)
    image[:, :6] = 200  # plain where the patch lies at the farthest shift to the left
    across, down = np.meshgrid(np.arange(-5, 6) * 0.9, np.arange(-5, 6) * 0.8)
    us, vs = (across + 0.1 * down).ravel() + 12.3, down.ravel() + 20.7
    wanted = rng.normal(size=kernels.SAMPLES)
    wanted = (wanted - wanted.mean()) / np.linalg.norm(wanted - wanted.mean())
    scores, round_it = np.empty((2 * reach + 1,) * 2), np.zeros((kernels.LANES + 1) * int(kernels.ROW), np.float32)
    sums = np.empty(3 * kernels.LANES**2, np.float32)
    kernels._likeness_all(image, us, vs, wanted, round_it, sums, scores)
    shifts = range(-reach, reach + 1)
    one_by_one = [[kernels._likeness(image, 40, 50, us, vs, b, a, wanted) for b in shifts] for a in shifts]
    assert np.abs(scores - one_by_one).max() < 1e-5 and np.ptp(scores) > 0.1


def test_shifts_that_leave_the_image_are_known() -> None:
    us, vs = np.full(kernels.SAMPLES, 10.0), np.full(kernels.SAMPLES, 10.0)
    assert kernels._all_inside(15, 15, us, vs, 4) and not kernels._all_inside(14, 15, us, vs, 4)
    us[-1] = 4.4
    assert kernels._all_inside(30, 30, us, vs, 3) and not kernels._all_inside(30, 30, us, vs, 4)


def test_kernels_round_alike_whether_compiled_or_loaded() -> None:
    parts = (kernels.relocate, kernels._likeness_all, kernels._likeness, kernels._patch, kernels._project)
    assert all(one.targetoptions["fastmath"] == ROUNDED for one in parts)
