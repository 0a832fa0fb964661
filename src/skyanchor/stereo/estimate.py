"""Depth of one photo at known poses: plane sweep with semi-global aggregation, then slanted-plane PatchMatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import cv2
import numpy as np

from skyanchor.bounds import Pixels, Range
from skyanchor.geometry import cameras, rigid
from skyanchor.photos import PhotoCache
from skyanchor.stereo.backends import AnyStereo, NumbaStereo, Photometry, RefineConfig, SweepConfig
from skyanchor.stereo.planes import GreyStack, PlaneField, pixel_grid, pixel_step, sweep_planes, upsampled
from skyanchor.stereo.smoothing import SmoothConfig, smoothed
from skyanchor.stereo.sources import depth_range
from skyanchor.types import QUIET, Bools, Camera, DepthMap, Floats, Floats32, Plane, Pose, View

FEWEST_POINTS = 20
"""On one side of the eye, that say how far surfaces lie on that side."""
BEYOND = 1.2
"""So many times as far as those points planes are looked for ..."""
RANGE = 6.0
"""... and as near as this part of it: the roofs of cars are nearer to the eye than the road."""
LEAST_WAY_M = 0.1
"""Cameras that lie apart by less show no way."""
AROUND = (5, 5)
"""Pixels over which two surfaces are compared, at the sweep's scale."""


@dataclass(frozen=True)
class StereoConfig:
    """How the depth of one photo is measured."""

    width: Pixels = 3072
    """Width of the depth map at most, pixels."""
    sweep_scale: Annotated[int, Range(1, 16)] = 2
    """The sweep runs on photos smaller by this factor."""
    photometry: Photometry = field(default_factory=Photometry)
    sweep: SweepConfig = field(default_factory=SweepConfig)
    refine: RefineConfig = field(default_factory=RefineConfig)
    smooth: SmoothConfig | None = field(default=None, metadata=QUIET)
    """How planes are averaged over neighbours at last; None leaves them as they were found."""
    backend: AnyStereo = field(default_factory=NumbaStereo)


def estimate_depth(
    reference: View,
    sources: list[View],
    hints: Floats,
    photos: PhotoCache,
    config: StereoConfig | None = None,
    ground: Plane | None = None,
    span: tuple[float, float] | None = None,
    up: Floats | None = None,
) -> DepthMap:
    """Measured depth, confidence and normals of one photo; a pure function of the photos and poses.

    `hints` are sparse points (N, 3) in view; they bound the search. With a ground plane below the photo the sweep
    runs over planes parallel to it: roofs and ground then cost nothing in the smoothness term, however oblique the
    photo. Without one the planes are fronto-parallel. What a mask blackens has no depth and measures none, nor has a
    photo without sources. With a `span` the search goes from its nearest to its farthest depth, metres, whatever the
    hints say: what lies beyond an end would be found at that end. With `up` (3,), world axes, for a photo that looks
    along a street, planes of its ground and of the fronts along the way are swept too, level and upright ones tried.
    """
    config = config or StereoConfig()
    if not sources:
        return unmeasured(reference, grey_photo(reference, photos, config.width)[1])
    coarse = grey_stack(reference, sources, photos, config.width // config.sweep_scale)
    fine = grey_stack(reference, sources, photos, config.width)
    normal = sweep_normal(coarse.camera, reference.cam_from_world, ground)
    w_range = inverse_range(span or depth_range(reference, hints, ground))
    distances = span or distance_range(reference.cam_from_world, normal, hints, ground)
    surface = swept(coarse, normal, distances, config)
    if up is not None:
        normal = -reference.cam_from_world.rotation @ up
        sides = sides_of_the_way(reference, sources, normal)
        surface = with_street(coarse, surface, (normal, *sides), reference.cam_from_world(hints), config)
    planes, cost = refined(coarse, fine, surface, normal, w_range, config)
    if config.smooth is not None:
        planes, cost = smoothed(fine.reference, planes, cost, pixel_step(fine), config.smooth)
    return as_depth_map(reference, fine.camera, planes, cost, masked_out(reference, photos, fine.camera))


def swept(stack: GreyStack, normal: Floats, distances: tuple[float, float], config: StereoConfig) -> PlaneField:
    """The semi-global surface over the planes {x : normal . x = distance}."""
    tilt = tilt_of(stack.camera, normal)
    u_planes = sweep_planes(stack, tilt, distances, config.sweep.step_px, config.sweep.most_planes)
    u = config.backend.load().sweep(stack, tilt, u_planes, config.photometry, config.sweep)
    x, y = pixel_grid(stack.camera)
    return PlaneField(u * (tilt[0] * x + tilt[1] * y + tilt[2]), u * tilt[0], u * tilt[1])


def with_street(
    stack: GreyStack, surface: PlaneField, normals: Sequence[Floats], points: Floats, config: StereoConfig
) -> PlaneField:
    """The surface, and planes across the normals, camera axes, where these fit the photos better.

    `points` (N, 3), camera axes, say how far to look. A road ahead and the fronts beside it are seen at a low angle:
    planes across the view find them in steps, and plain asphalt keeps the traces.
    """
    cost = _fit(stack, surface, normals[0], config)
    for normal in normals:
        along = points @ normal
        if (along > 0).sum() < FEWEST_POINTS:
            continue
        farthest = BEYOND * float(np.percentile(along[along > 0], 98.0))
        planes = swept(stack, normal, (farthest / RANGE, farthest), config)
        new = _fit(stack, planes, normal, config)
        better = (planes.w > 0) & (new <= cost)
        pairs = ((surface.w, planes.w), (surface.a, planes.a), (surface.b, planes.b))
        surface = PlaneField(*(np.where(better, theirs, ours).astype(np.float32) for ours, theirs in pairs))
        cost = np.where(better, new, cost)
    return surface


def _fit(stack: GreyStack, planes: PlaneField, normal: Floats, config: StereoConfig) -> Floats32:
    """(H, W), photometric cost of the planes, averaged around each pixel."""
    settings = ((0.0, np.inf), config.photometry, config.refine, range(0))
    _, cost = config.backend.load().refine(stack, planes, planes, tilt_of(stack.camera, normal), *settings)
    return np.asarray(cv2.blur(cost, AROUND), np.float32)


def sides_of_the_way(reference: View, sources: Sequence[View], down: Floats) -> tuple[Floats, ...]:
    """To the left and to the right of the way through the sources, level unit vectors in camera axes; none at a stand.

    The way is the axis along which the cameras lie apart most.
    """
    centres = reference.cam_from_world(rigid.centres_in_world([view.cam_from_world for view in sources]))
    level = centres - np.outer(centres @ down, down)
    _, spread, axes = np.linalg.svd(level, full_matrices=False)
    if spread[0] < LEAST_WAY_M:
        return ()
    side = np.cross(down, axes[0])
    return side, -side


def refined(
    coarse: GreyStack,
    fine: GreyStack,
    surface: PlaneField,
    normal: Floats,
    w_range: tuple[float, float],
    config: StereoConfig,
) -> tuple[PlaneField, Floats32]:
    """The fine planes and their photometric cost, from the coarse surface: first at its size, then at full size."""
    backend, settings = config.backend.load(), (w_range, config.photometry, config.refine)
    early, all_rounds = config.refine.coarse_rounds, config.refine.coarse_rounds + config.refine.rounds
    start = surface
    if early:
        coarsely = (coarse, surface, surface, tilt_of(coarse.camera, normal))
        start, _ = backend.refine(*coarsely, *settings, range(early), scored=False)
    start, first = (upsampled(field, fine.camera, coarse.camera) for field in (start, surface))
    return backend.refine(fine, start, first, tilt_of(fine.camera, normal), *settings, range(early, all_rounds))


# --- inputs -------------------------------------------------------------------------------------------------------


def grey_stack(reference: View, sources: list[View], photos: PhotoCache, width: int) -> GreyStack:
    """The photos at `width` pixels with their warps."""
    grey, camera = grey_photo(reference, photos, width)
    pairs = [grey_photo(view, photos, width) for view in sources]
    height_width = np.array([image.shape for image, _ in pairs])
    stack = np.zeros((len(pairs), *height_width.max(axis=0)), np.float32)
    for slot, (image, _) in zip(stack, pairs, strict=True):
        slot[: image.shape[0], : image.shape[1]] = image
    warps = [
        warp(camera, reference.cam_from_world, c, v.cam_from_world) for (_, c), v in zip(pairs, sources, strict=True)
    ]
    M = np.array([M for M, _ in warps], dtype=np.float32)
    m = np.array([m for _, m in warps], dtype=np.float32)
    return GreyStack(camera, grey, stack, height_width[:, ::-1].astype(np.float32), M, m)


def grey_photo(view: View, photos: PhotoCache, width: int) -> tuple[Floats32, Camera]:
    """Grey values (H, W) and PINHOLE camera at `width`, averaged down in floating point to keep weak texture."""
    width = min(width, view.camera.width)
    fine_width = min(view.camera.width, 2 * width)
    photo, fine = photos.photo(view.name, view.path, view.camera, fine_width, view.mask_path)
    camera = cameras.scaled(fine, width)
    grey = photo.pixels.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)
    if photo.mask is not None and photo.mask.any():
        grey = np.where(photo.mask, grey, grey[photo.mask].mean())  # a plain patch, which fits nothing
    if width != fine_width:
        grey = cv2.resize(grey, (camera.width, camera.height), interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(grey), camera


def masked_out(view: View, photos: PhotoCache, camera: Camera) -> Bools | None:
    """(H, W), where the view's mask is black at the size of `camera`; None without a mask."""
    if view.mask_path is None:
        return None
    fine_width = min(view.camera.width, 2 * camera.width)
    photo, _ = photos.photo(view.name, view.path, view.camera, fine_width, view.mask_path)
    used = np.asarray(photo.mask).astype(np.float32)
    return np.asarray(cv2.resize(used, (camera.width, camera.height), interpolation=cv2.INTER_AREA) < 0.5)


def warp(camera: Camera, cam_from_world: Pose, other: Camera, other_from_world: Pose) -> tuple[Floats, Floats]:
    """M = K_s R K⁻¹ and m = K_s t of other_from_cam: pixel p at depth z lies at q = M p + m / z."""
    relative = other_from_world @ cam_from_world.inverse
    K = cameras.calibration(other)
    return K @ relative.rotation @ np.linalg.inv(cameras.calibration(camera)), K @ relative.translation


def sweep_normal(camera: Camera, cam_from_world: Pose, ground: Plane | None) -> Floats:
    """Direction the sweep goes, camera axes: down if all rays descend by 8 degrees or more, else the optical axis."""
    forward = np.array([0.0, 0.0, 1.0])
    if ground is None:
        return forward
    down = -cam_from_world.rotation @ ground.normal
    w, h = camera.width, camera.height
    corners = cameras.unproject(camera, np.array([[0.0, 0.0], [w, 0.0], [0.0, h], [w, h]]))
    sine = corners @ down / np.linalg.norm(corners, axis=1)
    return down if sine.min() > np.sin(np.deg2rad(8.0)) else forward


def tilt_of(camera: Camera, normal: Floats) -> Floats32:
    """K⁻ᵀ n: the plane at distance 1/u along n has 1/z(p) = u tilt . p."""
    return (np.linalg.inv(cameras.calibration(camera)).T @ normal).astype(np.float32)


def distance_range(cam_from_world: Pose, normal: Floats, hints: Floats, ground: Plane | None) -> tuple[float, float]:
    """Nearest and farthest plane along the sweep's normal, metres: what hints and ground span, with a margin."""
    along = cam_from_world(hints) @ normal
    near, far = np.percentile(along[along > 0], [0.5, 99.5]) if (along > 0).any() else (0.1, 1000.0)
    margin = 0.05 * far + 0.25 * (far - near)
    if ground is not None:
        height = float(ground.normal @ rigid.centre_in_world(cam_from_world)) - ground.offset
        far = max(far, height) if normal[2] < 0.999 else far
    return max(near - margin, 0.2 * near), far + margin


def inverse_range(depths: tuple[float, float]) -> tuple[float, float]:
    """Lowest and highest inverse depth."""
    return 1.0 / depths[1], 1.0 / depths[0]


# --- outputs ------------------------------------------------------------------------------------------------------


def as_depth_map(
    view: View, camera: Camera, planes: PlaneField, cost: Floats32, ignored: Bools | None = None
) -> DepthMap:
    """Depth, confidence = 1 - cost, and normals; none of them where `ignored` (H, W)."""
    depth = np.where(planes.w > 0, 1.0 / np.maximum(planes.w, 1e-9), 0.0).astype(np.float32)
    confidence = np.clip(1.0 - cost, 0.0, 1.0).astype(np.float32)
    if ignored is not None:
        depth[ignored], confidence[ignored] = 0.0, 0.0
    normal = world_normals(camera, view.cam_from_world, planes)
    normal[depth <= 0] = 0.0
    return DepthMap(view.name, camera, view.cam_from_world, depth, confidence, np.zeros(depth.shape, bool), normal)


def unmeasured(view: View, camera: Camera) -> DepthMap:
    """A map without any depth."""
    shape = (camera.height, camera.width)
    depth, normal = np.zeros(shape, np.float32), np.zeros((*shape, 3), np.float32)
    return DepthMap(view.name, camera, view.cam_from_world, depth, depth.copy(), np.zeros(shape, bool), normal)


def world_normals(camera: Camera, cam_from_world: Pose, planes: PlaneField) -> Floats32:
    """(H, W, 3): the plane is g . X = 1 with g = Kᵀ (a, b, w - a x - b y); the normal towards the camera is -g/|g|."""
    x, y = pixel_grid(camera)
    g = np.stack([planes.a, planes.b, planes.w - planes.a * x - planes.b * y], axis=-1) @ cameras.calibration(camera)
    g = g @ cam_from_world.rotation
    return (-g / np.maximum(np.linalg.norm(g, axis=-1, keepdims=True), 1e-20)).astype(np.float32)
