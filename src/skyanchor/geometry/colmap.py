"""Our cameras and poses as pycolmap's, and back."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pycolmap

from skyanchor.geometry import rigid
from skyanchor.types import Camera, Pose


@lru_cache(maxsize=256)
def shared_camera(camera: Camera) -> Any:
    """The same camera as a pycolmap.Camera to ask things of; it is shared, so nobody may change it."""
    return to_camera(camera)


def to_camera(camera: Camera, camera_id: int = pycolmap.INVALID_CAMERA_ID) -> Any:
    """A pycolmap.Camera of one's own with the same values."""
    values = {"model": camera.model, "width": camera.width, "height": camera.height, "params": list(camera.params)}
    return pycolmap.Camera(**values, camera_id=camera_id)


def from_camera(camera: Any) -> Camera:
    """A Camera with the values of a pycolmap.Camera."""
    return Camera(camera.model.name, int(camera.width), int(camera.height), tuple(float(p) for p in camera.params))


def to_rigid3d(pose: Pose) -> Any:
    """The pose as a pycolmap.Rigid3d; its quaternions are xyzw."""
    xyzw = np.roll(rigid.quaternion_from_rotation(pose.rotation), -1)
    return pycolmap.Rigid3d(pycolmap.Rotation3d(xyzw), pose.translation)


def from_rigid3d(b_from_a: Any) -> Pose:
    """A Pose with the values of a pycolmap.Rigid3d."""
    return Pose(np.array(b_from_a.rotation.matrix()), np.array(b_from_a.translation))
