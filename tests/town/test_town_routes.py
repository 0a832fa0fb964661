"""Flight, walks and sensors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skyanchor.geometry import rigid
from skyanchor.geometry.cameras import project
from skyanchor.geometry.depth import inside
from skyanchor.town import CITY, TOWN, Town, make_town
from skyanchor.town.layout import make_layout
from skyanchor.town.routes import covered_area, flight_camera, flight_shots, walk_line, walk_shots
from skyanchor.town.sensor import develop, handheld_sensor, survey_sensor


def test_flight_has_five_looks() -> None:
    layout = make_layout(TOWN.streets, np.random.default_rng(0))
    area = covered_area([TOWN.walk], layout)
    shots = flight_shots(TOWN.flight, layout, area, np.random.default_rng(1))
    assert 40 <= len(shots) <= 80
    assert len({shot.name for shot in shots}) == len(shots)
    for letter, tilt in (("n", 0.0), ("f", 45.0), ("b", 45.0), ("l", 45.0), ("r", 45.0)):
        own = [shot for shot in shots if shot.name[5] == letter]
        assert len(own) >= 6
        down = np.degrees(np.arccos([-shot.cam_from_world.rotation[2, 2] for shot in own]))
        assert np.all(np.abs(down - tilt) < 4.0)
    heights = rigid.centres_in_world([shot.cam_from_world for shot in shots])[:, 2]
    assert np.all(np.abs(heights - TOWN.flight.altitude) < 4.0)


def test_a_city_is_flown_so_that_every_front_is_seen_from_several_stations() -> None:
    layout = make_layout(CITY.streets, np.random.default_rng(0))
    area = covered_area([CITY.walk, *CITY.other_walks], layout)
    shots = flight_shots(CITY.flight, layout, area, np.random.default_rng(1))
    assert 800 <= len(shots) <= 1200
    x, y = (part.ravel() for part in np.meshgrid(*(np.linspace(area[k], area[k + 2], 8) for k in (0, 1))))
    points = np.stack([x, y, layout.height(x, y) + 4.0], axis=1)
    camera = flight_camera(CITY.flight)
    for letter, least in (("n", 1), ("f", 4), ("b", 4), ("l", 4), ("r", 4)):
        seen = np.zeros(len(points), int)
        for shot in shots:
            if shot.name[5] == letter:
                local = shot.cam_from_world(points)
                seen += (local[:, 2] > 0) & inside(camera, project(camera, local))
        assert seen.min() >= least, letter


def test_walk_turns_twice_in_the_carriageway() -> None:
    layout = make_layout(TOWN.streets, np.random.default_rng(0))
    shots = walk_shots(TOWN.walk, layout, "ground", np.random.default_rng(2))
    centres = rigid.centres_in_world([shot.cam_from_world for shot in shots])
    heights = centres[:, 2] - [layout.height(x, y) for x, y, _ in centres]
    assert np.all(np.abs(heights - 1.7) < 0.15)
    steps = np.linalg.norm(np.diff(centres, axis=0), axis=1)
    assert 0.5 < np.median(steps) < 0.75
    assert steps.max() < 1.2
    lines = np.vstack([layout.columns, layout.rows])
    across = np.abs(centres[:, :2] @ lines[:, :2].T - lines[:, 2]).min(axis=1)
    assert across.max() < 1.4  # parked cars reach to 1.4 m from the middle
    _, headings = walk_line(TOWN.walk, layout)
    turned = np.abs(np.diff(headings))
    assert 140.0 < np.degrees(turned.sum()) < 230.0
    for shot in shots:
        assert np.allclose(shot.cam_from_world.rotation @ shot.cam_from_world.rotation.T, np.eye(3), atol=1e-12)
        assert shot.cam_from_world.rotation[1, 2] < -0.9  # image down is world down


def test_later_walk_overlaps_partly() -> None:
    assert TOWN.later_walk is not None
    layout = make_layout(TOWN.streets, np.random.default_rng(0))
    first, later = (walk_line(plan, layout)[0] for plan in (TOWN.walk, TOWN.later_walk))
    nearest = np.linalg.norm(later[:, None] - first[None], axis=2).min(axis=1)
    assert 0.3 < np.mean(nearest < 1.5) < 0.9


def test_a_town_is_its_seed(tiny_town: Town) -> None:
    again = make_town(tiny_town.layout.plan, 7)
    for a, b in zip(tiny_town.geometry, again.geometry, strict=True):
        assert np.array_equal(a, b)
    other = make_town(tiny_town.layout.plan, 8)
    assert not np.array_equal(tiny_town.geometry.streets, other.geometry.streets)
    assert len(tiny_town.geometry.shapes) != len(other.geometry.shapes)


def facade_looks(town: Town) -> set[tuple[float, ...]]:
    """Colours, bays and windows of all facades."""
    coats = town.geometry.coats[town.geometry.coats[:, 0] == 1]
    return {tuple(np.round(row[[1, 2, 3, 7, 8, 9, 11]], 6)) for row in coats}


def test_towns_can_share_their_house_designs(tiny_town: Town) -> None:
    plan = tiny_town.layout.plan
    twin, other = make_town(replace(plan, designs_of=7), 8), make_town(plan, 8)
    assert np.array_equal(twin.geometry.streets, other.geometry.streets)
    shared = facade_looks(tiny_town)
    assert len(facade_looks(twin) & shared) >= 0.6 * len(shared)
    assert len(facade_looks(other) & shared) < 0.3 * len(shared)


def test_house_types_repeat(tiny_town: Town) -> None:
    """Look-alikes exist: far fewer facade designs than facades."""
    town = tiny_town
    looks = facade_looks(town)
    facades = np.isin(town.geometry.faces[:, 9], np.flatnonzero(town.geometry.coats[:, 0] == 1)).sum()
    assert 4 <= len(looks) < 0.2 * facades


def test_sensors_differ_as_photos_do() -> None:
    grey = np.full((90, 160, 3), 0.2, np.float32)
    survey = develop(grey, survey_sensor(1.0, 0.006), np.random.default_rng(0)).astype(float)
    phone = develop(grey, handheld_sensor(1.0, 0.012, 0.1), np.random.default_rng(0)).astype(float)
    assert 1.0 < phone[30:60, 60:100, 1].std() / survey[30:60, 60:100, 1].std() < 4.0
    assert 0.5 < survey[30:60, 60:100, 1].std() < 6.0
    assert phone[..., 0].mean() > phone[..., 2].mean() + 3.0
    assert phone[:8, :8].mean() < 0.96 * phone[40:50, 75:85].mean()
    brighter = develop(grey, survey_sensor(1.5, 0.006), np.random.default_rng(0)).astype(float)
    assert np.isclose(brighter.mean() / survey.mean(), 1.5 ** (1 / 2.2), rtol=0.03)
