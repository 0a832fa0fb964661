"""The whole method: scaffold -> anchors -> trajectory -> scene, in `STAGES` and `run`.

Methods take and return values; `stages` keep what they return in the run folder, here they stand in order. A scaffold
is prepared once, by `prepare` or by the first stage of a run, and any number of walks stand on it. What a run reads is
in `reading.py`. The names of `presets` are found here as well, as `pipeline.CPU`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from skyanchor import bounds
from skyanchor.backends.choices import check_all
from skyanchor.events import ANCHORS, SCAFFOLD, SCENE, TRAJECTORY, Listener, silent
from skyanchor.gaussians.devices import load_engine
from skyanchor.presets import (  # noqa: F401
    CPU,
    GPU,
    PAPER,
    PRESETS,
    SETTINGS_FILE,
    PipelineConfig,
    Preset,
    on_gpu,
    read_settings,
    with_matcher,
)
from skyanchor.reading import read_work, tell_of_model, tell_outlook
from skyanchor.run.executor import Executor
from skyanchor.run.folder import Made, RunFolder
from skyanchor.run.inputs import Inputs
from skyanchor.run.job import Job
from skyanchor.run.pool import IN_WORKERS
from skyanchor.run.prepared import Prepared
from skyanchor.run.remembered import forgotten_if_refused
from skyanchor.scaffold import load_scaffold
from skyanchor.stages import anchors, beforehand, places, scaffold, scene, splats, trajectory
from skyanchor.stages.work import Site, Work
from skyanchor.storage import codec
from skyanchor.storage.codec import Json
from skyanchor.types import Camera


@dataclass(frozen=True)
class Step:
    """One stage of the method."""

    name: str
    """Of its folder, its events and its recipe."""
    verb: str
    """The command that ends with it."""
    settings: Callable[[PipelineConfig], object]
    """Its part of the settings."""
    run: Callable[[Work, PipelineConfig, Made | None], Made]
    """The finished stage, from the one before it."""


def _needed(above: Made | None) -> Made:
    assert above is not None, "a stage after the first stands on the one before it"
    return above


STAGES = (
    Step(
        SCAFFOLD,
        "prepare",
        lambda config: config.geometry,
        lambda work, config, above: scaffold.run(work.site, config.geometry, config.scaffold),
    ),
    Step(
        ANCHORS,
        "anchors",
        lambda config: config.anchors,
        lambda work, config, above: anchors.run(work, config.anchors, _needed(above)),
    ),
    Step(
        TRAJECTORY,
        "trajectory",
        lambda config: config.trajectory,
        lambda work, config, above: trajectory.run(work, config.trajectory, _needed(above)),
    ),
    Step(
        SCENE,
        "update",
        lambda config: config.scene,
        lambda work, config, above: scene.run(work, config.scene, _needed(above)),
    ),
)


def run(folder: RunFolder, inputs: Inputs, config: PipelineConfig, executor: Executor, upto: str = SCENE) -> Made:
    """The stages in order up to one, each skipped where the folder holds it."""
    wanted = STAGES[: [step.name for step in STAGES].index(upto) + 1]
    above: Made | None = None
    with ExitStack() as whole:
        whole.enter_context(forgotten_if_refused(folder))
        bounds.check(config)
        with executor.held(IN_WORKERS):
            check_backends(config, wanted, executor)
            work = read_work(folder, inputs, config, executor, upto)
            tell_outlook(work, config, upto)
            executor.ahead(beforehand.street_jobs(work, config.anchors))
            if any(step.name == TRAJECTORY for step in wanted):
                executor.ahead(beforehand.pair_jobs(work, config.trajectory))
            if work.site.given:
                whole.enter_context(work.site.prepared.reading())
            for step in (step for step in wanted if step.name != SCENE):
                above = step.run(work, config, above)
        if upto == SCENE:  # trains in this process: the workers' memory is free for it
            above = STAGES[-1].run(work, config, above)
    return _needed(above)


def prepare(
    aerial: Path,
    out: Path,
    config: PipelineConfig,
    executor: Executor,
    images: Path | None = None,
    given_splats: Path | None = None,
    camera: Camera | None = None,
    redo: bool = False,
    listen: Listener = silent,
) -> Prepared:
    """A prepared scaffold in the folder `out`: everything that depends on the flight alone.

    Places are described for `camera`, the street camera that walks will be taken with, a phone's without it.
    """
    bounds.check(config)
    check_all(config.geometry, config.anchors.places, config.scene.aerial)
    held = load_scaffold(aerial, images, given_splats, config.scaffold)
    tell_of_model(held, listen)
    scene.check_given_splats(held)
    site = Site(held, Prepared(out), executor, listen, redo)
    with executor.held():
        surface = scaffold.run(site, config.geometry, config.scaffold)
        places.places_part(site, surface, camera or places.PHONE, config.anchors.places)
    if held.splats_path is None:
        engine = load_engine(config.scene.device)
        splats.splats_part(site, engine, config.scene.aerial_on(engine.device))
    return site.prepared


def check_backends(config: PipelineConfig, steps: tuple[Step, ...], executor: Executor) -> None:
    """SkyAnchorError before any work begins when a choice of the wanted stages is not here.

    A worker tries them: what it loads for that serves its jobs.
    """
    executor.run([Job.of(check_backends_job, config=config, verbs=tuple(step.verb for step in steps))])


def check_backends_job(config: Json, verbs: list[str], listen: Listener) -> None:
    """BackendError when a choice of the stages of these verbs is not here."""
    settings = codec.from_json(PipelineConfig, config)
    check_all(*(step.settings(settings) for step in STAGES if step.verb in verbs))
