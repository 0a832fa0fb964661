"""Which of two surfaces photos show, against known truth: boxes that are there, bulges that are not, plain roads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from street_days import BOX, CONFIG, street_day

from skyanchor.changes import ChangeKind, Day, find_changes
from skyanchor.changes.look import Seen, seen
from skyanchor.changes.rivals import Rivalry, looked_through, standing
from skyanchor.types import Bytes, Ints

EMPTY, BOXED = street_day(), street_day(BOX)
DECEIVED = replace(BOXED, photos=EMPTY.photos)
"""Its depth has the box, its photos do not."""
BLIND = replace(EMPTY, photos=BOXED.photos)
"""Its photos show the box, its depth looks through."""


def looking(day: Day) -> list[Seen]:
    """The photos of a day with their depth."""
    pairs = zip(day.maps, day.photos, strict=True)
    return [seen(held, held.depth > 0, held.depth > 0, photo, CONFIG.look) for held, photo in pairs]


def box_cells() -> Ints:
    """(N, 3), the cells of the box and those around it."""
    low, high = (np.floor(corner / CONFIG.voxel_m).astype(int) for corner in BOX)
    axes = [np.arange(a, b + 1) for a, b in zip(low - (1, 1, -1), high + 1, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)


def plain(day: Day) -> Day:
    """The day with photos of an even grey and a little noise."""
    return noisy(replace(day, photos=[np.full(one.shape, 120, np.uint8) for one in day.photos]), 2.0)


def noisy(day: Day, sigma: float) -> Day:
    """The day with noise of so many grey levels on its photos."""
    draw = np.random.default_rng(3)
    photos: list[Bytes] = [
        (one + draw.normal(0.0, sigma, one.shape)).clip(0, 255).astype(np.uint8) for one in day.photos
    ]
    return replace(day, photos=photos)


def test_photos_of_a_box_show_the_box_and_not_what_the_other_day_has_behind_it() -> None:
    asked = standing(box_cells(), [looking(BOXED)], [looking(EMPTY)], CONFIG)
    assert asked.sure(CONFIG) and asked.worse > 2.0 and asked.pixels > 1000


def test_depth_that_photos_contradict_is_not_sure() -> None:
    asked = standing(box_cells(), [looking(DECEIVED)], [looking(EMPTY)], CONFIG)
    assert asked.worse < 1.0 and not asked.sure(CONFIG)


def test_plain_photos_cannot_tell_two_surfaces_apart() -> None:
    asked = standing(box_cells(), [looking(plain(BOXED))], [looking(EMPTY)], CONFIG)
    assert abs(asked.worse - 1.0) < 0.1 and not asked.sure(CONFIG)


def test_photos_that_look_through_show_what_is_behind() -> None:
    asked = looked_through(box_cells(), [looking(EMPTY)], [looking(BOXED)], CONFIG)
    assert asked.sure(CONFIG) and asked.worse > 2.0
    assert looked_through(box_cells(), [looking(BLIND)], [looking(BOXED)], CONFIG).worse < 1.0


def test_one_photo_is_not_enough() -> None:
    assert not Rivalry(own=1.0, other=100.0, pixels=1000, views=CONFIG.least_views - 1).sure(CONFIG)
    assert Rivalry(own=1.0, other=100.0, pixels=1000, views=CONFIG.least_views).sure(CONFIG)
    assert Rivalry().worse == 1.0


def test_only_pixels_whose_surfaces_lie_apart_are_asked() -> None:
    """A few lie at the edge of the box, where one photo shows the wall and another does not."""
    for ask, here, there in ((standing, BOXED, EMPTY), (looked_through, EMPTY, BOXED)):
        apart = ask(box_cells(), [looking(here)], [looking(there)], CONFIG)
        same = ask(box_cells(), [looking(BOXED)], [looking(BOXED)], CONFIG)
        assert same.pixels < 0.1 * apart.pixels


def test_photos_too_close_to_see_depth_and_too_few_pixels_say_nothing() -> None:
    for rivals in (replace(CONFIG.rivals, apart_m=9.0), replace(CONFIG.rivals, least_pixels=10**6)):
        assert standing(box_cells(), [looking(BOXED)], [looking(EMPTY)], replace(CONFIG, rivals=rivals)) == Rivalry()


def test_photos_are_compared_with_those_of_their_own_day_alone() -> None:
    dark = looking(replace(BOXED, photos=[255 - photo for photo in BOXED.photos]))
    each = [standing(box_cells(), [day], [looking(EMPTY)], CONFIG) for day in (looking(BOXED), dark)]
    both = standing(box_cells(), [looking(BOXED), dark], [looking(EMPTY)], CONFIG)
    assert both.own == pytest.approx(each[0].own + each[1].own) and both.views == each[0].views + each[1].views


def test_an_older_day_says_where_a_surface_is_only_where_the_newer_does_not() -> None:
    newer, older = looking(EMPTY), looking(BOXED)
    asked = standing(box_cells(), [looking(BOXED)], [newer], CONFIG)
    assert standing(box_cells(), [looking(BOXED)], [newer, older], CONFIG) == asked
    assert standing(box_cells(), [looking(BOXED)], [older, newer], CONFIG).pixels < 0.2 * asked.pixels


def test_something_before_the_surface_in_one_photo_does_not_outweigh_the_others() -> None:
    photos = looking(BOXED)
    covered = [replace(one, texture=-one.texture) if k in (1, 5) else one for k, one in enumerate(photos)]
    counts_all = replace(CONFIG, rivals=replace(CONFIG.rivals, best=4))
    asked, all_count = (standing(box_cells(), [covered], [looking(EMPTY)], c) for c in (CONFIG, counts_all))
    assert asked.worse > all_count.worse


def test_a_bulge_that_all_views_share_is_no_change_where_their_photos_are_plain() -> None:
    assert find_changes([EMPTY], plain(BOXED), CONFIG) == ()
    alone = [replace(day, photos=()) for day in (EMPTY, BOXED)]
    assert find_changes(alone[:1], alone[1], CONFIG), "depth alone is deceived"


def test_a_day_that_wrongly_looks_through_is_no_change() -> None:
    assert find_changes([BOXED], BLIND, CONFIG) == ()


def test_a_box_that_was_repainted_and_is_looked_through_has_not_vanished() -> None:
    repainted = replace(EMPTY, photos=[255 - photo for photo in BOXED.photos])
    assert ChangeKind.VANISHED not in [one.kind for one in find_changes([BOXED], repainted, CONFIG)]


def test_where_the_other_day_cannot_tell_the_looks_of_both_days_decide() -> None:
    grainy = noisy(plain(EMPTY), 40.0)
    assert not looked_through(box_cells(), [looking(grainy)], [looking(BOXED)], CONFIG).sure(CONFIG)
    (found,) = find_changes([BOXED], grainy, CONFIG)
    assert found.kind == ChangeKind.VANISHED
    assert find_changes([BOXED], grainy, replace(CONFIG, least_other=10**6)) == ()
