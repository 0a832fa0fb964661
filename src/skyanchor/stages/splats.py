"""The aerial Gaussians, where the user brings none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyanchor.gaussians.ply import write_ply
from skyanchor.run import records
from skyanchor.run.folder import PROGRESS, RunFolder, Stage
from skyanchor.scaffold import georeference
from skyanchor.scaffold.training import AerialConfig, train_aerial
from skyanchor.stages.survey import aerial_digests
from skyanchor.types import Scaffold

if TYPE_CHECKING:
    from skyanchor.gaussians.devices import Engine


def splats_stage(run: RunFolder, scaffold: Scaffold, engine: Engine, config: AerialConfig) -> Stage:
    """Aerial Gaussians for a model that came without: splats.ply in the local frame, and how well they show it."""
    settings = {"train": config, "device": engine.device}
    what = f"Gaussians of {len(scaffold.views)} aerial photos"
    stage = run.stage(records.SPLATS, what, settings, aerial_digests(run, scaffold))
    if not stage.done:
        checkpoint = stage.path(f"{PROGRESS}/checkpoint.npz")
        model = train_aerial(scaffold, engine, config, listener=run.listen, checkpoint=checkpoint)
        write_ply(stage.path(records.SPLATS_FILE), model.splats)
        stage.save("scores.json", model.scores)
        georeference.write_georef(stage.folder, scaffold.georef, scaffold.up)
        stage.finish({"psnr": model.scores.psnr, "gaussians": len(model.splats)})
    return stage
