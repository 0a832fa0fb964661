"""Stages in a run folder: what each stands on, its units of work, and the files it leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skyanchor import codec, files, jobs, records
from skyanchor.anchors.bridges import Node
from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.focal import FocalVotes
from skyanchor.anchors.odometry import Steps
from skyanchor.anchors.places import PlaceIndex, choose_nodes, index_places
from skyanchor.anchors.priors import Area, local_priors
from skyanchor.anchors.stage import GroupTask, GroupVerdict, Runners, localise_all
from skyanchor.anchors.surface import Ground, Surface, find_ground, fuse_surface
from skyanchor.events import Note
from skyanchor.executor import Executor, Job
from skyanchor.feedforward import AnyLocal, FreeFolder, FreeFrames, Incremental
from skyanchor.gaussians.ply import write_ply
from skyanchor.run_folder import PROGRESS, STATE, RunFolder, Stage
from skyanchor.scaffold import colmap_files, georeference
from skyanchor.scaffold.training import AerialConfig, train_aerial
from skyanchor.stereo import (
    CompletionConfig,
    ConsistencyConfig,
    SourceConfig,
    StereoConfig,
    choose_neighbours,
    choose_sources,
    depth_path,
    load_depth,
)
from skyanchor.stereo.sources import NEIGHBOURS
from skyanchor.trajectory import (
    PhotoFeatures,
    SubmapJob,
    SubmapResult,
    TrajectoryConfig,
    TrajectoryReport,
    export,
    recover,
)
from skyanchor.types import Anchors, Camera, Ints, Scaffold, Sequence, Trajectory, View

if TYPE_CHECKING:
    from skyanchor.gaussians.devices import Engine


@dataclass(frozen=True, eq=False)
class Survey:
    """The user's data, read and checked."""

    scaffold: Scaffold
    sequence: Sequence

    @property
    def names(self) -> tuple[str, ...]:
        """Frame names in order."""
        return tuple(frame.name for frame in self.sequence.frames)


NODES_PER_JOB = 60
"""Places that one job describes: enough to share the aerial photos it reads."""


STEPS_PER_JOB = 40
"""Steps between frames that one job measures."""


@dataclass(frozen=True)
class GeometryConfig:
    """Dense depth of the aerial photos."""

    sources: SourceConfig = field(default_factory=SourceConfig)
    """Photos that measure a photo's depth."""
    stereo: StereoConfig = field(default_factory=StereoConfig)
    neighbours: SourceConfig = NEIGHBOURS
    """Photos whose depth confirms it."""
    consistency: ConsistencyConfig = field(default_factory=ConsistencyConfig)
    completion: CompletionConfig = field(default_factory=CompletionConfig)


# --- 1-scaffold ---------------------------------------------------------------------------------------------------


def geometry_stage(run: RunFolder, survey: Survey, config: GeometryConfig, executor: Executor) -> Stage:
    """Dense depth of every aerial photo, measured and then confirmed by its neighbours: depth/NAME.npz."""
    views = survey.scaffold.views
    settings = {"geometry": config, "up": survey.scaffold.up, "ground": survey.scaffold.ground}
    stage = run.stage(
        records.SCAFFOLD, f"depth of {len(views)} aerial photos", settings, _aerial_digests(run, survey.scaffold)
    )
    if not stage.done:
        stage.save(f"{PROGRESS}/{jobs.SCAFFOLD}", survey.scaffold)
        seen = (views, survey.scaffold.points, survey.scaffold.tracks)
        measured = _measured_depths(stage, views, choose_sources(*seen, config.sources), config, executor)
        _agreed_depths(stage, views, choose_neighbours(*seen, config.neighbours), measured, config, executor)
        georeference.write_georef(stage.folder, survey.scaffold.georef, survey.scaffold.up)
        stage.finish({"photos": len(views)})
    return stage


def _aerial_digests(run: RunFolder, scaffold: Scaffold) -> dict[str, str]:
    model = scaffold.model_path or scaffold.root
    return {
        "model": run.digest({p.name: p for p in model.glob("*.*") if p.stem in colmap_files.FILES}),
        "photos": run.digest({view.name: view.path for view in scaffold.views}),
        "masks": run.digest({view.name: view.mask_path for view in scaffold.views if view.mask_path is not None}),
    }


def _measured_depths(
    stage: Stage, views: tuple[View, ...], sources: tuple[Ints, ...], config: GeometryConfig, executor: Executor
) -> list[Path]:
    scaffold = stage.path(f"{PROGRESS}/{jobs.SCAFFOLD}")
    work = {
        depth_path(Path(PROGRESS, "measured"), view.name).as_posix(): Job.of(
            jobs.measure_depth_job, scaffold=scaffold, view=k, sources=sources[k].tolist(), config=config.stereo
        )
        for k, view in enumerate(views)
    }
    return stage.produce("depth measured", work, executor)


def _agreed_depths(
    stage: Stage,
    views: tuple[View, ...],
    neighbours: tuple[Ints, ...],
    measured: list[Path],
    config: GeometryConfig,
    executor: Executor,
) -> list[Path]:
    scaffold = stage.path(f"{PROGRESS}/{jobs.SCAFFOLD}")
    work = {
        depth_path(Path("depth"), view.name).as_posix(): Job.of(
            jobs.agree_depth_job,
            scaffold=scaffold,
            view=k,
            measured=[measured[k], *(measured[j] for j in neighbours[k])],
            agree=config.consistency,
            fill=config.completion,
        )
        for k, view in enumerate(views)
    }
    return stage.produce("depth confirmed", work, executor)


def splats_stage(run: RunFolder, scaffold: Scaffold, engine: Engine, config: AerialConfig) -> Stage:
    """Aerial Gaussians for a model that came without: splats.ply in the local frame, and how well they show it."""
    settings = {"train": config, "device": engine.device}
    what = f"Gaussians of {len(scaffold.views)} aerial photos"
    stage = run.stage(records.SPLATS, what, settings, _aerial_digests(run, scaffold))
    if not stage.done:
        checkpoint = stage.path(f"{PROGRESS}/checkpoint.npz")
        model = train_aerial(scaffold, engine, config, listener=run.listen, checkpoint=checkpoint)
        write_ply(stage.path(records.SPLATS_FILE), model.splats)
        stage.save("scores.json", model.scores)
        georeference.write_georef(stage.folder, scaffold.georef, scaffold.up)
        stage.finish({"psnr": model.scores.psnr, "gaussians": len(model.splats)})
    return stage


# --- 2-anchors ----------------------------------------------------------------------------------------------------


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
    inputs = {**_ground_digests(run, survey), **_free_digests(run, config.shape)}
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


def _free_digests(run: RunFolder, choice: AnyLocal) -> dict[str, str]:
    """Digest of a folder made elsewhere, where shapes come from one."""
    if not isinstance(choice, FreeFolder):
        return {}
    choice.check()
    found = [path for path in sorted(choice.folder.rglob("*")) if path.is_file()]
    return {"free": run.digest({path.relative_to(choice.folder).as_posix(): path for path in found})}


def _ground_digests(run: RunFolder, survey: Survey) -> dict[str, str]:
    frames = survey.sequence.frames
    return {
        "frames": run.digest({frame.name: frame.path for frame in frames}),
        "masks": run.digest({frame.name: frame.mask_path for frame in frames if frame.mask_path is not None}),
    }


def _localised(
    run: RunFolder, stage: Stage, survey: Survey, above: Stage, config: AnchorConfig, executor: Executor
) -> Anchors:
    """The groups' verdicts; the surface and the described places are made once and kept until the stage is done."""
    scaffold, sequence = survey.scaffold, survey.sequence
    config = replace(config, prior=replace(config.prior, near=local_priors(config.prior.near, scaffold)))
    for name, value in ((jobs.SCAFFOLD, scaffold), (jobs.SEQUENCE, sequence), (jobs.SETTINGS, config)):
        stage.save(f"{PROGRESS}/{name}", value)

    def fused() -> Surface:
        maps = tuple(load_depth(depth_path(above.path("depth"), view.name)) for view in scaffold.views)
        return fuse_surface(maps, scaffold.up, config.surface)

    surface = stage.cached(f"{PROGRESS}/{jobs.SURFACE}", Surface, fused, config.surface)
    ground = stage.cached(f"{PROGRESS}/{jobs.GROUND}", Ground, lambda: find_ground(surface), config.surface)

    chosen = choose_nodes(ground, scaffold.points, config.prior.near, config.places)
    if config.prior.near and not chosen:
        run.listen(Note("anchors", "where the walk was said to be is no ground to stand on", warning=True))
    stage.cached(
        f"{PROGRESS}/{jobs.PLACES}", PlaceIndex, lambda: _places(stage, chosen, sequence.camera, config, executor)
    )

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
        f"{PROGRESS}/places-{k}-{_digest(part)}.npz": Job.of(jobs.describe_places_job, context=context, nodes=part)
        for k, part in enumerate(parts)
    }
    basis = (config.surface, config.places, config.prior.near, camera)
    parts_at = stage.produce("describe places", work, executor, basis)
    made = [files.load(path, jobs.PlaceViews).views for path in parts_at]
    return index_places(tuple(view for views in made for view in views), config.places.centres)


def _verdicts(stage: Stage, tasks: tuple[GroupTask, ...], executor: Executor) -> tuple[GroupVerdict, ...]:
    context = stage.path(PROGRESS)
    work = {
        f"{PROGRESS}/group-{task.group.index}-{_digest(task)}.npz": Job.of(
            jobs.localise_group_job, context=context, task=task
        )
        for task in tasks
    }
    return tuple(files.load(path, GroupVerdict) for path in stage.produce("groups", work, executor))


def _votes(stage: Stage, tasks: tuple[GroupTask, ...], executor: Executor) -> tuple[FocalVotes, ...]:
    context = stage.path(PROGRESS)
    work = {
        f"{PROGRESS}/focal-{task.group.index}-{_digest(task)}.npz": Job.of(
            jobs.vote_focal_job, context=context, task=task
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
        call = Job.of(jobs.measure_steps_job, context=context, first=first, last=last, focal=focal)
        work[f"{PROGRESS}/steps-{first}-{_digest(focal)}.npz"] = call
    return tuple(files.load(path, Steps) for path in stage.produce("walk between groups", work, executor))


def _digest(value: object) -> str:
    return files.digest(json.dumps(codec.to_json(value)).encode())


# --- 3-trajectory -------------------------------------------------------------------------------------------------


def trajectory_stage(
    run: RunFolder, survey: Survey, above: Stage, anchors: Anchors, config: TrajectoryConfig, executor: Executor
) -> Stage:
    """A pose or a reason for every frame, submap by submap."""
    frames = len(survey.sequence.frames)
    inputs = _free_digests(run, config.local)
    stage = run.stage(records.TRAJECTORY, f"poses of {frames} frames", config, inputs, (above,))
    if not stage.done and not isinstance(config.local, Incremental):
        _write_trajectory(stage, survey, *_fed_forward(stage, survey, anchors, config))
    elif not stage.done:
        features = run.root / STATE / "features"
        stage.save(f"{PROGRESS}/{jobs.SEQUENCE}", survey.sequence)
        source = PhotoFeatures(survey.sequence, config.matcher, features, config.device)

        def submaps(planned: tuple[SubmapJob, ...]) -> tuple[SubmapResult, ...]:
            return _submaps(stage, planned, features, executor)

        found = recover(survey.scaffold, survey.sequence, anchors, config, run.listen, source, submaps)
        _write_trajectory(stage, survey, *found)
    return stage


def _fed_forward(
    stage: Stage, survey: Survey, anchors: Anchors, config: TrajectoryConfig
) -> tuple[Trajectory, TrajectoryReport]:
    """The trajectory from a network's passes, each kept as soon as it is there, or from a folder made elsewhere."""
    from skyanchor.trajectory.feedforward_run import recover_free

    def keep(name: str, make: Callable[[], FreeFrames]) -> FreeFrames:
        return stage.cached(f"{PROGRESS}/{name}.npz", FreeFrames, make)

    return recover_free(survey.scaffold, survey.sequence, anchors, config, stage.run.listen, keep)


def _submaps(
    stage: Stage, planned: tuple[SubmapJob, ...], features: Path, executor: Executor
) -> tuple[SubmapResult, ...]:
    """Results of independent submaps, each kept under the digest of its job as soon as it is there."""
    sequence = stage.path(f"{PROGRESS}/{jobs.SEQUENCE}")
    work = {}
    for job in planned:
        call = Job.of(jobs.recover_submap_job, sequence=sequence, features=features, job=job)
        work[f"{PROGRESS}/submap-{job.submap.index}-{_digest(job)}.npz"] = call
    return tuple(files.load(path, SubmapResult) for path in stage.produce("submaps", work, executor))


def _write_trajectory(stage: Stage, survey: Survey, trajectory: Trajectory, report: TrajectoryReport) -> None:
    """Our own records, and the same in formats that other programs read."""
    poses, points = records.split(survey.names, survey.scaffold.georef, trajectory)
    stage.save(records.TRAJECTORY_FILE, poses)
    stage.save(records.POINTS_FILE, points)
    stage.save(records.REPORT_FILE, _timeless(report))
    stage.path(export.TUM_FILE).write_text(export.tum_text(trajectory, survey.scaffold.georef))
    track = export.geojson_text(trajectory, survey.sequence, survey.scaffold.georef)
    if track is not None:
        stage.path(export.GEOJSON_FILE).write_text(track)
    parts = (survey.scaffold, survey.sequence, trajectory)
    export.write_street_model(stage.path(records.MODEL_FOLDER), *parts)
    aerial_names = {view.name for view in survey.scaffold.views}
    if aerial_names.isdisjoint(survey.names):
        export.write_merged_model(stage.path(records.MERGED_FOLDER), *parts)
    else:
        stage.run.listen(Note(stage.recipe.stage, "no merged model: aerial and street photos share names"))
    georeference.write_georef(stage.folder, survey.scaffold.georef, survey.scaffold.up)
    stage.finish(report.figures)


def _timeless(report: TrajectoryReport) -> TrajectoryReport:
    """The report without its seconds, which differ from run to run."""
    submaps = tuple(replace(submap, seconds={}) for submap in report.submaps)
    return replace(report, submaps=submaps, seconds={})
