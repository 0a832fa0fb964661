"""What a street photo shows and its neighbours contradict: a box that moves on, a shadow that passes, and no more."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from update_world import BOX, CAMERA, World, box_splats, inputs_of, photographed, quick, traced_depth

from skyanchor import ahead, pipeline
from skyanchor.events import SCENE, Event, Note
from skyanchor.gaussians.splats import concat
from skyanchor.gaussians.split import Split
from skyanchor.photos import read_mask, read_pixels
from skyanchor.run.folder import RunFolder
from skyanchor.scene.contradicted import ContradictedConfig, uses
from skyanchor.scene.ground_points import GroundPointConfig, ground_cloud
from skyanchor.scene.update import SceneUpdate, update_scene
from skyanchor.stages.masks import deciding, masked, without_contradicted
from skyanchor.stereo import consistency_kernels
from skyanchor.types import Bools, Bytes, View

TOLERANCE = 0.02
"""Of depths that are exact, as drawn into pixels a fiftieth of it wide."""
SMALL = ContradictedConfig(gap_px=1, border_px=1)
"""For photos 64 pixels wide."""
WAY = {"g1.png": -1.0, "g2.png": 0.0, "g5.png": 0.5, "g9.png": 0.8}
"""Where the box is in the photos that show it, metres from its place along the wall; g2 decides, the others train."""


def left_out(views: Split, config: ContradictedConfig = SMALL) -> dict[str, Bools]:
    """By photo, what is left out, with exact depth of floor and wall alone."""
    maps = [traced_depth(view, False) for view in views.training]
    found = uses(deciding(views), maps, views.training, TOLERANCE, config)
    return {view.name: ~use for view, use in found}


def changed(world: World, folder: Path, change: Callable[[View], View]) -> Split:
    """The street photos, each after a change."""
    views = inputs_of(world).ground_views
    folder.mkdir(exist_ok=True)
    return Split(*(tuple(change(view) for view in part) for part in (views.training, views.validation, views.test)))


def with_box(world: World, folder: Path) -> Split:
    """Photos of the day on which the box is carried past."""

    def boxed(view: View) -> View:
        if view.name not in WAY:
            return view
        box = box_splats()
        there = replace(box, means=(box.means + np.array([WAY[view.name], 0.0, 0.0])).astype(np.float32))
        return photographed(folder, (view,), concat([world.whole, there]), world)[0]

    return changed(world, folder, boxed)


def repainted(folder: Path, view: View, pixels: Bytes) -> View:
    cv2.imwrite(str(folder / view.name), pixels[..., ::-1])
    return replace(view, path=folder / view.name)


@pytest.fixture(scope="module")
def moving(world: World, tmp_path_factory: pytest.TempPathFactory) -> Split:
    return with_box(world, tmp_path_factory.mktemp("moving"))


def differing(world: World, view: View) -> Bools:
    """Where a photo shows another thing than on the clear day, beyond noise."""
    clear = {one.name: one for one in world.ground_views}[view.name]
    off = np.abs(read_pixels(view.path).astype(int) - read_pixels(clear.path)).max(axis=2)
    return np.asarray(cv2.medianBlur((off > 50).astype(np.uint8), 3) > 0)


def test_nothing_is_left_out_where_nothing_moves(world: World) -> None:
    assert left_out(inputs_of(world).ground_views) == {}


def test_a_box_that_moves_on_is_left_out_where_it_was(world: World, moving: Split) -> None:
    found = left_out(moving)
    assert set(found) == set(WAY)
    for view in deciding(moving):
        if view.name in WAY:
            box = differing(world, view)
            assert box.mean() > 0.05 and found[view.name][box].mean() > 0.9, view.name
            beside = cv2.dilate(box.astype(np.uint8), np.ones((9, 9), np.uint8)) == 0
            assert found[view.name][beside].mean() < 0.05, view.name


def test_neighbours_vote_one_photo_after_another(world: World, moving: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    """Photos are worked on side by side; a loop on Numba's threads may not be, where it has no OpenMP and no TBB."""
    vote, busy, most = consistency_kernels.vote, [0], [0]

    def noted(*given: Any) -> Any:
        busy[0] += 1
        most[0] = max(most[0], busy[0])
        time.sleep(0.02)
        found = vote(*given)
        busy[0] -= 1
        return found

    monkeypatch.setattr(consistency_kernels, "vote", noted)
    monkeypatch.setattr(ahead, "threads", lambda: 4)
    assert set(left_out(moving)) == set(WAY) and most == [1]


def test_a_shadow_that_passes_is_left_out_and_another_exposure_is_not(world: World, tmp_path: Path) -> None:
    def shaded(view: View) -> View:
        pixels = read_pixels(view.path).astype(float)
        if view.name == "g5.png":
            pixels[10:40, 20:44] *= 0.4
        elif view.name == "g7.png":
            pixels *= 0.55
        return repainted(tmp_path, view, pixels.astype(np.uint8))

    found = left_out(changed(world, tmp_path, shaded))
    assert set(found) == {"g5.png"}
    assert found["g5.png"][12:38, 22:42].mean() > 0.85
    found["g5.png"][5:45, 15:49] = False
    assert found["g5.png"].mean() < 0.01


def test_what_stands_there_is_kept_though_its_depth_is_not_known(world: World, tmp_path: Path) -> None:
    """A thin post in every photo, at one place; no depth map has it, and neighbours look past it."""
    box = box_splats()
    low, high = BOX
    thin = ((box.means - low) / (high - low) * [0.12, 0.12, 2.2] + [0.2, 0.5, 0.0]).astype(np.float32)
    post = replace(box, means=thin, log_scales=box.log_scales - np.float32(1.0))

    def standing(view: View) -> View:
        return photographed(tmp_path, (view,), concat([world.whole, post]), world)[0]

    views = changed(world, tmp_path, standing)
    assert max(differing(world, view).mean() for view in views.training) > 0.02
    assert left_out(views) == {}


def test_a_photo_of_another_light_stays_whole(world: World, tmp_path: Path) -> None:
    """What is contradicted in most places is wrong by itself: little of it would be left."""

    def negative(view: View) -> View:
        return repainted(tmp_path, view, 255 - read_pixels(view.path)) if view.name == "g5.png" else view

    views = changed(world, tmp_path, negative)
    assert "g5.png" not in left_out(views, replace(SMALL, most_share=0.25))
    assert left_out(views, replace(SMALL, most_share=0.9))["g5.png"].mean() > 0.25


@pytest.mark.parametrize("masks", [False, True])
def test_what_the_user_masked_contradicts_nothing(world: World, tmp_path: Path, masks: bool) -> None:
    """As a bonnet in all photos but one: what it hides of the others' depth is not what their pixels show."""
    mask = np.full((CAMERA.height, CAMERA.width), 255, np.uint8)
    mask[:, : CAMERA.width // 2] = 0
    cv2.imwrite(str(tmp_path / "bonnet.png"), mask)

    def hidden(view: View) -> View:
        if view.name == "g5.png":
            return view
        shown = repainted(tmp_path, view, read_pixels(view.path) * (mask[..., None] > 0))
        return replace(shown, mask_path=tmp_path / "bonnet.png") if masks else shown

    assert ("g5.png" in left_out(changed(world, tmp_path, hidden))) == (not masks)


def test_masks_hold_what_the_user_masked_and_leave_the_test_whole(world: World, moving: Split, tmp_path: Path) -> None:
    users = np.full((CAMERA.height, CAMERA.width), 255, np.uint8)
    users[:, :5] = 0
    cv2.imwrite(str(tmp_path / "users.png"), users)
    views = Split(
        tuple(replace(view, mask_path=tmp_path / "users.png") for view in moving.training),
        moving.validation,
        moving.test,
    )
    maps = [traced_depth(view, False) for view in views.training]
    asked = (*deciding(views), *views.test)
    found, shares = masked(tmp_path / "masks", views, uses(asked, maps, views.training, TOLERANCE, SMALL))
    assert found.test == views.test and {path.name for path in shares} >= {"g1.png", "g2.png"}
    g1 = next(view for view in found.training if view.name == "g1.png")
    assert g1.mask_path is not None and g1.mask_path.parent == tmp_path / "masks"
    use = read_mask(g1.mask_path, CAMERA.width, CAMERA.height)
    assert not use[:, :5].any() and not use[differing(world, g1)].mean() > 0.1 and use.mean() > 0.5
    g2 = next(view for view in found.validation if view.name == "g2.png")
    assert g2.mask_path is not None, "what decides is masked as well"


def test_the_stage_says_in_a_line_how_much_was_left_out(world: World, moving: Split, tmp_path: Path) -> None:
    maps, points = [traced_depth(view, False) for view in moving.training], GroundPointConfig()
    points = replace(points, consistency=replace(points.consistency, tolerance_px=TOLERANCE * 60.0))
    told: list[Event] = []
    with RunFolder(tmp_path / "run", listen=told.append) as run:
        stage = run.stage(SCENE, "what moves", {}, {})
        found, share = without_contradicted(stage, moving, maps, points, SMALL)
        assert without_contradicted(stage, moving, maps, points, None) == (moving, 0.0)
        clear = inputs_of(world).ground_views
        assert without_contradicted(stage, clear, maps, points, SMALL)[1] == 0.0
    (note,) = [event.text for event in told if isinstance(event, Note)]
    assert f"{share:.1%} of the pixels of the street photos, in 4 of 9, are contradicted" in note and share > 0.03
    used = [view for view in deciding(found) if view.mask_path is not None]
    assert {view.name for view in used} == set(WAY) and found.test == moving.test


def updated(world: World, views: Split) -> SceneUpdate:
    """The update by these photos, from points in their colours; its test is of the clear day."""
    inputs = inputs_of(world)
    maps = tuple(traced_depth(view, False) for view in views.training)
    cloud = ground_cloud(maps, views.training, GroundPointConfig(stride=1, least_angle_deg=0.5))
    day = Split(views.training, views.validation, inputs.ground_views.test)
    return update_scene(replace(inputs, ground_views=day, cloud=cloud), quick(), world.engine)


def test_what_moves_is_not_fitted(world: World, moving: Split, tmp_path: Path) -> None:
    """With all pixels the box costs 1.5 dB on photos of the clear day; most of that stays when it is left out."""
    maps = [traced_depth(view, False) for view in moving.training]
    masks = uses(deciding(moving), maps, moving.training, TOLERANCE, SMALL)
    kept, _ = masked(tmp_path, moving, masks)
    clear, whole, without = (updated(world, views) for views in (inputs_of(world).ground_views, moving, kept))
    assert whole.after.ground_psnr < clear.after.ground_psnr - 1.0
    assert without.after.ground_psnr > clear.after.ground_psnr - 0.5
    assert without.after.aerial_psnr > whole.after.aerial_psnr - 0.05


def test_presets() -> None:
    assert pipeline.PAPER.scene.contradicted is None
    assert pipeline.CPU.scene.contradicted == pipeline.GPU.scene.contradicted == ContradictedConfig()
