"""The report of a run folder, from whatever stages are there."""

from __future__ import annotations

from pathlib import Path

from skyanchor import codec, files, records
from skyanchor.errors import InputError
from skyanchor.evaluation.metrics import METRICS, Metrics
from skyanchor.evaluation.truth import matched, read_truth
from skyanchor.records import AnchorsRecord
from skyanchor.report.build import ReportInputs, build_report
from skyanchor.report.content import SubmapRow
from skyanchor.report.page import render_page
from skyanchor.report.scene_folder import scene_part
from skyanchor.run_folder import RECIPE, Recipe, timings
from skyanchor.scaffold.georeference import moved_by
from skyanchor.trajectory import TrajectoryReport
from skyanchor.types import Pose, Scaffold

PAGE = "report.html"


def write_report(run: Path, scaffold: Scaffold, truth: Path | None = None) -> Path:
    """report.html in the run folder."""
    if not (run / records.ANCHORS / RECIPE).is_file():
        raise InputError(run, "has no anchors yet", "Run `skyanchor anchors` or `skyanchor trajectory` first.")
    page = render_page(build_report(report_inputs(run, scaffold, truth)))
    files.write_bytes(run / PAGE, page.encode())
    return run / PAGE


def report_inputs(run: Path, scaffold: Scaffold, truth: Path | None) -> ReportInputs:
    """What the finished stages of a run say."""
    anchors = records.load_anchors(run)
    posed = _finished(run, records.TRAJECTORY)
    recipe = files.load(run / (records.TRAJECTORY if posed else records.ANCHORS) / RECIPE, Recipe)
    scene = scene_part(run, scaffold)
    return ReportInputs(
        title=run.resolve().name,
        scaffold=scaffold,
        names=anchors.names,
        points=scaffold.points,
        point_colors=scaffold.point_colors,
        anchors=anchors.anchors,
        frames=records.load_trajectory(run).frames if posed else (),
        submaps=_submaps(run) if posed else (),
        figures={**_figures(run), **(scene.figures or {})},
        truth=_truth(anchors, truth),
        seconds=timings(run),
        settings=recipe.settings,
        versions=recipe.versions,
        views=scene.views,
        scores=scene.scores or {},
        curves=scene.curves,
        splats=scene.splats,
        street=scene.street,
    )


def _finished(run: Path, stage: str) -> bool:
    return (run / stage / RECIPE).is_file()


def _submaps(run: Path) -> tuple[SubmapRow, ...]:
    report = files.load(run / records.TRAJECTORY / records.REPORT_FILE, TrajectoryReport)
    return tuple(SubmapRow(one.index, one.first, one.last, dict(one.figures)) for one in report.submaps)


def _figures(run: Path) -> dict[str, dict[str, float]]:
    """The pose errors that `skyanchor evaluate` left, where it was run."""
    if not (run / METRICS).is_file():
        return {}
    metrics = files.load(run / METRICS, Metrics)
    tables = {"anchors": codec.to_json(metrics.anchors), "trajectory": codec.to_json(metrics.trajectory)}
    return {
        name: {key: value for key, value in table.items() if value is not None}
        for name, table in tables.items()
        if isinstance(table, dict)
    }


def _truth(anchors: AnchorsRecord, truth: Path | None) -> dict[str, Pose]:
    if truth is None:
        return {}
    return matched(read_truth(truth, moved_by(anchors.georef)), anchors.names)
