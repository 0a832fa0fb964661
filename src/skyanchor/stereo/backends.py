"""Where the stereo arithmetic runs: Numba on any CPU, torch on CUDA. Both do the same sweep and the same PatchMatch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from skyanchor.errors import BackendError
from skyanchor.stereo.planes import GreyStack, PlaneField, pixel_step
from skyanchor.types import Floats32


@dataclass(frozen=True)
class SweepConfig:
    """Plane sweep with semi-global aggregation."""

    radius: int = 3
    """Half window of the ZNCC, pixels of the sweep's scale."""
    step_px: float = 0.7
    """Motion in a typical source between two planes, pixels of the sweep's scale."""
    most_planes: int = 224
    """Most planes; bounds the memory."""
    small_step: int = 10
    """Penalty of a step to the next plane, of 255."""
    jump: int = 120
    """Penalty of a jump, of 255, on even colour."""
    contrast: float = 12.0
    """Grey difference that halves the jump penalty."""


@dataclass(frozen=True)
class RefineConfig:
    """Slanted-plane PatchMatch."""

    rounds: int = 2
    """Iterations over all pixels."""
    radius: int = 3
    """Half window, pixels."""
    stride: int = 1
    """Distance of the samples in the window, pixels."""
    sigma_grey: float = 10.0
    """Grey difference at which a window pixel's weight falls to 1/e."""
    tried_sources: int = 5
    """New planes of a pixel are tried in this many sources, those that fit its present plane best."""
    pull: float = 0.05
    """Cost of leaving the first surface by a pixel or more where the photo is plain; less where it has texture."""


@dataclass(frozen=True)
class Photometry:
    """What the photos are like and how many sources count."""

    noise: float = 1.0
    """Grey level noise of the photos: windows with less texture than that score as plain."""
    best_sources: int = 3
    """Sources whose mean cost counts; the others may be occluded."""


class StereoBackend(Protocol):
    """The two heavy steps of depth estimation."""

    def sweep(
        self, stack: GreyStack, tilt: Floats32, planes: Floats32, photometry: Photometry, config: SweepConfig
    ) -> Floats32:
        """Inverse distance u (H, W) of the semi-global surface; the plane at u has 1/z(p) = u tilt . p."""

    def refine(
        self,
        stack: GreyStack,
        start: PlaneField,
        tilt: Floats32,
        w_range: tuple[float, float],
        photometry: Photometry,
        config: RefineConfig,
    ) -> tuple[PlaneField, Floats32]:
        """The refined planes and their photometric cost (H, W), 0..1."""


@dataclass(frozen=True)
class NumbaStereo:
    """Numba kernels on the CPU; as many threads as NUMBA_NUM_THREADS says."""

    def sweep(
        self, stack: GreyStack, tilt: Floats32, planes: Floats32, photometry: Photometry, config: SweepConfig
    ) -> Floats32:
        """Inverse distance u (H, W) of the semi-global surface."""
        from skyanchor.stereo import sweep_kernels as kernels

        volume = kernels.sweep_costs(
            *(stack.reference, stack.sources, stack.sizes, stack.M, stack.m),
            *(tilt, planes, config.radius, photometry.noise, photometry.best_sources),
        )
        total = kernels.aggregate(volume, stack.reference, config.small_step, config.jump, config.contrast)
        return np.asarray(kernels.best_planes(total, planes), dtype=np.float32)

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
        from skyanchor.stereo import patchmatch_kernels as kernels

        count, height, width = stack.sources.shape
        layout = np.array([[s * height * width, width, height] for s in range(count)], np.int64)
        images = (stack.reference, stack.sources.reshape(-1), stack.sizes, layout, stack.M, stack.m)
        window = (config.radius, config.stride, photometry.best_sources, config.sigma_grey)
        settings = (*window, photometry.noise, config.tried_sources)
        w, a, b = start.w.copy(), start.a.copy(), start.b.copy()
        search = (np.array(stack.camera.params, np.float32), start.w, np.float32(config.pull))
        limits = (np.float32(pixel_step(stack)), tilt, np.float32(w_range[0]), np.float32(w_range[1]))
        cost = kernels.score(*images, w, a, b, settings)
        for round_ in range(config.rounds):
            for colour in (0, 1):
                kernels.improve(*images, w, a, b, cost, *search, *limits, colour, round_, settings)
        return PlaneField(w, a, b), kernels.score(*images, w, a, b, settings)


@dataclass(frozen=True)
class TorchStereo:
    """Torch tensor operations; meant for CUDA, runs anywhere."""

    device: str = "cuda"
    """Torch device."""

    def sweep(
        self, stack: GreyStack, tilt: Floats32, planes: Floats32, photometry: Photometry, config: SweepConfig
    ) -> Floats32:
        """Inverse distance u (H, W) of the semi-global surface."""
        from skyanchor.stereo import torch_kernels as kernels

        images = kernels.upload(stack.reference, stack.sources, stack.sizes, stack.M, stack.m, self._checked_device())
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
        import torch

        from skyanchor.stereo import torch_kernels as kernels

        device = self._checked_device()
        first = torch.as_tensor(np.stack([start.w, start.a, start.b]), device=device)
        search = kernels.Search(
            images=kernels.upload(stack.reference, stack.sources, stack.sizes, stack.M, stack.m, device),
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

    def _checked_device(self) -> str:
        import torch

        if self.device.startswith("cuda") and not torch.cuda.is_available():
            raise BackendError("No CUDA device for dense stereo. Use NumbaStereo (the default) on this machine.")
        return self.device


AnyStereo: TypeAlias = NumbaStereo | TorchStereo
