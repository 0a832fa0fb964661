"""What surfaces are made of: a material, two colours and the numbers its texture needs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np

from skyanchor.types import Floats

Rgb: TypeAlias = tuple[float, float, float]
"""Display-referred red, green, blue, 0..1."""

COLUMNS = 24
GAMMA = 2.2


class Material(IntEnum):
    """Which texture a surface carries; the kernels switch on the number."""

    PLAIN = 0
    FACADE = 1
    TILES = 2
    FLAT_ROOF = 3
    METAL = 4
    BODYWORK = 5
    STRIPES = 6
    PLANKS = 7
    LEAVES = 8
    BARK = 9
    LETTERS = 10
    CAR_SIDE = 11
    CAR_GLASS = 12
    STONE = 13


class Finish(IntEnum):
    """What covers the wall of a facade."""

    PLASTER = 0
    BRICK = 1
    ASHLAR = 2
    TIMBER = 3


class GroundFloor(IntEnum):
    """What the ground floor of a facade opens to."""

    WINDOWS = 0
    SHOP = 1
    BLANK = 2


@dataclass(frozen=True)
class Coat:
    """One surface look; hashable, so equal coats share a row of the table."""

    material: Material
    colour: Rgb
    accent: Rgb = (0.5, 0.5, 0.5)
    numbers: tuple[float, ...] = ()
    """Material-specific; for a facade the fields of `Facade` in order."""


@dataclass(frozen=True)
class Facade:
    """A wall with a regular grid of openings. Lengths in metres, u from the left corner, v from the base."""

    finish: Finish
    window_width: float
    window_height: float
    sill_height: float
    """Sill above its floor."""
    bay_width: float
    bays: int
    first_bay: float
    """Left edge of the first bay."""
    floor_height: float
    floors: int
    ground_height: float
    """Height of the ground floor."""
    ground_floor: GroundFloor
    door_bay: int
    """Bay with the street door; -1 for none."""
    recess: float
    """Depth of the openings."""
    shutters: bool
    width: float
    frame: float
    """Brightness of window frames, 0..1."""

    def coat(self, colour: Rgb, accent: Rgb) -> Coat:
        """The facade as a coat: wall colour and trim colour."""
        numbers = (
            *(float(self.finish), self.window_width, self.window_height, self.sill_height, self.bay_width),
            *(float(self.bays), self.first_bay, self.floor_height, float(self.floors), self.ground_height),
            *(float(self.ground_floor), float(self.door_bay), self.recess, float(self.shutters), self.width),
            self.frame,
        )
        return Coat(Material.FACADE, colour, accent, numbers)


def table(coats: list[Coat]) -> Floats:
    """(N, COLUMNS): material, linear colour, linear accent, numbers; colours to linear light by x^2.2."""
    rows = np.zeros((len(coats), COLUMNS))
    for row, coat in zip(rows, coats, strict=True):
        row[0] = coat.material
        row[1:4] = np.asarray(coat.colour) ** GAMMA
        row[4:7] = np.asarray(coat.accent) ** GAMMA
        row[7 : 7 + len(coat.numbers)] = coat.numbers
    return rows
