"""Windows of large aerial photos: what is painted from a photo is as fine as the photo, however large that is.

A survey camera takes 100 megapixels, and a street sees a thousandth of them. Reduced to a size that can be held in
memory, a house front of such a photo has a pixel of half a metre. So photos that would be reduced too far are cut into
windows that are views of their own: pinhole cameras of the photo's pose, the principal point moved. Photos that are
fine enough stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated

import numpy as np

from skyanchor.bounds import Positive, Range
from skyanchor.geometry import cameras
from skyanchor.geometry.depth import inside
from skyanchor.stereo.sources import in_frame
from skyanchor.types import Camera, Floats, Ints, Scaffold, Tracks, View

MARGIN = 32
"""Pixels by which a window reaches into those beside it: patches at its edge are whole in one of them."""
SLACK = 1.15
"""A photo that is larger than a window by no more than this stays whole."""


@dataclass(frozen=True)
class WindowConfig:
    """When photos are cut, and how."""

    longest: Annotated[int, Range(256, 65536)] = 1600
    """Longer side of a window at most, pixels; a photo of about this size stays whole."""
    finest_m: Positive = 0.06
    """Photos are reduced to this ground sample distance first, metres per pixel, if they are finer."""


@dataclass(frozen=True)
class Cut:
    """How one photo is cut."""

    photo: int
    """Index among the scaffold's photos."""
    width: int
    """It is reduced to this width first, pixels."""
    columns: int
    rows: int


@dataclass(frozen=True)
class Box:
    """The pixels of a window, of the photo at the width that it is cut at: from the low ends up to the high ones."""

    left: int
    top: int
    right: int
    bottom: int


def ground_samples(scaffold: Scaffold) -> Floats:
    """(V,), metres that a pixel of each photo covers: depth over focal length, the median of its points; nan if none.

    A front that faces the camera is sampled so, level ground a little coarser.
    """
    found = np.full(len(scaffold.views), np.nan)
    for index, points in enumerate(_seen_points(scaffold)):
        view = scaffold.views[index]
        depth = view.cam_from_world(points)[:, 2]
        if (depth > 0).any():
            found[index] = np.median(depth[depth > 0]) / cameras.focal_px(view.camera)
    return found


def _seen_points(scaffold: Scaffold) -> Iterator[Floats]:
    """(N, 3), the points of each view in turn: those of its tracks, or what projects into it in a model without."""
    tracks = scaffold.tracks
    if not len(tracks.point):
        yield from (scaffold.points[in_frame(view, scaffold.points)] for view in scaffold.views)
        return
    for rows in _rows_of_views(tracks, len(scaffold.views)):
        yield scaffold.points[tracks.point[rows]]


def _rows_of_views(tracks: Tracks, views: int) -> list[Ints]:
    """Which observations are of each view."""
    order = np.argsort(tracks.image, kind="stable")
    return np.split(order, np.searchsorted(tracks.image[order], np.arange(1, views)))


def cuts_of(scaffold: Scaffold, config: WindowConfig) -> tuple[Cut, ...]:
    """The photos that need windows; none of a flight whose photos are small, or fine when they are reduced."""
    samples = ground_samples(scaffold)
    if not np.isfinite(samples).any():
        return ()
    samples = np.where(np.isfinite(samples), samples, np.nanmedian(samples))
    found = []
    for index, (view, sample) in enumerate(zip(scaffold.views, samples, strict=True)):
        reduced = min(1.0, sample / config.finest_m)
        width, height = np.ceil(np.array([view.camera.width, view.camera.height]) * reduced).astype(int)
        if max(width, height) > SLACK * config.longest:
            inner = config.longest - 2 * MARGIN
            found.append(Cut(index, int(width), int(-(-width // inner)), int(-(-height // inner))))
    return tuple(found)


def cut_camera(view: View, cut: Cut) -> Camera:
    """The PINHOLE camera of the reduced photo that the windows are cut from."""
    return cameras.undistorted(cameras.scaled(view.camera, cut.width))


def boxes(camera: Camera, cut: Cut) -> tuple[Box, ...]:
    """The windows of a photo with the `cut_camera`, row by row."""
    x = np.linspace(0, camera.width, cut.columns + 1).round().astype(int)
    y = np.linspace(0, camera.height, cut.rows + 1).round().astype(int)
    return tuple(
        Box(
            max(0, int(left) - MARGIN),
            max(0, int(top) - MARGIN),
            min(camera.width, int(right) + MARGIN),
            min(camera.height, int(bottom) + MARGIN),
        )
        for top, bottom in pairwise(y)
        for left, right in pairwise(x)
    )


def window_camera(camera: Camera, box: Box) -> Camera:
    """The camera of a window: x_window = x_photo - left, y_window = y_photo - top."""
    fx, fy, cx, cy = camera.params
    params = (fx, fy, cx - box.left, cy - box.top)
    return Camera("PINHOLE", box.right - box.left, box.bottom - box.top, params)


def with_windows(scaffold: Scaffold, windows: dict[int, tuple[View, ...]]) -> Scaffold:
    """The scaffold with windows in the place of photos, by their index: the same points, seen in the windows."""
    views: list[View] = []
    whole: list[int] = []
    for index, view in enumerate(scaffold.views):
        own = windows.get(index, (view,))
        views += own
        whole += [index] * len(own)
    whole_of = np.array(whole, dtype=np.int64)
    tracks = _tracks_in(scaffold, tuple(views), whole_of, set(windows))
    return replace(scaffold, views=tuple(views), tracks=tracks, whole=scaffold.views, whole_of=whole_of)


def _tracks_in(scaffold: Scaffold, views: tuple[View, ...], whole_of: Ints, cut: set[int]) -> Tracks:
    """Observations in photos as observations in views: where the point projects into a window, else as they were."""
    rows_of = _rows_of_views(scaffold.tracks, len(scaffold.views))
    found = []
    for k, view in enumerate(views):
        rows = rows_of[whole_of[k]]
        point, xy = scaffold.tracks.point[rows], scaffold.tracks.xy[rows]
        if int(whole_of[k]) in cut:
            xy = cameras.project(view.camera, view.cam_from_world(scaffold.points[point]))
            held = inside(view.camera, xy)
            point, xy = point[held], xy[held]
        found.append((point, np.full(len(point), k, np.int64), xy))
    point, image, xy = (np.concatenate(part) for part in zip(*found, strict=True))
    return Tracks(point, image, xy)


@dataclass(frozen=True, eq=False)
class Photos:
    """The photos of a flight, where work is done on windows of them."""

    views: tuple[View, ...]
    of_view: Ints
    """(V,), index of the photo that each view of the scaffold is, or is a window of."""


def photos_of(scaffold: Scaffold) -> Photos:
    """The photos behind the scaffold's views."""
    if scaffold.whole_of is None:
        return Photos(scaffold.views, np.arange(len(scaffold.views)))
    return Photos(scaffold.whole, scaffold.whole_of)
