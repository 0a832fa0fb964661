"""Grey photos with their warps, and local planes per pixel: what the stereo backends work on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyanchor.types import Camera, Floats, Floats32


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
    if looks_along(stack):
        p = _grid(stack)
        p = p[p @ tilt > 0]  # where the planes are seen: level ones below the horizon
        rate = np.linalg.norm(_rates(stack, p), axis=2) * (p @ tilt)[:, None]
        motion = (high - low) * float(np.median(rate))
    else:
        p = np.array([stack.camera.width / 2.0, stack.camera.height / 2.0, 1.0])
        ends = []
        for u in (low, high):
            q = stack.M @ p + u * float(tilt @ p) * stack.m
            ends.append(q[:, :2] / q[:, 2:])
        motion = float(np.median(np.linalg.norm(ends[1] - ends[0], axis=1)))
    count = int(np.clip(np.ceil(motion / step_px), 16, most))
    return np.linspace(low, high, count, dtype=np.float32)


def pixel_step(stack: GreyStack) -> float:
    """Inverse depth that moves the median source by one pixel, far away: at the image centre, or see `looks_along`."""
    p = np.array([[stack.camera.width / 2.0, stack.camera.height / 2.0, 1.0]])
    rate = _rates(stack, _grid(stack) if looks_along(stack) else p)
    return 1.0 / float(np.median(np.linalg.norm(rate, axis=2)))


def looks_along(stack: GreyStack) -> bool:
    """Whether most sources lie ahead of the picture or behind it, as on a walk.

    Their epipoles M⁻¹ m are then in it: nothing moves there, so motion is measured all over the picture.
    """
    e = np.linalg.solve(stack.M.astype(np.float64), stack.m.astype(np.float64)[..., None])[..., 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = e[:, :2] / e[:, 2:] / [stack.camera.width, stack.camera.height]
    return bool(np.all((share > 0.0) & (share < 1.0), axis=1).mean() > 0.5)


def _grid(stack: GreyStack) -> Floats:
    """(P, 3), pixels spread over the picture."""
    x, y = np.meshgrid((np.arange(8) + 0.5) / 8 * stack.camera.width, (np.arange(6) + 0.5) / 6 * stack.camera.height)
    return np.stack([x.ravel(), y.ravel(), np.ones(x.size)], axis=1)


def _rates(stack: GreyStack, p: Floats) -> Floats:
    """(P, S, 2), motion of pixels p (P, 3) in the sources per inverse depth, far away, pixels times metres."""
    q = np.einsum("sij,pj->psi", stack.M, p)
    return np.asarray((stack.m[:, :2] - q[..., :2] / q[..., 2:] * stack.m[:, 2:]) / q[..., 2:])
