"""Seeds between sparse points, and an aerial model trained from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gaussians_small_scene import engine, floor, photograph
from small_scaffold import scaffold_of

from skyanchor.events import SCAFFOLD, Event, Progress
from skyanchor.gaussians.scoring import Scores
from skyanchor.gaussians.splats import to_tensors
from skyanchor.gaussians.split import split
from skyanchor.gaussians.views import matrix
from skyanchor.photos import PhotoCache, load_photo
from skyanchor.run.executor import InProcess
from skyanchor.run.folder import RunFolder, read_finished
from skyanchor.scaffold import seeding
from skyanchor.scaffold.seeding import SeedConfig
from skyanchor.scaffold.training import (
    CPU,
    PAPER,
    AerialModel,
    first_splats,
    scene_extent,
    train_aerial,
    with_iterations,
)
from skyanchor.stages import splats as stage
from skyanchor.stereo import depth_path, load_depth, save_depth, storage
from skyanchor.types import Cloud, DepthMap, Scaffold, Tracks, View


@pytest.fixture(scope="module")
def scaffold(tmp_path_factory: pytest.TempPathFactory) -> Scaffold:
    truth = floor()
    return scaffold_of(truth, photograph(truth, tmp_path_factory.mktemp("photos"), 16))


def test_extent_is_the_flying_height_not_the_area(scaffold: Scaffold) -> None:
    assert 5.5 < scene_extent(scaffold) < 7.0
    bare = replace(scaffold, tracks=Tracks(np.zeros(0, int), np.zeros(0, int), np.zeros((0, 2))))
    assert scene_extent(bare) == pytest.approx(6.0, abs=0.01)


def test_seeds_lie_on_the_floor_and_cover_it(scaffold: Scaffold) -> None:
    cloud = seeding.interpolated_cloud(scaffold, range(16), SeedConfig(count=1500, per_view=500))
    assert 1000 < len(cloud.points) < 2000
    assert np.abs(cloud.points[:, 2]).max() < 0.25
    assert (np.abs(cloud.points[:, :2]).max(axis=0) > 4.2).all()  # beyond the features too, on the ground plane
    assert np.median(cloud.normals[:, 2]) > 0.9
    distance = np.linalg.norm(cloud.points[:, None, :2] - scaffold.points[None, :, :2], axis=2)
    assert 0.5 < np.median(cloud.spacing) / np.median(np.sort(distance, axis=0)[3]) < 4.0


def test_thinning_keeps_fine_detail_where_it_was_seen_finely() -> None:
    rng = np.random.default_rng(0)
    near, far = rng.uniform(0, 1, (5000, 3)), rng.uniform(10, 60, (5000, 3))
    points = np.concatenate([near, far]).astype(np.float32)
    spacing = np.repeat(np.array([0.05, 2.0], np.float32), 5000)
    cloud = Cloud(points, np.zeros_like(points), np.zeros(points.shape, np.uint8), spacing)
    thin = seeding.thinned(cloud, 2000)
    assert 1800 < len(thin.points) < 2200
    assert 0.1 < (thin.points[:, 0] < 5).mean() < 0.9
    assert (thin.spacing >= 0.05).all()


def test_only_training_views_are_looked_at_before_the_score(
    scaffold: Scaffold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Test and validation photos give neither seeds nor gradients; the test alone is scored."""
    config = with_iterations(CPU, 30)
    config = replace(config, train=replace(config.train, width=64), seeds=SeedConfig(count=400, per_view=200))
    views, seen = split(scaffold.views), []
    look = PhotoCache.photo

    def recorded(cache: PhotoCache, name: str, *rest: object) -> object:
        seen.append(name)
        return look(cache, name, *rest)  # type: ignore[arg-type]

    def read(name: str, *rest: object) -> object:
        seen.append(name)
        return load_photo(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(PhotoCache, "photo", recorded)
    monkeypatch.setattr(seeding, "load_photo", read)
    model = train_aerial(scaffold, engine(), config)
    test = [view.name for view in views.test]
    assert [score.name for score in model.scores.views] == test == ["00.png", "08.png"]
    assert seen[-2:] == test
    assert set(seen[:-2]) == {view.name for view in views.training}


def test_seeds_of_dense_depth_lie_on_the_surface(scaffold: Scaffold) -> None:
    """Depth of the true splats at every view: seeds within a pixel or so of the floor, measured before completed."""
    maps = [exact_depth(view) for view in scaffold.views]
    config = SeedConfig(count=1500, per_view=500)
    cloud = seeding.dense_cloud(maps, split(scaffold.views).training, config)
    assert 1000 < len(cloud.points) < 2000
    assert np.abs(cloud.points[:, 2]).max() < 0.5
    assert np.median(np.abs(cloud.points[:, 2])) < 0.2
    none = seeding.dense_cloud(maps, split(scaffold.views).training[:0], config)
    assert len(none.points) == 0
    filled = [replace(one, completed=one.depth > 0) for one in maps]
    both = seeding.dense_cloud(filled, split(scaffold.views).training, config)
    np.testing.assert_array_equal(both.points, cloud.points)
    weak = [replace(one, confidence=0.1 * one.confidence) for one in maps]
    assert len(seeding.dense_cloud(weak, split(scaffold.views).training, config).points) == 0


def exact_depth(view: View) -> DepthMap:
    truth, camera = floor(), view.camera
    drawn = engine().rasteriser.render(to_tensors(truth), camera, matrix(view.cam_from_world, "cpu"))
    depth = np.where(drawn.alpha.numpy() > 0.9, drawn.depth.numpy(), 0.0).astype(np.float32)
    normal = np.broadcast_to(np.array([0, 0, 1], np.float32), (*depth.shape, 3))
    return DepthMap(view.name, camera, view.cam_from_world, depth, np.ones_like(depth), depth < 0, normal)


def test_the_splats_of_a_scaffold_start_on_its_depth(
    scaffold: Scaffold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part stands on the depth part, and takes the maps of the training photos alone."""
    taken: list[Cloud | None] = []
    read: list[str] = []

    def trained(*_: object, cloud: Cloud | None, **__: object) -> AerialModel:
        taken.append(cloud)
        return AerialModel(floor(), Scores(()), 0.0)

    def loaded(path: Path) -> DepthMap:
        read.append(path.stem)
        return load_depth(path)

    monkeypatch.setattr(stage, "train_aerial", trained)
    monkeypatch.setattr(storage, "load_depth", loaded)
    config = replace(CPU, seeds=SeedConfig(count=1500, per_view=500))
    here = replace(scaffold, root=tmp_path)
    with RunFolder(tmp_path / "scaffold") as folder:
        sparse = stage.train_splats(folder, here, engine(), config, None, InProcess())
    with RunFolder(tmp_path / "scaffold", redo=True) as folder:
        depth = folder.stage("depth", "depth", {}, {})
        for view in scaffold.views:
            save_depth(depth_path(depth.folder, view.name), exact_depth(view))
        depth.finish()
        dense = stage.train_splats(folder, here, engine(), config, read_finished(depth.folder), InProcess())
    assert taken[0] is None and sparse.recipe.upstream == ()
    assert taken[1] is not None and 1000 < len(taken[1].points) < 2000
    assert [one.stage for one in dense.recipe.upstream] == ["depth"]
    assert sorted(read) == [depth_path(Path(), view.name).stem for view in split(scaffold.views).training]


def test_a_dense_cloud_is_where_training_starts(scaffold: Scaffold) -> None:
    cloud = Cloud(
        np.array([[1.0, 2.0, 3.0]], np.float32), np.array([[0, 0, 1]], np.float32),
        np.full((1, 3), 90, np.uint8), np.array([0.1], np.float32),
    )  # fmt: skip
    assert first_splats(scaffold, CPU, cloud).means.tolist() == [[1.0, 2.0, 3.0]]


def test_an_aerial_model_shows_photos_it_has_not_seen(scaffold: Scaffold, tmp_path: Path) -> None:
    config = with_iterations(CPU, 250)
    config = replace(config, train=replace(config.train, width=64), seeds=SeedConfig(count=1200, per_view=500))
    events: list[Event] = []
    model = train_aerial(scaffold, engine(), config, listen=events.append, checkpoint=tmp_path / "training.npz")
    assert 22 < model.scores.psnr < 45
    assert {event.stage for event in events} == {SCAFFOLD}
    assert sum(isinstance(event, Progress) for event in events) == 5
    again = train_aerial(scaffold, engine(), config, checkpoint=tmp_path / "training.npz")
    assert again.splats.means.tobytes() == model.splats.means.tobytes()


def test_models_without_tracks_start_at_their_points(scaffold: Scaffold) -> None:
    bare = replace(scaffold, tracks=Tracks(np.zeros(0, int), np.zeros(0, int), np.zeros((0, 2))))
    assert len(first_splats(bare, CPU)) == 300


def test_the_paper_starts_at_the_points_whatever_depth_there_is(scaffold: Scaffold) -> None:
    ones = np.ones(5, np.float32)
    cloud = Cloud(np.zeros((5, 3), np.float32), np.tile(ones[:3], (5, 1)), np.zeros((5, 3), np.uint8), ones)
    started = first_splats(scaffold, PAPER, cloud)
    assert np.allclose(started.means, scaffold.points, atol=1e-5) and len(first_splats(scaffold, CPU, cloud)) == 5
