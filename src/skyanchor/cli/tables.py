"""What the verbs print as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skyanchor.evaluation.foreign import ForeignScore, ModelScore
    from skyanchor.evaluation.metrics import ImageMetrics, Metrics
    from skyanchor.evaluation.poses import PoseMetrics
    from skyanchor.evaluation.protocol import Rows
    from skyanchor.run.metrics import StatedMetrics
    from skyanchor.scaffold import ScaffoldSummary
    from skyanchor.sequence.summary import WalkSummary


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; 120 columns wide where nobody looks."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console()
    Console(width=None if console.is_terminal else 120, highlight=False, markup=False).print(table)


def print_summary(summary: ScaffoldSummary) -> None:
    """Print what was understood of an aerial model."""
    cameras = [f"{c.images} x {c.model} {c.width}x{c.height}, f {c.focal_px:.1f} px" for c in summary.cameras]
    rows = [
        ("model", summary.model),
        ("photos", f"{summary.images}, {summary.masks} with a mask"),
        ("cameras", "\n".join(cameras)),
        ("points", f"{summary.points}, {summary.observations} observations, {summary.track_length:.1f} per point"),
        ("reprojection", f"{summary.reprojection_px:.2f} px, median"),
        ("altitude", f"{summary.altitude_m:.1f} m above the ground, median"),
        ("ground sample", f"{summary.ground_sample_m * 100:.1f} cm per pixel"),
        ("extent", f"{summary.extent_m[0]:.0f} x {summary.extent_m[1]:.0f} m"),
        ("up", f"{', '.join(f'{v:.4f}' for v in summary.up)} (from {summary.up_from})"),
        ("ground", f"{summary.ground_height_m:.2f} m along up"),
        ("local frame", f"original minus ({', '.join(f'{v:.10g}' for v in summary.offset_m)})"),
        ("system", summary.crs or "not given"),
        ("splats", summary.splats or "none"),
        *(("warning", text) for text in summary.warnings),
    ]
    print_table("aerial model", ["", "understood"], rows)


def print_walk(summary: WalkSummary, more: Sequence[tuple[str, str]], warnings: Sequence[str]) -> None:
    """Print what was understood of a walk, with rows and warnings that come from elsewhere."""
    video = summary.seconds is not None
    length = f"; {summary.seconds:.0f} s of video, {summary.still} frames where nothing moves" if video else ""
    skipped = f", {summary.given - summary.frames} skipped" if video else ""
    rows = [
        ("walk", summary.path),
        ("frames", f"{summary.frames} of {summary.given} taken{skipped}: {summary.choice}{length}"),
        ("pictures", f"{summary.width}x{summary.height}, {summary.masks} with a mask"),
        (
            "focal length",
            f"{summary.focal_px:.1f} px ({summary.focal_from}), {summary.field_of_view_deg:.0f} deg across",
        ),
        ("sharpness", f"{100 * summary.blurred:.0f} % blurred: less than half as sharp as the frames around them"),
        ("GPS", _gps(summary, video)),
        ("time", "not in the file" if summary.taken is None else " to ".join(dict.fromkeys(summary.taken))),
        ("groups", f"anchor groups: {summary.groups}, submaps: {summary.submaps}"),
        *more,
        *(("warning", text) for text in (*summary.warnings, *warnings)),
    ]
    print_table("walk", ["", "understood"], rows)


def _gps(summary: WalkSummary, video: bool) -> str:
    if not summary.gps:
        return "videos are read without" if video else "none; --near X,Y,RADIUS makes the search faster and safer"
    latitude, longitude = (sorted(place[k] for place in summary.gps)[len(summary.gps) // 2] for k in range(2))
    return f"{len(summary.gps)} of {summary.frames} photos, around {latitude:.5f}, {longitude:.5f}"


def print_metrics(metrics: Metrics) -> None:
    """Print what `evaluate` measured."""
    rows = [_pose_row("anchors", metrics.anchors), _pose_row("trajectory", metrics.trajectory)]
    if metrics.aligned is not None:
        rows.append(_pose_row("anchors, Sim(3)", metrics.aligned.anchors))
        rows.append(_pose_row("trajectory, Sim(3)", metrics.aligned.trajectory))
    print_table("poses against the truth, RMSE", ["", "located", "ATE m", "RPE-t m", "RPE-r deg"], rows)
    if metrics.stated is not None:
        print(_stated(metrics.stated))
    if metrics.render.aerial.psnr is not None or metrics.render.ground.psnr is not None:
        views = [_image_row("aerial", metrics.render.aerial), _image_row("ground", metrics.render.ground)]
        print_table("held-out views", ["", "PSNR dB", "SSIM (11x11, zero padded)", "LPIPS"], views)
    if metrics.surface is not None:
        held = metrics.surface
        shares = [_percent(held.accuracy), _percent(held.completeness)]
        rows = [[*shares, _figure(held.mean_m, 3), _figure(held.median_m, 3)]]
        title = f"mesh against the true surface, within {held.tolerance_m:g} m"
        print_table(title, ["accuracy", "completeness", "mean m", "median m"], rows)
    if metrics.seconds:
        spent = [[stage, f"{value:.0f}", *_memory(metrics, stage)] for stage, value in metrics.seconds.items()]
        print_table("time and most memory at a time", ["stage", "seconds", "GB", "GB on the GPU"], spent)


def _stated(held: StatedMetrics) -> str:
    """What was stated of the positions, and how much of it held, in two lines."""
    each = f"standard deviation {held.sigma_m:.3f} m per axis, the shift that all photos share included"
    below, within = f"{100 * held.below_sigma:.0f} %", f"{100 * held.within_radius:.0f} %"
    return (
        f"stated: {each}; 95 % within {held.radius_95_m:.3f} m\n"
        f"found: {below} of the errors along an axis are below it, {within} of the photos within "
        "(right: 68 and 95 over many walks)\n"
    )


def print_foreign(found: ForeignScore) -> None:
    """Print the figures of what another program made."""
    best = found.best
    rows = [
        _pose_row("as it came, no alignment", best.as_it_came),
        _pose_row("Sim(3) on the aerial cameras", best.on_aerial),
        _pose_row("Sim(3) on the truth itself (flatters)", best.on_truth),
    ]
    print_table(f"{best.path}, RMSE", ["", "located", "ATE m", "RPE-t m", "RPE-r deg"], rows)
    if len(found.models) > 1:
        held = [[m.path, f"{m.aerial}/{m.aerial_total}", str(m.as_it_came.registered)] for m in found.models]
        print_table("all models; the figures are those of one", ["", "aerial photos", "street frames"], held)
    print(f"{best.aerial} of {best.aerial_total} aerial cameras{_aerial_told(best)}")
    print(f"Verdict: {best.outcome.value}.")


def _aerial_told(score: ModelScore) -> str:
    """How far the aerial cameras are off, or what a similarity on them lacks."""
    from skyanchor.evaluation.foreign import LEAST_AERIAL

    if score.moved_m is not None:
        moved = f"{_figure(score.off_m, 3)} m as they came, {_figure(score.moved_m, 3)} m after the similarity"
        return f", off their places by {moved}, RMS."
    names = "" if score.aerial else " If the model has them under other names, say so with --aerial-prefix."
    return f": a similarity takes {LEAST_AERIAL} that are not all in one place.{names}"


def print_rows(rows: Rows) -> None:
    """Print a scene's figures beside the paper's."""
    paper, poses = rows.paper, []
    for name, ours, theirs in (
        ("anchors", rows.ours.anchors, paper.anchors if paper else None),
        ("trajectory", rows.ours.trajectory, paper.trajectory if paper else None),
    ):
        poses.append(_pose_row(name, ours))
        poses += [_pose_row(f"{name}, the paper", theirs)] if theirs is not None else []
    print_table(f"{rows.title}, no alignment", ["", "located", "ATE m", "RPE-t m", "RPE-r deg"], poses)
    views = []
    for name, seen, known in (
        ("aerial", rows.ours.aerial, paper.aerial if paper else None),
        ("ground", rows.ours.ground, paper.ground if paper else None),
    ):
        views.append(_image_row(name, seen))
        views += [_image_row(f"{name}, the paper", known)] if known is not None else []
    if rows.ours.aerial.psnr is not None or rows.ours.ground.psnr is not None:
        print_table("held-out views", ["", "PSNR dB", "SSIM", "LPIPS"], views)
    print(", ".join(f"{stage} {seconds:.0f} s" for stage, seconds in rows.seconds.items()))


def _memory(metrics: Metrics, stage: str) -> list[str]:
    """Memory and GPU memory of a stage in gigabytes, where they were measured."""
    peak = metrics.memory.get(stage)
    return [f"{value / 1e9:.1f}" if value else "-" for value in ((peak.bytes, peak.gpu_bytes) if peak else (0, 0))]


def _pose_row(name: str, metrics: PoseMetrics) -> list[str]:
    errors = (metrics.ate_m, metrics.rpe_t_m, metrics.rpe_r_deg)
    return [name, f"{metrics.registered}/{metrics.total}", *(_figure(error, 3) for error in errors)]


def _image_row(name: str, metrics: ImageMetrics) -> list[str]:
    return [name, _figure(metrics.psnr, 2), _figure(metrics.ssim, 4), _figure(metrics.lpips, 4)]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
