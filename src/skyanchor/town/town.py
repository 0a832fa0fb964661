"""A whole town from a seed: streets, houses, furniture, and the light of each epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntFlag

import numpy as np

from skyanchor.town import furniture, houses, layout, works
from skyanchor.town.geometry import Geometry, pack
from skyanchor.town.layout import Edge, Layout
from skyanchor.town.presets import StreetPlan
from skyanchor.town.solids import Place, Solid, Thing
from skyanchor.town.weather import CLEAR, Since, Weather, World
from skyanchor.types import Floats


class Epoch(IntFlag):
    """When a photo is taken; things that come and go carry the epochs they are there."""

    AERIAL = 1
    GROUND = 2
    LATER = 4


@dataclass(frozen=True, eq=False)
class Town:
    """The built town."""

    layout: Layout
    geometry: Geometry
    square: tuple[int, int]
    """Number of the block that is a market square."""
    solids: tuple[Solid, ...] = ()
    """What the geometry was packed from."""
    weather: Weather = CLEAR
    """Of the walks and of the flight."""
    things: tuple[Thing, ...] = ()
    """The same solids by what they belong to."""


def make_town(plan: StreetPlan, seed: int, weather: Weather = CLEAR) -> Town:
    """The town of a seed: the same bytes every time. What the weather changes leaves all else where it is."""
    streams = _streams(seed)
    plane = layout.make_layout(plan, streams[0])
    square = (min(2, plan.columns), min(2, plan.rows))
    edges = layout.block_edges(plane)
    changes = _Changes(weather.world, weather.since, seed)
    things = [*_houses(edges, square, plan, streams[1], changes)]
    things.extend(_streets(plane, edges, square, streams[2], changes))
    things.extend(_yards(plane, edges, square, streams[3]))
    if weather.since.still:
        things = [_still(thing) for thing in things]
    solids = [solid for thing in things for solid in thing.solids]
    if weather.world.bare > 0.0:
        solids = [*works.fallen(solids, weather.world.bare, changes.stream(3))]
    return Town(plane, pack(solids, *_tables(plane)), square, tuple(solids), weather, tuple(things))


def _still(thing: Thing) -> Thing:
    """The thing as on the day of the first walk, on that of the later one too."""
    before = int(Epoch.AERIAL | Epoch.GROUND)
    later = int(Epoch.LATER)
    return replace(
        thing,
        solids=tuple(
            replace(solid, epochs=solid.epochs & before | (later if solid.epochs & Epoch.GROUND else 0))
            for solid in thing.solids
        ),
    )


def _streams(seed: int) -> list[np.random.Generator]:
    """Random numbers of streets, houses, pavements and yards."""
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(4)]


def with_more(town: Town, more: Sequence[Solid]) -> Town:
    """The town with some more solids."""
    return replace(town, geometry=pack([*town.solids, *more], *_tables(town.layout)))


def _tables(plane: Layout) -> tuple[Floats, Floats]:
    plan = plane.plan
    return layout.street_table(plane), np.array([*plan.slope, plan.kerb, plan.pavement])


def sun(epoch: Epoch, weather: Weather = CLEAR) -> Floats:
    """(9,): direction to the sun, strength of sky and sun, then overcast, wet, snow and dusk, 0..1.

    Unless the weather says otherwise, flight and walk share an hour and the later day is hazier.
    """
    world, flight = weather.world, weather.flight
    azimuth, elevation, dome, strength = (world.sun_azimuth_deg, world.sun_elevation_deg, 0.36, 0.95)
    rest = (world.overcast, world.wet, world.snow, world.dusk)
    if epoch == Epoch.AERIAL:
        azimuth, elevation, rest = flight.sun_azimuth_deg, flight.sun_elevation_deg, (flight.overcast, 0.0, 0.0, 0.0)
    if epoch == Epoch.LATER:
        dome, strength = 0.55, 0.6
        if (azimuth, elevation) == (CLEAR.world.sun_azimuth_deg, CLEAR.world.sun_elevation_deg):
            azimuth, elevation = 195.0, 42.0
    a, e, (overcast, _, _, dusk) = np.radians(azimuth), np.radians(elevation), rest
    dome = (dome + 0.4 * overcast) * (1.0 - 0.85 * dusk)
    strength *= (1.0 - overcast) * (1.0 - dusk) ** 2
    return np.array([np.sin(a) * np.cos(e), np.cos(a) * np.cos(e), np.sin(e), dome, strength, *rest])


@dataclass(frozen=True)
class _Changes:
    """What the weather changes, each thing with random numbers of its own."""

    world: World
    since: Since
    seed: int

    def stream(self, number: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, 31, number])


# --- what stands where ------------------------------------------------------------------------------------------


def _houses(
    edges: list[Edge], square: tuple[int, int], plan: StreetPlan, rng: np.random.Generator, changes: _Changes
) -> Iterator[Thing]:
    types, other, share = houses.house_types(rng, plan.designs), changes.stream(0), changes.world.works
    if plan.designs_of is not None:
        types = houses.house_types(_streams(plan.designs_of)[1], plan.designs)
    later, since = changes.stream(4), changes.since.works
    spans = (works.UNTIL_LATER, works.AT_LATER)
    for edge in edges:
        if edge.block != square:
            for lot in houses.lots_along(edge, types, rng):
                yield Thing("house", tuple(houses.build(lot, rng)))
                if other.random() < share:
                    yield Thing("scaffolding", tuple(works.scaffolding(lot, other)))
                if lot.style.shop and other.random() < share:
                    yield Thing("sign", tuple(works.new_sign(lot, other)), covers=True)
                if later.random() < since:
                    yield Thing("scaffolding", tuple(works.scaffolding(lot, later, *spans)))
                elif lot.style.shop and later.random() < since:
                    yield Thing("sign", tuple(works.new_sign(lot, later, works.AT_LATER)), covers=True)


def _presence(rng: np.random.Generator, stays: float) -> int:
    """Epoch bits: all with probability `stays`, else a random part of them."""
    return int(Epoch.AERIAL | Epoch.GROUND | Epoch.LATER) if rng.random() < stays else int(rng.integers(1, 7))


def _streets(
    plane: Layout, edges: list[Edge], square: tuple[int, int], rng: np.random.Generator, changes: _Changes
) -> Iterator[Thing]:
    """Furniture on the pavement in front of every edge, and cars along its kerb."""
    swapped, cut, later = changes.stream(1), changes.stream(2), changes.stream(5)
    parking = _Parking(changes.world.cars, swapped, changes.since.cars, changes.stream(6))
    for edge in edges:
        kerb = -plane.plan.pavement
        for x in np.arange(4.0 + rng.uniform(0.0, 3.0), edge.length - 3.0, 17.0):
            place = _on_ground(plane, edge, x, kerb + 0.4)
            yield Thing("lamp", tuple(furniture.lamp(place, int(rng.integers(1 << 16)))))
        yield from _parked(plane, edge, rng, parking)
        for x in np.arange(1.0, edge.length - 5.0, 4.5):
            place = _on_ground(plane, edge, x, -0.45)
            if cut.random() < changes.world.hedges:
                yield Thing("hedge", tuple(works.hedge(place, 4.0, cut)))
            elif later.random() < changes.since.hedges:
                yield Thing("hedge", tuple(works.hedge(place, 4.0, later, works.UNTIL_LATER)))
        yield from _pavement_things(plane, edge, rng, leafy=edge.block == square or rng.random() < 0.3)


def _on_ground(plane: Layout, edge: Edge, x: float, y: float, turn: float = 0.0, on_road: bool = False) -> Place:
    place = edge.place.at(x, y, turn=turn)
    level = plane.height(place.origin[0], place.origin[1]) + (0.0 if on_road else plane.plan.kerb)
    return Place(np.array([place.origin[0], place.origin[1], level]), place.yaw)


@dataclass(frozen=True, eq=False)
class _Parking:
    """How many parked cars leave, and the random numbers that say which."""

    left: float
    """Share that is gone at the walks ..."""
    other: np.random.Generator
    left_since: float
    """... and between them."""
    later: np.random.Generator


def _parked(plane: Layout, edge: Edge, rng: np.random.Generator, parking: _Parking) -> Iterator[Thing]:
    """Cars along the kerb; some leave, and others stand in half of their places."""
    other, later = parking.other, parking.later
    x = 5.0 + rng.uniform(0.0, 3.0)
    while x < edge.length - 5.0:
        if rng.random() < 0.45:
            place = _on_ground(plane, edge, x, -plane.plan.pavement - 1.05 + rng.normal(0.0, 0.06),
                               turn=rng.normal(0.0, 0.02) + np.pi * (rng.random() < 0.15), on_road=True)  # fmt: skip
            epochs = _presence(rng, 0.6)
            if other.random() < parking.left:
                epochs &= works.AT_FLIGHT
                if other.random() < 0.5:
                    yield _car(place.at(other.uniform(-0.4, 0.4), 0.0), other, works.AT_WALKS)
            elif epochs & Epoch.GROUND and later.random() < parking.left_since:
                epochs &= works.UNTIL_LATER
                if later.random() < 0.5:
                    yield _car(place.at(later.uniform(-0.4, 0.4), 0.0), later, works.AT_LATER)
            yield _car(place, rng, epochs)
        x += rng.uniform(5.2, 6.4)


def _car(place: Place, rng: np.random.Generator, epochs: int) -> Thing:
    return Thing("car", tuple(furniture.car(place, rng, epochs)))


def _pavement_things(plane: Layout, edge: Edge, rng: np.random.Generator, leafy: bool) -> Iterator[Thing]:
    kerb = -plane.plan.pavement
    for x in np.arange(2.0, edge.length - 1.5, 2.6) + rng.uniform(-0.5, 0.5):
        pick, seed, epochs = rng.random(), int(rng.integers(1 << 16)), _presence(rng, 0.7)
        if leafy and pick < 0.28:
            place = _on_ground(plane, edge, x, kerb + 0.6)
            yield Thing("tree", tuple(furniture.tree(place, rng, rng.uniform(1.1, 1.7))))
        elif pick < 0.33:
            yield Thing("bin", tuple(furniture.bin_(_on_ground(plane, edge, x, -0.45), seed, epochs)))
        elif pick < 0.38:
            yield Thing("planter", tuple(furniture.planter(_on_ground(plane, edge, x, -0.5), rng, epochs)))
        elif pick < 0.48:
            yield Thing("bollard", tuple(furniture.bollard(_on_ground(plane, edge, x, kerb + 0.3), seed)))
        elif pick < 0.53:
            place = _on_ground(plane, edge, x, kerb + 0.35)
            yield Thing("road sign", tuple(furniture.road_sign(place, seed, epochs | Epoch.AERIAL)))
        elif pick < 0.57:
            yield Thing("bench", tuple(furniture.bench(_on_ground(plane, edge, x, -0.5), seed, epochs)))


def _yards(plane: Layout, edges: list[Edge], square: tuple[int, int], rng: np.random.Generator) -> Iterator[Thing]:
    """Trees behind the houses; stalls, trees and a fountain on the square."""
    for edge in edges:
        if edge.block != square:
            for x in np.arange(11.0, edge.length - 11.0, 5.0):
                if rng.random() < 0.55:
                    place = _on_ground(plane, edge, x + rng.uniform(-1.5, 1.5), houses.DEPTH + rng.uniform(2.0, 3.0))
                    yield Thing("tree", tuple(furniture.tree(place, rng, rng.uniform(1.3, 2.3))))
            continue
        for x in np.arange(4.0, edge.length - 4.0, 4.4):
            if rng.random() < 0.6:
                place = _on_ground(plane, edge, x, 4.0)
                yield Thing("stall", tuple(furniture.stall(place, rng, _presence(rng, 0.5))))
        for x in np.arange(3.0, edge.length - 3.0, 6.5):
            place = _on_ground(plane, edge, x, 1.5)
            yield Thing("tree", tuple(furniture.tree(place, rng, rng.uniform(1.4, 2.0))))
    own = [edge for edge in edges if edge.block == square]
    if own:
        place = _on_ground(plane, own[0], own[0].length / 2.0, own[0].length / 2.0)
        yield Thing("fountain", tuple(furniture.fountain(place, 1)))
