"""Views against their photos, aerial and ground apart, ground views through their neighbours' exposure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skyanchor.gaussians import exposure
from skyanchor.gaussians.scoring import Scores, Sitter, compared, rendered_rgb, sitters
from skyanchor.photos import PhotoCache
from skyanchor.step_clock import StepClock
from skyanchor.types import QUIET, View

if TYPE_CHECKING:
    from torch import Tensor

    from skyanchor.gaussians.devices import Engine
    from skyanchor.gaussians.rasteriser import SplatTensors
    from skyanchor.scene.earlier import Gallery


@dataclass(frozen=True)
class WalkQuality:
    """The same over photos of one earlier walk."""

    name: str
    psnr: float
    ssim: float


@dataclass(frozen=True)
class Quality:
    """PSNR (dB) and SSIM (3DGS variant) over views that had no part in the training."""

    aerial_psnr: float
    aerial_ssim: float
    ground_psnr: float
    ground_ssim: float
    ground_psnr_raw: float
    """Without any exposure: the splats' own colours against the photos."""
    earlier: tuple[WalkQuality, ...] = field(default=(), metadata=QUIET)
    """Of the walks that the scene held before, in order."""

    @property
    def guarded(self) -> tuple[float, ...]:
        """PSNR that must not be lost: from the air, then of each earlier walk, dB."""
        return (self.aerial_psnr, *(walk.psnr for walk in self.earlier))


def losses(before: Sequence[float], after: Sequence[float]) -> tuple[float, ...]:
    """What was lost of each, dB; below 0 where there is a gain."""
    return tuple(a - b for a, b in zip(before, after, strict=True))


@dataclass(frozen=True, eq=False)
class Judge:
    """Everything that scoring needs, held for a whole update."""

    aerial: tuple[View, ...]
    ground: tuple[View, ...]
    ground_training: tuple[View, ...]
    """The views whose exposures are known."""
    width: int
    engine: Engine
    photos: PhotoCache
    sitters: dict[Path, Sitter] | None = None
    """The photos stay on the device from one score to the next; None = they do not."""
    earlier: tuple[Gallery, ...] = ()
    """Photos of walks that the scene held before."""
    clock: StepClock = field(default_factory=StepClock)
    """Where the update's time goes."""

    def quality(self, tensors: SplatTensors, maps: Tensor | None) -> Quality:
        """Scores of the splats; `maps` (V, 3, 4) are exposures of the ground training views, then of earlier walks'."""
        with self.clock.step("scores"):
            aerial, _ = self._scores(tensors, self.aerial, None, ())
            raw, shown = self._scores(tensors, self.ground, maps, self.ground_training)
            earlier = self._earlier(tensors, maps)
        return Quality(aerial.psnr, aerial.ssim, shown.psnr, shown.ssim, raw.psnr, earlier)

    def guarded(self, tensors: SplatTensors) -> tuple[float, ...]:
        """Mean PSNR of the aerial views, then of each earlier walk, dB."""
        earlier = self._earlier(tensors, None)
        return (self._scores(tensors, self.aerial, None, ())[0].psnr, *(walk.psnr for walk in earlier))

    def _earlier(self, tensors: SplatTensors, maps: Tensor | None) -> tuple[WalkQuality, ...]:
        found = []
        for walk in self.earlier:
            _, shown = self._scores(tensors, walk.shown, walk.maps_in(maps), walk.training)
            found.append(WalkQuality(walk.name, shown.psnr, shown.ssim))
        return tuple(found)

    def _scores(
        self, tensors: SplatTensors, views: Sequence[View], maps: Tensor | None, training: Sequence[View]
    ) -> tuple[Scores, Scores]:
        """In the splats' own colours, and through the borrowed exposures where there are any: drawn once for both.

        `training` are the views that `maps` belong to.
        """
        raw, shown = [], []
        for view, one in zip(views, self._sitters(views), strict=True):
            rgb = rendered_rgb(tensors, one.target, self.engine)
            raw.append(compared(rgb, one))
            if maps is not None:
                colour_map = borrowed_exposure(view, training, maps)
                shown.append(compared(exposure.exposed(rgb, colour_map).clamp(0.0, 1.0), one))
        return Scores(tuple(raw)), Scores(tuple(shown or raw))

    def _sitters(self, views: Sequence[View]) -> Iterator[Sitter]:
        """The views' photos on the device, in order; those that do not stay there are read again."""
        held = dict(self.sitters or {})
        absent = [view for view in views if view.path not in held]
        missing = sitters(self.photos, absent, self.width, self.engine.device)
        for view in views:
            one = held.get(view.path) or next(missing)
            if self.sitters is not None:
                self.sitters[view.path] = one
            yield one


def borrowed_exposure(view: View, training: Sequence[View], maps: Tensor) -> Tensor:
    """(3, 4) for a view that had no part in the training: its two nearest training frames, weighted by distance."""
    frames = np.array([one.image_id for one in training])
    gap = np.abs(frames - view.image_id).astype(float)
    nearest = np.argsort(gap, kind="stable")[:2]
    weights = 1.0 / np.maximum(gap[nearest], 1.0)
    weights /= weights.sum()
    mixed = maps[int(nearest[0])] * float(weights[0])
    for row, weight in zip(nearest[1:], weights[1:], strict=True):
        mixed = mixed + maps[int(row)] * float(weight)
    return mixed
