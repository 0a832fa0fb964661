"""The command line: parse, call, print. Known errors are one line on stderr and exit code 2.

Imports of anything heavy happen inside the verbs, so that --help and --version answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import tyro

import skyanchor
from skyanchor.errors import SkyAnchorError

if TYPE_CHECKING:
    from skyanchor.evaluation.metrics import ImageMetrics, Metrics
    from skyanchor.evaluation.poses import PoseMetrics
    from skyanchor.scaffold import ScaffoldSummary
    from skyanchor.types import Scaffold

DESCRIPTION = "Put an unposed street video into a fixed aerial reconstruction and add the street to its splats."

RunPath: TypeAlias = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]

app = tyro.extras.SubcommandApp()
scaffold = tyro.extras.SubcommandApp()
patch = tyro.extras.SubcommandApp()
app.command(scaffold, name="scaffold", help="The aerial model: check it, train its Gaussians.")
app.command(patch, name="patch", help="Updates of a .ply: apply, remove, list, export.")

Ply: TypeAlias = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PLY")]
PatchPath: TypeAlias = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PATCH")]


STAGES = {
    "anchors": "Localise groups of street frames in the aerial model (stages 1 and 2).",
    "trajectory": "Recover the pose of every street frame (stages 1 to 3).",
    "update": "Do the whole job: anchors, trajectory, and the street added to the splats, with a report.",
}
"""Verbs that run stages, and what they do."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        print(f"skyanchor {skyanchor.__version__}")
        return 0
    try:
        _add_stages(given)
        app.cli(
            prog="skyanchor",
            description=DESCRIPTION,
            args=given or ["--help"],
            config=(tyro.conf.FlagCreatePairsOff,),
        )
    except SkyAnchorError as error:
        print(f"skyanchor: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output, `head` perhaps, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _add_stages(given: Sequence[str]) -> None:
    """Register the verbs that run stages; the settings of all stages are imported only for the one asked for."""
    for name, what in STAGES.items():
        asked = bool(given) and given[0] == name
        app.command(name=name, help=what)(_stage_verb(name, given) if asked else _not_asked)


def _stage_verb(name: str, given: Sequence[str]) -> Callable[..., None]:
    """The verb with the defaults of the preset that the arguments name."""
    from skyanchor import pipeline
    from skyanchor.cli import runs as commands

    words = " ".join(given).replace("=", " ").split()
    chosen = words[words.index("--preset") + 1] if "--preset" in words[:-1] else "cpu"
    default = next((config for preset, config in pipeline.PRESETS.items() if preset == chosen), pipeline.CPU)
    verbs = {"anchors": pipeline.run_anchors, "trajectory": pipeline.run_trajectory, "update": pipeline.run_update}
    return commands.verb(commands.reported(verbs[name]), default)


def _not_asked() -> None:
    """Stand in for a verb in the list of verbs."""


# --- verbs --------------------------------------------------------------------------------------------------------


@app.command
def town(
    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")],
    /,
    preset: Literal["mini", "town"] = "town",
    seed: int | None = None,
) -> None:
    """Build a procedural town: aerial photos with a COLMAP model, a street walk, and its true poses apart.

    Args:
        out: Folder to write; it must be empty or absent.
        preset: mini is small enough for tests, town is the demo scene.
        seed: Another seed builds another town; the preset's own without it.
    """
    from skyanchor.report.progress import display
    from skyanchor.town import PRESETS, build_town

    with display(sys.stderr) as listen:
        build_town(out, PRESETS[preset], seed, listen)
    print(f"written to {out}")


@scaffold.command
def check(
    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="AERIAL")],
    /,
    images: Path | None = None,
    splats: Path | None = None,
    up: tuple[float, float, float] | None = None,
    ground_height: float | None = None,
    fix_frame: Path | None = None,
    json: bool = False,
) -> None:
    """Read an aerial model and print what was understood of it; splats are compared with the photos.

    Args:
        path: Folder with sparse/ (or sparse/0) and images/, or the COLMAP model itself.
        images: Folder of the photos, where it is not found beside the model.
        splats: Aerial Gaussian model, a .ply of the INRIA convention.
        up: Up direction in the model's coordinates, where the model does not tell.
        ground_height: Ground level along up in the model's coordinates, metres.
        fix_frame: Where to write the splats, brought into the model's frame, if they lie in another one.
        json: Print JSON instead of a table.
    """
    from skyanchor.scaffold import OrientationConfig, ScaffoldConfig, describe, load_scaffold
    from skyanchor.storage import codec

    config = ScaffoldConfig(OrientationConfig(up=up, ground_height=ground_height))
    held = load_scaffold(path, images, splats, config)
    summary = describe(held)
    if json:
        print(codec.dumps(summary), end="")
    else:
        _print_summary(summary)
    if held.splats_path is not None:
        _check_splats(held, fix_frame)


@scaffold.command
def train(
    run: RunPath,
    /,
    aerial: Path,
    images: Path | None = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    iterations: int | None = None,
    redo: bool = False,
) -> None:
    """Train Gaussians of an aerial model that has none; writes RUN/1-splats/splats.ply.

    Args:
        run: Run folder.
        aerial: Folder with sparse/ (or sparse/0) and images/, or the COLMAP model itself.
        images: Folder of the photos, where it is not found beside the model.
        device: auto is CUDA where everything for it is there, else the CPU.
        iterations: Steps; the device's preset without it.
        redo: Replace Gaussians that were made with other settings or inputs.
    """
    from skyanchor.cli.runs import opened
    from skyanchor.gaussians.devices import load_engine
    from skyanchor.scaffold import load_scaffold
    from skyanchor.scaffold.training import preset, with_iterations
    from skyanchor.stages.splats import splats_stage

    engine = load_engine(device)
    config = preset(engine.device)
    config = config if iterations is None else with_iterations(config, iterations)
    with opened(run, redo) as folder:
        stage = splats_stage(folder, load_scaffold(aerial, images), engine, config)
    print(f"written to {stage.folder}")


@app.command
def masks(
    ground: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PHOTOS")],
    /,
    model: Path,
    ignore: tuple[int, ...] | None = None,
    longest: int = 1024,
) -> None:
    """Mask sky, people and vehicles in street photos with a segmentation network that you have.

    Args:
        ground: Folder of street photos (of a video: RUN/frames); masks/ is written beside it, masks there stay.
        model: Segmentation network, an .onnx file.
        ignore: Classes to mask; sky, people and vehicles of the 19 Cityscapes classes without it.
        longest: Longer side that photos are shrunk to for the network, pixels.
    """
    from skyanchor.report.progress import display
    from skyanchor.sequence.segmentation import CITYSCAPES, SegmentationConfig, write_masks

    with display(sys.stderr) as listen:
        out = write_masks(ground, model, SegmentationConfig(ignore or CITYSCAPES, longest), listen)
    print(f"written to {out}")


@app.command
def evaluate(run: RunPath, /, truth: Path, align: bool = False) -> None:
    """Compare a run with true camera poses; writes RUN/metrics.json and prints a table.

    Args:
        run: Run folder.
        truth: COLMAP model with the true poses of the ground sequence; images are matched by name.
        align: Also give the errors after a Sim(3) alignment, for methods without a metric frame.
    """
    from skyanchor.evaluation.metrics import evaluate_run, write_metrics
    from skyanchor.evaluation.perceptual import advice, find_weights

    weights = find_weights()
    metrics = evaluate_run(run, truth, align, weights.load() if weights is not None else None)
    path = write_metrics(run, metrics)
    _print_metrics(metrics)
    if weights is None and metrics.render.ground.psnr is not None:
        print(f"LPIPS was left out, its weights are not here: {advice()}.")
    print(f"written to {path}")


@app.command
def ablate(
    run: RunPath,
    /,
    truth: Path,
    stages: str | None = None,
    matchers: str | None = None,
    descriptors: str | None = None,
    only: str | None = None,
    workers: int = 0,
    redo: bool = False,
) -> None:
    """Run variants of a run with parts of the method left out; prints the paper's tables, writes RUN/ablations.md.

    Args:
        run: Run folder; its finished stages are what the variants stand on.
        truth: COLMAP model with the true poses of the ground sequence; images are matched by name.
        stages: Which stages to vary, of anchors,trajectory,update; those that the run holds without it.
        matchers: Also try these cross-view matchers for the anchors, e.g. sift,xfeat-star,lightglue-aliked.
        descriptors: Also try these global descriptors for finding places, e.g. scene-vlad,anyloc,megaloc.
        only: Variants to run, by the names of their folders, e.g. front-only,group-size-2; all without it.
        workers: Worker processes; 1 works in this process, 0 takes one per core as memory allows.
        redo: Replace variants that were made with other settings or inputs.
    """
    from skyanchor.cli.runs import ablated
    from skyanchor.evaluation.ablation_tables import NOTE, tables

    record, path = ablated(run, truth, (stages, matchers, descriptors, only), workers, redo)
    for table in tables(record):
        _print_table(table.title, table.header, table.rows)
    print(f"{NOTE}\nwritten to {path}")


@app.command
def report(run: RunPath, /, truth: Path | None = None) -> None:
    """Write RUN/report.html, one page with everything there is to see of a run, and plots/*.png for papers.

    Args:
        run: Run folder.
        truth: COLMAP model with the true poses, only to be drawn on the map.
    """
    from skyanchor.report.folder import write_report
    from skyanchor.report.run_data import run_scaffold

    print(f"written to {write_report(run, run_scaffold(run), truth)}")


@patch.command
def apply(base: Ply, patch_file: PatchPath, /, out: Path) -> None:
    """Write the patched .ply.

    Args:
        base: The .ply the patch was made for.
        patch_file: 4-scene/patch.npz of a run.
        out: The .ply to write.
    """
    from skyanchor.update.patch import apply_patch, load_patch

    apply_patch(base, load_patch(patch_file), out)
    print(f"written to {out}")


@patch.command
def remove(updated: Ply, patch_file: PatchPath, /, out: Path) -> None:
    """Write the .ply as it was before the patch, byte for byte.

    Args:
        updated: A .ply whose last patch this is.
        patch_file: The patch.
        out: The .ply to write.
    """
    from skyanchor.update.patch import load_patch, remove_patch

    remove_patch(updated, load_patch(patch_file), out)
    print(f"written to {out}")


@patch.command(name="list")
def list_patches(path: Ply, /) -> None:
    """List the patches that a .ply holds, first applied first.

    Args:
        path: A .ply.
    """
    from skyanchor.update.patch import applied_patches

    rows = [[p.name, str(p.added), str(p.changed), str(p.hidden)] for p in applied_patches(path)]
    _print_table(f"patches in {path.name}", ["name", "added", "moved", "hidden"], rows)


@patch.command
def export(path: Ply, /, out: Path) -> None:
    """Write a .ply without the Gaussians that patches hide, or a .splat for web viewers.

    Args:
        path: A .ply, patched or not.
        out: File to write; its ending, .ply or .splat, says which.
    """
    from skyanchor.gaussians.ply import read_ply, write_ply, write_splat
    from skyanchor.gaussians.splats import select
    from skyanchor.update.patch import visible_rows

    seen = select(read_ply(path), visible_rows(path))
    (write_splat if out.suffix == ".splat" else write_ply)(out, seen)
    print(f"{len(seen)} Gaussians written to {out}")


@app.command
def view(run: RunPath, /, port: int = 8080) -> None:
    """Show a run in the browser while it goes on: splat layers, cameras with their photos, the walk.

    Args:
        run: Run folder.
        port: Where the viewer listens.
    """
    from skyanchor.report.live import LiveViewer, follow
    from skyanchor.report.live_folder import live_scene, state_of, status_of
    from skyanchor.report.run_data import run_inputs

    run_inputs(run)  # a folder that is no run is told before anything opens
    viewer = LiveViewer(port)
    print(f"http://localhost:{viewer.server.get_port()} shows {run}; Ctrl-C ends it", flush=True)
    try:
        follow(viewer, lambda: live_scene(run), lambda: state_of(run), lambda: status_of(run))
    except KeyboardInterrupt:
        viewer.server.stop()


@app.command
def doctor() -> None:
    """Say which backends, weights and devices are usable here, and how to get the others."""
    from skyanchor.cli.doctor import diagnose

    findings = diagnose()
    rows = [[f.part, "yes" if f.usable else "no", f.detail, f.advice] for f in findings]
    _print_table("skyanchor on this machine", ["part", "usable", "found", "to get it"], rows)


@app.command
def weights(name: Annotated[str | None, tyro.conf.Positional] = None, download: bool = False) -> None:
    """List the trained weights that backends can use and where they lie, or get one set of them.

    Args:
        name: Weights to look for or to get, as the list names them; all of them without it.
        download: Get the named weights from their authors. Nothing is ever downloaded without this.
    """
    from skyanchor.backends import weights as held
    from skyanchor.errors import BackendError

    chosen = [w for w in held.KNOWN if name in (None, w.name)]
    if not chosen or (download and name is None):
        problem = f"There are no weights {name}" if name else "--download gets one set of weights"
        raise BackendError(f"{problem}. Name one: {', '.join(w.name for w in held.KNOWN)}")
    if name is not None:
        if download and held.find(chosen[0]) is None:
            print(f"getting about {chosen[0].megabytes} MB from {chosen[0].url}", file=sys.stderr)
        found = held.resolve(chosen[0], download=download)
        print(f"{chosen[0].purpose}; {held.terms(chosen[0])}", file=sys.stderr)
        print(found)
        return
    rows = [[w.name, w.purpose, held.terms(w), f"{w.megabytes} MB", str(held.find(w) or "-")] for w in chosen]
    _print_table("trained weights", ["name", "for", "licence", "size", "found"], rows)


def _check_splats(held: Scaffold, out: Path | None) -> None:
    """Say whether the splats show the photos; write them repaired to `out`, or stop and say how far off they are."""
    from skyanchor.errors import InputError
    from skyanchor.gaussians.devices import load_engine
    from skyanchor.scaffold import frame_check
    from skyanchor.types import Refusal

    engine, given = load_engine("auto"), frame_check.load_aerial_splats(held)
    assert given is not None and held.splats_path is not None
    verdict = frame_check.check_frame(given, held, engine)
    print(verdict, file=sys.stderr)
    if verdict.fits:
        return
    fix = frame_check.fix_frame(given, held, engine)
    if isinstance(fix, Refusal):
        raise InputError(held.splats_path, fix.detail, "Is it a model of this flight? Else leave it out and train one.")
    if out is None:
        advice = "Give --fix-frame FIXED.ply to have it written in the model's frame."
        raise InputError(held.splats_path, f"lies in another frame: {fix}", advice)
    frame_check.write_fixed(out, given, fix, held)
    print(f"{fix}; written to {out}", file=sys.stderr)


# --- printing -----------------------------------------------------------------------------------------------------


def _print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console()
    Console(width=None if console.is_terminal else 120, highlight=False, markup=False).print(table)


def _print_summary(summary: ScaffoldSummary) -> None:
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
    _print_table("aerial model", ["", "understood"], rows)


def _print_metrics(metrics: Metrics) -> None:
    rows = [_pose_row("anchors", metrics.anchors), _pose_row("trajectory", metrics.trajectory)]
    if metrics.aligned is not None:
        rows.append(_pose_row("anchors, Sim(3)", metrics.aligned.anchors))
        rows.append(_pose_row("trajectory, Sim(3)", metrics.aligned.trajectory))
    _print_table("poses against the truth, RMSE", ["", "registered", "ATE m", "RPE-t m", "RPE-r deg"], rows)
    if metrics.render.aerial.psnr is not None or metrics.render.ground.psnr is not None:
        views = [_image_row("aerial", metrics.render.aerial), _image_row("ground", metrics.render.ground)]
        _print_table("held-out views", ["", "PSNR dB", "SSIM (11x11, zero padded)", "LPIPS"], views)
    if metrics.seconds:
        seconds = [[stage, f"{value:.0f}"] for stage, value in metrics.seconds.items()]
        _print_table("time", ["stage", "seconds"], seconds)


def _pose_row(name: str, metrics: PoseMetrics) -> list[str]:
    errors = (metrics.ate_m, metrics.rpe_t_m, metrics.rpe_r_deg)
    return [name, f"{metrics.registered}/{metrics.total}", *(_figure(error, 3) for error in errors)]


def _image_row(name: str, metrics: ImageMetrics) -> list[str]:
    return [name, _figure(metrics.psnr, 2), _figure(metrics.ssim, 4), _figure(metrics.lpips, 4)]


def _figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


if __name__ == "__main__":
    sys.exit(main())
