"""Which rasteriser runs where: the choice, and the automatic one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from skyanchor.gaussians.gsplat_adapter import Gsplat, missing_for_cuda
from skyanchor.gaussians.rasteriser import CpuRasteriser, Rasteriser, Rendered
from skyanchor.types import Camera

if TYPE_CHECKING:
    from torch import Tensor

AnyRasteriser: TypeAlias = CpuRasteriser | Gsplat
Device: TypeAlias = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True, eq=False)
class Engine:
    """A loaded rasteriser and the torch device its tensors live on."""

    rasteriser: Rasteriser
    device: str
    term: Callable[[Camera, Rendered, float], Tensor] | None = None
    """A loss beside the photometric one, of a rendered view at a progress of 0..1; None for most trainings."""


def chosen_device(device: Device = "auto") -> Literal["cpu", "cuda"]:
    """The device itself; `auto` is CUDA where everything for it is there, else the CPU."""
    if device != "auto":
        return device
    return "cpu" if missing_for_cuda() is not None else "cuda"


def rasteriser_of(device: Device = "auto") -> AnyRasteriser:
    """The device's own: gsplat on CUDA, Numba on the CPU."""
    return Gsplat() if chosen_device(device) == "cuda" else CpuRasteriser()


def load_engine(device: Device = "auto", rasteriser: AnyRasteriser | None = None) -> Engine:
    """The given rasteriser ready to draw, or the device's own."""
    place = chosen_device(device)
    return Engine((rasteriser or rasteriser_of(place)).load(place), place)
