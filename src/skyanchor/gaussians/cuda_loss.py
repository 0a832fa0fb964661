"""L1 + SSIM and its gradient on a GPU in four Triton kernels, where convolutions take as long as the rasteriser.

Images are rows of 3 W interleaved values: the window steps by three along a row. With the window average W[.],
m_x = W[x], m_y = W[y], s = W[x² + y²], p = W[x y],
A1 = 2 m_x m_y + C1, A2 = 2 (p - m_x m_y) + C2, B1 = m_x² + m_y² + C1, B2 = s - m_x² - m_y² + C2,
SSIM = A1 A2 / (B1 B2), and since the window is symmetric, dΣSSIM/dx = W[dSSIM/dm_x] + 2 x W[dSSIM/ds] + y W[dSSIM/dp].
"""

from __future__ import annotations

from typing import Any

import torch
import triton  # type: ignore[import-not-found]  # comes with torch for CUDA
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

BLOCK = 512
"""Values of a row that one program works on."""


@triton.jit
def _pixel(image, used, row, column, width, fits, has_mask: tl.constexpr):  # type: ignore[no-untyped-def]
    """Values of one row, zero outside the image and outside the mask."""
    value = tl.load(image + row * width + column, mask=fits, other=0.0)
    if has_mask:
        value *= tl.load(used + (row * width + column) // 3, mask=fits, other=0).to(tl.float32)
    return value


@triton.jit
def _moments_along_rows(  # type: ignore[no-untyped-def]
    x, y, used, taps, out, height, width, has_mask: tl.constexpr, window: tl.constexpr, block: tl.constexpr
):
    """Σ_k w_k (x, y, x² + y², x y) along the row, four planes."""
    row = tl.program_id(0)
    column = tl.program_id(1) * block + tl.arange(0, block)
    sum_x = tl.zeros([block], tl.float32)
    sum_y, sum_s, sum_p = sum_x, sum_x, sum_x
    for k in tl.static_range(window):
        at = column + 3 * (k - window // 2)
        fits = (at >= 0) & (at < width)
        a = _pixel(x, used, row, at, width, fits, has_mask)
        b = _pixel(y, used, row, at, width, fits, has_mask)
        weight = tl.load(taps + k)
        sum_x += weight * a
        sum_y += weight * b
        sum_s += weight * (a * a + b * b)
        sum_p += weight * a * b
    plane = height * width
    place, fits = out + row * width + column, column < width
    tl.store(place, sum_x, mask=fits)
    tl.store(place + plane, sum_y, mask=fits)
    tl.store(place + 2 * plane, sum_s, mask=fits)
    tl.store(place + 3 * plane, sum_p, mask=fits)


@triton.jit
def _slopes(  # type: ignore[no-untyped-def]
    x, y, used, taps, moments, out, sums, height, width, c1, c2,
    has_mask: tl.constexpr, window: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """The other half of the window, then SSIM's slopes along m_x, s and p, and the sums of |x - y| and SSIM."""
    row = tl.program_id(0)
    column = tl.program_id(1) * block + tl.arange(0, block)
    inside = column < width
    plane = height * width
    mean_x = tl.zeros([block], tl.float32)
    mean_y, s, p = mean_x, mean_x, mean_x
    for k in tl.static_range(window):
        other = row + k - window // 2
        fits = inside & (other >= 0) & (other < height)
        weight = tl.load(taps + k)
        place = moments + other * width + column
        mean_x += weight * tl.load(place, mask=fits, other=0.0)
        mean_y += weight * tl.load(place + plane, mask=fits, other=0.0)
        s += weight * tl.load(place + 2 * plane, mask=fits, other=0.0)
        p += weight * tl.load(place + 3 * plane, mask=fits, other=0.0)
    a1, a2 = 2 * mean_x * mean_y + c1, 2 * (p - mean_x * mean_y) + c2
    b1, b2 = mean_x * mean_x + mean_y * mean_y + c1, s - mean_x * mean_x - mean_y * mean_y + c2
    ssim = a1 * a2 / (b1 * b2)
    use = inside.to(tl.float32)
    if has_mask:
        use *= tl.load(used + (row * width + column) // 3, mask=inside, other=0).to(tl.float32)
    along_mean = 2 * mean_y * (a2 - a1) / (b1 * b2) + 2 * mean_x * ssim * (1 / b2 - 1 / b1)
    place = out + row * width + column
    tl.store(place, use * along_mean, mask=inside)
    tl.store(place + plane, -use * ssim / b2, mask=inside)
    tl.store(place + 2 * plane, use * 2 * a1 / (b1 * b2), mask=inside)
    a = tl.load(x + row * width + column, mask=inside, other=0.0)
    b = tl.load(y + row * width + column, mask=inside, other=0.0)
    part = 2 * (row * tl.num_programs(1) + tl.program_id(1))
    tl.store(sums + part, tl.sum(use * tl.abs(a - b), axis=0))
    tl.store(sums + part + 1, tl.sum(use * ssim, axis=0))


@triton.jit
def _slopes_along_columns(  # type: ignore[no-untyped-def]
    slopes, taps, out, height, width, window: tl.constexpr, block: tl.constexpr
):
    """Σ_k w_k of the three slopes down the column."""
    row = tl.program_id(0)
    column = tl.program_id(1) * block + tl.arange(0, block)
    inside = column < width
    plane = height * width
    first = tl.zeros([block], tl.float32)
    second, third = first, first
    for k in tl.static_range(window):
        other = row + k - window // 2
        fits = inside & (other >= 0) & (other < height)
        weight = tl.load(taps + k)
        place = slopes + other * width + column
        first += weight * tl.load(place, mask=fits, other=0.0)
        second += weight * tl.load(place + plane, mask=fits, other=0.0)
        third += weight * tl.load(place + 2 * plane, mask=fits, other=0.0)
    place = out + row * width + column
    tl.store(place, first, mask=inside)
    tl.store(place + plane, second, mask=inside)
    tl.store(place + 2 * plane, third, mask=inside)


@triton.jit
def _gradient(  # type: ignore[no-untyped-def]
    x, y, used, taps, slopes, scale, out, height, width, ssim_weight,
    has_mask: tl.constexpr, window: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """The slopes along the row and, with them, d loss / dx."""
    row = tl.program_id(0)
    column = tl.program_id(1) * block + tl.arange(0, block)
    inside = column < width
    plane = height * width
    first = tl.zeros([block], tl.float32)
    second, third = first, first
    for k in tl.static_range(window):
        at = column + 3 * (k - window // 2)
        fits = (at >= 0) & (at < width)
        weight = tl.load(taps + k)
        place = slopes + row * width + at
        first += weight * tl.load(place, mask=fits, other=0.0)
        second += weight * tl.load(place + plane, mask=fits, other=0.0)
        third += weight * tl.load(place + 2 * plane, mask=fits, other=0.0)
    a = _pixel(x, used, row, column, width, inside, has_mask)
    b = _pixel(y, used, row, column, width, inside, has_mask)
    sign = tl.where(a > b, 1.0, tl.where(a < b, -1.0, 0.0))
    value = (1.0 - ssim_weight) * sign - ssim_weight * (first + 2 * a * second + b * third)
    if has_mask:
        value *= tl.load(used + (row * width + column) // 3, mask=inside, other=0).to(tl.float32)
    tl.store(out + row * width + column, value * tl.load(scale), mask=inside)


class TritonLoss(torch.autograd.Function):  # type: ignore[misc]  # torch is untyped here
    """Value and gradient in one go; the backward pass only scales."""

    @staticmethod
    def forward(
        ctx: Any,
        rgb: Tensor,
        target: Tensor,
        mask: Tensor | None,
        ssim_weight: float,
        taps: Tensor,
        c1: float,
        c2: float,
    ) -> Tensor:
        """(1 - λ) L1 + λ (1 - SSIM) of (H, W, 3) float32 images, averaged over the pixels of `mask`."""
        x, y = rgb.detach().contiguous(), target.contiguous()
        height, width = x.shape[0], 3 * x.shape[1]
        has_mask = mask is not None
        used = x if mask is None else mask.contiguous().to(torch.uint8)
        pixels = x.new_full((), float(x.shape[0] * x.shape[1])) if mask is None else used.sum(dtype=torch.float32)
        scale = 1.0 / (3.0 * pixels.clamp(min=1.0))
        window, grid = len(taps), (height, triton.cdiv(width, BLOCK))
        moments, slopes = x.new_empty(4, height, width), x.new_empty(3, height, width)
        sums = x.new_empty(grid[0] * grid[1], 2)
        _moments_along_rows[grid](x, y, used, taps, moments, height, width, has_mask, window, BLOCK)
        _slopes[grid](x, y, used, taps, moments, slopes, sums, height, width, c1, c2, has_mask, window, BLOCK)
        l1, ssim = (sums.sum(dim=0) * scale).unbind()
        if ctx.needs_input_grad[0]:
            halfway, ctx.gradient = moments[:3], torch.empty_like(x)
            _slopes_along_columns[grid](slopes, taps, halfway, height, width, window, BLOCK)
            _gradient[grid](
                x, y, used, taps, halfway, scale, ctx.gradient, height, width, ssim_weight, has_mask, window, BLOCK
            )
        return (1.0 - ssim_weight) * l1 + ssim_weight * (pixels.clamp(max=1.0) - ssim)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The kept gradient times the one above."""
        return ctx.gradient * grads[0], None, None, None, None, None, None
