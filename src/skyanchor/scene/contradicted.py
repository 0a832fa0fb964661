"""What one street photo shows and its neighbours contradict: who passes by, a shadow that moves, a reflection.

Neighbours draw their confirmed surfaces into the photo, with their colours in its exposure. Where most of them agree on
a surface and on its colour and the photo shows another one, beyond what a few pixels of error explain, it shows
something that was there only then. A thin thing that stands there is contradicted as well, for its depth is seldom
confirmed and neighbours look past it; but then they show it too, at one depth in front of the surface.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from skyanchor.ahead import made_ahead
from skyanchor.bounds import Count, Few, Pixels, Positive, Share
from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import inside, lift, pixel_centres, under
from skyanchor.photos import PhotoCache
from skyanchor.scene.colours import Pairs, shared_exposure
from skyanchor.scene.masks import in_photo
from skyanchor.stereo.consistency import ConsistencyConfig, drawn, voted
from skyanchor.types import Bools, Bytes, Camera, DepthMap, Floats, Floats32, Ints, Pose, View

PAIRED = 4000
"""Pixels of a neighbour, about, by which its exposure against the photo is found."""
RATIOS, DARK = 0.3, 0.02
"""Range of the ratios of their brightness, log, that one exposure may have; what is darker, 0..1, counts as this."""
FACING = 0.8
"""Least cosine between the axes of two cameras that are asked about each other."""
NEAREST, DEPTHS = 0.1, 24
"""Depths in front of a surface at which a thing is looked for: so many, from this fraction of the surface's on."""
ASKED = 200
"""Pixels of a region by which it is looked for."""


@dataclass(frozen=True)
class ContradictedConfig:
    """When a street photo is contradicted by its neighbours."""

    width: Pixels = 240
    """Photos are compared at most this wide, pixels; the lengths below are such pixels."""
    neighbours: Few = 8
    """Depth maps, the nearest ones, that say what a photo should show."""
    alike: Positive = 0.08
    """Colours this near to each other are the same, 0..1, the channel that differs most."""
    differs: Positive = 0.12
    """A photo shows something else where its colour differs more than that from all that neighbours agree on nearby."""
    reach_px: Count = 2
    """Nearby: within so many pixels."""
    least_share: Share = 0.0005
    """Smaller regions are left, share of the photo."""
    most_share: Share = 0.5
    """A photo of which more is contradicted stays whole: its pose or its light is another one, not what it shows."""
    gap_px: Count = 4
    """Gaps of up to twice as many pixels in what is found and between are closed ..."""
    border_px: Count = 2
    """... and it is widened by so many."""


@dataclass(frozen=True, eq=False)
class _Asked:
    """A neighbour as it is asked."""

    depth: DepthMap
    colors: Floats32
    """(H, W, 3), 0..1, of its photo at the size of the map."""


@dataclass(frozen=True, eq=False)
class _Expected:
    """What neighbours agree on in the pixels of a photo."""

    colors: Floats32
    """(H, W, 3), 0..1, in the photo's exposure."""
    depth: Floats32
    """(H, W), metres."""
    known: Bools
    """(H, W), where enough of them agree."""
    exposures: tuple[Floats, ...]
    """(3, 4) each, what turns the colours of a neighbour into those of the photo."""


def uses(
    views: Sequence[View],
    maps: Sequence[DepthMap],
    of_maps: Sequence[View],
    tolerance: float,
    config: ContradictedConfig,
) -> Iterator[tuple[View, Bools]]:
    """The views that something is left out of, and where they count, (h, w) of the photo at most `width` wide.

    `maps` are of the views `of_maps`, found by name; depths that differ by less than `tolerance`, a fraction of
    them, are of one surface.
    """
    by_name = {view.name: view for view in of_maps}
    photos = PhotoCache(128 << 20)
    asked = list(made_ahead(lambda one: _asked(one, by_name[one.name], photos, config), maps))
    found = made_ahead(lambda view: (view, contradicted(view, asked, photos, tolerance, config)), views)
    for view, (camera, mask) in found:
        if mask.any():
            yield view, in_photo(~mask, camera, view.camera)


def contradicted(
    view: View, asked: Sequence[_Asked], photos: PhotoCache, tolerance: float, config: ContradictedConfig
) -> tuple[Camera, Bools]:
    """The view's pinhole at the width of the comparison, and (H, W), what its neighbours contradict."""
    near = _neighbours(view, asked, config)
    photo, camera = photos.photo(view.name, view.path, view.camera, config.width, view.mask_path)
    nothing = np.zeros(photo.pixels.shape[:2], np.bool_)
    if len(near) < 3:
        return camera, nothing
    shown = _blurred(photo.pixels)
    expected = _expected(camera, view.cam_from_world, shown, near, tolerance, config)
    off = np.where(expected.known, _outside(shown, expected, config.reach_px), np.float32(0.0))
    regions = _regions(off, config)
    for k in range(1, int(regions.max()) + 1):
        if _stands(regions == k, shown, expected, camera, view.cam_from_world, near, config):
            regions[regions == k] = 0
    whole = cv2.morphologyEx((regions > 0).astype(np.uint8), cv2.MORPH_CLOSE, _disc(config.gap_px))
    mask = cv2.dilate(whole, _disc(config.border_px)) > 0
    return camera, nothing if mask.mean() > config.most_share else np.asarray(mask)


def _asked(one: DepthMap, view: View, photos: PhotoCache, config: ContradictedConfig) -> _Asked:
    """The map at the width of the comparison, without what the user masked."""
    photo, camera = photos.photo(view.name, view.path, view.camera, config.width, view.mask_path)
    (height, width), (rows, columns) = photo.pixels.shape[:2], one.depth.shape
    at = np.ix_((np.arange(height) * 2 + 1) * rows // (2 * height), (np.arange(width) * 2 + 1) * columns // (2 * width))
    depth = one.depth[at] if photo.mask is None else one.depth[at] * photo.mask
    parts = depth, one.confidence[at], one.completed[at], one.normal[at]
    small = DepthMap(one.name, camera, one.cam_from_world, *parts)
    return _Asked(small, _blurred(photo.pixels))


def _blurred(pixels: Bytes) -> Floats32:
    """Colours 0..1 without detail of a pixel, which poses and depth do not carry over."""
    return np.asarray(cv2.GaussianBlur(pixels.astype(np.float32) / 255.0, (0, 0), 1.0))


def _neighbours(view: View, asked: Sequence[_Asked], config: ContradictedConfig) -> list[_Asked]:
    """Those with the nearest cameras that look the same way, the view itself left out."""
    others = [one for one in asked if one.depth.name != view.name]
    axis = view.cam_from_world.rotation[2]
    others = [one for one in others if one.depth.cam_from_world.rotation[2] @ axis >= FACING]
    centres = rigid.centres_in_world([one.depth.cam_from_world for one in others])
    away = np.linalg.norm(centres - rigid.centre_in_world(view.cam_from_world), axis=1)
    return [others[k] for k in np.argsort(away, kind="stable")[: config.neighbours]]


def _expected(
    camera: Camera, pose: Pose, shown: Floats32, near: Sequence[_Asked], tolerance: float,
    config: ContradictedConfig,
) -> _Expected:  # fmt: skip
    """Surface and colour that most neighbours agree on, where at least two do."""
    layers = drawn(_blank(camera, pose), [one.depth for one in near], tolerance, ConsistencyConfig())
    z, sure = layers.z[1:], layers.confidence[1:]
    depth, _, _, _ = voted(z, sure, tolerance)
    colors, exposures = np.zeros((*z.shape, 3), np.float32), []
    for k, one in enumerate(near):
        colors[k] = one.colors.reshape(-1, 3)[layers.sample[k + 1]]
        exposures.append(_exposure(shown[z[k] > 0], colors[k][z[k] > 0]))
        colors[k] = colors[k] @ exposures[k][:, :3].T + exposures[k][:, 3]
    on = (z > 0) & (np.abs(z - depth) <= tolerance * depth)
    shared, agreeing = _shared(colors, on, config.alike)
    asked = on.sum(axis=0)
    known = ((agreeing >= 2) & (2 * agreeing > asked)) | ((agreeing >= 3) & (3 * agreeing >= asked))
    return _Expected(shared, depth, np.asarray(known), tuple(exposures))


def _blank(camera: Camera, pose: Pose) -> DepthMap:
    shape = (camera.height, camera.width)
    zero = np.zeros(shape, np.float32)
    return DepthMap("", camera, pose, zero, zero, np.zeros(shape, np.bool_), np.zeros((*shape, 3), np.float32))


def _exposure(shown: Floats32, theirs: Floats32) -> Floats:
    """(3, 4), colours (N, 3) of a neighbour as the photo has them.

    By what most pixels say, the densest range of ratios: a shadow over a third of the photo is no exposure.
    """
    every = max(1, len(shown) // PAIRED)
    shown, theirs = shown[::every], theirs[::every]
    ratio = np.log(np.maximum(shown.mean(axis=1), DARK) / np.maximum(theirs.mean(axis=1), DARK))
    order = np.sort(ratio)
    count = np.searchsorted(order, order + RATIOS, side="right") - np.arange(len(order))
    least = order[np.argmax(count)] if len(order) else 0.0
    held = (ratio >= least) & (ratio <= least + RATIOS)
    return shared_exposure(Pairs(shown[held].astype(np.float64), theirs[held].astype(np.float64)))


def _shared(colors: Floats32, on: Bools, alike: float) -> tuple[Floats32, Ints]:
    """(H, W, 3), mean of the colours that most of the layers (N, H, W, 3) share where they are on, and by how many."""
    most, mean = np.zeros(on.shape[1:], np.int64), np.zeros(colors.shape[1:], np.float32)
    for one, there in zip(colors, on, strict=True):
        like = there & on & (np.abs(colors - one).max(axis=3) <= alike)
        count = like.sum(axis=0)
        total = np.einsum("nhw,nhwc->hwc", like, colors) / np.maximum(count, 1)[..., None]
        mean = np.where((count > most)[..., None], total, mean).astype(np.float32)
        most = np.maximum(most, count)
    return mean, most


def _outside(shown: Floats32, expected: _Expected, reach: int) -> Floats32:
    """(H, W), how far each pixel's colour lies outside those expected within `reach` pixels, the worst channel."""
    square, known = np.ones((2 * reach + 1, 2 * reach + 1), np.uint8), expected.known[..., None]
    least = cv2.erode(np.where(known, expected.colors, np.float32(9.0)), square)
    most = cv2.dilate(np.where(known, expected.colors, np.float32(-9.0)), square)
    return np.asarray(np.maximum(least - shown, shown - most).max(axis=2))


def _regions(off: Floats32, config: ContradictedConfig) -> Ints:
    """(H, W), regions from 1 on: what differs for sure, with what is joined to it and differs half as much."""
    sure = cv2.morphologyEx((off > config.differs).astype(np.uint8), cv2.MORPH_OPEN, _disc(1))
    _, labels, stats, _ = cv2.connectedComponentsWithStats((off > 0.5 * config.differs).astype(np.uint8))
    inside_sure = np.bincount(labels[sure > 0], minlength=len(stats))
    large = (inside_sure >= config.least_share * off.size) & (np.arange(len(stats)) > 0)
    number = np.where(large, np.cumsum(large), 0)
    return np.asarray(number[labels], np.int64)


def _disc(radius: int) -> np.ndarray:
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1)))


def _stands(
    region: Bools, shown: Floats32, expected: _Expected, camera: Camera, pose: Pose, near: Sequence[_Asked],
    config: ContradictedConfig,
) -> bool:  # fmt: skip
    """Whether what the region shows stands in front of the surface: at one depth most neighbours show it there too."""
    rows, columns = np.nonzero(region & expected.known)
    every = max(1, len(rows) // ASKED)
    rows, columns = rows[::every], columns[::every]
    far = float(np.median(expected.depth[rows, columns]))
    steps = np.linspace(1.0, 1.0 / NEAREST, DEPTHS + 1)[1:]
    xy, own = pixel_centres(rows, columns), shown[rows, columns]
    for depth in far / steps:
        points = lift(camera, pose, xy, np.full(len(xy), depth))
        met, alike = np.zeros(len(xy)), np.zeros(len(xy))
        for one, exposure in zip(near, expected.exposures, strict=True):
            in_cam = one.depth.cam_from_world(points)
            at = cameras.project(one.depth.camera, np.where(in_cam[:, 2:] > 0, in_cam, [0.0, 0.0, 1.0]))
            seen = (in_cam[:, 2] > 0) & inside(one.depth.camera, at)
            theirs = under(one.colors, at) @ exposure[:, :3].T + exposure[:, 3]
            met += seen
            alike += seen & (np.abs(theirs - own).max(axis=1) <= config.alike)
        if np.mean((met >= 2) & (3 * alike >= 2 * met)) > 0.5:
            return True
    return False
