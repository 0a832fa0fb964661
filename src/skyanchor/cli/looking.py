"""Verbs that look at a run: measured, varied, shown on a page or live."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import tyro

from skyanchor.bounds import NotNegative, Positive, Range
from skyanchor.cli.options import AerialPath, Names, OptionalRunPath, Processes, RunPath, TruthPath, unless_said
from skyanchor.cli.tables import print_foreign, print_metrics, print_table
from skyanchor.errors import SkyAnchorError

Port: TypeAlias = Annotated[int, Range(0, 65535), tyro.conf.arg(metavar="N")]
Host: TypeAlias = Annotated[str, tyro.conf.arg(metavar="ADDRESS")]


def evaluate(
    run: OptionalRunPath = None,
    /,
    *,
    truth: TruthPath,
    align: bool = False,
    model: Annotated[Path | None, unless_said("COLMAP|TUM")] = None,
    scaffold: AerialPath = None,
    aerial_prefix: Annotated[str, unless_said("TEXT")] = "",
    ground_prefix: Annotated[str, unless_said("TEXT")] = "",
    fps: Annotated[Positive | None, unless_said("RATE")] = None,
    moved_m: Annotated[NotNegative, tyro.conf.arg(metavar="METRES")] = 0.1,
    truth_surface: Annotated[Path | None, unless_said("DEPTH")] = None,
    json: bool = False,
) -> None:
    """Compare a run with true camera poses, without any alignment; or with --model what another program made.

    Args:
        run: Run folder; left away with --model.
        truth: COLMAP model with the true poses of the walk; photos are matched by name.
        align: Also give the errors after a Sim(3) alignment, for methods without a metric frame.
        model: What another program made: a COLMAP model, a folder of them (0/, 1/, ...), or a trajectory in TUM format.
            It is measured as it came, and laid on the aerial cameras by a similarity, as in the paper; the verdict is
            ok, registered too few, cannot align, or moved the aerial model.
        scaffold: Aerial model, plain or prepared, whose cameras the similarity is fitted on; goes with --model.
        aerial_prefix: What the model puts before the names of aerial photos, e.g. aerial/.
        ground_prefix: What it puts before the names of street photos, e.g. ground/.
        fps: Frames per second of a TUM trajectory whose first column holds seconds: 30 for MASt3R-SLAM on photos.
        moved_m: Most that aerial cameras may be off their places after the similarity, metres.
        truth_surface: Folder of true depth maps that the mesh is measured against: 16-bit PNG in units of 2 mm, or
            of what its text `unit_m` says, named like the street or aerial photos they belong to.
        json: Print JSON instead of tables.
    """
    if run is None and model is None:
        raise SkyAnchorError("evaluate what? Name a run folder, or give --model and --scaffold.")
    idle: tuple[tuple[str, object], ...] = (("--align", align), ("--truth-surface", truth_surface))
    if model is None:
        prefixes = (("--aerial-prefix", aerial_prefix), ("--ground-prefix", ground_prefix))
        idle = (("--scaffold", scaffold), *prefixes, ("--fps", fps))
    said = [name for name, value in idle if value]
    if said:
        raise SkyAnchorError(f"{said[0]} says nothing {'without' if model is None else 'with'} --model: leave it out.")
    if model is not None:
        _evaluate_foreign(run, model, scaffold, truth, (moved_m, aerial_prefix, ground_prefix, fps), json)
    elif run is not None:
        _evaluate_run(run, truth, align, truth_surface, json)


def _evaluate_run(run: Path, truth: Path, align: bool, surface: Path | None, json: bool) -> None:
    from skyanchor.evaluation.metrics import evaluate_run, write_metrics
    from skyanchor.evaluation.perceptual import advice, find_weights
    from skyanchor.evaluation.surface import run_surface
    from skyanchor.run.results import open_run

    weights, found = find_weights(), open_run(run)
    metrics = evaluate_run(found, truth, align, weights.load() if weights is not None else None)
    if surface is not None:
        metrics = replace(metrics, surface=run_surface(found, truth, surface))
    path = write_metrics(found, metrics)
    if json:
        print(path.read_text(), end="")
        return
    print_metrics(metrics)
    if weights is None and metrics.render.ground.psnr is not None:
        print(f"LPIPS was left out, its weights are not here: {advice()}.")
    print(f"written to {path}")


def _evaluate_foreign(
    run: Path | None,
    model: Path,
    scaffold: Path | None,
    truth: TruthPath,
    asked: tuple[float, str, str, float | None],
    json: bool,
) -> None:
    from skyanchor.evaluation.foreign import ForeignConfig, score_foreign
    from skyanchor.storage import codec

    if run is not None:
        raise SkyAnchorError("a run folder and --model: give one of them")
    if scaffold is None:
        raise SkyAnchorError("--model needs --scaffold, the aerial model that its cameras are compared with")
    moved_m, aerial_prefix, ground_prefix, fps = asked
    config = ForeignConfig(moved_m=moved_m, aerial_prefix=aerial_prefix, ground_prefix=ground_prefix, fps=fps)
    found = score_foreign(model, scaffold, truth, config)
    if json:
        print(codec.dumps(found), end="")
    else:
        print_foreign(found)


def ablate(
    run: RunPath,
    /,
    truth: TruthPath,
    stages: Names = None,
    matchers: Names = None,
    descriptors: Names = None,
    route: Annotated[Literal["bridges", "paper", "direct"] | None, unless_said("bridges|paper|direct")] = None,
    papers_settings: bool = False,
    only: Names = None,
    workers: Processes = 0,
    redo: bool = False,
) -> None:
    """Run variants of a run with parts of the method left out; prints the paper's tables, writes RUN/ablations.md.

    Args:
        run: Run folder; its finished stages are what the variants stand on.
        truth: COLMAP model with the true poses of the walk; photos are matched by name.
        stages: Which stages to vary, of anchors,trajectory,update; those that the run holds without it.
        matchers: Also try these cross-view matchers for the anchors, e.g. sift,x-feat-star,light-glue-aliked.
        descriptors: Also try these global descriptors for finding places, e.g. scene-vlad,any-loc-b,mega-loc.
        route: How anchors are found with those matchers and descriptors, where it is not as in the run: by bridge
            views, by the paper's route, or by aerial photos matched directly; the method's own on that route is a row.
        papers_settings: Give the stages the paper's settings, one at a time, in place of leaving parts out.
        only: Variants to run, by the names of their folders, e.g. front-only,groups-of-2; without it all but
            papers-schedule, which takes hours.
        workers: Worker processes; 1 works in this process, 0 takes one per core as memory allows.
        redo: Replace variants that were made with other settings or inputs.
    """
    from skyanchor.cli.runs import ablated
    from skyanchor.evaluation.ablation_tables import NOTE, tables

    record, path = ablated(run, truth, (stages, matchers, descriptors, only), route, papers_settings, workers, redo)
    for table in tables(record):
        print_table(table.title, table.header, table.rows)
    print(f"{NOTE}\nwritten to {path}")


def report(run: RunPath, /, truth: Annotated[Path | None, unless_said("MODEL")] = None, json: bool = False) -> None:
    """Write RUN/report.html, one page with everything there is to see of a run, plots/*.png and runtime.json.

    Args:
        run: Run folder.
        truth: COLMAP model with the true poses, only to be drawn on the map.
        json: Print seconds per step and the most memory as JSON, which is also in runtime.json; write nothing.
    """
    from skyanchor.evaluation.metrics import true_poses
    from skyanchor.report.folder import write_report
    from skyanchor.run.results import open_run
    from skyanchor.run.runtime import runtime
    from skyanchor.storage import codec

    found = open_run(run)
    if truth is not None:
        true_poses(found, truth)
    print(codec.dumps(runtime(found)) if json else f"written to {write_report(found, truth)}\n", end="")


def view(run: RunPath, /, port: Port = 8080, host: Host = "127.0.0.1") -> None:
    """Show a run in the browser while it goes on: splat layers, cameras with their photos, the walk.

    Args:
        run: Run folder.
        port: Where the viewer listens.
        host: Address to listen at: this machine alone, or 0.0.0.0 for every machine that reaches it.
    """
    from skyanchor.report.live import LiveViewer, follow
    from skyanchor.report.live_folder import live_scene, state_of, status_of
    from skyanchor.run.results import open_run

    open_run(run)  # a folder that is no run is told before anything opens
    viewer = LiveViewer(port, host)
    named = {"127.0.0.1": "localhost", "0.0.0.0": socket.gethostname()}.get(host, host)
    print(f"http://{named}:{viewer.server.get_port()} shows {run}; Ctrl-C ends it", flush=True)
    try:
        follow(viewer, lambda: live_scene(open_run(run)), lambda: state_of(run), lambda: status_of(run))
    except KeyboardInterrupt:
        viewer.server.stop()
