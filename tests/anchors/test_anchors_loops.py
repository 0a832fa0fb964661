"""What moves before a group: pairs that follow it are left out, and nothing is where nothing moves."""

from dataclasses import replace

import numpy as np
import pytest
from test_anchors_local import CAMERA, SameRow, looking_ahead, photographed, points_around

from skyanchor.anchors.shape.incremental import LocalConfig, LocalGroup, match_group, reconstruct_local
from skyanchor.anchors.shape.loops import Pairs, agreeing, loops
from skyanchor.anchors.shape.moving import GRID, cells, sampson_px, widest
from skyanchor.geometry import cameras, rigid, similarity
from skyanchor.matching import Features, TwoView, verify
from skyanchor.types import Bools, Floats, Pose

EVERYTHING = replace(LocalConfig(), most_open_deg=180.0)
WALK = [looking_ahead(np.array([0.05 * k, 0.6 * k, 1.7]), 0.02 * k) for k in range(6)]


def turned(degrees: float) -> Pose:
    return Pose(rigid.rotation_exp(np.radians([0.0, degrees, 0.0])), np.array([0.0, 0.0, -1.0]))


def pairs_of(turns_deg: dict[tuple[int, int], float], inliers: int = 50) -> Pairs:
    """Pairs whose turns about one axis are given."""
    both, agree = np.zeros((inliers, 2), np.int64), np.ones(inliers, bool)
    return {name: (both, TwoView(agree, turned(degrees))) for name, degrees in turns_deg.items()}


def all_pairs(frames: int, step_deg: float) -> dict[tuple[int, int], float]:
    return {(a, b): step_deg * (b - a) for a in range(frames) for b in range(a + 1, frames)}


def test_what_is_left_over_around_three_frames() -> None:
    sides, left_over = loops(pairs_of({(0, 1): 2.0, (1, 2): 3.0, (0, 2): 9.0, (2, 3): 1.0}))
    assert sides.tolist() == [[0, 1, 2]]
    assert np.degrees(left_over) == pytest.approx([4.0])


@pytest.mark.parametrize("wrong", [{(1, 2)}, {(1, 2), (4, 5)}, {(1, 2), (2, 3), (1, 3)}, {(0, 1), (0, 2), (3, 5)}])
def test_pairs_that_contradict_the_others_are_left_out(wrong: set[tuple[int, int]]) -> None:
    turns = {name: turn + 5.0 * (name[1] - name[0]) * (name in wrong) for name, turn in all_pairs(6, 0.3).items()}
    assert set(turns) - set(agreeing(pairs_of(turns), 1.0)) == wrong


def test_pairs_that_agree_all_stay() -> None:
    rng = np.random.default_rng(0)
    pairs = pairs_of({name: turn + rng.uniform(-0.3, 0.3) for name, turn in all_pairs(6, 2.0).items()})
    assert agreeing(pairs, 1.0) == pairs
    assert agreeing({}, 1.0) == {}


def test_one_loop_does_not_say_which_of_its_pairs_is_wrong() -> None:
    pairs = pairs_of({(0, 1): 1.0, (1, 2): 1.0, (0, 2): 9.0})
    assert agreeing(pairs, 1.0) == pairs


# --- a second look ------------------------------------------------------------------------------------------------


def test_cells_that_hold_a_pixel() -> None:
    corner = np.array([[0.5, 0.5], [1.5, 0.5], [CAMERA.width - 0.5, 0.5], [CAMERA.width - 0.5, CAMERA.height - 0.5]])
    assert cells(corner, CAMERA) == 3
    everywhere = np.stack(np.meshgrid(np.arange(CAMERA.width) + 0.5, np.arange(CAMERA.height) + 0.5), axis=-1)
    assert cells(everywhere.reshape(-1, 2), CAMERA) == GRID[0] * GRID[1]


def test_the_distance_to_an_epipolar_line() -> None:
    """Sideways motion has level lines: a pixel that is off by d across them is d / √2 off, shared by both photos."""
    points = np.random.default_rng(1).uniform([-4, -3, 8], [4, 3, 20], (50, 3))
    sideways = Pose(np.eye(3), np.array([-3.0, 0.0, 0.0]))
    xy_a, xy_b = cameras.project(CAMERA, points), cameras.project(CAMERA, sideways(points))
    assert sampson_px(xy_a, xy_b, CAMERA, sideways) == pytest.approx(np.zeros(50), abs=1e-9)
    assert sampson_px(xy_a, xy_b + np.array([5.0, 2.0]), CAMERA, sideways) == pytest.approx(
        np.full(50, 2.0 / np.sqrt(2.0))
    )


def test_the_pose_whose_points_are_spread_wins() -> None:
    """A van with two thirds of the matches, in one corner, before a street that fills the picture."""
    rng = np.random.default_rng(2)
    near = np.stack([rng.uniform(-8, 8, 200), rng.uniform(6, 14, 200), rng.uniform(-1, 6, 200)], axis=1)
    van = rng.uniform([0.5, 5.0, 0.5], [1.6, 6.0, 1.9], (400, 3))
    first, second = looking_ahead(np.array([0.0, 0.0, 1.7])), looking_ahead(np.array([0.1, 0.8, 1.7]), 0.03)
    photo_a = photographed([first], np.concatenate([near, van]), rng)[0]
    photo_b = photographed([second], np.concatenate([near, van + np.array([-0.6, 0.5, 0.0])]), rng)[0]
    both = SameRow().pairs(photo_a, photo_b)[:, 0]
    given = (photo_a.xy[both], photo_b.xy[both], CAMERA)
    found = verify(*given, CAMERA, photo_a.sigma_px, LocalConfig().verify)
    assert isinstance(found, TwoView) and (both[found.inliers] >= len(near)).mean() > 0.8
    again = widest(*given, photo_a.sigma_px, found, LocalConfig().verify)
    true = second @ first.inverse
    assert np.degrees(rigid.angle_between(again.b_from_a.rotation, true.rotation)) < 0.5
    assert again.inliers[both < len(near)].mean() > 0.8 and again.inliers.sum() < found.inliers.sum()


# --- shapes -------------------------------------------------------------------------------------------------------


def street_with_a_car(rng: np.random.Generator, seen_in: tuple[int, ...]) -> tuple[tuple[Features, ...], Bools]:
    """(photos of a walk, which points are the street's); a car fills part of a few, with more points than the rest."""
    street = points_around(rng, 260)
    car = rng.uniform([-1.8, 6.0, 0.2], [0.4, 8.0, 1.9], (500, 3))
    photos = []
    for k, pose in enumerate(WALK):
        turn = rigid.rotation_exp(np.array([0.0, 0.0, 0.07 * (k - seen_in[0])]))
        moved = (car - car.mean(axis=0)) @ turn.T + car.mean(axis=0) + [0.45 * (k - seen_in[0]), 0.6 * k, 0.0]
        photo = photographed([pose], np.concatenate([street, moved]), rng)[0]
        if k not in seen_in:
            photo.xy[len(street) :] = np.nan
        photos.append(photo)
    return tuple(photos), np.arange(len(street) + len(car)) < len(street)


def off_m(local: LocalGroup) -> Floats:
    """(F,), distance of each frame to the truth with the shape laid over it, metres."""
    found = similarity.align_cameras(local.cams_from_local, tuple(WALK))(rigid.centres_in_world(local.cams_from_local))
    return np.linalg.norm(found - rigid.centres_in_world(WALK), axis=1)


def test_the_shape_is_the_streets_where_a_car_has_more_points() -> None:
    photos, street = street_with_a_car(np.random.default_rng(7), seen_in=(2, 3))
    followed = match_group(photos, CAMERA, SameRow(), EVERYTHING)[2, 3][0][:, 0]
    assert street[followed].mean() < 0.5
    fooled = reconstruct_local(tuple(range(6)), photos, CAMERA, SameRow(), EVERYTHING)
    local = reconstruct_local(tuple(range(6)), photos, CAMERA, SameRow(), LocalConfig())
    assert isinstance(fooled, LocalGroup) and off_m(fooled).max() > 0.3
    assert isinstance(local, LocalGroup) and off_m(local).max() < 0.06


def test_nothing_changes_where_nothing_moves() -> None:
    rng = np.random.default_rng(3)
    photos = photographed(WALK, points_around(rng), rng)
    plain, checked = (
        reconstruct_local(tuple(range(6)), photos, CAMERA, SameRow(), config) for config in (EVERYTHING, LocalConfig())
    )
    assert isinstance(plain, LocalGroup) and isinstance(checked, LocalGroup)
    assert np.array_equal(plain.bundle.points, checked.bundle.points)
    assert all(
        np.array_equal(a.matrix, b.matrix) for a, b in zip(plain.cams_from_local, checked.cams_from_local, strict=True)
    )
