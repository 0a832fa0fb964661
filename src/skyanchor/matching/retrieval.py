"""Global descriptors fitted to the scene: VLAD over local features, no downloads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import cv2
import numpy as np

from skyanchor.types import Floats32, Ints

SAMPLED = 30_000
"""Local descriptors that a vocabulary is fitted to."""


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Cluster centres of local descriptors."""

    centres: Floats32
    """(C, D)."""


def even_sample(parts: Iterable[Floats32], count: int, most: int = SAMPLED, seed: int = 0) -> Floats32:
    """About `most` rows of `count` arrays (N, D), evenly many of each; the arrays are taken one after the other."""
    rng = np.random.default_rng(seed)
    share = -(-most // max(1, count))
    return np.concatenate([part[_some(len(part), share, rng)] for part in parts])


def _some(count: int, most: int, rng: np.random.Generator) -> Ints:
    """At most so many of `count` rows, in order."""
    return np.arange(count) if count <= most else np.sort(rng.choice(count, most, replace=False))


def fit_vocabulary(descriptors: Floats32, centres: int = 64, most: int = SAMPLED, seed: int = 0) -> Vocabulary:
    """Centres of at most `most` of the descriptors (N, D) by k-means; fewer centres when there are few descriptors."""
    rng = np.random.default_rng(seed)
    descriptors = descriptors[_some(len(descriptors), most, rng)]
    count = max(1, min(centres, len(descriptors) // 4))
    cv2.setRNGSeed(seed)
    stop = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 15, 1e-3)
    data = np.ascontiguousarray(descriptors, dtype=np.float32)
    found = cv2.kmeans(data, count, None, stop, 1, cv2.KMEANS_PP_CENTERS)[2]
    return Vocabulary(np.asarray(found, dtype=np.float32))


def vlad(descriptors: Floats32, vocabulary: Vocabulary) -> Floats32:
    """(C * D,), unit: per centre the sum of the residuals of its descriptors (N, D), each centre's sum normalised."""
    centres = vocabulary.centres
    sums = np.zeros_like(centres)
    if len(descriptors):
        nearest = np.argmax(descriptors @ centres.T - 0.5 * (centres**2).sum(axis=1), axis=1)
        np.add.at(sums, nearest, descriptors - centres[nearest])
    sums /= np.linalg.norm(sums, axis=1, keepdims=True) + 1e-9
    flat = sums.ravel()
    return np.asarray(flat / (np.linalg.norm(flat) + 1e-9), dtype=np.float32)


def ranked(queries: Floats32, database: Floats32, count: int) -> Ints:
    """(Q, count), rows of the database (N, E) most like each query (Q, E), best first."""
    likeness = queries @ database.T
    return np.argsort(-likeness, axis=1, kind="stable")[:, :count].astype(np.int64)
