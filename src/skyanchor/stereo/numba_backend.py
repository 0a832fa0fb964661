"""The stereo arithmetic in Numba kernels, on the CPU; as many threads as NUMBA_NUM_THREADS says."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyanchor.stereo import patchmatch_kernels, sweep_kernels
from skyanchor.stereo.backends import Photometry, RefineConfig, SweepConfig
from skyanchor.stereo.planes import GreyStack, PlaneField, pixel_step
from skyanchor.types import Floats32


class NumbaBackend:
    """Stereo backend of `NumbaStereo`."""

    def sweep(
        self, stack: GreyStack, tilt: Floats32, planes: Floats32, photometry: Photometry, config: SweepConfig
    ) -> Floats32:
        """Inverse distance u (H, W) of the semi-global surface."""
        volume = sweep_kernels.sweep_costs(
            *(stack.reference, stack.sources, stack.sizes, stack.M, stack.m),
            *(tilt, planes, config.radius, photometry.noise, photometry.best_sources),
        )
        total = sweep_kernels.aggregate(volume, stack.reference, config.small_step, config.jump, config.contrast)
        return np.asarray(sweep_kernels.best_planes(total, planes), dtype=np.float32)

    def refine(
        self,
        stack: GreyStack,
        start: PlaneField,
        surface: PlaneField,
        tilt: Floats32,
        w_range: tuple[float, float],
        photometry: Photometry,
        config: RefineConfig,
        rounds: range,
        scored: bool = True,
    ) -> tuple[PlaneField, Floats32]:
        """The refined planes and their photometric cost."""
        count, height, width = stack.sources.shape
        layout = np.array([[s * height * width, width, height] for s in range(count)], np.int64)
        images = (stack.reference, packed_corners(stack.sources), stack.sizes, layout, stack.M, stack.m)
        window = (config.radius, config.stride, photometry.best_sources, config.sigma_grey)
        settings = (*window, photometry.noise, config.tried_sources)
        w, a, b = start.w.copy(), start.a.copy(), start.b.copy()
        search = (np.array(stack.camera.params, np.float32), surface.w, np.float32(config.pull))
        limits = (np.float32(pixel_step(stack)), tilt, np.float32(w_range[0]), np.float32(w_range[1]))
        cost, own, ranks = patchmatch_kernels.score(*images, w, a, b, settings)
        for round_ in rounds:
            known = (round_ == rounds[0], own, ranks)
            for colour in (0, 1):
                patchmatch_kernels.improve(*images, w, a, b, cost, search, limits, colour, round_, settings, known)
        planes = PlaneField(w, a, b)
        return planes, patchmatch_kernels.score(*images, w, a, b, settings)[0] if scored else np.empty(0, np.float32)


def packed_corners(images: Floats32) -> npt.NDArray[np.uint64]:
    """Every pixel of (S, H, W) with its right, lower and lower right neighbours in one flat word each: 4 x 16 bits.

    A bilinear sample then reads memory once. Grey values are held in steps of 1/256.
    """
    grey = np.clip(np.round(images * 256.0), 0, 65535).astype(np.uint64)
    right = np.concatenate([grey[:, :, 1:], grey[:, :, -1:]], axis=2)
    pair = grey | right << np.uint64(16)
    below = np.concatenate([pair[:, 1:], pair[:, -1:]], axis=1)
    return np.asarray((pair | below << np.uint64(32)).reshape(-1))
