"""Stage 2, the anchors: a verdict on every anchor group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.focal import FocalVotes
from skyanchor.anchors.frames import GroundFrames, Lens
from skyanchor.anchors.in_process import LocalRunner
from skyanchor.anchors.odometry import Steps, measure_steps
from skyanchor.anchors.prepared_scaffold import PreparedScaffold, prepared_for
from skyanchor.anchors.priors import Area, local_priors
from skyanchor.anchors.walk import GroupTask, GroupVerdict, localise_walk
from skyanchor.anchors.walk_votes import Looks, Said
from skyanchor.bridges.ground import Ground
from skyanchor.bridges.surface import Surface
from skyanchor.events import ANCHORS, Listener
from skyanchor.run import prepared as parts
from skyanchor.run import records
from skyanchor.run.folder import Made, Stage
from skyanchor.run.job import Job
from skyanchor.run.layout import PROGRESS
from skyanchor.run.records import AnchorSeconds, AnchorsRecord, GroupSeconds
from skyanchor.scaffold import georeference
from skyanchor.stages.digests import free_digests, ground_digests, value_digest
from skyanchor.stages.earlier import describe_walks, earlier_digests, load_earlier
from skyanchor.stages.job_files import SCAFFOLD_FILE, load_scaffold_file, load_sequence_file
from skyanchor.stages.places import PlaceFiles, place_files, places_part
from skyanchor.stages.windows import painted_from, windows_under
from skyanchor.stages.work import Work
from skyanchor.storage import codec, files
from skyanchor.storage.codec import Json
from skyanchor.types import Anchors, Floats32

CONTEXT, SETTINGS = "context.json", "settings.json"
"""Files in the progress folder that the jobs share."""
LOOKS_PER_JOB = 20
"""Frames that one job compares with all places."""
STEPS_PER_JOB = 20
"""Steps between frames that one job measures."""


@dataclass(frozen=True)
class Context:
    """Where the jobs find what all groups share."""

    scaffold: Path
    sequence: Path
    surface: Path
    ground: Path
    features: Path
    """Keypoints of the street photos, for all stages."""
    places: PlaceFiles
    earlier: Path | None = None
    """Keyframes of earlier walks; None without any."""


def run(work: Work, config: AnchorConfig, surface: Made) -> Made:
    """A verdict on every anchor group: poses in the scaffold's frame, or the reason why not."""
    scaffold, sequence = work.scaffold, work.sequence
    settings: dict[str, object] = {"anchors": config, "camera": sequence.camera, "groups": sequence.groups}
    if sequence.gps or any(isinstance(prior, Area) for prior in config.prior.near):  # they are laid on the model by it
        settings["georef"] = scaffold.georef
    if sequence.cuts:
        settings["cuts"] = sequence.cuts
    what = f"places of {len(sequence.groups)} anchor groups"
    inputs = {**ground_digests(work.run, sequence), **free_digests(work.run, config.shape)}
    inputs |= earlier_digests(work.run, work.earlier)
    above: tuple[Made, ...] = (surface, *windows_under(work.site))
    if not config.prior.near:  # with a prior only the tiles that it allows are described
        above = (*above, places_part(work.site, surface, sequence.camera, config.places))
    stage = work.run.stage(ANCHORS, what, settings, inputs, above)
    if not stage.done:
        anchors = _localised(stage, work, above, config)
        stage.save(records.ANCHORS_FILE, AnchorsRecord(work.names, scaffold.georef, anchors, sequence.cuts))
        georeference.write_georef(stage.folder, scaffold.georef, scaffold.up)
        accepted = sum(group.accepted for group in anchors.groups)
        stage.finish({"groups": len(anchors.groups), "accepted": accepted})
    return stage


def _localised(stage: Stage, work: Work, above: tuple[Made, ...], config: AnchorConfig) -> Anchors:
    """The groups' verdicts."""
    scaffold, sequence = work.scaffold, work.sequence
    config = replace(config, prior=replace(config.prior, near=local_priors(config.prior.near, scaffold)))
    stage.save(f"{PROGRESS}/{SCAFFOLD_FILE}", painted_from(work.site))
    stage.save(f"{PROGRESS}/{SETTINGS}", config)
    surface = above[0]
    places = place_files(work.site, surface, sequence.camera, config.places, config.prior.near, stage.listen)
    shared = (stage.path(f"{PROGRESS}/{SCAFFOLD_FILE}"), work.sequence_file)
    standing = (surface.path(parts.SURFACE_FILE), surface.path(parts.GROUND_FILE))
    earlier = describe_walks(stage, work.earlier, config.ground_matcher, work.executor)
    context = Context(*shared, *standing, work.features, places, earlier)
    stage.save(f"{PROGRESS}/{CONTEXT}", context)
    runner = JobRunner(stage, work)
    anchors = localise_walk(_prepared(context, config), sequence, config, runner, stage.listen)
    files.save(work.run.root / records.ANCHOR_SECONDS_FILE, AnchorSeconds(tuple(runner.spent)))
    return anchors


class JobRunner:
    """The `Runner` of the stage: jobs whose results are kept as they come."""

    def __init__(self, stage: Stage, work: Work) -> None:
        self.stage, self.executor = stage, work.executor
        self.frames = len(work.sequence.frames)
        self.spent: list[GroupSeconds] = []
        """Seconds per step, one entry per look at a group."""

    def groups(self, tasks: tuple[GroupTask, ...]) -> tuple[GroupVerdict, ...]:
        """The verdicts on independent tasks, in order."""
        work = {f"group-{task.group.index}-{value_digest(task)}": self._job(localise_group_job, task) for task in tasks}
        verdicts = tuple(files.load(path, GroupVerdict) for path in self._produced("groups", work))
        self.spent += [GroupSeconds(t.group.index, v.seconds, v.tried) for t, v in zip(tasks, verdicts, strict=True)]
        return verdicts

    def votes(self, tasks: tuple[GroupTask, ...], factors: tuple[float, ...]) -> tuple[FocalVotes, ...]:
        """What each group says of the focal lengths that are tried, in order."""
        shared = {"context": self.stage.path(PROGRESS), "factors": factors}
        work = {
            f"focal-{task.group.index}-{value_digest((task, factors))}": Job.of(vote_focal_job, task=task, **shared)
            for task in tasks
        }
        return tuple(files.load(path, FocalVotes) for path in self._produced("focal length", work))

    def steps(self, lens: Lens) -> tuple[Steps, ...]:
        """The motion between all consecutive frames, measured a stretch at a time."""
        work = {}
        for first in range(0, self.frames - 1, STEPS_PER_JOB):
            last = min(first + STEPS_PER_JOB, self.frames - 1)
            call = Job.of(measure_steps_job, context=self.stage.path(PROGRESS), first=first, last=last, lens=lens)
            work[f"steps-{first}-{value_digest(lens)}"] = call
        return tuple(files.load(path, Steps) for path in self._produced("walk between groups", work))

    def looks(self, frames: tuple[int, ...]) -> Said:
        """How much the frames are like all described places, a few frames a job; the figures stay in their files."""
        work, at = {}, {frame: divmod(k, LOOKS_PER_JOB) for k, frame in enumerate(frames)}
        for first in range(0, len(frames), LOOKS_PER_JOB):
            some = frames[first : first + LOOKS_PER_JOB]
            work[f"looks-{first}-{value_digest(some)}"] = Job.of(
                look_job, context=self.stage.path(PROGRESS), frames=some
            )
        paths = self._produced("frames compared with places", work)

        def said(asked: tuple[int, ...]) -> Floats32:
            held = {part: files.load_mapped(paths[part], Looks) for part in {at[frame][0] for frame in asked}}
            return np.stack([held[part].likeness[row] for part, row in (at[frame] for frame in asked)])

        return said

    def _job(self, function: Callable[..., None], task: GroupTask) -> Job:
        return Job.of(function, context=self.stage.path(PROGRESS), task=task)

    def _produced(self, step: str, work: dict[str, Job]) -> list[Path]:
        return self.stage.produce(step, {f"{PROGRESS}/{name}.npz": job for name, job in work.items()}, self.executor)


# --- jobs ---------------------------------------------------------------------------------------------------------


def _prepared(context: Context, config: AnchorConfig) -> PreparedScaffold:
    """What all groups share, from the files that the stage stands on."""
    scaffold, surface = load_scaffold_file(str(context.scaffold)), files.load(context.surface, Surface)
    return prepared_for(scaffold, surface, files.load(context.ground, Ground), context.places.index(), config)


def _in_process(folder: str) -> LocalRunner:
    """What does the work of a job, from the files that the stage left in a folder, read once while they stay."""
    context = files.load(Path(folder) / CONTEXT, Context)
    read = [Path(folder) / SETTINGS, context.scaffold, context.sequence, context.surface, context.ground]
    read += [context.places.vocabulary, *([] if context.earlier is None else [context.earlier])]
    return _runner(folder, (files.mark(Path(folder) / CONTEXT), *map(files.mark, read)))


@lru_cache(maxsize=1)
def _runner(folder: str, seen: tuple[str, ...]) -> LocalRunner:
    context, config = files.load(Path(folder) / CONTEXT, Context), files.load(Path(folder) / SETTINGS, AnchorConfig)
    frames = GroundFrames(load_sequence_file(str(context.sequence)), context.features)
    return LocalRunner(_prepared(context, config), frames, config, earlier=load_earlier(context.earlier))


def localise_group_job(out: str, context: str, task: Json, listen: Listener) -> None:
    """Write the GroupVerdict on one GroupTask."""
    files.save(Path(out), _in_process(context).groups((codec.from_json(GroupTask, task),))[0])


def vote_focal_job(out: str, context: str, task: Json, factors: list[float], listen: Listener) -> None:
    """Write the FocalVotes of one GroupTask."""
    files.save(Path(out), _in_process(context).votes((codec.from_json(GroupTask, task),), tuple(factors))[0])


def look_job(out: str, context: str, frames: list[int], listen: Listener) -> None:
    """Write the Looks of some frames."""
    files.save(Path(out), _in_process(context).look(tuple(frames)))


def measure_steps_job(out: str, context: str, first: int, last: int, lens: Json, listen: Listener) -> None:
    """Write the Steps of one stretch of the walk."""
    at, config = files.load(Path(context) / CONTEXT, Context), files.load(Path(context) / SETTINGS, AnchorConfig)
    frames = GroundFrames(load_sequence_file(str(at.sequence)), at.features)
    files.save(Path(out), measure_steps(frames, first, last, codec.from_json(Lens, lens), config.odometry))
