"""What depends on the walk alone, for workers that would wait while the aerial model is made."""

from __future__ import annotations

from pathlib import Path

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.frames import GroundFrames
from skyanchor.events import Listener
from skyanchor.run.executor import Job
from skyanchor.stages.anchors import load_sequence_file
from skyanchor.stages.survey import Work
from skyanchor.storage import codec
from skyanchor.storage.codec import Json

FRAMES_PER_JOB = 3
"""Frames of a group that one job looks at: what a worker is at when it is wanted, others wait for."""


def street_jobs(work: Work, config: AnchorConfig) -> list[Job]:
    """Jobs that leave the keypoints which the anchor stage will look for first; where it bridges, none elsewhere."""
    if config.route != "bridges":
        return []
    shared = {"sequence": work.sequence_file, "features": work.features, "config": config}
    wanted = [frames[k : k + FRAMES_PER_JOB] for frames in _groups(work) for k in range(0, len(frames), FRAMES_PER_JOB)]
    return [Job.of(describe_frames_job, frames=frames, **shared) for frames in wanted]


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
