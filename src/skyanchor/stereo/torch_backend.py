"""The stereo arithmetic in torch tensor operations."""

from __future__ import annotations

import numpy as np
import torch

from skyanchor.stereo import torch_kernels as kernels
from skyanchor.stereo.backends import Photometry, RefineConfig, SweepConfig
from skyanchor.stereo.planes import GreyStack, PlaneField, pixel_step
from skyanchor.types import Floats32


class TorchBackend:
    """Stereo backend of `TorchStereo`."""

    def __init__(self, device: str) -> None:
        self.device = device

    def sweep(
        self, stack: GreyStack, tilt: Floats32, planes: Floats32, photometry: Photometry, config: SweepConfig
    ) -> Floats32:
        """Inverse distance u (H, W) of the semi-global surface."""
        images = kernels.upload(stack.reference, stack.sources, stack.sizes, stack.M, stack.m, self.device)
        volume = kernels.sweep(images, tilt, planes, config.radius, photometry.noise, photometry.best_sources)
        total = kernels.aggregate(volume, images.reference, config.small_step, config.jump, config.contrast)
        return np.asarray(kernels.best_planes(total, planes).cpu().numpy(), dtype=np.float32)

    def refine(
        self,
        stack: GreyStack,
        start: PlaneField,
        tilt: Floats32,
        w_range: tuple[float, float],
        photometry: Photometry,
        config: RefineConfig,
    ) -> tuple[PlaneField, Floats32]:
        """The refined planes and their photometric cost."""
        first = torch.as_tensor(np.stack([start.w, start.a, start.b]), device=self.device)
        search = kernels.Search(
            images=kernels.upload(stack.reference, stack.sources, stack.sizes, stack.M, stack.m, self.device),
            K=np.array(stack.camera.params, np.float32),
            tilt=tilt,
            prior=first[0].clone(),
            pull=config.pull,
            scale=pixel_step(stack),
            low=w_range[0],
            high=w_range[1],
            noise=photometry.noise,
            keep=photometry.best_sources,
            tried=config.tried_sources,
        )
        planes, cost = kernels.refine(search, first, config.rounds, (config.radius, config.stride, config.sigma_grey))
        w, a, b = planes.cpu().numpy()
        return PlaneField(w, a, b), np.asarray(cost.cpu().numpy(), dtype=np.float32)
