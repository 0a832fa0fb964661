"""Deformable convolution in plain torch, for machines whose torch comes without torchvision."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch.nn import functional


def deform_conv2d(
    input: Any, offset: Any, weight: Any, bias: Any = None, stride: int = 1, padding: Any = 0, mask: Any = None
) -> Any:
    """(B, O, H', W'), y(p) = Σ_k w_k x(p + k + Δ_k(p)), bilinear between pixels and zero outside.

    input (B, C, H, W); offset (B, 2 K, H', W') as (Δy, Δx) per kernel cell; weight (O, C, kh, kw); mask (B, K, H', W').
    """
    batch, _, height, width = input.shape
    rows, columns = weight.shape[2:]
    pad = padding if isinstance(padding, int) else padding[0]
    out_height, out_width = offset.shape[-2:]
    shifts = offset.view(batch, rows * columns, 2, out_height, out_width)
    y = torch.arange(out_height, device=input.device)[:, None] * stride - pad
    x = torch.arange(out_width, device=input.device)[None, :] * stride - pad
    total = torch.zeros(batch, weight.shape[0], out_height, out_width, device=input.device)
    for k in range(rows * columns):
        i, j = divmod(k, columns)
        at_x = (x + j + shifts[:, k, 1] + 0.5) / width * 2.0 - 1.0
        at_y = (y + i + shifts[:, k, 0] + 0.5) / height * 2.0 - 1.0
        sampled = functional.grid_sample(input, torch.stack([at_x, at_y], dim=-1), align_corners=False)
        if mask is not None:
            sampled = sampled * mask[:, k : k + 1]
        total += torch.einsum("oc,bchw->bohw", weight[:, :, i, j], sampled)
    return total if bias is None else total + bias.view(1, -1, 1, 1)


def _conv3x3(channels: int, out: int) -> Any:
    return torch.nn.Conv2d(channels, out, 3, padding=1, bias=False)


def _conv1x1(channels: int, out: int) -> Any:
    return torch.nn.Conv2d(channels, out, 1, bias=False)


@contextmanager
def torchvision_stand_in() -> Iterator[None]:
    """While inside, `import torchvision` gives the few functions that ALIKED uses, unless the real one is there."""
    if find_spec("torchvision") is not None:
        yield
        return
    parts = {name: ModuleType(name) for name in ("torchvision", "torchvision.ops", "torchvision.models")}
    resnet = ModuleType("torchvision.models.resnet")
    parts["torchvision.models.resnet"] = resnet
    for name, module in parts.items():
        module.__spec__ = ModuleSpec(name, None)
    parts["torchvision"].__dict__.update(ops=parts["torchvision.ops"], models=parts["torchvision.models"])
    parts["torchvision.ops"].__dict__.update(deform_conv2d=deform_conv2d)
    parts["torchvision.models"].__dict__.update(resnet=resnet)
    resnet.__dict__.update(conv3x3=_conv3x3, conv1x1=_conv1x1)
    sys.modules.update(parts)
    try:
        yield
    finally:
        for name in parts:
            sys.modules.pop(name, None)
