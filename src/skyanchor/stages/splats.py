"""The aerial Gaussians of a scaffold, where the user brings none: a part of it, trained once, whole or in blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyanchor.gaussians.ply import join_plys, write_ply
from skyanchor.gaussians.split import split
from skyanchor.run import prepared as parts
from skyanchor.run.executor import Executor
from skyanchor.run.folder import Finished, Made, RunFolder, Stage
from skyanchor.run.layout import PROGRESS
from skyanchor.scaffold import georeference
from skyanchor.scaffold.seeding import dense_cloud
from skyanchor.scaffold.training import AerialConfig, train_aerial
from skyanchor.stages.blocks import score_of_blocks, splats_of_blocks
from skyanchor.stages.digests import aerial_digests
from skyanchor.stages.work import Site
from skyanchor.stereo import DepthFolder, depth_path
from skyanchor.types import Cloud, Scaffold

if TYPE_CHECKING:
    from skyanchor.gaussians.devices import Engine

DEPTH_BYTES = 1 << 28
"""Depth held in memory."""


def splats_part(site: Site, engine: Engine, config: AerialConfig) -> Made:
    """The Gaussians that the prepared scaffold has; else trained and kept there."""
    held = site.held(parts.SPLATS)
    if held is not None:
        return held
    with site.adding(parts.SPLATS) as folder:
        return train_splats(folder, site.scaffold, engine, config, site.prepared.part(parts.DEPTH), site.executor)


def train_splats(
    folder: RunFolder,
    scaffold: Scaffold,
    engine: Engine,
    config: AerialConfig,
    depth: Finished | None,
    executor: Executor,
) -> Stage:
    """splats.ply in the local frame, and how well it shows photos that it was not trained on.

    The Gaussians start on the depth of the photos where it is there, else between the sparse points. Blocks, where they
    are asked for, are jobs.
    """
    settings = {"train": config, "device": engine.device}
    what = f"Gaussians of {len(scaffold.views)} aerial photos"
    upstream = () if depth is None else (depth,)
    stage = folder.stage(parts.SPLATS, what, settings, aerial_digests(folder, scaffold), upstream)
    if not stage.done:
        if depth is not None and config.blocks.side_m:
            blocks = splats_of_blocks(stage, scaffold, engine, config, depth, executor)
            test = split(scaffold.views, config.test_every).test
            scores = score_of_blocks(blocks, test, engine, config.train.width)
            count = join_plys(stage.path(parts.SPLATS_FILE), blocks)
        else:
            checkpoint = stage.path(f"{PROGRESS}/checkpoint.npz")
            cloud = None if depth is None or config.from_points else _cloud(depth, scaffold, config)
            model = train_aerial(scaffold, engine, config, cloud=cloud, listen=stage.listen, checkpoint=checkpoint)
            write_ply(stage.path(parts.SPLATS_FILE), model.splats)
            scores, count = model.scores, len(model.splats)
        stage.save("scores.json", scores)
        georeference.write_georef(stage.folder, scaffold.georef, scaffold.up)
        stage.finish({"psnr": scores.psnr, "gaussians": count})
    return stage


def _cloud(depth: Finished, scaffold: Scaffold, config: AerialConfig) -> Cloud:
    """Surface points of the photos that are trained on."""
    views = split(scaffold.views, config.test_every).training
    names = tuple(view.name for view in views if depth_path(depth.folder, view.name).is_file())
    return dense_cloud(DepthFolder(depth.folder, names, DEPTH_BYTES), views, config.seeds)
