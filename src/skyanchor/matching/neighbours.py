"""Mutual nearest neighbours in descriptor space."""

from __future__ import annotations

import numpy as np

from skyanchor.matching.features import Features
from skyanchor.types import Floats, Floats32, Ints, Matches


def match_features(
    a: Features, b: Features, ratio: float = 0.85, least_cosine: float = -1.0, device: str = "cpu"
) -> Ints:
    """(M, 2), indices of keypoints that are each other's nearest, in the order of a.

    For unit descriptors d² = 2 - 2 cos; a pair stays when d₁ <= ratio d₂ and cos >= least_cosine. A ratio of 1 tests
    nothing and serves descriptors of any length, which are then compared by their dot product.
    """
    if len(a) < 2 or len(b) < 2:
        return np.empty((0, 2), dtype=np.int64)
    import torch

    with torch.inference_mode():
        cosine = torch.from_numpy(a.descriptors).to(device) @ torch.from_numpy(b.descriptors).to(device).T
        best = cosine.amax(dim=1)
        top = cosine == best[:, None]  # maxima and comparisons are far cheaper than arg-maxima
        pairs = (top & (cosine == cosine.amax(dim=0))).nonzero()
        keep = best[pairs[:, 0]] >= least_cosine
        if ratio < 1.0:
            second = cosine.masked_fill_(top, -1.0).amax(dim=1)[pairs[:, 0]]
            keep &= 2.0 - 2.0 * best[pairs[:, 0]] <= ratio**2 * (2.0 - 2.0 * second).clamp(min=1e-9)
        found = pairs[keep].cpu().numpy()
    return _once(np.asarray(found, dtype=np.int64))


def _once(pairs: Ints) -> Ints:
    """The pairs without those that use a keypoint again (descriptors that tie to the bit)."""
    for side in (0, 1):
        pairs = pairs[np.sort(np.unique(pairs[:, side], return_index=True)[1])]
    return pairs


def paired_cosine(a: Features, b: Features, pairs: Ints) -> Floats:
    """(M,), cosine between the descriptors of each pair."""
    left: Floats32 = a.descriptors[pairs[:, 0]]
    return np.einsum("nd,nd->n", left, b.descriptors[pairs[:, 1]]).astype(np.float64)


def as_matches(a: Features, b: Features, pairs: Ints, score: Floats) -> Matches:
    """The pixels that pairs (M, 2) of keypoints join."""
    return Matches(a.xy[pairs[:, 0]], b.xy[pairs[:, 1]], score, max(a.sigma_px, b.sigma_px))
