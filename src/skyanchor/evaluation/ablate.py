"""A run's ablations: variants of the method in run folders of their own that stand on the run's finished stages.

    RUN/ablations/<variant>/    a run folder on RUN's scaffold; the stages above the one that varies are links to RUN's
    RUN/ablations/.shared/      what the variants make only once; may be deleted
    RUN/ablations.json  .md     every variant measured so far

Killed at any point, the same call goes on: a variant is an ordinary run folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from skyanchor import pipeline
from skyanchor.anchors.config import AnchorConfig
from skyanchor.backends.names import name_of
from skyanchor.errors import InputError, RecipeError, SkyAnchorError
from skyanchor.evaluation.ablations import (
    AERIAL_ONLY,
    FULL,
    STAGES,
    SWAPS,
    AblationRoute,
    Table,
    Variant,
    all_variants,
    descriptor_variant,
    matcher_variant,
    own_backend,
    routed,
)
from skyanchor.evaluation.metrics import Perceptual, evaluate_run, held_out_views, render_metrics, true_poses
from skyanchor.evaluation.papers_settings import papers_settings
from skyanchor.events import ANCHORS, SCENE, TRAJECTORY, Note
from skyanchor.matching.global_descriptors import SceneVlad
from skyanchor.pipeline import PipelineConfig
from skyanchor.run.executor import Executor
from skyanchor.run.folder import RunFolder
from skyanchor.run.inputs import INPUTS_FILE, Inputs
from skyanchor.run.layout import DIGESTS, SHARED, STATE, claim, is_finished
from skyanchor.run.memory import Peak
from skyanchor.run.metrics import ImageMetrics, Metrics, PoseMetrics
from skyanchor.run.results import Run
from skyanchor.storage import files
from skyanchor.types import QUIET

VARIED: tuple[Table, ...] = ("anchors", "trajectory", "update")
"""Stages with variants."""
FOLDER, JSON = "ablations", "ablations.json"
STAGE = "ablations"


class Work(Protocol):
    """Runs all stages up to one."""

    def __call__(
        self, folder: RunFolder, inputs: Inputs, config: PipelineConfig, executor: Executor, upto: str
    ) -> object:
        """Run them."""
        ...


ABOVE: dict[str, tuple[str, ...]] = {ANCHORS: (), TRAJECTORY: (ANCHORS,), SCENE: (ANCHORS, TRAJECTORY)}
"""What a variant of each stage takes from the run besides its scaffold."""


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
    peak: Peak = field(default_factory=Peak, metadata=QUIET)
    """Most memory of that stage; nothing in records of earlier versions."""


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
    work: Work = field(default_factory=lambda: pipeline.run)

    @property
    def results(self) -> Run:
        """What the run holds."""
        return Run(self.run.root)


def chosen_variants(
    root: Path,
    stages: Sequence[str] = (),
    matchers: Sequence[str] = (),
    descriptors: Sequence[str] = (),
    only: Sequence[str] = (),
    route: AblationRoute | None = None,
    papers: bool = False,
) -> tuple[Variant, ...]:
    """The variants that names ask for; without any, those of every stage that the run holds.

    `route` is how anchors are found where backends are compared; as in the run without it. `papers` asks for the
    paper's settings one at a time in place of parts left out.
    """
    unknown = [name for name in stages if name not in VARIED]
    if unknown:
        raise SkyAnchorError(f"--stages {unknown[0]}: there are {', '.join(VARIED)}")
    if route is not None and not (matchers or descriptors):
        raise SkyAnchorError(f"--route {route} goes with --matchers or --descriptors: say which are to be tried")
    if papers and (matchers or descriptors) and not stages:
        raise SkyAnchorError("--papers-settings says nothing of --matchers and --descriptors: name --stages for it")
    asked = [table for table in VARIED if table in stages]
    if not stages and not matchers and not descriptors:
        asked = [table for table in VARIED if is_finished(root / STAGES[table])]
    of_stage = papers_settings if papers else all_variants
    found = [variant for table in asked for variant in of_stage(table)]
    found += _backends([matcher_variant(name) for name in matchers], route)
    found += _backends([descriptor_variant(name) for name in descriptors], route)
    if not found:
        raise InputError(
            root, "has no finished anchors, trajectory or scene", "Run those stages first, or name --stages."
        )
    missing = set(only) - {variant.name for variant in found}
    if missing:
        raise SkyAnchorError(f"--only {min(missing)}: there are {', '.join(variant.name for variant in found)}")
    return tuple(variant for variant in found if variant.name in only or not (only or variant.long))


def _backends(variants: Sequence[Variant], route: AblationRoute | None) -> list[Variant]:
    """The variants on a route, and the method's own backend on it."""
    if route is None or not variants:
        return list(variants)
    return [*(routed(variant, route) for variant in variants), own_backend(variants[0].table, route)]


def ablate(subject: Subject, variants: Sequence[Variant]) -> AblationRecord:
    """Every variant run (where it is not there yet) and measured; rows of earlier calls are kept.

    The run itself is first brought up to the last stage that varies: it is the full method, and what variants stand on.
    """
    if not subject.truth.exists():
        raise InputError(subject.truth, "does not exist", "Give the COLMAP model with the true poses of the street.")
    if subject.results.has(ANCHORS):
        true_poses(subject.results, subject.truth)
    rows: list[Measured] = []
    for table in dict.fromkeys(variant.table for variant in variants):
        _bring_up(subject, STAGES[table])
        chosen = [variant for variant in variants if variant.table == table]
        rows += [run_variant(subject, variant) for variant in chosen]
        full = full_method(table)
        rows.append(_measured(subject, replace(full, label=full_label(table, subject.config)), subject.run.root))
        if table == "update":
            rows.append(_aerial_only(subject))
        save_rows(subject, rows)
    return save_rows(subject, rows)


def _bring_up(subject: Subject, stage: str) -> None:
    """The run itself up to a stage; RecipeError where another version or other settings made what it holds."""
    try:
        subject.work(subject.run, subject.inputs, subject.config, subject.executor, stage)
    except RecipeError as error:
        what = str(error).partition(" Use --redo")[0]
        advice = "Variants are compared with the run as it is: make it again by its own command with --redo first."
        raise RecipeError(f"{what} {advice}") from error


def names_of(table: Table) -> set[str]:
    """Of all rows that a stage's table may have."""
    variants = (*all_variants(table), *papers_settings(table))
    return {*(variant.name for variant in variants), full_method(table).name, AERIAL_ONLY.name}


def full_method(table: Table) -> Variant:
    """The row that the others are compared with."""
    return Variant(table, f"full-{table}", FULL, lambda config: config)


def full_label(table: Table, config: PipelineConfig) -> str:
    """The full method with its matchers, or its descriptor where those are compared; the update matches nothing."""
    used: dict[Table, Callable[[AnchorConfig], str]] = {
        "anchors": cross_view_matchers,
        "matchers": cross_view_matchers,
        "descriptors": place_descriptor,
        "trajectory": lambda _: name_of(config.trajectory.matcher),
    }
    return f"{FULL}, {used[table](config.anchors)}" if table in used else FULL


def cross_view_matchers(config: AnchorConfig) -> str:
    """What matches street and aerial model on the way that the settings take."""
    photos = name_of(config.paper.matcher)
    if _by_photos(config):
        return photos
    if not config.ablation.metric_alignment:
        return name_of(config.places.features)
    bridges = " then ".join(name_of(one) for one in (config.refine.matcher, config.refine.last) if one is not None)
    return f"{bridges}, beside it {photos}" if config.route == "both" else bridges


def place_descriptor(config: AnchorConfig) -> str:
    """What makes the shortlist of places, or of aerial photos, on that way."""
    return name_of(config.paper.descriptor if _by_photos(config) else config.places.descriptor or SceneVlad())


def _by_photos(config: AnchorConfig) -> bool:
    """Whether street photos are matched with aerial photos alone."""
    return config.route == "paper" or not config.ablation.bridges


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
        _prepare(subject, root, variant.first)
        with RunFolder(root, subject.redo, subject.run.listen) as run:
            subject.work(run, _on_the_same_scaffold(subject), changed, subject.executor, STAGES[variant.table])
        return _measured(subject, variant, root)
    except RecipeError:
        raise
    except SkyAnchorError as error:
        subject.run.listen(Note(STAGE, f"{variant.label}: {error}", warning=True))
        return Measured(variant.table, variant.name, variant.label, problem=str(error))


def _on_the_same_scaffold(subject: Subject) -> Inputs:
    """The run's inputs, with the scaffold that it has prepared."""
    prepared = subject.results.prepared
    return replace(subject.inputs, aerial=prepared.root) if prepared.begun else subject.inputs


def _prepare(subject: Subject, root: Path, stage: str) -> None:
    """The variant's folder with links to what it takes from the run."""
    base = subject.run.root
    shared, features = base / FOLDER / f".{SHARED}", base / STATE / "features"
    for folder in (shared, features):
        files.make_folder(folder)
    claim(root)
    for name in ABOVE[stage]:
        if is_finished(base / name):
            files.link_folder(base / name, root / name)
    files.link_folder(shared, root / STATE / SHARED)
    files.link_folder(features, root / STATE / "features")
    if (base / "frames").is_dir():
        files.link_folder(base / "frames", root / "frames")
    files.save(root / STATE / INPUTS_FILE, _on_the_same_scaffold(subject))
    if (base / STATE / DIGESTS).is_file():
        files.copy(base / STATE / DIGESTS, root / STATE / DIGESTS)


# --- figures ------------------------------------------------------------------------------------------------------


def _measured(subject: Subject, variant: Variant, root: Path) -> Measured:
    """The row of a finished run folder."""
    run = Run(root)
    metrics = evaluate_run(run, subject.truth, perceptual=subject.perceptual)
    stage = STAGES[variant.table]
    spent, peak = run.seconds.get(stage), run.memory.get(stage, Peak())
    row = Measured(variant.table, variant.name, variant.label, seconds=spent, peak=peak)
    if variant.table == "update":
        return replace(row, ground=metrics.render.ground, aerial=metrics.render.aerial)
    groups = run.anchors.groups
    accepted = sum(group.accepted for group in groups)
    return replace(row, poses=_poses(metrics, variant.table), accepted=accepted, groups=len(groups))


def _poses(metrics: Metrics, table: Table) -> PoseMetrics:
    return metrics.trajectory if table == "trajectory" else metrics.anchors


def _aerial_only(subject: Subject) -> Measured:
    aerial, ground = (
        render_metrics(views, subject.perceptual, "before") for views in held_out_views(subject.results)
    )  # fmt: skip
    return Measured("update", AERIAL_ONLY.name, AERIAL_ONLY.label, ground=ground, aerial=aerial)


# --- record -------------------------------------------------------------------------------------------------------


def save_rows(subject: Subject, rows: Sequence[Measured]) -> AblationRecord:
    """ablations.json with these rows in place of earlier ones of the same names; another truth starts afresh.

    Rows of variants that are no more go: what their names said may not be what was measured.
    """
    path = subject.run.root / JSON
    advice = "Delete it: `skyanchor ablate` measures again."
    held = files.load(path, AblationRecord, advice) if path.is_file() else None
    fresh = {row.name for row in rows}
    known = held.rows if held is not None and held.truth == str(subject.truth) else ()
    known = tuple(row for row in known if row.table in SWAPS or row.name in names_of(row.table))
    record = AblationRecord(str(subject.truth), (*(row for row in known if row.name not in fresh), *rows))
    files.save(path, record)
    return record
