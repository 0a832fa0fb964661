"""PSNR and SSIM against hand-written loops and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skyanchor.evaluation.images import psnr, ssim


def _photo(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    ramp = np.linspace(0, 1, 20)[:, None, None] * np.ones((20, 24, 3))
    return np.clip(ramp + 0.2 * rng.normal(size=ramp.shape), 0, 1)


def _slow_ssim(a: np.ndarray, b: np.ndarray) -> float:
    """The definition, pixel by pixel, with a two-dimensional window and explicit zero padding."""
    offsets = range(-5, 6)
    weights = [[math.exp(-(x * x + y * y) / 4.5) for x in offsets] for y in offsets]
    total = sum(map(sum, weights))
    height, width, channels = a.shape
    values = []
    for c in range(channels):
        for y in range(height):
            for x in range(width):
                m = [0.0] * 5
                for j in offsets:
                    for i in offsets:
                        if not (0 <= y + j < height and 0 <= x + i < width):
                            continue
                        w = weights[j + 5][i + 5] / total
                        p, q = float(a[y + j, x + i, c]), float(b[y + j, x + i, c])
                        m = [s + w * v for s, v in zip(m, (p, q, p * p, q * q, p * q), strict=True)]
                va, vb, cov = m[2] - m[0] ** 2, m[3] - m[1] ** 2, m[4] - m[0] * m[1]
                top = (2 * m[0] * m[1] + 1e-4) * (2 * cov + 9e-4)
                values.append(top / ((m[0] ** 2 + m[1] ** 2 + 1e-4) * (va + vb + 9e-4)))
    return sum(values) / len(values)


def test_ssim_equals_the_slow_twin() -> None:
    a, b = _photo(0), _photo(1)
    assert ssim(a, b) == pytest.approx(_slow_ssim(a, b), abs=1e-12)
    assert 0.05 < ssim(a, b) < 0.95


def test_ssim_equals_convolution_by_torch() -> None:
    """Same definition through another library's convolution, at a size where loops are too slow."""
    import torch
    import torch.nn.functional as f

    rng = np.random.default_rng(5)
    a, b = rng.random((64, 80, 3)), rng.random((64, 80, 3))
    line = torch.exp(-((torch.arange(11, dtype=torch.float64) - 5) ** 2) / (2 * 1.5**2))
    kernel = (line[:, None] * line[None, :] / line.sum() ** 2).expand(3, 1, 11, 11)

    def mean(image: torch.Tensor) -> torch.Tensor:
        return f.conv2d(image, kernel, padding=5, groups=3)

    x, y = (torch.from_numpy(image).permute(2, 0, 1)[None] for image in (a, b))
    mx, my = mean(x), mean(y)
    vx, vy, cov = mean(x * x) - mx**2, mean(y * y) - my**2, mean(x * y) - mx * my
    expected = ((2 * mx * my + 1e-4) * (2 * cov + 9e-4) / ((mx**2 + my**2 + 1e-4) * (vx + vy + 9e-4))).mean().item()
    assert ssim(a, b) == pytest.approx(expected, abs=1e-12)


def test_ssim_limits() -> None:
    a = _photo()
    assert ssim(a, a) == pytest.approx(1.0, abs=1e-12)
    assert ssim(a, 1.0 - a) < 0.0
    flat = np.zeros((40, 40, 3))
    inner = ssim(flat + 0.5, flat + 0.25)  # closed form away from the border: (2ab + C1) / (a² + b² + C1)
    assert abs(inner - (2 * 0.125 + 1e-4) / (0.3125 + 1e-4)) < 0.1


def test_psnr_closed_forms() -> None:
    a = np.full((8, 8, 3), 0.5)
    assert psnr(a, a + 0.1) == pytest.approx(20.0)
    assert psnr(np.zeros((4, 4, 3), np.uint8), np.full((4, 4, 3), 255, np.uint8)) == pytest.approx(0.0)
    assert math.isinf(psnr(a, a))
    mask = np.zeros((8, 8), bool)
    mask[:4] = True
    b = a.copy()
    b[:4] += 0.01
    b[4:] += 0.4
    assert psnr(a, b, mask) == pytest.approx(40.0)
    assert psnr(a, b) < 12.0
