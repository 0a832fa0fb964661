"""The aerial Gaussians of a scaffold, where the user brings none: a part of it, trained once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyanchor.gaussians.ply import write_ply
from skyanchor.gaussians.split import split
from skyanchor.run import prepared as parts
from skyanchor.run.folder import PROGRESS, Finished, Made, RunFolder, Stage
from skyanchor.scaffold import georeference
from skyanchor.scaffold.seeding import dense_cloud
from skyanchor.scaffold.training import AerialConfig, train_aerial
from skyanchor.stages.survey import Site, aerial_digests
from skyanchor.stereo import depth_path, load_depth
from skyanchor.types import Cloud, Scaffold

if TYPE_CHECKING:
    from skyanchor.gaussians.devices import Engine


def splats_part(site: Site, engine: Engine, config: AerialConfig) -> Made:
    """The Gaussians that the prepared scaffold has; else trained and kept there."""
    held = site.held(parts.SPLATS)
    if held is not None:
        return held
    with site.adding(parts.SPLATS) as folder:
        return train_splats(folder, site.scaffold, engine, config, site.prepared.part(parts.DEPTH))


def train_splats(
    folder: RunFolder, scaffold: Scaffold, engine: Engine, config: AerialConfig, depth: Finished | None
) -> Stage:
    """splats.ply in the local frame, and how well it shows photos that it was not trained on.

    The Gaussians start on the depth of the photos where it is there, else between the sparse points.
    """
    settings = {"train": config, "device": engine.device}
    what = f"Gaussians of {len(scaffold.views)} aerial photos"
    upstream = () if depth is None else (depth,)
    stage = folder.stage(parts.SPLATS, what, settings, aerial_digests(folder, scaffold), upstream)
    if not stage.done:
        checkpoint = stage.path(f"{PROGRESS}/checkpoint.npz")
        cloud = None if depth is None else _cloud(depth, scaffold, config)
        model = train_aerial(scaffold, engine, config, cloud=cloud, listen=stage.listen, checkpoint=checkpoint)
        write_ply(stage.path(parts.SPLATS_FILE), model.splats)
        stage.save("scores.json", model.scores)
        georeference.write_georef(stage.folder, scaffold.georef, scaffold.up)
        stage.finish({"psnr": model.scores.psnr, "gaussians": len(model.splats)})
    return stage


def _cloud(depth: Finished, scaffold: Scaffold, config: AerialConfig) -> Cloud:
    """Surface points of the photos that are trained on."""
    views = split(scaffold.views, config.test_every).training
    paths = [depth_path(depth.folder, view.name) for view in views]
    return dense_cloud((load_depth(path) for path in paths if path.is_file()), views, config.seeds)
