"""Photometric losses and scores of a rendered image against a photo, both (H, W, 3) in 0..1.

SSIM is the variant of the 3DGS papers: 11x11 Gaussian window with σ = 1.5, zeros beyond the image edge.
A mask (H, W), True = use, acts the same way: pixels outside are zero in both images as the window sees them, the
averages run over the pixels inside, and the gradient outside is exactly zero.
On the CPU value and gradient come from one fused Numba pass, on CUDA from Triton kernels, elsewhere (or without
Triton) from torch convolutions.
"""

from __future__ import annotations

import importlib.util
import math
from functools import lru_cache
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
    if rgb.device.type == "cuda" and rgb.dtype == torch.float32 and _has_triton():
        from skyanchor.gaussians.cuda_loss import TritonLoss

        taps = _taps(str(rgb.device), torch.float32)
        return TritonLoss.apply(rgb, target.detach(), mask, float(ssim_weight), taps, C1, C2)
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
    if mask is None:
        return (1.0 - ssim_weight) * (rgb - target).abs().mean() + ssim_weight * (1.0 - _ssim_map(rgb, target).mean())
    used = mask[..., None].to(rgb.dtype)
    count = 3.0 * used.sum().clamp(min=1.0)
    x, y = rgb * used, target * used
    l1 = (x - y).abs().sum() / count
    similarity = (_ssim_map(x, y) * used).sum() / count
    return (1.0 - ssim_weight) * l1 + ssim_weight * (used.amax() - similarity)


def _ssim_map(x: Tensor, y: Tensor) -> Tensor:
    """SSIM at every pixel and channel, (H, W, 3)."""
    planes = torch.cat([plane.permute(2, 0, 1) for plane in (x, y, x * x + y * y, x * y)])
    mean_x, mean_y, square, product = _window_average(planes).split(3)
    both = mean_x * mean_y
    squares = mean_x**2 + mean_y**2
    similarity = (2 * both + C1) * (2 * (product - both) + C2) / ((squares + C1) * (square - squares + C2))
    return similarity.permute(1, 2, 0)


def _window_average(planes: Tensor) -> Tensor:
    """The Gaussian window average of (N, H, W), zeros beyond the edge; plane by plane, which GPUs have kernels for."""
    count = len(planes)
    taps = _taps(str(planes.device), planes.dtype).expand(count, 1, 1, WINDOW)
    across = conv2d(planes[None], taps, padding=(0, WINDOW // 2), groups=count)
    return conv2d(across, taps.transpose(2, 3), padding=(WINDOW // 2, 0), groups=count)[0]


@lru_cache(maxsize=1)
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


@lru_cache(maxsize=8)
def _taps(device: str, dtype: torch.dtype) -> Tensor:
    """(WINDOW,), the weights of the window, which sum to one."""
    at = torch.arange(WINDOW, dtype=torch.float64) - WINDOW // 2
    taps = torch.exp(-((at / SIGMA) ** 2) / 2.0)
    return (taps / taps.sum()).to(device=device, dtype=dtype)


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
