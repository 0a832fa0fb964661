"""Completion: plain regions get the plane that their measurements share, the rest joins the surface it resembles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import cv2
import numpy as np
from scipy import ndimage

from skyanchor.bounds import Count, CountOrNone, NotNegative, Positive, Range, Share
from skyanchor.geometry import cameras
from skyanchor.stereo.estimate import sweep_normal, tilt_of, world_normals
from skyanchor.stereo.planes import PlaneField, pixel_grid
from skyanchor.types import Bools, Bytes, DepthMap, Floats, Floats32, Ints, Plane


@dataclass(frozen=True)
class CompletionConfig:
    """How depth is filled in where it could not be measured."""

    plain_grey: NotNegative = 1.6
    """A pixel is plain when the grey values around it deviate by less than this."""
    fewest_pixels: Count = 300
    """Smallest plain region that gets a plane of its own, pixels."""
    tolerance_px: Positive = 4.0
    """Measurements lie on a region's plane within this many pixel footprints."""
    least_share: Share = 0.5
    """Share of a region's measurements that must lie on its plane."""
    trials: Annotated[int, Range(1, 1e6)] = 200
    """RANSAC trials per region."""
    sigma_grey: Positive = 12.0
    """Grey difference that costs as much as eight pixels of distance when a hole is filled."""
    reach_px: CountOrNone = 400
    """Holes are filled from at most this far."""
    raw_confidence: NotNegative = 0.75
    """Unconfirmed measurements of at least this photometric confidence stay."""
    confidence: Share = 0.2
    """Confidence of filled-in and of unconfirmed depth."""


def complete(
    consistent: DepthMap,
    raw: DepthMap,
    pixels: Bytes,
    ground: Plane | None = None,
    config: CompletionConfig | None = None,
) -> DepthMap:
    """The consistent map with its holes closed; what is not measured is marked `completed`.

    `raw` is the photo's own map before the consistency pass, `pixels` its photo at the map's resolution.
    """
    from skyanchor.stereo import completion_kernels

    config = config or CompletionConfig()
    camera = consistent.camera
    grey = np.ascontiguousarray(pixels.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32))
    normal = sweep_normal(camera, consistent.cam_from_world, ground)
    tilt = tilt_of(camera, normal)
    measured = consistent.depth > 0
    unconfirmed = ~measured & (raw.depth > 0) & (raw.confidence >= config.raw_confidence) & _calm(raw.depth)
    known = measured | unconfirmed
    planes = plane_field(consistent, raw, measured)
    plain = plain_regions(grey, config)
    planes, flat = flatten(
        planes, plain, measured | (raw.confidence > 0), focal=cameras.focal_px(camera), config=config
    )
    level = np.abs(world_normals(camera, consistent.cam_from_world, planes) @ _up(consistent, normal)) > 0.7
    w, a, b, filled = completion_kernels.fill(
        planes.w, planes.a, planes.b, level, known | flat, grey, np.float32(config.sigma_grey), config.reach_px, tilt
    )
    done = PlaneField(w, a, b)
    have = (known | flat | filled) & (w > 0)
    depth = np.where(have, 1.0 / np.maximum(w, 1e-9), 0.0).astype(np.float32)
    world = np.where(have[..., None], world_normals(camera, consistent.cam_from_world, done), 0.0).astype(np.float32)
    completed = have & (flat | filled)
    confidence = np.where(measured & ~flat, consistent.confidence, np.where(have, config.confidence, 0.0))
    return DepthMap(
        consistent.name, camera, consistent.cam_from_world, depth, confidence.astype(np.float32), completed, world
    )


def plane_field(consistent: DepthMap, raw: DepthMap, measured: Bools) -> PlaneField:
    """Local planes from depth and normal: n . X = d gives 1/z(p) = n . ray(p) / d; the raw map where not measured."""
    depth = np.where(measured, consistent.depth, raw.depth)
    normal = np.where(measured[..., None], consistent.normal, raw.normal)
    camera = consistent.camera
    K = cameras.calibration(camera)
    n = normal @ consistent.cam_from_world.rotation.T.astype(np.float32)
    x, y = pixel_grid(camera)
    along = n[..., 0] * (x - K[0, 2]) / K[0, 0] + n[..., 1] * (y - K[1, 2]) / K[1, 1] + n[..., 2]
    w = np.where(depth > 0, 1.0 / np.maximum(depth, 1e-9), 0.0)
    rate = np.where(np.abs(along) > 0.05, w / np.where(np.abs(along) > 0.05, along, 1.0), 0.0)
    a, b = n[..., 0] / K[0, 0] * rate, n[..., 1] / K[1, 1] * rate
    return PlaneField(w.astype(np.float32), a.astype(np.float32), b.astype(np.float32))


def plain_regions(grey: Floats32, config: CompletionConfig) -> Ints:
    """Labels (H, W) of connected plain regions that are large enough, 0 elsewhere."""
    mean = cv2.boxFilter(grey, -1, (7, 7))
    variance = cv2.boxFilter(grey * grey, -1, (7, 7)) - mean * mean
    labels, count = ndimage.label(variance < config.plain_grey**2)
    size = np.bincount(labels.ravel(), minlength=count + 1)
    size[0] = 0
    return np.where(size[labels] >= config.fewest_pixels, labels, 0)


def flatten(
    planes: PlaneField, regions: Ints, usable: Bools, focal: float, config: CompletionConfig
) -> tuple[PlaneField, Bools]:
    """Planes with every plain region set to the plane its measurements share, and where that was done."""
    from skyanchor.stereo import completion_kernels

    w, a, b = planes.w.copy(), planes.a.copy(), planes.b.copy()
    flat = np.zeros(w.shape, bool)
    for label, box in enumerate(ndimage.find_objects(regions), start=1):
        if box is None:
            continue
        inside = regions[box] == label
        rows, columns = np.nonzero(inside)
        ok = usable[box][rows, columns]
        if ok.sum() < config.fewest_pixels // 2:
            continue
        x, y = (columns - columns.mean()) / 100.0, (rows - rows.mean()) / 100.0
        values = w[box][rows, columns].astype(np.float64)
        tolerance = config.tolerance_px / focal * np.maximum(values, 1e-9)  # dw = dz w² and dz = t z / f
        pa, pb, pc, share = completion_kernels.fit_plane(x[ok], y[ok], values[ok], tolerance[ok], config.trials, label)
        if share < config.least_share:
            continue
        w[box][rows, columns] = pa * x + pb * y + pc
        a[box][rows, columns], b[box][rows, columns] = pa / 100.0, pb / 100.0
        flat[box][rows, columns] = True
    return PlaneField(w, a, b), flat


def _calm(depth: Floats32) -> Bools:
    """Whether a depth agrees with the median around it: within 1 %."""
    median = cv2.medianBlur(depth, 5)
    return np.asarray(np.abs(depth - median) < 0.01 * depth)


def _up(depth_map: DepthMap, normal: Floats) -> Floats:
    """The sweep's normal in world axes."""
    return np.asarray(depth_map.cam_from_world.rotation.T @ normal)
