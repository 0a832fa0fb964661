"""Per-image affine exposure: what a camera's automatic exposure and white balance did to the colours of one photo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skyanchor.bounds import NotNegative
from skyanchor.gaussians.parameters import fused_adam

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ExposureConfig:
    """How the affine colour maps of single photos are learnt."""

    rate: NotNegative = 2e-3
    """Adam step per visit of a photo, first; a tenth of it at the end."""
    pull: NotNegative = 1e-2
    """Weight of the squared distance from the identity map, which keeps the model's own colours where they are."""


@dataclass(frozen=True, eq=False)
class Exposures:
    """One map per photo with its Adam moments; updated in place. rgb_photo = A rgb_model + b."""

    maps: Tensor
    """(V, 3, 4), [A | b]."""
    first: Tensor
    second: Tensor
    visits: Tensor
    """(V,), Adam steps taken."""


def identities(count: int, device: str) -> Exposures:
    """`count` maps that change nothing."""
    import torch

    maps = torch.eye(3, 4, device=device).repeat(count, 1, 1)
    return Exposures(maps, torch.zeros_like(maps), torch.zeros_like(maps), torch.zeros(count, device=device))


def exposed(rgb: Tensor, colour_map: Tensor) -> Tensor:
    """The image (H, W, 3) as the photo with this map (3, 4) shows it."""
    return rgb @ colour_map[:, :3].T + colour_map[:, 3]


def identity_penalty(colour_map: Tensor) -> Tensor:
    """Σ (map - [I | 0])²."""
    import torch

    return (colour_map - torch.eye(3, 4, device=colour_map.device)).square().sum()


def update(exposures: Exposures, row: int, gradient: Tensor, rate: float) -> None:
    """One Adam step of one photo's map, in place."""
    visits = exposures.visits[row].add_(1)
    fused_adam(exposures.maps[row], gradient, exposures.first[row], exposures.second[row], visits, rate)
