"""Measured depth on scenes with a known answer: a slope, a step, a screen that hides, masks, cameras of all sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from patch_world import Patch, Shot, hidden_in, level, points_of, shoot

from skyanchor import stereo
from skyanchor.bridges.fusion import SurfaceConfig, fuse_surface
from skyanchor.bridges.surface import render_depth
from skyanchor.geometry import cameras, rigid
from skyanchor.photos import PhotoCache
from skyanchor.stereo.estimate import as_depth_map, distance_range, grey_stack, swept, tilt_of
from skyanchor.stereo.planes import pixel_grid, sweep_planes, upsampled
from skyanchor.types import Camera, DepthMap, Plane, Tracks, View

CAMERA = cameras.pinhole(128, 96, 110.0)
HEIGHT = 20.0
FOOTPRINT = HEIGHT / 110.0
"""A pixel on the ground, metres."""
LEVEL_GROUND = Plane(np.array([0.0, 0.0, 1.0]), 0.0)
FORWARD = np.array([0.0, 0.0, 1.0])
INNER = np.s_[8:-8, 8:-8]
GROUND = level((-30.0, 30.0), (-30.0, 30.0), 0.0)
EYES = ((0.0, 0.0), (5.0, 0.4), (-5.0, -0.3), (0.5, 5.0), (-0.4, -5.0))


def shots(folder: Path, patches: tuple[Patch, ...], lens: tuple[Camera, ...] = (CAMERA,)) -> list[Shot]:
    """Five photos from 20 m, the first in the middle, all nearly straight down."""
    held = []
    for k, (x, y) in enumerate(EYES):
        eye = np.array([x, y, HEIGHT])
        pose = rigid.look_at(eye, np.array([0.3 * x, 0.3 * y, 0.0]), np.array([0.0, 1.0, 0.0]))
        held.append(shoot(folder, f"{k}.png", lens[k % len(lens)], pose, patches))
    return held


def measured(held: list[Shot], index: int = 0, ground: Plane | None = None, **settings: object) -> DepthMap:
    others = [shot.view for k, shot in enumerate(held) if k != index]
    hints = points_of(held[index])[4::11, 4::11].reshape(-1, 3)
    config = stereo.StereoConfig(width=held[index].view.camera.width, **settings)  # type: ignore[arg-type]
    return stereo.estimate_depth(held[index].view, others, hints, PhotoCache(), config, ground)


# --- slope, step, screen ------------------------------------------------------------------------------------------


def slope(degrees: float) -> Patch:
    """A plane through the origin that rises along x."""
    along = np.array([np.cos(np.radians(degrees)), 0.0, np.sin(np.radians(degrees))])
    return Patch(-30.0 * along - 30.0 * np.eye(3)[1], along, np.eye(3)[1], (60.0, 60.0))


def test_a_slope_is_measured_with_its_normal(tmp_path: Path) -> None:
    rising = slope(30.0)
    held = shots(tmp_path, (rising,))
    found = measured(held)
    off = np.abs(found.depth - held[0].depth)[INNER]
    assert 1e-4 < np.median(off) < 0.25 * FOOTPRINT and np.mean(off < FOOTPRINT) > 0.94
    turned = np.degrees(np.arccos(np.clip(found.normal[INNER] @ rising.normal, -1.0, 1.0)))
    assert 0.1 < np.median(turned) < 9.0  # the sweep began with 30


def test_patchmatch_finds_more_than_the_sweep_began_with(tmp_path: Path) -> None:
    """On a slope the fronto-parallel planes of a sweep at half the size leave steps; slanted windows close them."""
    held = shots(tmp_path, (slope(30.0),))
    sources, photos, config = [shot.view for shot in held[1:]], PhotoCache(), stereo.StereoConfig(width=128)
    coarse, fine = (grey_stack(held[0].view, sources, photos, width) for width in (64, 128))
    hints = points_of(held[0])[4::11, 4::11].reshape(-1, 3)
    distances = distance_range(held[0].view.cam_from_world, FORWARD, hints, None)
    start = upsampled(swept(coarse, FORWARD, distances, config), fine.camera, coarse.camera)
    began = as_depth_map(held[0].view, fine.camera, start, np.zeros_like(start.w))
    first = np.median(np.abs(began.depth - held[0].depth)[INNER])
    last = np.median(np.abs(measured(held).depth - held[0].depth)[INNER])
    assert last < 0.6 * first and first < 1.5 * FOOTPRINT


def test_rounds_at_half_the_size_turn_the_planes_and_one_at_full_size_places_them(tmp_path: Path) -> None:
    rising = slope(30.0)
    held = shots(tmp_path, (rising,))

    def found(coarse_rounds: int, rounds: int) -> tuple[float, float]:
        """Median error of depth, metres, and of the normals, degrees."""
        depth = measured(held, refine=stereo.RefineConfig(coarse_rounds=coarse_rounds, rounds=rounds))
        turned = np.degrees(np.arccos(np.clip(depth.normal[INNER] @ rising.normal, -1.0, 1.0)))
        return float(np.median(np.abs(depth.depth - held[0].depth)[INNER])), float(np.median(turned))

    sweep, half, whole, usual = found(0, 0), found(2, 0), found(2, 1), found(0, 2)
    assert half[1] < 0.5 * sweep[1]
    assert whole[0] < 0.8 * half[0] and whole[0] < 1.1 * usual[0] and whole[1] < 1.1 * usual[1]


def test_a_step_keeps_its_edge(tmp_path: Path) -> None:
    held = shots(tmp_path, (GROUND, level((0.0, 30.0), (-30.0, 30.0), 3.0)))
    found, truth = measured(held, ground=LEVEL_GROUND), held[0].depth
    upper = held[0].patch == 1
    edge = cv2.dilate(upper.astype(np.uint8), np.ones((9, 9))) != cv2.erode(upper.astype(np.uint8), np.ones((9, 9)))
    off = np.abs(found.depth - truth)
    assert np.mean(off[INNER][~edge[INNER]] < FOOTPRINT) > 0.98
    between = (found.depth > 17.6) & (found.depth < 19.4)
    assert between[INNER].mean() < 0.01  # a step, no ramp: one column in a hundred at most
    columns = np.argmax(found.depth[20:-20] < 18.5, axis=1)
    assert np.abs(columns - np.argmax(upper[20:-20], axis=1)).max() <= 3


def test_what_some_photos_cannot_see_is_measured_by_the_others(tmp_path: Path) -> None:
    """A narrow platform high above hides ground from one side or the other, never from all."""
    held = shots(tmp_path, (GROUND, level((-1.0, 1.0), (-30.0, 30.0), 6.0)))
    found, truth = measured(held, ground=LEVEL_GROUND), held[0].depth
    blind = sum(hidden_in(held[0], other).astype(int) for other in held[1:])
    half = np.zeros(truth.shape, bool)
    half[INNER] = (blind[INNER] == 1) | (blind[INNER] == 2)
    half &= held[0].patch == 0
    assert half.sum() > 300
    assert np.mean(np.abs(found.depth - truth)[half] < 1.5 * FOOTPRINT) > 0.8
    open_ = np.zeros(truth.shape, bool)
    open_[INNER] = blind[INNER] == 0
    assert np.mean(np.abs(found.depth - truth)[open_] < 1.5 * FOOTPRINT) > 0.9


# --- masks --------------------------------------------------------------------------------------------------------


def painted(shot: Shot, folder: Path, box: tuple[slice, slice]) -> View:
    """The photo with a strange thing in it, and a mask over that."""
    image, mask = shot.grey.copy(), np.full(shot.grey.shape, 255, np.uint8)
    image[box], mask[box] = np.random.default_rng(3).integers(0, 255, image[box].shape), 0
    path, mask_path = folder / f"x{shot.view.name}", folder / f"m{shot.view.name}"
    cv2.imwrite(str(path), image)
    cv2.imwrite(str(mask_path), mask)
    return replace(shot.view, path=path, mask_path=mask_path)


def test_masked_pixels_have_no_depth_and_the_others_keep_theirs(tmp_path: Path) -> None:
    held = shots(tmp_path, (GROUND,))
    box = (slice(30, 60), slice(40, 80))
    held[0] = replace(held[0], view=painted(held[0], tmp_path, box))
    found = measured(held, ground=LEVEL_GROUND)
    inside = np.zeros(found.depth.shape, bool)
    inside[box] = True
    assert not found.depth[inside].any() and not found.confidence[inside].any() and not found.normal[inside].any()
    assert (found.depth[~inside] > 0).all()
    far = cv2.dilate(inside.astype(np.uint8), np.ones((9, 9))) == 0
    assert np.mean(np.abs(found.depth - held[0].depth)[INNER][far[INNER]] < FOOTPRINT) > 0.98
    neighbours = [measured(held, k, LEVEL_GROUND) for k in range(1, 5)]
    agreed = stereo.make_consistent(found, neighbours)
    assert np.mean(agreed.depth[inside] > 0) > 0.9  # what stands there is told by those who saw it
    assert np.median(np.abs(agreed.depth - held[0].depth)[inside]) < FOOTPRINT


def test_what_all_sources_mask_is_not_measured(tmp_path: Path) -> None:
    """A van's roof, 4 m up, is measured where the sources show it, and not where they black it out."""
    held = shots(tmp_path, (GROUND, level((-2.0, 2.0), (-2.0, 2.0), 4.0)))
    roof = cv2.erode((held[0].patch == 1).astype(np.uint8), np.ones((9, 9))) > 0
    found = measured(held, ground=LEVEL_GROUND)
    assert np.abs(found.depth - 16.0)[roof].max() < FOOTPRINT and found.confidence[roof].mean() > 0.7
    for k, shot in enumerate(held[1:], start=1):
        mask_path = tmp_path / f"m{k}.png"
        cv2.imwrite(str(mask_path), 255 - 255 * cv2.dilate((shot.patch == 1).astype(np.uint8), np.ones((5, 5))))
        held[k] = replace(shot, view=replace(shot.view, mask_path=mask_path))
    blind = measured(held, ground=LEVEL_GROUND)
    assert blind.confidence[roof].mean() < 0.35
    far = cv2.dilate((held[0].patch == 1).astype(np.uint8), np.ones((25, 25))) == 0
    assert np.mean(np.abs(blind.depth - held[0].depth)[INNER][far[INNER]] < FOOTPRINT) > 0.98


# --- planes -----------------------------------------------------------------------------------------------------------


def test_planes_of_the_sweep_are_a_fraction_of_a_pixel_apart(tmp_path: Path) -> None:
    held = shots(tmp_path, (GROUND,))
    stack = grey_stack(held[0].view, [held[1].view], PhotoCache(), 128)
    tilt = tilt_of(stack.camera, FORWARD)
    planes = sweep_planes(stack, tilt, (15.0, 23.0), 0.7, 500)
    x, y = (float(grid[48, 64]) for grid in pixel_grid(stack.camera))
    at = [stack.M[0] @ np.array([x, y, 1.0]) + w * stack.m[0] for w in planes]
    moved = np.linalg.norm(np.diff([q[:2] / q[2] for q in at], axis=0), axis=1)
    assert 0.5 < np.median(moved) < 0.75


# --- cameras of all sizes -----------------------------------------------------------------------------------------

LENSES = (
    cameras.pinhole(128, 96, 110.0),
    cameras.pinhole(96, 128, 110.0),
    cameras.pinhole(160, 90, 130.0),
    Camera("OPENCV", 140, 100, (118.0, 120.0, 69.0, 51.0, -0.05, 0.01, 0.0005, -0.0003)),
)


def test_cameras_of_all_sizes_go_through_together(tmp_path: Path) -> None:
    """Depth, confirmation, completion, surface: portrait, landscape, wide, and one that is distorted."""
    held = shots(tmp_path, (GROUND, level((-3.0, 3.0), (-2.0, 2.0), 3.0)), LENSES)
    views = tuple(shot.view for shot in held)
    points = points_of(held[0])[3::7, 3::7].reshape(-1, 3)
    none = Tracks(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 2)))
    sources = stereo.choose_sources(views, points, none)
    photos, config = PhotoCache(), stereo.StereoConfig(width=120)
    raw = [
        stereo.estimate_depth(view, [views[j] for j in sources[k]], points, photos, config, LEVEL_GROUND)
        for k, view in enumerate(views)
    ]
    assert len({one.depth.shape for one in raw}) == 4 and all(one.camera.model == "PINHOLE" for one in raw)
    done = []
    for k, one in enumerate(raw):
        agreed = stereo.make_consistent(one, raw[:k] + raw[k + 1 :])
        photo, camera = photos.photo(views[k].name, views[k].path, views[k].camera, one.camera.width)
        assert camera == one.camera
        done.append(stereo.complete(agreed, one, photo.pixels, LEVEL_GROUND))
        assert agreed.depth.shape == one.depth.shape == done[-1].depth.shape and (agreed.depth > 0).mean() > 0.6
    surface = fuse_surface(done, np.array([0.0, 0.0, 1.0]), SurfaceConfig(neighbours=4))
    z = surface.points[surface.normals[:, 2] > 0.9][:, 2]
    assert np.mean((np.abs(z) < 0.2) | (np.abs(z - 3.0) < 0.2)) > 0.95
    drawn, _ = render_depth(surface, held[2].view.camera, held[2].view.cam_from_world, 1.0, 100.0)
    assert np.median(np.abs(drawn - held[2].depth)[INNER]) < 0.3 * FOOTPRINT


@pytest.mark.parametrize("lens", LENSES, ids=["landscape", "portrait", "wide", "distorted"])
def test_depth_has_the_cameras_own_shape(tmp_path: Path, lens: Camera) -> None:
    held = shots(tmp_path, (GROUND,), (lens,))
    found = measured(held, ground=LEVEL_GROUND)
    assert found.depth.shape == (lens.height, lens.width) == (found.camera.height, found.camera.width)
    off = np.abs(found.depth - (HEIGHT if lens.model == "OPENCV" else held[0].depth))
    assert np.median(off[INNER]) < 0.3 * FOOTPRINT
