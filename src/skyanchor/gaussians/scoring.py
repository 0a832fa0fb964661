"""How well splats show posed photos: PSNR and SSIM per view."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skyanchor.gaussians.splats import Splats, to_tensors
from skyanchor.gaussians.views import Target, TrainingView, matrix, targets
from skyanchor.photos import PhotoCache
from skyanchor.types import View

if TYPE_CHECKING:
    from torch import Tensor

    from skyanchor.gaussians.devices import Engine
    from skyanchor.gaussians.rasteriser import SplatTensors


HIGHEST_PSNR = 99.0
"""dB, for equal images."""


@dataclass(frozen=True)
class ViewScore:
    """One view against its photo."""

    name: str
    psnr: float
    """dB over the used pixels, colours clamped to 0..1."""
    ssim: float
    """11-tap Gaussian window, zero-padded, averaged over the used pixels."""


@dataclass(frozen=True)
class Scores:
    """Views against their photos; the means are over views, as the 3DGS literature does."""

    views: tuple[ViewScore, ...]

    @property
    def psnr(self) -> float:
        """Mean dB."""
        return sum(view.psnr for view in self.views) / max(len(self.views), 1)

    @property
    def ssim(self) -> float:
        """Mean SSIM."""
        return sum(view.ssim for view in self.views) / max(len(self.views), 1)


@dataclass(frozen=True, eq=False)
class Sitter:
    """A photo beside the rasteriser, to be compared again and again."""

    name: str
    target: Target
    photo: Tensor
    """(H, W, 3), 0..255."""
    use: Tensor | None
    """(H, W); None = everywhere."""


def sitters(cache: PhotoCache, views: Sequence[View | TrainingView], width: int, device: str) -> Iterator[Sitter]:
    """The views' photos at most `width` pixels wide, on the device, the next ones decoded meanwhile."""
    import torch

    names = [view.view.name if isinstance(view, TrainingView) else view.name for view in views]
    for name, target in zip(names, targets(cache, views, width), strict=True):
        use = None if target.use is None else torch.from_numpy(target.use).to(device)
        yield Sitter(name, target, torch.from_numpy(target.pixels).to(device), use)


def score(
    splats: Splats | SplatTensors,
    views: Sequence[View | TrainingView],
    engine: Engine,
    width: int,
    cache: PhotoCache | None = None,
) -> Scores:
    """PSNR and SSIM of every view at most `width` pixels wide; exposures are not applied."""
    tensors = to_tensors(splats, engine.device) if isinstance(splats, Splats) else splats
    cache = cache or PhotoCache(1 << 26)
    shown = sitters(cache, views, width, engine.device)
    return Scores(tuple(compared(rendered_rgb(tensors, one.target, engine), one) for one in shown))


def rendered_rgb(tensors: SplatTensors, target: Target, engine: Engine) -> Tensor:
    """(H, W, 3), 0..1, what the splats show in the target's camera."""
    import torch

    with torch.no_grad():
        pose = matrix(target.cam_from_world, engine.device)
        return engine.rasteriser.render(tensors, target.camera, pose, with_depth=False).rgb.clamp(0.0, 1.0)


def compared(rgb: Tensor, one: Sitter) -> ViewScore:
    """PSNR = -10 log10 MSE and SSIM of an image against the photo."""
    from skyanchor.gaussians.losses import psnr, ssim

    photo = one.photo.float() / 255.0
    return ViewScore(one.name, min(psnr(rgb, photo, one.use), HIGHEST_PSNR), float(ssim(rgb, photo, one.use)))
