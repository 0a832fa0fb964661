"""Shapes, constants and compiler settings that the kernels share."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from skyanchor.types import Floats32

F: Final = np.float32
"""Every literal in a kernel goes through this: one float64 literal makes a whole loop float64."""

FAST: Final[dict[str, Any]] = {
    "fastmath": {"nnan", "ninf", "nsz", "arcp", "contract", "reassoc", "afn"},
    "error_model": "numpy",
    "boundscheck": False,
    "cache": True,
}
"""Settings of kernels that only ever see finite numbers."""
SAFE: Final[dict[str, Any]] = {**FAST, "fastmath": {"nsz", "arcp", "contract", "reassoc", "afn"}}
"""Settings of kernels that see the user's numbers: comparisons with nan and inf mean what they say."""
FAST_INLINE: Final[dict[str, Any]] = {**FAST, "forceinline": True}
SAFE_INLINE: Final[dict[str, Any]] = {**SAFE, "forceinline": True}
"""Settings of helpers: a call that is not inlined pushes every field of every array it is given onto the stack."""

BLOCK: Final = 512
"""Gaussians per parallel job."""
TILE: Final = 16
"""Edge of a tile, pixels."""
TILE_PIXELS: Final = TILE * TILE
CHUNKS: Final = 32
"""Parallel jobs of the binning."""

ALPHA_MIN: Final = F(1.0 / 255.0)
"""A Gaussian below this alpha at a pixel is not drawn there."""
STOP: Final = F(1e-4)
"""A pixel is full when the next Gaussian would take its transmittance to this or below; that one is left out."""

DRAWN: Final = 10
"""Columns of what a tile needs to know about a Gaussian, and of the gradient with respect to it."""
MEAN_X: Final = 0
MEAN_Y: Final = 1
CONIC_A: Final = 2
CONIC_B: Final = 3
CONIC_C: Final = 4
OPACITY: Final = 5
RED: Final = 6
GREEN: Final = 7
BLUE: Final = 8
DEPTH: Final = 9

REACH: Final = 3
"""Columns of how far a Gaussian reaches: variances in x and y (pixels²), level = 2 ln(255 opacity); 0 = not drawn."""
VAR_X: Final = 0
VAR_Y: Final = 1
LEVEL: Final = 2


class Splats(NamedTuple):
    """The parameters of N Gaussians, C-contiguous float32, as in `SplatTensors`."""

    means: Floats32
    quats: Floats32
    log_scales: Floats32
    logits: Floats32
    sh: Floats32


class Lens(NamedTuple):
    """A pinhole camera and the constants of projection, float32 scalars."""

    fx: np.float32
    fy: np.float32
    cx: np.float32
    cy: np.float32
    width: np.float32
    height: np.float32
    near: np.float32
    far: np.float32
    blur: np.float32
