"""The fused surface: equal to the plain way bit for bit, true to the world, whatever the maps' sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import surface_oracle
from box_world import HALF, HIGH, LOW, UP, depth_map, eyes, photo, view

from skyanchor.bridges import (
    carry_kernels,
    cell_kernels,
    drawing_kernels,
    fusion,
    fusion_kernels,
    painting_kernels,
    strips,
    tiles,
    voxel_kernels,
)
from skyanchor.bridges import ground as grounds
from skyanchor.bridges.fusion import SurfaceConfig, fuse_surface
from skyanchor.bridges.ground import Ground, find_ground
from skyanchor.bridges.surface import Surface, intrinsics, render_depth
from skyanchor.bridges.views import AerialAtlas, BridgeConfig, painted_share, render_bridge
from skyanchor.errors import SkyAnchorError
from skyanchor.events import Event, Progress
from skyanchor.geometry import cameras, rigid
from skyanchor.stereo import DepthFolder, depth_path, save_depth
from skyanchor.types import Camera, DepthMap

NEAR = SurfaceConfig(neighbours=4)
ONE_SIZE = cameras.pinhole(96, 72, 80.0)
SIZES = (
    cameras.pinhole(96, 72, 80.0),
    cameras.pinhole(72, 96, 80.0),
    cameras.pinhole(128, 64, 100.0),
    Camera("PINHOLE", 80, 80, (66.0, 70.0, 41.0, 38.0)),
)


def noisy_maps(count: int = 9, noise: float = 2e-3) -> tuple[DepthMap, ...]:
    return tuple(depth_map(f"{k}.png", ONE_SIZE, pose, noise, k) for k, pose in enumerate(eyes(count)))


def mixed_maps(count: int = 8) -> tuple[DepthMap, ...]:
    return tuple(depth_map(f"{k}.png", SIZES[k % 4], pose, 0.0, k) for k, pose in enumerate(eyes(count)))


def same(one: Surface | Ground, two: Surface | Ground) -> bool:
    pairs = [(np.asarray(getattr(one, name)), np.asarray(getattr(two, name))) for name in vars(one)]
    return all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)


def off_the_world(surface: Surface) -> np.ndarray:
    """Distance of every disc from the ground or the box, metres."""
    points = surface.points.astype(np.float64)
    beyond = np.maximum(np.maximum(LOW - points, points - HIGH), 0.0)
    inside = np.minimum(points - LOW, HIGH - points).min(axis=1)
    to_box = np.where(inside > 0, inside, np.linalg.norm(beyond, axis=1))
    return np.minimum(np.abs(points[:, 2]), to_box)


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    yield
    numba.set_num_threads(before)


def test_it_equals_the_plain_way_to_the_last_bit() -> None:
    maps = noisy_maps()
    fused, plain = fuse_surface(maps, UP, NEAR), surface_oracle.fuse_surface(maps, UP, NEAR)
    assert len(plain.points) > 5000
    assert same(fused, plain)
    assert same(find_ground(fused), find_ground(plain))


def test_pixels_move_to_where_the_maps_beside_agree_and_what_these_look_through_loses_weight() -> None:
    """Maps of all sizes, noisy, one that sees everything nearer and one that sees everything farther."""
    rng, scales = np.random.default_rng(3), (1.0, 1.0, 1.0, 0.98, 1.03)
    maps = [depth_map(f"{k}.png", SIZES[k % 4], pose, 3e-3, k) for k, pose in enumerate(eyes(5))]
    maps = [replace(one, depth=one.depth * np.float32(scale)) for one, scale in zip(maps, scales, strict=True)]
    counts = [np.where(rng.random(m.depth.shape) < 0.1, 0.0, m.confidence).astype(np.float32) for m in maps]
    room = (max(m.depth.shape[0] for m in maps), max(m.depth.shape[1] for m in maps))
    depths, weights = np.full((5, *room), 20.0, np.float32), np.ones((5, *room), np.float32)
    for k, (one, count) in enumerate(zip(maps, counts, strict=True)):
        held = np.s_[k, : one.depth.shape[0], : one.depth.shape[1]]
        depths[held], weights[held] = one.depth, count
    sizes, first, slots = np.array([m.depth.shape for m in maps]), maps[0], np.array([3, 1, 4, 2])
    ks, poses = np.stack([intrinsics(m.camera) for m in maps]), [m.cam_from_world for m in maps]
    rs, ts = np.stack([pose.rotation for pose in poses]), np.stack([pose.translation for pose in poses])
    points, normals, total = fusion_kernels.fuse_map(
        first.depth, first.normal, counts[0], ks[0], rs[0], ts[0], depths, weights, slots, sizes[slots], ks[slots],
        rs[slots], ts[slots], 0.006,
    )  # fmt: skip
    there = first.depth > 0
    expected, sums = surface_oracle.fused_pixels(first, counts[0], [(maps[k], counts[k]) for k in slots], 0.006)
    assert np.abs(points[there] - expected).max() < 1e-5 and np.abs(total[there] - sums).max() < 1e-5
    assert np.array_equal(normals[there], first.normal[there]) and not points[~there].any() and not total[~there].any()
    assert len(expected) > 3000 and (sums < 0.5).mean() > 0.1 and (sums > 1.5).mean() > 0.1


def test_threads_and_room_change_nothing(one_thread: None, monkeypatch: pytest.MonkeyPatch) -> None:
    maps = noisy_maps()
    alone = fuse_surface(maps, UP, NEAR)
    numba.set_num_threads(min(2, numba.config.NUMBA_NUM_THREADS))
    monkeypatch.setattr(fusion, "SLOT_BYTES", 0)
    assert same(fuse_surface(maps, UP, NEAR), alone)


@pytest.mark.parametrize("smoothing", [0, 2])
def test_small_tiles_of_which_few_are_in_memory_change_nothing(
    smoothing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps, config = noisy_maps(5), SurfaceConfig(neighbours=4, smoothing=smoothing, cell=3.0)
    plain = surface_oracle.fuse_surface(maps, UP, config)
    for module, limit in ((tiles, "PIXEL_BYTES"), (tiles, "DISC_BYTES"), (strips, "STRIP_BYTES")):
        monkeypatch.setattr(module, limit, 0)
    monkeypatch.setattr(tiles, "TILE_BITS", 5)
    tiled = fuse_surface(maps, UP, config, scratch=tmp_path)
    assert same(tiled, plain) and same(find_ground(tiled), find_ground(plain))
    assert {path.name for path in tmp_path.iterdir()} == {"pixels", "discs", "strips", "points", "normals", "spacing"}


def test_what_a_killed_process_left_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    maps, config = noisy_maps(5), SurfaceConfig(neighbours=4, smoothing=0, cell=3.0)
    for module, limit in ((tiles, "PIXEL_BYTES"), (tiles, "DISC_BYTES"), (strips, "STRIP_BYTES")):
        monkeypatch.setattr(module, limit, 0)
    plain = fuse_surface(maps, UP, config, scratch=tmp_path / "plain")
    with monkeypatch.context() as until, pytest.raises(KeyboardInterrupt):
        until.setattr(tiles.VoxelTiles, "discs", killed)
        fuse_surface(maps, UP, config, scratch=tmp_path / "again")
    assert list((tmp_path / "again/pixels").iterdir())
    assert same(fuse_surface(maps, UP, config, scratch=tmp_path / "again"), plain)


def test_a_folder_gives_the_same_and_few_maps_are_held(tmp_path: Path) -> None:
    for one in noisy_maps(12):
        save_depth(depth_path(tmp_path, one.name), one)
    names = tuple(f"{k}.png" for k in range(12))
    all_held = tuple(DepthFolder(tmp_path, names))
    few = DepthFolder(tmp_path, names, limit_bytes=3 * 96 * 72 * 21)
    assert same(fuse_surface(few, UP, NEAR), fuse_surface(all_held, UP, NEAR))
    assert len(few._held) == 3 and len(few) == 12


def test_progress_is_told() -> None:
    told: list[Event] = []
    fuse_surface(noisy_maps(5), UP, NEAR, told.append)
    steps = {e.step: (e.done, e.total) for e in told if isinstance(e, Progress)}
    assert steps.pop("depth maps looked at") == (5, 5) and steps.pop("surface fused") == (5, 5)
    done, tiles_of_it = steps.pop("surface smoothed")
    assert done == tiles_of_it > 0 and not steps
    assert len(told) == 10 + tiles_of_it


def test_maps_of_different_sizes_and_shapes_make_one_surface() -> None:
    surface = fuse_surface(mixed_maps(), UP, NEAR)
    off = off_the_world(surface)
    assert np.median(off) < 0.1 * surface.gsd and np.mean(off < surface.gsd) > 0.97
    flat = surface.points[:, :2]
    for corner in ((-9, -9), (9, 9), (-9, 9), (9, -9), (0, 0)):
        assert (np.linalg.norm(flat - corner, axis=1) < 1.0).any()


def test_the_order_of_sizes_does_not_matter_for_what_a_map_is_compared_with() -> None:
    """A large map that leaves its slot to a small one leaves nothing of itself behind."""
    maps = mixed_maps()
    config = SurfaceConfig(neighbours=1)
    roomy = fuse_surface(maps, UP, config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fusion, "SLOT_BYTES", 0)
        assert same(fuse_surface(maps, UP, config), roomy)


def test_a_depth_that_the_others_look_through_is_dropped() -> None:
    maps = list(noisy_maps(noise=0.0))
    wrong = maps[0].depth.copy()
    block = (slice(4, 14), slice(4, 14))
    wrong[block] *= 0.6
    maps[0] = DepthMap(**{**vars(maps[0]), "depth": wrong})
    surface = fuse_surface(tuple(maps), UP, NEAR)
    assert off_the_world(surface).max() < 1.0


def test_maps_without_depth_are_passed_over_and_none_at_all_is_said() -> None:
    maps = noisy_maps(5)
    empty = DepthMap(**{**vars(maps[0]), "depth": np.zeros_like(maps[0].depth)})
    assert len(fuse_surface((*maps, empty), UP, NEAR).points) > 3000
    with pytest.raises(SkyAnchorError, match="No aerial photo has any depth"):
        fuse_surface((empty, empty), UP, NEAR)


def test_the_ground_is_free_beside_the_box_and_not_on_it() -> None:
    ground = find_ground(fuse_surface(noisy_maps(noise=0.0), UP, NEAR))
    x, y = np.nonzero(ground.free)
    free = ground.origin + (np.stack([x, y], axis=1) + 0.5) * ground.cell
    assert np.abs(ground.height[ground.free]).max() < 0.1
    assert not ((np.abs(free) < HIGH[:2] - 0.5).all(axis=1)).any()
    assert 0.5 < len(free) * ground.cell**2 / ((2 * HALF) ** 2 - 24.0) < 1.0


def test_the_ground_in_blocks_is_that_of_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    surface = fuse_surface(noisy_maps(), UP, SurfaceConfig(neighbours=4, cell=1.3))
    whole = find_ground(surface)
    monkeypatch.setattr(grounds, "BLOCK", 200)
    assert len(grounds._blocks(surface)) > 5
    assert same(find_ground(surface), whole)


def test_drawn_depth_is_that_of_the_world_seen_from_the_street() -> None:
    large = cameras.pinhole(160, 120, 140.0)
    maps = tuple(depth_map(str(k), large, pose) for k, pose in enumerate(eyes(9, radius=20.0)))
    surface = fuse_surface(maps, UP, NEAR)
    camera = cameras.pinhole(80, 60, 60.0)
    pose = rigid.look_at(np.array([0.0, -9.0, 1.7]), np.array([0.0, 0.0, 1.7]), UP)
    depth, normal = render_depth(surface, camera, pose, 0.5, 100.0)
    wall = (slice(20, 30), slice(30, 50))
    assert np.abs(depth[wall] - 7.0).max() < 1e-4
    assert np.median(normal[wall][..., 2]) < -0.9


def test_discs_drawn_where_they_lie_and_in_sight_are_all_that_count() -> None:
    """Twin: every disc in the square round its centre, and none taken for hidden before it is drawn."""
    surface = fuse_surface(noisy_maps(), UP, NEAR)
    camera, every = cameras.pinhole(96, 72, 60.0), np.array([0, len(surface.points)])
    pose, K = rigid.look_at(np.array([1.0, -9.0, 1.7]), np.array([0.0, 0.0, 1.7]), UP), intrinsics(camera)
    held = (surface.points, surface.normals, surface.spacing, every[:1], every[1:])
    discs, boxes = drawing_kernels.discs_in_view(*held, K, pose.rotation, pose.translation, 96, 72, 0.5, 100.0, 1)
    wide = discs.copy()
    wide[:, 7] = -1e9
    middle, reach = discs[:, :2] / discs[:, 2:3] * K[:2] + K[2:], discs[:, 6:7] * K[:2] / discs[:, 2:3]
    squares = np.floor(np.concatenate([middle - reach, middle + reach], axis=1))
    squares = np.clip(squares, 0, [95, 71, 95, 71]).astype(np.int32)
    size = 1 + np.diff(boxes.reshape(-1, 2, 2), axis=1)[:, 0], 1 + np.diff(squares.reshape(-1, 2, 2), axis=1)[:, 0]
    assert len(discs) > 1000 and size[0].prod(axis=1).sum() < 0.7 * size[1].prod(axis=1).sum()
    drawn = drawing_kernels.splat(discs, boxes, K, 96, 72, 0.5, 1)
    twin = drawing_kernels.splat(wide, squares, K, 96, 72, 0.5, 1)
    assert (drawn[0] > 0).mean() > 0.3
    assert all(np.array_equal(a, b) for a, b in zip(drawn, twin, strict=True))


def test_a_glance_says_how_much_of_a_view_is_painted(tmp_path: Path) -> None:
    maps = mixed_maps()
    views = tuple(view(tmp_path, one.name, one.camera, one.cam_from_world) for one in maps)
    atlas = AerialAtlas(fuse_surface(maps, UP, NEAR), views, BridgeConfig(front_width=64))
    camera = cameras.pinhole(160, 120, 120.0)
    shares = []
    for target in ((0.0, 0.0, 1.0), (0.0, -6.0, 9.0), (0.0, -30.0, 12.0)):
        pose = rigid.look_at(np.array([-2.0, -10.0, 6.0]), np.array(target), UP)
        mask = render_bridge(atlas, camera, pose).photo.mask
        assert mask is not None
        shares.append((float(mask.mean()), painted_share(atlas, camera, pose)))
    whole, glance = np.array(shares).T
    assert whole[0] > 0.4 and whole[2] < 0.05
    assert np.abs(whole - glance).max() < 0.1


def test_one_of_so_many_discs_is_every_fourth_of_all_and_covers_what_all_do() -> None:
    whole = fuse_surface(mixed_maps(), UP, NEAR)
    few = slice(None, None, 4)
    thin = replace(
        whole, points=whole.points[few].copy(), normals=whole.normals[few].copy(), spacing=2.0 * whole.spacing[few],
        cell_starts=-(-whole.cell_starts // 4),
    )  # fmt: skip
    camera = cameras.pinhole(40, 30, 30.0)
    pose = rigid.look_at(np.array([-2.0, -10.0, 6.0]), np.array([0.0, 0.0, 1.0]), UP)
    drawn, twin = render_depth(whole, camera, pose, 0.5, 100.0, every=4), render_depth(thin, camera, pose, 0.5, 100.0)
    assert all(np.array_equal(one, two) for one, two in zip(drawn, twin, strict=True))
    all_of_them = render_depth(whole, camera, pose, 0.5, 100.0)[0]
    assert (drawn[0] > 0).sum() == pytest.approx((all_of_them > 0).sum(), rel=0.05)


def test_an_atlas_of_different_cameras_paints_what_is_there(tmp_path: Path) -> None:
    """Red says x and green says y: whichever photo a bridge pixel came from, its colour must be that of its point."""
    maps = mixed_maps()
    views = tuple(view(tmp_path, one.name, one.camera, one.cam_from_world) for one in maps)
    atlas = AerialAtlas(fuse_surface(maps, UP, NEAR), views, BridgeConfig(front_width=64))
    camera = cameras.pinhole(80, 60, 60.0)
    pose = rigid.look_at(np.array([-2.0, -10.0, 6.0]), np.array([0.0, 0.0, 1.0]), UP)
    bridge = render_bridge(atlas, camera, pose)
    painted = bridge.photo.mask
    assert painted is not None and painted.mean() > 0.4
    assert len({(views[k].camera.width, views[k].camera.height) for k in np.unique(bridge.source[painted])}) >= 3
    apart = np.abs(bridge.photo.pixels.astype(float) - photo(camera, pose))[painted]
    assert np.median(apart[:, :2]) < 3.0 and np.mean(apart[:, :2] < 10.0) > 0.9


@pytest.mark.parametrize(
    ("pixel_m", "behind_m", "painted"), [(0.1, 0.3, True), (0.1, 0.5, False), (0.4, 0.5, True), (0.4, 1.0, False)]
)
def test_a_wall_may_lie_behind_what_its_window_of_a_photo_shows(pixel_m: float, behind_m: float, painted: bool) -> None:
    """The nearest surface in a window of large pixels is nearer than the wall itself, which falls away from it."""
    wall, eye = np.array([0.0, 0.0, 10.0]), np.array([0.0, -70.0, -60.0])
    pose, focal = rigid.look_at(eye, wall, np.array([0.0, -1.0, 0.0])), 99.0 / pixel_m
    front = np.full((1, 64, 64), pose(wall[None])[0, 2] - behind_m, np.float32)
    k = np.array([[focal, focal, 32.0, 32.0]])
    source = painting_kernels.colour(
        np.full((1, 1), 10.0, np.float32), np.array([[[0.0, 0.0, -1.0]]], np.float32),
        np.array([100.0, 100.0, 0.5, 0.5]), np.eye(3), np.zeros(3), np.zeros((1, 64, 64, 3), np.uint8), front,
        np.zeros(1, np.int64), k, np.array([[64, 64]]), k, pose.rotation[None], eye[None], 0.35,
    )[1]  # fmt: skip
    assert (source[0, 0] == 0) == painted


def test_photos_of_a_full_atlas_keep_their_own_pixels(tmp_path: Path) -> None:
    """More photos than there is room for: the memory of the first is used again, what was handed out is not."""
    views = tuple(view(tmp_path, f"{k:02d}.png", SIZES[k % 4], pose) for k, pose in enumerate(eyes(14)))
    surface = fuse_surface(mixed_maps(), UP, NEAR)
    atlas = AerialAtlas(surface, views, BridgeConfig(front_width=64, sources=2), limit_bytes=0)
    assert len(atlas._photos) == 10 < len(views)
    held = [atlas.photo(k) for k in range(len(views))]
    for k, one in enumerate(held):
        assert one.name == views[k].name
        assert np.array_equal(one.pixels, photo(views[k].camera, views[k].cam_from_world))


ROOMS = (fusion_kernels, voxel_kernels, cell_kernels, drawing_kernels, painting_kernels, carry_kernels)
KERNELS = [one for room in ROOMS for one in vars(room).values() if hasattr(one, "py_func")]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_the_process_that_compiles_and_later_ones_round_alike(kernel: Any) -> None:
    """Numba optimises a parallel kernel once more when it is kept: what may be rounded otherwise then is."""
    assert set(kernel.targetoptions.get("fastmath") or ()) <= {"nnan", "ninf", "nsz"}
