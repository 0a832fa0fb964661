"""Verbs that run stages: their options are the stages' own settings, so this is imported only when one is asked for."""

from __future__ import annotations

import difflib
import math
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import tyro

from skyanchor import bounds, pipeline
from skyanchor.anchors.area_file import read_area
from skyanchor.anchors.priors import Near, Prior
from skyanchor.backends import weights
from skyanchor.cli import kernels
from skyanchor.cli.options import Options, Preparation
from skyanchor.cli.stopping import accounted
from skyanchor.cli.words import Typed, names_of, refused_in_a_line
from skyanchor.errors import BackendError, InputError, NothingPlacedError, SkyAnchorError
from skyanchor.events import ANCHORS, TRAJECTORY, Listener, Note
from skyanchor.gaussians import ply
from skyanchor.gaussians.gsplat_adapter import missing_for_cuda
from skyanchor.presets import SETTINGS_FILE, PipelineConfig, read_settings
from skyanchor.report import outcome
from skyanchor.report.map_ahead import MapAhead
from skyanchor.report.progress import Standing, display, every, log_file, spoken
from skyanchor.run.executor import Executor, executor_of
from skyanchor.run.folder import RunFolder
from skyanchor.run.inputs import INPUTS_FILE, Inputs, remember_command
from skyanchor.run.layout import OF_A_RUN, STATE, Layout, claim, refuse_among
from skyanchor.run.prepared import OF_A_SCAFFOLD
from skyanchor.run.results import VERB_AGAIN, Run
from skyanchor.scaffold import loading
from skyanchor.sequence.loading import street_camera
from skyanchor.storage import files

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from skyanchor.evaluation.ablate import AblationRecord
    from skyanchor.evaluation.ablations import AblationRoute

Settings: TypeAlias = Annotated[PipelineConfig, tyro.conf.arg(name="")]
Everyday: TypeAlias = Annotated[Options, tyro.conf.arg(name="")]
Ahead: TypeAlias = Annotated[Preparation, tyro.conf.arg(name="")]
Work: TypeAlias = Callable[[RunFolder, Inputs, PipelineConfig, Executor], object]
"""A function of the pipeline that runs the stages up to one."""
NOTHING_PLACED = 3
"""Exit code when the run ended well and no group of frames could be placed."""
ABLATIONS = "ablations.md"


def parse_and_run(name: str, words: Sequence[str]) -> int:
    """Run a verb with the arguments after it; the exit code."""
    everyday = Preparation if name == "prepare" else Options
    refuse_unknown(name, words, everyday)
    preset = chosen_preset(asked_preset(words))
    command = (
        preparing(preset)
        if name == "prepare"
        else verb(reported(name), preset, shlex.join(["skyanchor", name, *words]), stages_of(name))
    )
    typed = Typed(words, lambda: (*everyday_names(everyday), *names_of(preset.config)), everyday)
    with refused_in_a_line(f"skyanchor {name}", typed):
        return tyro.cli(
            bounds.checked(command), prog=f"skyanchor {name}", args=list(words), config=(tyro.conf.FlagCreatePairsOff,)
        )


def refuse_unknown(name: str, words: Sequence[str], everyday: type[DataclassInstance]) -> None:
    """SkyAnchorError for an everyday option that there is not, in one line instead of all settings of all stages."""
    known = everyday_names(everyday)
    for word in (word.partition("=")[0] for word in words if word.startswith("--")):
        if "." not in word and word not in known:
            near = difflib.get_close_matches(word, known, 1)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise SkyAnchorError(f"there is no option {word}.{meant} `skyanchor {name} --help` names them.")


def everyday_names(everyday: type[DataclassInstance]) -> list[str]:
    """The everyday options as they are written."""
    return [f"--{field.name}" for field in fields(everyday)]


def verb(work: Work, preset: ChosenPreset, typed: str, stages: int = 0) -> Callable[..., int]:
    """A command that runs stages, with a preset's settings as defaults; it returns the exit code."""

    def command(options: Everyday, settings: Settings = preset.config) -> int:
        """Run the stages."""
        settings = with_options(settings, options)
        engine = executor_of(options.workers, options.engine)
        refuse_among(options.out, options.ground)
        with opened(options.out, options.redo, stages) as folder:
            given = (options.scaffold, options.ground, options.images, options.splats)
            inputs = remembered(options.out, *given, options.onto)
            files.save(options.out / STATE / SETTINGS_FILE, settings)
            remember_command(options.out, typed)
            folder.listen(Note("view", f"`skyanchor view {options.out}` shows the run in a browser while it goes on"))
            if preset.why:
                folder.listen(Note("preset", preset.why))
            with suppress(NothingPlacedError):
                work(folder, inputs, settings, engine)
        return said_of_the_groups(options.out)

    return command


def preparing(preset: ChosenPreset) -> Callable[..., int]:
    """The command that prepares a scaffold, with a preset's settings as defaults; it returns the exit code."""

    def command(options: Ahead, settings: Settings = preset.config) -> int:
        """Prepare the scaffold."""
        settings = with_crs(settings, options.crs)
        engine, config = executor_of(options.workers, options.engine), replace(settings.sequence, camera=options.camera)
        camera = None if options.ground is None and options.camera is None else street_camera(options.ground, config)
        with told(options.out, layout=OF_A_SCAFFOLD) as listen:
            kernels.announce(listen)
            if preset.why:
                listen(Note("preset", preset.why))
            given = (options.images, options.splats, camera, options.redo, listen)
            prepared = pipeline.prepare(options.aerial, options.out, settings, engine, *given)
        print(f"{prepared.root} is ready: skyanchor update --scaffold {prepared.root} --ground WALK --out RUN")
        return 0

    return command


def with_options(settings: PipelineConfig, options: Options) -> PipelineConfig:
    """The settings with what the everyday options say of camera and place."""
    if options.camera is not None:
        settings = replace(settings, sequence=replace(settings.sequence, camera=options.camera))
    settings = with_crs(settings, options.crs)
    if options.near is not None or options.within is not None:
        prior = replace(settings.anchors.prior, near=given_priors(options.near, options.within))
        settings = replace(settings, anchors=replace(settings.anchors, prior=prior))
    return settings


def with_crs(settings: PipelineConfig, name: str | None) -> PipelineConfig:
    """The settings with the map projection of the aerial model, where one is named."""
    return settings if name is None else replace(settings, scaffold=replace(settings.scaffold, crs=name))


def said_of_the_groups(run: Path) -> int:
    """Print what was placed, which stretches were not, why, and what to try; the exit code."""
    found = Run(run)
    if not found.has(ANCHORS):
        return 0
    groups, said = found.anchors.groups, outcome.known(found)
    if not any(group.accepted for group in groups):
        print(outcome.none_placed(groups, said))
        return NOTHING_PLACED
    frames = found.trajectory_record.frames if found.has(TRAJECTORY) else ()
    print(f"{outcome.placed(groups, frames)}.", *outcome.refused(groups, found.names, said), sep="\n")
    return 0


# --- presets ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChosenPreset:
    """Settings to start from."""

    config: PipelineConfig
    why: str = ""
    """One line for people where nobody asked for it by name."""


def asked_preset(words: Sequence[str], usual: str = "auto") -> str:
    """What `--preset` says in the arguments, the usual one without it."""
    split = [part for word in words for part in word.split("=", 1)]
    return next((value for word, value in pairwise(split) if word == "--preset"), usual)


def chosen_preset(asked: str) -> ChosenPreset:
    """The preset by name, or the one for this machine; BackendError for gpu where there is none."""
    missing = missing_for_cuda() if asked in ("auto", "gpu", "paper") else None
    if asked == "auto" and missing is None:
        return ChosenPreset(pipeline.GPU, "gpu, because everything for CUDA is here; --preset cpu says otherwise")
    if asked == "auto":
        return ChosenPreset(pipeline.CPU, f"cpu, because {str(missing).partition(':')[0]}")
    if asked == "gpu" and "torch sees none" in str(missing):
        raise BackendError(
            "--preset gpu needs an NVIDIA GPU and a CUDA build of torch, and torch sees none here. Use --preset cpu."
        )
    if asked == "paper" and missing is None:
        return ChosenPreset(pipeline.on_gpu(pipeline.PAPER))
    return ChosenPreset(next((config for name, config in pipeline.PRESETS.items() if name == asked), pipeline.CPU))


# --- inputs -------------------------------------------------------------------------------------------------------


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
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(radius) and radius > 0.0):
        raise SkyAnchorError(f"--near {text}: x and y must be finite and the radius above 0, metres, e.g. 120,-35,60")
    return Near(x, y, radius)


@contextmanager
def told(root: Path, stages: int = 0, layout: Layout = OF_A_RUN) -> Iterator[Listener]:
    """Progress of so many stages on stderr and in log.txt of a folder; an early end says where the work stands.

    Nothing is written to a folder of others.
    """
    standing = Standing()
    claim(root, layout)
    with (
        display(sys.stderr, stages) as show,
        log_file(root) as log,
        spoken(weights.__name__, show),
        spoken(loading.__name__, show),
        spoken(ply.__name__, show),
        accounted(root, standing),
    ):
        yield every(standing, show, log)


@contextmanager
def opened(root: Path, redo: bool, stages: int = 0) -> Iterator[RunFolder]:
    """The run folder, with all that `told` does."""
    with told(root, stages) as listen, RunFolder(root, redo, listen) as run:
        yield run


def remembered_settings(run: Path) -> PipelineConfig:
    """The settings of the last time."""
    held = read_settings(run)
    if held is None:
        raise InputError(run, "does not say with which settings it was made", VERB_AGAIN)
    return held


def remembered(
    run: Path,
    aerial: Path | None,
    ground: Path | None,
    images: Path | None,
    splats: Path | None,
    onto: tuple[Path, ...] = (),
) -> Inputs:
    """The inputs given now, else those of the last time."""
    path = run / STATE / INPUTS_FILE
    known = files.recall(path, Inputs)
    aerial = aerial or (known.aerial if known else None)
    ground = ground or (known.ground if known else None)
    if aerial is None or ground is None:
        raise SkyAnchorError(f"{run}: which data? Give --scaffold and --ground the first time.")
    given = [images or (known.images if known else None), splats or (known.splats if known else None)]
    onto = tuple(path.resolve() for path in onto) or (known.onto if known else ())
    photos, gaussians = (path.resolve() if path else None for path in given)
    inputs = Inputs(aerial.resolve(), ground.resolve(), photos, gaussians, onto)
    files.save(path, inputs)
    return inputs


def stages_of(verb_name: str) -> int:
    """How many stages a verb runs."""
    return [step.verb for step in pipeline.STAGES].index(verb_name) + 1


def reported(verb_name: str) -> Work:
    """The stages up to a verb's, then the report: also when they failed, for then people need it most."""
    upto = next(step.name for step in pipeline.STAGES if step.verb == verb_name)

    def run_and_report(run: RunFolder, inputs: Inputs, config: PipelineConfig, executor: Executor) -> None:
        kernels.announce(run.listen)
        drawing = MapAhead(run.root)
        run.listen = every(run.listen, drawing)
        try:
            pipeline.run(run, inputs, config, executor, upto)
        except SkyAnchorError:
            with suppress(SkyAnchorError):
                _report(run, drawing)
            raise
        _report(run, drawing)

    return run_and_report


def _report(run: RunFolder, drawing: MapAhead) -> None:
    """report.html of the run, once there are anchors."""
    from skyanchor.report.folder import write_report

    found = Run(run.root)
    if found.has(ANCHORS):
        page = write_report(found, above=drawing.map())
        run.listen(Note("report", f"written to {page}; `skyanchor view {run.root}` shows the scene"))


def ablated(
    root: Path,
    truth: Path,
    chosen: tuple[str | None, str | None, str | None, str | None],
    route: AblationRoute | None,
    papers: bool,
    workers: int,
    redo: bool,
) -> tuple[AblationRecord, Path]:
    """The measured variants of a run, and the Markdown file that shows them.

    `chosen` are the lists of stages, matchers, descriptors and names that the options give, `route` how anchors are
    found with those matchers and descriptors, `papers` whether the paper's settings are tried one at a time.
    """
    from skyanchor.evaluation import ablate, ablation_tables, perceptual

    stages, matchers, descriptors, only = map(_words, chosen)
    variants = ablate.chosen_variants(root, stages, matchers, descriptors, only, route, papers)
    config, lpips_weights = remembered_settings(root), perceptual.find_weights()
    engine = executor_of(workers)
    with opened(root, False) as run:
        inputs = remembered(root, None, None, None, None)
        lpips = lpips_weights.load() if lpips_weights is not None else None
        record = ablate.ablate(ablate.Subject(run, inputs, config, engine, truth.resolve(), lpips, redo), variants)
        files.write_bytes(root / ABLATIONS, ablation_tables.markdown(record).encode())
    return record, root / ABLATIONS


def _words(text: str | None) -> tuple[str, ...]:
    """The names in a list with commas; SkyAnchorError for a list without any, which would be taken for all."""
    found = tuple(word.strip() for word in (text or "").split(",") if word.strip())
    if text is not None and not found:
        raise SkyAnchorError(f"{text!r} names nothing. Leave the option out, or name what is meant.")
    return found
