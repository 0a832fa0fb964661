"""Cameras and poses through pycolmap and back."""

from __future__ import annotations

import numpy as np
from geometry_strategies import poses, vectors
from hypothesis import given

from skyanchor.geometry import colmap
from skyanchor.types import Camera, Pose

CAMERA = Camera("OPENCV", 640, 360, (450.0, 451.0, 321.0, 179.0, -0.1, 0.02, 1e-3, -2e-3))


@given(poses(), vectors())
def test_a_pose_comes_back_and_pycolmap_maps_points_alike(pose: Pose, x: np.ndarray) -> None:
    theirs = colmap.to_rigid3d(pose)
    assert np.allclose(theirs * x, pose(x), atol=1e-9)
    again = colmap.from_rigid3d(theirs)
    assert np.allclose(again.rotation, pose.rotation, atol=1e-12)
    assert np.array_equal(again.translation, pose.translation)


def test_a_camera_comes_back_and_one_of_ones_own_may_be_changed() -> None:
    own = colmap.to_camera(CAMERA, 7)
    assert own.camera_id == 7 and colmap.from_camera(own) == CAMERA
    own.rescale(320, 180)
    assert colmap.from_camera(own).params[0] == 225.0
    assert colmap.from_camera(colmap.shared_camera(CAMERA)) == CAMERA
