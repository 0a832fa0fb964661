"""The report of a run folder, from whatever stages are there: one page, and plots for papers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from skyanchor.anchors.priors import Prior, local_priors
from skyanchor.anchors.self_lens import lens_advice
from skyanchor.errors import InputError
from skyanchor.evaluation.truth import matched, read_truth
from skyanchor.events import ANCHORS, SCENE, TRAJECTORY
from skyanchor.presets import read_settings
from skyanchor.report.build import ReportInputs, build_report
from skyanchor.report.change_part import change_marks, changed_since
from skyanchor.report.content import MatchPicture, Report, SubmapRow
from skyanchor.report.hidden_part import hidden_marks
from skyanchor.report.match_pictures import StreetPhotos, match_pictures
from skyanchor.report.mesh_part import mesh_pictures
from skyanchor.report.outcome import known
from skyanchor.report.page import render_page
from skyanchor.report.plots import plot_curves, plot_map
from skyanchor.report.provenance import provenance
from skyanchor.report.scene_folder import held_back, scene_figures, scene_part
from skyanchor.report.top_points import FromAbove, from_above
from skyanchor.run import records
from skyanchor.run.records import AnchorsRecord
from skyanchor.run.results import Run
from skyanchor.run.runtime import RUNTIME_FILE, runtime
from skyanchor.scaffold.georeference import moved_by
from skyanchor.storage import codec, files
from skyanchor.trajectory import TrajectoryReport
from skyanchor.trajectory.closure import Closure
from skyanchor.trajectory.recover import SubmapReport
from skyanchor.types import Pose

PAGE = "report.html"
PLOTS = "plots"


def write_report(run: Run, truth: Path | None = None, above: FromAbove | None = None) -> Path:
    """report.html in the run folder, and beside it plots/*.png and runtime.json; `above` where it is drawn already."""
    if not run.has(ANCHORS):
        raise InputError(run.root, "has no anchors yet", "Run `skyanchor anchors` or `skyanchor trajectory` first.")
    report = build_report(report_inputs(run, truth, above))
    files.sweep_dead(run.root / PAGE)
    files.write_bytes(run.root / PAGE, render_page(report).encode())
    write_plots(run.root / PLOTS, report)
    files.save(run.root / RUNTIME_FILE, runtime(run))
    return run.root / PAGE


def write_plots(folder: Path, report: Report) -> None:
    """trajectory.png, and curves.png where a scene was trained."""
    plot_map(report.map, folder / "trajectory.png", report.groups)
    if report.curves:
        plot_curves(report.curves, folder / "curves.png")


def report_inputs(run: Run, truth: Path | None, above: FromAbove | None = None) -> ReportInputs:
    """What the finished stages of a run say."""
    scene = scene_part(run)
    return replace(
        outline(run, truth, above),
        matches=_matches(run),
        views=scene.views,
        scores=scene.scores or {},
        curves=scene.curves,
        splats=scene.splats,
        street=scene.street,
        changes=change_marks(run),
        changed_since=changed_since(run),
        hidden=hidden_marks(run),
        mesh=mesh_pictures(run),
    )


def outline(run: Run, truth: Path | None = None, above: FromAbove | None = None) -> ReportInputs:
    """The same without pictures and splats: enough for the verdict, the map and the tables."""
    anchors = run.anchors_record
    posed = run.has(TRAJECTORY)
    scene = run.scene if run.has(SCENE) else None
    walk = _walk_part(run) if posed else WalkPart()
    return ReportInputs(
        title=run.root.resolve().name,
        scaffold=run.scaffold,
        names=anchors.names,
        above=above or from_above(run),
        anchors=anchors.anchors,
        frames=run.trajectory_record.frames if posed else (),
        submaps=walk.submaps,
        left_out=walk.left_out,
        cuts=anchors.cuts,
        warnings=(
            *_cut_before(anchors),
            *lens_advice(anchors.anchors.lens, guessed=not known(run).camera),
            *walk.warnings,
            *(held_back(scene) if scene is not None else ()),
        ),
        figures={**_figures(run), **walk.figures, **(scene_figures(scene) if scene is not None else {})},
        truth=_truth(anchors, truth),
        seconds=run.seconds,
        memory={stage: (peak.bytes, peak.gpu_bytes) for stage, peak in run.memory.items()},
        steps=runtime(run).stages,
        made=provenance(run),
        prior=_prior(run),
        known=known(run),
    )


def _cut_before(anchors: records.AnchorsRecord) -> tuple[str, ...]:
    """Where the walk is cut, in a sentence."""
    names = ", ".join(anchors.names[k] for k in anchors.cuts)
    text = f"The walk is cut before {names}: nothing is known of the way there, each stretch has anchors of its own."
    return (text,) if anchors.cuts else ()


def _matches(run: Run) -> tuple[MatchPicture, ...]:
    if all(group.cross_view is None for group in run.anchors.groups):
        return ()
    return match_pictures(run.anchors, run.scaffold.views, StreetPhotos(run.names, run.photos, run.anchors.camera))


@dataclass(frozen=True)
class WalkPart:
    """What the trajectory stage says of itself."""

    submaps: tuple[SubmapRow, ...] = ()
    left_out: dict[int, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    figures: dict[str, dict[str, float]] = field(default_factory=dict)


def _walk_part(run: Run) -> WalkPart:
    report = run.stage(TRAJECTORY).load(records.REPORT_FILE, TrajectoryReport)
    left_out = {one.group: one.refusal.detail for one in report.rejected}
    rows = tuple(_submap_row(one, report.closures) for one in report.submaps)
    return WalkPart(rows, left_out, report.warnings, {"walk": dict(report.figures)})


def _submap_row(one: SubmapReport, closures: tuple[Closure, ...]) -> SubmapRow:
    """The submap with the largest of its closure errors."""
    own = [closure for closure in closures if closure.submap == one.index]
    worst = max(own, key=lambda closure: closure.gap_m, default=None)
    gap = {} if worst is None else {"closure_m": worst.gap_m, "closure_deg": worst.gap_deg, "over_m": worst.path_m}
    return SubmapRow(one.index, one.first, one.last, {"anchors": one.anchors, **gap, **one.figures})


def _figures(run: Run) -> dict[str, dict[str, float]]:
    """The pose errors that `skyanchor evaluate` left, where it was run."""
    metrics = run.metrics
    if metrics is None:
        return {}
    tables = {"anchors": codec.to_json(metrics.anchors), "trajectory": codec.to_json(metrics.trajectory)}
    return {
        name: {key: value for key, value in table.items() if value is not None}
        for name, table in tables.items()
        if isinstance(table, dict) and table["total"]
    }


def _prior(run: Run) -> tuple[Prior, ...]:
    """Where the user said that the walk was; nothing where the settings are those of another version."""
    try:
        config = read_settings(run.root)
        return () if config is None else local_priors(config.anchors.prior.near, run.scaffold)
    except InputError:
        return ()


def _truth(anchors: AnchorsRecord, truth: Path | None) -> dict[str, Pose]:
    if truth is None:
        return {}
    return matched(read_truth(truth, moved_by(anchors.georef)), anchors.names)
