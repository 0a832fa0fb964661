"""Verbs that run stages: their options are the stages' own settings, so this is imported only when one is asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeAlias

import tyro

from skyanchor import files, pipeline, records
from skyanchor.anchors.places import Near
from skyanchor.errors import SkyAnchorError
from skyanchor.events import Note
from skyanchor.executor import Executor, InProcess, Processes
from skyanchor.pipeline import Inputs, PipelineConfig, Preset
from skyanchor.report.progress import display, every, log_file
from skyanchor.run_folder import RECIPE, STATE, RunFolder
from skyanchor.scaffold import load_scaffold

Settings: TypeAlias = Annotated[PipelineConfig, tyro.conf.arg(name="")]
Work: TypeAlias = Callable[[RunFolder, Inputs, PipelineConfig, Executor], object]
"""A function of the pipeline that runs the stages up to one."""


def verb(work: Work, default: PipelineConfig) -> Callable[..., None]:
    """A command that runs stages, with a preset's settings as defaults."""

    def command(
        out: Path,
        scaffold: Path | None = None,
        ground: Path | None = None,
        images: Path | None = None,
        splats: Path | None = None,
        camera: str | None = None,
        near: str | None = None,
        preset: Preset = "cpu",
        workers: int = 1,
        redo: bool = False,
        settings: Settings = default,
    ) -> None:
        """Run the stages.

        Args:
            out: Run folder; what is there already and was made the same way is kept.
            scaffold: Folder with sparse/ (or sparse/0) and images/, or the COLMAP model. Needed the first time.
            ground: Folder of street photos, or a video. Needed the first time.
            images: Folder of the aerial photos, where it is not found beside the model.
            splats: Aerial Gaussian model, a .ply of the INRIA convention.
            camera: Street camera: MODEL,params in COLMAP order (PINHOLE,fx,fy,cx,cy) or f=900, pixels.
            near: The walk stays within this x,y,radius, metres in the aerial frame.
            preset: Settings to start from.
            workers: Worker processes; 1 works in this process, 0 takes one per core.
            redo: Replace stages that were made with other settings or inputs.
            settings: Settings of the stages.
        """
        if camera is not None:
            settings = replace(settings, sequence=replace(settings.sequence, camera=camera))
        if near is not None:
            prior = replace(settings.anchors.prior, near=(near_place(near),))
            settings = replace(settings, anchors=replace(settings.anchors, prior=prior))
        engine: Executor = InProcess() if workers == 1 else Processes(workers)
        with opened(out, redo) as folder:
            work(folder, remembered(out, scaffold, ground, images, splats), settings, engine)

    return command


def near_place(text: str) -> Near:
    """The prior that `x,y,radius` names."""
    try:
        x, y, radius = (float(part) for part in text.split(","))
    except ValueError as error:
        raise SkyAnchorError(f"--near {text}: give x,y,radius, three numbers with commas, e.g. 120,-35,60") from error
    return Near(x, y, radius)


@contextmanager
def opened(root: Path, redo: bool) -> Iterator[RunFolder]:
    """The run folder with progress on stderr and in log.txt."""
    with display(sys.stderr) as show, log_file(root) as log, RunFolder(root, redo, every(show, log)) as run:
        yield run


def remembered(run: Path, aerial: Path | None, ground: Path | None, images: Path | None, splats: Path | None) -> Inputs:
    """The inputs given now, else those of the last time."""
    path = run / STATE / "inputs.json"
    known = files.load(path, Inputs) if path.is_file() else None
    aerial = aerial or (known.aerial if known else None)
    ground = ground or (known.ground if known else None)
    if aerial is None or ground is None:
        raise SkyAnchorError(f"{run}: which data? Give --scaffold and --ground the first time.")
    given = [images or (known.images if known else None), splats or (known.splats if known else None)]
    inputs = Inputs(aerial.resolve(), ground.resolve(), *(path.resolve() if path else None for path in given))
    files.save(path, inputs)
    return inputs


def run_update(run: RunFolder, inputs: Inputs, config: PipelineConfig, executor: Executor) -> None:
    """All stages, and the report: also when the anchors were refused, which is when people need it most."""
    from skyanchor.report.folder import write_report

    try:
        pipeline.run_update(run, inputs, config, executor)
    finally:
        if (run.root / records.ANCHORS / RECIPE).is_file():
            page = write_report(run.root, load_scaffold(inputs.aerial, inputs.images, inputs.splats, config.scaffold))
            run.listen(Note("report", f"written to {page}"))
