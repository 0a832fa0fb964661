"""Keyframes of earlier walks: what they are, how well they are known, and by what they are recalled."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from skyanchor.geometry import cameras
from skyanchor.matching import Features
from skyanchor.matching.retrieval import Vocabulary, even_sample, fit_vocabulary, vlad
from skyanchor.storage import files
from skyanchor.types import Camera, Floats32, View

CENTRES = 64
"""Words by which keyframes are told apart."""


@dataclass(frozen=True, eq=False)
class Keyframe:
    """A photo of an earlier walk whose pose stands."""

    walk: str
    view: View
    sigma_m: float
    """Standard deviation of its centre as the earlier run states it, metres."""

    @property
    def lens(self) -> Camera:
        """PINHOLE camera of the undistorted photo at full resolution."""
        return cameras.undistorted(self.view.camera)


@dataclass(frozen=True, eq=False)
class EarlierWalks:
    """The keyframes of all earlier walks, and by what they are recalled."""

    keyframes: tuple[Keyframe, ...]
    features: tuple[Path, ...]
    """Per keyframe the file with its features, by the matcher of the groups."""
    words: Vocabulary
    looks: Floats32
    """(K, E), descriptors of the whole photos."""

    def seen(self, index: int) -> Features:
        """Features of a keyframe."""
        return files.load(self.features[index], Features)


def described_walks(keyframes: tuple[Keyframe, ...], features: tuple[Path, ...]) -> EarlierWalks:
    """The keyframes with words fitted to their own features."""
    held = [files.load(path, Features).descriptors for path in features]
    words = fit_vocabulary(even_sample(held, len(held)), CENTRES)
    return EarlierWalks(keyframes, features, words, np.stack([vlad(one, words) for one in held]))
