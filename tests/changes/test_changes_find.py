"""Changes against known truth: a box that comes, goes or stays, another sign, another light, something that moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from street_days import BOX, CONFIG, EYES, street_day, view

from skyanchor.changes import (
    Change,
    ChangeKind,
    Day,
    find_changes,
    flight_as_day,
    inside_cells,
    united,
    vanished_region,
)


@pytest.fixture(scope="module")
def empty() -> Day:
    return street_day()


@pytest.fixture(scope="module")
def boxed() -> Day:
    return street_day(BOX)


def is_the_box(change: Change) -> bool:
    """The side that the cameras see is all of it, so its back may be missing."""
    reaches = np.abs(change.low - BOX[0])[[0, 1]].max() < 0.25 and np.abs(change.high - BOX[1])[[0, 2]].max() < 0.25
    return bool(reaches and np.all(change.low >= BOX[0] - 0.25) and np.all(change.high <= BOX[1] + 0.25))


def test_a_box_that_is_gone_has_vanished(boxed: Day) -> None:
    (found,) = find_changes([boxed], street_day(light=0.6, shadow=0.3), CONFIG)
    assert found.kind == ChangeKind.VANISHED and is_the_box(found)
    assert found.views_before >= 3 and found.views_after >= 3 and found.confidence > 0.8


def test_what_lies_behind_a_place_may_be_farther_away_than_places_that_count(empty: Day, boxed: Day) -> None:
    near = [replace(day, farthest_m=6.3, photos=()) for day in (boxed, empty)]
    (found,) = find_changes(near[:1], near[1], CONFIG)
    assert found.kind == ChangeKind.VANISHED and np.all(found.high < BOX[1] + 0.25)


def test_a_new_box_has_appeared(empty: Day) -> None:
    (found,) = find_changes([empty], street_day(BOX, light=0.6, shadow=0.3), CONFIG)
    assert found.kind == ChangeKind.APPEARED and is_the_box(found)


def test_another_light_is_no_change(boxed: Day) -> None:
    assert find_changes([boxed], street_day(BOX, light=0.6, shadow=0.3), CONFIG) == ()


def test_another_sign_is_altered(boxed: Day) -> None:
    later = street_day(BOX, light=0.8, repainted=True)
    (found,) = find_changes([boxed], later, CONFIG)
    assert found.kind == ChangeKind.ALTERED
    assert np.linalg.norm(found.centre - (1.0, 7.0, 1.6)) < 0.3 and np.all(found.size < (1.9, 0.5, 1.3))
    squarely = replace(CONFIG, look=replace(CONFIG.look, least_cosine=0.999))  # nobody stands exactly before it
    assert find_changes([boxed], later, squarely) == ()


def test_what_passes_through_one_view_is_no_change(empty: Day) -> None:
    held, photo = view(EYES[4], (BOX,), 1.0, 99.0, False)
    maps, photos = list(empty.maps), list(empty.photos)
    maps[4], photos[4] = held, photo
    assert find_changes([empty], replace(empty, maps=maps, photos=photos), CONFIG) == ()


def test_wrong_depth_is_no_change_where_the_photos_agree(empty: Day, boxed: Day) -> None:
    phantom = replace(boxed, photos=empty.photos)
    assert find_changes([empty], phantom, CONFIG) == ()
    assert find_changes([replace(empty, photos=())], replace(phantom, photos=()), CONFIG)  # depth alone is deceived


def test_an_older_day_is_heard_only_where_no_newer_one_knows(empty: Day, boxed: Day) -> None:
    assert find_changes([boxed, empty], boxed, CONFIG) == ()
    nothing = Day([], CONFIG.farthest_m, CONFIG.margin_px, [])
    (found,) = find_changes([nothing, empty], boxed, CONFIG)
    assert found.kind == ChangeKind.APPEARED


def test_what_the_flight_shows_and_the_walk_looks_through_has_vanished(empty: Day, boxed: Day) -> None:
    middle = np.array([[0.0, 4.5, 0.6]])
    flight = flight_as_day(boxed.maps, middle, replace(CONFIG, farthest_m=1.6, aerial_margin_px=4.0))
    gone = vanished_region([flight], replace(empty, photos=()), CONFIG)
    places = CONFIG.voxel_m * (gone.cells + 0.5)
    assert len(places) > 100 and np.all((places > BOX[0] - 0.1) & (places < BOX[1] + 0.1))
    assert gone.holds(np.array([[0.0, 4.05, 0.8], [0.0, 6.0, 0.8]])).tolist() == [True, False]
    elsewhere = flight_as_day(boxed.maps, middle + 5.0, replace(CONFIG, farthest_m=1.6))
    assert not len(vanished_region([elsewhere], replace(empty, photos=()), CONFIG).cells)
    assert not len(vanished_region([flight], replace(boxed, photos=()), CONFIG).cells)


def test_photos_bear_out_what_vanished_where_there_are_any(empty: Day, boxed: Day) -> None:
    """A box that depth has and the photos do not is none; one that both have is gone."""
    phantom = replace(boxed, photos=empty.photos)
    alone = vanished_region([replace(phantom, photos=())], replace(empty, photos=()), CONFIG)
    assert len(alone) > 100 and not len(vanished_region([phantom], empty, CONFIG))
    gone = vanished_region([boxed], street_day(light=0.6, shadow=0.3), CONFIG)
    places = CONFIG.voxel_m * (gone.cells + 0.5)
    assert len(places) > 100 and np.all((places > BOX[0] - 0.1) & (places < BOX[1] + 0.1))
    assert len(united([gone, gone])) == len(gone) and len(vanished_region([empty], boxed, CONFIG)) == 0


def test_points_in_and_beside_cells() -> None:
    cells = np.array([[0, 0, 0], [10, -3, 2]])
    points = np.array([[0.05, 0.05, 0.05], [0.15, 0.05, 0.05], [1.05, -0.25, 0.25], [5.0, 5.0, 5.0]])
    assert inside_cells(points, cells, 0.1).tolist() == [True, False, True, False]
    assert inside_cells(points, cells, 0.1, reach=1).tolist() == [True, True, True, False]
    assert not inside_cells(points, cells[:0], 0.1).any()
