"""Rigid transforms: b_from_a as rotation and translation."""

from __future__ import annotations

import numpy as np

from skyanchor.types import Floats, Pose


def identity() -> Pose:
    """The transform that changes nothing."""
    return Pose(np.eye(3), np.zeros(3))


def centre_in_world(cam_from_world: Pose) -> Floats:
    """Camera centre: c = -Rᵀ t, (3,)."""
    return -cam_from_world.rotation.T @ cam_from_world.translation


def centres_in_world(cams_from_world: list[Pose] | tuple[Pose, ...]) -> Floats:
    """Camera centres, (N, 3)."""
    return np.array([centre_in_world(pose) for pose in cams_from_world]).reshape(-1, 3)


def from_centre(rotation: Floats, centre: Floats) -> Pose:
    """cam_from_world of a camera with the given world-to-camera rotation and centre: t = -R c."""
    return Pose(rotation, -rotation @ centre)


def look_at(eye: Floats, target: Floats, up: Floats) -> Pose:
    """cam_from_world of a camera at `eye` that looks at `target`, image upright with respect to `up`."""
    z = (target - eye) / np.linalg.norm(target - eye)
    x = np.cross(z, up)
    if np.linalg.norm(x) < 1e-9:  # looking along up: any direction will do
        x = np.cross(z, np.roll(up, 1) + np.array([1e-3, 0.0, 0.0]))
    x = x / np.linalg.norm(x)
    return from_centre(np.stack([x, np.cross(z, x), z]), eye)


def skew(v: Floats) -> Floats:
    """The matrix [v]ₓ with [v]ₓ w = v × w, (..., 3, 3)."""
    zero = np.zeros_like(v[..., 0])
    x, y, z = v[..., 0], v[..., 1], v[..., 2]
    return np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=-1).reshape(*v.shape[:-1], 3, 3)


def rotation_exp(w: Floats) -> Floats:
    """Rodrigues: exp([w]ₓ) = I + sin θ/θ [w]ₓ + (1 - cos θ)/θ² [w]ₓ², (..., 3) -> (..., 3, 3)."""
    theta = np.linalg.norm(w, axis=-1)[..., None, None]
    small = theta < 1e-6
    safe = np.where(small, 1.0, theta)
    a = np.where(small, 1.0 - theta**2 / 6.0, np.sin(safe) / safe)
    b = np.where(small, 0.5 - theta**2 / 24.0, 2.0 * (np.sin(safe / 2.0) / safe) ** 2)
    k = skew(w)
    return np.eye(3) + a * k + b * (k @ k)


def rotation_log(rotation: Floats) -> Floats:
    """The rotation vector w with exp([w]ₓ) = rotation, |w| <= π, (3, 3) -> (3,)."""
    q = quaternion_from_rotation(rotation)
    sin_half = float(np.linalg.norm(q[1:]))
    if sin_half < 1e-12:
        return 2.0 * q[1:]
    return q[1:] * (2.0 * np.arctan2(sin_half, q[0]) / sin_half)


def quaternion_from_rotation(rotation: Floats) -> Floats:
    """Unit quaternion wxyz with w >= 0, (3, 3) -> (4,); Shepperd's method, no loss near π."""
    r = rotation
    candidates = np.array(
        [
            1.0 + r[0, 0] + r[1, 1] + r[2, 2],
            1.0 + r[0, 0] - r[1, 1] - r[2, 2],
            1.0 - r[0, 0] + r[1, 1] - r[2, 2],
            1.0 - r[0, 0] - r[1, 1] + r[2, 2],
        ]
    )
    largest = int(np.argmax(candidates))
    rows = [
        [candidates[0], r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]],
        [r[2, 1] - r[1, 2], candidates[1], r[1, 0] + r[0, 1], r[0, 2] + r[2, 0]],
        [r[0, 2] - r[2, 0], r[1, 0] + r[0, 1], candidates[2], r[2, 1] + r[1, 2]],
        [r[1, 0] - r[0, 1], r[0, 2] + r[2, 0], r[2, 1] + r[1, 2], candidates[3]],
    ]
    q = np.array(rows[largest])
    q /= np.linalg.norm(q)
    return -q if q[0] < 0 else q


def rotation_from_quaternion(wxyz: Floats) -> Floats:
    """Rotation matrix of a quaternion (normalised here), (4,) -> (3, 3)."""
    w, x, y, z = wxyz / np.linalg.norm(wxyz)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def angle_between(rotation_a: Floats, rotation_b: Floats) -> float:
    """Angle of rotation_a rotation_bᵀ, radians, accurate near 0: |log| through the quaternion."""
    return float(np.linalg.norm(rotation_log(rotation_a @ rotation_b.T)))
