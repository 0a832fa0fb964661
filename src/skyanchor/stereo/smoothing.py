"""Planes that neighbouring pixels agree on: noise of a window is averaged, edges and steps stay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyanchor.bounds import Few, Positive, Radius, Share
from skyanchor.stereo import smoothing_kernels
from skyanchor.stereo.planes import PlaneField
from skyanchor.types import Floats32


@dataclass(frozen=True)
class SmoothConfig:
    """Which neighbours a pixel's plane is averaged with."""

    radius: Radius = 10
    """Half window, pixels."""
    stride: Radius = 2
    """Distance of the neighbours that are asked, pixels."""
    tolerance_px: Positive = 1.0
    """Neighbours agree whose planes, drawn on to the pixel, move it in the median source by less than this."""
    sigma_grey: Positive = 10.0
    """Grey difference at which a neighbour's weight falls to 1/e."""
    rounds: Few = 3
    """Times the mean is taken, each about the last."""
    least_support: Share = 0.2
    """Share of the neighbours, by weight, that must agree, 0..1; others have no depth."""


def smoothed(
    grey: Floats32, planes: PlaneField, cost: Floats32, step: float, config: SmoothConfig
) -> tuple[PlaneField, Floats32]:
    """(the planes averaged over neighbours that lie on them, cost = 1 - share of those); 0 where too few do.

    `step` is the inverse depth that moves the median source by a pixel. A neighbour q says of pixel p
    w_q + a_q dx + b_q dy; what agrees is averaged with weights confidence x nearness x likeness x (1 - r²), r in
    tolerances.
    """
    w, a, b, share = smoothing_kernels.averaged(
        grey, planes.w, planes.a, planes.b, np.clip(1.0 - cost, 0.0, 1.0).astype(np.float32),
        config.radius, config.stride, np.float32(config.tolerance_px * step), np.float32(config.sigma_grey),
        config.rounds, np.float32(config.least_support),
    )  # fmt: skip
    return PlaneField(w, a, b), (1.0 - share).astype(np.float32)
