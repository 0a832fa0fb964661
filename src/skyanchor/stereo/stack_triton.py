"""What the Triton kernels of sweep and PatchMatch share: the photos on the device, samples, the lowest costs."""
# mypy: disable-error-code="no-untyped-def, assignment"

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import triton  # type: ignore[import-not-found]  # comes with torch for CUDA
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

from skyanchor.stereo.planes import GreyStack
from skyanchor.types import Floats32

UNSEEN = tl.constexpr(2.0)


@dataclass(frozen=True, eq=False)
class Stack:
    """A `GreyStack` on the device."""

    reference: Tensor
    """(H, W)."""
    sources: Tensor
    """(S, H, W)."""
    sizes: Tensor
    """(S, 2), width and height in use."""
    M: Tensor
    """(S, 3, 3)."""
    m: Tensor
    """(S, 3)."""


def uploaded(stack: GreyStack, device: str) -> Stack:
    """The photos and their warps as tensors."""
    return Stack(*(put(held, device) for held in (stack.reference, stack.sources, stack.sizes, stack.M, stack.m)))


def put(values: Floats32, device: str) -> Tensor:
    """The array as a tensor."""
    return torch.as_tensor(np.ascontiguousarray(values, dtype=np.float32), device=device)


@triton.jit
def bilinear(image, width, u, v, where):
    """Values of `image` at array coordinates (u right, v down), 0 <= u < W - 1, 0 <= v < H - 1; 0 elsewhere."""
    iu, iv = u.to(tl.int32), v.to(tl.int32)
    fu, fv = u - iu.to(tl.float32), v - iv.to(tl.float32)
    corner = image + iv * width + iu
    g0 = tl.load(corner, mask=where, other=0.0)
    g1 = tl.load(corner + 1, mask=where, other=0.0)
    g2 = tl.load(corner + width, mask=where, other=0.0)
    g3 = tl.load(corner + width + 1, mask=where, other=0.0)
    top = g0 + fu * (g1 - g0)
    low = g2 + fu * (g3 - g2)
    return top + fv * (low - top)


@triton.jit
def lowest(keep: tl.constexpr, block: tl.constexpr):
    """The `keep` lowest costs of nothing: all `UNSEEN`."""
    low = ()
    for _ in tl.static_range(keep):
        low += (tl.full([block], UNSEEN, tl.float32),)
    return low


@triton.jit
def inserted(low, cost, keep: tl.constexpr):
    """The lowest costs with one more, in order."""
    out = ()
    for k in tl.static_range(keep):
        out += (tl.minimum(low[k], cost),)
        cost = tl.maximum(low[k], cost)
    return out


@triton.jit
def mean_of_lowest(low, keep: tl.constexpr, block: tl.constexpr):
    """Mean of those that were seen; 1 where none was."""
    total = tl.zeros([block], tl.float32)
    count = total
    for k in tl.static_range(keep):
        total += tl.where(low[k] < UNSEEN, low[k], 0.0)
        count += tl.where(low[k] < UNSEEN, 1.0, 0.0)
    return tl.where(count > 0.0, total / tl.maximum(count, 1.0), 1.0)
