"""RoMa and RoMa v2 through the packages `romatch` and `romav2`; weights from files, never downloaded from here."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from skyanchor.backends import weights
from skyanchor.backends.checkpoints import checked, other_architecture, read_state, without_downloads
from skyanchor.backends.packages import imported
from skyanchor.errors import BackendError
from skyanchor.matching.choices import ROMATCH, ROMAV2, Roma
from skyanchor.matching.dense import SIGMA, Crops, DenseMatcher
from skyanchor.types import Bytes, Floats, Matches

SIDE = 864
"""Resolution of RoMa's last refinement, pixels."""
SIDE_V2 = 1280
"""Resolution of RoMa v2's last refinement ("precise"), pixels."""


def check(choice: Roma) -> None:
    """BackendError where the network could not be made: its weights are read, its package imported."""
    if choice.version == 2:
        checked(weights.ROMA_V2, choice.weights)
        imported(ROMAV2)
    else:
        checked(weights.ROMA, choice.weights)
        checked(weights.DINOV2_L, choice.encoder)
        imported(ROMATCH)


def load(choice: Roma, device: str) -> DenseMatcher:
    """The matcher of a choice."""
    network: RomaNetwork | RomaV2Network
    if choice.version == 2:
        network = RomaV2Network(load_v2(weights.resolve(weights.ROMA_V2, choice.weights), device))
    else:
        paths = weights.resolve(weights.ROMA, choice.weights), weights.resolve(weights.DINOV2_L, choice.encoder)
        network = RomaNetwork(load_v1(*paths, device), device)
    crops = Crops(choice.crops)
    return DenseMatcher(network, f"roma {choice.version}", choice.keypoints, choice.longest, crops)


@lru_cache(maxsize=1)
def load_v1(path: Path, encoder: Path, device: str) -> Any:
    """RoMa's network."""
    start = imported(ROMATCH).roma_outdoor
    half = torch.float16 if device.startswith("cuda") else torch.float32
    states = {"weights": read_state(path), "dinov2_weights": read_state(encoder)}
    try:
        with without_downloads({}):
            network = start(device=device, amp_dtype=half, upsample_res=SIDE, use_custom_corr=False, **states)
    except RuntimeError as error:
        raise BackendError(other_architecture(path, f"RoMa, or {encoder.name} than DINOv2 ViT-L", error)) from error
    return network.eval()


@lru_cache(maxsize=1)
def load_v2(path: Path, device: str) -> Any:
    """RoMa v2's network."""
    start = imported(ROMAV2).RoMaV2
    try:
        with without_downloads({weights.ROMA_V2.files[0]: path}):
            network = start()
    except RuntimeError as error:
        raise BackendError(other_architecture(path, "RoMa v2", error)) from error
    return network.eval().to(device)


class RomaNetwork:
    """Pair network of RoMa."""

    side = SIDE

    def __init__(self, network: Any, device: str) -> None:
        self.network = network
        self.device = device

    def match_pixels(self, a: Bytes, b: Bytes) -> Matches:
        """Where every pixel of the working resolution goes, both ways; the score is the certainty, 0..1."""
        with torch.inference_mode():
            warp, certainty = self.network.match(Image.fromarray(a), Image.fromarray(b), device=self.device)
        return warped(warp.reshape(-1, 4).float(), certainty.reshape(-1).float(), a, b, self.side)


class RomaV2Network:
    """Pair network of RoMa v2."""

    side = SIDE_V2

    def __init__(self, network: Any) -> None:
        self.network = network

    def match_pixels(self, a: Bytes, b: Bytes) -> Matches:
        """Where every pixel of the working resolution goes, both ways; the score is the overlap, 0..1."""
        with torch.inference_mode():
            found = self.network.match(a, b)
        parts, scores = [], []
        for way in ("AB", "BA"):
            if found[f"warp_{way}"] is not None:
                there = found[f"warp_{way}"][0].float()
                here = centres(there.shape[0], there.shape[1], there.device)
                parts.append(torch.cat([here, there] if way == "AB" else [there, here], dim=-1).reshape(-1, 4))
                scores.append(found[f"overlap_{way}"][0].float().reshape(-1))
        return warped(torch.cat(parts), torch.cat(scores), a, b, self.side)


def centres(height: int, width: int, device: Any) -> Any:
    """(H, W, 2), pixel centres with the image spanning -1..1."""
    y = (torch.arange(height, device=device) + 0.5) / height * 2 - 1
    x = (torch.arange(width, device=device) + 0.5) / width * 2 - 1
    return torch.stack(torch.meshgrid(x, y, indexing="xy"), dim=-1)


def warped(pairs: Any, score: Any, a: Bytes, b: Bytes, side: int) -> Matches:
    """Pairs (N, 4) of positions in -1..1 as matches in pixels: x = (u + 1) / 2 W; what leaves an image is dropped."""
    inside = (pairs.abs() < 1).all(dim=1) & (score > 0.05)
    held: Floats = pairs[inside].cpu().numpy().astype(np.float64)
    sizes = [np.array([pixels.shape[1], pixels.shape[0]], float) for pixels in (a, b)]
    xy_a, xy_b = (held[:, 2 * k : 2 * k + 2] / 2.0 * sizes[k] + sizes[k] / 2.0 for k in (0, 1))
    sigma = SIGMA * max(1.0, max(*a.shape[:2], *b.shape[:2]) / side)
    return Matches(xy_a, xy_b, score[inside].cpu().numpy().astype(np.float64), sigma)
