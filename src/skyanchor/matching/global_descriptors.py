"""Whole-image descriptors for finding places: what they can do, and which there are; light to import.

The default is fitted to the scene and needs no downloads; the others use weights that the user has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Protocol, TypeAlias

import numpy as np

from skyanchor.backends import weights
from skyanchor.backends.choices import Need
from skyanchor.backends.devices import resolved
from skyanchor.backends.hub import HubFolder
from skyanchor.backends.weights import Weights
from skyanchor.bounds import Pixels, Range
from skyanchor.matching.choices import AnySparse, XFeat
from skyanchor.matching.protocol import SparseMatcher
from skyanchor.matching.retrieval import Vocabulary, even_sample, fit_vocabulary, vlad
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
    centres: Annotated[int, Range(1, 65536)] = 64
    """Words of the vocabulary."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """Those of the features."""
        return self.features.needs

    def check(self) -> None:
        """BackendError that says what the features lack."""
        self.features.check()

    def load(self, device: str, scene: Sequence[Photo]) -> GlobalDescriptor:
        """The descriptor with a vocabulary fitted to the scene's photos."""
        matcher = self.features.load("cpu" if device == "auto" else device)
        held = even_sample((matcher.extract(photo).descriptors for photo in scene), len(scene))
        return LocalVlad(matcher, fit_vocabulary(held, self.centres))


@dataclass(frozen=True)
class AnyLoc:
    """DINOv2 patches summed up by VLAD (AnyLoc); published centres for ViT-G, fitted to the scene for the others."""

    named_by: ClassVar[tuple[str, ...]] = ("size",)
    size: Literal["s", "b", "l", "g"] = "g"
    """Which DINOv2, ViT-S/14 to ViT-G/14."""
    layer: Annotated[int, Range(0, 100)] | None = None
    """Block whose attention is read, from 0; the published 31 of 40 for ViT-G, the same relative depth by default."""
    facet: Literal["query", "key", "value"] = "value"
    """Part of the attention that describes a patch."""
    longest: Pixels = 1024
    """Longer side that images are shrunk to, pixels."""
    vocabulary: Literal["scene", "urban", "aerial"] = "scene"
    """Centres fitted to the scene, or the published ones of a domain (ViT-G, layer 31, value only)."""
    centres: Annotated[int, Range(1, 65536)] = 32
    """Words of a fitted vocabulary."""
    weights: Path | None = None
    """DINOv2 checkpoint or its folder; looked for in the usual places without it."""
    centres_file: Path | None = None
    """File of the published centres; looked for in the usual places without it."""

    @property
    def checkpoint(self) -> Weights:
        """The weights of DINOv2."""
        sizes = {"s": weights.DINOV2_S, "b": weights.DINOV2_B, "l": weights.DINOV2_L, "g": weights.DINOV2_G}
        return sizes[self.size]

    @property
    def published(self) -> Weights | None:
        """The published centres, where they are asked for."""
        domains = {"scene": None, "urban": weights.ANYLOC_URBAN, "aerial": weights.ANYLOC_AERIAL}
        return domains[self.vocabulary]

    @property
    def needs(self) -> tuple[Need, ...]:
        """DINOv2, and the centres where they are not the scene's."""
        return (self.checkpoint,) if self.published is None else (self.checkpoint, self.published)

    def check(self) -> None:
        """BackendError that says what is missing or does not fit; it is loaded for that."""
        from skyanchor.matching.anyloc import check

        check(self)

    def load(self, device: str, scene: Sequence[Photo]) -> GlobalDescriptor:
        """The descriptor; `scene` matters only for a fitted vocabulary."""
        from skyanchor.matching.anyloc import load

        return load(self, resolved(device), scene)


@dataclass(frozen=True)
class MegaLoc:
    """MegaLoc, from its torch.hub folder and weights that the user has."""

    repository: str = "gmberton_MegaLoc_main"
    """Name of the folder in torch's hub cache, or a path to it."""
    side: Annotated[int, Range(14, 4096)] = 322
    """Both sides that images are resized to, pixels."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """Its code and weights."""
        return (HubFolder(self.repository), weights.MEGALOC)

    def check(self) -> None:
        """BackendError that says what is missing; it is loaded for that."""
        self.load("cpu", ())

    def load(self, device: str, scene: Sequence[Photo]) -> GlobalDescriptor:
        """The descriptor; `scene` plays no part."""
        from skyanchor.matching.hub_models import load

        return load(HubModel(self.repository, "get_trained_model", self.side), resolved(device), weights.MEGALOC)


@dataclass(frozen=True)
class Salad:
    """DINOv2 SALAD, from its torch.hub folder and weights that the user has; its code is GPL-3.0."""

    repository: str = "serizba_salad_main"
    """Name of the folder in torch's hub cache, or a path to it."""
    side: Annotated[int, Range(14, 4096)] = 322
    """Both sides that images are resized to, pixels."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """Its code and weights."""
        return (HubFolder(self.repository), weights.SALAD)

    def check(self) -> None:
        """BackendError that says what is missing; it is loaded for that."""
        self.load("cpu", ())

    def load(self, device: str, scene: Sequence[Photo]) -> GlobalDescriptor:
        """The descriptor; `scene` plays no part."""
        from skyanchor.matching.hub_models import load

        return load(HubModel(self.repository, "dinov2_salad", self.side), resolved(device), weights.SALAD)


@dataclass(frozen=True)
class HubModel:
    """Any other retrieval network from a torch.hub folder that the user has, NetVLAD for instance."""

    named_by: ClassVar[tuple[str, ...]] = ("repository", "entry")
    repository: str
    """Name of the folder in torch's hub cache, or a path to it."""
    entry: str
    """Function of its hubconf.py that gives the network."""
    side: Annotated[int, Range(14, 4096)] = 322
    """Both sides that images are resized to, pixels."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """The folder; its weights are its own affair."""
        return (HubFolder(self.repository),)

    def check(self) -> None:
        """BackendError that says what is missing; it is loaded for that."""
        self.load("cpu", ())

    def load(self, device: str, scene: Sequence[Photo]) -> GlobalDescriptor:
        """The descriptor; `scene` plays no part."""
        from skyanchor.matching.hub_models import load

        return load(self, resolved(device))


AnyDescriptor: TypeAlias = SceneVlad | AnyLoc | MegaLoc | Salad | HubModel


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
