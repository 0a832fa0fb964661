"""Solids of known size and place: what a ray meets, how far, and in whose shadow."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from skyanchor.geometry import cameras, rigid
from skyanchor.town import Epoch, Town, TownPreset, make_town, render_colour, render_depth
from skyanchor.town.coats import Coat, Material
from skyanchor.town.geometry import pack
from skyanchor.town.ray_kernels import LEAF_CORE
from skyanchor.town.render_kernels import _recess
from skyanchor.town.routes import walk_shots
from skyanchor.town.solids import Lobe, Place, Solid, box, gable, post
from skyanchor.town.town import sun
from skyanchor.types import Camera, Floats32, Pose

UP = np.array([0.0, 0.0, 1.0])
NORTH = np.array([0.0, 1.0, 0.0])
HERE = Place(np.zeros(3), 0.0)
PLAIN = Coat(Material.PLAIN, (0.6, 0.6, 0.6))
WALL = box(HERE, (-5.0, 10.0, 0.0), (5.0, 11.0, 6.0), PLAIN)
FAR_OFF = box(HERE, (5000.0, 5000.0, 0.0), (5001.0, 5001.0, 1.0), PLAIN)
CAMERA = cameras.pinhole(81, 61, 60.0)
EYE = np.array([0.0, 0.0, 1.7])


def plain_town(like: Town, *solids: Solid) -> Town:
    """Level ground at zero without streets, these solids, and a box beyond the horizon."""
    return Town(like.layout, pack([*solids, FAR_OFF], np.zeros((0, 6)), np.zeros(4)), like.square)


def ahead(eye: np.ndarray = EYE, yaw: float = 0.0) -> Pose:
    """Looking north, turned to the west by `yaw` radians, level."""
    return rigid.look_at(eye, eye + np.array([-np.sin(yaw), np.cos(yaw), 0.0]), UP)


def down(height: float, x: float = 0.0, y: float = 0.0) -> Pose:
    eye = np.array([x, y, height])
    return rigid.look_at(eye, eye - UP, NORTH)


def rows_of(camera: Camera) -> np.ndarray:
    """(H, W), slope of the pixels' rays below the horizon of a level camera."""
    k = cameras.calibration(camera)
    return np.repeat(((np.arange(camera.height) + 0.5 - k[1, 2]) / k[1, 1])[:, None], camera.width, axis=1)


def test_a_wall_stands_where_it_was_built(tiny_town: Town) -> None:
    depth = render_depth(plain_town(tiny_town, WALL), CAMERA, ahead(), Epoch.GROUND)
    slope = rows_of(CAMERA)
    across = np.abs((np.arange(81) + 0.5 - 40.5) / 60.0)[None]
    on_wall = (slope * 10.0 < 1.7) & (slope * 10.0 > -4.3) & (across * 10.0 < 5.0)
    assert on_wall.sum() > 1000
    assert np.abs(depth[on_wall] - 10.0).max() < 1e-4
    floor = ~on_wall & (slope > 0) & ((1.7 / np.where(slope > 0, slope, 1.0) < 10.0) | (across * 10.0 > 5.2))
    assert np.abs(depth[floor] * slope[floor] - 1.7).max() < 1e-3
    assert not depth[(slope < -0.45)].any()  # over the wall there is sky


def test_a_post_has_its_width_and_its_front(tiny_town: Town) -> None:
    town = plain_town(tiny_town, post(HERE, 0.0, 8.0, 0.0, 5.0, 0.5, PLAIN))
    row = render_depth(town, cameras.pinhole(161, 1, 160.0), ahead(), Epoch.GROUND)[0]
    assert row[80] == pytest.approx(7.5, abs=1e-4)
    half = 160.0 * 0.5 / np.sqrt(8.0**2 - 0.5**2)
    assert np.count_nonzero((row > 0) & (row < 8.1)) == pytest.approx(2.0 * half, abs=1.0)
    x = (np.arange(161) + 0.5 - 80.5) / 160.0
    seen = np.abs(x) * 160.0 < half - 1.0
    # x² (1 + s²) - 16 x + 64 - r² = 0 along the ray (s, 1)
    expected = (8.0 - np.sqrt(64.0 - (1.0 + x[seen] ** 2) * (64.0 - 0.25))) / (1.0 + x[seen] ** 2)
    assert np.abs(row[seen] - expected).max() < 1e-4


def test_a_roof_has_its_ridge_and_its_eaves(tiny_town: Town) -> None:
    town = plain_town(tiny_town, gable(HERE, (-4.0, -3.0, 5.0), (4.0, 3.0, 7.0), PLAIN, PLAIN))
    depth = render_depth(town, cameras.pinhole(3, 81, 400.0), down(47.0), Epoch.AERIAL)[:, 1]
    k = (np.arange(81) + 0.5 - 40.5) / 400.0
    on_roof = np.abs(k) * 42.0 < 2.8
    y = -k * depth
    assert np.abs(47.0 - depth[on_roof] - (7.0 - np.abs(y[on_roof]) * 2.0 / 3.0)).max() < 1e-3
    assert np.abs(depth[np.abs(k) * 40.0 > 3.1] - 47.0).max() < 1e-3


def test_leaves_are_a_ragged_ball_round_a_closed_core(tiny_town: Town) -> None:
    town = plain_town(tiny_town, Lobe(np.array([0.0, 10.0, 1.7]), 2.0, PLAIN, 4))
    depth = render_depth(town, cameras.pinhole(101, 101, 600.0), ahead(), Epoch.GROUND)
    aside = (np.arange(101) + 0.5 - 50.5) / 600.0
    radius = np.sqrt((10.0 - depth) ** 2 + (aside[None] * depth) ** 2 + (aside[:, None] * depth) ** 2)
    shell, core = np.abs(radius - 2.0) < 1e-3, np.abs(radius - 2.0 * LEAF_CORE) < 1e-3
    assert (shell | core).all() and 0.2 < shell.mean() < 0.8


@pytest.mark.parametrize("yaw", [0.3, 1.2, -2.5])
def test_turning_everything_turns_nothing(tiny_town: Town, yaw: float) -> None:
    """The same wall, turned and carried off with its camera, is seen alike; all octants of rays have their tree."""
    place = Place(np.array([7.0, -3.0, 0.0]), yaw)
    parts = [((-5.03, 10, 0), (4.96, 11, 6.01)), ((-3.07, 6, 0), (-2.02, 7, 3.03)), ((2.01, 7, 0), (3.04, 8, 1.02))]
    one = plain_town(tiny_town, *(box(HERE, low, high, PLAIN) for low, high in parts))
    two = plain_town(tiny_town, *(box(place, low, high, PLAIN) for low, high in parts))
    camera = cameras.pinhole(81, 61, 61.7)
    first = render_depth(one, camera, ahead(), Epoch.GROUND)
    second = render_depth(two, camera, ahead(place.world(EYE), yaw), Epoch.GROUND)
    assert np.mean(np.abs(first - second) < 1e-3) > 0.998  # but for pixels that an edge runs through
    assert len(np.unique(np.round(first[first > 0], 1))) > 20


def test_things_are_there_at_their_time_only(tiny_town: Town) -> None:
    town = plain_town(tiny_town, WALL, box(HERE, (-1.0, 5.0, 0.0), (1.0, 6.0, 3.0), PLAIN, epochs=int(Epoch.LATER)))
    middle = [float(render_depth(town, CAMERA, ahead(), epoch)[30, 40]) for epoch in Epoch]
    assert middle == pytest.approx([10.0, 10.0, 5.0], abs=1e-4)


# --- light --------------------------------------------------------------------------------------------------------


def lit_and_shaded(like: Town, epoch: Epoch) -> tuple[Floats32, Floats32]:
    """A spot of ground without and with a tower between it and the sun, from straight above."""
    towards = sun(epoch)[:3]
    base = towards[:2] / np.linalg.norm(towards[:2]) * 6.0
    tower = box(Place(np.array([*base, 0.0]), float(np.arctan2(base[1], base[0]))), (-2, -2, 0), (2, 2, 20.0), PLAIN)
    camera = cameras.pinhole(12, 12, 300.0)
    bare, built = (render_colour(plain_town(like, *solids), camera, down(20.0), epoch) for solids in ((), (tower,)))
    return bare, built


@pytest.mark.parametrize("epoch", [Epoch.AERIAL, Epoch.LATER])
def test_a_shadow_takes_the_sun_and_leaves_the_sky(tiny_town: Town, epoch: Epoch) -> None:
    """Lit over shaded is (dome + sun) / dome, whatever the ground is made of."""
    bare, built = lit_and_shaded(tiny_town, epoch)
    light = sun(epoch)
    dome, direct = light[3] * 0.9, light[2] * light[4]
    haze = 1.0 - np.exp(-20.0 / 1200.0)
    clear = [(image[..., 0] - 0.62 * haze) / (1.0 - haze) for image in (bare, built)]
    assert np.allclose(clear[0] / clear[1], (dome + direct) / dome, rtol=0.02)


def test_flight_and_walk_share_their_light_and_a_later_day_is_flatter(tiny_town: Town) -> None:
    depth_of = {epoch: lit_and_shaded(tiny_town, epoch) for epoch in Epoch}
    contrast = {epoch: float(bare.mean() / built.mean()) for epoch, (bare, built) in depth_of.items()}
    assert contrast[Epoch.AERIAL] == contrast[Epoch.GROUND] > 1.3 * contrast[Epoch.LATER] > 1.3


def test_a_picture_is_the_same_every_time_and_for_any_threads(tiny_town: Town) -> None:
    before = numba.get_num_threads()
    pictures = []
    try:
        for threads in (1, before, 1):
            numba.set_num_threads(threads)
            pictures.append(render_colour(tiny_town, CAMERA, down(30.0), Epoch.AERIAL).tobytes())
    finally:
        numba.set_num_threads(before)
    assert len(set(pictures)) == 1


def test_another_seed_is_another_town(tiny_town: Town) -> None:
    other = make_town(tiny_town.layout.plan, 8)
    one, two = (render_depth(town, CAMERA, down(60.0), Epoch.AERIAL) for town in (tiny_town, other))
    assert np.mean(np.abs(one - two) > 0.3) > 0.1


# --- where people walk --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("later", [False, True])
def test_walks_stay_on_free_ground_at_eye_height(tiny_town: Town, tiny: TownPreset, later: bool) -> None:
    """Straight down there is road, and nothing is within reach on any side."""
    plan = tiny.later_walk if later else tiny.walk
    assert plan is not None
    epoch = Epoch.LATER if later else Epoch.GROUND
    one_pixel = cameras.pinhole(1, 1, 100.0)
    for shot in walk_shots(plan, tiny_town.layout, "x", np.random.default_rng(3)):
        x, y, z = rigid.centre_in_world(shot.cam_from_world)
        below = float(render_depth(tiny_town, one_pixel, down(z, x, y), epoch)[0, 0])
        assert below == pytest.approx(z - tiny_town.layout.height(x, y), abs=1e-3)
        assert 1.5 < below < 1.9
        for yaw in np.arange(8) * np.pi / 4.0:
            beside = float(render_depth(tiny_town, one_pixel, ahead(np.array([x, y, 0.9]), yaw), epoch)[0, 0])
            assert beside == 0.0 or beside > 0.4


@pytest.mark.parametrize("along", [(0.3, -1e-12), (0.3, 1e-12), (-1e-12, -0.3), (0.0, 0.0)])
def test_a_level_ray_into_a_window_ends_in_it(along: tuple[float, float]) -> None:
    """Neither backwards nor nowhere: a ray that runs along an edge meets the pane or a reveal ahead of it."""
    u, v, depth = 0.5, 1.2, 0.2
    step, _ = _recess(u, v, *along, -0.9, 0.0, 1.0, 1.0, 2.0, depth)
    assert 0.0 < step <= depth / 0.9 + 1e-12
