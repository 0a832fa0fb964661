"""The whole method on one screen: scaffold + sequence -> dense aerial geometry -> anchors -> trajectory -> scene.

Stages take and return values; here they are composed, and the run folder keeps what they return.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from skyanchor import codec, files, jobs, records
from skyanchor.executor import Executor, Job
from skyanchor.run_folder import STATE, RunFolder, Stage
from skyanchor.scaffold import ScaffoldConfig, colmap_files, georeference, load_scaffold, write_back
from skyanchor.sequence import SequenceConfig, load_sequence
from skyanchor.trajectory import PhotoFeatures, SubmapJob, SubmapResult, TrajectoryConfig, TrajectoryReport, recover
from skyanchor.types import Anchors, Ints, Scaffold, Sequence, Tracks, Trajectory
from skyanchor.update.views import ground_views


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
    poses, points = records.split(survey.names, survey.scaffold.georef, trajectory)
    stage.save(records.TRAJECTORY_FILE, poses)
    stage.save(records.POINTS_FILE, points)
    stage.save(records.REPORT_FILE, _timeless(report))
    files.write_through(stage.path(records.MODEL_FOLDER), lambda folder: _write_model(folder, survey, trajectory))
    georeference.write_georef(stage.folder, survey.scaffold.georef, survey.scaffold.up)
    stage.finish(report.figures)


def _timeless(report: TrajectoryReport) -> TrajectoryReport:
    """The report without its seconds, which differ from run to run."""
    submaps = tuple(replace(submap, seconds={}) for submap in report.submaps)
    return replace(report, submaps=submaps, seconds={})


def _write_model(folder: Path, survey: Survey, trajectory: Trajectory) -> None:
    """The posed frames and their points as a COLMAP model in the coordinates of the user's aerial files."""
    views = ground_views(survey.sequence, trajectory)
    tracks = _renumbered(trajectory.tracks, np.array([view.image_id for view in views], np.int64))
    model = write_back.street_model(survey.scaffold, views, trajectory.points, trajectory.point_colors, tracks)
    colmap_files.write_model(folder, model)


def _renumbered(tracks: Tracks, frames: Ints) -> Tracks:
    """The tracks with images counted through the given frames; observations in other frames are left out."""
    held = np.isin(tracks.image, frames)
    return Tracks(tracks.point[held], np.searchsorted(frames, tracks.image[held]), tracks.xy[held])
