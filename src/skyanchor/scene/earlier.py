"""Photos of earlier walks: they guard and judge what a later walk does to a scene that they helped to make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.spatial import cKDTree

from skyanchor.gaussians.exposure import Exposures
from skyanchor.gaussians.scoring import rendered_rgb
from skyanchor.gaussians.splats import Splats, select, to_tensors
from skyanchor.gaussians.split import Split
from skyanchor.gaussians.views import TrainingView, targets
from skyanchor.photos import PhotoCache
from skyanchor.scene.colours import Pairs, shared_exposure
from skyanchor.types import Bools, Cloud, Floats, View

if TYPE_CHECKING:
    from torch import Tensor

    from skyanchor.gaussians.devices import Engine

SAMPLED = 4000
"""Pixels of a photo, about, by which its exposure is found."""
APART_M = 0.1
"""Off the plane of a point, metres: so far apart two walks may see one surface."""
APART_SPACINGS = 2.0
"""Along it, spacings of the points; Gaussians with larger deviations are too coarse for them."""
ASKED = 8
"""Nearest Gaussians of earlier walks that are asked."""


@dataclass(frozen=True, eq=False)
class EarlierViews:
    """The posed photos of one walk that is in the scene already."""

    name: str
    views: Split


@dataclass(frozen=True, eq=False)
class Gallery:
    """Some photos of an earlier walk to score, and the exposures of those that it was trained on."""

    name: str
    shown: tuple[View, ...]
    training: tuple[View, ...]
    maps: Tensor
    """(T, 3, 4), exposures of the training views as the scene was found."""
    first: int
    """Row of the first of them among all exposures of the update."""

    def maps_in(self, maps: Tensor | None) -> Tensor:
        """The exposures as they are now; as they were found where they take no part."""
        end = self.first + len(self.training)
        return self.maps if maps is None or len(maps) < end else maps[self.first : end]


def held_already(cloud: Cloud, splats: Splats) -> Bools:
    """(P,), points of a walk on whose plane, and near them, Gaussians of an earlier one lie that are as fine."""
    theirs = select(splats, splats.owner > 0)
    if not len(theirs) or not len(cloud.points):
        return np.zeros(len(cloud.points), np.bool_)
    reach = np.maximum(APART_M, APART_SPACINGS * cloud.spacing.astype(np.float64))[:, None]
    apart, nearest = cKDTree(theirs.means).query(cloud.points, ASKED, distance_upper_bound=float(reach.max()))
    nearest = np.minimum(nearest, len(theirs) - 1)
    off = np.abs(np.einsum("pkc,pc->pk", theirs.means[nearest] - cloud.points[:, None], cloud.normals))
    middle = np.exp(np.sort(theirs.log_scales, axis=1)[:, 1])
    fine = middle[nearest] <= APART_SPACINGS * cloud.spacing[:, None]
    return np.asarray(((apart <= reach) & (off <= APART_M) & fine).any(axis=1))


def found_exposures(
    earlier: Sequence[EarlierViews], splats: Splats, width: int, engine: Engine, photos: PhotoCache
) -> tuple[Floats, ...]:
    """Per walk (T, 3, 4): what turns the colours of the scene as it is into those of each training photo."""
    if not earlier:
        return ()
    tensors = to_tensors(splats, engine.device)
    found = []
    for walk in earlier:
        maps = []
        for target in targets(photos, walk.views.training, max(64, width // 2)):
            drawn = rendered_rgb(tensors, target, engine).cpu().numpy().astype(np.float64)
            usable = np.ones(drawn.shape[:2], np.bool_) if target.use is None else target.use
            every = max(1, int(usable.sum()) // SAMPLED)
            maps.append(shared_exposure(Pairs(target.pixels[usable][::every] / 255.0, drawn[usable][::every])))
        found.append(np.stack(maps))
    return tuple(found)


def galleries(
    earlier: Sequence[EarlierViews],
    exposures: Sequence[Floats],
    part: Literal["validation", "test"],
    first: int,
    device: str,
) -> tuple[Gallery, ...]:
    """The photos of each walk that decide or that only judge; `first` is the row of the first exposure."""
    import torch

    hung = []
    for walk, maps in zip(earlier, exposures, strict=True):
        held = torch.tensor(maps, dtype=torch.float32, device=device)
        hung.append(Gallery(walk.name, getattr(walk.views, part), walk.views.training, held, first))
        first += len(maps)
    return tuple(hung)


def guard_pool(
    earlier: Sequence[EarlierViews], first: int, weight: float, *, exposures: bool
) -> tuple[TrainingView, ...]:
    """The training photos of all earlier walks, each with an exposure of its own where wanted."""
    views = [view for walk in earlier for view in walk.views.training]
    return tuple(
        TrainingView(view, exposure=first + k if exposures else None, weight=weight) for k, view in enumerate(views)
    )


def with_earlier(exposures: Exposures, hung: Sequence[Gallery]) -> Exposures:
    """The exposures of the walk's own photos, then those of earlier walks as they were found."""
    import torch

    if not hung:
        return exposures
    maps = torch.cat([exposures.maps, *(gallery.maps for gallery in hung)])
    zeros = torch.zeros_like(maps)
    return Exposures(maps, zeros, zeros.clone(), torch.zeros(len(maps), device=maps.device))
