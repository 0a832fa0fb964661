"""How like a render is to the photo: PSNR and SSIM, the latter in the variant of the Gaussian splatting papers."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from skyanchor.types import Bools, Bytes, Floats

WINDOW = 11
"""Side of the SSIM window, pixels."""
SIGMA = 1.5
"""Standard deviation of the Gaussian inside it, pixels."""
C1, C2 = 0.01**2, 0.03**2
"""Stabilisers for values in 0..1."""

Image = Bytes | npt.NDArray[np.floating]
"""(H, W, 3), uint8 or floats in 0..1."""


def psnr(render: Image, photo: Image, mask: Bools | None = None) -> float:
    """-10 log10(mean squared error) of values in 0..1, dB, where the mask is True; inf for equal images."""
    squared = (unit(render) - unit(photo)) ** 2
    error = float(squared[mask].mean() if mask is not None else squared.mean())
    return float("inf") if error == 0.0 else -10.0 * float(np.log10(error))


def ssim(render: Image, photo: Image) -> float:
    """Mean structural similarity, -1..1: 11x11 Gaussian window of 1.5 px, zero padded, over all pixels and channels.

    SSIM = (2 μa μb + C1)(2 σab + C2) / ((μa² + μb² + C1)(σa² + σb² + C2)), moments under the window.
    """
    a, b = unit(render), unit(photo)
    mean_a, mean_b = _blurred(a), _blurred(b)
    var_a = _blurred(a * a) - mean_a**2
    var_b = _blurred(b * b) - mean_b**2
    covariance = _blurred(a * b) - mean_a * mean_b
    likeness = (2 * mean_a * mean_b + C1) * (2 * covariance + C2)
    return float((likeness / ((mean_a**2 + mean_b**2 + C1) * (var_a + var_b + C2))).mean())


def unit(image: Image) -> Floats:
    """The image as float64 in 0..1."""
    values = np.asarray(image, dtype=np.float64)
    return values / 255.0 if image.dtype == np.uint8 else values


def window() -> Floats:
    """The one-dimensional Gaussian window, (11,), sum 1."""
    offsets = np.arange(WINDOW) - WINDOW // 2
    weights = np.exp(-(offsets**2) / (2.0 * SIGMA**2))
    return weights / weights.sum()


def _blurred(values: Floats) -> Floats:
    """Windowed mean of (H, W, 3) with zeros beyond the border."""
    weights = window()
    return np.asarray(cv2.sepFilter2D(values, cv2.CV_64F, weights, weights, borderType=cv2.BORDER_CONSTANT))
