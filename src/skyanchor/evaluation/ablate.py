"""A run's ablations: variants of the method in run folders of their own that stand on the run's finished stages.

    RUN/ablations/<variant>/    a run folder; the stages above the one that varies are links to RUN's own
    RUN/ablations/.shared/      what the variants make only once; may be deleted
    RUN/ablations.json  .md     every variant measured so far

Killed at any point, the same call goes on: a variant is an ordinary run folder.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from skyanchor import pipeline
from skyanchor.errors import InputError, RecipeError, SkyAnchorError
from skyanchor.evaluation.ablations import (
    AERIAL_ONLY,
    FULL,
    STAGES,
    SWAPS,
    Table,
    Variant,
    all_variants,
    descriptor_variant,
    matcher_variant,
)
from skyanchor.evaluation.metrics import ImageMetrics, Metrics, Perceptual, evaluate_run, held_out_views, render_metrics
from skyanchor.evaluation.poses import PoseMetrics
from skyanchor.events import Note
from skyanchor.pipeline import Inputs, PipelineConfig
from skyanchor.run import records
from skyanchor.run.executor import Executor
from skyanchor.run.folder import RECIPE, SHARED, STATE, RunFolder, timings
from skyanchor.storage import files

VARIED: tuple[Table, ...] = ("anchors", "trajectory", "update")
"""Stages with variants."""
FOLDER, JSON = "ablations", "ablations.json"
STAGE = "ablations"

Work: TypeAlias = Callable[[RunFolder, Inputs, PipelineConfig, Executor], object]
"""Runs all stages up to one."""

WORK: dict[str, Work] = {
    records.ANCHORS: pipeline.run_anchors,
    records.TRAJECTORY: pipeline.run_trajectory,
    records.SCENE: pipeline.run_update,
}
"""What runs the stages up to each that has variants."""
ABOVE: dict[str, tuple[str, ...]] = {
    records.ANCHORS: (records.SCAFFOLD,),
    records.TRAJECTORY: (records.SCAFFOLD, records.ANCHORS),
    records.SCENE: (records.SCAFFOLD, records.ANCHORS, records.TRAJECTORY, records.SPLATS),
}
"""What a variant of each stage takes from the run."""


@dataclass(frozen=True)
class Measured:
    """One row: a variant and how it did."""

    table: Table
    name: str
    label: str
    poses: PoseMetrics | None = None
    """Of the anchors or of the trajectory, against the truth."""
    accepted: int = 0
    """Anchor groups that were placed."""
    groups: int = 0
    """Anchor groups."""
    ground: ImageMetrics | None = None
    """Held-out street views."""
    aerial: ImageMetrics | None = None
    """Held-out aerial views."""
    seconds: float | None = None
    """Of the stage that varies; what variants share is counted in the full method's run alone."""
    problem: str = ""
    """Why there are no figures."""


@dataclass(frozen=True)
class AblationRecord:
    """ablations.json."""

    truth: str
    """The model that the poses were compared with."""
    rows: tuple[Measured, ...]


@dataclass(frozen=True)
class Subject:
    """What is ablated: a run with its inputs and settings."""

    run: RunFolder
    """Open."""
    inputs: Inputs
    config: PipelineConfig
    executor: Executor
    truth: Path
    perceptual: Perceptual | None = None
    redo: bool = False
    """Replace variants that were made with other settings."""
    work: dict[str, Work] = field(default_factory=lambda: dict(WORK))


def chosen_variants(
    root: Path,
    stages: Sequence[str] = (),
    matchers: Sequence[str] = (),
    descriptors: Sequence[str] = (),
    only: Sequence[str] = (),
) -> tuple[Variant, ...]:
    """The variants that names ask for; without any, those of every stage that the run holds."""
    unknown = [name for name in stages if name not in VARIED]
    if unknown:
        raise SkyAnchorError(f"--stages {unknown[0]}: there are {', '.join(VARIED)}")
    asked = [table for table in VARIED if table in stages]
    if not stages and not matchers and not descriptors:
        asked = [table for table in VARIED if (root / STAGES[table] / RECIPE).is_file()]
    found = [variant for table in asked for variant in all_variants(table)]
    found += [matcher_variant(name) for name in matchers] + [descriptor_variant(name) for name in descriptors]
    if not found:
        raise InputError(
            root, "has no finished anchors, trajectory or scene", "Run those stages first, or name --stages."
        )
    missing = set(only) - {variant.name for variant in found}
    if missing:
        raise SkyAnchorError(f"--only {min(missing)}: there are {', '.join(variant.name for variant in found)}")
    return tuple(variant for variant in found if not only or variant.name in only)


def ablate(subject: Subject, variants: Sequence[Variant]) -> AblationRecord:
    """Every variant run (where it is not there yet) and measured; rows of earlier calls are kept.

    The run itself is first brought up to the last stage that varies: it is the full method, and what variants stand on.
    """
    if not subject.truth.exists():
        raise InputError(subject.truth, "does not exist", "Give the COLMAP model with the true poses of the street.")
    rows: list[Measured] = []
    for table in dict.fromkeys(variant.table for variant in variants):
        subject.work[STAGES[table]](subject.run, subject.inputs, subject.config, subject.executor)
        chosen = [variant for variant in variants if variant.table == table]
        rows += [run_variant(subject, variant) for variant in chosen]
        rows.append(_measured(subject, full_method(table), subject.run.root))
        if table == "update":
            rows.append(_aerial_only(subject))
        save_rows(subject, rows)
    return save_rows(subject, rows)


def full_method(table: Table) -> Variant:
    """The row that the others are compared with."""
    return Variant(table, f"full-{table}", FULL, lambda config: config)


# --- one variant --------------------------------------------------------------------------------------------------


def run_variant(subject: Subject, variant: Variant) -> Measured:
    """The variant's row; one that cannot be run says why, and the others go on."""
    changed = variant.change(subject.config)
    if changed == subject.config and variant.table not in SWAPS:
        return _measured(subject, variant, subject.run.root)
    root = subject.run.root / FOLDER / variant.name
    subject.run.listen(Note(STAGE, f"{variant.table}: {variant.label}"))
    try:
        variant.check()
        _prepare(subject.run.root, root, STAGES[variant.table])
        with RunFolder(root, subject.redo, subject.run.listen) as run:
            subject.work[STAGES[variant.table]](run, subject.inputs, changed, subject.executor)
        return _measured(subject, variant, root)
    except RecipeError:
        raise
    except SkyAnchorError as error:
        subject.run.listen(Note(STAGE, f"{variant.label}: {error}", warning=True))
        return Measured(variant.table, variant.name, variant.label, problem=str(error))


def _prepare(base: Path, root: Path, stage: str) -> None:
    """The variant's folder with links to what it takes from the run."""
    (base / FOLDER / f".{SHARED}").mkdir(parents=True, exist_ok=True)
    (base / STATE / "features").mkdir(parents=True, exist_ok=True)
    (root / STATE).mkdir(parents=True, exist_ok=True)
    for name in ABOVE[stage]:
        if (base / name / RECIPE).is_file():
            _link(root / name, base / name)
    _link(root / STATE / SHARED, base / FOLDER / f".{SHARED}")
    _link(root / STATE / "features", base / STATE / "features")
    if (base / "frames").is_dir():
        _link(root / "frames", base / "frames")
    for name in ("inputs.json", "digests.json"):
        if (base / STATE / name).is_file():
            shutil.copyfile(base / STATE / name, root / STATE / name)


def _link(path: Path, target: Path) -> None:
    """A relative link to a folder, so that the whole run can be moved."""
    if not path.is_symlink():
        path.symlink_to(os.path.relpath(target, path.parent), target_is_directory=True)


# --- figures ------------------------------------------------------------------------------------------------------


def _measured(subject: Subject, variant: Variant, root: Path) -> Measured:
    """The row of a finished run folder."""
    metrics = evaluate_run(root, subject.truth, perceptual=subject.perceptual)
    row = Measured(
        variant.table, variant.name, variant.label, seconds=timings(root).get(STAGES[variant.table])
    )  # fmt: skip
    if variant.table == "update":
        return replace(row, ground=metrics.render.ground, aerial=metrics.render.aerial)
    accepted, groups = _groups(root)
    return replace(row, poses=_poses(metrics, variant.table), accepted=accepted, groups=groups)


def _poses(metrics: Metrics, table: Table) -> PoseMetrics:
    return metrics.trajectory if table == "trajectory" else metrics.anchors


def _groups(root: Path) -> tuple[int, int]:
    """(anchor groups that were placed, anchor groups)."""
    found = records.load_anchors(root).anchors.groups
    return sum(group.accepted for group in found), len(found)


def _aerial_only(subject: Subject) -> Measured:
    aerial, ground = (
        render_metrics(views, subject.perceptual, "before") for views in held_out_views(subject.run.root)
    )  # fmt: skip
    return Measured("update", AERIAL_ONLY.name, AERIAL_ONLY.label, ground=ground, aerial=aerial)


# --- record -------------------------------------------------------------------------------------------------------


def save_rows(subject: Subject, rows: Sequence[Measured]) -> AblationRecord:
    """ablations.json with these rows in place of earlier ones of the same names; another truth starts afresh."""
    path = subject.run.root / JSON
    held = files.load(path, AblationRecord) if path.is_file() else None
    fresh = {row.name for row in rows}
    known = held.rows if held is not None and held.truth == str(subject.truth) else ()
    record = AblationRecord(str(subject.truth), (*(row for row in known if row.name not in fresh), *rows))
    files.save(path, record)
    return record
