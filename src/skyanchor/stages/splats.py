"""The aerial Gaussians of a scaffold, where the user brings none: a part of it, trained once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyanchor.gaussians.ply import write_ply
from skyanchor.run import prepared as parts
from skyanchor.run.folder import PROGRESS, Made, RunFolder, Stage
from skyanchor.scaffold import georeference
from skyanchor.scaffold.training import AerialConfig, train_aerial
from skyanchor.stages.survey import Site, aerial_digests
from skyanchor.types import Scaffold

if TYPE_CHECKING:
    from skyanchor.gaussians.devices import Engine


def splats_part(site: Site, engine: Engine, config: AerialConfig) -> Made:
    """The Gaussians that the prepared scaffold has; else trained and kept there."""
    held = site.held(parts.SPLATS)
    if held is not None:
        return held
    with site.adding(parts.SPLATS) as folder:
        return train_splats(folder, site.scaffold, engine, config)


def train_splats(folder: RunFolder, scaffold: Scaffold, engine: Engine, config: AerialConfig) -> Stage:
    """splats.ply in the local frame, and how well it shows photos that it was not trained on."""
    settings = {"train": config, "device": engine.device}
    what = f"Gaussians of {len(scaffold.views)} aerial photos"
    stage = folder.stage(parts.SPLATS, what, settings, aerial_digests(folder, scaffold))
    if not stage.done:
        checkpoint = stage.path(f"{PROGRESS}/checkpoint.npz")
        model = train_aerial(scaffold, engine, config, listen=stage.listen, checkpoint=checkpoint)
        write_ply(stage.path(parts.SPLATS_FILE), model.splats)
        stage.save("scores.json", model.scores)
        georeference.write_georef(stage.folder, scaffold.georef, scaffold.up)
        stage.finish({"psnr": model.scores.psnr, "gaussians": len(model.splats)})
    return stage
