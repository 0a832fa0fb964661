"""What depends on the walk alone, for workers that would wait while the aerial model is made."""

from __future__ import annotations

from pathlib import Path

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.frames import GroundFrames
from skyanchor.backends.devices import resolved
from skyanchor.events import Listener
from skyanchor.feedforward import Incremental
from skyanchor.run.job import Job
from skyanchor.stages.job_files import load_sequence_file
from skyanchor.stages.trajectory import held_source
from skyanchor.stages.work import Work
from skyanchor.storage import codec
from skyanchor.storage.codec import Json
from skyanchor.trajectory import TrajectoryConfig

FRAMES_PER_JOB = 3
"""Frames of a group that one job looks at: what a worker is at when it is wanted, others wait for."""


REACH = 6
"""Frames are matched with so many after them: about half of these pairs are asked for, and most of what is asked for is
among them."""
MATCHED_PER_JOB = 5
"""Frames that one job matches with those after them."""


def street_jobs(work: Work, config: AnchorConfig) -> list[Job]:
    """Jobs that leave the keypoints which the anchor stage will look for first; where it bridges, none elsewhere."""
    if config.route != "bridges":
        return []
    shared = {"sequence": work.sequence_file, "features": work.features, "config": config}
    wanted = [frames[k : k + FRAMES_PER_JOB] for frames in _groups(work) for k in range(0, len(frames), FRAMES_PER_JOB)]
    return [Job.of(describe_frames_job, frames=frames, **shared) for frames in wanted]


def pair_jobs(work: Work, config: TrajectoryConfig) -> list[Job]:
    """Jobs that leave the matches of frames with those soon after them, which the trajectory will look for first."""
    if not isinstance(config.local, Incremental) or resolved(config.device) != "cpu":
        return []
    shared = {"sequence": work.sequence_file, "features": work.features, "config": config}
    count = len(work.sequence.frames)
    return [
        Job.of(match_frames_job, first=first, end=min(first + MATCHED_PER_JOB, count), **shared)
        for first in range(0, count, MATCHED_PER_JOB)
    ]


def _groups(work: Work) -> list[tuple[int, ...]]:
    return [group.frames for group in work.sequence.groups]


def describe_frames_job(sequence: str, features: str, frames: list[int], config: Json, listen: Listener) -> None:
    """Leave keypoints of some frames in the folder `features`, as places and bridge views are compared with."""
    held = GroundFrames(load_sequence_file(sequence), Path(features))
    settings = codec.from_json(AnchorConfig, config)
    last = () if settings.refine.last is None else (settings.refine.last,)
    for frame in frames:
        for choice in (settings.places.features, settings.refine.matcher, *last):
            if held.keeps(choice):
                held.features(frame, choice)


def match_frames_job(sequence: str, features: str, first: int, end: int, config: Json, listen: Listener) -> None:
    """Leave the matches of frames first .. end - 1 with the next ones of their stretch in the folder `features`."""
    walk, settings = load_sequence_file(sequence), codec.from_json(TrajectoryConfig, config)
    source = held_source(sequence, features, settings.matcher, settings.device)
    for frame in range(first, end):
        after = range(frame + 1, min(frame + 1 + REACH, len(walk.frames)))
        source.match_ahead(frame, [other for other in after if walk.stretch_of(other) == walk.stretch_of(frame)])
