"""Mutual nearest neighbours in descriptor space."""

from __future__ import annotations

import numpy as np

from skyanchor.matching.features import Features
from skyanchor.types import Floats, Floats32, Ints, Matches


def match_features(
    a: Features, b: Features, ratio: float = 0.85, least_cosine: float = -1.0, device: str = "cpu"
) -> Ints:
    """(M, 2), indices of keypoints that are each other's nearest, in the order of a.

    Descriptors are unit vectors, d² = 2 - 2 cos; a pair stays when d₁ <= ratio d₂ and cos >= least_cosine.
    """
    if len(a) < 2 or len(b) < 2:
        return np.empty((0, 2), dtype=np.int64)
    import torch

    with torch.inference_mode():
        first = torch.from_numpy(a.descriptors).to(device)
        second = torch.from_numpy(b.descriptors).to(device)
        cosine = first @ second.T
        back = cosine.argmax(dim=0)
        best, nearest = cosine.topk(2, dim=1) if ratio < 1.0 else cosine.topk(1, dim=1)
        here = torch.arange(len(a), device=cosine.device)
        keep = (back[nearest[:, 0]] == here) & (best[:, 0] >= least_cosine)
        if ratio < 1.0:
            squared = (2.0 - 2.0 * best).clamp(min=1e-9)
            keep &= squared[:, 0] <= ratio**2 * squared[:, 1]
        pairs = torch.stack([here[keep], nearest[keep, 0]], dim=1)
    return np.asarray(pairs.cpu().numpy(), dtype=np.int64)


def paired_cosine(a: Features, b: Features, pairs: Ints) -> Floats:
    """(M,), cosine between the descriptors of each pair."""
    left: Floats32 = a.descriptors[pairs[:, 0]]
    return np.einsum("nd,nd->n", left, b.descriptors[pairs[:, 1]]).astype(np.float64)


def as_matches(a: Features, b: Features, pairs: Ints, score: Floats) -> Matches:
    """The pixels that pairs (M, 2) of keypoints join."""
    return Matches(a.xy[pairs[:, 0]], b.xy[pairs[:, 1]], score, max(a.sigma_px, b.sigma_px))
