"""Robust statistics: medians, spreads, weights that forgive outliers."""

from __future__ import annotations

import math

import numpy as np

from skyanchor.types import Bools, Floats

MAD_TO_SIGMA = 1.482602218505602
"""1 / Φ⁻¹(3/4): the median absolute deviation of a normal distribution is sigma / 1.4826."""


def mad_sigma(values: Floats) -> float:
    """Standard deviation estimated from the median absolute deviation: 1.4826 median |x - median x|."""
    values = np.asarray(values, dtype=np.float64)
    if values.size == 0:
        return math.nan
    return float(MAD_TO_SIGMA * np.median(np.abs(values - np.median(values))))


def residual_sigma(residuals: Floats) -> float:
    """Standard deviation of residuals that are centred on zero: 1.4826 median |r|."""
    residuals = np.asarray(residuals, dtype=np.float64)
    return float(MAD_TO_SIGMA * np.median(np.abs(residuals))) if residuals.size else math.nan


def weighted_quantile(values: Floats, weights: Floats, quantile: float) -> float:
    """The smallest value at which the cumulated weight reaches `quantile` (0..1) of the total."""
    values, weights = np.asarray(values, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    cumulated = np.cumsum(weights[order])
    if len(values) == 0 or cumulated[-1] <= 0:
        return math.nan
    position = int(np.searchsorted(cumulated, quantile * cumulated[-1], side="left"))
    return float(values[order[min(position, len(order) - 1)]])


def weighted_median(values: Floats, weights: Floats) -> float:
    """The value with half of the weight on either side."""
    return weighted_quantile(values, weights, 0.5)


def geometric_median(points: Floats, iterations: int = 100, tolerance: float = 1e-9) -> Floats:
    """The point (D,) with the least sum of distances to points (N, D); Weiszfeld's iteration."""
    estimate = np.median(points, axis=0)
    span = float(np.ptp(points, axis=0).max()) if len(points) else 0.0
    for _ in range(iterations):
        distance = np.maximum(np.linalg.norm(points - estimate, axis=1), 1e-12 * max(span, 1e-12))
        weights = 1.0 / distance
        moved = weights @ points / weights.sum()
        if np.linalg.norm(moved - estimate) <= tolerance * max(span, 1e-12):
            return np.asarray(moved)
        estimate = moved
    return np.asarray(estimate)


def soft_l1_weights(residuals: Floats, scale: float) -> Floats:
    """IRLS weights of ρ(r) = 2 s² (√(1 + r²/s²) - 1): w = 1 / √(1 + r²/s²)."""
    return np.asarray(1.0 / np.sqrt(1.0 + (np.asarray(residuals) / scale) ** 2))


def huber_weights(residuals: Floats, scale: float) -> Floats:
    """IRLS weights of Huber's loss: 1 inside `scale`, scale / |r| beyond."""
    return np.asarray(scale / np.maximum(np.abs(residuals), scale))


def cauchy_weights(residuals: Floats, scale: float) -> Floats:
    """IRLS weights of ρ(r) = s²/2 log(1 + r²/s²): w = 1 / (1 + r²/s²)."""
    return np.asarray(1.0 / (1.0 + (np.asarray(residuals) / scale) ** 2))


def inliers_by_mad(values: Floats, sigmas: float = 3.0) -> Bools:
    """Values within `sigmas` robust standard deviations of the median, (N,)."""
    values = np.asarray(values, dtype=np.float64)
    return np.asarray(np.abs(values - np.median(values)) <= sigmas * max(mad_sigma(values), 1e-300))


def half_sample_mode(values: Floats) -> float:
    """The mode of a sample: the densest half, of that the densest half, and so on."""
    values = np.sort(np.asarray(values, dtype=np.float64))
    if len(values) == 0:
        return math.nan
    while len(values) > 2:
        half = (len(values) + 1) // 2
        widths = values[half - 1 :] - values[: len(values) - half + 1]
        start = int(np.argmin(widths))
        values = values[start : start + half]
    return float(values.mean())


def ransac_trials(inlier_ratio: float, sample: int, confidence: float = 0.9999, most: int = 100_000) -> int:
    """Trials until one sample is all inliers with `confidence`: log(1 - p) / log(1 - wˢ)."""
    good = min(max(inlier_ratio, 0.0), 1.0) ** sample
    if good >= 1.0:
        return 1
    if good <= 0.0:
        return most
    return min(most, max(1, math.ceil(math.log(1.0 - confidence) / math.log1p(-good))))
