"""What a run folder was made from: the aerial model as its stages saw it, and where the street photos lie."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from skyanchor.errors import InputError
from skyanchor.pipeline import Inputs, PipelineConfig
from skyanchor.report.advice import Known
from skyanchor.run import records
from skyanchor.run.folder import PROGRESS, RECIPE, STATE, Recipe
from skyanchor.scaffold import OrientationConfig, ScaffoldConfig, load_scaffold
from skyanchor.sequence.loading import find_photos
from skyanchor.storage import codec, files
from skyanchor.types import Camera, Plane, Scaffold

SETTINGS = "settings.json"
"""In .state/: the settings of the last time."""


def run_inputs(run: Path) -> Inputs:
    """The data that the run was started with."""
    path = run / STATE / "inputs.json"
    if not path.is_file():
        raise InputError(
            run, "is no run folder", "Give the --out folder of `skyanchor anchors`, `trajectory` or `update`."
        )
    return files.load(path, Inputs)


def run_settings(run: Path) -> PipelineConfig | None:
    """The settings that the run was last started with, where it says so."""
    path = run / STATE / SETTINGS
    return files.load(path, PipelineConfig) if path.is_file() else None


def known(run: Path) -> Known:
    """What the user said of the walk and its camera."""
    config = run_settings(run)
    return Known() if config is None else Known(bool(config.anchors.prior.near), config.sequence.camera is not None)


def finished(run: Path, stage: str) -> bool:
    """Whether the stage is complete."""
    return (run / stage / RECIPE).is_file()


def held_recipe(run: Path, stage: str) -> Recipe | None:
    """How a stage was or is being made; None before it has begun."""
    paths = (run / stage / RECIPE, run / stage / PROGRESS / RECIPE)
    return next((files.load(path, Recipe) for path in paths if path.is_file()), None)


def run_scaffold(run: Path) -> Scaffold:
    """The aerial model with the up and the ground that the run's stages stand on, given or found."""
    inputs, recipe = run_inputs(run), held_recipe(run, records.SCAFFOLD)
    parts = (inputs.aerial, inputs.images, inputs.splats)
    if recipe is None:
        return load_scaffold(*parts, ScaffoldConfig(check_photos=False))
    up = codec.from_json(tuple[float, float, float], recipe.settings["up"])
    ground = codec.from_json(Plane, recipe.settings["ground"])
    given = OrientationConfig(up=up, ground_height=0.0)  # the plane as it was replaces this height
    config = ScaffoldConfig(given, check_photos=False)
    return replace(load_scaffold(*parts, config), up=np.array(up), ground=ground)


def street_photos(run: Path) -> dict[str, Path]:
    """Paths of the street photos by name: frames of a video and upright copies lie in the run folder."""
    copies, ground = run / "frames", run_inputs(run).ground
    source = copies if (copies / "images").is_dir() else ground
    return {photo.name: photo for photo in find_photos(source)[1]} if source.is_dir() else {}


def street_camera(run: Path) -> Camera:
    """The street camera that the anchors were found with, distortion included."""
    recipe = files.load(run / records.ANCHORS / RECIPE, Recipe)
    return codec.from_json(Camera, recipe.settings["camera"])
