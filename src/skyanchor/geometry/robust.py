"""Robust statistics: a spread, weights that forgive outliers, trials of a random search."""

from __future__ import annotations

import math

import numpy as np

from skyanchor.types import Floats

MAD_TO_SIGMA = 1.482602218505602
"""1 / Φ⁻¹(3/4): the median absolute deviation of a normal distribution is sigma / 1.4826."""


def residual_sigma(residuals: Floats) -> float:
    """Standard deviation of residuals that are centred on zero: 1.4826 median |r|."""
    residuals = np.asarray(residuals, dtype=np.float64)
    return float(MAD_TO_SIGMA * np.median(np.abs(residuals))) if residuals.size else math.nan


def soft_l1_weights(residuals: Floats, scale: float) -> Floats:
    """IRLS weights of ρ(r) = 2 s² (√(1 + r²/s²) - 1): w = 1 / √(1 + r²/s²)."""
    return np.asarray(1.0 / np.sqrt(1.0 + (np.asarray(residuals) / scale) ** 2))


def huber_weights(residuals: Floats, scale: float) -> Floats:
    """IRLS weights of Huber's loss: 1 inside `scale`, scale / |r| beyond."""
    return np.asarray(scale / np.maximum(np.abs(residuals), scale))


def cauchy_weights(residuals: Floats, scale: float) -> Floats:
    """IRLS weights of ρ(r) = s²/2 log(1 + r²/s²): w = 1 / (1 + r²/s²)."""
    return np.asarray(1.0 / (1.0 + (np.asarray(residuals) / scale) ** 2))


def ransac_trials(inlier_ratio: float, sample: int, confidence: float = 0.9999, most: int = 100_000) -> int:
    """Trials until one sample is all inliers with `confidence`: log(1 - p) / log(1 - wˢ)."""
    good = min(max(inlier_ratio, 0.0), 1.0) ** sample
    if good >= 1.0:
        return 1
    if good <= 0.0:
        return most
    return min(most, max(1, math.ceil(math.log(1.0 - confidence) / math.log1p(-good))))
