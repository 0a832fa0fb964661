"""Pixels and depth: what counts as inside an image, what lies under a pixel, and where that is in the world.

Pixel (column, row) is the half-open square [column, column + 1) x [row, row + 1), as floor counts: the left and the
upper edge belong to the image, the right and the lower one to the next pixel, which there is none of. Whatever is
`inside` may therefore be looked up without clipping.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from skyanchor.geometry import cameras
from skyanchor.types import Bools, Camera, Floats, Floats32, Ints, Pose

Scalar = TypeVar("Scalar", bound=np.generic)


def inside(camera: Camera, xy: Floats) -> Bools:
    """(N,), which of xy (N, 2) lie on a pixel of the image: 0 <= x < width and 0 <= y < height; nan lies nowhere."""
    with np.errstate(invalid="ignore"):
        return np.asarray(((xy >= 0) & (xy < np.array([camera.width, camera.height]))).all(axis=1))


def pixel_centres(rows: Ints, columns: Ints) -> Floats:
    """(N, 2), x and y of the centres of pixels."""
    return np.stack([columns + 0.5, rows + 0.5], axis=1)


def under(grid: npt.NDArray[Scalar], xy: Floats) -> npt.NDArray[Scalar]:
    """(N, ...), values of a grid (h, w, ...) in the pixels under xy (N, 2); beyond the border those of its edge."""
    column, row = np.clip(np.floor(xy).astype(np.int64), 0, np.array(grid.shape[1::-1]) - 1).T
    return grid[row, column]


def sampled(depth: Floats32 | Floats, xy: Floats) -> Floats:
    """(N,), depth of a map (h, w), 0 = none, in the pixels under xy (N, 2); nan where it has none."""
    z: npt.NDArray[Any] = under(depth, xy).astype(np.float64)
    return np.where(z > 0, z, np.nan)


def lift(camera: Camera, cam_from_world: Pose, xy: Floats, depth: Floats | Floats32) -> Floats:
    """(N, 3), world points at depths (N,) behind pixels xy (N, 2): world_from_cam(z K⁻¹ (x, y, 1)); nan stays nan."""
    return cam_from_world.inverse(cameras.unproject(camera, xy) * depth[:, None])
