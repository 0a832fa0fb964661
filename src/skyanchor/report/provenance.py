"""How a run was made: when, from what, by which commands, with which settings of every stage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from skyanchor.events import ANCHORS, SCAFFOLD, SCENE, TRAJECTORY
from skyanchor.report.content import InputRow, Provenance, RecipeRow
from skyanchor.report.progress import LOG
from skyanchor.report.shown_paths import shown_command, shown_path, shown_settings
from skyanchor.run.inputs import remembered_commands
from skyanchor.run.recipe import Recipe
from skyanchor.run.results import Run
from skyanchor.scaffold.photo_files import images_folder


def provenance(run: Run) -> Provenance:
    """What the folder remembers of its making."""
    last = next(stage for stage in (SCENE, TRAJECTORY, ANCHORS) if run.has(stage))
    held = run.stage(last).recipe
    recipes = tuple({recipe.stage: recipe for recipe in _upwards(held)}.values())
    commands = tuple(shown_command(line, run.root) for line in remembered_commands(run.root))
    return Provenance(_when(run, last), _inputs(run, recipes), commands, tuple(_row(one, run) for one in recipes))


def _row(recipe: Recipe, run: Run) -> RecipeRow:
    settings = {name: shown_settings(value, run.root) for name, value in recipe.settings.items()}
    return RecipeRow(recipe.stage, settings, recipe.inputs, recipe.versions)


def _upwards(recipe: Recipe) -> Iterator[Recipe]:
    """A recipe after all that it stands on."""
    for above in recipe.upstream:
        yield from _upwards(above)
    yield recipe


def _when(run: Run, stage: str) -> str:
    """When the log says that the stage was done; empty where it does not."""
    log = run.root / LOG
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    done = [line for line in lines if f"  {stage}: done in " in line]
    return f"{done[-1][:10]} {done[-1][11:16]} UTC" if done else ""


def _inputs(run: Run, recipes: tuple[Recipe, ...]) -> tuple[InputRow, ...]:
    """Aerial model, its photos, the walk, and splats where they were given."""

    def digest(stage: str, name: str) -> str:
        return next((one.inputs[name] for one in recipes if one.stage.startswith(stage) and name in one.inputs), "")

    def named(path: Path) -> str:
        return shown_path(path, run.root)

    inputs, scaffold = run.inputs, run.scaffold
    photos = images_folder(scaffold) if scaffold.views else inputs.aerial
    rows = [
        InputRow("aerial model", named(inputs.aerial), 0, digest(SCAFFOLD, "model")),
        InputRow("aerial photos", named(photos), len(scaffold.views), digest(SCAFFOLD, "photos")),
        InputRow("street photos", named(inputs.ground), len(run.names), digest(ANCHORS, "frames")),
    ]
    given = scaffold.splats_path
    return (*rows, *([InputRow("aerial splats", named(given), 0, digest("", "splats"))] if given is not None else []))
