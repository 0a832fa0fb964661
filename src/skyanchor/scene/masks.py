"""Photos of earlier days without the pixels that show what is another way today."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from skyanchor.changes import Region
from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import inside, lift, pixel_centres, under
from skyanchor.scene.since import DayDepth, nearest_cell, showing
from skyanchor.types import Bools, Camera, DepthMap, Floats32, Pose, View

WIDTH = 160
"""Of the masks, at most, pixels: coarser than depth, so that what is carried from one view to another has few holes."""
ASKED = 2
"""Depth maps that say what a photo without one of its own shows, the nearest ones."""


def masks_of(views: Sequence[View], region: Region, depth: DayDepth) -> Iterator[tuple[View, Bools]]:
    """The views whose photos show the region, and where they do not, (h, w) of the photo at most `WIDTH` wide.

    `depth` is of their day: what it has before the region hides it.
    """
    if not len(region) or not len(depth):
        return
    row_of = {one.name: k for k, one in enumerate(depth)}
    centres = rigid.centres_in_world([one.cam_from_world for one in depth])
    for view in views:
        camera = cameras.undistorted(cameras.scaled(view.camera, min(WIDTH, view.camera.width)))
        if not np.isfinite(nearest_cell(region, camera, view.cam_from_world)).any():
            continue
        away = np.linalg.norm(centres - rigid.centre_in_world(view.cam_from_world), axis=1)
        rows = [row_of[view.name]] if view.name in row_of else np.argsort(away, kind="stable")[:ASKED]
        seen = depth_at(camera, view.cam_from_world, [depth[int(row)] for row in rows])
        shown = showing(region, camera, view.cam_from_world, seen)
        if shown.any():
            yield view, in_photo(~shown, camera, view.camera)


def depth_at(camera: Camera, cam_from_world: Pose, maps: Sequence[DepthMap]) -> Floats32:
    """(H, W), depth of the nearest of what the maps have measured in every pixel of a pinhole; 0 where nothing is."""
    nearest = np.full(camera.height * camera.width, np.inf, np.float32)
    for one in maps:
        rows, columns = np.nonzero((one.depth > 0) & ~one.completed)
        points = lift(one.camera, one.cam_from_world, pixel_centres(rows, columns), one.depth[rows, columns])
        in_cam = cam_from_world(points)
        in_cam = in_cam[in_cam[:, 2] > 0]
        xy = cameras.project(camera, in_cam)
        held = inside(camera, xy)
        column, row = np.floor(xy[held]).astype(np.int64).T
        np.minimum.at(nearest, row * camera.width + column, in_cam[held, 2].astype(np.float32))
    return np.where(np.isfinite(nearest), nearest, np.float32(0.0)).reshape(camera.height, camera.width)


def in_photo(mask: Bools, pinhole: Camera, camera: Camera) -> Bools:
    """The mask (h, w) of an undistorted photo as one of the photo itself, at the same width."""
    if cameras.is_pinhole(camera):
        return mask
    small = cameras.scaled(camera, pinhole.width)
    rows, columns = (axis.ravel() for axis in np.mgrid[: small.height, : small.width])
    xy = cameras.project(pinhole, cameras.unproject(small, pixel_centres(rows, columns)))
    return np.asarray(under(mask, xy).reshape(small.height, small.width))
