"""gsplat behind the rasteriser protocol: CUDA only."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from skyanchor.backends.choices import Need
from skyanchor.backends.packages import Package, imported
from skyanchor.errors import BackendError
from skyanchor.gaussians.rasteriser import Rasteriser, Rendered, SplatTensors, intrinsics
from skyanchor.types import Camera

if TYPE_CHECKING:
    from torch import Tensor

GSPLAT = Package("gsplat", "gsplat.cuda._backend", "pip install 'skyanchor[cuda]'")
"""The module is the one that compiles and loads the kernels."""


@dataclass(frozen=True)
class Gsplat:
    """The CUDA rasteriser of the gsplat package; its kernels are compiled on first use (about a minute)."""

    needs: ClassVar[tuple[Need, ...]] = (GSPLAT,)
    near: float = 0.01
    """Gaussians whose centre is nearer than this are not drawn, metres."""
    far: float = 1e10
    """Gaussians whose centre is farther than this are not drawn, metres."""
    blur: float = 0.3
    """Added to both variances of the projected Gaussian, pixels²."""

    def check(self) -> None:
        """BackendError that says what is missing; the kernels are compiled for that where nobody has."""
        reason = missing_for_cuda()
        if reason is not None:
            raise BackendError(reason)
        if imported(GSPLAT)._C is None:
            raise BackendError("gsplat could not compile its kernels here: install the CUDA toolkit of torch's version")

    def load(self, device: str = "cuda") -> Rasteriser:
        """The rasteriser, ready to draw; the heavy imports happen here."""
        reason = missing_for_cuda()
        if not device.startswith("cuda"):
            raise BackendError(f"gsplat runs on cuda, not on {device}; choose the Numba rasteriser for the CPU")
        if reason is not None:
            raise BackendError(reason)
        return GsplatRasteriser(self)


def missing_for_cuda() -> str | None:
    """What keeps gsplat from running here and what to do about it; None when nothing does."""
    import importlib.util

    import torch

    if not torch.cuda.is_available():
        return "gsplat needs an NVIDIA GPU and a CUDA build of torch, and torch sees none: choose the device `cpu`"
    if importlib.util.find_spec("gsplat") is None:
        return f"gsplat is not installed: {GSPLAT.command}, or choose the device `cpu`"
    from torch.utils.cpp_extension import CUDA_HOME

    if CUDA_HOME is None and shutil.which("nvcc") is None:
        return "gsplat compiles its kernels with nvcc, which is not there: install the CUDA toolkit of torch's version"
    return None


@dataclass(frozen=True)
class GsplatRasteriser:
    """gsplat's rasterisation of one view."""

    choice: Gsplat

    def render(
        self,
        splats: SplatTensors,
        camera: Camera,
        cam_from_world: Tensor,
        *,
        frozen: int = 0,
        background: Tensor | None = None,
        sh_degree: int | None = None,
        with_depth: bool = True,
    ) -> Rendered:
        """As the protocol says; the last `frozen` rows are cut off from the gradients before the kernels see them."""
        import torch
        from gsplat import rasterization

        k = intrinsics(camera)
        matrix = torch.tensor([[k.fx, 0.0, k.cx], [0.0, k.fy, k.cy], [0.0, 0.0, 1.0]])
        degree = round(splats.sh.shape[1] ** 0.5) - 1 if sh_degree is None else sh_degree
        live = _detached_tail(splats, frozen)
        drawn, alpha, info = rasterization(
            live.means,
            live.quats,
            live.log_scales.exp(),
            live.logit_opacities.sigmoid(),
            live.sh,
            cam_from_world[None],
            matrix[None].to(splats.means.device, non_blocking=True),
            k.width,
            k.height,
            near_plane=self.choice.near,
            far_plane=self.choice.far,
            eps2d=self.choice.blur,
            sh_degree=degree,
            packed=False,
            render_mode="RGB+ED" if with_depth else "RGB",
            backgrounds=None if background is None else background[None],
        )
        screen = info["means2d"]
        if screen.requires_grad:
            screen.retain_grad()
            if frozen and not cam_from_world.requires_grad:
                screen.register_hook(lambda gradient: _without_tail(gradient, frozen))
        radii = info["radii"][0].amax(dim=1).float()
        depth = drawn[0, ..., 3] if with_depth else torch.zeros_like(alpha[0, ..., 0])
        return Rendered(drawn[0, ..., :3], alpha[0, ..., 0], depth, radii, screen)


def _detached_tail(splats: SplatTensors, frozen: int) -> SplatTensors:
    """The same numbers with no gradient path through the last `frozen` rows."""
    import torch

    if frozen <= splats.constant:
        return splats
    rows = len(splats.means) - frozen
    fields = (splats.means, splats.quats, splats.log_scales, splats.logit_opacities, splats.sh)
    return SplatTensors(*(torch.cat([field[:rows], field[rows:].detach()]) for field in fields))


def _without_tail(gradient: Tensor, frozen: int) -> Tensor:
    """Screen gradients (1, N, 2) with the last `frozen` rows zero."""
    kept = gradient.clone()
    kept[:, -frozen:] = 0.0
    return kept
