"""L1 + SSIM of two images and the gradient of the first, fused.

SSIM is the zero-padded variant of the 3DGS papers: 11x11 Gaussian window, σ = 1.5, C1 = 0.01², C2 = 0.03², range 0..1.
With the window average E and images x, y:  μ_x = E[x], s = E[x² + y²] - μ_x² - μ_y², c = E[xy] - μ_x μ_y,
    SSIM = A B / (C D),  A = 2 μ_x μ_y + C1,  B = 2 c + C2,  C = μ_x² + μ_y² + C1,  D = s + C2.
E is symmetric, so the gradient is E[∂/∂μ_x] + 2 x E[∂/∂E[x² + y²]] + y E[∂/∂E[xy]].

Rows of (W, 3) images are treated as 3 W floats, neighbours 3 apart: channels never mix and every loop vectorises.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from skyanchor.compiled import njit
from skyanchor.gaussians.cpu.layout import FAST, F

RADIUS = 5
SIGMA = 1.5
C1, C2 = F(0.01**2), F(0.03**2)
ZERO, ONE, TWO = F(0.0), F(1.0), F(2.0)
STEP = 3
"""Floats from a pixel to its neighbour."""
ROWS = 8
"""Image rows per parallel job."""
MOMENTS = 4
"""Averages that SSIM needs: x, y, x² + y², xy."""
SLOPES = 3
"""Derivatives that its gradient averages: with respect to E[x], E[x² + y²], E[xy]."""

_taps = np.exp(-((np.arange(RADIUS + 1) / SIGMA) ** 2) / 2.0)
TAPS = (_taps / (_taps[0] + 2.0 * _taps[1:].sum())).astype(np.float32)
"""Window weights at distance 0..RADIUS; they sum to 1 over both sides."""
T0, T1, T2, T3, T4, T5 = TAPS


@njit(**FAST)
def average_across(row: Any, padded: Any, out: Any) -> None:
    """The horizontal window average of one row; `padded` has RADIUS pixels more on each side."""
    n = row.shape[0]
    edge = RADIUS * STEP
    for x in range(edge):
        padded[x] = ZERO
        padded[edge + n + x] = ZERO
    for x in range(n):
        padded[edge + x] = row[x]
    for x in range(n):
        total = T5 * (padded[x] + padded[x + 30]) + T4 * (padded[x + 3] + padded[x + 27])
        total += T3 * (padded[x + 6] + padded[x + 24]) + T2 * (padded[x + 9] + padded[x + 21])
        out[x] = total + T1 * (padded[x + 12] + padded[x + 18]) + T0 * padded[x + 15]


@njit(**FAST)
def average_down(plane: Any, y: Any, out: Any) -> None:
    """The vertical window average at row y of a plane (H, 3 W)."""
    n = out.shape[0]
    centre = plane[y]
    for x in range(n):
        out[x] = T0 * centre[x]
    for k in range(1, RADIUS + 1):
        tap = TAPS[k]
        if y >= k:
            row = plane[y - k]
            for x in range(n):
                out[x] += tap * row[x]
        if y + k < plane.shape[0]:
            row = plane[y + k]
            for x in range(n):
                out[x] += tap * row[x]


@njit(**FAST)
def moments_across(a: Any, b: Any, row: Any, padded: Any, out: Any, y: Any) -> None:
    """Horizontal averages of x, y, x² + y² and xy of row y, to out (MOMENTS, H, 3 W)."""
    average_across(a, padded, out[0, y])
    average_across(b, padded, out[1, y])
    for x in range(a.shape[0]):
        row[x] = a[x] * a[x] + b[x] * b[x]
    average_across(row, padded, out[2, y])
    for x in range(a.shape[0]):
        row[x] = a[x] * b[x]
    average_across(row, padded, out[3, y])


@njit(**FAST)
def ssim_row(m: Any, weight: Any, slopes: Any) -> Any:
    """Σ weight·SSIM along a row of moments (MOMENTS, 3 W), and weight times its derivatives to slopes (SLOPES, 3 W)."""
    mean_x, mean_y, square, product = m[0], m[1], m[2], m[3]
    d_mean, d_square, d_product = slopes[0], slopes[1], slopes[2]
    total = ZERO
    for x in range(weight.shape[0]):
        u, v = mean_x[x], mean_y[x]
        a, b = TWO * u * v + C1, TWO * (product[x] - u * v) + C2
        c, d = u * u + v * v + C1, square[x] - u * u - v * v + C2
        inverse = weight[x] / (c * d)
        value = a * b * inverse
        by_square, by_product = -value / d, TWO * a * inverse
        total += value
        d_square[x] = by_square
        d_product[x] = by_product
        d_mean[x] = TWO * v * b * inverse - TWO * u * value / c - TWO * u * by_square - v * by_product
    return total


@njit(**FAST)
def l1_row(a: Any, b: Any, weight: Any) -> Any:
    """Σ weight·|x - y| along a row."""
    total = ZERO
    for x in range(a.shape[0]):
        total += weight[x] * abs(a[x] - b[x])
    return total


@njit(**FAST)
def gradient_row(a: Any, b: Any, weight: Any, means: Any, ssim_weight: Any, out: Any) -> None:
    """weight·[(1 - λ) sign(x - y)] - λ·∂SSIM, from the averaged slopes (SLOPES, 3 W)."""
    d_mean, d_square, d_product = means[0], means[1], means[2]
    for x in range(a.shape[0]):
        difference = a[x] - b[x]
        sign = ONE if difference > ZERO else (-ONE if difference < ZERO else ZERO)
        by_ssim = d_mean[x] + TWO * a[x] * d_square[x] + b[x] * d_product[x]
        used = ONE if weight[x] > ZERO else ZERO
        out[x] = (ONE - ssim_weight) * weight[x] * sign - ssim_weight * used * by_ssim


@njit(**FAST)
def _moment_rows(first: Any, last: Any, x: Any, y: Any, out: Any) -> None:
    n = x.shape[1]
    row, padded = np.empty(n, np.float32), np.empty(n + 2 * RADIUS * STEP, np.float32)
    for r in range(first, last):
        moments_across(x[r], y[r], row, padded, out, r)


@njit(**FAST)
def _score_rows(first: Any, last: Any, x: Any, y: Any, weight: Any, moments: Any, slopes: Any, sums: Any) -> None:
    n = x.shape[1]
    m, d = np.empty((MOMENTS, n), np.float32), np.empty((SLOPES, n), np.float32)
    padded = np.empty(n + 2 * RADIUS * STEP, np.float32)
    for r in range(first, last):
        for k in range(MOMENTS):
            average_down(moments[k], r, m[k])
        sums[0] += l1_row(x[r], y[r], weight[r])
        sums[1] += ssim_row(m, weight[r], d)
        for k in range(SLOPES):
            average_across(d[k], padded, slopes[k, r])


@njit(**FAST)
def _gradient_rows(first: Any, last: Any, x: Any, y: Any, weight: Any, slopes: Any, ssim_weight: Any, out: Any) -> None:
    d = np.empty((SLOPES, x.shape[1]), np.float32)
    for r in range(first, last):
        for k in range(SLOPES):
            average_down(slopes[k], r, d[k])
        gradient_row(x[r], y[r], weight[r], d, ssim_weight, out[r])


@njit(parallel=True, **FAST)
def score_images(x: Any, y: Any, weight: Any, moments: Any, slopes: Any, sums: Any) -> None:
    """Fills sums (jobs, 2) with Σ weight·|x - y| and Σ weight·SSIM, and slopes (SLOPES, H, 3 W); moments is scratch."""
    height = x.shape[0]
    for job in prange(sums.shape[0]):
        first = np.int64(job) * ROWS
        _moment_rows(first, min(height, first + ROWS), x, y, moments)
    for job in prange(sums.shape[0]):
        first = np.int64(job) * ROWS
        _score_rows(first, min(height, first + ROWS), x, y, weight, moments, slopes, sums[job])


@njit(parallel=True, **FAST)
def image_gradient(x: Any, y: Any, weight: Any, slopes: Any, ssim_weight: Any, out: Any) -> None:
    """Fills out (H, 3 W) with the gradient of (1 - λ) Σ weight·|x - y| - λ Σ weight·SSIM with respect to x."""
    height = x.shape[0]
    for job in prange((height + ROWS - 1) // ROWS):
        first = np.int64(job) * ROWS
        _gradient_rows(first, min(height, first + ROWS), x, y, weight, slopes, ssim_weight, out)
