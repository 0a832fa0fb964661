"""Solids the town is made of: convex hulls, cylinders and leaf lobes, and small constructors for common shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from skyanchor.town.coats import Coat
from skyanchor.types import Floats

ALWAYS = 0b111
"""Present in every epoch."""

BOX_FACES = ((0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (3, 0, 4, 7), (4, 5, 6, 7), (3, 2, 1, 0))
"""Front (-y), right (+x), back (+y), left (-x), top, bottom; the first edge of a loop is the texture's u axis."""
ROOF_FACES = ((0, 1, 5, 4), (1, 2, 5), (2, 3, 4, 5), (3, 0, 4), (3, 2, 1, 0))
"""Front slope, right gable, back slope, left gable, bottom."""


@dataclass(frozen=True, eq=False)
class Place:
    """A local frame: x along the facade, y away from the street, z up; world = origin + yaw rotation."""

    origin: Floats
    """(3,), metres."""
    yaw: float
    """Radians, counter-clockwise from world x."""

    def world(self, local: Floats) -> Floats:
        """World points of local points (..., 3)."""
        c, s = np.cos(self.yaw), np.sin(self.yaw)
        return local @ np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]]) + self.origin

    def at(self, x: float, y: float, z: float = 0.0, turn: float = 0.0) -> Place:
        """The frame at a local point, turned by `turn` radians."""
        return Place(self.world(np.array([x, y, z])), self.yaw + turn)


@dataclass(frozen=True, eq=False)
class Hull:
    """A convex solid with at most six planar faces."""

    vertices: Floats
    """(V, 3), world."""
    faces: tuple[tuple[int, ...], ...]
    """Vertex loops, counter-clockwise from outside."""
    coats: tuple[Coat, ...]
    """One per face."""
    seed: int
    epochs: int = ALWAYS


@dataclass(frozen=True, eq=False)
class Cylinder:
    """A capped cylinder."""

    start: Floats
    """(3,), centre of one cap, world."""
    end: Floats
    """(3,), centre of the other cap."""
    radius: float
    coat: Coat
    seed: int
    epochs: int = ALWAYS


@dataclass(frozen=True, eq=False)
class Lobe:
    """A clump of leaves: a ball with a ragged, holed shell around a dark core."""

    centre: Floats
    """(3,), world."""
    radius: float
    coat: Coat
    seed: int
    epochs: int = ALWAYS


Solid: TypeAlias = Hull | Cylinder | Lobe


@dataclass(frozen=True, eq=False)
class Thing:
    """Solids that belong together: a house, a car, a bin."""

    name: str
    """For people."""
    solids: tuple[Solid, ...]
    covers: bool = False
    """Whether it lies on something else and gives it another look, as a board over a sign does."""


def box(place: Place, low: tuple[float, float, float], high: tuple[float, float, float], *coats: Coat, seed: int = 0,
        epochs: int = ALWAYS) -> Hull:  # fmt: skip
    """A box between two local corners; one coat for all faces, or one per face of BOX_FACES."""
    return tapered(place, low, high, (0.0, 0.0, 0.0, 0.0), *coats, seed=seed, epochs=epochs)


def tapered(place: Place, low: tuple[float, float, float], high: tuple[float, float, float],
            inset: tuple[float, float, float, float], *coats: Coat, seed: int = 0,
            epochs: int = ALWAYS) -> Hull:  # fmt: skip
    """A box whose top is drawn in by `inset` (left, right, front, back), metres."""
    (x0, y0, z0), (x1, y1, z1) = low, high
    left, right, front, back = inset
    local = np.array(
        [
            *([x0, y0, z0], [x1, y0, z0], [x1, y1, z0], [x0, y1, z0]),
            *([x0 + left, y0 + front, z1], [x1 - right, y0 + front, z1]),
            *([x1 - right, y1 - back, z1], [x0 + left, y1 - back, z1]),
        ]
    )
    each = coats if len(coats) == len(BOX_FACES) else (coats[0],) * len(BOX_FACES)
    return Hull(place.world(local), BOX_FACES, each, seed, epochs)


def gable(place: Place, low: tuple[float, float, float], high: tuple[float, float, float], slope: Coat, end: Coat,
          seed: int = 0, epochs: int = ALWAYS) -> Hull:  # fmt: skip
    """A pitched roof whose ridge runs along local x at the top of the given box."""
    (x0, y0, z0), (x1, y1, z1) = low, high
    ridge = (y0 + y1) / 2.0
    local = np.array([[x0, y0, z0], [x1, y0, z0], [x1, y1, z0], [x0, y1, z0], [x0, ridge, z1], [x1, ridge, z1]])
    return Hull(place.world(local), ROOF_FACES, (slope, end, slope, end, slope), seed, epochs)


def post(place: Place, x: float, y: float, z0: float, z1: float, radius: float, coat: Coat, seed: int = 0,
         epochs: int = ALWAYS) -> Cylinder:  # fmt: skip
    """An upright cylinder at a local point."""
    ends = place.world(np.array([[x, y, z0], [x, y, z1]]))
    return Cylinder(ends[0], ends[1], radius, coat, seed, epochs)


def bounds(solid: Solid) -> tuple[Floats, Floats]:
    """Lowest and highest corner of the axis-parallel box around a solid."""
    if isinstance(solid, Hull):
        return solid.vertices.min(axis=0), solid.vertices.max(axis=0)
    if isinstance(solid, Lobe):
        return solid.centre - solid.radius, solid.centre + solid.radius
    ends = np.stack([solid.start, solid.end])
    axis = (solid.end - solid.start) / np.linalg.norm(solid.end - solid.start)
    reach = solid.radius * np.sqrt(np.maximum(1.0 - axis**2, 0.0))  # extent of a disc across its normal
    return ends.min(axis=0) - reach, ends.max(axis=0) + reach
