"""Dense ground points: which views are measured with which sources, and thinning by distance."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from patch_world import Patch, level, points_of, shoot

from skyanchor.geometry import cameras, rigid
from skyanchor.photos import PhotoCache
from skyanchor.scene.ground_points import (
    GroundPointConfig,
    consistent_ground_depth,
    depth_views,
    ground_cloud,
    ground_depth,
    halo,
    source_views,
    specks,
    thinned_by_spacing,
)
from skyanchor.stereo.backends import RefineConfig
from skyanchor.stereo.estimate import StereoConfig, sides_of_the_way
from skyanchor.stereo.large_planes import LargePlaneConfig
from skyanchor.types import DepthMap, Floats, View

UP = np.array([0.0, 0.0, 1.0])
CAMERA = cameras.pinhole(32, 24, 30.0)


def walk(steps: list[tuple[float, float]]) -> tuple[View, ...]:
    """Views at (0, y, 0) that look along the heading given in degrees from +y."""
    views = []
    for k, (y, heading) in enumerate(steps):
        eye = np.array([0.0, y, 0.0])
        ahead = np.array([np.sin(np.deg2rad(heading)), np.cos(np.deg2rad(heading)), 0.0])
        views.append(View(f"{k}.png", Path(f"{k}.png"), CAMERA, rigid.look_at(eye, eye + ahead, UP), image_id=k))
    return tuple(views)


def test_depth_is_measured_after_each_stretch_or_turn_and_not_in_a_pause() -> None:
    views = walk([(0, 0), (0.4, 0), (0.9, 0), (0.9, 0), (0.9, 30), (1.0, 30), (1.8, 30)])
    assert depth_views(views, GroundPointConfig()) == (0, 2, 4, 6)


def test_sources_lie_before_and_after_and_look_the_same_way() -> None:
    views = walk([(0.6 * k, 0.0 if k != 4 else 90.0) for k in range(9)])
    chosen = source_views(views, 5, GroundPointConfig())
    assert 4 not in chosen and 5 not in chosen
    assert {3, 6, 7} <= set(chosen)
    assert all(abs(k - 5) <= 7 for k in chosen)


def test_the_ends_of_a_walk_take_sources_on_their_one_side_instead_of_the_other() -> None:
    views = walk([(0.6 * k, 0.0) for k in range(30)])
    config = GroundPointConfig(baselines=(0.6, 1.2, 2.4, 4.8), instead=1.5)
    assert source_views(views, 29, replace(config, instead=0.0)) == (28, 27, 25, 21)
    assert source_views(views, 29, config) == (28, 27, 25, 21, 26, 23, 17)
    assert source_views(views, 0, config) == (1, 2, 4, 8, 3, 6, 12)
    assert source_views(views, 15, config) == source_views(views, 15, replace(config, instead=0.0))


def test_thinning_prefers_the_finer_point_and_keeps_one_per_voxel() -> None:
    points = np.array([[0.001, 0, 0], [0.002, 0, 0], [0.03, 0, 0], [5, 5, 5], [0.011, 0.011, 0.011]], np.float32)
    spacing = np.array([0.02, 0.019, 0.02, 0.16, 0.16], np.float32)
    assert thinned_by_spacing(points, spacing, finest=0.02).tolist() == [1, 2, 3]


def test_cloud_lies_on_the_wall_in_the_photo_colour(tmp_path: Path) -> None:
    views, maps = [], []
    for k, x in enumerate((-0.4, 0.0, 0.4)):
        path = tmp_path / f"{k}.png"
        cv2.imwrite(str(path), np.full((24, 32, 3), (10, 100, 200), np.uint8))
        pose = rigid.look_at(np.array([x, 0.0, 0.0]), np.array([x, 5.0, 0.0]), UP)
        views.append(View(path.name, path, CAMERA, pose, image_id=k))
        depth = np.full((24, 32), 5.0, np.float32)
        depth[:4] = 200.0  # too far to be trusted
        normal = np.tile(np.array([0, -1, 0], np.float32), (24, 32, 1))
        maps.append(DepthMap(path.name, CAMERA, pose, depth, np.ones_like(depth), depth < 0, normal))
    cloud = ground_cloud(maps, views, GroundPointConfig())
    np.testing.assert_allclose(cloud.points[:, 1], 5.0, atol=1e-4)
    assert (cloud.colors == [200, 100, 10]).all()
    np.testing.assert_allclose(cloud.spacing, 2 * 5.0 / 30.0, rtol=1e-5)
    per_map = 10 * 16
    assert per_map <= len(cloud.points) < 2 * per_map


def test_clouds_have_no_depth_and_the_wall_below_them_has(tmp_path: Path) -> None:
    """Three photos side by side: the wall's texture moves by f b / z from one to the next, the clouds stay."""
    camera = cameras.pinhole(160, 120, 150.0)
    rng = np.random.default_rng(0)
    wall, clouds = (cv2.GaussianBlur(rng.uniform(0, 255, (120, 400, 3)), (0, 0), 1.5) for _ in range(2))
    wall, clouds = ((np.clip(4 * (one - 127) + 127, 0, 255)).astype(np.uint8) for one in (wall, clouds))
    views = []
    for k, x in enumerate((-0.6, 0.0, 0.6)):
        shift = 100 + round(150.0 * x / 6.0)
        picture = np.concatenate([clouds[:60, 100:260], wall[60:, shift : shift + 160]])
        path = tmp_path / f"{k}.png"
        cv2.imwrite(str(path), picture)
        pose = rigid.look_at(np.array([x, 0.0, 0.0]), np.array([x, 6.0, 0.0]), UP)
        views.append(View(path.name, path, camera, pose, image_id=k))
    points = np.stack([rng.uniform(-2, 2, 50), np.full(50, 6.0), rng.uniform(-2, 0, 50)], axis=1)
    config = GroundPointConfig(stereo=StereoConfig(width=160))
    found = ground_depth(views[1], [views[0], views[2]], points, PhotoCache(), config, UP)
    sky, below = found.depth[8:50, 20:140], found.depth[70:112, 30:130]
    assert (sky > 0).mean() < 0.1, "at the end of the search range it would seem a wall"
    assert np.median(np.abs(below - 6.0)) < 0.1
    edge = replace(config, halo_px=5)
    cut = ground_depth(views[1], [views[0], views[2]], points, PhotoCache(), edge, UP).depth
    assert (cut[70:112, 30:130] == below).mean() > 0.95
    assert (cut[55:65, 30:130] > 0).mean() < 0.5 * (found.depth[55:65, 30:130] > 0).mean(), "beside the clouds"


def test_a_walk_that_looks_along_its_way_measures_the_street_beside_it(tmp_path: Path) -> None:
    """Nothing moves at the middle of the picture; points beside the camera, which it does not see, say nothing."""
    x, y, z = np.eye(3)
    left, right = (Patch(np.array([side, -20.0, 0.0]), y, z, (60.0, 6.0)) for side in (-4.0, 4.5))
    street = (
        level((-9.0, 9.0), (-20.0, 40.0), 0.0),
        left,
        right,
        Patch(np.array([-9.0, 22.0, 0.0]), x, z, (18.0, 6.0)),
    )
    camera = cameras.pinhole(160, 90, 115.0)
    held = []
    for k, along in enumerate((0.0, -0.6, 0.6, -1.2, 1.2, -2.4)):
        eye = np.array([0.3 + 0.05 * k, along, 1.7])
        pose = rigid.look_at(eye, np.array([0.2, along + 8.0, 1.5]), UP)
        held.append(shoot(tmp_path, f"{k}.png", camera, pose, street))
    beside = np.stack([np.full(30, 4.5), np.linspace(0.4, 3.0, 30), np.full(30, 2.0)], axis=1)
    points = np.concatenate([points_of(held[0])[5::9, 5::9].reshape(-1, 3), beside])
    config = GroundPointConfig(stereo=StereoConfig(width=160))
    found = ground_depth(held[0].view, [shot.view for shot in held[1:]], points, PhotoCache(), config, UP)
    true = held[0].depth
    off = np.abs(found.depth - true)[(true > 0) & (true < 15.0)] / true[(true > 0) & (true < 15.0)]
    assert 1e-4 < np.median(off) < 0.01 and np.mean(off < 0.05) > 0.8


def test_a_road_of_weak_texture_is_flat_where_it_is_known_which_way_is_up(tmp_path: Path) -> None:
    """Planes across the view find a road in steps; level ones lie on it, however far it is. Nothing is refined here."""
    rng = np.random.default_rng(3)
    camera = cameras.pinhole(240, 135, 172.0)
    held = []
    for k, along in enumerate((0.0, -0.6, 0.6, -1.2, 1.2, -2.4)):
        eye = np.array([0.3 + 0.05 * k, along, 1.7])
        pose = rigid.look_at(eye, np.array([0.2, along + 8.0, 1.0]), UP)
        shot = shoot(tmp_path, f"{k}.png", camera, pose, (level((-9.0, 9.0), (-20.0, 40.0), 0.0),))
        weak = 110.0 + 0.15 * (shot.grey - 128.0) + rng.normal(0.0, 1.0, shot.grey.shape)
        cv2.imwrite(str(shot.view.path), np.clip(np.round(weak), 0, 255).astype(np.uint8))
        held.append(shot)
    points = points_of(held[0])[75::7, 5::13].reshape(-1, 3)
    given = (held[0].view, [shot.view for shot in held[1:]], points, PhotoCache())
    config = GroundPointConfig(stereo=StereoConfig(width=240, refine=RefineConfig(rounds=0)))
    true = held[0].depth
    road = (true > 3.0) & (true < 12.0)
    height = 1.7 / true[road]

    def off(up: Floats | None) -> float:
        return float(np.median(height * np.abs(ground_depth(*given, config, up).depth - true)[road]))

    assert 1e-4 < off(UP) < 0.5 * off(None)


def test_fronts_stand_beside_the_way_whichever_way_the_camera_looks() -> None:
    """A walk along y that looks 30 degrees to the right of it: its sides are -x and +x."""
    reference, *sources = walk([(0.0, 30.0), (-1.0, 30.0), (1.2, 25.0), (2.4, 30.0)])
    down = -reference.cam_from_world.rotation @ UP
    found = [reference.cam_from_world.rotation.T @ side for side in sides_of_the_way(reference, sources, down)]
    np.testing.assert_allclose(sorted(found, key=lambda side: side[0]), [[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], atol=1e-9)
    assert sides_of_the_way(reference, walk([(0.0, 30.0), (0.01, 60.0)]), down) == (), "it stands still"


def test_far_specks_in_the_sky_have_no_depth_roofs_and_posts_have() -> None:
    config = GroundPointConfig(farthest=60.0)
    depth = np.full((80, 100), 3000.0, np.float32)
    depth[50:] = 45.0  # a roof line
    depth[20:23, 20:24] = 50.0  # a cloud that seems to be there
    depth[:, 70:72] = 8.0  # a lamp post
    found = specks(depth, depth >= config.farthest, config)
    assert found[20:23, 20:24].all()
    assert not found[51:].any() and not found[:, 70:72].any()


def test_the_halo_of_near_things_has_no_depth_the_road_into_the_distance_has() -> None:
    depth = np.tile(1.6 * 343.0 / np.arange(30.0, 110.0)[:, None], (1, 100)).astype(np.float32)  # a road, 18 to 5 m
    depth[:60, 40:60] = 4.0  # a tree before it
    depth[:, 90:] = 0.0  # nothing measured: not farther away
    found = halo(depth, 5)
    assert found[10:50, 40:45].all() and found[10:50, 55:60].all()
    assert not found[10:50, 45:55].any(), "its middle stays"
    assert not found[:, :40].any() and not found[:, 60:].any(), "what lies behind stays"
    assert not halo(depth, 0).any()


def test_wrong_depths_here_and_there_cut_nothing_of_a_front() -> None:
    depth = np.full((60, 80), 6.0, np.float32)
    depth[20:24, 30:34] = 15.0
    assert not halo(depth, 5).any()
    depth[20:25, 30:35] = 15.0  # as wide as a window reaches: a gap that one sees through
    assert halo(depth, 5)[16, 32] and not halo(depth, 5)[10, 32]


def test_depth_lies_on_large_planes_only_where_these_are_asked_for_and_up_is_known() -> None:
    """A front 8 m ahead, with noise, as three cameras side by side have it."""
    camera, shape, rng = cameras.pinhole(160, 120, 150.0), (120, 160), np.random.default_rng(2)
    normal = np.broadcast_to(np.array([0.0, -1.0, 0.0], np.float32), (*shape, 3)).copy()
    maps = []
    for x in (0.0, -1.0, 1.0):
        pose = rigid.look_at(np.array([x, 0.0, 0.0]), np.array([x, 1.0, 0.0]), UP)
        depth = (8.0 + rng.normal(0.0, 0.01, shape)).astype(np.float32)
        maps.append(DepthMap("a", camera, pose, depth, np.ones(shape, np.float32), np.zeros(shape, bool), normal))
    flat = GroundPointConfig(planes=LargePlaneConfig())
    found = [
        np.median(np.abs(consistent_ground_depth(maps[0], maps[1:], config, up).depth[20:-20, 20:-20] - 8.0))
        for config, up in ((GroundPointConfig(), UP), (flat, None), (flat, UP))
    ]
    assert found[0] == found[1] > 0.002
    assert found[2] < 0.2 * found[0]
