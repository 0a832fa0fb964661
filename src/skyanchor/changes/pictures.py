"""Where a change is seen best: the photo of either day that shows it, and the part of it to cut out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import cv2
import numpy as np

from skyanchor.changes.change import Change
from skyanchor.geometry import cameras, rigid
from skyanchor.types import Bytes, Camera, Floats, Pose, View

NEAREST_M = 0.5
"""All corners of a change lie at least so far before a camera that shows it, metres."""
ROOM = 0.6
"""Of the change's size in the photo, kept on every side of it."""
LEAST_PX = 48
"""Side of what is cut out, at least, pixels."""
FRAME = (255, 196, 0)
"""Of the box drawn around a change, RGB."""


@dataclass(frozen=True)
class Window:
    """A part of a photo, pixels."""

    left: int
    top: int
    right: int
    bottom: int


def corners(change: Change) -> Floats:
    """(8, 3), of the box around a change."""
    return np.array(list(product(*zip(change.low, change.high, strict=True))))


def framed(change: Change, camera: Camera, cam_from_world: Pose) -> Window | None:
    """The part of a pinhole's picture that a change takes; None where it is not all in it."""
    in_cam = cam_from_world(corners(change))
    if in_cam[:, 2].min() < NEAREST_M:
        return None
    xy = cameras.project(camera, in_cam)
    (left, top), (right, bottom) = np.floor(xy.min(axis=0)), np.ceil(xy.max(axis=0))
    if left < 0 or top < 0 or right > camera.width or bottom > camera.height:
        return None
    return Window(int(left), int(top), int(right), int(bottom))


def best_view(change: Change, views: Sequence[View], like: View | None = None) -> View | None:
    """The view that shows a change largest and whole; with `like` the one nearest to it that shows it.

    Where none shows it whole, the one that looks at its middle from nearest by.
    """
    whole = [view for view in views if framed(change, pinhole(view), view.cam_from_world) is not None]
    some = whole or [view for view in views if _in_picture(change, view)]
    if not some:
        return None
    goal = change.centre if like is None else rigid.centre_in_world(like.cam_from_world)
    away = [float(np.linalg.norm(rigid.centre_in_world(view.cam_from_world) - goal)) for view in some]
    return some[int(np.argmin(away))]


def _in_picture(change: Change, view: View) -> bool:
    in_cam = view.cam_from_world(change.centre[None])
    camera = pinhole(view)
    xy = cameras.project(camera, in_cam)[0]
    return bool(in_cam[0, 2] > NEAREST_M and 0 <= xy[0] < camera.width and 0 <= xy[1] < camera.height)


def pinhole(view: View) -> Camera:
    """The view's camera without distortion."""
    return cameras.undistorted(view.camera)


def cut_out(change: Change, pixels: Bytes, camera: Camera, cam_from_world: Pose) -> Bytes:
    """The part of an undistorted photo around a change, with its box drawn in."""
    in_cam = cam_from_world(corners(change))
    ahead = in_cam[in_cam[:, 2] > 0.1]
    xy = cameras.project(camera, ahead if len(ahead) else np.array([[0.0, 0.0, 1.0]]))
    size = np.array([camera.width, camera.height])
    low, high = np.clip(xy.min(axis=0), 0, size - 1), np.clip(xy.max(axis=0), 1, size)
    room = np.maximum(ROOM * (high - low), (LEAST_PX - (high - low)) / 2.0)
    left, top = np.floor(np.maximum(low - room, 0)).astype(int)
    right, bottom = np.ceil(np.minimum(high + room, size)).astype(int)
    drawn = np.ascontiguousarray(pixels[top:bottom, left:right])
    (x0, y0), (x1, y1) = np.round(low - (left, top)).astype(int), np.round(high - (left, top)).astype(int)
    cv2.rectangle(drawn, (int(x0), int(y0)), (int(x1), int(y1)), FRAME, max(1, camera.width // 480))
    return drawn
