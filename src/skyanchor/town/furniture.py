"""What stands in streets, squares and yards: cars, trees, lamps, signs, benches, bins."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from skyanchor.town.coats import Coat, Material, Rgb
from skyanchor.town.solids import ALWAYS, Cylinder, Lobe, Place, Solid, box, post, tapered

IRON = Coat(Material.METAL, (0.20, 0.22, 0.22))
STEEL = Coat(Material.METAL, (0.55, 0.56, 0.57))
RUBBER = Coat(Material.PLAIN, (0.10, 0.10, 0.10))
RIM = Coat(Material.METAL, (0.62, 0.63, 0.65))
GLASS = Coat(Material.CAR_GLASS, (0.13, 0.15, 0.17))
LAMP_GLASS = Coat(Material.PLAIN, (0.92, 0.90, 0.82))
WOOD = Coat(Material.PLANKS, (0.50, 0.36, 0.22))
PAINTS: tuple[Rgb, ...] = (
    *((0.12, 0.12, 0.13), (0.82, 0.82, 0.80), (0.55, 0.56, 0.58), (0.55, 0.10, 0.10), (0.12, 0.20, 0.40)),
    *((0.32, 0.34, 0.36), (0.68, 0.62, 0.50), (0.20, 0.34, 0.26)),
)
LAMP_RED, LAMP_WHITE = Coat(Material.PLAIN, (0.62, 0.08, 0.06)), Coat(Material.PLAIN, (0.90, 0.90, 0.86))
PLATE = Coat(Material.LETTERS, (0.86, 0.85, 0.78), numbers=(0.9,))


def car(place: Place, rng: np.random.Generator, epochs: int) -> Iterator[Solid]:
    """A parked car, along local x: body, bonnet, cabin, wheels, lights, bumpers."""
    paint = PAINTS[rng.integers(len(PAINTS))]
    body, side = Coat(Material.BODYWORK, paint), Coat(Material.CAR_SIDE, paint)
    seed, length, estate = int(rng.integers(1 << 20)), float(rng.uniform(1.9, 2.3)), bool(rng.random() < 0.4)
    half = 0.86
    yield tapered(place, (-length, -half, 0.2), (length, half, 0.62), (0.06, 0.05, -0.01, -0.01), body, seed=seed,
                  epochs=epochs)  # fmt: skip
    yield tapered(place, (-length + 0.05, -half - 0.02, 0.6), (length - 0.02, half + 0.02, 0.9),
                  (0.10, 0.18, 0.08, 0.08), side, body, side, body, body, body, seed=seed, epochs=epochs)  # fmt: skip
    back = (0.2 if estate else 0.65, 0.75)
    yield tapered(place, (-length + 0.12, -half + 0.06, 0.88), (length * 0.45, half - 0.06, 1.4),
                  (*back, 0.17, 0.17), GLASS, seed=seed, epochs=epochs)  # fmt: skip
    roof = (-length + 0.12 + back[0] - 0.05, length * 0.45 - back[1] + 0.08)
    yield tapered(place, (roof[0], -half + 0.21, 1.37), (roof[1], half - 0.21, 1.47), (0.1, 0.15, 0.08, 0.08), body,
                  seed=seed, epochs=epochs)  # fmt: skip
    for x in (-length + 0.75, length - 0.8):
        for y, out in ((-half - 0.035, 0.2), (half + 0.035, -0.2)):
            ends = place.world(np.array([[x, y, 0.31], [x, y + out, 0.31], [x, y - 0.015 * np.sign(out), 0.31]]))
            yield Cylinder(ends[0], ends[1], 0.31, RUBBER, seed, epochs)
            yield Cylinder(ends[2], ends[1], 0.18, RIM, seed, epochs)
    for x, lamp in ((-length, LAMP_RED), (length - 0.06, LAMP_WHITE)):
        for y in (-0.68, 0.46):
            yield box(place, (x, y, 0.6), (x + 0.08, y + 0.22, 0.76), lamp, seed=seed, epochs=epochs)
        yield box(place, (x - 0.02, -0.26, 0.42), (x + 0.12, 0.26, 0.54), PLATE, seed=seed, epochs=epochs)


def tree(place: Place, rng: np.random.Generator, size: float, epochs: int = ALWAYS) -> Iterator[Solid]:
    """A trunk with limbs and a crown of ragged leaf clumps; `size` is the crown's radius in metres."""
    seed = int(rng.integers(1 << 20))
    bark = Coat(Material.BARK, (0.36, 0.29, 0.23))
    green = np.array([0.36, 0.47, 0.22]) * rng.uniform(0.85, 1.15) + rng.uniform(-0.04, 0.04, 3)
    leaf = Coat(Material.LEAVES, (float(green[0]), float(green[1]), float(green[2])))
    stem = float(rng.uniform(1.9, 2.6))
    top = stem + 1.1 * size
    lean = rng.normal(0.0, 0.12, 2)
    yield Cylinder(
        place.world(np.zeros(3)), place.world(np.array([*lean, stem])), 0.07 * size + 0.06, bark, seed, epochs
    )
    middle = place.world(np.array([*lean, stem - 0.1]))
    for k in range(int(9 + 5 * size)):
        direction = rng.normal(size=3)
        direction /= np.linalg.norm(direction)
        spread = size * rng.uniform(0.25, 0.75) * np.array([1.0, 1.0, 0.95])
        centre = place.world(np.array([*lean, top])) + direction * spread
        if k < 4:
            yield Cylinder(middle, centre, 0.045, bark, seed, epochs)
        yield Lobe(centre, float(size * rng.uniform(0.3, 0.5)), leaf, seed + k, epochs)


def lamp(place: Place, seed: int) -> Iterator[Solid]:
    """A street lamp: post, base, arm over the road (local -y), head."""
    yield post(place, 0.0, 0.0, 0.0, 4.6, 0.05, IRON, seed)
    yield post(place, 0.0, 0.0, 0.0, 0.8, 0.09, IRON, seed)
    arm = place.world(np.array([[0.0, 0.0, 4.5], [0.0, -1.0, 4.85]]))
    yield Cylinder(arm[0], arm[1], 0.035, IRON, seed)
    yield tapered(place, (-0.12, -1.35, 4.75), (0.12, -0.85, 4.95), (0.05, 0.05, 0.1, 0.1), IRON, seed=seed)
    yield box(place, (-0.09, -1.3, 4.72), (0.09, -0.9, 4.76), LAMP_GLASS, seed=seed)


def road_sign(place: Place, seed: int, epochs: int) -> Iterator[Solid]:
    """A round sign above a small plate on a post; faces local -x."""
    yield post(place, 0.0, 0.0, 0.0, 2.75, 0.03, STEEL, seed, epochs)
    rim = ((0.70, 0.10, 0.10), (0.10, 0.25, 0.60))[seed % 2]
    disc = place.world(np.array([[-0.06, 0.0, 2.45], [-0.03, 0.0, 2.45], [-0.07, 0.0, 2.45]]))
    yield Cylinder(disc[0], disc[1], 0.3, Coat(Material.PLAIN, rim), seed, epochs)
    yield Cylinder(disc[2], disc[1], 0.21, LAMP_WHITE, seed, epochs)
    plate = Coat(Material.LETTERS, (0.9, 0.9, 0.86), numbers=(0.6,))
    yield box(place, (-0.06, -0.3, 1.6), (-0.03, 0.3, 2.05), plate, seed=seed, epochs=epochs)


def bench(place: Place, seed: int, epochs: int) -> Iterator[Solid]:
    """A wooden bench that looks along local -y."""
    yield box(place, (-0.9, -0.25, 0.42), (0.9, 0.2, 0.47), WOOD, seed=seed, epochs=epochs)
    yield box(place, (-0.9, 0.2, 0.5), (0.9, 0.25, 0.9), WOOD, seed=seed, epochs=epochs)
    for x in (-0.75, 0.7):
        yield box(place, (x, -0.22, 0.0), (x + 0.06, 0.24, 0.5), IRON, seed=seed, epochs=epochs)


def bin_(place: Place, seed: int, epochs: int) -> Iterator[Solid]:
    """A wheeled dustbin."""
    colour = ((0.16, 0.16, 0.17), (0.14, 0.30, 0.18), (0.15, 0.22, 0.40), (0.45, 0.33, 0.12))[seed % 4]
    plastic = Coat(Material.PLAIN, colour)
    yield tapered(place, (-0.22, -0.26, 0.08), (0.22, 0.26, 0.95), (-0.05, -0.05, -0.05, -0.05), plastic, seed=seed,
                  epochs=epochs)  # fmt: skip
    yield tapered(place, (-0.29, -0.33, 0.95), (0.29, 0.33, 1.05), (0.06, 0.06, 0.06, 0.06), plastic, seed=seed,
                  epochs=epochs)  # fmt: skip


def bollard(place: Place, seed: int) -> Iterator[Solid]:
    """An iron post at the kerb."""
    yield post(place, 0.0, 0.0, 0.0, 0.85, 0.055, IRON, seed)
    yield post(place, 0.0, 0.0, 0.7, 0.78, 0.06, LAMP_WHITE, seed)


def planter(place: Place, rng: np.random.Generator, epochs: int) -> Iterator[Solid]:
    """A stone trough with a bush."""
    seed = int(rng.integers(1 << 20))
    stone = Coat(Material.STONE, (0.66, 0.62, 0.56))
    yield tapered(place, (-0.5, -0.3, 0.0), (0.5, 0.3, 0.5), (-0.05, -0.05, -0.05, -0.05), stone, seed=seed,
                  epochs=epochs)  # fmt: skip
    leaf = Coat(Material.LEAVES, (0.30 + 0.2 * float(rng.random()), 0.45, 0.24))
    for x in (-0.3, 0.0, 0.3):
        centre = place.world(np.array([x, 0.0, 0.55 + 0.2 * float(rng.random())]))
        yield Lobe(centre, 0.3, leaf, seed, epochs)


def fountain(place: Place, seed: int) -> Iterator[Solid]:
    """A round basin with a column."""
    stone = Coat(Material.STONE, (0.68, 0.65, 0.60))
    water = Coat(Material.CAR_GLASS, (0.20, 0.28, 0.28))
    yield post(place, 0.0, 0.0, 0.0, 0.55, 1.9, stone, seed)
    yield post(place, 0.0, 0.0, 0.5, 0.57, 1.65, water, seed)
    yield post(place, 0.0, 0.0, 0.5, 2.1, 0.28, stone, seed)
    yield post(place, 0.0, 0.0, 1.5, 1.7, 0.75, stone, seed)
    yield post(place, 0.0, 0.0, 2.1, 2.9, 0.16, stone, seed)


def stall(place: Place, rng: np.random.Generator, epochs: int) -> Iterator[Solid]:
    """A market stall: table, posts, sloping cloth roof."""
    seed = int(rng.integers(1 << 20))
    cloth = Coat(Material.STRIPES, PAINTS[3 + seed % 2], (0.9, 0.88, 0.82), (0.3,))
    yield box(place, (-1.2, -0.5, 0.75), (1.2, 0.5, 0.85), WOOD, seed=seed, epochs=epochs)
    yield box(place, (-1.15, -0.4, 0.0), (1.15, 0.4, 0.75), WOOD, seed=seed, epochs=epochs)
    for x in (-1.15, 1.15):
        for y in (-0.7, 0.7):
            yield post(place, x, y, 0.0, 2.3, 0.03, STEEL, seed, epochs)
    yield tapered(place, (-1.4, -0.95, 2.2), (1.4, 0.95, 2.75), (0.7, 0.7, 0.9, 0.9), cloth, seed=seed, epochs=epochs)
