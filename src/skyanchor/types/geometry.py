"""Transforms, cameras and planes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyanchor.types.basics import Floats


@dataclass(frozen=True, eq=False)
class Pose:
    """A rigid transform b_from_a: x_b = rotation @ x_a + translation."""

    rotation: Floats
    """(3, 3), orthonormal, det +1."""
    translation: Floats
    """(3,), metres."""

    def __call__(self, points_in_a: Floats) -> Floats:
        """Points (..., 3) in frame b."""
        return points_in_a @ self.rotation.T + self.translation

    def __matmul__(self, a_from_z: Pose) -> Pose:
        """b_from_z: what maps by `a_from_z` first and by this then."""
        return Pose(self.rotation @ a_from_z.rotation, self.rotation @ a_from_z.translation + self.translation)

    @property
    def inverse(self) -> Pose:
        """a_from_b: x_a = Rᵀ (x_b - t)."""
        return Pose(self.rotation.T.copy(), -self.rotation.T @ self.translation)

    @property
    def matrix(self) -> Floats:
        """The same transform as a homogeneous (4, 4)."""
        return _homogeneous(self.rotation, self.translation)


@dataclass(frozen=True, eq=False)
class Similarity:
    """A similarity b_from_a: x_b = scale * rotation @ x_a + translation."""

    scale: float
    rotation: Floats
    """(3, 3), orthonormal, det +1."""
    translation: Floats
    """(3,)."""

    def __call__(self, points_in_a: Floats) -> Floats:
        """Points (..., 3) in frame b."""
        return self.scale * (points_in_a @ self.rotation.T) + self.translation

    def __matmul__(self, a_from_z: Similarity) -> Similarity:
        """b_from_z: what maps by `a_from_z` first and by this then."""
        return Similarity(
            self.scale * a_from_z.scale,
            self.rotation @ a_from_z.rotation,
            self.scale * (self.rotation @ a_from_z.translation) + self.translation,
        )

    @property
    def inverse(self) -> Similarity:
        """a_from_b: x_a = Rᵀ (x_b - t) / s."""
        rotation = self.rotation.T.copy()
        return Similarity(1.0 / self.scale, rotation, -(rotation @ self.translation) / self.scale)

    @property
    def matrix(self) -> Floats:
        """The same transform as a homogeneous (4, 4)."""
        return _homogeneous(self.scale * self.rotation, self.translation)


def _homogeneous(linear: Floats, translation: Floats) -> Floats:
    """[linear, translation; 0, 1], (4, 4)."""
    result = np.eye(4)
    result[:3, :3], result[:3, 3] = linear, translation
    return result


@dataclass(frozen=True)
class Camera:
    """Intrinsics in COLMAP's terms; hashable, so it may key a cache."""

    model: str
    """COLMAP camera model name, e.g. PINHOLE, SIMPLE_RADIAL, OPENCV."""
    width: int
    """Pixels."""
    height: int
    """Pixels."""
    params: tuple[float, ...]
    """COLMAP parameter order of the model, pixels where they are lengths."""


@dataclass(frozen=True, eq=False)
class Plane:
    """The plane {x : normal . x = offset}."""

    normal: Floats
    """(3,), unit; for a ground plane it points up."""
    offset: float
    """Metres along the normal."""
