"""The whole method: scaffold -> anchors -> trajectory -> scene, in `STAGES` and `run`; what they read stands below.

Methods take and return values; `stages` keep what they return in the run folder, here they stand in order. A scaffold
is prepared once, here or in a folder of its own, and any number of walks stand on it. The names of `presets` are found
here as well, as `pipeline.CPU`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from skyanchor import bounds
from skyanchor.anchors.priors import local_priors
from skyanchor.backends.choices import check_all
from skyanchor.errors import RecipeError
from skyanchor.events import ANCHORS, SCAFFOLD, SCENE, TRAJECTORY, Listener, Note, silent
from skyanchor.gaussians.devices import load_engine
from skyanchor.presets import CPU, GPU, PAPER, PRESETS, PipelineConfig, Preset, on_gpu, with_matcher  # noqa: F401
from skyanchor.run import prepared as parts
from skyanchor.run.earlier import EarlierRun
from skyanchor.run.executor import Executor
from skyanchor.run.folder import Made, RunFolder
from skyanchor.run.inputs import Inputs
from skyanchor.run.job import Job
from skyanchor.run.layout import STATE, held_recipe
from skyanchor.run.pool import IN_WORKERS
from skyanchor.run.prepared import Prepared, find_prepared
from skyanchor.run.recipe import settings_of
from skyanchor.run.records import SEQUENCE_FILE
from skyanchor.run.remembered import forgotten_if_refused
from skyanchor.scaffold import georeference, load_scaffold, warnings_of
from skyanchor.sequence import load_sequence, summary
from skyanchor.sequence.copies import Copies
from skyanchor.sequence.depth_files import check_depth
from skyanchor.sequence.same_photos import are_most, refuse_same_photos, same_photos
from skyanchor.stages import anchors, beforehand, outlook, places, scaffold, scene, splats, trajectory
from skyanchor.stages.cuts import cut_where_photos_say
from skyanchor.stages.earlier import earlier_runs
from skyanchor.stages.scaffold import GeometryConfig
from skyanchor.stages.work import Site, Work
from skyanchor.storage import codec, files
from skyanchor.storage.codec import Json
from skyanchor.types import Camera, Scaffold, Sequence

Earlier: TypeAlias = tuple[EarlierRun, ...]
"""Runs that a walk stands on."""
FRAMES = "frames"
"""In a run folder: frames of a video, upright copies of photos that are stored sideways."""
SETTINGS_FILE = "settings.json"
"""In .state/: the settings that a run was last started with."""


def read_settings(run: Path) -> PipelineConfig | None:
    """The settings that a run was last started with; None where it does not say so, or as another version did."""
    return files.recall(run / STATE / SETTINGS_FILE, PipelineConfig)


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
            work = read_work(folder, inputs, config, executor)
            tell_outlook(work, config, upto)
            if upto == SCENE:
                scene.check_given_splats(work.scaffold)
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


def read_work(folder: RunFolder, inputs: Inputs, config: PipelineConfig, executor: Executor) -> Work:
    """The user's data, read and checked; frames of a video are written to RUN/frames.

    InputError when the area that the walk is said to stay in has nothing to do with the model.
    """
    site = read_site(folder, inputs, config, executor)
    earlier = earlier_runs(folder, inputs.onto, site)
    local_priors(config.anchors.prior.near, site.scaffold)
    copies = Copies(folder.root / FRAMES, standing_frames(folder))
    sequence = load_sequence(inputs.ground, config.sequence, copies, folder.listen)
    refuse_known_photos(folder, inputs, sequence, site, earlier)
    if config.anchors.local.depth is not None:
        check_depth(config.anchors.local.depth, [frame.name for frame in sequence.frames])
    sequence = cut_where_photos_say(folder, sequence, config.sequence, config.anchors.odometry, executor)
    files.save(folder.root / STATE / SEQUENCE_FILE, sequence)
    return Work(folder, site, sequence, executor, earlier)


def refuse_known_photos(folder: RunFolder, inputs: Inputs, walk: Sequence, site: Site, onto: Earlier) -> None:
    """InputError where the walk is the flight itself; told where it is that of a run which it would stand on."""
    photos = [frame.path for frame in walk.frames]
    whose, advice = "holds photos of the aerial model", "Give the street photos or the video of the walk."
    refuse_same_photos(photos, [view.path for view in site.scaffold.views], inputs.ground, whose, advice)
    for one in onto:
        same = same_photos(photos, [frame.path for frame in one.run.sequence.frames])
        if are_most(same, photos):
            text = f"{len(same)} of {len(photos)} photos of this walk are those of {one.run.root}, which it stands on"
            folder.listen(Note(SCAFFOLD, f"{text}: what they bear out of each other says nothing", warning=True))


def standing_frames(folder: RunFolder) -> tuple[str, ...] | None:
    """Names of the photos in RUN/frames that stages stand on; None where there is no stage, or under redo."""
    held = files.recall(folder.root / STATE / SEQUENCE_FILE, Sequence)
    if held is None or folder.redo or held_recipe(folder.root / ANCHORS) is None:
        return None
    return tuple(frame.name for frame in held.frames if frame.path.parts[-3:-1] == (FRAMES, "images"))


def tell_outlook(work: Work, config: PipelineConfig, upto: str) -> None:
    """Tell the listener what was understood of the walk and how long the run may take."""
    first, *warnings = summary.told(work.sequence)
    work.run.listen(Note("walk", first))
    for warning in warnings:
        work.run.listen(Note("walk", warning, warning=True))
    load = outlook.remaining(work, upto, config.geometry)
    if any((load.megapixels, load.groups, load.frames, load.scene)):
        work.run.listen(Note("walk", str(outlook.estimate(load, config.geometry.stereo.backend.takes_turns))))


def read_site(folder: RunFolder, inputs: Inputs, config: PipelineConfig, executor: Executor) -> Site:
    """The scaffold that the walk stands on: one that was prepared before, or one in the run folder."""
    prepared = find_prepared(inputs.aerial)
    if prepared is None:
        held = load_scaffold(inputs.aerial, inputs.images, inputs.splats, config.scaffold)
        tell_of_model(held, folder.listen)
        return Site(held, Prepared(folder.root / SCAFFOLD), executor, folder.listen, folder.redo, known=folder.known)
    check_prepared_as_asked(prepared, config.geometry)
    held = prepared.scaffold(inputs.images, inputs.splats, config.scaffold.check_photos)
    scaffold.check_photos_are_those(folder, prepared, held)
    held = replace(held, georef=georeference.named(held.georef, config.scaffold.crs, prepared.root))
    return Site(held, prepared, executor, folder.listen, given=True, known=folder.known)


def tell_of_model(held: Scaffold, listen: Listener) -> None:
    """Tell the listener what looks wrong in an aerial model."""
    for warning in warnings_of(held):
        listen(Note(SCAFFOLD, warning, warning=True))


def check_prepared_as_asked(prepared: Prepared, config: GeometryConfig) -> None:
    """RecipeError when settings of depth or windows were asked for that are neither a preset's nor the scaffold's."""
    held, windows = dict(prepared.needed(parts.DEPTH).recipe.settings), prepared.part(parts.WINDOWS)
    if windows is not None:
        held["windows"] = windows.recipe.settings
    changed = [name for name, value in settings_of(config).items() if name in held and held[name] != value]
    if changed and config not in [preset.geometry for preset in PRESETS.values()]:
        names = ", ".join(f"--geometry.{name}" for name in changed)
        raise RecipeError(f"{prepared.root} was prepared with another {names}. Leave it out, or prepare anew.")


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
