"""Windows of large photos as a part of a scaffold: files that show the photo, and groups that are found with them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from anchors_street import GROUND, make_scaffold, make_sequence, small_config, street_poses

from skyanchor.anchors.place_index import PlaceTile
from skyanchor.anchors.priors import Near
from skyanchor.bridges.fusion import SurfaceConfig
from skyanchor.errors import RecipeError
from skyanchor.events import SCAFFOLD, silent
from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import inside, lift, pixel_centres
from skyanchor.photos import load_photo, read_mask
from skyanchor.run import prepared as parts
from skyanchor.run import records
from skyanchor.run.executor import InProcess
from skyanchor.run.folder import RunFolder, Stage
from skyanchor.run.layout import OF_A_SCAFFOLD
from skyanchor.run.prepared import Prepared
from skyanchor.scaffold.windows import WindowConfig, photos_of
from skyanchor.stages import anchors as stages
from skyanchor.stages.places import PlaceFiles, place_files
from skyanchor.stages.scaffold import surface_part
from skyanchor.stages.windows import painted_from, windows_part
from skyanchor.stages.work import Site, Work
from skyanchor.stereo import depth_path, save_depth
from skyanchor.storage import files
from skyanchor.types import DepthMap, Scaffold

LARGE = WindowConfig(longest=256, finest_m=0.01)
"""By which the photos of 480 pixels are large."""


@pytest.fixture
def flown(tmp_path: Path) -> tuple[Scaffold, tuple[DepthMap, ...]]:
    """The street's flight with a sparse point for every hundredth pixel, as if it had been read from files."""
    scaffold, maps = make_scaffold(tmp_path / "aerial")
    rows, columns = (axis.ravel() for axis in np.mgrid[5:360:40, 5:480:40])
    points = [
        lift(one.camera, one.cam_from_world, pixel_centres(rows, columns), one.depth[rows, columns])[
            one.depth[rows, columns] > 0
        ]
        for one in maps
    ]
    cloud = np.concatenate(points)
    files.write_bytes(tmp_path / "model/points3D.bin", b"of the flight")
    grey = np.zeros((len(cloud), 3), np.uint8)
    model = tmp_path / "model"
    return replace(scaffold, points=cloud, point_colors=grey, point_ids=np.arange(len(cloud)), model_path=model), maps


def site_of(scaffold: Scaffold, root: Path, redo: bool = False) -> Site:
    return Site(scaffold, Prepared(root), InProcess(), redo=redo)


def given_surface(root: Path, scaffold: Scaffold, maps: tuple[DepthMap, ...]) -> Stage:
    """The parts of a scaffold that anchors stand on, from depth that is given."""
    with RunFolder(root, part_of=SCAFFOLD, layout=OF_A_SCAFFOLD) as folder:
        depth = folder.stage(parts.DEPTH, "given", {}, {})
        for one in maps:
            save_depth(depth_path(depth.folder, one.name), one)
        depth.finish()
        return surface_part(folder, scaffold, depth, SurfaceConfig(), InProcess())


def test_windows_show_the_photo_and_its_mask(flown: tuple[Scaffold, tuple[DepthMap, ...]], tmp_path: Path) -> None:
    scaffold = flown[0]
    black = np.full((360, 480), 255, np.uint8)
    black[200:, :300] = 0
    assert cv2.imwrite(str(tmp_path / "mask.png"), black)
    views = (replace(scaffold.views[0], mask_path=tmp_path / "mask.png"), *scaffold.views[1:])
    site = site_of(replace(scaffold, views=views), tmp_path / "scaffold")
    windows_part(site, LARGE)
    moved = shutil.move(tmp_path / "scaffold", tmp_path / "elsewhere")
    cut = painted_from(site_of(site.scaffold, Path(moved)))
    assert len(cut.views) == 6 * len(views) and photos_of(cut).views == views
    for view, number in zip(cut.views, photos_of(cut).of_view, strict=True):
        whole, camera = load_photo("", views[number].path, views[number].camera, 480, views[number].mask_path)
        shown, _ = load_photo(view.name, view.path, view.camera, 480, view.mask_path)
        left, top = np.round(np.array(camera.params[2:]) - view.camera.params[2:]).astype(int)
        part = np.s_[top : top + view.camera.height, left : left + view.camera.width]
        assert np.abs(shown.pixels.astype(float) - whole.pixels[part]).mean() < 3.0  # of a JPEG
        assert (shown.mask is None) == (number != 0)
        if shown.mask is not None and view.mask_path is not None and whole.mask is not None:
            assert np.array_equal(shown.mask, whole.mask[part])
            assert np.array_equal(read_mask(view.mask_path, *shown.pixels.shape[1::-1]), whole.mask[part])
    assert not (Path(moved) / parts.WINDOWS / "progress").exists()


def test_small_photos_leave_no_part(flown: tuple[Scaffold, tuple[DepthMap, ...]], tmp_path: Path) -> None:
    site = site_of(flown[0], tmp_path / "scaffold")
    windows_part(site, WindowConfig())
    assert painted_from(site) is flown[0] and not (tmp_path / "scaffold" / parts.WINDOWS).exists()


def test_other_windows_take_redo(flown: tuple[Scaffold, tuple[DepthMap, ...]], tmp_path: Path) -> None:
    windows_part(site_of(flown[0], tmp_path / "scaffold"), LARGE)
    windows_part(site_of(flown[0], tmp_path / "scaffold"), LARGE)
    with pytest.raises(RecipeError, match="longest"):
        windows_part(site_of(flown[0], tmp_path / "scaffold"), WindowConfig(longest=300, finest_m=0.01))
    with pytest.raises(RecipeError):
        windows_part(site_of(flown[0], tmp_path / "scaffold"), WindowConfig())
    again = site_of(flown[0], tmp_path / "scaffold", redo=True)
    windows_part(again, WindowConfig())
    assert painted_from(again).views == flown[0].views
    windows_part(replace(again, given=True), LARGE)  # what others prepared is taken as it is
    assert painted_from(again).views == flown[0].views


def test_places_painted_from_whole_photos_are_not_taken_for_those_of_windows(
    flown: tuple[Scaffold, tuple[DepthMap, ...]], tmp_path: Path
) -> None:
    """Their tiles name the views by number, and windows have other numbers."""
    scaffold, maps = flown
    site = site_of(scaffold, tmp_path / "scaffold")
    surface, config = given_surface(site.prepared.root, scaffold, maps), small_config().places

    def described() -> PlaceFiles:
        return place_files(site, surface, GROUND, config, (Near(0.0, 8.0, 9.0),), silent)

    whole = described()
    windows_part(site, LARGE)
    cut = described()
    assert described() == cut and not {*whole.tiles, whole.vocabulary} & {*cut.tiles, cut.vocabulary}
    most = [max(files.load(path, PlaceTile).photos.max() for path in held.tiles) for held in (whole, cut)]
    assert most[0] < len(scaffold.views) <= most[1] < len(painted_from(site).views)


def test_groups_are_found_with_windows(flown: tuple[Scaffold, tuple[DepthMap, ...]], tmp_path: Path) -> None:
    """To a decimetre, as with whole photos, and what is shown of the matches are pixels of whole photos."""
    scaffold, maps = flown
    walk = make_sequence(tmp_path / "ground")
    config = small_config()
    config = replace(config, prior=replace(config.prior, near=(Near(0.0, 8.0, 9.0),)))
    site = site_of(scaffold, tmp_path / "scaffold")
    surface = given_surface(site.prepared.root, scaffold, maps)
    windows_part(site, LARGE)
    with RunFolder(tmp_path / "run") as run:
        work = Work(run, site, walk, InProcess())
        files.save(work.sequence_file, walk)
        anchors = stages.run(work, config, surface).load(records.ANCHORS_FILE, records.AnchorsRecord).anchors
    assert [group.accepted for group in anchors.groups] == [True, True]
    for group in anchors.groups:
        ours = rigid.centres_in_world([anchor.cam_from_world for anchor in group.poses])
        true = rigid.centres_in_world([street_poses()[anchor.frame] for anchor in group.poses])
        assert 0.0 < np.linalg.norm(ours - true, axis=1).max() < 0.12
        held = group.cross_view
        assert held is not None and 4 <= group.figures.aerial_views <= len(scaffold.views)
        assert held.view.max() < len(scaffold.views)
        for k in np.unique(held.view):
            xy = held.aerial_xy[held.view == k]
            assert inside(cameras.undistorted(scaffold.views[k].camera), xy).all()
    far = max(float(group.cross_view.aerial_xy.max()) for group in anchors.groups if group.cross_view)
    assert far > LARGE.longest, "no window is so wide"
