"""How a run was made: when, from what, by which commands, with which settings of every stage."""

from __future__ import annotations

from collections.abc import Iterator

from skyanchor.events import ANCHORS, SCAFFOLD, SCENE, TRAJECTORY
from skyanchor.report.content import InputRow, Provenance, RecipeRow
from skyanchor.report.progress import LOG
from skyanchor.run.inputs import remembered_commands
from skyanchor.run.recipe import Recipe
from skyanchor.run.results import Run
from skyanchor.scaffold.photo_files import images_folder


def provenance(run: Run) -> Provenance:
    """What the folder remembers of its making."""
    last = next(stage for stage in (SCENE, TRAJECTORY, ANCHORS) if run.has(stage))
    held = run.stage(last).recipe
    recipes = tuple({recipe.stage: recipe for recipe in _upwards(held)}.values())
    rows = tuple(RecipeRow(one.stage, one.settings, one.inputs, one.versions) for one in recipes)
    return Provenance(_when(run, last), _inputs(run, recipes), remembered_commands(run.root), rows)


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

    inputs, scaffold = run.inputs, run.scaffold
    photos = images_folder(scaffold) if scaffold.views else inputs.aerial
    rows = [
        InputRow("aerial model", str(inputs.aerial), 0, digest(SCAFFOLD, "model")),
        InputRow("aerial photos", str(photos), len(scaffold.views), digest(SCAFFOLD, "photos")),
        InputRow("street photos", str(inputs.ground), len(run.names), digest(ANCHORS, "frames")),
    ]
    given = scaffold.splats_path
    return (*rows, *([InputRow("aerial splats", str(given), 0, digest("", "splats"))] if given is not None else []))
