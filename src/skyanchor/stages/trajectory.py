"""Stage 3, the trajectory: a pose or a reason for every frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from skyanchor.events import Listener, Note
from skyanchor.feedforward import FreeFrames, Incremental
from skyanchor.run import records
from skyanchor.run.executor import Executor, Job
from skyanchor.run.folder import PROGRESS, STATE, RunFolder, Stage
from skyanchor.scaffold import georeference
from skyanchor.stages.anchors import SEQUENCE, load_sequence_file
from skyanchor.stages.survey import Survey, free_digests, value_digest
from skyanchor.storage import codec, files
from skyanchor.storage.codec import Json
from skyanchor.trajectory import (
    PhotoFeatures,
    SubmapJob,
    SubmapResult,
    TrajectoryConfig,
    TrajectoryReport,
    export,
    recover,
    recover_submap,
)
from skyanchor.types import Anchors, Trajectory


def trajectory_stage(
    run: RunFolder, survey: Survey, above: Stage, anchors: Anchors, config: TrajectoryConfig, executor: Executor
) -> Stage:
    """A pose or a reason for every frame, submap by submap."""
    frames = len(survey.sequence.frames)
    inputs = free_digests(run, config.local)
    stage = run.stage(records.TRAJECTORY, f"poses of {frames} frames", config, inputs, (above,))
    if not stage.done and not isinstance(config.local, Incremental):
        _write_trajectory(stage, survey, *_fed_forward(stage, survey, anchors, config))
    elif not stage.done:
        features = run.root / STATE / "features"
        stage.save(f"{PROGRESS}/{SEQUENCE}", survey.sequence)
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
    sequence = stage.path(f"{PROGRESS}/{SEQUENCE}")
    work = {}
    for job in planned:
        call = Job.of(recover_submap_job, sequence=sequence, features=features, job=job)
        work[f"{PROGRESS}/submap-{job.submap.index}-{value_digest(job)}.npz"] = call
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


def recover_submap_job(out: str, sequence: str, features: str, job: Json, listen: Listener) -> None:
    """Write the SubmapResult of one SubmapJob."""
    given = codec.from_json(SubmapJob, job)
    source = PhotoFeatures(load_sequence_file(sequence), given.config.matcher, Path(features), given.config.device)
    files.save(Path(out), recover_submap(given, source))
