"""Planes, up and ground of synthetic surveys with known truth."""

from __future__ import annotations

import numpy as np
import pytest
from geometry_strategies import rotations
from hypothesis import given, settings
from hypothesis import strategies as st

from skyanchor.geometry import planes, rigid
from skyanchor.types import Floats, Plane

UP = np.array([0.0, 0.0, 1.0])


@given(rotations(), st.floats(-20, 20))
def test_feet_lie_on_the_plane(rotation: Floats, offset: float) -> None:
    plane = Plane(rotation[0], offset)
    points = np.random.default_rng(0).normal(0, 10, (20, 3))
    feet = planes.onto(plane, points)
    assert np.allclose(planes.heights(plane, feet), 0.0, atol=1e-9)
    assert np.allclose(np.linalg.norm(points - feet, axis=1), np.abs(planes.heights(plane, points)))
    assert np.allclose(planes.heights(planes.flipped(plane), points), -planes.heights(plane, points))


@given(rotations())
def test_basis_is_right_handed(rotation: Floats) -> None:
    frame = np.concatenate([planes.basis(rotation[2]), rotation[2:]])
    assert np.allclose(frame @ frame.T, np.eye(3), atol=1e-9) and np.linalg.det(frame) > 0


def test_basis_of_z_is_x_and_y() -> None:
    assert np.array_equal(planes.basis(UP), np.eye(3)[:2])


@settings(max_examples=15)
@given(rotations(), st.integers(0, 10**6))
def test_robust_plane_under_noise_and_outliers(rotation: Floats, seed: int) -> None:
    rng = np.random.default_rng(seed)
    flat = np.column_stack([rng.uniform(-20, 20, (300, 2)), rng.normal(3.0, 0.05, 300)])
    flat[:120, 2] = rng.uniform(-30, 30, 120)
    fit = planes.fit_plane_robust(flat @ rotation.T, 0.2, rotation[:, 2], within_deg=80)
    assert fit is not None
    assert planes.angle_deg(fit.plane.normal, rotation[:, 2]) < 0.3
    assert fit.plane.offset == pytest.approx(3.0, abs=0.04)
    assert fit.inliers[120:].sum() > 175 and 0.02 < fit.rmse < 0.08


def oblique_rotations(rng: np.random.Generator, roll_deg: float, headings: int = 40) -> Floats:
    """world_from_cam of cameras that look 30 to 90 degrees down on many headings, with some roll."""
    rotations = []
    for heading in np.linspace(0, 2 * np.pi, headings, endpoint=False):
        tilt = rng.uniform(0.5, 1.5)
        forward = np.array([np.cos(heading) * np.cos(tilt), np.sin(heading) * np.cos(tilt), -np.sin(tilt)])
        pose = rigid.look_at(np.zeros(3), forward, UP)
        roll = rigid.rotation_exp(np.array([0, 0, np.radians(rng.normal(0, roll_deg))]))
        rotations.append((roll @ pose.rotation).T)
    return np.stack(rotations)


@settings(max_examples=15)
@given(rotations(), st.integers(0, 10**6))
def test_up_of_rolling_cameras_is_near_the_roll_over_root_n(turn: Floats, seed: int) -> None:
    cameras = turn @ oblique_rotations(np.random.default_rng(seed), roll_deg=1.0)
    found = planes.up_from_cameras(cameras)
    assert found.determined
    assert planes.angle_deg(found.up, turn @ UP) < 1.0
    assert 0.1 < found.spread_deg < 2.0


def test_up_of_upright_photos_comes_from_their_other_axis() -> None:
    quarter = rigid.rotation_exp(np.array([0, 0, np.pi / 2]))
    cameras = oblique_rotations(np.random.default_rng(0), 0.3) @ quarter
    assert planes.angle_deg(planes.up_from_cameras(cameras).up, UP) < 0.3


def test_up_of_one_heading_is_not_determined() -> None:
    cameras = np.repeat(oblique_rotations(np.random.default_rng(0), 0.0)[:1], 10, axis=0)
    assert not planes.up_from_cameras(cameras).determined


def town_points(slope: float, roofs: float, seed: int) -> tuple[Floats, Plane]:
    """Points of blocks with flat roofs on sloping ground, 5 cm noise, 2 % strays below; and the true ground."""
    rng = np.random.default_rng(seed)
    xy = rng.uniform(0, 200, (8000, 2))
    block = (np.floor(xy / 20) @ [1, 37]).astype(int)
    built, height = rng.random(4000) < roofs, rng.uniform(4, 12, 4000)
    z = slope * xy[:, 0] - 9.0 + np.where(built[block], height[block], 0.0) + rng.normal(0, 0.05, len(xy))
    z[::50] -= rng.uniform(0, 50, len(z[::50]))
    normal = planes.unit(np.array([-slope, 0, 1.0]))
    return np.column_stack([xy, z]), Plane(normal, -9.0 * normal[2])


@pytest.mark.parametrize("slope", [0.0, 0.05, 0.15])
@pytest.mark.parametrize("roofs", [0.2, 0.6])
def test_ground_lies_beneath_the_roofs(slope: float, roofs: float) -> None:
    points, truth = town_points(slope, roofs, seed=int(slope * 100))
    found = planes.ground_plane(points, UP)
    error = planes.heights(found, planes.onto(truth, points))
    assert np.abs(error).max() < 0.25
    assert planes.angle_deg(found.normal, truth.normal) < 0.2


def test_ground_of_a_turned_scene_turns_with_it() -> None:
    points, truth = town_points(0.0, 0.4, seed=3)
    turn = rigid.rotation_exp(np.array([1.0, -0.4, 2.0]))
    found = planes.ground_plane(points @ turn.T, turn @ UP)
    assert np.allclose(found.normal, turn @ truth.normal)
    assert found.offset == pytest.approx(truth.offset, abs=0.15)


def test_zero_vector_has_no_direction() -> None:
    with pytest.raises(ValueError, match="direction"):
        planes.unit(np.zeros(3))
