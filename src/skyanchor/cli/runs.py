"""Verbs that run stages: their options are the stages' own settings, so this is imported only when one is asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import tyro

from skyanchor.anchors.area_file import read_area
from skyanchor.anchors.priors import Near, Prior
from skyanchor.backends import weights
from skyanchor.errors import InputError, SkyAnchorError
from skyanchor.events import Note
from skyanchor.pipeline import Inputs, PipelineConfig, Preset
from skyanchor.report.progress import display, every, log_file, spoken
from skyanchor.run import records
from skyanchor.run.executor import Executor, executor_of
from skyanchor.run.folder import STATE, RunFolder
from skyanchor.storage import files

if TYPE_CHECKING:
    from skyanchor.evaluation.ablate import AblationRecord

Settings: TypeAlias = Annotated[PipelineConfig, tyro.conf.arg(name="")]
Work: TypeAlias = Callable[[RunFolder, Inputs, PipelineConfig, Executor], object]
"""A function of the pipeline that runs the stages up to one."""
SETTINGS = "settings.json"
"""In .state/: the settings of the last time."""
ABLATIONS = "ablations.md"


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
        within: Path | None = None,
        preset: Preset = "cpu",
        workers: int = 0,
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
            near: The walk stays within this x,y,radius, metres in the coordinates of the aerial model.
            within: The walk stays in this area: GeoJSON, or lines of x,y in the coordinates of the aerial model.
            preset: Settings to start from.
            workers: Worker processes; 1 works in this process, 0 takes one per core as memory allows.
            redo: Replace stages that were made with other settings or inputs.
            settings: Settings of the stages.
        """
        if camera is not None:
            settings = replace(settings, sequence=replace(settings.sequence, camera=camera))
        if near is not None or within is not None:
            prior = replace(settings.anchors.prior, near=given_priors(near, within))
            settings = replace(settings, anchors=replace(settings.anchors, prior=prior))
        engine = executor_of(workers)
        with opened(out, redo) as folder:
            inputs = remembered(out, scaffold, ground, images, splats)
            files.save(out / STATE / SETTINGS, settings)
            work(folder, inputs, settings, engine)

    return command


def given_priors(near: str | None, within: Path | None) -> tuple[Prior, ...]:
    """The priors that `--near` or `--within` gives."""
    if near is not None and within is not None:
        raise SkyAnchorError("--near and --within both say where the walk was: give one of them")
    return (near_place(near),) if near is not None else read_area(within) if within is not None else ()


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
    with (
        display(sys.stderr) as show,
        log_file(root) as log,
        spoken(weights.__name__, show),
        RunFolder(root, redo, every(show, log)) as run,
    ):
        yield run


def remembered_settings(run: Path) -> PipelineConfig:
    """The settings of the last time."""
    path = run / STATE / SETTINGS
    if not path.is_file():
        advice = "Run its last verb once more with the same options: nothing is done again."
        raise InputError(run, "does not say with which settings it was made", advice)
    return files.load(path, PipelineConfig)


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


def reported(work: Work) -> Work:
    """The same work, and the report of what is there after it: also when it failed, for then people need it most."""

    def run_and_report(run: RunFolder, inputs: Inputs, config: PipelineConfig, executor: Executor) -> None:
        try:
            work(run, inputs, config, executor)
        except SkyAnchorError:
            with suppress(SkyAnchorError):
                _report(run)
            raise
        _report(run)

    return run_and_report


def _report(run: RunFolder) -> None:
    """report.html of the run, once there are anchors."""
    from skyanchor.report.folder import write_report
    from skyanchor.report.run_data import finished, run_scaffold

    if finished(run.root, records.ANCHORS):
        page = write_report(run.root, run_scaffold(run.root))
        run.listen(Note("report", f"written to {page}"))


def ablated(
    root: Path,
    truth: Path,
    chosen: tuple[str | None, str | None, str | None, str | None],
    workers: int,
    redo: bool,
) -> tuple[AblationRecord, Path]:
    """The measured variants of a run, and the Markdown file that shows them.

    `chosen` are the lists of stages, matchers, descriptors and names that the options give.
    """
    from skyanchor.evaluation import ablate, ablation_tables, perceptual

    variants = ablate.chosen_variants(root, *map(_words, chosen))
    config, lpips_weights = remembered_settings(root), perceptual.find_weights()
    engine = executor_of(workers)
    with opened(root, False) as run:
        inputs = remembered(root, None, None, None, None)
        lpips = lpips_weights.load() if lpips_weights is not None else None
        record = ablate.ablate(ablate.Subject(run, inputs, config, engine, truth.resolve(), lpips, redo), variants)
        files.write_bytes(root / ABLATIONS, ablation_tables.markdown(record).encode())
    return record, root / ABLATIONS


def _words(text: str | None) -> tuple[str, ...]:
    """The names in a list with commas."""
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())
