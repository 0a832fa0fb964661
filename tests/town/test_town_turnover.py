"""What the town says has changed is what its pictures show, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import lift, pixel_centres
from skyanchor.storage import files
from skyanchor.town import Epoch, Town, Weather, make_town, render_depth
from skyanchor.town.build import TRUE_CHANGES
from skyanchor.town.coats import Coat, Material
from skyanchor.town.layout import way_point
from skyanchor.town.solids import Place, Thing, box
from skyanchor.town.turnover import ALTERED, APPEARED, VANISHED, TrueChanges, turnovers
from skyanchor.town.weather import Since
from skyanchor.types import Camera, Floats, Pose

UP = np.array([0.0, 0.0, 1.0])
PAINT = Coat(Material.PLAIN, (0.5, 0.5, 0.5))


def views(town: Town) -> list[tuple[Camera, Pose]]:
    """From head height along both streets."""
    found = []
    for row in (0.1, 0.4, 0.7):
        a, b = way_point(town.layout, 0.0, row), way_point(town.layout, 0.0, row + 0.2)
        eye = np.array([*a, town.layout.height(*a) + 1.7])
        found.append((cameras.pinhole(120, 68, 86.0), rigid.look_at(eye, np.array([*b, eye[2]]), UP)))
    return found


def differing(town: Town, camera: Camera, pose: Pose) -> Floats:
    """(N, 3), the nearer surface where the depth of the two walks differs by more than 5 cm."""
    one, two = (render_depth(town, camera, pose, epoch) for epoch in (Epoch.GROUND, Epoch.LATER))
    far = [np.where(depth > 0, depth, np.inf) for depth in (one, two)]
    with np.errstate(invalid="ignore"):
        rows, columns = np.nonzero(np.abs(far[0] - far[1]) > 0.05)
    depth = np.minimum(*far)[rows, columns].astype(np.float64)
    return lift(camera, pose, pixel_centres(rows, columns), depth)


def test_what_the_walks_show_otherwise_lies_in_the_boxes_of_the_changes(tiny_town: Town) -> None:
    town = make_town(tiny_town.layout.plan, 7, Weather(since=Since(cars=0.5, hedges=0.3, works=0.4)))
    found = turnovers(town.things, Epoch.GROUND, Epoch.LATER)
    low, high = np.array([one.low for one in found]) - 0.02, np.array([one.high for one in found]) + 0.02
    points = np.concatenate([differing(town, *view) for view in views(town)])
    held = ((points[:, None] >= low) & (points[:, None] <= high)).all(axis=2)
    assert len(points) > 500 and held.any(axis=1).all()
    assert held.any(axis=0).sum() >= 3  # and several of them are seen
    assert {"car", "hedge", "scaffolding"} <= {one.name for one in found}


def test_nothing_changes_between_the_walks_of_a_town_that_stays_still(tiny_town: Town) -> None:
    town = make_town(tiny_town.layout.plan, 7, Weather(since=Since(still=True)))
    assert turnovers(town.things, Epoch.GROUND, Epoch.LATER) == ()
    assert turnovers(town.things, Epoch.AERIAL, Epoch.LATER)  # the flight was on another day
    assert sum(len(differing(town, *view)) for view in views(town)) == 0


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ((0.0, Epoch.GROUND), (5.0, Epoch.LATER), {VANISHED, APPEARED}),
        ((0.0, Epoch.GROUND), (0.3, Epoch.LATER), {ALTERED}),
        ((0.0, Epoch.GROUND | Epoch.LATER), (5.0, Epoch.AERIAL), set()),
    ],
)
def test_kinds(before: tuple[float, int], after: tuple[float, int], kinds: set[str]) -> None:
    here = Place(np.zeros(3), 0.0)
    things = [
        Thing("box", (box(here, (x, 0.0, 0.0), (x + 1.0, 1.0, 1.0), PAINT, epochs=int(epochs)),))
        for x, epochs in (before, after)
    ]
    found = turnovers(things, Epoch.GROUND, Epoch.LATER)
    assert {one.how for one in found} == kinds
    if kinds == {ALTERED}:
        assert found[0].low == (0.0, 0.0, 0.0) and found[0].high == (1.3, 1.0, 1.0)


def test_a_board_over_another_alters_it() -> None:
    here = Place(np.zeros(3), 0.0)
    board = box(here, (0.0, 0.0, 0.0), (1.0, 0.04, 1.0), PAINT, epochs=int(Epoch.LATER))
    assert turnovers([Thing("sign", (board,), covers=True)], Epoch.GROUND, Epoch.LATER)[0].how == ALTERED


def test_every_walk_brings_its_true_changes(tiny_scene: Path, tiny_town: Town) -> None:
    first, later = (files.load(tiny_scene / walk / TRUE_CHANGES, TrueChanges) for walk in ("ground", "ground2"))
    assert first.since_first_walk == () and first.since_flight
    assert later.since_first_walk == turnovers(tiny_town.things, Epoch.GROUND, Epoch.LATER)
