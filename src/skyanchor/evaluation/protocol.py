"""The paper's protocol on a scene that `dataset` made: run, measured, and set beside the paper's row."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from skyanchor import pipeline
from skyanchor.errors import InputError, NothingPlacedError
from skyanchor.evaluation.metrics import Perceptual, evaluate_run, write_metrics
from skyanchor.evaluation.paper_scenes import PaperRow
from skyanchor.evaluation.split_model import PROTOCOL_FILE, Protocol, Walk
from skyanchor.events import Listener, silent
from skyanchor.presets import SETTINGS_FILE, PipelineConfig
from skyanchor.run.executor import Executor
from skyanchor.run.folder import RunFolder
from skyanchor.run.inputs import INPUTS_FILE, Inputs, remember_command
from skyanchor.run.layout import STATE
from skyanchor.run.metrics import ImageMetrics, Metrics, PoseMetrics
from skyanchor.run.results import Run
from skyanchor.sequence import SubmapConfig
from skyanchor.storage import files
from skyanchor.storage.names import beneath

ROWS_FILE = "rows.json"


@dataclass(frozen=True)
class Row:
    """What a scene came to, in the columns of the paper's tables."""

    anchors: PoseMetrics
    trajectory: PoseMetrics
    aerial: ImageMetrics
    ground: ImageMetrics


@dataclass(frozen=True)
class Rows:
    """rows.json: ours, and the paper's where it has one."""

    title: str
    ours: Row
    paper: PaperRow | None
    seconds: dict[str, float]
    """Per stage, all walks together."""


def read_protocol(scene: Path) -> Protocol:
    """How a scene is run; its walks lie beneath it, and so do their runs beneath theirs."""
    path, again = scene / PROTOCOL_FILE, "Make the scene anew with `skyanchor dataset`."
    if not path.is_file():
        raise InputError(scene, f"has no {PROTOCOL_FILE}", "Make the scene with `skyanchor dataset` first.")
    held = files.load(path, Protocol, again)
    if not held.walks:
        raise InputError(path, "names no walk", again)
    for walk in held.walks:
        beneath(scene, walk.folder)
    return held


@dataclass(frozen=True)
class Wanted:
    """How the walks of a scene are run."""

    config: PipelineConfig
    executor: Executor
    upto: str
    """The last stage."""
    perceptual: Perceptual | None = None
    redo: bool = False
    """Replace stages that were made with other settings or inputs."""
    typed: str = ""
    """The command, for the report."""


def run_protocol(scene: Path, out: Path, wanted: Wanted, listen: Listener = silent) -> Rows:
    """Every walk of the scene run up to a stage on one scaffold, scored on its truth without alignment.

    Walks do not know each other: the paper localises every segment by the flight alone.
    """
    protocol = read_protocol(scene)
    first = out / protocol.walks[0].folder
    measured: list[Metrics] = []
    for walk in protocol.walks:
        root = out / walk.folder
        inputs = Inputs((scene / "aerial" if root == first else first).resolve(), (scene / walk.folder).resolve())
        _run_walk(root, inputs, replace(wanted, config=walk_config(wanted.config, protocol, walk)), listen)
        measured.append(evaluate_run(Run(root), scene / walk.folder / "truth", perceptual=wanted.perceptual))
        write_metrics(Run(root), measured[-1])
    rows = Rows(protocol.title, pooled(measured), protocol.paper, _seconds(measured))
    files.save(out / ROWS_FILE, rows)
    return rows


def _run_walk(root: Path, inputs: Inputs, wanted: Wanted, listen: Listener) -> None:
    """One walk in a run folder that other verbs know; one of which nothing can be placed has its row all the same."""
    with RunFolder(root, wanted.redo, listen) as folder:
        files.save(root / STATE / INPUTS_FILE, inputs)
        files.save(root / STATE / SETTINGS_FILE, wanted.config)
        if wanted.typed:
            remember_command(root, wanted.typed)
        with suppress(NothingPlacedError):
            pipeline.run(folder, inputs, wanted.config, wanted.executor, wanted.upto)


def walk_config(config: PipelineConfig, protocol: Protocol, walk: Walk) -> PipelineConfig:
    """The settings with the scene's camera and the paper's layout of groups."""
    cut = SubmapConfig(protocol.submap, protocol.group_size, join_boundaries=False)
    return replace(config, sequence=replace(config.sequence, camera=walk.camera, cut=cut))


# --- one row of several walks -------------------------------------------------------------------------------------


def pooled(measured: Sequence[Metrics]) -> Row:
    """All walks as one: frames added up, errors by the frames that have them."""
    return Row(
        pooled_poses([metrics.anchors for metrics in measured]),
        pooled_poses([metrics.trajectory for metrics in measured]),
        _mean_images([metrics.render.aerial for metrics in measured]),
        _mean_images([metrics.render.ground for metrics in measured]),
    )


def pooled_poses(walks: Sequence[PoseMetrics]) -> PoseMetrics:
    """sqrt(Σ n e² / Σ n) over the walks with an error e of n frames."""
    errors = [(w.registered, (w.ate_m, w.rpe_t_m, w.rpe_r_deg)) for w in walks]
    columns = [[(n, held[k]) for n, held in errors] for k in range(3)]
    return PoseMetrics(sum(w.registered for w in walks), sum(w.total for w in walks), *map(_root_mean, columns))


def _root_mean(column: Sequence[tuple[int, float | None]]) -> float | None:
    held = [(n, error) for n, error in column if error is not None and n > 0]
    if not held:
        return None
    return float(np.sqrt(sum(n * error**2 for n, error in held) / sum(n for n, _ in held)))


def _mean_images(walks: Sequence[ImageMetrics]) -> ImageMetrics:
    columns = ([w.psnr for w in walks], [w.ssim for w in walks], [w.lpips for w in walks])
    return ImageMetrics(*map(_mean, columns))


def _mean(column: Sequence[float | None]) -> float | None:
    held = [value for value in column if value is not None]
    return float(np.mean(held)) if held else None


def _seconds(measured: Sequence[Metrics]) -> dict[str, float]:
    stages = sorted({stage for metrics in measured for stage in metrics.seconds})
    return {stage: sum(metrics.seconds.get(stage, 0.0) for metrics in measured) for stage in stages}
