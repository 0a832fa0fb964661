"""DINOv2 up to the attention of one block, straight from the published weights (torch.hub or Hugging Face names)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

PATCH = 14
HEAD = 64
"""Channels of one attention head, in every published size."""
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet, per channel, values in 0..1."""
FACETS = ("query", "key", "value")

State = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Dinov2:
    """A vision transformer as a function of its weights."""

    state: State
    """Tensors under the names that torch.hub's checkpoints use."""
    head: int = HEAD
    """Channels of one attention head."""

    @property
    def depth(self) -> int:
        """Number of blocks."""
        return 1 + max(int(name.split(".")[1]) for name in self.state if name.startswith("blocks."))

    @property
    def width(self) -> int:
        """Channels of a token."""
        return int(self.state["cls_token"].shape[-1])

    def facet(self, images: Any, layer: int, facet: str) -> Any:
        """(B, N, C), a facet of block `layer`'s attention for the N patches of normalised images (B, 3, H, W)."""
        tokens = embed(self.state, images)
        for k in range(layer):
            tokens = block(self.state, f"blocks.{k}.", tokens, self.head)
        joint = _linear(self.state, f"blocks.{layer}.attn.qkv", _norm(self.state, f"blocks.{layer}.norm1", tokens))
        part = FACETS.index(facet)
        return joint[:, 1:, part * self.width : (part + 1) * self.width]


def _linear(state: State, name: str, x: Any) -> Any:
    return functional.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])


def _norm(state: State, name: str, x: Any) -> Any:
    return functional.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"], eps=1e-6)


def embed(state: State, images: Any) -> Any:
    """(B, 1 + N, C), class token and patches with their positions."""
    rows, columns = images.shape[-2] // PATCH, images.shape[-1] // PATCH
    weight, bias = state["patch_embed.proj.weight"], state["patch_embed.proj.bias"]
    patches = functional.conv2d(images, weight, bias, stride=PATCH).flatten(2).transpose(1, 2)
    first = state["cls_token"].expand(len(images), -1, -1)
    return torch.cat([first, patches], dim=1) + positions(state["pos_embed"], rows, columns)


def positions(held: Any, rows: int, columns: int) -> Any:
    """(1, 1 + rows columns, C), the square grid of positions (1, 1 + S², C) resampled as its authors do."""
    side = math.isqrt(held.shape[1] - 1)
    if side == rows == columns:
        return held
    grid = held[:, 1:].float().reshape(1, side, side, -1).permute(0, 3, 1, 2)
    # the authors add 0.1 to guard against rounding, which shifts the samples: kept, since the network learnt with it
    factor = ((rows + 0.1) / side, (columns + 0.1) / side)
    grid = functional.interpolate(grid, scale_factor=factor, mode="bicubic")
    return torch.cat([held[:, :1], grid.permute(0, 2, 3, 1).reshape(1, rows * columns, -1).to(held.dtype)], dim=1)


def block(state: State, prefix: str, x: Any, head: int) -> Any:
    """x + γ₁ attention(norm₁ x), then + γ₂ mlp(norm₂ ·), (B, N, C)."""
    x = x + state[f"{prefix}ls1.gamma"] * attention(state, prefix, _norm(state, f"{prefix}norm1", x), head)
    return x + state[f"{prefix}ls2.gamma"] * mlp(state, prefix, _norm(state, f"{prefix}norm2", x))


def attention(state: State, prefix: str, x: Any, head: int) -> Any:
    """Multi-head self-attention, (B, N, C)."""
    batch, count, channels = x.shape
    joint = _linear(state, f"{prefix}attn.qkv", x).reshape(batch, count, 3, channels // head, head)
    query, key, value = joint.permute(2, 0, 3, 1, 4)
    mixed = functional.scaled_dot_product_attention(query, key, value)
    return _linear(state, f"{prefix}attn.proj", mixed.transpose(1, 2).reshape(batch, count, channels))


def mlp(state: State, prefix: str, x: Any) -> Any:
    """Two layers with GELU, or SwiGLU where the weights are of that kind (ViT-G)."""
    if f"{prefix}mlp.w12.weight" in state:
        gate, held = _linear(state, f"{prefix}mlp.w12", x).chunk(2, dim=-1)
        return _linear(state, f"{prefix}mlp.w3", functional.silu(gate) * held)
    return _linear(state, f"{prefix}mlp.fc2", functional.gelu(_linear(state, f"{prefix}mlp.fc1", x)))


# --- names --------------------------------------------------------------------------------------------------------

RENAMED = (
    ("embeddings.cls_token", "cls_token"),
    ("embeddings.position_embeddings", "pos_embed"),
    ("embeddings.patch_embeddings.projection", "patch_embed.proj"),
    ("encoder.layer.", "blocks."),
    ("attention.output.dense", "attn.proj"),
    ("layer_scale1.lambda1", "ls1.gamma"),
    ("layer_scale2.lambda1", "ls2.gamma"),
    ("mlp.weights_in", "mlp.w12"),
    ("mlp.weights_out", "mlp.w3"),
)
"""Hugging Face's name of a part, and torch.hub's."""


def hub_names(state: State) -> dict[str, Any]:
    """The weights under torch.hub's names, whichever of the two they came with."""
    if "cls_token" in state:
        return dict(state)
    renamed: dict[str, Any] = {}
    for name, tensor in state.items():
        name = name.removeprefix("dinov2.")
        for theirs, ours in RENAMED:
            name = name.replace(theirs, ours)
        renamed[name] = tensor
    for query in [name for name in renamed if ".attention.attention.query." in name]:
        parts = [renamed.pop(query.replace(".query.", f".{facet}.")) for facet in FACETS]
        renamed[query.replace(".attention.attention.query.", ".attn.qkv.")] = torch.cat(parts)
    return renamed
