"""Colours and sights shared with the aerial photos, and the pictures between them that guard the aerial view."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from update_world import CAMERA, GAIN, World, exact_depth, inputs_of, quick

from skyanchor.gaussians.splats import to_tensors
from skyanchor.gaussians.views import load_target, matrix
from skyanchor.geometry import rigid
from skyanchor.photos import PhotoCache
from skyanchor.scene.colours import finer_from_above, paired_colours, shared_exposure, sights
from skyanchor.scene.reach import sees
from skyanchor.scene.rendered import guard_pictures, poses_between, rendered_depth
from skyanchor.scene.seeds import sky_radius
from skyanchor.stereo import DepthFolder, depth_path, save_depth
from skyanchor.types import Cloud, View


def floor_cloud(spacing: float) -> Cloud:
    """Points on the floor of the test world and as many one metre below it, coloured by their place."""
    x, y = np.meshgrid(np.linspace(-4.5, 4.5, 40), np.linspace(-5.0, 3.0, 40))
    points = np.stack([x.ravel(), y.ravel(), np.full(x.size, 0.03)], axis=1)
    points = np.concatenate([points, points - [0.0, 0.0, 1.0]]).astype(np.float32)
    normals = np.tile(np.array([0, 0, 1], np.float32), (len(points), 1))
    return Cloud(points, normals, np.zeros((len(points), 3), np.uint8), np.full(len(points), spacing, np.float32))


def test_aerial_views_show_the_floor_and_not_what_lies_below(world: World) -> None:
    cloud = floor_cloud(0.2)
    depth = rendered_depth(world.aerial, world.aerial_views, 64, world.engine)
    seen = np.zeros(len(cloud.points), bool)
    for _, _, sight in sights(cloud, world.aerial_views, depth, 64):
        seen[sight.rows] = True
        np.testing.assert_allclose(sight.footprint, 9.0 / 60.0, rtol=0.2)
    assert seen[:1600].mean() > 0.95
    assert not seen[1600:].any()


def test_depth_read_one_by_one_says_the_same(world: World, tmp_path: Path) -> None:
    depth, cloud = rendered_depth(world.aerial, world.aerial_views, 64, world.engine), floor_cloud(0.3)
    for one in depth:
        save_depth(depth_path(tmp_path, one.name), one)
    folder = DepthFolder(tmp_path, tuple(one.name for one in depth), limit_bytes=1)
    found = [finer_from_above(cloud, world.aerial_views, maps, 64, 2) for maps in (depth, folder)]
    assert found[0].any() and (found[0] == found[1]).all()


def test_only_photos_that_see_the_street_are_asked(world: World) -> None:
    view = world.aerial_views[0]
    ahead = view.cam_from_world.inverse(np.array([[0.0, 0.0, 5.0], [0.0, 0.0, -5.0], [50.0, 0.0, 5.0]]))
    assert sees(view, ahead) and not sees(view, ahead[1:]) and not sees(view, ahead[:0])


def test_the_finer_picture_wins(world: World) -> None:
    """Aerial pixels cover 0.15 m: coarser ground points are left out, finer ones and unseen ones stay."""
    depth = rendered_depth(world.aerial, world.aerial_views, 64, world.engine)
    coarse, fine = (finer_from_above(floor_cloud(gap), world.aerial_views, depth, 64, 2) for gap in (0.3, 0.05))
    assert coarse[:1600].mean() > 0.8
    assert not coarse[1600:].any()
    assert not fine.any()


def test_exposure_from_the_same_places(world: World) -> None:
    """The cloud's colours are the aerial photos' own, darkened: the exposure must say by how much."""
    depth = rendered_depth(world.aerial, world.aerial_views, 64, world.engine)
    photos, cloud = PhotoCache(), floor_cloud(0.1)
    total, count = np.zeros((len(cloud.points), 3)), np.zeros(len(cloud.points))
    for view, one, sight in sights(cloud, world.aerial_views, depth, 64):
        photo, _ = photos.photo(view.name, view.path, view.camera, one.depth.shape[1])
        column, row = np.floor(sight.xy).astype(int).T
        total[sight.rows] += photo.pixels[row, column]
        count[sight.rows] += 1
    colors = GAIN * total / np.maximum(count, 1)[:, None]
    noise = np.random.default_rng(0).normal(0, 12, colors.shape)
    cloud = replace(cloud, colors=np.clip(colors + noise, 0, 255).astype(np.uint8))
    found = shared_exposure(paired_colours(cloud, world.aerial_views, depth, photos))
    np.testing.assert_allclose(np.diag(found[:, :3]), GAIN, atol=0.05)
    np.testing.assert_allclose(found[:, 3], 0.0, atol=0.03)


def test_guard_poses_lie_between_the_stations_and_keep_their_direction(world: World) -> None:
    views = world.aerial_views
    centres = rigid.centres_in_world([view.cam_from_world for view in views])
    found = poses_between(views, 25, seed=3)
    assert len(found) == 25
    assert len({view.name for view, _ in found}) == len(views)
    for view, pose in found:
        centre = rigid.centre_in_world(pose)
        assert (centre > centres.min(axis=0) - 1e-9).all() and (centre < centres.max(axis=0) + 1e-9).all()
        assert np.linalg.norm(rigid.centre_in_world(view.cam_from_world) - centre) > 0.15
        assert rigid.angle_between(pose.rotation, view.cam_from_world.rotation) < np.deg2rad(15.0)
    again = poses_between(views, 25, seed=3)
    assert all((a.translation == b.translation).all() for (_, a), (_, b) in zip(found, again, strict=True))
    assert poses_between((), 5) == []


def test_one_station_alone_guards_from_where_it_is() -> None:
    view = View("a", Path("a"), CAMERA, rigid.identity())
    ((_, pose),) = poses_between((view,), 1)
    np.testing.assert_allclose(rigid.centre_in_world(pose), 0.0, atol=1e-12)


def test_guard_pictures_are_what_the_model_shows(world: World) -> None:
    for one in guard_pictures(world.aerial, world.aerial_views, 3, 32, world.engine, weight=5.0):
        target = load_target(PhotoCache(), one, 32)
        assert target.weight == 5.0
        assert target.pixels.shape == (24, 32, 3)
        shown = world.engine.rasteriser.render(
            to_tensors(world.aerial), target.camera, matrix(target.cam_from_world, "cpu")
        )
        np.testing.assert_allclose(target.pixels, 255 * shown.rgb.clamp(0, 1).numpy(), atol=0.51)
        assert load_target(PhotoCache(), one, 16).pixels.shape == (12, 16, 3)


def test_no_aerial_camera_is_beyond_the_sky(world: World) -> None:
    inputs = inputs_of(world)
    radius = sky_radius(inputs, quick(sky_radius=0.1))
    flight = rigid.centres_in_world([view.cam_from_world for view in inputs.aerial_views.training])
    walk = rigid.centres_in_world([view.cam_from_world for view in inputs.ground_views.training]).mean(axis=0)
    assert radius > 3.0 * np.linalg.norm(flight - walk, axis=1).max()
    assert sky_radius(inputs, quick(sky_radius=100.0)) == 600.0


def test_rendered_depth_is_the_models_where_it_is_solid(world: World) -> None:
    depth = tuple(exact_depth(view, world) for view in world.aerial_views)
    shown = rendered_depth(world.whole, world.aerial_views, 64, world.engine)
    for measured, rendered in zip(depth, shown, strict=True):
        solid = rendered.depth > 0
        assert solid.mean() > 0.5
        np.testing.assert_allclose(rendered.depth[solid], measured.depth[solid], atol=1e-5)
