"""AnyLoc: one facet of DINOv2's attention per patch, summed up by VLAD over cosine clusters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from skyanchor.backends import weights
from skyanchor.backends.checkpoints import read_state, read_tensor
from skyanchor.errors import BackendError
from skyanchor.matching.dinov2 import MEAN, PATCH, STD, Dinov2, hub_names
from skyanchor.matching.features import shrunk
from skyanchor.matching.global_descriptors import AnyLoc
from skyanchor.matching.retrieval import even_sample, fit_vocabulary
from skyanchor.types import Floats32, Photo

PUBLISHED_LAYER, PUBLISHED_DEPTH = 31, 40


def load(choice: AnyLoc, device: str, scene: Sequence[Photo]) -> AnyLocDescriptor:
    """The descriptor of a choice."""
    patches = facets(choice, device)
    if choice.published is not None:
        return AnyLocDescriptor(patches, published_centres(choice, patches))
    if not len(scene):
        raise BackendError("AnyLoc cannot fit a vocabulary without photos. Give the scene's, or a published one")
    found = even_sample((patches.describe(photo) for photo in scene), len(scene))
    return AnyLocDescriptor(patches, fit_vocabulary(found, choice.centres).centres)


def check(choice: AnyLoc) -> None:
    """BackendError where weights or centres are missing, or do not belong together."""
    patches = facets(choice, "cpu")
    if choice.published is not None:
        published_centres(choice, patches)


def facets(choice: AnyLoc, device: str) -> PatchFacets:
    """What describes patches."""
    return PatchFacets(load_network(weights.resolve(choice.checkpoint, choice.weights), device), choice, device)


@lru_cache(maxsize=1)
def load_network(path: Path, device: str) -> Dinov2:
    """DINOv2 from a checkpoint, on a device."""
    state = hub_names(read_state(path))
    if not state.keys() >= {"cls_token", "pos_embed", "blocks.0.attn.qkv.weight", "blocks.0.ls1.gamma"}:
        raise BackendError(f"{path} is no DINOv2 checkpoint. Give dinov2_vit*14_pretrain.pth")
    if "register_tokens" in state or "embeddings.register_tokens" in state:
        raise BackendError(f"{path} is a DINOv2 with registers. Give the one without: dinov2_vit*14_pretrain.pth")
    return Dinov2({name: tensor.to(device) for name, tensor in state.items()})


def published_centres(choice: AnyLoc, patches: PatchFacets) -> Floats32:
    """(32, 1536), the centres that AnyLoc's authors publish for ViT-G, layer 31, value."""
    if choice.published is None or (choice.size, patches.layer, choice.facet) != ("g", PUBLISHED_LAYER, "value"):
        raise BackendError("AnyLoc's centres are published for ViT-G, layer 31, value. Use a vocabulary of the scene")
    centres = read_tensor(weights.resolve(choice.published, choice.centres_file))
    if centres.shape[1:] != (patches.network.width,):
        width, shape = patches.network.width, tuple(centres.shape)
        raise BackendError(f"DINOv2 has {width} channels here, the centres {shape}. Give ViT-G's weights")
    return np.asarray(centres.float().numpy(), dtype=np.float32)


class PatchFacets:
    """Unit descriptors of the patches of a photo."""

    def __init__(self, network: Dinov2, choice: AnyLoc, device: str) -> None:
        self.network = network
        self.choice = choice
        self.device = device
        relative = PUBLISHED_LAYER * network.depth // PUBLISHED_DEPTH
        self.layer = relative if choice.layer is None else choice.layer
        if not 0 <= self.layer < network.depth:
            raise BackendError(f"This DINOv2 has {network.depth} blocks, there is no layer {self.layer}.")

    def describe(self, photo: Photo) -> Floats32:
        """(N, C), unit, of the patches whose centre is not masked; photos are cropped to whole patches."""
        pixels, mask, _ = shrunk(photo, self.choice.longest)
        top, height = cropped(pixels.shape[0])
        left, width = cropped(pixels.shape[1])
        image = normalised(pixels[top : top + height, left : left + width], self.device)
        with torch.inference_mode():
            found = self.network.facet(image, self.layer, self.choice.facet)[0]
            unit = torch.nn.functional.normalize(found, dim=-1).cpu().numpy().astype(np.float32)
        if mask is None:
            return unit
        half = PATCH // 2
        centres = mask[top + half : top + height : PATCH, left + half : left + width : PATCH]
        return np.asarray(unit[centres.ravel()])


def cropped(length: int) -> tuple[int, int]:
    """(first pixel, pixels) of the middle part of a side that holds whole patches."""
    kept = max(PATCH, length // PATCH * PATCH)
    return (length - kept) // 2, kept


def normalised(pixels: Any, device: str) -> Any:
    """(1, 3, H, W) of pixels (H, W, 3), less the mean and over the deviation of ImageNet."""
    values = torch.from_numpy(np.ascontiguousarray(pixels)).to(device).permute(2, 0, 1)[None].float() / 255.0
    mean, std = (torch.tensor(three, device=device).view(1, 3, 1, 1) for three in (MEAN, STD))
    return (values - mean) / std


class AnyLocDescriptor:
    """Global descriptor of `AnyLoc`."""

    def __init__(self, patches: PatchFacets, centres: Floats32) -> None:
        self.patches = patches
        self.centres = centres

    @property
    def key(self) -> str:
        """Name and settings."""
        choice = self.patches.choice
        return f"anyloc {choice.size} {self.patches.layer} {choice.facet} {choice.vocabulary} {len(self.centres)}"

    def describe(self, photo: Photo) -> Floats32:
        """(K C,), unit."""
        return cosine_vlad(self.patches.describe(photo), self.centres)


def cosine_vlad(descriptors: Floats32, centres: Floats32) -> Floats32:
    """(K C,), unit: residuals of descriptors (N, C) to the centre (K, C) of largest cosine, normalised per centre."""
    sums = np.zeros_like(centres)
    if len(descriptors):
        directions = centres / np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12)
        nearest = np.argmax(descriptors @ directions.T, axis=1)
        np.add.at(sums, nearest, descriptors - centres[nearest])
    sums /= np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
    flat = sums.ravel()
    return np.asarray(flat / max(float(np.linalg.norm(flat)), 1e-12), dtype=np.float32)
