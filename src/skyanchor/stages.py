"""Stages in a run folder: what each stands on, its units of work, and the files it leaves."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from skyanchor import codec, files, jobs, records
from skyanchor.events import Note
from skyanchor.executor import Executor, Job
from skyanchor.run_folder import STATE, RunFolder, Stage
from skyanchor.scaffold import colmap_files, georeference
from skyanchor.stereo.consistency import ConsistencyConfig
from skyanchor.stereo.estimate import StereoConfig
from skyanchor.stereo.sources import SourceConfig, choose_sources
from skyanchor.stereo.storage import depth_path
from skyanchor.trajectory import (
    PhotoFeatures,
    SubmapJob,
    SubmapResult,
    TrajectoryConfig,
    TrajectoryReport,
    export,
    recover,
)
from skyanchor.types import Anchors, Ints, Scaffold, Sequence, Trajectory, View


@dataclass(frozen=True, eq=False)
class Survey:
    """The user's data, read and checked."""

    scaffold: Scaffold
    sequence: Sequence

    @property
    def names(self) -> tuple[str, ...]:
        """Frame names in order."""
        return tuple(frame.name for frame in self.sequence.frames)


@dataclass(frozen=True)
class GeometryConfig:
    """Dense depth of the aerial photos."""

    sources: SourceConfig = field(default_factory=SourceConfig)
    stereo: StereoConfig = field(default_factory=StereoConfig)
    consistency: ConsistencyConfig = field(default_factory=ConsistencyConfig)


# --- 1-scaffold ---------------------------------------------------------------------------------------------------


def geometry_stage(run: RunFolder, survey: Survey, config: GeometryConfig, executor: Executor) -> Stage:
    """Dense depth of every aerial photo, measured and then confirmed by its neighbours: depth/NAME.npz."""
    views = survey.scaffold.views
    settings = {"geometry": config, "up": survey.scaffold.up, "ground": survey.scaffold.ground}
    stage = run.stage(records.SCAFFOLD, f"depth of {len(views)} aerial photos", settings, _aerial_digests(run, survey))
    if not stage.done:
        stage.save("progress/scaffold.npz", survey.scaffold)
        sources = choose_sources(views, survey.scaffold.points, survey.scaffold.tracks, config.sources)
        measured = _measured_depths(stage, views, sources, config, executor)
        _agreed_depths(stage, views, sources, measured, config, executor)
        georeference.write_georef(stage.folder, survey.scaffold.georef, survey.scaffold.up)
        stage.finish({"photos": len(views)})
    return stage


def _aerial_digests(run: RunFolder, survey: Survey) -> dict[str, str]:
    scaffold = survey.scaffold
    model = scaffold.model_path or scaffold.root
    return {
        "model": run.digest({p.name: p for p in model.glob("*.*") if p.stem in colmap_files.FILES}),
        "photos": run.digest({view.name: view.path for view in scaffold.views}),
        "masks": run.digest({view.name: view.mask_path for view in scaffold.views if view.mask_path is not None}),
    }


def _measured_depths(
    stage: Stage, views: tuple[View, ...], sources: tuple[Ints, ...], config: GeometryConfig, executor: Executor
) -> list[Path]:
    scaffold = stage.path("progress/scaffold.npz")
    work = {
        depth_path(Path("progress/measured"), view.name).as_posix(): Job.of(
            jobs.measure_depth_job, scaffold=scaffold, view=k, sources=sources[k].tolist(), config=config.stereo
        )
        for k, view in enumerate(views)
    }
    return stage.produce("depth measured", work, executor)


def _agreed_depths(
    stage: Stage,
    views: tuple[View, ...],
    sources: tuple[Ints, ...],
    measured: list[Path],
    config: GeometryConfig,
    executor: Executor,
) -> list[Path]:
    work = {
        depth_path(Path("depth"), view.name).as_posix(): Job.of(
            jobs.agree_depth_job, own=measured[k], others=[measured[j] for j in sources[k]], config=config.consistency
        )
        for k, view in enumerate(views)
    }
    return stage.produce("depth confirmed", work, executor)


# --- 3-trajectory -------------------------------------------------------------------------------------------------


def trajectory_stage(
    run: RunFolder, survey: Survey, above: Stage, anchors: Anchors, config: TrajectoryConfig, executor: Executor
) -> Stage:
    """A pose or a reason for every frame, submap by submap."""
    frames = len(survey.sequence.frames)
    stage = run.stage(records.TRAJECTORY, f"poses of {frames} frames", config, {}, (above,))
    if not stage.done:
        features = run.root / STATE / "features"
        stage.save("progress/sequence.json", survey.sequence)
        source = PhotoFeatures(survey.sequence, config.matcher, features, config.device)

        def submaps(planned: tuple[SubmapJob, ...]) -> tuple[SubmapResult, ...]:
            return _submaps(stage, planned, features, executor)

        found = recover(survey.scaffold, survey.sequence, anchors, config, run.listen, source, submaps)
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
