"""Confirmation, completion and the choice of sources, on maps whose truth is known to the pixel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from patch_world import Patch, exact_map, level, shoot

from skyanchor import stereo
from skyanchor.geometry import cameras, rigid
from skyanchor.types import Bools, DepthMap, Floats, Plane, Tracks, View

CAMERA = cameras.pinhole(96, 72, 80.0)
HEIGHT = 20.0
FOOTPRINT = HEIGHT / 80.0
GROUND = (level((-40.0, 40.0), (-40.0, 40.0), 0.0),)
STEP = (*GROUND, level((0.0, 40.0), (-40.0, 40.0), 4.0))
LEVEL_GROUND = Plane(np.array([0.0, 0.0, 1.0]), 0.0)
NO_TRACKS = Tracks(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 2)))
BLOCK = np.s_[20:40, 30:60]


def exact_maps(folder: Path, patches: tuple[Patch, ...] = GROUND, count: int = 5) -> list[DepthMap]:
    held = []
    for k in range(count):
        turn = 2.0 * np.pi * k / max(1, count - 1)
        eye = np.array([0.0, 0.0, HEIGHT]) + (k > 0) * 4.0 * np.array([np.cos(turn), np.sin(turn), 0.0])
        pose = rigid.look_at(eye, np.array([0.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]))
        held.append(exact_map(shoot(folder, f"{k}.png", CAMERA, pose, patches), patches))
    return held


def at_depth(one: DepthMap, where: tuple[slice, slice], factor: float) -> DepthMap:
    depth = one.depth.copy()
    depth[where] *= factor
    return replace(one, depth=depth)


def empty(one: DepthMap) -> DepthMap:
    return replace(one, depth=one.depth * 0, confidence=one.confidence * 0)


# --- confirmation -------------------------------------------------------------------------------------------------


def test_a_right_map_is_kept_as_it_is(tmp_path: Path) -> None:
    own, *others = exact_maps(tmp_path)
    agreed = stereo.make_consistent(own, others)
    inner = np.s_[6:-6, 6:-6]
    assert (agreed.depth[inner] > 0).all() and np.abs(agreed.depth - own.depth)[inner].max() < 0.01
    assert (agreed.normal[inner] @ np.array([0.0, 0.0, 1.0]) > 0.999).all()
    assert np.allclose(agreed.confidence[inner], 1.0 - np.exp(-5 * 0.9), atol=0.02)


@pytest.mark.parametrize("factor", [0.8, 0.95, 1.05, 1.3])
def test_a_wrong_neighbour_is_outvoted(tmp_path: Path, factor: float) -> None:
    own, first, *others = exact_maps(tmp_path)
    agreed = stereo.make_consistent(own, [at_depth(first, np.s_[:, :], factor), *others])
    inner = np.s_[6:-6, 6:-6]
    assert (agreed.depth[inner] > 0).all() and np.abs(agreed.depth - own.depth)[inner].max() < 0.01


@pytest.mark.parametrize("factor", [0.8, 1.2])
def test_a_wrong_depth_of_its_own_is_replaced_by_what_the_others_saw(tmp_path: Path, factor: float) -> None:
    own, *others = exact_maps(tmp_path)
    agreed = stereo.make_consistent(at_depth(own, BLOCK, factor), others)
    assert (agreed.depth[BLOCK] > 0).all() and np.abs(agreed.depth - own.depth)[BLOCK].max() < 0.02


def test_too_few_that_agree_are_not_believed(tmp_path: Path) -> None:
    own, *others = exact_maps(tmp_path)
    none = [empty(one) for one in others]
    assert not stereo.make_consistent(own, none).depth.any()
    assert not stereo.make_consistent(own, [others[0], *none[1:]]).depth.any()
    three = stereo.make_consistent(own, [*others[:2], *none[2:]]).depth
    assert (three[BLOCK] > 0).all()
    pair = stereo.make_consistent(own, others[:1]).depth  # two photos are all there are
    assert (pair[BLOCK] > 0).all()


def test_maps_that_all_disagree_confirm_nothing(tmp_path: Path) -> None:
    own, *others = exact_maps(tmp_path)
    wild = [at_depth(one, np.s_[:, :], factor) for one, factor in zip(others, (0.7, 0.85, 1.2, 1.4), strict=True)]
    assert not stereo.make_consistent(own, wild).depth.any()


def test_a_neighbour_does_not_see_through_what_stands_before_it(tmp_path: Path) -> None:
    """The step's upper level hides ground from neighbours beyond it; hidden ground is not drawn over the roof."""
    own, *others = exact_maps(tmp_path, STEP)
    agreed = stereo.make_consistent(own, others)
    both = agreed.depth > 0
    off = np.abs(agreed.depth - own.depth)[both]
    assert both.mean() > 0.9 and np.mean(off < 0.05) > 0.99


def test_completed_depth_of_a_neighbour_has_no_vote(tmp_path: Path) -> None:
    own, *others = exact_maps(tmp_path)
    filled = [replace(one, completed=np.ones(one.depth.shape, bool)) for one in others]
    assert not stereo.make_consistent(own, filled).depth.any()


# --- completion ---------------------------------------------------------------------------------------------------


def holed(one: DepthMap, hole: Bools) -> DepthMap:
    kept = ~hole
    return replace(one, depth=one.depth * kept, confidence=one.confidence * kept, normal=one.normal * kept[..., None])


def test_a_hole_in_a_plain_wall_is_filled_and_marked(tmp_path: Path) -> None:
    (own,) = exact_maps(tmp_path, count=1)
    hole = np.zeros(own.depth.shape, bool)
    hole[BLOCK] = True
    pixels = np.full((*own.depth.shape, 3), 140, np.uint8)
    pixels[..., 1] += np.random.default_rng(0).integers(0, 60, own.depth.shape).astype(np.uint8)
    done = stereo.complete(holed(own, hole), holed(own, hole), pixels, LEVEL_GROUND)
    assert np.array_equal(done.completed, hole)
    assert np.abs(done.depth - own.depth)[hole].max() < 0.02
    assert np.array_equal(done.depth[~hole], own.depth[~hole])
    assert (done.confidence[hole] == np.float32(0.2)).all() and (done.confidence[~hole] == np.float32(0.9)).all()
    assert (done.normal[hole] @ np.array([0.0, 0.0, 1.0]) > 0.999).all()


def test_a_plain_region_gets_the_plane_that_most_of_its_depth_shares(tmp_path: Path) -> None:
    """A third of a plain patch was measured wrong; all of it ends on the plane, and says that it was completed."""
    (own,) = exact_maps(tmp_path, count=1)
    rng = np.random.default_rng(0)
    plain = np.zeros(own.depth.shape, bool)
    plain[10:60, 20:70] = True
    grey = np.where(plain, 180, rng.integers(40, 220, plain.shape)).astype(np.uint8)
    wrong = plain & (rng.uniform(size=plain.shape) < 0.33)
    spoiled = replace(own, depth=np.where(wrong, own.depth * 0.9, own.depth).astype(np.float32))
    done = stereo.complete(spoiled, spoiled, np.repeat(grey[..., None], 3, axis=2), LEVEL_GROUND)
    inside = np.zeros(own.depth.shape, bool)
    inside[16:54, 26:64] = True
    assert done.completed[inside].all() and np.abs(done.depth - own.depth)[inside].max() < 0.05
    assert not done.completed[:4].any()


@pytest.mark.parametrize("wide", [4, 9])
def test_a_hole_over_a_depth_edge_is_not_bridged(tmp_path: Path, wide: int) -> None:
    """Each side of the hole goes on to where the photo changes; nothing floats between roof and ground."""
    (own,) = exact_maps(tmp_path, STEP, count=1)
    upper = own.depth < 18.0
    edge = int(np.argmax(upper[36]))
    hole = np.zeros(own.depth.shape, bool)
    hole[:, edge - wide : edge + wide] = True
    rng = np.random.default_rng(1)
    grey = np.where(upper, 190, 70) + rng.integers(-6, 7, upper.shape)
    done = stereo.complete(holed(own, hole), holed(own, hole), np.repeat(grey[..., None], 3, axis=2).astype(np.uint8))
    assert (done.depth[hole] > 0).all() and done.completed[hole].all()
    off = np.minimum(np.abs(done.depth - 16.0), np.abs(done.depth - 20.0))[hole]
    assert off.max() < 0.1
    assert np.mean((done.depth < 18.0)[hole] == upper[hole]) > 0.97


def test_sure_but_unconfirmed_depth_stays_with_little_weight(tmp_path: Path) -> None:
    (own,) = exact_maps(tmp_path, count=1)
    hole = np.zeros(own.depth.shape, bool)
    hole[BLOCK] = True
    pixels = np.random.default_rng(0).integers(40, 220, (*own.depth.shape, 3)).astype(np.uint8)
    for sure, kept in ((0.9, True), (0.5, False)):
        raw = at_depth(replace(own, confidence=np.full_like(own.confidence, sure)), BLOCK, 1.05)
        done = stereo.complete(holed(own, hole), raw, pixels, LEVEL_GROUND)
        inside = np.s_[24:36, 34:56]
        assert np.allclose(done.depth[inside], 21.0 if kept else 20.0, atol=0.05)
        assert done.completed[inside].all() != kept
        assert (done.confidence[inside] == np.float32(0.2)).all()


# --- sources ------------------------------------------------------------------------------------------------------


def looking_down(x: float, y: float = 0.0, tilt: float = 0.0) -> View:
    eye = np.array([x, y, HEIGHT])
    target = eye + np.array([tilt, 0.0, -1.0])
    return View(f"{x:g}_{y:g}_{tilt:g}", Path("none"), CAMERA, rigid.look_at(eye, target, np.array([0.0, 1.0, 0.0])))


def ground_points(reach: float = 25.0) -> Floats:
    grid = np.stack(np.meshgrid(np.arange(-reach, reach, 0.5), np.arange(-reach, reach, 0.5)), axis=-1).reshape(-1, 2)
    return np.column_stack([grid, np.zeros(len(grid))])


def test_sources_have_a_good_angle() -> None:
    """At 20 m a base of 6 m is 17 degrees: it comes before one of 40 cm, and before one of 17 m."""
    views = (looking_down(0.0), looking_down(0.4), looking_down(6.0), looking_down(17.0, tilt=-0.85))
    chosen = stereo.choose_sources(views, ground_points(), NO_TRACKS)[0]
    assert chosen[0] == 2


def test_a_photo_of_another_place_is_no_source() -> None:
    views = (looking_down(0.0), looking_down(5.0), looking_down(60.0), looking_down(3.0, tilt=3.0))
    assert stereo.choose_sources(views, ground_points(80.0), NO_TRACKS)[0].tolist() == [1]


def test_sources_cover_the_photo_from_all_sides() -> None:
    """Ten photos on one side and one on each other side: the first three sources are not all from one side."""
    crowd = [looking_down(6.0, 0.2 * k - 1.0) for k in range(10)]
    views = (looking_down(0.0), *crowd, looking_down(-6.0), looking_down(0.0, 6.0), looking_down(0.0, -6.0))
    chosen = stereo.choose_sources(views, ground_points(), NO_TRACKS, stereo.SourceConfig(count=4))[0]
    assert set(chosen.tolist()) >= {11, 12, 13} and len(chosen) == 4


def test_tracks_say_what_is_shared() -> None:
    """Without common points two photos of one place are no sources of each other."""
    views, points = (looking_down(0.0), looking_down(6.0), looking_down(-6.0)), ground_points(5.0)
    own, rest = np.arange(200), np.arange(200, 400)
    tracks = Tracks(np.concatenate([own, own, rest]), np.repeat([0, 1, 2], 200), np.zeros((600, 2)))
    assert [one.tolist() for one in stereo.choose_sources(views, points, tracks)] == [[1], [0], []]


def test_neighbours_are_more_than_sources() -> None:
    views = tuple(looking_down(2.5 * x, 2.5 * y) for x in range(-2, 3) for y in range(-2, 3))
    sources = stereo.choose_sources(views, ground_points(), NO_TRACKS)
    neighbours = stereo.choose_neighbours(views, ground_points(), NO_TRACKS)
    assert max(map(len, sources)) <= 8 < max(map(len, neighbours)) <= 12
    assert all(k not in chosen for k, chosen in enumerate(neighbours))
