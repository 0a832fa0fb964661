"""A floor trained in four blocks: every Gaussian in one of them, and no seam where they meet."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from box_world import HIGH, UP, depth_map, eyes
from gaussians_small_scene import engine, floor, photograph
from small_scaffold import scaffold_of

from skyanchor.events import Listener, silent
from skyanchor.gaussians.devices import Engine
from skyanchor.gaussians.ply import read_ply, write_ply
from skyanchor.gaussians.scoring import Scores, rendered_rgb, score
from skyanchor.gaussians.splats import Splats, concat, select, to_tensors
from skyanchor.gaussians.split import split
from skyanchor.gaussians.views import TrainingView, load_target, matrix
from skyanchor.geometry import cameras
from skyanchor.geometry.depth import lift, pixel_centres
from skyanchor.photos import PhotoCache
from skyanchor.run.executor import Executor, InProcess
from skyanchor.run.folder import RunFolder, read_finished
from skyanchor.run.job import Job
from skyanchor.run.pool import Done
from skyanchor.scaffold.blocks import Block, BlockConfig, blocks_of, extent_of, shown
from skyanchor.scaffold.seeding import SeedConfig
from skyanchor.scaffold.training import CPU, AerialConfig, with_iterations
from skyanchor.stages import blocks
from skyanchor.stages import splats as stage
from skyanchor.stereo import depth_path, save_depth
from skyanchor.storage import codec
from skyanchor.storage.codec import Json
from skyanchor.types import Camera, DepthMap, Scaffold, View

SEAM_M = 0.5
"""Half the width of the band round the seams, metres."""


def test_every_point_is_in_one_block_and_its_neighbours_share_the_margin() -> None:
    points = np.random.default_rng(0).uniform((-60, -20, 0), (60, 20, 9), (5000, 3))
    found = blocks_of(points, UP, BlockConfig(side_m=40.0))
    assert len(found) == 3
    assert (sum(block.holds(points).astype(int) for block in found) == 1).all()
    assert [int(block.holds(np.array([[500.0, 900.0, 0.0]]))[0]) for block in found].count(1) == 1, "nothing is outside"
    twice = sum(block.holds(points, 5.0).astype(int) for block in found) == 2
    seams = np.array([block.high[0] for block in found[:-1]])
    assert np.array_equal(twice, (np.abs(points[:, :1] - seams) < 5.0).any(axis=1))
    again = codec.from_json(Block, codec.to_json(found[0]))
    assert np.array_equal(again.holds(points), found[0].holds(points))
    assert len(blocks_of(points, UP, BlockConfig())) == 1


@pytest.mark.parametrize("distortion", [0.0, -0.08])
def test_pixels_show_a_block_where_the_world_says_so(distortion: float) -> None:
    """The box from its middle on, without the margin; photos with distortion have their own pixels."""
    plain = cameras.pinhole(96, 72, 80.0)
    photo = Camera("SIMPLE_RADIAL", 96, 72, (80.0, 48.0, 36.0, distortion))
    right = Block(np.eye(3)[:2], np.array([0.0, -np.inf]), np.array([np.inf, np.inf]))
    one = depth_map("a", plain, eyes(5)[1])
    mask = shown(right, one, photo, 0.0)
    rows, columns = np.nonzero(mask)
    rays = cameras.unproject(photo, pixel_centres(rows, columns))
    xy = cameras.project(plain, rays)
    row, column = np.floor(xy[:, 1]).astype(int), np.floor(xy[:, 0]).astype(int)
    x = lift(plain, one.cam_from_world, xy, one.depth[row, column].astype(float))[:, 0]
    assert (x >= 0).all() and 0.2 < mask.mean() < 0.8
    wider = shown(right, one, photo, float(HIGH[0]))
    assert mask.sum() < wider.sum() and not (mask & ~wider).any()


@pytest.fixture(scope="module")
def scaffold(tmp_path_factory: pytest.TempPathFactory) -> Scaffold:
    truth = floor()
    return scaffold_of(truth, photograph(truth, tmp_path_factory.mktemp("photos"), 24))


def exact_depth(view: View) -> DepthMap:
    drawn = engine().rasteriser.render(to_tensors(floor()), view.camera, matrix(view.cam_from_world, "cpu"))
    depth = np.where(drawn.alpha.numpy() > 0.3, drawn.depth.numpy(), 0.0).astype(np.float32)
    normal = np.broadcast_to(np.array([0, 0, 1], np.float32), (*depth.shape, 3))
    return DepthMap(view.name, view.camera, view.cam_from_world, depth, np.ones_like(depth), depth < 0, normal)


@dataclass
class Breaking:
    """An executor that is interrupted when it is asked for more than so many jobs."""

    most: int = 5
    ran: list[str] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    """Per job that settles a block, how many files of others it is given."""

    def run(self, jobs: Sequence[Job], listen: Listener = silent, done: Done | None = None) -> list[Json]:
        self.read += [len(job.arguments["others"]) for job in jobs if "others" in job.arguments]
        self.ran += [job.function.partition(":")[2] for job in jobs]
        if len(self.ran) > self.most:
            raise KeyboardInterrupt
        return InProcess().run(jobs, listen, done)

    def held(self, modules: tuple[str, ...] = ()) -> AbstractContextManager[None]:
        return nullcontext()

    def ahead(self, jobs: Sequence[Job]) -> None:
        """Nobody waits."""


def trained(scaffold: Scaffold, root: Path, config: AerialConfig, executor: Executor | None = None) -> Splats:
    """The part of a prepared scaffold."""
    with RunFolder(root) as folder:
        depth = folder.stage("depth", "depth", {}, {})
        if not depth.done:
            for view in scaffold.views:
                save_depth(depth_path(depth.folder, view.name), exact_depth(view))
            depth.finish()
        here, held = replace(scaffold, root=root), read_finished(depth.folder)
        made = stage.train_splats(folder, here, engine(), config, held, executor or InProcess())
        return read_ply(made.path("splats.ply"))


def small(side_m: float, margin_m: float, iterations: int) -> AerialConfig:
    config = with_iterations(CPU, iterations)
    config = replace(config, train=replace(config.train, width=64), seeds=SeedConfig(count=300, per_view=200))
    return replace(config, blocks=BlockConfig(side_m, margin_m))


def psnr_by_place(splats: Splats, scaffold: Scaffold) -> tuple[float, float]:
    """(in the bands where the blocks meet, elsewhere), of the test views, dB."""
    seam, rest = [], []
    for view in split(scaffold.views).test:
        target = load_target(PhotoCache(), TrainingView(view), view.camera.width)
        off = rendered_rgb(to_tensors(splats), target, engine()).numpy() - target.pixels / 255.0
        depth = exact_depth(view).depth
        rows, columns = np.nonzero(depth > 0)
        z = depth[rows, columns].astype(float)
        places = lift(view.camera, view.cam_from_world, pixel_centres(rows, columns), z)
        near = (np.abs(places[:, :2]) < SEAM_M).any(axis=1)
        squared = (off[rows, columns] ** 2).mean(axis=1)
        seam.append(squared[near])
        rest.append(squared[~near])
    return tuple(float(-10.0 * np.log10(np.concatenate(part).mean())) for part in (seam, rest))  # type: ignore[return-value]


def test_blocks_are_jobs_that_are_kept_as_they_end(scaffold: Scaffold, tmp_path: Path) -> None:
    """Broken off in the second turn, the same call goes on; the result is that of one that was not."""
    config = small(4.0, 1.5, 16)
    through = trained(scaffold, tmp_path / "through", config)
    breaking = Breaking()
    with pytest.raises(KeyboardInterrupt):
        trained(scaffold, tmp_path / "broken", config, breaking)
    assert breaking.ran == [*["train_block_job"] * 4, "settle_block_job", "settle_block_job"]
    onward = Breaking(most=9)
    again = trained(scaffold, tmp_path / "broken", config, onward)
    assert onward.ran == ["settle_block_job"] * 3
    assert again.means.tobytes() == through.means.tobytes() and len(through) > 200


def test_a_block_settles_beside_those_that_reach_it_as_beside_all(
    scaffold: Scaffold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three blocks in a row: the outer ones are given the middle one alone. The file and its scores are the same."""
    config, near, all_of_them = small(2.7, 0.3, 4), Breaking(most=99), Breaking(most=99)
    monkeypatch.setattr(blocks, "blocks_of", lambda *given: blocks_of(*given)[:3])
    trained(scaffold, tmp_path / "near", config, near)
    monkeypatch.setattr(blocks.Block, "near", lambda *_: True)
    monkeypatch.setattr(stage, "join_plys", written_at_once)
    monkeypatch.setattr(stage, "score_of_blocks", scored_at_once)
    trained(scaffold, tmp_path / "all", config, all_of_them)
    assert sorted(near.read) == [1, 1, 2] and all_of_them.read == [2, 2, 2]
    for name in ("splats.ply", "scores.json"):
        assert (tmp_path / "near/splats" / name).read_bytes() == (tmp_path / "all/splats" / name).read_bytes()


def written_at_once(path: Path, parts: Sequence[Path]) -> int:
    whole = concat([read_ply(part) for part in parts])
    write_ply(path, whole)
    return len(whole)


def scored_at_once(parts: Sequence[Path], views: Sequence[View], with_engine: Engine, width: int) -> Scores:
    return score(concat([read_ply(part) for part in parts]), views, with_engine, width)


def test_gaussians_that_left_their_block_still_stand_beside_others() -> None:
    block = Block(np.eye(3)[:2], np.array([0.0, -np.inf]), np.array([4.0, np.inf]))
    points = np.array([[9.0, 0.0, 5.0], [5.5, 3.0, 5.0]])
    extent = extent_of(points, block.across)
    assert block.near(extent, 2.0) and not block.near(extent, 1.5)
    assert not block.near(extent_of(points[:0], block.across), 1e9), "no points are near nothing"


def test_a_view_is_scored_by_the_blocks_that_it_may_show(
    scaffold: Scaffold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks far behind are not read for it, however many there are."""
    here, away = floor(), replace(floor(), means=floor().means + np.array([500.0, 0.0, 0.0], np.float32))
    names = [tmp_path / f"{k}.ply" for k in range(7)]
    for name, part in zip(names, [here, *[away] * 5, select(here, slice(0, 0))], strict=True):
        write_ply(name, part)
    read: list[Path] = []
    monkeypatch.setattr(blocks, "read_ply", lambda path: read.append(path) or read_ply(path))
    found = blocks.score_of_blocks(tuple(names), scaffold.views[:2], engine(), 64)
    assert found == score(here, scaffold.views[:2], engine(), 64)
    assert read == [*names, names[0], names[0]], "once for where they lie, then by view"


@pytest.mark.slow
def test_four_blocks_are_as_good_as_the_whole_and_no_worse_where_they_meet(scaffold: Scaffold, tmp_path: Path) -> None:
    config = with_iterations(CPU, 240)
    config = replace(config, train=replace(config.train, width=64), seeds=SeedConfig(count=600, per_view=400))
    whole = trained(scaffold, tmp_path / "whole", config)
    parts = trained(scaffold, tmp_path / "blocks", replace(config, blocks=BlockConfig(side_m=4.0, margin_m=1.5)))
    assert 0.5 < len(parts) / len(whole) < 2.0
    one, four = psnr_by_place(whole, scaffold), psnr_by_place(parts, scaffold)
    assert four[1] > one[1] - 0.3 and four[0] > one[0] - 0.5, (one, four)
    assert four[0] > four[1] - 0.2, (one, four)
