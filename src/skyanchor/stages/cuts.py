"""Where the photos of a walk do not go on from those before them: looked for once, a part of the walk a job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skyanchor.anchors.config import OdometryConfig
from skyanchor.anchors.frames import GroundFrames
from skyanchor.events import Listener, Progress
from skyanchor.matching import Features, strongest
from skyanchor.run.executor import Executor
from skyanchor.run.folder import RunFolder
from skyanchor.run.job import Job
from skyanchor.run.layout import STATE
from skyanchor.sequence import SequenceConfig, segments
from skyanchor.sequence.segments import SegmentConfig, WalkPhotos
from skyanchor.stages.digests import value_digest
from skyanchor.stages.work import kept_features
from skyanchor.storage import codec, files
from skyanchor.storage.codec import Json
from skyanchor.types import Sequence

CUTS_FILE = "cuts.json"
"""In .state/: where the photos do not go on."""


@dataclass(frozen=True)
class FoundCuts:
    """cuts.json."""

    looked_at: str
    """Digest of the photos and of how they were looked at."""
    cuts: tuple[int, ...]


def cut_where_photos_say(
    folder: RunFolder, sequence: Sequence, config: SequenceConfig, steps: OdometryConfig, executor: Executor
) -> Sequence:
    """The walk, also cut where photos do not go on from those before them.

    Unless it is said how to glance at them, they are by the keypoints that measure the steps of the walk later.
    """
    if not config.segments.find:
        return sequence
    photos = folder.digest({frame.name: frame.path for frame in sequence.frames})
    looked_at = value_digest((photos, config.segments, config.cut, steps.matcher, steps.strongest))
    path = folder.root / STATE / CUTS_FILE
    found = files.recall(path, FoundCuts)
    if found is None or found.looked_at != looked_at:
        found = FoundCuts(looked_at, _found(folder, sequence, config, steps, executor))
        folder.refuse_changed((photos,))
        files.save(path, found)
    return segments.cut_at(sequence, (*sequence.cuts, *found.cuts), config.cut) if found.cuts else sequence


def _found(
    folder: RunFolder, sequence: Sequence, config: SequenceConfig, steps: OdometryConfig, executor: Executor
) -> tuple[int, ...]:
    listen = folder.listen

    def looked(parts: tuple[tuple[int, int], ...]) -> list[tuple[int, ...]]:
        done: list[int] = []

        def tell(index: int, _: Json) -> None:
            done.append(parts[index][1] - parts[index][0])
            listen(Progress("walk", segments.GOING_ON, sum(done), len(sequence.frames) - 1))

        shared = {"sequence": sequence, "config": config.segments, "steps": steps, "features": kept_features(folder)}
        jobs = [Job.of(find_cuts_job, first=first, end=end, **shared) for first, end in parts]
        return [codec.from_json(tuple[int, ...], cuts) for cuts in executor.run(jobs, listen, tell)]

    return segments.find_cuts(sequence, config.segments, config.cut.group_size, listen, looked)


def find_cuts_job(
    sequence: Json, config: Json, steps: Json, features: str, first: int, end: int, listen: Listener
) -> Json:
    """The frames first .. end - 1 that begin a stretch; keypoints stay in the folder `features`."""
    walk, settings = codec.from_json(Sequence, sequence), codec.from_json(SegmentConfig, config)
    odometry, frames = codec.from_json(OdometryConfig, steps), GroundFrames(walk, Path(features))

    def keypoints(frame: int) -> Features:
        return strongest(frames.features(frame, odometry.matcher), odometry.strongest)

    glances = WalkPhotos(walk, odometry.matcher, keypoints) if settings.glance is None else None
    return list(segments.cuts_among(walk, settings, first, end, glances))
