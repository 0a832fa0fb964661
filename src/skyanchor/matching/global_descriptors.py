"""Whole-image descriptors for finding places: what they can do, and which there are; light to import.

The default is fitted to the scene and needs no downloads; the others use weights that the user has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import numpy as np

from skyanchor.backends.devices import resolved
from skyanchor.matching.choices import AnySparse, XFeat
from skyanchor.matching.protocol import SparseMatcher
from skyanchor.matching.retrieval import Vocabulary, fit_vocabulary, vlad
from skyanchor.types import Floats32, Photo


class GlobalDescriptor(Protocol):
    """Describes a photo by one vector; photos of one place have vectors with a large dot product."""

    @property
    def key(self) -> str:
        """Name and settings in one string."""
        ...

    def describe(self, photo: Photo) -> Floats32:
        """(D,), unit."""
        ...


@dataclass(frozen=True)
class SceneVlad:
    """Local features summed up by a vocabulary of the scene's own; no weights beyond the features'."""

    features: AnySparse = field(default_factory=lambda: XFeat(keypoints=1000, longest=640))
    """Local features."""
    centres: int = 64
    """Words of the vocabulary."""

    def load(self, device: str, scene: Sequence[Photo]) -> GlobalDescriptor:
        """The descriptor with a vocabulary fitted to the scene's photos."""
        matcher = self.features.load("cpu" if device == "auto" else device)
        held = np.concatenate([matcher.extract(photo).descriptors for photo in scene])
        return LocalVlad(matcher, fit_vocabulary(held, self.centres))


@dataclass(frozen=True)
class AnyLoc:
    """DINOv2 patches summed up by VLAD (AnyLoc); published centres for ViT-G, fitted to the scene for the others."""

    size: Literal["s", "b", "l", "g"] = "g"
    """Which DINOv2, ViT-S/14 to ViT-G/14."""
    layer: int | None = None
    """Block whose attention is read, from 0; the published 31 of 40 for ViT-G, the same relative depth by default."""
    facet: Literal["query", "key", "value"] = "value"
    """Part of the attention that describes a patch."""
    longest: int = 1024
    """Longer side that images are shrunk to, pixels."""
    vocabulary: Literal["scene", "urban", "aerial"] = "scene"
    """Centres fitted to the scene, or the published ones of a domain (ViT-G, layer 31, value only)."""
    centres: int = 32
    """Words of a fitted vocabulary."""
    weights: Path | None = None
    """DINOv2 checkpoint or its folder; looked for in the usual places without it."""
    centres_file: Path | None = None
    """File of the published centres; looked for in the usual places without it."""

    def load(self, device: str, scene: Sequence[Photo]) -> GlobalDescriptor:
        """The descriptor; `scene` matters only for a fitted vocabulary."""
        from skyanchor.matching.anyloc import load

        return load(self, resolved(device), scene)


@dataclass(frozen=True)
class HubModel:
    """A retrieval network from a torch.hub folder that the user has."""

    repository: str = "gmberton_MegaLoc_main"
    """Name of the folder in torch's hub cache, or a path to it."""
    entry: str = "get_trained_model"
    """Function of its hubconf.py that gives the network."""
    side: int = 322
    """Both sides that images are resized to, pixels."""
    name: Literal["megaloc", "salad", "other"] = "megaloc"
    """Whose weights are checked for before the folder's code runs, so that it downloads nothing."""

    def load(self, device: str, scene: Sequence[Photo]) -> GlobalDescriptor:
        """The descriptor; `scene` plays no part."""
        from skyanchor.matching.hub_models import load

        return load(self, resolved(device))


MEGALOC = HubModel()
SALAD = HubModel("serizba_salad_main", "dinov2_salad", 322, "salad")

AnyDescriptor: TypeAlias = SceneVlad | AnyLoc | HubModel


@dataclass(frozen=True, eq=False)
class LocalVlad:
    """Global descriptor of `SceneVlad`."""

    matcher: SparseMatcher
    vocabulary: Vocabulary

    @property
    def key(self) -> str:
        """Name and settings."""
        return f"vlad {len(self.vocabulary.centres)} {self.matcher.key}"

    def describe(self, photo: Photo) -> Floats32:
        """VLAD of the photo's local features, (C D,)."""
        return vlad(self.matcher.extract(photo).descriptors, self.vocabulary)


def described(descriptor: GlobalDescriptor, photos: Sequence[Photo]) -> Floats32:
    """(N, D), a row per photo."""
    return np.stack([descriptor.describe(photo) for photo in photos])
