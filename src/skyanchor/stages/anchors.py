"""Stage 2, the anchors: a verdict on every anchor group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.focal import FocalVotes, vote_focal
from skyanchor.anchors.frames import GroundFrames
from skyanchor.anchors.group import PreparedScaffold
from skyanchor.anchors.odometry import Steps, measure_steps
from skyanchor.anchors.places import (
    PlaceIndex,
    PlaceView,
    choose_nodes,
    describe_nodes,
    index_places,
    load_descriptor,
)
from skyanchor.anchors.priors import Area, local_priors
from skyanchor.anchors.walk import GroupTask, GroupVerdict, Runners, localise_all, localise_task
from skyanchor.bridges.ground import Ground, find_ground
from skyanchor.bridges.surface import Surface, fuse_surface
from skyanchor.bridges.views import AerialAtlas, Node
from skyanchor.events import Listener, Note
from skyanchor.feedforward import Incremental
from skyanchor.matching.global_descriptors import GlobalDescriptor
from skyanchor.run import records
from skyanchor.run.executor import Executor, Job
from skyanchor.run.folder import PROGRESS, RunFolder, Stage
from skyanchor.scaffold import georeference, visibility_graph
from skyanchor.stages.scaffold import SCAFFOLD, load_scaffold_file
from skyanchor.stages.survey import Survey, free_digests, ground_digests, value_digest
from skyanchor.stereo import DepthFolder
from skyanchor.storage import codec, files
from skyanchor.storage.codec import Json
from skyanchor.types import Anchors, Camera, Sequence

SEQUENCE, SETTINGS, SURFACE, GROUND, PLACES = (
    "sequence.json",
    "settings.json",
    "surface.npz",
    "ground.npz",
    "places.npz",
)
"""Files in the progress folder that the jobs share."""
NODES_PER_JOB = 60
"""Places that one job describes: enough to share the aerial photos it reads."""
STEPS_PER_JOB = 40
"""Steps between frames that one job measures."""


def anchors_stage(
    run: RunFolder, survey: Survey, above: Stage, config: AnchorConfig, executor: Executor
) -> tuple[Stage, Anchors]:
    """A verdict on every anchor group: poses in the scaffold's frame, or the reason why not."""
    sequence = survey.sequence
    settings: dict[str, object] = {
        "anchors": anchor_settings(config),
        "camera": sequence.camera,
        "groups": sequence.groups,
    }
    if sequence.gps or any(isinstance(prior, Area) for prior in config.prior.near):  # they are laid on the model by it
        settings["georef"] = survey.scaffold.georef
    what = f"places of {len(sequence.groups)} anchor groups"
    inputs = {**ground_digests(run, survey), **free_digests(run, config.shape)}
    stage = run.stage(records.ANCHORS, what, settings, inputs, (above,))
    if not stage.done:
        found = _localised(run, stage, survey, above, config, executor)
        stage.save(records.ANCHORS_FILE, records.AnchorsRecord(survey.names, survey.scaffold.georef, found))
        georeference.write_georef(stage.folder, survey.scaffold.georef, survey.scaffold.up)
        accepted = sum(group.accepted for group in found.groups)
        stage.finish({"groups": len(found.groups), "accepted": accepted})
    return stage, stage.load(records.ANCHORS_FILE, records.AnchorsRecord).anchors


def anchor_settings(config: AnchorConfig) -> dict[str, Any]:
    """The settings as the recipe names them: the default shape goes unnamed, as before there was a choice."""
    document = codec.to_json(config)
    assert isinstance(document, dict)
    return {name: held for name, held in document.items() if name != "shape" or config.shape != Incremental()}


def _localised(
    run: RunFolder, stage: Stage, survey: Survey, above: Stage, config: AnchorConfig, executor: Executor
) -> Anchors:
    """The groups' verdicts; the surface and the described places are made once and kept until the stage is done."""
    scaffold, sequence = survey.scaffold, survey.sequence
    config = replace(config, prior=replace(config.prior, near=local_priors(config.prior.near, scaffold)))
    for name, value in ((SCAFFOLD, scaffold), (SEQUENCE, sequence), (SETTINGS, config)):
        stage.save(f"{PROGRESS}/{name}", value)

    def fused() -> Surface:
        maps = DepthFolder(above.path("depth"), tuple(view.name for view in scaffold.views))
        return fuse_surface(maps, scaffold.up, config.surface, run.listen)

    surface = stage.cached(f"{PROGRESS}/{SURFACE}", Surface, fused, config.surface)
    ground = stage.cached(f"{PROGRESS}/{GROUND}", Ground, lambda: find_ground(surface), config.surface)

    chosen = choose_nodes(ground, scaffold.points, config.prior.near, config.places)
    if config.prior.near and not chosen:
        run.listen(Note("anchors", "where the walk was said to be is no ground to stand on", warning=True))
    stage.cached(f"{PROGRESS}/{PLACES}", PlaceIndex, lambda: _places(stage, chosen, sequence.camera, config, executor))

    spent: list[records.GroupSeconds] = []

    def verdicts(tasks: tuple[GroupTask, ...]) -> tuple[GroupVerdict, ...]:
        found = _verdicts(stage, tasks, executor)
        spent.extend(records.GroupSeconds(t.group.index, v.seconds) for t, v in zip(tasks, found, strict=True))
        return found

    def votes(tasks: tuple[GroupTask, ...]) -> tuple[FocalVotes, ...]:
        return _votes(stage, tasks, executor)

    def steps(focal: float) -> tuple[Steps, ...]:
        return _steps(stage, len(sequence.frames), focal, executor)

    anchors = localise_all(scaffold, ground, sequence, config, Runners(verdicts, votes, steps), run.listen)
    files.save(run.root / records.ANCHOR_SECONDS_FILE, records.AnchorSeconds(tuple(spent)))
    return anchors


def _places(
    stage: Stage, chosen: tuple[Node, ...], camera: Camera, config: AnchorConfig, executor: Executor
) -> PlaceIndex:
    """The index of the nodes, described a few dozen at a time."""
    context = stage.path(PROGRESS)
    parts = [chosen[start : start + NODES_PER_JOB] for start in range(0, len(chosen), NODES_PER_JOB)]
    work = {
        f"{PROGRESS}/places-{k}-{value_digest(part)}.npz": Job.of(describe_places_job, context=context, nodes=part)
        for k, part in enumerate(parts)
    }
    basis = (config.surface, config.places, config.prior.near, camera)
    parts_at = stage.produce("describe places", work, executor, basis)
    made = [files.load(path, PlaceViews).views for path in parts_at]
    return index_places(tuple(view for views in made for view in views), config.places.centres)


def _verdicts(stage: Stage, tasks: tuple[GroupTask, ...], executor: Executor) -> tuple[GroupVerdict, ...]:
    context = stage.path(PROGRESS)
    work = {
        f"{PROGRESS}/group-{task.group.index}-{value_digest(task)}.npz": Job.of(
            localise_group_job, context=context, task=task
        )
        for task in tasks
    }
    return tuple(files.load(path, GroupVerdict) for path in stage.produce("groups", work, executor))


def _votes(stage: Stage, tasks: tuple[GroupTask, ...], executor: Executor) -> tuple[FocalVotes, ...]:
    context = stage.path(PROGRESS)
    work = {
        f"{PROGRESS}/focal-{task.group.index}-{value_digest(task)}.npz": Job.of(
            vote_focal_job, context=context, task=task
        )
        for task in tasks
    }
    return tuple(files.load(path, FocalVotes) for path in stage.produce("focal length", work, executor))


def _steps(stage: Stage, frames: int, focal: float, executor: Executor) -> tuple[Steps, ...]:
    """The motion between all consecutive frames, measured a stretch at a time."""
    context = stage.path(PROGRESS)
    work = {}
    for first in range(0, frames - 1, STEPS_PER_JOB):
        last = min(first + STEPS_PER_JOB, frames - 1)
        call = Job.of(measure_steps_job, context=context, first=first, last=last, focal=focal)
        work[f"{PROGRESS}/steps-{first}-{value_digest(focal)}.npz"] = call
    return tuple(files.load(path, Steps) for path in stage.produce("walk between groups", work, executor))


# --- jobs


@lru_cache(maxsize=1)
def load_sequence_file(path: str) -> Sequence:
    """The street frames that a stage left for its"""
    return files.load(Path(path), Sequence)


@lru_cache(maxsize=1)
def _ready(context: str) -> tuple[PreparedScaffold, GroundFrames, AnchorConfig]:
    """What all groups share, from the files that the anchor stage left in a folder."""
    folder = Path(context)
    scaffold, config = load_scaffold_file(str(folder / SCAFFOLD)), files.load(folder / SETTINGS, AnchorConfig)
    surface, ground = files.load(folder / SURFACE, Surface), files.load(folder / GROUND, Ground)
    atlas = AerialAtlas(surface, scaffold.views, config.bridge)
    index, graph = files.load(folder / PLACES, PlaceIndex), visibility_graph(scaffold)
    prepared = PreparedScaffold(scaffold, surface, ground, atlas, index, graph, descriptor=_descriptor(context))
    return prepared, GroundFrames(load_sequence_file(str(folder / SEQUENCE)), config), config


@dataclass(frozen=True, eq=False)
class PlaceViews:
    """Described places, as a job leaves them."""

    views: tuple[PlaceView, ...]


@lru_cache(maxsize=1)
def _coarse_atlas(context: str) -> AerialAtlas:
    folder = Path(context)
    scaffold, config = load_scaffold_file(str(folder / SCAFFOLD)), files.load(folder / SETTINGS, AnchorConfig)
    surface = files.load(folder / SURFACE, Surface)
    return AerialAtlas(surface, scaffold.views, config.places.bridge, limit_bytes=1 << 30)


@lru_cache(maxsize=1)
def _descriptor(context: str) -> GlobalDescriptor | None:
    choice = files.load(Path(context) / SETTINGS, AnchorConfig).places.descriptor
    return None if choice is None else load_descriptor(choice, _coarse_atlas(context))


def describe_places_job(out: str, context: str, nodes: Json, listen: Listener) -> None:
    """Write the PlaceViews from some nodes."""
    folder = Path(context)
    config, camera = (
        files.load(folder / SETTINGS, AnchorConfig).places,
        load_sequence_file(str(folder / SEQUENCE)).camera,
    )
    chosen = codec.from_json(tuple[Node, ...], nodes)
    atlas, descriptor = _coarse_atlas(context), _descriptor(context)
    views = describe_nodes(atlas, chosen, camera, config.features.load(), config, descriptor)
    files.save(Path(out), PlaceViews(views))


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
    folder = Path(context)
    config = files.load(folder / SETTINGS, AnchorConfig)
    frames = GroundFrames(load_sequence_file(str(folder / SEQUENCE)), config, focal)
    files.save(Path(out), measure_steps(frames, first, last, config.odometry))
