"""Jobs of the stages: what a worker process runs. Inputs and results are files; arguments are JSON."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from skyanchor import codec, files
from skyanchor.codec import Json
from skyanchor.events import Listener
from skyanchor.trajectory import PhotoFeatures, SubmapJob, recover_submap
from skyanchor.types import Sequence


@lru_cache(maxsize=1)
def _sequence(path: str) -> Sequence:
    return files.load(Path(path), Sequence)


def recover_submap_job(out: str, sequence: str, features: str, job: Json, listen: Listener) -> None:
    """Write the SubmapResult of one SubmapJob."""
    given = codec.from_json(SubmapJob, job)
    source = PhotoFeatures(_sequence(sequence), given.config.matcher, Path(features), given.config.device)
    files.save(Path(out), recover_submap(given, source))
