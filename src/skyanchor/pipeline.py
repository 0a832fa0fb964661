"""The whole method on one screen: scaffold + sequence -> dense aerial geometry -> anchors -> trajectory -> scene.

Stages take and return values; here they are composed, and the run folder keeps what they return.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from skyanchor import codec, files, jobs, records
from skyanchor.events import Note
from skyanchor.executor import Executor, Job
from skyanchor.run_folder import STATE, RunFolder, Stage
from skyanchor.scaffold import ScaffoldConfig, georeference, load_scaffold
from skyanchor.sequence import SequenceConfig, load_sequence
from skyanchor.trajectory import (
    PhotoFeatures,
    SubmapJob,
    SubmapResult,
    TrajectoryConfig,
    TrajectoryReport,
    export,
    recover,
)
from skyanchor.types import Anchors, Scaffold, Sequence, Trajectory


@dataclass(frozen=True)
class Inputs:
    """What the user brings."""

    aerial: Path
    """Folder with sparse/ (or sparse/0) and images/, or the COLMAP model itself."""
    ground: Path
    """Folder of street photos, or a video."""
    images: Path | None = None
    """Folder of the aerial photos, where it is not found beside the model."""
    splats: Path | None = None
    """Aerial Gaussian model, a .ply of the INRIA convention."""


@dataclass(frozen=True)
class PipelineConfig:
    """The settings of every stage."""

    scaffold: ScaffoldConfig = field(default_factory=ScaffoldConfig)
    sequence: SequenceConfig = field(default_factory=SequenceConfig)
    trajectory: TrajectoryConfig = field(default_factory=TrajectoryConfig)


@dataclass(frozen=True, eq=False)
class Survey:
    """The user's data, read and checked."""

    scaffold: Scaffold
    sequence: Sequence

    @property
    def names(self) -> tuple[str, ...]:
        """Frame names in order."""
        return tuple(frame.name for frame in self.sequence.frames)


def read_survey(run: RunFolder, inputs: Inputs, config: PipelineConfig) -> Survey:
    """The aerial model and the street frames; frames of a video are written to RUN/frames."""
    return Survey(
        load_scaffold(inputs.aerial, inputs.images, inputs.splats, config.scaffold),
        load_sequence(inputs.ground, config.sequence, run.root / "frames"),
    )


def trajectory_stage(
    run: RunFolder, survey: Survey, above: Stage, anchors: Anchors, config: PipelineConfig, executor: Executor
) -> Stage:
    """3-trajectory: a pose or a reason for every frame, submap by submap."""
    frames = len(survey.sequence.frames)
    stage = run.stage(records.TRAJECTORY, f"poses of {frames} frames", config.trajectory, {}, (above,))
    if not stage.done:
        features = run.root / STATE / "features"
        stage.save("progress/sequence.json", survey.sequence)
        source = PhotoFeatures(survey.sequence, config.trajectory.matcher, features, config.trajectory.device)

        def submaps(planned: tuple[SubmapJob, ...]) -> tuple[SubmapResult, ...]:
            return _submaps(stage, planned, features, executor)

        found = recover(survey.scaffold, survey.sequence, anchors, config.trajectory, run.listen, source, submaps)
        _write_trajectory(stage, survey, *found)
    return stage


def _submaps(
    stage: Stage, planned: tuple[SubmapJob, ...], features: Path, executor: Executor
) -> tuple[SubmapResult, ...]:
    """Results of independent submaps, each kept under the digest of its job as soon as it is there."""
    sequence = stage.path("progress/sequence.json")
    work = {}
    for job in planned:
        digest = files.digest(json.dumps(codec.to_json(job)).encode())
        call = Job.of(jobs.recover_submap_job, sequence=sequence, features=features, job=job)
        work[f"progress/submap-{job.submap.index}-{digest}.npz"] = call
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
