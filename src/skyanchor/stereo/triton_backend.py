"""The stereo arithmetic in Triton kernels, on a GPU."""

from __future__ import annotations

import threading

import numpy as np
import torch

from skyanchor.stereo import sweep_triton
from skyanchor.stereo.backends import Photometry, RefineConfig, SweepConfig
from skyanchor.stereo.patchmatch_triton import PatchMatch, Search, Window
from skyanchor.stereo.planes import GreyStack, PlaneField, pixel_step
from skyanchor.stereo.stack_triton import put, uploaded
from skyanchor.types import Floats32

ONE_AT_A_TIME = threading.Lock()
"""Threads take turns: a photo fills the GPU, and its memory is that of one."""


class TritonBackend:
    """Stereo backend of `TritonStereo`."""

    def __init__(self, device: str) -> None:
        self.device = device

    def sweep(
        self, stack: GreyStack, tilt: Floats32, planes: Floats32, photometry: Photometry, config: SweepConfig
    ) -> Floats32:
        """Inverse distance u (H, W) of the semi-global surface."""
        with ONE_AT_A_TIME:
            images, u_planes = uploaded(stack, self.device), put(planes, self.device)
            volume = sweep_triton.sweep_costs(
                images, put(tilt, self.device), u_planes, config.radius, photometry.noise, photometry.best_sources
            )
            paths = (config.small_step, config.jump, config.contrast)
            total = sweep_triton.aggregate(volume, images.reference, *paths)
            return np.asarray(sweep_triton.best_planes(total, u_planes).cpu().numpy())

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
        with ONE_AT_A_TIME:
            planes = torch.stack([put(field, self.device) for field in (start.w, start.a, start.b)])
            search = Search(
                K=put(np.array(stack.camera.params), self.device),
                tilt=put(tilt, self.device),
                prior=put(surface.w, self.device),
                pull=config.pull,
                scale=pixel_step(stack),
                low=w_range[0],
                high=w_range[1],
                tried=config.tried_sources,
            )
            compared = (config.radius, config.stride, config.sigma_grey, photometry.noise, photometry.best_sources)
            match = PatchMatch(uploaded(stack, self.device), planes, Window(*compared))
            cost = match.score()
            for round_ in rounds:
                for colour in (0, 1):
                    match.improve(cost, search, round_, colour)
            w, a, b = planes.cpu().numpy()
            scores = match.score().cpu().numpy() if scored else np.empty(0, np.float32)
            return PlaneField(w, a, b), np.asarray(scores)
