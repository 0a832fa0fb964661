"""Seeds between sparse points, and an aerial model trained from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gaussians_small_scene import engine, floor, photograph
from small_scaffold import scaffold_of

from skyanchor.events import Event, Progress, StageFinished
from skyanchor.scaffold import seeding
from skyanchor.scaffold.seeding import SeedConfig
from skyanchor.scaffold.training import CPU, scene_extent, split, train_aerial, with_iterations
from skyanchor.types import Cloud, Scaffold, Tracks


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


def test_held_out_views_are_never_trained_on(scaffold: Scaffold) -> None:
    training, held_out = split(scaffold.views)
    assert [view.name for view in held_out] == ["00.png", "08.png"]
    assert not {view.name for view in training} & {view.name for view in held_out}
    assert len(training) == 14


def test_an_aerial_model_shows_photos_it_has_not_seen(scaffold: Scaffold, tmp_path: Path) -> None:
    config = with_iterations(CPU, 250)
    config = replace(config, train=replace(config.train, width=64), seeds=SeedConfig(count=1200, per_view=500))
    events: list[Event] = []
    model = train_aerial(scaffold, engine(), config, listen=events.append, checkpoint=tmp_path / "training.npz")
    assert 22 < model.scores.psnr < 45
    assert isinstance(events[-1], StageFinished)
    assert sum(isinstance(event, Progress) for event in events) == 5
    again = train_aerial(scaffold, engine(), config, checkpoint=tmp_path / "training.npz")
    assert again.splats.means.tobytes() == model.splats.means.tobytes()


def test_models_without_tracks_start_at_their_points(scaffold: Scaffold) -> None:
    from skyanchor.scaffold.training import first_splats

    bare = replace(scaffold, tracks=Tracks(np.zeros(0, int), np.zeros(0, int), np.zeros((0, 2))))
    assert len(first_splats(bare, CPU)) == 300
