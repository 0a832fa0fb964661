"""The report of a run folder, from whatever stages are there: one page, and plots for papers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from skyanchor.errors import InputError
from skyanchor.evaluation.metrics import METRICS, Metrics
from skyanchor.evaluation.truth import matched, read_truth
from skyanchor.report.build import ReportInputs, build_report
from skyanchor.report.content import MatchPicture, Report, SubmapRow
from skyanchor.report.match_pictures import StreetPhotos, match_pictures
from skyanchor.report.page import render_page
from skyanchor.report.plots import plot_curves, plot_map
from skyanchor.report.run_data import finished, known, street_camera, street_photos
from skyanchor.report.scene_folder import scene_part
from skyanchor.report.top_points import map_points
from skyanchor.run import records
from skyanchor.run.folder import RECIPE, Recipe, timings
from skyanchor.run.records import AnchorsRecord
from skyanchor.scaffold.georeference import moved_by
from skyanchor.storage import codec, files
from skyanchor.trajectory import TrajectoryReport
from skyanchor.trajectory.closure import Closure
from skyanchor.trajectory.recover import SubmapReport
from skyanchor.types import Pose, Scaffold

PAGE = "report.html"
PLOTS = "plots"


def write_report(run: Path, scaffold: Scaffold, truth: Path | None = None) -> Path:
    """report.html in the run folder, and plots/*.png beside it."""
    if not finished(run, records.ANCHORS):
        raise InputError(run, "has no anchors yet", "Run `skyanchor anchors` or `skyanchor trajectory` first.")
    report = build_report(report_inputs(run, scaffold, truth))
    files.write_bytes(run / PAGE, render_page(report).encode())
    write_plots(run / PLOTS, report)
    return run / PAGE


def write_plots(folder: Path, report: Report) -> None:
    """trajectory.png, and curves.png where a scene was trained."""
    folder.mkdir(exist_ok=True)
    plot_map(report.map, folder / "trajectory.png", report.groups)
    if report.curves:
        plot_curves(report.curves, folder / "curves.png")


def report_inputs(run: Path, scaffold: Scaffold, truth: Path | None) -> ReportInputs:
    """What the finished stages of a run say."""
    anchors = records.load_anchors(run)
    posed = finished(run, records.TRAJECTORY)
    recipe = files.load(run / (records.TRAJECTORY if posed else records.ANCHORS) / RECIPE, Recipe)
    scene = scene_part(run, scaffold)
    points, colors = map_points(run, scaffold)
    walk = _walk_part(run) if posed else WalkPart()
    return ReportInputs(
        title=run.resolve().name,
        scaffold=scaffold,
        names=anchors.names,
        points=points,
        point_colors=colors,
        anchors=anchors.anchors,
        frames=records.load_trajectory(run).frames if posed else (),
        submaps=walk.submaps,
        left_out=walk.left_out,
        warnings=(*walk.warnings, *scene.warnings),
        figures={**_figures(run), **walk.figures, **(scene.figures or {})},
        truth=_truth(anchors, truth),
        matches=_matches(run, anchors, scaffold),
        seconds=timings(run),
        settings=recipe.settings,
        versions=recipe.versions,
        views=scene.views,
        scores=scene.scores or {},
        curves=scene.curves,
        splats=scene.splats,
        street=scene.street,
        known=known(run),
    )


def _matches(run: Path, anchors: AnchorsRecord, scaffold: Scaffold) -> tuple[MatchPicture, ...]:
    if all(group.cross_view is None for group in anchors.anchors.groups):
        return ()
    street = StreetPhotos(anchors.names, street_photos(run), street_camera(run))
    return match_pictures(anchors.anchors, scaffold.views, street)


@dataclass(frozen=True)
class WalkPart:
    """What the trajectory stage says of itself."""

    submaps: tuple[SubmapRow, ...] = ()
    left_out: dict[int, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    figures: dict[str, dict[str, float]] = field(default_factory=dict)


def _walk_part(run: Path) -> WalkPart:
    report = files.load(run / records.TRAJECTORY / records.REPORT_FILE, TrajectoryReport)
    left_out = {one.group: one.refusal.detail for one in report.rejected}
    rows = tuple(_submap_row(one, report.closures) for one in report.submaps)
    return WalkPart(rows, left_out, report.warnings, {"walk": dict(report.figures)})


def _submap_row(one: SubmapReport, closures: tuple[Closure, ...]) -> SubmapRow:
    """The submap with the largest of its closure errors."""
    own = [closure for closure in closures if closure.submap == one.index]
    worst = max(own, key=lambda closure: closure.gap_m, default=None)
    gap = {} if worst is None else {"closure_m": worst.gap_m, "closure_deg": worst.gap_deg, "over_m": worst.path_m}
    return SubmapRow(one.index, one.first, one.last, {"anchors": one.anchors, **gap, **one.figures})


def _figures(run: Path) -> dict[str, dict[str, float]]:
    """The pose errors that `skyanchor evaluate` left, where it was run."""
    if not (run / METRICS).is_file():
        return {}
    metrics = files.load(run / METRICS, Metrics)
    tables = {"anchors": codec.to_json(metrics.anchors), "trajectory": codec.to_json(metrics.trajectory)}
    return {
        name: {key: value for key, value in table.items() if value is not None}
        for name, table in tables.items()
        if isinstance(table, dict) and table["total"]
    }


def _truth(anchors: AnchorsRecord, truth: Path | None) -> dict[str, Pose]:
    if truth is None:
        return {}
    return matched(read_truth(truth, moved_by(anchors.georef)), anchors.names)
