"""Terraced houses along the edges of blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from skyanchor.town.coats import Coat, Facade, Finish, GroundFloor, Material, Rgb
from skyanchor.town.layout import Edge
from skyanchor.town.solids import BOX_FACES, Hull, Place, Solid, box, gable, post, tapered

DEPTH = 9.0
"""Metres from the front to the back of a house."""
STONE = Coat(Material.STONE, (0.74, 0.71, 0.66))
CONCRETE = Coat(Material.STONE, (0.62, 0.62, 0.61))
ZINC = Coat(Material.METAL, (0.45, 0.47, 0.5))
SOOT = Coat(Material.PLAIN, (0.16, 0.15, 0.14))
FELT = Coat(Material.FLAT_ROOF, (0.48, 0.48, 0.5))

WALLS: tuple[tuple[Finish, Rgb, Rgb], ...] = (
    (Finish.PLASTER, (0.86, 0.80, 0.66), (0.93, 0.92, 0.88)),
    (Finish.BRICK, (0.60, 0.33, 0.26), (0.86, 0.83, 0.77)),
    (Finish.PLASTER, (0.90, 0.89, 0.85), (0.60, 0.62, 0.62)),
    (Finish.ASHLAR, (0.73, 0.66, 0.54), (0.84, 0.80, 0.72)),
    (Finish.TIMBER, (0.91, 0.87, 0.77), (0.40, 0.28, 0.20)),
    (Finish.PLASTER, (0.78, 0.52, 0.42), (0.93, 0.90, 0.84)),
    (Finish.PLASTER, (0.62, 0.70, 0.66), (0.92, 0.92, 0.90)),
    (Finish.BRICK, (0.70, 0.52, 0.40), (0.82, 0.80, 0.76)),
    (Finish.PLASTER, (0.88, 0.74, 0.44), (0.95, 0.93, 0.88)),
)
TILE_COLOURS: tuple[Rgb, ...] = ((0.62, 0.36, 0.27), (0.52, 0.31, 0.25), (0.38, 0.38, 0.40), (0.68, 0.42, 0.30))
SHOP_COLOURS: tuple[Rgb, ...] = (
    *((0.16, 0.26, 0.20), (0.55, 0.12, 0.13), (0.14, 0.20, 0.36), (0.85, 0.80, 0.66), (0.22, 0.20, 0.19)),
    *((0.80, 0.58, 0.16), (0.20, 0.42, 0.48)),
)
AWNING_COLOURS: tuple[Rgb, ...] = ((0.66, 0.16, 0.16), (0.16, 0.38, 0.26), (0.20, 0.28, 0.52), (0.80, 0.62, 0.26))


@dataclass(frozen=True)
class HouseType:
    """A design that a town builds again and again."""

    finish: Finish
    wall: Rgb
    trim: Rgb
    tiles: Rgb
    bay_width: float
    window: tuple[float, float]
    """Width and height, metres."""
    floors: int
    roof: int
    """0 ridge along the street, 1 gable to the street, 2 flat, 3 mansard."""
    shutters: bool
    shop: bool
    balcony_bay: int
    """Bay with balconies; -1 for none."""
    dormers: int
    frame: float
    """Brightness of window frames, 0..1."""


def house_types(rng: np.random.Generator, count: int) -> tuple[HouseType, ...]:
    """The designs of one town, each wall finish at least once."""
    return tuple(_house_type(rng, *WALLS[k % len(WALLS)]) for k in range(count))


def _house_type(rng: np.random.Generator, finish: Finish, wall: Rgb, trim: Rgb) -> HouseType:
    width = float(rng.uniform(0.95, 1.25))
    floors = int(rng.choice([2, 3, 3, 4], p=[0.35, 0.3, 0.25, 0.1]))
    roof = int(rng.choice([0, 1, 2, 3], p=[0.5, 0.2, 0.15, 0.15]))
    return HouseType(
        finish, wall, trim, TILE_COLOURS[rng.integers(len(TILE_COLOURS))],
        bay_width=width + float(rng.uniform(0.95, 1.4)), window=(width, float(rng.uniform(1.4, 1.7))),
        floors=floors, roof=roof, shutters=bool(rng.random() < 0.4 and finish != Finish.TIMBER),
        shop=bool(rng.random() < 0.3), balcony_bay=int(rng.integers(0, 3)) if rng.random() < 0.4 else -1,
        dormers=int(rng.integers(0, 3)), frame=float(rng.choice([0.9, 0.85, 0.45])),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Lot:
    """One house to build: its frame has x along the front and y into the block."""

    place: Place
    width: float
    style: HouseType
    corner: bool
    """Whether the left side also faces a street."""
    seed: int


# --- where houses stand -----------------------------------------------------------------------------------------


def lots_along(edge: Edge, types: tuple[HouseType, ...], rng: np.random.Generator) -> Iterator[Lot]:
    """Lots that fill an edge from its left corner; the right corner belongs to the next edge."""
    x, first, style = 0.0, True, types[rng.integers(len(types))]
    end = edge.length - DEPTH
    while x < end - 4.5:
        if rng.random() > 0.4:  # otherwise the neighbour is a twin
            style = types[rng.integers(len(types))]
        bays = int(rng.integers(3, 5)) if not first else 4
        width = bays * style.bay_width + 0.8
        width = end - x if end - x - width < 5.0 else width
        if first or rng.random() > 0.06:  # else a gap
            yield Lot(edge.place.at(x, 0.0), width, style, first, int(rng.integers(1 << 20)))
        x, first = x + width, False


# --- how they are built -----------------------------------------------------------------------------------------


def build(lot: Lot, rng: np.random.Generator) -> Iterator[Solid]:
    """The solids of a house."""
    front = _front(lot)
    height = _eaves(front)
    yield _body(lot, front, height)
    yield from _roof(lot, height, rng)
    yield from _trim(lot, front, height)
    yield from _sills(lot, front)
    if lot.style.balcony_bay >= 0:
        yield from _balconies(lot, front)
    if lot.style.shop:
        yield from _shop_front(lot, front, rng)


def heights(lot: Lot) -> tuple[float, float]:
    """Metres from the pavement to the top of the ground floor, and to the eaves."""
    front = _front(lot)
    return front.ground_height, _eaves(front)


def _front(lot: Lot) -> Facade:
    style = lot.style
    bays = max(1, int((lot.width - 0.6) / style.bay_width))
    return Facade(
        style.finish, style.window[0], style.window[1], 0.85, style.bay_width, bays,
        (lot.width - bays * style.bay_width) / 2.0, 2.9, style.floors, 3.5 if style.shop else 3.1,
        GroundFloor.SHOP if style.shop else GroundFloor.WINDOWS, lot.seed % bays, 0.2, style.shutters, lot.width,
        style.frame,
    )  # fmt: skip


def _eaves(front: Facade) -> float:
    return front.ground_height + (front.floors - 1) * front.floor_height + 0.35


def _body(lot: Lot, front: Facade, height: float) -> Hull:
    wall, trim = lot.style.wall, lot.style.trim
    plain = replace(front, finish=Finish.PLASTER if front.finish == Finish.TIMBER else front.finish, bays=0, floors=0,
                    ground_floor=GroundFloor.BLANK, door_bay=-1, width=DEPTH)  # fmt: skip
    rear = replace(front, ground_floor=GroundFloor.WINDOWS, finish=plain.finish, shutters=False)
    side_bays = int((DEPTH - 1.0) / front.bay_width)
    side = replace(front, bays=side_bays, first_bay=(DEPTH - side_bays * front.bay_width) / 2.0, door_bay=-1,
                   ground_floor=GroundFloor.WINDOWS, width=DEPTH)  # fmt: skip
    faces = (front, plain, rear, side if lot.corner else plain)
    shop = SHOP_COLOURS[lot.seed % len(SHOP_COLOURS)]
    coats = [face.coat(wall, shop if face.ground_floor == GroundFloor.SHOP else trim) for face in faces]
    return box(lot.place, (0.0, 0.0, 0.0), (lot.width, DEPTH, height), *coats, FELT, SOOT, seed=lot.seed)


def _roof(lot: Lot, height: float, rng: np.random.Generator) -> Iterator[Solid]:
    style, w = lot.style, lot.width
    slope = Coat(Material.TILES, style.tiles)
    end = Coat(Material.STONE, style.wall)
    if style.roof == 0:
        rise = 3.6
        yield gable(lot.place, (0.0, -0.35, height - 0.25), (w, DEPTH + 0.35, height + rise), slope, end, lot.seed)
        yield from _dormers(lot, height, rise)
    elif style.roof == 1:
        turned = lot.place.at(w, 0.0, turn=np.pi / 2.0)
        yield gable(turned, (-0.2, -0.15, height - 0.1), (DEPTH, w + 0.15, height + 0.42 * w), slope, end, lot.seed)
    elif style.roof == 2:
        yield from _parapet(lot, height)
    else:
        low, high = (0.0, -0.25, height), (w, DEPTH + 0.25, height + 2.6)
        yield tapered(lot.place, low, high, (0.0, 0.0, 1.3, 1.3), *[slope, end, slope, end, FELT, SOOT], seed=lot.seed)
        yield from _dormers(lot, height, 3.6)
    if style.roof != 2:
        yield from _chimney(lot, height, rng)


def _dormers(lot: Lot, height: float, rise: float) -> Iterator[Solid]:
    for k in range(lot.style.dormers):
        x = lot.width * (k + 1) / (lot.style.dormers + 1)
        small = Facade(Finish.PLASTER, 0.9, 1.0, 0.35, 1.5, 1, 0.0, 2.9, 1, 2.9, GroundFloor.WINDOWS, -1, 0.08, False,
                       1.5, lot.style.frame).coat(lot.style.wall, lot.style.trim)  # fmt: skip
        side = Coat(Material.TILES, lot.style.tiles)
        low, high = (x - 0.75, 0.8, height + 0.3), (x + 0.75, 3.6, height + 1.9)
        yield box(lot.place, low, high, small, side, side, side, side, SOOT, seed=lot.seed + k)
        turned = lot.place.at(x + 0.75, 0.0, height + 1.9, np.pi / 2.0)
        front = Coat(Material.STONE, lot.style.trim)
        yield gable(turned, (0.6, -0.15, -0.05), (4.0, 1.65, 0.65), side, front, lot.seed + k)


def _parapet(lot: Lot, height: float) -> Iterator[Solid]:
    w, top, t = lot.width, height + 0.55, 0.25
    for low, high in (
        ((-0.02, -0.04, height), (w + 0.02, t, top)),
        ((-0.02, DEPTH - t, height), (w + 0.02, DEPTH + 0.02, top)),
        ((-0.02, t, height), (t, DEPTH - t, top)),
        ((w - t, t, height), (w + 0.02, DEPTH - t, top)),
    ):
        yield box(lot.place, low, high, CONCRETE, seed=lot.seed)
    yield box(lot.place, (w * 0.3, 3.0, height), (w * 0.3 + 1.8, 5.2, height + 1.9), CONCRETE, seed=lot.seed + 5)
    yield box(lot.place, (w * 0.7, 5.0, height), (w * 0.7 + 1.0, 5.8, height + 0.8), ZINC, seed=lot.seed + 6)
    yield post(lot.place, w * 0.2, 6.5, height, height + 1.1, 0.18, ZINC)


def _chimney(lot: Lot, height: float, rng: np.random.Generator) -> Iterator[Solid]:
    x, y, top = lot.width * rng.uniform(0.15, 0.85), DEPTH * 0.58, height + rng.uniform(4.3, 4.9)
    stack = Coat(Material.STONE, (0.55, 0.36, 0.30))
    yield box(lot.place, (x - 0.4, y - 0.3, height), (x + 0.4, y + 0.3, top), stack, seed=lot.seed)
    yield box(lot.place, (x - 0.48, y - 0.38, top), (x + 0.48, y + 0.38, top + 0.12), CONCRETE, seed=lot.seed)
    for dx in (-0.2, 0.2):
        yield post(lot.place, x + dx, y, top + 0.1, top + 0.45, 0.11, stack, lot.seed)


def _trim(lot: Lot, front: Facade, height: float) -> Iterator[Solid]:
    trim = Coat(Material.STONE, lot.style.trim)
    w = lot.width
    yield box(lot.place, (0.0, -0.24, height - 0.16), (w, 0.0, height), trim, seed=lot.seed)
    yield box(lot.place, (0.0, -0.12, height - 0.34), (w, 0.0, height - 0.16), trim, seed=lot.seed)
    if lot.style.finish != Finish.TIMBER:
        low = front.ground_height - 0.08
        yield box(lot.place, (0.0, -0.07, low), (w, 0.0, low + 0.14), trim, seed=lot.seed)
    yield post(lot.place, w - 0.12, -0.1, 0.1, height - 0.3, 0.05, ZINC, lot.seed)
    if front.door_bay >= 0:
        x = front.first_bay + (front.door_bay + 0.5) * front.bay_width
        yield box(lot.place, (x - 0.75, -0.45, -0.1), (x + 0.75, 0.0, 0.05), STONE, seed=lot.seed)


def _sills(lot: Lot, front: Facade) -> Iterator[Solid]:
    for floor in range(1 if lot.style.shop else 0, front.floors):
        base = 0.0 if floor == 0 else front.ground_height + (floor - 1) * front.floor_height
        z = base + front.sill_height
        for bay in range(front.bays):
            if floor == 0 and bay == front.door_bay:
                continue
            x = front.first_bay + (bay + 0.5) * front.bay_width
            half = front.window_width / 2.0 + 0.1
            yield box(lot.place, (x - half, -0.13, z - 0.08), (x + half, 0.0, z), STONE, seed=lot.seed)


def _balconies(lot: Lot, front: Facade) -> Iterator[Solid]:
    x = front.first_bay + (lot.style.balcony_bay % front.bays + 0.5) * front.bay_width
    half, out = front.bay_width / 2.0 + 0.2, -1.05
    rail = Coat(Material.STRIPES, (0.25, 0.27, 0.28), (0.5, 0.52, 0.53), (0.06,))
    for floor in range(1, front.floors):
        z = front.ground_height + (floor - 1) * front.floor_height
        yield box(lot.place, (x - half, out, z - 0.14), (x + half, 0.0, z), CONCRETE, seed=lot.seed)
        yield box(lot.place, (x - half, out, z + 0.05), (x + half, out + 0.05, z + 0.95), rail, seed=lot.seed)
        yield box(lot.place, (x - half, out, z + 0.05), (x - half + 0.05, 0.0, z + 0.95), rail, seed=lot.seed)
        yield box(lot.place, (x + half - 0.05, out, z + 0.05), (x + half, 0.0, z + 0.95), rail, seed=lot.seed)


def _shop_front(lot: Lot, front: Facade, rng: np.random.Generator) -> Iterator[Solid]:
    w, z = lot.width, front.ground_height - 0.8
    if rng.random() < 0.6:
        cloth = AWNING_COLOURS[rng.integers(len(AWNING_COLOURS))]
        x0, x1 = 0.5, 0.5 + (w - 1.0) * float(rng.uniform(0.5, 1.0))
        corners = np.array(
            [
                *([x0, -1.2, z - 0.5], [x1, -1.2, z - 0.5], [x1, 0.0, z], [x0, 0.0, z]),
                *([x0, -1.2, z - 0.43], [x1, -1.2, z - 0.43], [x1, 0.0, z + 0.07], [x0, 0.0, z + 0.07]),
            ]
        )
        coat = Coat(Material.STRIPES, cloth, (0.9, 0.88, 0.82), (0.35,))
        epochs = 0b111 if rng.random() < 0.7 else int(rng.integers(1, 7))  # rolled in on some days
        yield Hull(lot.place.world(corners), BOX_FACES, (coat,) * 6, lot.seed, epochs)
    board = Coat(Material.LETTERS, SHOP_COLOURS[(lot.seed + 2) % len(SHOP_COLOURS)], numbers=(0.9,))
    x = w - 0.6
    yield box(lot.place, (x, -0.95, z + 0.95), (x + 0.08, -0.1, z + 1.5), board, seed=lot.seed)
    yield box(lot.place, (x, -0.95, z + 1.55), (x + 0.04, 0.0, z + 1.6), ZINC, seed=lot.seed)
