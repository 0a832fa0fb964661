"""Camera models: project and unproject are inverse, scaling and undistortion keep the geometry."""

from __future__ import annotations

import numpy as np
import pytest

from skyanchor.geometry import cameras
from skyanchor.types import Camera

MODELS = [
    Camera("SIMPLE_PINHOLE", 640, 480, (500.0, 322.0, 239.0)),
    Camera("PINHOLE", 640, 480, (500.0, 510.0, 322.0, 239.0)),
    Camera("SIMPLE_RADIAL", 640, 480, (500.0, 320.0, 240.0, -0.08)),
    Camera("RADIAL", 640, 480, (500.0, 320.0, 240.0, -0.08, 0.01)),
    Camera("OPENCV", 640, 480, (500.0, 505.0, 321.0, 238.0, -0.1, 0.02, 0.001, -0.0005)),
    Camera("OPENCV_FISHEYE", 640, 480, (400.0, 400.0, 320.0, 240.0, 0.01, -0.002, 0.0, 0.0)),
]


def pixels_of(camera: Camera) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.uniform([5, 5], [camera.width - 5, camera.height - 5], (200, 2))


@pytest.mark.parametrize("camera", MODELS, ids=lambda c: c.model)
def test_unproject_and_project_round_trip(camera: Camera) -> None:
    pixels = pixels_of(camera)
    rays = cameras.unproject(camera, pixels)
    assert np.allclose(cameras.project(camera, rays * 7.0), pixels, atol=1e-4)


@pytest.mark.parametrize("camera", MODELS, ids=lambda c: c.model)
def test_half_size_sees_half_the_pixels(camera: Camera) -> None:
    half = cameras.scaled(camera, camera.width // 2)
    pixels = pixels_of(camera)
    assert np.allclose(cameras.unproject(half, pixels / 2), cameras.unproject(camera, pixels), atol=1e-6)


def test_points_behind_have_no_pixel() -> None:
    assert np.isnan(cameras.project(MODELS[1], np.array([[0.0, 0.0, -1.0]]))).all()
    assert np.isnan(cameras.project(MODELS[4], np.array([[0.0, 0.0, -1.0]]))).all()


def test_undistorted_image_has_features_where_the_pinhole_sees_them() -> None:
    camera = MODELS[2]
    ray = np.array([[0.3, -0.2, 1.0]])
    x, y = cameras.project(camera, ray)[0]
    image = np.zeros((camera.height, camera.width, 3), np.uint8)
    image[int(y) - 2 : int(y) + 3, int(x) - 2 : int(x) + 3] = 255
    flat = cameras.undistort(image, camera)[..., 0].astype(float)
    rows, columns = np.nonzero(flat > 128)
    expected = cameras.project(cameras.undistorted(camera), ray)[0]
    assert np.linalg.norm([columns.mean() + 0.5 - expected[0], rows.mean() + 0.5 - expected[1]]) < 1.0
    assert np.linalg.norm(expected - [x, y]) > 1.5  # the distortion is not negligible here
