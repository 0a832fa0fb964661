"""The sky: found in a photo by what it is, and put on a far shell in its own colour where views see it."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from skyanchor.gaussians.harmonics import SH_C0
from skyanchor.geometry import cameras, rigid
from skyanchor.scene.sky import hemisphere, sky_mask, sky_shell
from skyanchor.types import DepthMap, View

UP = np.array([0.0, 0.0, 1.0])
CAMERA = cameras.pinhole(160, 120, 120.0)
POSE = rigid.look_at(np.zeros(3), np.array([0.0, 10.0, 0.0]), UP)
BLUE = np.array([150, 190, 240], np.uint8)


@pytest.fixture
def picture() -> np.ndarray:
    """Sky above the middle, a dark rough street below, a plain white wall on the right up to the upper border."""
    rng = np.random.default_rng(0)
    pixels = np.empty((120, 160, 3), np.uint8)
    pixels[:60] = BLUE
    pixels[60:] = rng.integers(0, 110, (60, 160, 3))
    pixels[:, 120:] = 235
    return pixels


def depth_of(known: np.ndarray) -> DepthMap:
    depth = np.where(known, 8.0, 0.0).astype(np.float32)
    ones = np.ones_like(depth)
    return DepthMap("a.png", CAMERA, POSE, depth, ones, ones < 0, np.zeros((120, 160, 3), np.float32))


def surfaces() -> np.ndarray:
    known = np.zeros((120, 160), bool)
    known[60:] = True
    known[:, 120:] = True
    return known


def test_sky_is_even_bright_unmeasured_and_reaches_the_top(picture: np.ndarray) -> None:
    sky = sky_mask(picture, depth_of(surfaces()))
    assert sky[:55, :115].mean() > 0.98
    assert not sky[65:].any()
    assert not sky[:, 122:].any()


def test_a_measured_wall_is_no_sky_and_an_unmeasured_patch_below_is_none_either(picture: np.ndarray) -> None:
    picture[80:100, 20:60] = 240
    known = surfaces()
    known[80:100, 20:60] = False
    assert not sky_mask(picture, depth_of(known))[65:].any()


def test_the_shell_hangs_where_the_view_sees_sky(tmp_path: Path, picture: np.ndarray) -> None:
    path = tmp_path / "a.png"
    cv2.imwrite(str(path), picture[..., ::-1])
    view = View("a.png", path, CAMERA, POSE, image_id=0)
    shell = sky_shell((view,), (depth_of(surfaces()),), UP, 300.0, count=4000)
    assert len(shell) > 50
    assert np.allclose(np.linalg.norm(shell.means, axis=1), 300.0, rtol=1e-5)
    in_cam = POSE(shell.means.astype(np.float64))
    xy = cameras.project(CAMERA, in_cam)
    assert (in_cam[:, 2] > 0).all()
    assert (xy[:, 1] < 61).all() and (xy[:, 0] < 121).all() and (xy >= 0).all()
    colours = 255.0 * (SH_C0 * shell.sh[:, 0] + 0.5)
    assert np.abs(colours - BLUE).max() < 3.0


def test_a_walk_without_sky_gets_no_shell(tmp_path: Path, picture: np.ndarray) -> None:
    path = tmp_path / "a.png"
    cv2.imwrite(str(path), picture[..., ::-1])
    view = View("a.png", path, CAMERA, POSE, image_id=0)
    assert len(sky_shell((view,), (depth_of(np.ones((120, 160), bool)),), UP, 300.0)) == 0


@pytest.mark.parametrize("up", [UP, np.array([0.6, 0.0, 0.8]), np.array([0.0, -1.0, 0.0])])
def test_directions_cover_the_upper_half_evenly(up: np.ndarray) -> None:
    directions = hemisphere(up, 3000)
    assert np.allclose(np.linalg.norm(directions, axis=1), 1.0)
    height = directions @ up
    assert height.min() > -0.06 and height.max() > 0.999
    assert 0.9 < (height > 0.5).sum() / ((height > 0) & (height < 0.5)).sum() < 1.1
    assert np.linalg.norm((directions - height[:, None] * up).mean(axis=0)) < 0.01
