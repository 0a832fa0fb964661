"""Photometric losses and scores of a rendered image against a photo, both (H, W, 3) in 0..1.

SSIM is the variant of the 3DGS papers: 11x11 Gaussian window with σ = 1.5, zeros beyond the image edge.
A mask (H, W), True = use, acts the same way: pixels outside are zero in both images as the window sees them, the
averages run over the pixels inside, and the gradient outside is exactly zero.
On the CPU value and gradient come from one fused Numba pass, elsewhere from torch convolutions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d

from skyanchor.types import Floats32

WINDOW = 11
SIGMA = 1.5
C1, C2 = 0.01**2, 0.03**2


def photometric_loss(rgb: Tensor, target: Tensor, mask: Tensor | None = None, ssim_weight: float = 0.2) -> Tensor:
    """(1 - λ) L1 + λ (1 - SSIM), λ = `ssim_weight`, averaged over the pixels of `mask`; a scalar tensor.

    Differentiable with respect to `rgb` only; 0 when the mask is empty.
    """
    if rgb.shape != target.shape or rgb.shape[-1] != 3 or (mask is not None and mask.shape != rgb.shape[:2]):
        raise ValueError(f"expected (H, W, 3) twice and a mask (H, W), got {rgb.shape}, {target.shape}")
    if rgb.device.type == "cpu" and rgb.dtype == torch.float32:
        return _FusedLoss.apply(rgb, target.detach(), mask, float(ssim_weight))
    return torch_photometric_loss(rgb, target.detach(), mask, ssim_weight)


def ssim(rgb: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean structural similarity over the pixels of `mask`, at most 1; a scalar tensor."""
    return 1.0 - photometric_loss(rgb, target, mask, ssim_weight=1.0)


def psnr(rgb: Tensor, target: Tensor, mask: Tensor | None = None) -> float:
    """-10 log10(mean squared error) in dB over the pixels of `mask`, rgb clamped to 0..1; inf for equal images."""
    error = (rgb.detach().clamp(0.0, 1.0) - target) ** 2
    mse = float((error if mask is None else error[mask]).mean(dtype=torch.float64))
    return -10.0 * math.log10(mse) if mse > 0.0 else math.inf


def torch_photometric_loss(rgb: Tensor, target: Tensor, mask: Tensor | None, ssim_weight: float) -> Tensor:
    """The same loss in torch operations, for any device and precision."""
    used = torch.ones_like(rgb[..., :1]) if mask is None else mask[..., None].to(rgb.dtype)
    count = 3.0 * used.sum().clamp(min=1.0)
    x, y = rgb * used, target * used
    l1 = (x - y).abs().sum() / count
    similarity = (_ssim_map(x, y) * used).sum() / count
    return (1.0 - ssim_weight) * l1 + ssim_weight * (used.amax() - similarity)


def _ssim_map(x: Tensor, y: Tensor) -> Tensor:
    """SSIM at every pixel and channel, (H, W, 3)."""
    planes = torch.cat([x, y, x * x + y * y, x * y], dim=-1).permute(2, 0, 1)[:, None]
    mean_x, mean_y, square, product = _window_average(planes)[:, 0].permute(1, 2, 0).split(3, dim=-1)
    both = mean_x * mean_y
    squares = mean_x**2 + mean_y**2
    return (2 * both + C1) * (2 * (product - both) + C2) / ((squares + C1) * (square - squares + C2))


def _window_average(planes: Tensor) -> Tensor:
    """The Gaussian window average of (N, 1, H, W), zeros beyond the edge."""
    at = torch.arange(WINDOW, dtype=torch.float64) - WINDOW // 2
    taps = torch.exp(-((at / SIGMA) ** 2) / 2.0)
    taps = (taps / taps.sum()).to(planes)
    across = conv2d(planes, taps.view(1, 1, 1, WINDOW), padding=(0, WINDOW // 2))
    return conv2d(across, taps.view(1, 1, WINDOW, 1), padding=(WINDOW // 2, 0))


class _FusedLoss(torch.autograd.Function):  # type: ignore[misc]  # torch is untyped here
    """Value and gradient in one go; the backward pass only scales."""

    @staticmethod
    def forward(ctx: Any, rgb: Tensor, target: Tensor, mask: Tensor | None, ssim_weight: float) -> Tensor:
        value, gradient = _fused_loss(rgb, target, mask, ssim_weight, wanted=ctx.needs_input_grad[0])
        ctx.gradient = gradient
        return torch.tensor(value, dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        gradient = None if ctx.gradient is None else torch.from_numpy(ctx.gradient) * grads[0]
        return gradient, None, None, None


def _fused_loss(
    rgb: Tensor, target: Tensor, mask: Tensor | None, ssim_weight: float, *, wanted: bool
) -> tuple[float, Floats32 | None]:
    """The loss, and if wanted its gradient (H, W, 3)."""
    from skyanchor.gaussians.cpu import loss_kernels as k

    height, width = rgb.shape[:2]
    x, y = (_rows(image, mask) for image in (rgb, target))
    pixels = height * width if mask is None else int(mask.sum())
    scale = np.float32(1.0 / (3.0 * max(pixels, 1)))
    used = torch.ones((height, width, 3)) if mask is None else mask[..., None].expand(height, width, 3)
    weight = _rows(used.float(), None) * scale
    moments, slopes = (np.empty((n, *x.shape), np.float32) for n in (k.MOMENTS, k.SLOPES))
    sums = np.zeros((-(-height // k.ROWS), 2), np.float64)
    k.score_images(x, y, weight, moments, slopes, sums)
    l1, similarity = sums.sum(axis=0)
    value = (1.0 - ssim_weight) * l1 + ssim_weight * (float(pixels > 0) - similarity)
    if not wanted:
        return float(value), None
    gradient = np.empty_like(x)
    k.image_gradient(x, y, weight, slopes, np.float32(ssim_weight), gradient)
    return float(value), gradient.reshape(height, width, 3)


def _rows(image: Tensor, mask: Tensor | None) -> Floats32:
    """(H, 3 W), C-contiguous float32; zero outside the mask."""
    kept = image.detach() if mask is None else image.detach() * mask[..., None]
    return np.asarray(kept.contiguous().numpy(), dtype=np.float32).reshape(image.shape[0], -1)
