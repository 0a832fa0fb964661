"""Grey photos with their warps, and local planes per pixel: what the stereo backends work on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyanchor.types import Camera, Floats32


@dataclass(frozen=True, eq=False)
class GreyStack:
    """Grey photos, and how reference pixels p = (x, y, 1) map into each source: q = M p + m / z."""

    camera: Camera
    """PINHOLE, of the reference at this resolution."""
    reference: Floats32
    """(H, W)."""
    sources: Floats32
    """(S, H, W), padded to the largest."""
    sizes: Floats32
    """(S, 2), width and height in use."""
    M: Floats32
    """(S, 3, 3)."""
    m: Floats32
    """(S, 3)."""


@dataclass(frozen=True, eq=False)
class PlaneField:
    """A local plane per pixel: 1/z(p + d) = w + a dx + b dy, exact for a plane under a pinhole camera; (H, W) each."""

    w: Floats32
    a: Floats32
    b: Floats32


def pixel_grid(camera: Camera) -> tuple[Floats32, Floats32]:
    """x and y of all pixel centres, (H, W) each."""
    x, y = np.meshgrid(np.arange(camera.width) + 0.5, np.arange(camera.height) + 0.5)
    return x.astype(np.float32), y.astype(np.float32)


def upsampled(field: PlaneField, fine: Camera, coarse: Camera) -> PlaneField:
    """The field at another resolution; each fine pixel lies on the plane of the coarse pixel that holds it."""
    sx, sy = coarse.width / fine.width, coarse.height / fine.height
    x, y = pixel_grid(fine)
    column = np.minimum((x * sx).astype(np.int64), coarse.width - 1)
    row = np.minimum((y * sy).astype(np.int64), coarse.height - 1)
    a, b = field.a[row, column], field.b[row, column]
    w = field.w[row, column] + a * (x * sx - column - 0.5) + b * (y * sy - row - 0.5)
    return PlaneField(w.astype(np.float32), (a * sx).astype(np.float32), (b * sy).astype(np.float32))


def sweep_planes(
    stack: GreyStack, tilt: Floats32, distances: tuple[float, float], step_px: float, most: int
) -> Floats32:
    """Inverse distances of the planes, equally spaced, so that the median source moves by `step_px` between two."""
    low, high = 1.0 / distances[1], 1.0 / distances[0]
    p = np.array([stack.camera.width / 2.0, stack.camera.height / 2.0, 1.0])
    ends = []
    for u in (low, high):
        q = stack.M @ p + u * float(tilt @ p) * stack.m
        ends.append(q[:, :2] / q[:, 2:])
    motion = float(np.median(np.linalg.norm(ends[1] - ends[0], axis=1)))
    count = int(np.clip(np.ceil(motion / step_px), 16, most))
    return np.linspace(low, high, count, dtype=np.float32)


def pixel_step(stack: GreyStack) -> float:
    """Inverse depth that moves the median source by one pixel, at the image centre and far away."""
    p = np.array([stack.camera.width / 2.0, stack.camera.height / 2.0, 1.0])
    q = stack.M @ p
    rate = (stack.m[:, :2] - q[:, :2] / q[:, 2:] * stack.m[:, 2:]) / q[:, 2:]
    return 1.0 / float(np.median(np.linalg.norm(rate, axis=1)))
