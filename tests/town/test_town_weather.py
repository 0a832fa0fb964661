"""Weather against known truth: what it changes in the street, what it leaves, and that poses stay exact."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

import numpy as np
import pytest

from skyanchor import bounds
from skyanchor.errors import InputError, SkyAnchorError
from skyanchor.geometry import cameras, rigid
from skyanchor.town import (
    CLEAR,
    Epoch,
    Town,
    TownPreset,
    Weather,
    make_town,
    movers,
    render_colour,
    render_depth,
    works,
)
from skyanchor.town.coats import Coat, Material
from skyanchor.town.geometry import pack
from skyanchor.town.layout import way_point
from skyanchor.town.rendering import render_shot
from skyanchor.town.routes import (
    Shot,
    carried_plan,
    carried_shots,
    delivered,
    flight_shots,
    flown,
    surveyed,
    walk_camera,
    walk_line,
    walk_shots,
)
from skyanchor.town.solids import Lobe, Place, Solid, box
from skyanchor.town.town import sun, with_more
from skyanchor.town.tracks import empty_model
from skyanchor.town.weather import HARD_1, HARD_2, HARD_3, HARD_4, Carried, Survey, World, changed, names
from skyanchor.types import Camera, Floats, Floats32, Pose

UP = np.array([0.0, 0.0, 1.0])
HERE = Place(np.zeros(3), 0.0)


def under(world: World, like: Town) -> Town:
    """The tiny town in this weather."""
    return make_town(like.layout.plan, 7, Weather(world))


def street(town: Town, row: float = 0.2) -> tuple[Camera, Pose]:
    a, b = way_point(town.layout, 0.0, row), way_point(town.layout, 0.0, row + 0.4)
    eye = np.array([*a, town.layout.height(*a) + 1.7])
    return cameras.pinhole(120, 68, 86.0), rigid.look_at(eye, np.array([*b, eye[2] + 0.8]), UP)


def above(town: Town, height: float = 30.0) -> tuple[Camera, Pose]:
    at = way_point(town.layout, 0.0, 0.5)
    eye = np.array([*at, height])
    return cameras.pinhole(90, 90, 90.0), rigid.look_at(eye, eye - UP, np.array([0.0, 1.0, 0.0]))


def differ(a: Town, b: Town, view: tuple[Camera, Pose], epoch: Epoch) -> float:
    """Share of a view whose depth differs by more than 5 cm."""
    one, two = (render_depth(town, *view, epoch) for town in (a, b))
    return float(np.mean(np.abs(one - two) > 0.05))


# --- settings -----------------------------------------------------------------------------------------------------


def test_settings_are_changed_by_name() -> None:
    day = changed(CLEAR, ["world.snow=0.6", "flight.nadir=true", "carried.k1=-0.02"])
    assert (day.world.snow, day.flight.nadir, day.carried.k1) == (0.6, True, -0.02)
    assert changed(day, ["world.snow=0", "flight.nadir=false", "carried.k1=0"]) == CLEAR
    assert len(set(names())) == len(names()) > 30


TOO_MUCH = (
    *("world.snow=7", "world.traffic=0.7", "carried.zoom=0", "photos.defocus=-0.1"),
    *("carried.missing=1", "carried.eye_height_m=200", "flight.overlap=1", "flight.overlap=0.9999"),
    *("flight.ground_cm=1e-3", "flight.ground_cm=0.01"),  # photos of more pixels than there is memory
)


@pytest.mark.parametrize("word", ["world.sun=1", "snow=1", "world.snow=much", "world.snow=nan", "flight.nadir=no"])
def test_what_is_no_setting_is_refused(word: str) -> None:
    with pytest.raises(InputError):
        changed(CLEAR, [word])


@pytest.mark.parametrize("word", TOO_MUCH)
def test_a_day_that_cannot_be(word: str) -> None:
    with pytest.raises(SkyAnchorError, match=f"{word.partition('=')[0]} is .*, but must be"):
        changed(CLEAR, [word])


def test_the_days_of_the_presets_can_be() -> None:
    for day in (CLEAR, HARD_1, HARD_2, HARD_3, HARD_4):
        bounds.check(day)


def test_a_clear_day_is_what_it_was(tiny_town: Town) -> None:
    """Means of four bands of a street picture, as the renderer drew it before there was weather."""
    colour = render_colour(tiny_town, *street(tiny_town), Epoch.GROUND)
    bands = colour.reshape(4, 17, 120, 3).mean(axis=(1, 2))
    assert np.allclose(bands, KNOWN, atol=2e-4)


KNOWN = np.array(
    [[0.4175, 0.4967, 0.6171], [0.4200, 0.4715, 0.5375], [0.2226, 0.2461, 0.2441], [0.1437, 0.1379, 0.1285]]
)


# --- the street ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("azimuth", [40.0, 130.0, 300.0])
def test_shadows_fall_away_from_the_sun(tiny_town: Town, azimuth: float) -> None:
    """A tower takes the sun from the ground behind it and from nowhere else."""
    day = Weather(World(sun_azimuth_deg=azimuth, sun_elevation_deg=40.0))
    towards = sun(Epoch.GROUND, day)[:2] / np.linalg.norm(sun(Epoch.GROUND, day)[:2])
    assert np.allclose(towards, [np.sin(np.radians(azimuth)), np.cos(np.radians(azimuth))])
    tower = box(HERE, (-1.0, -1.0, 0.0), (1.0, 1.0, 9.0), Coat(Material.PLAIN, (0.6, 0.6, 0.6)))
    far = box(Place(np.array([500.0, 500.0, 0.0]), 0.0), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), tower.coats[0])
    tables = (tiny_town.geometry.streets, tiny_town.geometry.ground)
    bare, built = (replace(tiny_town, geometry=pack(parts, *tables), weather=day) for parts in ([far], [far, tower]))
    for sign, expected in ((-1.0, 0.65), (1.0, 1.0)):
        eye = np.array([*(sign * 5.0 * towards), 12.0])
        view = cameras.pinhole(9, 9, 200.0), rigid.look_at(eye, eye - UP, np.array([0.0, 1.0, 0.0]))
        ratio = render_colour(built, *view, Epoch.GROUND).mean() / render_colour(bare, *view, Epoch.GROUND).mean()
        assert (ratio < expected) if sign < 0 else ratio == pytest.approx(expected, abs=1e-6)


def test_the_flight_has_its_own_sun() -> None:
    day = Weather(World(sun_azimuth_deg=90.0), flight=Survey(sun_azimuth_deg=270.0, overcast=1.0))
    assert sun(Epoch.GROUND, day)[0] > 0.5 > -0.5 > sun(Epoch.AERIAL, day)[0]
    assert sun(Epoch.AERIAL, day)[4] == 0.0 < sun(Epoch.GROUND, day)[4]


def test_wet_ground_mirrors_what_stands_behind_it(tiny_town: Town) -> None:
    """A red wall behind it reddens wet ground and leaves dry ground alone."""
    redness = {}
    for wet in (0.0, 1.0):
        for name, colour in (("red", (0.9, 0.1, 0.1)), ("blue", (0.1, 0.1, 0.9))):
            wall = box(HERE, (-20.0, 12.0, -1.0), (20.0, 13.0, 8.0), Coat(Material.PLAIN, colour))
            geometry = pack([wall], tiny_town.geometry.streets, tiny_town.geometry.ground)
            town = replace(tiny_town, geometry=geometry, weather=Weather(World(wet=wet, overcast=1.0)))
            eye = np.array([0.0, 0.0, 1.7])
            view = cameras.pinhole(60, 40, 60.0), rigid.look_at(eye, eye + np.array([0.0, 1.0, -0.25]), UP)
            seen = render_colour(town, *view, Epoch.GROUND)[20:36].mean(axis=(0, 1))
            redness[wet, name] = float(seen[0] / seen[2])
    assert redness[0.0, "red"] == pytest.approx(redness[0.0, "blue"], rel=0.02)
    assert redness[1.0, "red"] > 1.15 * redness[1.0, "blue"]


def test_snow_lies_on_what_faces_up_and_only_at_the_walks(tiny_town: Town) -> None:
    snowed = under(World(snow=1.0), tiny_town)
    before, after = (render_colour(town, *above(town), Epoch.GROUND) for town in (tiny_town, snowed))
    assert after.mean() > 1.5 * before.mean()
    same = [render_colour(town, *above(town), Epoch.AERIAL) for town in (tiny_town, snowed)]
    assert np.array_equal(*same)
    assert differ(tiny_town, snowed, street(tiny_town), Epoch.GROUND) == 0.0  # no thickness


def test_windows_are_lit_at_dusk(tiny_town: Town) -> None:
    evening = under(World(dusk=1.0), tiny_town)
    day, night = (render_colour(town, *street(town), Epoch.GROUND) for town in (tiny_town, evening))
    assert night.mean() < 0.4 * day.mean()
    lamps = night[..., 0] > 1.1 * day[..., 0]
    assert 0.0005 < lamps.mean() < 0.1
    assert night[lamps, 0].mean() > 1.3 * night[lamps, 2].mean()


def test_leaves_and_cars_are_as_they_were_for_the_flight(tiny_town: Town) -> None:
    other = under(World(bare=1.0, cars=1.0), tiny_town)
    views = [above(tiny_town, 60.0), street(tiny_town), street(tiny_town, 0.5)]
    assert min(differ(tiny_town, other, view, Epoch.GROUND) for view in views) > 0.002
    assert max(differ(tiny_town, other, view, Epoch.AERIAL) for view in views) == 0.0


def test_works_come_and_go_and_hedges_are_cut(tiny_town: Town) -> None:
    other = under(World(works=0.8, hedges=1.0), tiny_town)
    views = [street(tiny_town), street(tiny_town, 0.5)]
    assert max(differ(tiny_town, other, view, Epoch.GROUND) for view in views) > 0.02
    assert {solid.epochs for solid in other.solids} >= {works.AT_FLIGHT, works.AT_WALKS}
    tops = {
        epoch: max(float(solid.centre[2]) for solid in other.solids if _hedge(solid) and solid.epochs & epoch)
        for epoch in (Epoch.AERIAL, Epoch.GROUND)
    }
    assert 0.7 < tops[Epoch.AERIAL] - tops[Epoch.GROUND] < 1.0


def _hedge(solid: Solid) -> TypeGuard[Lobe]:
    return isinstance(solid, Lobe) and solid.coat == works.BOX_TREE


@pytest.mark.parametrize("share", [0.2])
def test_movers_cover_their_share_and_move(tiny_town: Town, tiny: TownPreset, share: float) -> None:
    shots = walk_shots(tiny.walk, tiny_town.layout, "x", np.random.default_rng(3))
    camera = cameras.pinhole(96, 54, 68.0)
    poses, frames = [shot.cam_from_world for shot in shots], [shot.frame for shot in shots]
    empty = [render_depth(tiny_town, camera, pose, Epoch.GROUND) for pose in poses]
    way = movers.way_of(*walk_line(tiny.walk, tiny_town.layout))
    people = movers.crowd(share, way, camera, frames, poses, empty, tiny_town.layout, np.random.default_rng(5))
    busy = with_more(tiny_town, movers.present(people, way, tiny_town.layout, range(len(shots))))
    covered = [
        np.abs(render_depth(busy, camera, pose, Epoch.GROUND, movers.passing_bit(k)) - empty[k]) > 0.05
        for k, pose in enumerate(poses)
    ]
    assert 0.7 * share < np.mean(covered) < 1.4 * share
    here = [render_depth(busy, camera, poses[0], Epoch.GROUND, movers.passing_bit(k)) for k in (0, 2)]
    assert np.mean(np.abs(here[0] - here[1]) > 0.05) > 0.2 * share
    assert np.array_equal(render_depth(busy, camera, poses[0], Epoch.GROUND), empty[0])


# --- the camera ---------------------------------------------------------------------------------------------------


def test_a_rolling_shutter_is_true_in_its_middle_row(tiny_town: Town) -> None:
    camera, pose = street(tiny_town)
    camera = replace(camera, height=69)
    step = np.array([0.0, 0.4, 0.0])
    ends = tuple(rigid.from_centre(pose.rotation, rigid.centre_in_world(pose) + sign * step) for sign in (-1.0, 1.0))
    still = render_colour(tiny_town, camera, pose, Epoch.GROUND)
    rolled = render_shot(tiny_town, camera, Shot("", pose, ends=(ends[0], ends[1])), Epoch.GROUND)
    first = render_colour(tiny_town, camera, ends[0], Epoch.GROUND)
    assert np.allclose(rolled[34], still[34], atol=1e-5)
    assert np.allclose(rolled[0], first[0], atol=1e-5)
    assert np.abs(rolled[-1] - still[-1]).mean() > 0.005


def test_rows_are_read_while_the_camera_goes_on(tiny_town: Town, tiny: TownPreset) -> None:
    shots = walk_shots(tiny.walk, tiny_town.layout, "x", np.random.default_rng(3))
    rolled = carried_shots(shots, Carried(readout_ms=20.0, speed_m_s=10.0), np.random.default_rng(0))
    for before, after in zip(shots, rolled, strict=True):
        assert after.ends is not None
        centres = [rigid.centre_in_world(pose) for pose in (after.ends[0], after.cam_from_world, after.ends[1])]
        assert np.linalg.norm(centres[2] - centres[0]) == pytest.approx(0.2, abs=1e-9)  # 10 m/s for 20 ms
        assert np.allclose((centres[0] + centres[2]) / 2.0, centres[1])
        assert np.array_equal(after.cam_from_world.rotation, before.cam_from_world.rotation)


@pytest.mark.parametrize(("model", "bend"), [("SIMPLE_RADIAL", (-0.12,)), ("RADIAL", (-0.08, -0.12))])
def test_distortion_is_the_models(tiny_town: Town, model: str, bend: tuple[float, ...]) -> None:
    """A pixel shows what the pinhole shows where COLMAP's model says the pixel looks."""
    plain, pose = street(tiny_town)
    focal = plain.params[0]
    bent = Camera(model, 120, 68, (focal, 60.0, 34.0, *bend))
    wide = cameras.pinhole(200, 120, focal)
    shown = render_shot(tiny_town, bent, Shot("", pose), Epoch.GROUND)
    straight = render_colour(tiny_town, wide, pose, Epoch.GROUND)
    x, y = np.meshgrid(np.arange(4, 120, 6) + 0.5, np.arange(4, 68, 6) + 0.5)
    pixels = np.stack([x.ravel(), y.ravel()], axis=1)
    at = cameras.project(wide, cameras.unproject(bent, pixels))
    same = pixels + np.array([40.0, 26.0])
    far = np.abs(at - same).max(axis=1) > 3.0
    assert far.sum() > 20
    right, wrong = (_likeness(shown, pixels[far], straight, there[far]) for there in (at, same))
    assert right > 0.97 and 1.0 - wrong > 2.0 * (1.0 - right)


def test_the_walks_lens_is_as_the_day_says(tiny: TownPreset) -> None:
    assert walk_camera(tiny.walk) == cameras.pinhole(96, 54, 68.0)
    assert walk_camera(tiny.walk, Carried(k1=-0.1)) == Camera("SIMPLE_RADIAL", 96, 54, (68.0, 48.0, 27.0, -0.1))
    assert walk_camera(tiny.walk, Carried(k2=0.03)) == Camera("RADIAL", 96, 54, (68.0, 48.0, 27.0, 0.0, 0.03))


def _likeness(a: Floats32, at_a: Floats, b: Floats32, at_b: Floats) -> float:
    one, two = (image[at[:, 1].astype(int), at[:, 0].astype(int)].ravel() for image, at in ((a, at_a), (b, at_b)))
    return float(np.corrcoef(one, two)[0, 1])


def test_how_the_camera_is_carried(tiny_town: Town, tiny: TownPreset) -> None:
    plan = replace(tiny.walk, frames=60)
    shots = walk_shots(plan, tiny_town.layout, "x", np.random.default_rng(3))
    leaning = carried_shots(shots, Carried(lean_deg=15.0), np.random.default_rng(0))
    turned = [
        np.degrees(rigid.angle_between(a.cam_from_world.rotation, b.cam_from_world.rotation))
        for a, b in zip(shots, leaning, strict=True)
    ]
    assert 13.0 < max(turned) <= 15.0 + 1e-6
    shaking = carried_shots(shots, Carried(shake_deg=2.0), np.random.default_rng(0))
    pitch = [
        np.degrees(rigid.rotation_log(b.cam_from_world.rotation @ a.cam_from_world.rotation.T)[0])
        for a, b in zip(shots, shaking, strict=True)
    ]
    assert 1.4 < np.std(pitch) < 2.6
    fewer = carried_shots(shots, Carried(missing=0.3, doubled=0.2), np.random.default_rng(0))
    kept = {shot.frame for shot in fewer}
    assert 35 <= len(kept) <= 50 and 4 <= len(fewer) - len(kept) <= 16
    assert sorted(shot.name for shot in fewer) == [shot.name for shot in fewer]
    carried = carried_plan(plan, Carried(portrait=True, wide=0.5, eye_height_m=1.0))
    assert (carried.width, carried.height, carried.focal, carried.eye_height) == (54, 96, 34.0, 1.0)


def test_a_zoom_is_in_the_truth(tiny_town: Town, tiny: TownPreset) -> None:
    shots = walk_shots(tiny.walk, tiny_town.layout, "x", np.random.default_rng(3))
    zoomed = carried_shots(shots, Carried(zoom=1.5), np.random.default_rng(0))
    camera = cameras.pinhole(96, 54, 68.0)
    model = empty_model(camera, zoomed)
    focals = {image.name: model.cameras[image.camera_id].params[0] for image in model.images.values()}
    assert [focals[shot.name] for shot in zoomed] == pytest.approx([68.0, 68.0, 102.0, 102.0])
    pose = zoomed[-1].cam_from_world
    near = render_shot(tiny_town, camera, zoomed[-1], Epoch.GROUND)
    assert np.array_equal(near, render_colour(tiny_town, cameras.pinhole(96, 54, 102.0), pose, Epoch.GROUND))


# --- the flight ---------------------------------------------------------------------------------------------------


def test_a_poorer_survey(tiny_town: Town, tiny: TownPreset) -> None:
    coarse = surveyed(tiny.flight, Survey(ground_cm=25.8, overlap=0.6))
    assert coarse.altitude / coarse.focal == pytest.approx(0.258)
    assert coarse.width / coarse.focal == pytest.approx(tiny.flight.width / tiny.flight.focal, rel=0.02)
    assert 1.0 - coarse.spacing[0] / (coarse.width / coarse.focal * coarse.altitude) == pytest.approx(0.6)
    high = surveyed(tiny.flight, Survey(higher_m=60.0, ground_cm=6.5))
    assert high.altitude == tiny.flight.altitude + 60.0 and high.spacing == tiny.flight.spacing
    assert high.altitude / high.focal == pytest.approx(0.065)
    area = np.array([-10.0, -10.0, 10.0, 10.0])
    shots = flight_shots(tiny.flight, tiny_town.layout, area, np.random.default_rng(1))
    down = flown(shots, Survey(nadir=True, exposure_stops=1.0))
    assert 0 < len(down) < len(shots) and {shot.name[5] for shot in down} == {"n"}
    assert {shot.gain for shot in down} == {0.5, 1.0}
    assert [shot.cam_from_world for shot in flown(shots, Survey())] == [shot.cam_from_world for shot in shots]


def test_delivered_poses_are_off_by_what_is_said(tiny_town: Town, tiny: TownPreset) -> None:
    area = np.array([-20.0, -20.0, 20.0, 20.0])
    shots = flight_shots(tiny.flight, tiny_town.layout, area, np.random.default_rng(1))
    told = delivered(shots, Survey(position_cm=5.0, angle_deg=0.02), np.random.default_rng(2))
    gaps = rigid.centres_in_world([s.cam_from_world for s in told]) - rigid.centres_in_world(
        [s.cam_from_world for s in shots]
    )
    turns = [
        rigid.rotation_log(b.cam_from_world.rotation @ a.cam_from_world.rotation.T)
        for a, b in zip(shots, told, strict=True)
    ]
    assert gaps.std() == pytest.approx(0.05, rel=0.2)
    assert np.degrees(np.std(turns)) == pytest.approx(0.02, rel=0.2)
