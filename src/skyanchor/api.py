"""The commands as functions: the same stages in the same folders, with values to go on with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skyanchor import pipeline
from skyanchor.evaluation.metrics import evaluate_run, write_metrics
from skyanchor.evaluation.perceptual import find_weights
from skyanchor.events import ANCHORS, SCENE, TRAJECTORY, Listener, silent
from skyanchor.opened import Run, open_run
from skyanchor.presets import CPU, PipelineConfig
from skyanchor.run.executor import PROCESSES, Executor, executor_of
from skyanchor.run.folder import RunFolder
from skyanchor.run.inputs import INPUTS_FILE, Inputs
from skyanchor.run.layout import STATE, refuse_among
from skyanchor.run.metrics import Metrics
from skyanchor.run.prepared import Prepared
from skyanchor.stages import merge as merge_stage
from skyanchor.stages.merge import Merged
from skyanchor.storage import files
from skyanchor.trajectory.network import NetworkConfig
from skyanchor.types import Camera


def prepare(
    aerial: Path | str,
    out: Path | str,
    config: PipelineConfig = CPU,
    *,
    camera: Camera | None = None,
    workers: int = 0,
    engine: str = PROCESSES,
    redo: bool = False,
    listen: Listener = silent,
) -> Prepared:
    """An aerial model made ready for any number of walks: depth, surface, places, splats, in the folder `out`.

    Places are described for `camera`, the street camera of the walks, a phone's without it; walks with another one add
    theirs. `workers` 0 takes one process per core as memory allows; `engine` is `processes`, `ray` or `ray:HOST:PORT`.
    """
    return pipeline.prepare(
        Path(aerial), Path(out), config, executor_of(workers, engine), camera=camera, redo=redo, listen=listen
    )


def localise(
    scaffold: Path | str,
    ground: Path | str,
    out: Path | str,
    config: PipelineConfig = CPU,
    *,
    onto: Sequence[Path | str] = (),
    workers: int = 0,
    engine: str = PROCESSES,
    redo: bool = False,
    listen: Listener = silent,
) -> Run:
    """Stage 2 of a walk: a verdict on every anchor group, in the run folder `out`.

    `scaffold` is a prepared one, or a plain aerial model, from which one is made in the run folder. `onto` are runs of
    earlier walks on the same flight: their photos and poses support this walk beside the flight.
    """
    inputs = _inputs(scaffold, ground, onto)
    return _run(inputs, Path(out), config, executor_of(workers, engine), redo, listen, ANCHORS)


def recover(
    scaffold: Path | str,
    ground: Path | str,
    out: Path | str,
    config: PipelineConfig = CPU,
    *,
    onto: Sequence[Path | str] = (),
    workers: int = 0,
    engine: str = PROCESSES,
    redo: bool = False,
    listen: Listener = silent,
) -> Run:
    """Stages 2 and 3 of a walk: a pose or a reason for every frame; the arguments are those of `localise`."""
    inputs = _inputs(scaffold, ground, onto)
    return _run(inputs, Path(out), config, executor_of(workers, engine), redo, listen, TRAJECTORY)


def update(
    scaffold: Path | str,
    ground: Path | str,
    out: Path | str,
    config: PipelineConfig = CPU,
    *,
    onto: Sequence[Path | str] = (),
    workers: int = 0,
    engine: str = PROCESSES,
    redo: bool = False,
    listen: Listener = silent,
) -> Run:
    """The whole job: poses, and the street added to the splats; the arguments are those of `localise`."""
    inputs = _inputs(scaffold, ground, onto)
    return _run(inputs, Path(out), config, executor_of(workers, engine), redo, listen, SCENE)


def _inputs(scaffold: Path | str, ground: Path | str, onto: Sequence[Path | str]) -> Inputs:
    earlier = tuple(Path(path).resolve() for path in onto)
    return Inputs(Path(scaffold).resolve(), Path(ground).resolve(), onto=earlier)


def _run(
    inputs: Inputs, out: Path, config: PipelineConfig, executor: Executor, redo: bool, listen: Listener, upto: str
) -> Run:
    refuse_among(out, inputs.ground)
    with RunFolder(out, redo, listen) as folder:
        files.save(out / STATE / INPUTS_FILE, inputs)
        pipeline.run(folder, inputs, config, executor, upto)
    return open_run(out)


def merge(runs: Sequence[Run | Path | str], out: Path | str, adjust: NetworkConfig | None = None) -> Merged:
    """One COLMAP model of the flight and all walks, and a trajectory of each, in the empty folder `out`.

    With `adjust` the walks are adjusted together before, the flight constant.
    """
    roots = tuple(run.root if isinstance(run, Run) else Path(run) for run in runs)
    return merge_stage.merge(roots, Path(out), adjust)


def evaluate(run: Run | Path | str, truth: Path | str, align: bool = False) -> Metrics:
    """Errors of a run against true poses, and of its held-out views; writes metrics.json. No pose is aligned.

    `align` adds the errors after a Sim(3), for methods without a metric frame. LPIPS needs weights, see `doctor`.
    """
    held = run if isinstance(run, Run) else open_run(run)
    weights = find_weights()
    metrics = evaluate_run(held, Path(truth), align, weights.load() if weights is not None else None)
    write_metrics(held, metrics)
    return metrics
