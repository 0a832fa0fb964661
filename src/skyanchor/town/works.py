"""What a year changes in a street: leaves that fell, hedges that were cut, scaffolding, other signs, other cars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from skyanchor.town import houses
from skyanchor.town.coats import Coat, Material
from skyanchor.town.houses import SHOP_COLOURS, Lot
from skyanchor.town.solids import ALWAYS, Cylinder, Lobe, Place, Solid, box, post

AT_FLIGHT, AT_WALKS = 0b001, 0b110
"""Epoch bits of what is gone since the flight, and of what came after it."""
UNTIL_LATER, AT_LATER = 0b011, 0b100
"""Epoch bits of what is gone since the first walk, and of what came after it."""
TUBE = Coat(Material.METAL, (0.60, 0.61, 0.62))
BOARD = Coat(Material.PLANKS, (0.58, 0.46, 0.30))
NET = Coat(Material.STRIPES, (0.30, 0.46, 0.36), (0.42, 0.58, 0.48), (0.09,))
TWIG = Coat(Material.BARK, (0.34, 0.28, 0.24))
BOX_TREE = Coat(Material.LEAVES, (0.24, 0.36, 0.18))
LIFT = 2.0
"""Metres between the floors of a scaffold."""


def fallen(solids: Iterable[Solid], share: float, rng: np.random.Generator) -> Iterator[Solid]:
    """The solids, with twigs in place of a share of the leaf clumps at the walks."""
    for solid in solids:
        if not isinstance(solid, Lobe) or rng.random() >= share:
            yield solid
            continue
        yield replace(solid, epochs=solid.epochs & AT_FLIGHT)
        for _ in range(3):
            along = rng.normal(size=3) + np.array([0.0, 0.0, 0.6])
            reach = solid.radius * rng.uniform(0.6, 1.0) * along / np.linalg.norm(along)
            yield Cylinder(solid.centre - 0.7 * reach, solid.centre + reach, 0.012, TWIG, solid.seed,
                           solid.epochs & AT_WALKS)  # fmt: skip


def hedge(place: Place, length: float, rng: np.random.Generator, high: int = AT_FLIGHT) -> Iterator[Solid]:
    """A hedge along local x, 1.7 m high at the epochs `high` and 0.9 m at the others."""
    for x in np.arange(0.3, length - 0.2, 0.42):
        for height, epochs in ((0.42, ALWAYS), (0.85, high), (1.28, high)):
            at = np.array([x + rng.normal(0.0, 0.04), rng.normal(0.0, 0.03), height])
            yield Lobe(place.world(at), float(rng.uniform(0.38, 0.46)), BOX_TREE, int(rng.integers(1 << 16)), epochs)


def scaffolding(lot: Lot, rng: np.random.Generator, before: int = AT_FLIGHT, after: int = AT_WALKS) -> Iterator[Solid]:
    """Tubes, boards and nets in front of a house, at the epochs `before` alone or `after` alone."""
    epochs = before if rng.random() < 0.4 else after
    _, eaves = houses.heights(lot)
    top, w = eaves + 1.0, lot.width
    for x in np.linspace(0.15, w - 0.15, max(2, round(w / 2.2))):
        for y in (-1.15, -0.35):
            yield post(lot.place, x, y, 0.0, top, 0.03, TUBE, lot.seed, epochs)
    for z in np.arange(LIFT, top, LIFT):
        yield box(lot.place, (0.0, -1.2, z - 0.05), (w, -0.3, z), BOARD, seed=lot.seed, epochs=epochs)
        ends = lot.place.world(np.array([[0.0, -1.18, z + 1.0], [w, -1.18, z + 1.0]]))
        yield Cylinder(ends[0], ends[1], 0.025, TUBE, lot.seed, epochs)
        if rng.random() < 0.45:
            x0 = float(rng.uniform(0.0, 0.4)) * w
            x1 = x0 + float(rng.uniform(0.35, 0.6)) * w
            yield box(lot.place, (x0, -1.24, z), (x1, -1.22, z + LIFT), NET, seed=lot.seed, epochs=epochs)


def new_sign(lot: Lot, rng: np.random.Generator, epochs: int = AT_WALKS) -> Iterator[Solid]:
    """A board with other letters over the old sign of a shop."""
    ground, _ = houses.heights(lot)
    colour = SHOP_COLOURS[int(rng.integers(len(SHOP_COLOURS)))]
    board = Coat(Material.LETTERS, colour, numbers=(lot.width - 0.8,))
    low, high = (0.4, -0.1, ground - 0.78), (lot.width - 0.4, -0.06, ground - 0.06)
    yield box(lot.place, low, high, board, seed=int(rng.integers(1 << 16)), epochs=epochs)
