"""Where a network runs when nobody says: CUDA where there is one."""

from __future__ import annotations


def resolved(device: str) -> str:
    """The device itself, or for "auto" cuda where torch can use one, else cpu."""
    if device != "auto":
        return device
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
