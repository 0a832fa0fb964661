"""The Numba rasteriser as torch sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skyanchor.gaussians.cpu.drawing import Drawing, Eye, Images, draw, draw_gradients
from skyanchor.gaussians.cpu.layout import Lens, Splats
from skyanchor.gaussians.rasteriser import CpuRasteriser, Rendered, SplatTensors, intrinsics
from skyanchor.types import Camera, Floats32


@dataclass(frozen=True)
class NumbaRasteriser:
    """Draws on the CPU; see `Rasteriser`."""

    settings: CpuRasteriser

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
        """The view of `camera` at `cam_from_world`; see `Rasteriser.render`."""
        n = len(splats.means)
        if not 0 <= frozen <= n:
            raise ValueError(f"frozen = {frozen} rows of {n}")
        degree = _sh_degree(splats.sh, sh_degree)
        eye = Eye(_array(cam_from_world), _lens(camera, self.settings), np.float32(self.settings.alpha_cap), degree)
        behind = np.zeros(3, np.float32) if background is None else _array(background)
        values = (splats.means, splats.quats, splats.log_scales, splats.logit_opacities, splats.sh)
        traced = torch.is_grad_enabled() and any(v.requires_grad for v in values)
        screen = torch.zeros((n, 2), requires_grad=traced)
        rgb, alpha, depth, radii = _Draw.apply(*values, cam_from_world, screen, eye, behind, n - frozen)
        return Rendered(rgb, alpha, depth, radii, screen)


class _Draw(torch.autograd.Function):  # type: ignore[misc]  # torch is untyped here
    """`screen` is a leaf of zeros that only carries the gradient of the projected means out."""

    @staticmethod
    def forward(
        ctx: Any, means: Tensor, quats: Tensor, log_scales: Tensor, logits: Tensor, sh: Tensor, cam_from_world: Tensor,
        screen: Tensor, eye: Eye, background: Floats32, trained: int,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
        drawing = draw(_splats(means, quats, log_scales, logits, sh), eye, background)
        # Saved as tensors, not as views of their memory: torch then refuses a backward after an optimiser's step.
        ctx.save_for_backward(means, quats, log_scales, logits, sh)
        ctx.eye, ctx.drawing, ctx.trained = eye, drawing, trained
        radii = torch.from_numpy(drawing.radii())
        ctx.mark_non_differentiable(radii)
        ctx.set_materialize_grads(False)
        rgb, alpha, depth = (torch.from_numpy(image) for image in drawing.images)
        return rgb, alpha, depth, radii

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        splats, drawing = _splats(*ctx.saved_tensors), ctx.drawing
        pose = ctx.needs_input_grad[5]
        found = draw_gradients(
            splats, ctx.eye, drawing, _image_gradients(drawing, grads), trained=ctx.trained, pose=pose
        )
        wanted = (*found.splats, found.cam_from_world, found.screen)
        given = (
            torch.from_numpy(g) if needed else None for g, needed in zip(wanted, ctx.needs_input_grad, strict=False)
        )
        return (*given, None, None, None)


def _array(tensor: Tensor) -> Floats32:
    if tensor.device.type != "cpu" or tensor.dtype != torch.float32:
        raise ValueError(f"the Numba rasteriser takes float32 on cpu, not {tensor.dtype} on {tensor.device}")
    return np.asarray(tensor.detach().contiguous().numpy())


def _splats(*values: Tensor) -> Splats:
    return Splats(*(_array(value) for value in values))


def _sh_degree(sh: Tensor, wanted: int | None) -> int:
    given = round(sh.shape[1] ** 0.5) - 1
    if (given + 1) ** 2 != sh.shape[1] or given > 3:
        raise ValueError(f"{sh.shape[1]} SH coefficients: expected 1, 4, 9 or 16")
    return given if wanted is None else min(wanted, given)


def _lens(camera: Camera, settings: CpuRasteriser) -> Lens:
    k = intrinsics(camera)
    values = (k.fx, k.fy, k.cx, k.cy, k.width, k.height, settings.near, settings.far, settings.blur)
    return Lens(*(np.float32(v) for v in values))


def _image_gradients(drawing: Drawing, grads: tuple[Tensor | None, ...]) -> Images:
    """Gradients of rgb, alpha and depth; zeros for an output the loss does not use."""
    pairs = zip(drawing.images, grads[:3], strict=True)
    return Images(*(np.zeros_like(image) if g is None else _array(g) for image, g in pairs))
