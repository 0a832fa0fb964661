"""Aerial Gaussians of a large area: a job for each block, then a job for each to settle beside its neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Ordered
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import cv2
import numpy as np

from skyanchor.events import Listener
from skyanchor.gaussians.ply import read_ply, write_ply
from skyanchor.gaussians.splats import Splats, concat, select
from skyanchor.gaussians.split import split
from skyanchor.geometry import cameras
from skyanchor.photos import read_mask
from skyanchor.run.executor import Executor, one_by_one
from skyanchor.run.folder import Finished, Stage
from skyanchor.run.job import Job
from skyanchor.run.layout import PROGRESS
from skyanchor.scaffold.blocks import LEAST_SHARE, Block, Extent, blocks_of, extent_of, part_of, shown
from skyanchor.scaffold.seeding import dense_cloud
from skyanchor.scaffold.training import AerialConfig, fit_aerial, settled_aerial, share_of
from skyanchor.scene.reach import drawn_radii, may_show, touching
from skyanchor.stages.job_files import SCAFFOLD_FILE, load_scaffold_file
from skyanchor.stereo import depth_path, load_depth
from skyanchor.storage import codec, files
from skyanchor.storage.codec import Json
from skyanchor.types import Bools, Floats, Floats32, Scaffold, View

if TYPE_CHECKING:
    from skyanchor.gaussians.devices import Engine
    from skyanchor.gaussians.scoring import Scores, ViewScore

ROUNDING = 1.0 + 1e-5
"""So much larger is a ball than what it holds, for the rounding of its radius."""


def splats_of_blocks(
    stage: Stage, scaffold: Scaffold, engine: Engine, config: AerialConfig, depth: Finished, executor: Executor
) -> tuple[Path, ...]:
    """Files of the Gaussians of all blocks, each kept as soon as it is there.

    Blocks are trained apart, with a margin that is then cut off. So that nothing shows where they meet, each is trained
    a little more while what its neighbours have there stands still: no two neighbours at a time, in four turns.
    """
    stage.save(f"{PROGRESS}/{SCAFFOLD_FILE}", scaffold)
    blocks = blocks_of(scaffold.points, scaffold.up, config.blocks)
    shared: dict[str, object] = {"scaffold": stage.path(f"{PROGRESS}/{SCAFFOLD_FILE}"), "depth": depth.folder}
    shared |= {"config": config, "device": engine.device}
    runner = executor if engine.device == "cpu" else one_by_one(executor)
    first = {
        f"{PROGRESS}/blocks/{k}.ply": replace(Job.of(train_block_job, block=block, **shared), alone=True)
        for k, block in enumerate(blocks)
    }
    across = blocks[0].across
    latest = {k: _kept(path, across) for k, path in enumerate(stage.produce("blocks trained", first, runner))}
    for turn in range(4):
        work = {}
        for k, block in enumerate(blocks):
            if block.turn == turn:
                others = _beside(k, block, latest, _reach(config))
                call = Job.of(settle_block_job, block=block, own=latest[k].path, others=others, **shared)
                work[f"{PROGRESS}/blocks/settled-{k}.ply"] = replace(call, alone=True)
        settled = stage.produce(f"blocks settled, turn {turn + 1} of 4", work, runner)
        turned = (k for k, block in enumerate(blocks) if block.turn == turn)
        latest |= {k: _kept(path, across) for k, path in zip(turned, settled, strict=True)}
    return tuple(kept.path for kept in latest.values())


@dataclass(frozen=True, eq=False)
class _Kept:
    """The Gaussians of a block so far; some may have moved out of it."""

    path: Path
    extent: Extent


def _kept(path: Path, across: Floats) -> _Kept:
    return _Kept(path, extent_of(read_ply(path).means.astype(np.float64), across))


def _beside(k: int, block: Block, latest: dict[int, _Kept], reach: float) -> list[Path]:
    """Files of other blocks than `k` that may have a Gaussian within `reach` of it."""
    return [kept.path for j, kept in latest.items() if j != k and block.near(kept.extent, reach)]


def _reach(config: AerialConfig) -> float:
    """How far beside a block others stand still while it settles: its margin, and what reaches into it, metres."""
    return 2.0 * config.blocks.margin_m


def score_of_blocks(parts: tuple[Path, ...], views: Ordered[View], engine: Engine, width: int) -> Scores:
    """As `score` of the Gaussians of all files together; in memory are those that one view may show."""
    from skyanchor.gaussians.scoring import Scores, score

    balls = [_ball(path) for path in parts]
    centres, radii = np.stack([ball[0] for ball in balls]), np.array([ball[1] for ball in balls], np.float32)
    found: list[ViewScore] = []
    for view in views:
        shown = [read_ply(parts[k]) for k in np.flatnonzero(touching(centres, radii, (view,)))]
        seen = concat([select(one, may_show(one, (view,))) for one in shown])
        found += score(seen, (view,), engine, width).views
    return Scores(tuple(found))


def _ball(path: Path) -> tuple[Floats32, float]:
    """(middle (3,), radius) of a ball around all that the Gaussians of a file are drawn on, metres."""
    splats = read_ply(path)
    if not len(splats):
        return np.zeros(3, np.float32), -np.inf
    middle = splats.means.mean(axis=0)
    away = np.linalg.norm(splats.means.astype(np.float64) - middle, axis=1) + drawn_radii(splats)
    return middle, float(away.max()) * ROUNDING


# --- jobs ---------------------------------------------------------------------------------------------------------


def train_block_job(
    out: str, scaffold: str, depth: str, block: Json, config: Json, device: str, listen: Listener
) -> None:
    """Write the Gaussians of one block, trained on the pixels that show it and its margin."""
    with _ground_of(out, scaffold, depth, block, config) as ground:
        area, settings = ground.block, ground.config
        maps = (load_depth(depth_path(Path(depth), view.name)) for view in ground.views)
        seeds = replace(settings.seeds, count=max(1, len(ground.views) * settings.seeds.per_view))
        cloud = part_of(dense_cloud(maps, ground.views, seeds), area, settings.blocks.margin_m)
        checkpoint = Path(out).with_suffix(".npz")
        splats = fit_aerial(ground.scaffold, ground.views, _engine(device), ground.part, cloud, checkpoint=checkpoint)
    write_ply(Path(out), select(splats, area.holds(splats.means.astype(np.float64))))


def settle_block_job(
    out: str, own: str, others: list[str], scaffold: str, depth: str, block: Json, config: Json, device: str,
    listen: Listener,
) -> None:  # fmt: skip
    """Write the Gaussians of one block after a little training beside those of its neighbours."""
    with _ground_of(out, scaffold, depth, block, config) as ground:
        near = [_near(read_ply(Path(path)), ground) for path in others]
        beside = concat([one for one in near if len(one)]) if any(map(len, near)) else None
        splats = read_ply(Path(own))
        if beside is not None:
            splats = settled_aerial(splats, beside, ground.scaffold, ground.views, _engine(device), ground.part)
    write_ply(Path(out), splats)


def _engine(device: str) -> Engine:
    from skyanchor.gaussians.devices import load_engine

    return load_engine("cuda" if device == "cuda" else "cpu")


@dataclass(frozen=True, eq=False)
class _Ground:
    """A block and what it is trained with."""

    scaffold: Scaffold
    block: Block
    config: AerialConfig
    """Of the whole area."""
    part: AerialConfig
    """Of the block."""
    views: tuple[View, ...]
    """Training views that show the block or its margin, with masks of where."""


@contextmanager
def _ground_of(out: str, scaffold: str, depth: str, block: Json, config: Json) -> Iterator[_Ground]:
    """What a job on a block is given; the masks are there while it works."""
    held, area = load_scaffold_file(scaffold), codec.from_json(Block, block)
    settings = codec.from_json(AerialConfig, config)
    margin = settings.blocks.margin_m
    training = split(held.views, settings.test_every).training
    with TemporaryDirectory(dir=files.make_folder(Path(out).parent)) as masks:
        views = _views_of(area, margin, training, Path(depth), Path(masks))
        share = float(area.holds(held.points, margin).mean())
        yield _Ground(held, area, settings, share_of(settings, len(views) / len(training), share), views)


def _views_of(block: Block, margin: float, views: tuple[View, ...], depth: Path, masks: Path) -> tuple[View, ...]:
    """The views that show the block, each with a mask of where."""
    found = []
    for k, view in enumerate(views):
        path = depth_path(depth, view.name)
        mask = _mask_of(block, margin, view, path) if path.is_file() else np.zeros((1, 1), bool)
        if mask.mean() >= LEAST_SHARE:
            files.note_bytes(masks / f"{k}.png", bytes(cv2.imencode(".png", mask.astype(np.uint8) * 255)[1]))
            found.append(replace(view, mask_path=masks / f"{k}.png"))
    return tuple(found)


def _mask_of(block: Block, margin: float, view: View, path: Path) -> Bools:
    """(H, W) of the photo, where it shows the block and is not masked by the user."""
    depth_map = load_depth(path)
    small = cameras.scaled(view.camera, depth_map.camera.width)
    where = shown(block, depth_map, small, margin).astype(np.uint8)
    size = (view.camera.width, view.camera.height)
    mask = cv2.resize(where, size, interpolation=cv2.INTER_NEAREST) > 0
    return np.asarray(mask if view.mask_path is None else mask & read_mask(view.mask_path, *size))


def _near(splats: Splats, ground: _Ground) -> Splats:
    """Those in the margin of the block, and what reaches into it from a little beyond."""
    return select(splats, ground.block.holds(splats.means.astype(np.float64), _reach(ground.config)))
