"""A frame's pose from the map: found where the points agree, refused where the camera zoomed."""

from __future__ import annotations

import numpy as np
import pytest

from skyanchor.geometry.cameras import pinhole, project
from skyanchor.trajectory.config import RegisterConfig
from skyanchor.trajectory.registration import Located, locate
from skyanchor.types import Floats, Pose, Reason, Refusal

CAMERA = pinhole(480, 300, 343.0)
FORWARD = Pose(np.eye(3), np.array([0.1, -0.05, -0.7]))
"""A step into the street."""


def _seen(zoom: float, wrong: float, seed: int = 0) -> tuple[Floats, Floats]:
    """(pixels, points) of a street as a camera with a zoom sees it, a share of them anywhere."""
    rng = np.random.default_rng(seed)
    points = np.stack([rng.uniform(-8, 8, 600), rng.uniform(-4, 2, 600), rng.uniform(4, 40, 600)], axis=1)
    xy = project(pinhole(480, 300, 343.0 * zoom), FORWARD(points)) + rng.normal(0.0, 0.4, (600, 2))
    lost = rng.random(600) < wrong
    xy[lost] = rng.uniform((0, 0), (480, 300), (int(lost.sum()), 2))
    inside = np.all((xy >= 0) & (xy < (480, 300)), axis=1)
    return xy[inside], points[inside]


@pytest.mark.parametrize("zoom", [0.6, 1.25, 1.4, 1.9])
@pytest.mark.parametrize("wrong", [0.0, 0.3])
def test_a_camera_that_zoomed_gets_no_pose(zoom: float, wrong: float) -> None:
    found = locate(*_seen(zoom, wrong), CAMERA, 0.5, RegisterConfig())
    assert isinstance(found, Refusal)
    assert found.reason is Reason.ZOOMED
    assert found.figures["zoom"] == pytest.approx(zoom, rel=0.15)


@pytest.mark.parametrize("wrong", [0.0, 0.3, 0.6])
def test_outliers_are_no_zoom(wrong: float) -> None:
    found = locate(*_seen(1.0, wrong), CAMERA, 0.5, RegisterConfig())
    assert isinstance(found, Located)
    assert np.linalg.norm(found.cam_from_world.translation - FORWARD.translation) < 0.05


def test_a_focal_length_that_is_a_little_off_is_no_zoom() -> None:
    assert isinstance(locate(*_seen(1.03, 0.1), CAMERA, 0.5, RegisterConfig()), Located)
