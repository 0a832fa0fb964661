"""Group axioms and round trips of rigid transforms."""

from __future__ import annotations

import numpy as np
import pytest
from geometry_strategies import poses, rotations, vectors
from hypothesis import given

from skyanchor.geometry import rigid
from skyanchor.types import Pose


def close(a: Pose, b: Pose, tolerance: float = 1e-9) -> bool:
    return np.allclose(a.rotation, b.rotation, atol=tolerance) and np.allclose(
        a.translation, b.translation, atol=tolerance * 1e3
    )


@given(poses(), poses(), poses())
def test_composition_is_associative(a: Pose, b: Pose, c: Pose) -> None:
    assert close((a @ b) @ c, a @ (b @ c))


@given(poses())
def test_inverse_and_identity(a: Pose) -> None:
    assert close(a @ a.inverse, rigid.identity())
    assert close(a @ rigid.identity(), a)
    assert close(a.inverse.inverse, a)


@given(poses(), poses(), vectors())
def test_apply_follows_composition(a: Pose, b: Pose, x: np.ndarray) -> None:
    assert np.allclose((a @ b)(x), a(b(x)), atol=1e-6)


@given(poses(), poses(), vectors())
def test_matrices_multiply_as_transforms_compose(a: Pose, b: Pose, x: np.ndarray) -> None:
    assert np.allclose((a @ b).matrix, a.matrix @ b.matrix, atol=1e-9)
    assert np.allclose(a.inverse.matrix @ a.matrix, np.eye(4), atol=1e-9)
    assert np.allclose(a.matrix @ np.append(x, 1.0), np.append(a(x), 1.0), atol=1e-9)


@given(poses(), vectors(), vectors())
def test_many_points_move_as_each_of_them(a: Pose, x: np.ndarray, y: np.ndarray) -> None:
    """x_b = R x_a + t, rows of (..., 3) alike."""
    assert np.allclose(a(np.stack([[x, y]])), [[a.rotation @ x + a.translation, a.rotation @ y + a.translation]])


@given(rotations())
def test_quaternion_round_trip(rotation: np.ndarray) -> None:
    again = rigid.rotation_from_quaternion(rigid.quaternion_from_rotation(rotation))
    assert np.allclose(again, rotation, atol=1e-12)


@given(rotations())
def test_log_and_exp_round_trip(rotation: np.ndarray) -> None:
    vector = rigid.rotation_log(rotation)
    assert np.linalg.norm(vector) <= np.pi + 1e-9
    assert np.allclose(rigid.rotation_exp(vector), rotation, atol=1e-9)


@given(poses())
def test_centre_is_where_the_camera_sees_zero(pose: Pose) -> None:
    centre = rigid.centre_in_world(pose)
    assert np.allclose(pose(centre), 0.0, atol=1e-6)
    assert close(rigid.from_centre(pose.rotation, centre), pose)


@pytest.mark.parametrize("angle", [1e-12, 1e-7, 1e-3, 1.0, np.pi - 1e-7])
def test_angle_between_is_accurate_at_all_sizes(angle: float) -> None:
    axis = np.array([0.6, -0.48, 0.64])
    turned = rigid.rotation_exp(angle * axis)
    assert rigid.angle_between(turned, np.eye(3)) == pytest.approx(angle, rel=1e-6)


def test_look_at_puts_the_target_in_the_middle_with_up_on_top() -> None:
    pose = rigid.look_at(np.array([1.0, 2.0, 3.0]), np.array([4.0, 0.0, 1.0]), np.array([0.0, 0.0, 1.0]))
    target = pose(np.array([4.0, 0.0, 1.0]))
    above = pose(np.array([4.0, 0.0, 2.0]))
    assert np.allclose(target[:2], 0.0, atol=1e-12) and target[2] > 0
    assert above[1] < 0 and abs(above[0]) < 1e-12  # y is down
    assert np.linalg.det(pose.rotation) == pytest.approx(1.0)
