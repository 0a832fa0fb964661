"""Stage 2, the anchors: a verdict on every anchor group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.focal import FocalVotes, vote_focal
from skyanchor.anchors.frames import GroundFrames
from skyanchor.anchors.group import PreparedScaffold
from skyanchor.anchors.odometry import Steps, measure_steps
from skyanchor.anchors.places import PlaceIndex, choose_nodes
from skyanchor.anchors.priors import Area, local_priors
from skyanchor.anchors.walk import GroupTask, GroupVerdict, Runners, localise_all, localise_task
from skyanchor.bridges.ground import Ground
from skyanchor.bridges.surface import Surface
from skyanchor.bridges.views import AerialAtlas
from skyanchor.events import ANCHORS, Listener, Note
from skyanchor.run import prepared as parts
from skyanchor.run import records
from skyanchor.run.executor import Job
from skyanchor.run.folder import PROGRESS, Made, Stage
from skyanchor.run.records import AnchorSeconds, AnchorsRecord, GroupSeconds
from skyanchor.scaffold import georeference, visibility_graph
from skyanchor.stages.places import described, describing, place_descriptor, places_part
from skyanchor.stages.scaffold import SCAFFOLD_FILE, load_scaffold_file
from skyanchor.stages.survey import Work, free_digests, ground_digests, value_digest
from skyanchor.storage import codec, files
from skyanchor.storage.codec import Json
from skyanchor.types import Anchors, Sequence

CONTEXT, SETTINGS = "context.json", "settings.json"
"""Files in the progress folder that the jobs share."""
STEPS_PER_JOB = 40
"""Steps between frames that one job measures."""


@dataclass(frozen=True)
class Context:
    """Where the jobs find what all groups share."""

    scaffold: Path
    sequence: Path
    surface: Path
    ground: Path
    places: Path


def run(work: Work, config: AnchorConfig, surface: Made) -> Made:
    """A verdict on every anchor group: poses in the scaffold's frame, or the reason why not."""
    scaffold, sequence = work.scaffold, work.sequence
    settings: dict[str, object] = {"anchors": config, "camera": sequence.camera, "groups": sequence.groups}
    if sequence.gps or any(isinstance(prior, Area) for prior in config.prior.near):  # they are laid on the model by it
        settings["georef"] = scaffold.georef
    what = f"places of {len(sequence.groups)} anchor groups"
    inputs = {**ground_digests(work.run, sequence), **free_digests(work.run, config.shape)}
    above: tuple[Made, ...] = (surface,)
    if not config.prior.near:  # with a prior the places are this walk's alone
        above = (surface, places_part(work.site, surface, sequence.camera, config.places))
    stage = work.run.stage(ANCHORS, what, settings, inputs, above)
    if not stage.done:
        anchors = _localised(stage, work, above, config)
        stage.save(records.ANCHORS_FILE, AnchorsRecord(work.names, scaffold.georef, anchors))
        georeference.write_georef(stage.folder, scaffold.georef, scaffold.up)
        accepted = sum(group.accepted for group in anchors.groups)
        stage.finish({"groups": len(anchors.groups), "accepted": accepted})
    return stage


def _localised(stage: Stage, work: Work, above: tuple[Made, ...], config: AnchorConfig) -> Anchors:
    """The groups' verdicts."""
    scaffold, sequence = work.scaffold, work.sequence
    config = replace(config, prior=replace(config.prior, near=local_priors(config.prior.near, scaffold)))
    stage.save(f"{PROGRESS}/{SCAFFOLD_FILE}", scaffold)
    stage.save(f"{PROGRESS}/{SETTINGS}", config)
    surface, ground = above[0], above[0].load(parts.GROUND_FILE, Ground)
    places = above[1].path(parts.PLACES_FILE) if len(above) > 1 else _places_near(stage, work, surface, ground, config)
    shared = (stage.path(f"{PROGRESS}/{SCAFFOLD_FILE}"), work.sequence_file)
    standing = (surface.path(parts.SURFACE_FILE), surface.path(parts.GROUND_FILE))
    stage.save(f"{PROGRESS}/{CONTEXT}", Context(*shared, *standing, places))
    runner = JobRunner(stage, work)
    anchors = localise_all(scaffold, ground, sequence, config, runner.runners, stage.listen)
    files.save(work.run.root / records.ANCHOR_SECONDS_FILE, AnchorSeconds(tuple(runner.spent)))
    return anchors


def _places_near(stage: Stage, work: Work, surface: Made, ground: Ground, config: AnchorConfig) -> Path:
    """The index of the places that the walk's priors allow, which is this walk's alone."""
    scaffold, camera = work.scaffold, work.sequence.camera
    chosen = choose_nodes(ground, scaffold.points, config.prior.near, config.places)
    if not chosen:
        stage.listen(Note(ANCHORS, "where the walk was said to be is no ground to stand on", warning=True))
    basis = (describing(config.places), config.prior.near, camera)
    name = f"{PROGRESS}/{parts.PLACES_FILE}"
    stage.cached(
        name,
        PlaceIndex,
        lambda: described(stage, chosen, surface, camera, config.places, work.executor, basis),
    )
    return stage.path(name)


class JobRunner:
    """Runs the groups' work as jobs whose results are kept as they come."""

    def __init__(self, stage: Stage, work: Work) -> None:
        self.stage, self.executor = stage, work.executor
        self.frames = len(work.sequence.frames)
        self.spent: list[GroupSeconds] = []
        """Seconds per step, one entry per look at a group."""

    @property
    def runners(self) -> Runners:
        """Who does the work."""
        return Runners(self.groups, self.votes, self.steps)

    def groups(self, tasks: tuple[GroupTask, ...]) -> tuple[GroupVerdict, ...]:
        """The verdicts on independent tasks, in order."""
        work = {f"group-{task.group.index}-{value_digest(task)}": self._job(localise_group_job, task) for task in tasks}
        verdicts = tuple(files.load(path, GroupVerdict) for path in self._produced("groups", work))
        self.spent += [GroupSeconds(t.group.index, v.seconds) for t, v in zip(tasks, verdicts, strict=True)]
        return verdicts

    def votes(self, tasks: tuple[GroupTask, ...]) -> tuple[FocalVotes, ...]:
        """What each group says of the focal length, in order."""
        work = {f"focal-{task.group.index}-{value_digest(task)}": self._job(vote_focal_job, task) for task in tasks}
        return tuple(files.load(path, FocalVotes) for path in self._produced("focal length", work))

    def steps(self, focal: float) -> tuple[Steps, ...]:
        """The motion between all consecutive frames, measured a stretch at a time."""
        work = {}
        for first in range(0, self.frames - 1, STEPS_PER_JOB):
            last = min(first + STEPS_PER_JOB, self.frames - 1)
            call = Job.of(measure_steps_job, context=self.stage.path(PROGRESS), first=first, last=last, focal=focal)
            work[f"steps-{first}-{value_digest(focal)}"] = call
        return tuple(files.load(path, Steps) for path in self._produced("walk between groups", work))

    def _job(self, function: Callable[..., None], task: GroupTask) -> Job:
        return Job.of(function, context=self.stage.path(PROGRESS), task=task)

    def _produced(self, step: str, work: dict[str, Job]) -> list[Path]:
        return self.stage.produce(step, {f"{PROGRESS}/{name}.npz": job for name, job in work.items()}, self.executor)


# --- jobs ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def load_sequence_file(path: str) -> Sequence:
    """The street frames that a stage left for its jobs."""
    return files.load(Path(path), Sequence)


@lru_cache(maxsize=1)
def _ready(context: str) -> tuple[PreparedScaffold, GroundFrames, AnchorConfig]:
    """What all groups share, from the files that the stage left in a folder."""
    at, config = files.load(Path(context) / CONTEXT, Context), files.load(Path(context) / SETTINGS, AnchorConfig)
    scaffold, surface = load_scaffold_file(str(at.scaffold)), files.load(at.surface, Surface)
    prepared = PreparedScaffold(
        scaffold,
        surface,
        files.load(at.ground, Ground),
        AerialAtlas(surface, scaffold.views, config.bridge),
        files.load(at.places, PlaceIndex),
        visibility_graph(scaffold),
        descriptor=place_descriptor(str(at.scaffold), str(at.surface), config.places),
    )
    return prepared, GroundFrames(load_sequence_file(str(at.sequence)), config), config


def localise_group_job(out: str, context: str, task: Json, listen: Listener) -> None:
    """Write the GroupVerdict on one GroupTask."""
    prepared, frames, _ = _ready(context)
    files.save(Path(out), localise_task(prepared, frames, codec.from_json(GroupTask, task)))


def vote_focal_job(out: str, context: str, task: Json, listen: Listener) -> None:
    """Write the FocalVotes of one GroupTask."""
    prepared, frames, config = _ready(context)
    given = codec.from_json(GroupTask, task)
    files.save(Path(out), vote_focal(prepared.index, prepared.ground, frames, given.group, config, given.near))


def measure_steps_job(out: str, context: str, first: int, last: int, focal: float, listen: Listener) -> None:
    """Write the Steps of one stretch of the walk."""
    at, config = files.load(Path(context) / CONTEXT, Context), files.load(Path(context) / SETTINGS, AnchorConfig)
    frames = GroundFrames(load_sequence_file(str(at.sequence)), config, focal)
    files.save(Path(out), measure_steps(frames, first, last, config.odometry))
