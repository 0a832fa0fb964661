"""Where the photos of a walk do not go on from those before them: looked for once, a part of the walk a job."""

from __future__ import annotations

from dataclasses import dataclass

from skyanchor.events import Listener, Progress
from skyanchor.run.executor import Executor, Job
from skyanchor.run.folder import RunFolder
from skyanchor.run.layout import STATE
from skyanchor.sequence import SequenceConfig, segments
from skyanchor.sequence.segments import SegmentConfig
from skyanchor.stages.survey import value_digest
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


def cut_where_photos_say(folder: RunFolder, sequence: Sequence, config: SequenceConfig, executor: Executor) -> Sequence:
    """The walk, also cut where photos do not go on from those before them."""
    if not config.segments.find:
        return sequence
    photos = folder.digest({frame.name: frame.path for frame in sequence.frames})
    looked_at, path = value_digest((photos, config.segments, config.cut)), folder.root / STATE / CUTS_FILE
    found = files.recall(path, FoundCuts)
    if found is None or found.looked_at != looked_at:
        cuts = _found(sequence, config, executor, folder.listen)
        found = FoundCuts(looked_at, cuts)
        files.save(path, found)
    return segments.cut_at(sequence, (*sequence.cuts, *found.cuts), config.cut) if found.cuts else sequence


def _found(sequence: Sequence, config: SequenceConfig, executor: Executor, listen: Listener) -> tuple[int, ...]:
    def looked(parts: tuple[tuple[int, int], ...]) -> list[tuple[int, ...]]:
        done: list[int] = []

        def tell(index: int, _: Json) -> None:
            done.append(parts[index][1] - parts[index][0])
            listen(Progress("walk", segments.GOING_ON, sum(done), len(sequence.frames) - 1))

        shared = {"sequence": sequence, "config": config.segments}
        jobs = [Job.of(find_cuts_job, first=first, end=end, **shared) for first, end in parts]
        return [codec.from_json(tuple[int, ...], cuts) for cuts in executor.run(jobs, listen, tell)]

    return segments.find_cuts(sequence, config.segments, config.cut.group_size, listen, looked)


def find_cuts_job(sequence: Json, config: Json, first: int, end: int, listen: Listener) -> Json:
    """The frames first .. end - 1 that begin a stretch."""
    walk, settings = codec.from_json(Sequence, sequence), codec.from_json(SegmentConfig, config)
    return list(segments.cuts_among(walk, settings, first, end))
