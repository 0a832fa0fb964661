"""Views of described places follow the street, whichever way it runs on the map."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skyanchor.bridges.ground import Ground
from skyanchor.bridges.street_directions import street_directions
from skyanchor.bridges.views import NodeConfig, free_places, nodes_at
from skyanchor.types import Bools, Floats

SIDE, CELL, HALF_WIDTH = 160, 0.5, 4.0


def ground(free: Bools) -> Ground:
    """Level ground of 80 x 80 m round the origin, in a frame whose axes are not those of the world."""
    across = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
    middle = -0.5 * SIDE * CELL
    return Ground(across, np.array([0.0, 0.0, 1.0]), np.full(2, middle), CELL, np.zeros(free.shape, np.float32), free)


def street(angle_deg: float) -> Bools:
    """Free ground along one direction, with parked cars at one of its sides."""
    x, y = (np.mgrid[:SIDE, :SIDE] + 0.5 - SIDE / 2) * CELL
    a = np.radians(angle_deg)
    along, aside = np.cos(a) * x + np.sin(a) * y, np.cos(a) * y - np.sin(a) * x
    cars = (aside > 1.5) & (aside < 3.2) & (along % 9.0 < 4.5)
    return (np.abs(aside) < HALF_WIDTH) & ~cars


def off(angles: Floats, period: float) -> Floats:
    """Degrees from the nearest multiple of a period."""
    return np.degrees(np.abs((angles + period / 2.0) % period - period / 2.0))


@pytest.mark.parametrize("angle_deg", [0.0, 15.0, 30.0, 45.0, 77.0, 90.0, 137.0])
def test_a_walker_has_a_view_along_the_street(angle_deg: float) -> None:
    on, config = ground(street(angle_deg)), NodeConfig()
    places = free_places(on, config.spacing, config.eye)
    directions = street_directions(on, places)
    assert len(places) > 8
    assert np.all((directions >= 0.0) & (directions < np.pi))
    assert off(directions - np.radians(angle_deg), np.pi).max() < 3.0
    looks = np.array([node.cam_from_world.rotation[2] for node in nodes_at(places, on, config)]) @ on.across.T
    headings = np.arctan2(looks[:, 1], looks[:, 0]).reshape(len(places), config.headings)
    for way in (angle_deg, angle_deg + 180.0):
        assert off(headings - np.radians(way), 2.0 * np.pi).min(axis=1).max() < 3.0
    assert off(np.diff(headings, axis=1), np.pi / 3.0).max() < 1e-6  # evenly round: never more than 30 degrees away


def test_a_crossing_follows_one_of_its_streets() -> None:
    for angle_deg in (10.0, 35.0):
        on = ground(street(angle_deg) | street(angle_deg + 70.0))
        directions = street_directions(on, free_places(on, 8.0, 1.7))
        nearest = [off(directions - np.radians(angle_deg + turn), np.pi) for turn in (0.0, 70.0)]
        assert np.min(nearest, axis=0).max() < 12.0  # corners are round and the rows of cars end at the crossing
        assert np.median(np.min(nearest, axis=0)) < 3.0


def test_ground_without_edges_keeps_the_axes_of_the_map() -> None:
    on = ground(np.ones((SIDE, SIDE), bool))
    places = free_places(on, 16.0, 1.7)
    assert np.isnan(street_directions(on, places)).all()
    fixed = [node.heading for node in nodes_at(places, on, replace(NodeConfig(), along_streets=False))]
    assert [node.heading for node in nodes_at(places, on, NodeConfig())] == fixed
