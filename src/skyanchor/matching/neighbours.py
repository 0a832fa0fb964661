"""Mutual nearest neighbours in descriptor space."""

from __future__ import annotations

import threading

import numpy as np

from skyanchor.matching.features import Features
from skyanchor.types import Bools, Floats, Floats32, Ints, Matches

ROOM = 1 << 24
"""Cosines whose memory a thread keeps, those of 4096 keypoints with as many: its pages would come zeroed each time."""
_THREAD = threading.local()


def match_features(
    a: Features, b: Features, ratio: float = 0.85, least_cosine: float = -1.0, device: str = "cpu"
) -> Ints:
    """(M, 2), indices of keypoints that are each other's nearest, in the order of a.

    For unit descriptors d² = 2 - 2 cos; a pair stays when d₁ <= ratio d₂ and cos >= least_cosine. A ratio of 1 tests
    nothing and serves descriptors of any length, which are then compared by their dot product.
    """
    if len(a) < 2 or len(b) < 2:
        return np.empty((0, 2), dtype=np.int64)
    if device == "cpu":
        found = _mutual_here(a.descriptors, b.descriptors, ratio, least_cosine)[0]
    else:
        found = _mutual_on(device, a.descriptors, b.descriptors, ratio, least_cosine)
    return found[_once(found)]


def match_alike(a: Floats32, b: Floats32, least_cosine: float) -> tuple[Ints, Floats32]:
    """(pairs (M, 2) as `match_features` finds them without a ratio, their cosines (M,)), of descriptors alone.

    Those of a higher limit are among them: the pairs whose cosine reaches it.
    """
    if len(a) < 2 or len(b) < 2:
        return np.empty((0, 2), dtype=np.int64), np.empty(0, np.float32)
    pairs, cosines = _mutual_here(a, b, 1.0, least_cosine)
    kept = _once(pairs)
    return pairs[kept], cosines[kept]


def _mutual_here(a: Floats32, b: Floats32, ratio: float, least_cosine: float) -> tuple[Ints, Floats32]:
    """(the pairs (M, 2) that `match_features` asks for, their cosines (M,)), on the CPU."""
    cosine = np.matmul(a, b.T, out=_room(len(a), len(b)))
    nearest = cosine.argmax(axis=1)
    rows = np.arange(len(a))
    best = cosine[rows, nearest]
    keep = (best == cosine.max(axis=0)[nearest]) & (best >= least_cosine)
    if ratio < 1.0:
        cosine[rows, nearest] = -1.0
        keep &= _distinct(best, cosine.max(axis=1), ratio)
    return np.stack([rows[keep], nearest[keep]], axis=1).astype(np.int64), best[keep]


def _room(rows: int, columns: int) -> Floats32:
    """(rows, columns), memory that this thread uses again and again, unless that would hold too much of it."""
    if rows * columns > ROOM:
        return np.empty((rows, columns), np.float32)
    if not hasattr(_THREAD, "room") or len(_THREAD.room) < rows * columns:
        _THREAD.room = np.empty(rows * columns, np.float32)
    return np.asarray(_THREAD.room[: rows * columns].reshape(rows, columns))


def _distinct(best: Floats32, second: Floats32, ratio: float) -> Bools:
    """(N,), d₁ <= ratio d₂ by the cosines of the nearest and the second nearest."""
    return np.asarray(2.0 - 2.0 * best <= ratio**2 * np.maximum(2.0 - 2.0 * second, 1e-9))


def _mutual_on(device: str, a: Floats32, b: Floats32, ratio: float, least_cosine: float) -> Ints:
    """(M, 2), the same on a torch device."""
    import torch

    with torch.inference_mode():
        cosine = torch.from_numpy(a).to(device) @ torch.from_numpy(b).to(device).T
        best, nearest = cosine.max(dim=1)
        keep = (best == cosine.amax(dim=0)[nearest]) & (best >= least_cosine)
        if ratio < 1.0:
            second = cosine.scatter_(1, nearest[:, None], -1.0).amax(dim=1)
            keep &= 2.0 - 2.0 * best <= ratio**2 * (2.0 - 2.0 * second).clamp(min=1e-9)
        rows = keep.nonzero()[:, 0]
        return np.asarray(torch.stack([rows, nearest[rows]], dim=1).cpu().numpy(), dtype=np.int64)


def _once(pairs: Ints) -> Ints:
    """Rows of the pairs without those that use a keypoint again (descriptors that tie to the bit)."""
    rows = np.arange(len(pairs))
    for side in (0, 1):
        rows = rows[np.sort(np.unique(pairs[rows, side], return_index=True)[1])]
    return rows


def paired_cosine(a: Features, b: Features, pairs: Ints) -> Floats:
    """(M,), cosine between the descriptors of each pair."""
    left: Floats32 = a.descriptors[pairs[:, 0]]
    return np.einsum("nd,nd->n", left, b.descriptors[pairs[:, 1]]).astype(np.float64)


def as_matches(a: Features, b: Features, pairs: Ints, score: Floats) -> Matches:
    """The pixels that pairs (M, 2) of keypoints join."""
    return Matches(a.xy[pairs[:, 0]], b.xy[pairs[:, 1]], score, max(a.sigma_px, b.sigma_px))
