"""The plane sweep of sweep_kernels.py as Triton kernels: matching costs, semi-global aggregation, best plane.

Formulas are those of the Numba kernels. Sums of a window are taken relative to its centre, in single precision, where
Numba sums in double: costs differ by one of 255 where they lie at the edge of a step, and hardly ever by more.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found]  # comes with torch for CUDA
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

from skyanchor.stereo.stack_triton import UNSEEN, Stack, bilinear, inserted, lowest, mean_of_lowest

OUTSIDE = tl.constexpr(-1.0)
FAR = tl.constexpr(1 << 14)
"""Above every path cost, and small enough to be added to in 16 bits."""
PIXELS = 128
"""Pixels that one program works on."""
WARPED_BYTES = 512 << 20
"""Most memory for warped sources; as many planes as fit are done at a time."""
PATHS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1))


@triton.jit(do_not_specialize=["first"])
def _warp(
    sources, sizes, M, m, tilt, u_planes, out, first, height, width, source_height, source_width, block: tl.constexpr
):
    """Source pixels seen through each plane 1/z(p) = u tilt . p, (planes, S, H, W); `OUTSIDE` where it leaves them."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    plane, s = tl.program_id(1), tl.program_id(2)
    inside = at < height * width
    px, py = (at % width).to(tl.float32) + 0.5, (at // width).to(tl.float32) + 0.5
    w = tl.load(u_planes + first + plane) * (tl.load(tilt) * px + tl.load(tilt + 1) * py + tl.load(tilt + 2))
    M += 9 * s
    m += 3 * s
    q2 = tl.load(M + 6) * px + tl.load(M + 7) * py + tl.load(M + 8) + w * tl.load(m + 2)
    seen = inside & (w > 0.0) & (q2 > 0.0)
    q2 = tl.where(seen, q2, 1.0)
    u = (tl.load(M) * px + tl.load(M + 1) * py + tl.load(M + 2) + w * tl.load(m)) / q2 - 0.5
    v = (tl.load(M + 3) * px + tl.load(M + 4) * py + tl.load(M + 5) + w * tl.load(m + 1)) / q2 - 0.5
    right, bottom = tl.load(sizes + 2 * s) - 1.001, tl.load(sizes + 2 * s + 1) - 1.001
    seen = seen & (u >= 0.0) & (v >= 0.0) & (u < right) & (v < bottom)
    value = bilinear(sources + s * source_height * source_width, source_width, u, v, seen)
    place = (plane * tl.num_programs(2) + s) * height * width
    tl.store(out + place + at, tl.where(seen, value, OUTSIDE), mask=inside)


@triton.jit
def _zncc_cost(reference, warped, x, y, height, width, inside, eps, radius: tl.constexpr, block: tl.constexpr):
    """1 - ZNCC over (2 radius + 1)² windows, 0..1, `UNSEEN` where the plane leaves the source."""
    own = tl.load(reference + y * width + x, mask=inside, other=0.0)
    centre = tl.load(warped + y * width + x, mask=inside, other=OUTSIDE)
    s0 = tl.zeros([block], tl.float32)
    s1, s2, s3, s4, s5 = s0, s0, s0, s0, s0
    for dy in range(-radius, radius + 1):
        row = y + dy
        for dx in tl.static_range(-radius, radius + 1):
            column = x + dx
            fits = inside & (row >= 0) & (row < height) & (column >= 0) & (column < width)
            b = tl.load(warped + row * width + column, mask=fits, other=OUTSIDE)
            a = tl.load(reference + row * width + column, mask=fits, other=0.0)
            use = b >= 0.0
            a = tl.where(use, a - own, 0.0)
            b = tl.where(use, b - centre, 0.0)
            s0 += tl.where(use, 1.0, 0.0)
            s1 += a
            s2 += b
            s3 += a * a
            s4 += b * b
            s5 += a * b
    n = tl.maximum(s0, 1.0)
    ma, mb = s1 / n, s2 / n
    va, vb = tl.maximum(s3 / n - ma * ma, 0.0), tl.maximum(s4 / n - mb * mb, 0.0)
    zncc = (s5 / n - ma * mb) / tl.sqrt((va + eps) * (vb + eps))
    cost = tl.minimum(tl.maximum(1.0 - zncc, 0.0), 1.0)
    return tl.where((centre >= 0.0) & (s0 > 3.5), cost, UNSEEN)


@triton.jit(do_not_specialize=["first", "planes", "count"])
def _costs(
    reference, warped, volume, first, planes, count, height, width, eps,
    keep: tl.constexpr, radius: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Matching cost uint8 of every pixel on the planes that were warped: mean over the best `keep` of the sources."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    plane = tl.program_id(1)
    inside = at < height * width
    x, y = at % width, at // width
    warped += plane * count * height * width
    low = lowest(keep, block)
    for _ in range(count):
        low = inserted(low, _zncc_cost(reference, warped, x, y, height, width, inside, eps, radius, block), keep)
        warped += height * width
    cost = (mean_of_lowest(low, keep, block) * 255.0).to(tl.uint8)
    tl.store(volume + at.to(tl.int64) * planes + first + plane, cost, mask=inside)


@triton.jit(do_not_specialize=["planes", "dx", "dy", "p1"])
def _follow(volume, jumps, total, planes, height, width, dx, dy, p1, padded: tl.constexpr):
    """Add the path cost along one line of pixels: cost + min(before, neighbours + p1, min + jump) - min."""
    line = tl.program_id(0)
    rows = tl.where(dx != 0, height, 0)
    first_x, first_y = tl.where(dx > 0, 0, width - 1), tl.where(dy > 0, 0, height - 1)
    x, y = tl.where(line < rows, first_x, line - rows), tl.where(line < rows, line, first_y)
    along_x = tl.where(dx > 0, width - x, tl.where(dx < 0, x + 1, width + height))
    along_y = tl.where(dy > 0, height - y, tl.where(dy < 0, y + 1, width + height))
    again = (line >= rows) & (dx != 0) & (x == first_x)
    steps = tl.where(again, 0, tl.minimum(along_x, along_y))
    d = tl.arange(0, padded)
    real = d < planes
    below, above = tl.maximum(d - 1, 0), tl.minimum(d + 1, padded - 1)
    before = tl.where(real, 0, FAR)
    at = y * width + x
    step = dy * width + dx
    cost = tl.load(volume + at.to(tl.int64) * planes + d, mask=real & (steps > 0), other=0)
    for i in range(steps):
        place = at.to(tl.int64) * planes + d
        ahead = tl.load(volume + place + step.to(tl.int64) * planes, mask=real & (i + 1 < steps), other=0)
        added = tl.load(total + place, mask=real, other=0)
        jump = tl.load(jumps + at)
        low = tl.min(before, axis=0)
        one_less = tl.where(d == 0, FAR, tl.gather(before, below, 0))
        one_more = tl.where(d == padded - 1, FAR, tl.gather(before, above, 0))
        best = tl.minimum(tl.minimum(before, tl.minimum(one_less, one_more) + p1), low + jump)
        before = tl.where(real, cost.to(tl.int32) + best - low, FAR)
        tl.store(total + place, added + before.to(tl.int16), mask=real)
        cost = ahead
        at += step


@triton.jit(do_not_specialize=["planes"])
def _best(total, u_planes, out, planes, pixels, step, padded: tl.constexpr, block: tl.constexpr):
    """Per pixel 1/distance of the best plane, refined by a parabola through its neighbours."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < pixels
    d = tl.arange(0, padded)
    place = at.to(tl.int64) * planes
    all_of_it = tl.load(
        total + place[:, None] + d[None, :], mask=inside[:, None] & (d < planes)[None, :], other=FAR
    ).to(tl.int32)
    k = tl.argmin(all_of_it, axis=1)
    inner = inside & (k > 0) & (k < planes - 1)
    left = tl.load(total + place + k - 1, mask=inner, other=0).to(tl.float32)
    middle = tl.load(total + place + k, mask=inner, other=0).to(tl.float32)
    right = tl.load(total + place + k + 1, mask=inner, other=0).to(tl.float32)
    bend = left + right - 2.0 * middle
    shift = tl.where(bend > 0.0, 0.5 * (left - right) / tl.maximum(bend, 1.0), 0.0)
    tl.store(out + at, tl.load(u_planes + k, mask=inside, other=0.0) + shift * step, mask=inside)


def sweep_costs(stack: Stack, tilt: Tensor, u_planes: Tensor, radius: int, noise: float, keep: int) -> Tensor:
    """Matching cost (H, W, D) uint8 of every pixel on every plane: mean over the best `keep` of the sources."""
    height, width = stack.reference.shape
    count, source_height, source_width = stack.sources.shape
    planes, blocks = len(u_planes), triton.cdiv(height * width, PIXELS)
    volume = torch.empty((height, width, planes), dtype=torch.uint8, device=tilt.device)
    most = max(1, WARPED_BYTES // (4 * count * height * width))
    warped = torch.empty((min(most, planes), count, height, width), device=tilt.device)
    for first in range(0, planes, most):
        some = min(most, planes - first)
        _warp[(blocks, some, count)](
            stack.sources, stack.sizes, stack.M, stack.m, tilt, u_planes, warped,
            first, height, width, source_height, source_width, PIXELS,
        )  # fmt: skip
        _costs[(blocks, some)](
            stack.reference, warped, volume, first, planes, count, height, width, noise * noise, keep, radius, PIXELS
        )
    return volume


def aggregate(volume: Tensor, reference: Tensor, p1: int, p2: int, contrast: float) -> Tensor:
    """Semi-global aggregation over eight paths, (H, W, D) int16."""
    height, width, planes = volume.shape
    total = torch.zeros(volume.shape, dtype=torch.int16, device=volume.device)
    for dx, dy in PATHS:
        lines = (height if dx else 0) + (width if dy else 0)
        jumps = _jumps(reference, dx, dy, p1, p2, contrast)
        padded = triton.next_power_of_2(planes)
        _follow[(lines,)](volume, jumps, total, planes, height, width, dx, dy, p1, padded, num_warps=1)
    return total


def _jumps(reference: Tensor, dx: int, dy: int, p1: int, p2: int, contrast: float) -> Tensor:
    """Penalty (H, W) int32 of a jump on the way from the pixel before: lower across an edge."""
    before = torch.roll(reference, (dy, dx), (0, 1))
    return (p2 / (1.0 + (reference - before).abs().double() / contrast)).int().clamp(min=p1 + 1)


def best_planes(total: Tensor, u_planes: Tensor) -> Tensor:
    """Per pixel 1/distance of the best plane, (H, W) float32."""
    height, width, planes = total.shape
    best = torch.empty((height, width), device=total.device)
    step = float(u_planes[-1] - u_planes[0]) / (planes - 1)
    padded, block = triton.next_power_of_2(planes), 16
    _best[(triton.cdiv(height * width, block),)](total, u_planes, best, planes, height * width, step, padded, block)
    return best
