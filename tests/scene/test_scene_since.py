"""What vanished since an earlier walk is hidden, what appeared stays, and photos of the day before have no say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from update_world import BOX, CAMERA, World, box_splats, inputs_of, photographed, quick, traced_depth

from skyanchor.changes import ChangeConfig, Region
from skyanchor.events import SCENE, Event, Note
from skyanchor.gaussians.parameters import QUICK
from skyanchor.gaussians.ply import read_bytes, write_ply
from skyanchor.gaussians.splats import Splats, concat, owned
from skyanchor.gaussians.split import split
from skyanchor.gaussians.views import TrainingView, load_target
from skyanchor.geometry import cameras, rigid
from skyanchor.photos import PhotoCache, read_mask, read_pixels
from skyanchor.run.folder import RunFolder
from skyanchor.scene import patch as patches
from skyanchor.scene.config import UpdateConfig
from skyanchor.scene.earlier import EarlierViews
from skyanchor.scene.inputs import UpdateInputs
from skyanchor.scene.masks import in_photo
from skyanchor.scene.rendered import guard_pictures
from skyanchor.scene.seeds import ground_seeds
from skyanchor.scene.since import Since, nowhere, otherwise, showing, since_flight, since_walk
from skyanchor.scene.update import update_scene
from skyanchor.stages.masks import masked_inputs
from skyanchor.stages.vanished import hidden_places, vanished_rows, write_vanished
from skyanchor.types import Camera, Cloud, Georeference

CONFIG = ChangeConfig(margin_px=4.0, aerial_margin_px=2.0)
"""Pixels are coarse, and depth is exact."""


@dataclass(frozen=True, eq=False)
class Days:
    """The street on a day with the box in it and on one without."""

    bare: Splats
    boxed: Splats
    """The same rows, then those of the box."""
    with_box: EarlierViews
    without_box: EarlierViews


@pytest.fixture(scope="module")
def days(world: World, tmp_path_factory: pytest.TempPathFactory) -> Days:
    bare = concat([world.aerial, owned(_wall(world), 1)])
    boxed = concat([bare, owned(box_splats(), 1)])
    photos = photographed(tmp_path_factory.mktemp("boxed"), world.ground_views, boxed, world)
    return Days(bare, boxed, EarlierViews("june", split(photos, 4)), EarlierViews("june", split(world.ground_views, 4)))


def _wall(world: World) -> Splats:
    rows = slice(len(world.aerial), None)
    return Splats(*(getattr(world.whole, name)[rows] for name in Splats.__dataclass_fields__))


def since_june(walk: EarlierViews, was: bool, is_now: bool) -> Since:
    """Of two walks from the same places, with the box or without."""
    then, now = ([traced_depth(view, boxed) for view in walk.views.training] for boxed in (was, is_now))
    return since_walk(then, now, (), (), CONFIG)


def second_walk(world: World, scene: Splats, june: EarlierViews, july: EarlierViews, boxed: bool) -> UpdateInputs:
    maps = tuple(traced_depth(view, boxed) for view in july.views.training)
    return replace(
        inputs_of(world), aerial=scene, earlier=(june,), ground_views=july.views, depth=maps, owner=2
    )  # fmt: skip


def masked(folder: Path, inputs: UpdateInputs, *since: Since) -> tuple[UpdateInputs, list[str]]:
    """The inputs after the days' masks were made, and what was told."""
    told: list[Event] = []
    with RunFolder(folder, listen=told.append) as run:
        found = masked_inputs(run.stage(SCENE, "masks", {}, {}), inputs, since)
    return found, [event.text for event in told if isinstance(event, Note)]


def same_as(walk: EarlierViews | None) -> Since:
    """Nothing is another way since then."""
    views = () if walk is None else walk.views.training
    return Since(nowhere(CONFIG), nowhere(CONFIG), tuple(traced_depth(view, False) for view in views))


def short(**changes: object) -> UpdateConfig:
    config = quick(joint=None, most_aerial_loss_db=np.inf, guard_pictures=4, finer_views=0, **changes)
    return replace(config, insertion=replace(config.insertion, iterations=20))


def test_a_box_of_the_earlier_walk_is_hidden_and_the_patch_brings_it_back(
    world: World, days: Days, tmp_path: Path
) -> None:
    since = since_june(days.with_box, True, False)
    places = CONFIG.voxel_m * (since.gone.cells + 0.5)
    assert len(places) > 100 and not len(since.come)
    assert np.all((places > BOX[0] - 0.15) & (places < BOX[1] + 0.15))
    inputs = second_walk(world, days.boxed, days.with_box, days.without_box, False)
    inputs, told = masked(tmp_path / "run", inputs, same_as(None), since)
    assert len(told) == 1 and "photos of earlier days show what is another way" in told[0]
    result = update_scene(inputs, short(), world.engine)
    of_box = np.arange(len(days.boxed)) >= len(days.bare)
    told_apart = of_box & (days.boxed.means[:, 2] > 0.25)  # what is lower lies too near to the road
    assert result.change.hidden[told_apart].mean() > 0.95
    assert result.change.hidden[~of_box].mean() < 0.02
    assert result.after.ground_psnr > result.before.ground_psnr + 2.0
    write_ply(tmp_path / "before.ply", days.boxed)
    base = read_bytes(tmp_path / "before.ply")
    patch, data = patches.made_patch(base, "july", result.change, "{}")
    (tmp_path / "after.ply").write_bytes(data)
    assert patches.summary(patch).hidden == result.change.hidden.sum()
    patches.remove_patch(read_bytes(tmp_path / "after.ply"), patch, tmp_path / "back.ply")
    assert (tmp_path / "back.ply").read_bytes() == (tmp_path / "before.ply").read_bytes()


def test_what_was_hidden_is_told_place_by_place(world: World, days: Days, tmp_path: Path) -> None:
    inputs = second_walk(world, days.boxed, days.with_box, days.without_box, False)
    inputs = replace(inputs, vanished=since_june(days.with_box, True, False).gone)
    hidden = np.arange(len(days.boxed)) >= len(days.bare)
    assert hidden_places(inputs, ~hidden & (days.boxed.means[:, 1] > 3.5), CONFIG) == ()
    (place,) = hidden_places(inputs, hidden, CONFIG)
    (row,) = vanished_rows((place,), Georeference(np.array([100.0, 0.0, 0.0])))
    middle = (BOX[0] + BOX[1]) / 2.0 + [100.0, 0.0, 0.0]
    assert np.abs(np.array(row.centre) - middle).max() < 0.2 and np.abs(row.size - (BOX[1] - BOX[0])).max() < 0.3
    assert row.number == 1 and 1000 < row.hidden <= hidden.sum() and row.place is None
    with RunFolder(tmp_path) as run:
        stage = run.stage(SCENE, "pictures", {}, {})
        write_vanished(stage, (place,), world.ground_views, days.boxed, days.bare, 64, world.engine)
        before, after = (read_pixels(stage.path(f"vanished/{day}/1.jpg")).astype(int) for day in ("before", "after"))
    green = [(picture[..., 1] - picture[..., 0] > 60).mean() for picture in (before, after)]
    assert before.shape == after.shape and green[0] > 0.02 > 0.001 > green[1], "the box alone is green"


def cloud_of(splats: Splats) -> Cloud:
    """Points where the Gaussians are, of about their colour."""
    normals, colour = np.array([0, -1, 0], np.float32), np.array([130, 120, 50], np.uint8)
    count = (len(splats), 1)
    return Cloud(splats.means, np.tile(normals, count), np.tile(colour, count), np.full(count[0], 0.1, np.float32))


def test_what_is_hidden_holds_no_place(world: World, days: Days, tmp_path: Path) -> None:
    """Points of the walk where hidden Gaussians lie are seeded; where they are still drawn they are not."""
    since = since_june(days.with_box, True, False)
    inputs = second_walk(world, days.boxed, days.with_box, days.without_box, False)
    inputs = replace(inputs, cloud=cloud_of(box_splats()))
    found, _ = masked(tmp_path, inputs, same_as(None), since)
    config = replace(short(), insertion=replace(short().insertion, iterations=1), guard_pictures=0)
    drawn, hidden = (len(update_scene(one, config, world.engine).change.ground) for one in (inputs, found))
    assert drawn < 100 and hidden > 1000


def test_photos_that_show_the_box_would_veto_it(world: World, days: Days) -> None:
    """What the masks are for: whole, the photos of June keep the box in the scene."""
    since = since_june(days.with_box, True, False)
    inputs = second_walk(world, days.boxed, days.with_box, days.without_box, False)
    whole = update_scene(replace(inputs, vanished=since.gone), short(), world.engine)
    assert whole.change.hidden[len(days.bare) :].mean() < 0.5


def test_nothing_is_hidden_or_masked_where_nothing_vanished(world: World, days: Days, tmp_path: Path) -> None:
    since = since_june(days.with_box, True, True)
    assert not len(otherwise(since))
    inputs = second_walk(world, days.boxed, days.with_box, days.with_box, True)
    found, told = masked(tmp_path, inputs, same_as(None), since)
    assert told == [] and all(
        view.mask_path is None for view in (*found.earlier[0].views.training, *found.aerial_views.training)
    )
    result, plain = (update_scene(one, short(), world.engine).change.hidden for one in (found, inputs))
    assert np.array_equal(result, plain) and result[len(days.bare) :].mean() < 0.02, "floaters alone"


def test_masks_cover_the_box_and_little_more(world: World, days: Days, tmp_path: Path) -> None:
    since = since_june(days.with_box, True, False)
    inputs = second_walk(world, days.boxed, days.with_box, days.without_box, False)
    found, _ = masked(tmp_path, inputs, same_as(None), since)
    was, views = days.with_box.views, found.earlier[0].views
    covered = []
    for view in (*views.training, *views.validation):
        box = traced_depth(view, True).depth < traced_depth(view, False).depth - 0.5
        if box.sum() < 50:
            continue
        assert view.mask_path is not None
        use = read_mask(view.mask_path, view.camera.width, view.camera.height)
        covered.append((~use[box]).mean())
        assert (~use).sum() < 2.5 * box.sum(), "a cell or two around it"
    assert len(covered) >= 6 and np.mean(covered) > 0.85
    assert views.test == was.test, "test views are scored whole"
    assert all(view.mask_path is None for view in found.aerial_views.training), "the flight never had the box"


def test_what_appeared_is_not_taken_away_by_older_photos(world: World, days: Days, tmp_path: Path) -> None:
    """The box is there in July alone: it is seeded, and photos that look through it do not count where it is."""
    since = since_june(days.with_box, False, True)
    assert len(since.come) > 100 and not len(since.gone)
    inputs = second_walk(world, days.bare, days.without_box, days.with_box, True)
    box = box_splats()
    inputs = replace(inputs, cloud=cloud_of(box))
    above = tuple(traced_depth(view, False) for view in inputs.aerial_views.training)
    config = replace(short(), finer_views=0)
    alone, kept = (
        len(ground_seeds(replace(inputs, aerial_depth=above, appeared=come), np.eye(3, 4), above, config))
        for come in (None, since.come)
    )
    high = (box.means[:, 2] > 0.5).sum()  # what is lower the flight would let in anyway
    assert alone <= len(box) - high and kept - alone > 0.7 * high
    found, _ = masked(tmp_path, inputs, same_as(None), since)
    rash = replace(config.insertion, iterations=40, rates=(QUICK, None))
    config = replace(config, earlier_weight=16.0, insertion=rash)
    whole, cut = (update_scene(one, config, world.engine) for one in (replace(inputs, appeared=since.come), found))
    assert cut.after.ground_psnr > whole.after.ground_psnr + 0.3


def test_the_flight_is_masked_where_an_earlier_walk_bears_out_what_is_gone(
    world: World, days: Days, tmp_path: Path
) -> None:
    """What its depth alone says is doubted, and its photos stay whole: it may be that depth which is wrong."""
    inputs = second_walk(world, days.boxed, days.with_box, days.without_box, False)
    above = [traced_depth(view, True) for view in inputs.aerial_views.training]
    flight = since_flight(above, inputs.depth, CONFIG)
    assert len(flight.gone) > 80 and not len(flight.come)
    show = [(one.depth < traced_depth(one_view, False).depth - 0.5).sum() > 20
            for one_view, one in zip(inputs.aerial_views.training, above, strict=True)]  # fmt: skip
    sure, _ = masked(tmp_path / "sure", inputs, flight, since_june(days.with_box, True, False))
    assert sum(show) >= 3 and sure.vanished is not None
    assert [view.mask_path is not None for view in sure.aerial_views.training] == show
    bare = second_walk(world, days.boxed, days.without_box, days.without_box, False)
    unborne, _ = masked(tmp_path / "unborne", bare, flight, same_as(days.without_box))
    assert unborne.vanished is not None and not len(unborne.vanished) and unborne.doubted is flight.gone
    assert all(view.mask_path is None for view in unborne.aerial_views.training)
    doubted, _ = masked(tmp_path / "doubted", replace(inputs, earlier=()), flight)
    assert doubted.vanished is None and doubted.doubted is flight.gone
    assert all(view.mask_path is None for view in doubted.aerial_views.training)
    assert hidden_places(doubted, np.ones(len(days.boxed), np.bool_), CONFIG) == ()


def test_pictures_of_the_old_scene_do_not_bring_it_back(world: World, days: Days) -> None:
    """Guard pictures are drawn with the box in it: their pixels of it do not count."""
    gone = since_june(days.with_box, True, False).gone
    for one in guard_pictures(days.boxed, world.ground_views[4:8], 3, 64, world.engine, otherwise=gone):
        target = load_target(PhotoCache(), one, 64)
        box = traced_depth(one.view, True).depth < traced_depth(one.view, False).depth - 0.5
        assert target.use is not None and target.use[box].mean() < 0.2 and target.use.mean() > 0.4
    half = load_target(PhotoCache(), TrainingView(one.view, pixels=one.pixels, use=one.use), 32)
    assert half.use is not None and half.use.shape == (24, 32)


def test_what_stands_before_a_place_hides_it() -> None:
    region = Region(np.array([[0, 0, 50]]), 0.1)
    pose = rigid.identity()
    for depth, shown in ((4.0, False), (4.9, True), (9.0, True), (0.0, True)):
        found = showing(region, CAMERA, pose, np.full((48, 64), depth, np.float32))
        assert found.any() == shown and found.sum() in (0, 16, 25)
    behind = Region(np.array([[0, 0, -50]]), 0.1)
    assert not showing(behind, CAMERA, pose, np.zeros((48, 64), np.float32)).any()


def test_a_mask_follows_the_lens() -> None:
    """Pixels of a bent photo are the ones that come to lie under the mask when it is undistorted."""
    bent = Camera("SIMPLE_RADIAL", 64, 48, (60.0, 32.0, 24.0, -0.15))
    pinhole = cameras.undistorted(bent)
    mask = np.ones((48, 64), np.bool_)
    mask[5:20, 40:60] = False
    use = in_photo(mask, pinhole, bent)
    back = cameras.undistort(np.repeat(use[..., None] * np.uint8(255), 3, axis=2), bent)[..., 0] > 127
    assert (back == mask).mean() > 0.97 and (use != mask).sum() > 10
    assert in_photo(mask, pinhole, pinhole) is mask
