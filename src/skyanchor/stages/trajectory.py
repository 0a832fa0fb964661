"""Stage 3, the trajectory: a pose or a reason for every frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from skyanchor.events import TRAJECTORY, Listener, Note
from skyanchor.feedforward import FreeFrames, Incremental
from skyanchor.matching import AnySparse, Sift
from skyanchor.run import records
from skyanchor.run.folder import Made, Stage
from skyanchor.run.job import Job
from skyanchor.run.layout import PROGRESS
from skyanchor.run.records import AnchorsRecord, SubmapSeconds, TrajectorySeconds
from skyanchor.scaffold import georeference
from skyanchor.stages.digests import free_digests, value_digest
from skyanchor.stages.job_files import load_sequence_file
from skyanchor.stages.work import Work
from skyanchor.storage import codec, files
from skyanchor.storage.codec import Json
from skyanchor.storage.digests import digest
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
from skyanchor.trajectory.assembly import KnownMap, Resected, resect
from skyanchor.types import Anchors, Trajectory

TOGETHER = 4
"""Frames that one job describes."""
KNOWN_FILE = "known.npz"
"""In a progress folder: the map that frames between keyframes are laid on."""
HELD_FRAMES = 64
"""Frames whose keypoints a worker holds from one job to the next."""


def run(work: Work, config: TrajectoryConfig, above: Made) -> Made:
    """A pose or a reason for every frame, submap by submap."""
    folder = work.run
    what = f"poses of {len(work.sequence.frames)} frames"
    stage = folder.stage(TRAJECTORY, what, config, free_digests(folder, config.local), (above,))
    if stage.done:
        return stage
    anchors = above.load(records.ANCHORS_FILE, AnchorsRecord).anchors
    if isinstance(config.local, Incremental):
        source = PhotoFeatures(work.sequence, config.matcher, work.features, config.device)

        def submaps(planned: tuple[SubmapJob, ...]) -> tuple[SubmapResult, ...]:
            return _submaps(stage, work, planned)

        def between(known: KnownMap, frames: tuple[int, ...]) -> tuple[Resected, ...]:
            return _between(stage, work, known, frames)

        spread = between if isinstance(config.matcher, Sift) else None  # a network has its GPU in this process
        recovered = recover(work.scaffold, work.sequence, anchors, config, stage.listen, source, submaps, spread)
    else:
        recovered = _fed_forward(stage, work, anchors, config)
    _write_trajectory(stage, work, *recovered)
    return stage


def _fed_forward(
    stage: Stage, work: Work, anchors: Anchors, config: TrajectoryConfig
) -> tuple[Trajectory, TrajectoryReport]:
    """The trajectory from a network's passes, each kept as soon as it is there, or from a folder made elsewhere."""
    from skyanchor.trajectory.feedforward_run import recover_free

    def keep(name: str, make: Callable[[], FreeFrames]) -> FreeFrames:
        return stage.cached(f"{PROGRESS}/{name}.npz", FreeFrames, make)

    return recover_free(work.scaffold, work.sequence, anchors, config, stage.listen, keep)


def _submaps(stage: Stage, work: Work, planned: tuple[SubmapJob, ...]) -> tuple[SubmapResult, ...]:
    """Results of independent submaps, each kept under the digest of its job as soon as it is there."""
    _describe(stage, work, planned)
    calls = {}
    for job in planned:
        call = Job.of(recover_submap_job, sequence=work.sequence_file, features=work.features, job=job)
        calls[_submap_file(job)] = call
    return tuple(files.load(path, SubmapResult) for path in stage.produce("submaps", calls, work.executor))


def _describe(stage: Stage, work: Work, planned: tuple[SubmapJob, ...]) -> None:
    """Keypoints of all frames by all workers, which find fewer submaps than they are: a submap has one core."""
    missing = [job for job in planned if not stage.path(_submap_file(job)).is_file()]
    frames = sorted({frame for job in missing for frame in job.submap.frames})
    if not missing or not isinstance(missing[0].config.matcher, Sift):
        return  # a network's keypoints are found on the GPU, one process at a time
    shared = {"sequence": work.sequence_file, "features": work.features, "config": missing[0].config}
    parts = [frames[k : k + TOGETHER] for k in range(0, len(frames), TOGETHER)]
    work.executor.run([replace(Job.of(describe_frames_job, frames=some, **shared), gpu=False) for some in parts])


def _between(stage: Stage, work: Work, known: KnownMap, frames: tuple[int, ...]) -> tuple[Resected, ...]:
    """Poses of frames between keyframes by all workers, a few frames a job."""
    held = stage.path(f"{PROGRESS}/{KNOWN_FILE}")
    files.save(held, known)
    shared = {"known": held, "made": digest(held.read_bytes())}
    shared |= {"sequence": work.sequence_file, "features": work.features}
    parts = [frames[k : k + TOGETHER] for k in range(0, len(frames), TOGETHER)]
    jobs = [replace(Job.of(resect_frames_job, frames=some, **shared), gpu=False) for some in parts]
    found = work.executor.run(jobs, stage.listen)
    return tuple(one for part in found for one in codec.from_json(tuple[Resected, ...], part))


def _submap_file(job: SubmapJob) -> str:
    return f"{PROGRESS}/submap-{job.submap.index}-{value_digest(job)}.npz"


def _write_trajectory(stage: Stage, work: Work, trajectory: Trajectory, report: TrajectoryReport) -> None:
    """Our own records, and the same in formats that other programs read."""
    poses, points = records.split(work.names, work.scaffold.georef, trajectory)
    stage.save(records.TRAJECTORY_FILE, poses)
    stage.save(records.POINTS_FILE, points)
    stage.save(records.REPORT_FILE, _timeless(report))
    spent = tuple(SubmapSeconds(submap.index, submap.seconds, submap.phases) for submap in report.submaps)
    files.save(work.run.root / records.TRAJECTORY_SECONDS_FILE, TrajectorySeconds(spent, report.seconds))
    files.write_text(stage.path(export.TUM_FILE), export.tum_text(trajectory, work.scaffold.georef))
    track = export.geojson_text(trajectory, work.sequence, work.scaffold.georef)
    if track is not None:
        files.write_text(stage.path(export.GEOJSON_FILE), track)
    parts = (work.scaffold, work.sequence, trajectory)
    export.write_street_model(stage.path(records.MODEL_FOLDER), *parts)
    aerial_names = {view.name for view in work.scaffold.views}
    if aerial_names.isdisjoint(work.names):
        export.write_merged_model(stage.path(records.MERGED_FOLDER), *parts)
    else:
        stage.listen(Note(TRAJECTORY, "no merged model: aerial and street photos share names"))
    georeference.write_georef(stage.folder, work.scaffold.georef, work.scaffold.up)
    stage.finish(report.figures)


def _timeless(report: TrajectoryReport) -> TrajectoryReport:
    """The report without its seconds, which differ from run to run."""
    submaps = tuple(replace(submap, seconds={}, phases={}) for submap in report.submaps)
    return replace(report, submaps=submaps, seconds={})


def describe_frames_job(sequence: str, features: str, config: Json, frames: list[int], listen: Listener) -> None:
    """Keep the keypoints of some frames for the submaps."""
    held = codec.from_json(TrajectoryConfig, config)
    source = held_source(sequence, features, held.matcher, "cpu")
    for frame in frames:
        source.features(frame)


def resect_frames_job(known: str, made: str, sequence: str, features: str, frames: list[int], listen: Listener) -> Json:
    """The Resected of some frames between the keyframes of the KnownMap in a file, whose digest `made` is."""
    held = _known(known, made)
    source = held_source(sequence, features, held.config.matcher, held.config.device)
    return codec.to_json(resect(held, source, frames, load_sequence_file(sequence).stretch_of))


@lru_cache(maxsize=1)
def _known(path: str, made: str) -> KnownMap:
    return files.load(Path(path), KnownMap)


def recover_submap_job(out: str, sequence: str, features: str, job: Json, listen: Listener) -> None:
    """Write the SubmapResult of one SubmapJob."""
    given = codec.from_json(SubmapJob, job)
    source = held_source(sequence, features, given.config.matcher, given.config.device)
    files.save(Path(out), recover_submap(given, replace(source, limit=PhotoFeatures.limit)))


def held_source(sequence: str, features: str, matcher: AnySparse, device: str) -> PhotoFeatures:
    """The frames of a walk with the keypoints that earlier jobs left in this worker or in the folder."""
    return _source(sequence, files.mark(Path(sequence)), features, matcher, device)


@lru_cache(maxsize=2)
def _source(sequence: str, seen: str, features: str, matcher: AnySparse, device: str) -> PhotoFeatures:
    return PhotoFeatures(load_sequence_file(sequence), matcher, Path(features), device, HELD_FRAMES)
