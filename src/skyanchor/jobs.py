"""Jobs of the stages: what a worker process runs. Inputs and results are files; arguments are JSON."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from skyanchor import codec, files
from skyanchor.codec import Json
from skyanchor.events import Listener
from skyanchor.photos import PhotoCache
from skyanchor.stereo.consistency import ConsistencyConfig, make_consistent
from skyanchor.stereo.estimate import StereoConfig, estimate_depth
from skyanchor.stereo.sources import in_frame
from skyanchor.stereo.storage import load_depth, save_depth
from skyanchor.trajectory import PhotoFeatures, SubmapJob, recover_submap
from skyanchor.types import Scaffold, Sequence

PHOTOS = PhotoCache(limit_bytes=512 << 20)
"""Photos that this worker has read."""


@lru_cache(maxsize=1)
def _sequence(path: str) -> Sequence:
    return files.load(Path(path), Sequence)


@lru_cache(maxsize=1)
def _scaffold(path: str) -> Scaffold:
    return files.load(Path(path), Scaffold)


def measure_depth_job(out: str, scaffold: str, view: int, sources: list[int], config: Json, listen: Listener) -> None:
    """Write the measured depth of one aerial photo."""
    held = _scaffold(scaffold)
    hints = held.points[held.tracks.point[held.tracks.image == view]]
    if not len(hints):
        hints = held.points[in_frame(held.views[view], held.points)]
    others = [held.views[k] for k in sources]
    settings = codec.from_json(StereoConfig, config)
    save_depth(Path(out), estimate_depth(held.views[view], others, hints, PHOTOS, settings, held.ground))


def agree_depth_job(out: str, own: str, others: list[str], config: Json, listen: Listener) -> None:
    """Write the depth of one photo that its neighbours confirm."""
    neighbours = [load_depth(Path(path)) for path in others]
    save_depth(
        Path(out), make_consistent(load_depth(Path(own)), neighbours, codec.from_json(ConsistencyConfig, config))
    )


def recover_submap_job(out: str, sequence: str, features: str, job: Json, listen: Listener) -> None:
    """Write the SubmapResult of one SubmapJob."""
    given = codec.from_json(SubmapJob, job)
    source = PhotoFeatures(_sequence(sequence), given.config.matcher, Path(features), given.config.device)
    files.save(Path(out), recover_submap(given, source))
