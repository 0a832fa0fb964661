"""XFeat that sees through shade: what it finds under leaves is what the published network found without them."""

from __future__ import annotations

import numpy as np
import pytest

from skyanchor.matching import Disk, Features, LighterGlue, Sift, XFeat, XFeatStar, match_features, through_shade
from skyanchor.town import Epoch, Town, render_colour, routes, sensor
from skyanchor.town.conditions import MIDDLE, leaf_shade
from skyanchor.town.presets import MINI
from skyanchor.town.town import make_town
from skyanchor.types import Photo

PLAIN = XFeat(keypoints=1500, longest=480, threshold=0.01)
SHADE = through_shade(PLAIN)


@pytest.fixture(scope="module")
def clear() -> Photo:
    """A street of a town that the network was not trained on."""
    town: Town = make_town(MINI.streets, 77)
    shot = routes.walk_shots(MINI.walk, town.layout, "ground", np.random.default_rng([77, 12]))[9]
    light = render_colour(town, routes.walk_camera(MINI.walk), shot.cam_from_world, Epoch.GROUND)
    return Photo("clear", sensor.develop(light, sensor.handheld_sensor(1.0, 0.01, 0.1), np.random.default_rng(3)))


def right(a: Features, b: Features) -> int:
    """Matches between two pictures of one view that join the same place."""
    pairs = match_features(a, b, 1.0, 0.82)
    return int((np.linalg.norm(a.xy[pairs[:, 0]] - b.xy[pairs[:, 1]], axis=1) < 3.0).sum())


def test_far_more_is_found_again_under_leaves(clear: Photo) -> None:
    shaded = Photo("shaded", leaf_shade(clear.pixels, MIDDLE, 5, 0))
    plain, shade = PLAIN.load("cpu"), SHADE.load("cpu")
    wanted = plain.extract(clear)  # places are described by the published network
    before, after = right(plain.extract(shaded), wanted), right(shade.extract(shaded), wanted)
    assert after > 2 * before and after > 100


def test_a_clear_picture_looks_the_same(clear: Photo) -> None:
    plain, shade = PLAIN.load("cpu"), SHADE.load("cpu")
    wanted = plain.extract(clear)
    assert right(shade.extract(clear), wanted) > 0.75 * len(wanted)


def test_features_of_one_are_never_taken_for_the_others() -> None:
    for choice in (PLAIN, XFeatStar(), LighterGlue()):
        assert choice.load("cpu").key != through_shade(choice).load("cpu").key


def test_choices_without_such_a_network_stay_as_they_are() -> None:
    assert through_shade(Sift()) == Sift() and through_shade(Disk()) == Disk()
