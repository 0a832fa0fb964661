"""Stage 1, the scaffold: dense depth of every aerial photo."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np

from skyanchor.events import Listener
from skyanchor.photos import PhotoCache
from skyanchor.run import records
from skyanchor.run.executor import Executor, Job
from skyanchor.run.folder import PROGRESS, RunFolder, Stage
from skyanchor.scaffold import georeference
from skyanchor.stages.survey import Survey, aerial_digests
from skyanchor.stereo import (
    CompletionConfig,
    ConsistencyConfig,
    SourceConfig,
    StereoConfig,
    choose_neighbours,
    choose_sources,
    complete,
    depth_path,
    estimate_depth,
    load_depth,
    make_consistent,
    points_in_view,
    save_depth,
)
from skyanchor.stereo.sources import NEIGHBOURS
from skyanchor.storage import codec, files
from skyanchor.storage.codec import Json
from skyanchor.types import Bytes, Camera, Ints, Scaffold, View

SCAFFOLD = "scaffold.npz"
"""In the progress folder: the aerial model, for the """

PHOTOS = PhotoCache(limit_bytes=512 << 20)
"""Photos that this worker has read."""


@lru_cache(maxsize=1)
def load_scaffold_file(path: str) -> Scaffold:
    """The aerial model that a stage left for its"""
    return files.load(Path(path), Scaffold)


@dataclass(frozen=True)
class GeometryConfig:
    """Dense depth of the aerial photos."""

    sources: SourceConfig = field(default_factory=SourceConfig)
    """Photos that measure a photo's depth."""
    stereo: StereoConfig = field(default_factory=StereoConfig)
    neighbours: SourceConfig = NEIGHBOURS
    """Photos whose depth confirms it."""
    consistency: ConsistencyConfig = field(default_factory=ConsistencyConfig)
    completion: CompletionConfig = field(default_factory=CompletionConfig)


def geometry_stage(run: RunFolder, survey: Survey, config: GeometryConfig, executor: Executor) -> Stage:
    """Dense depth of every aerial photo, measured and then confirmed by its neighbours: depth/NAME.npz."""
    views = survey.scaffold.views
    settings = {"geometry": config, "up": survey.scaffold.up, "ground": survey.scaffold.ground}
    stage = run.stage(
        records.SCAFFOLD, f"depth of {len(views)} aerial photos", settings, aerial_digests(run, survey.scaffold)
    )
    if not stage.done:
        stage.save(f"{PROGRESS}/{SCAFFOLD}", survey.scaffold)
        seen = (views, survey.scaffold.points, survey.scaffold.tracks)
        measured = _measured_depths(stage, views, choose_sources(*seen, config.sources), config, executor)
        _agreed_depths(stage, views, choose_neighbours(*seen, config.neighbours), measured, config, executor)
        georeference.write_georef(stage.folder, survey.scaffold.georef, survey.scaffold.up)
        stage.finish({"photos": len(views)})
    return stage


def _measured_depths(
    stage: Stage, views: tuple[View, ...], sources: tuple[Ints, ...], config: GeometryConfig, executor: Executor
) -> list[Path]:
    scaffold = stage.path(f"{PROGRESS}/{SCAFFOLD}")
    work = {
        depth_path(Path(PROGRESS, "measured"), view.name).as_posix(): Job.of(
            measure_depth_job, scaffold=scaffold, view=k, sources=sources[k].tolist(), config=config.stereo
        )
        for k, view in enumerate(views)
    }
    return stage.produce("depth measured", work, executor)


def _agreed_depths(
    stage: Stage,
    views: tuple[View, ...],
    neighbours: tuple[Ints, ...],
    measured: list[Path],
    config: GeometryConfig,
    executor: Executor,
) -> list[Path]:
    scaffold = stage.path(f"{PROGRESS}/{SCAFFOLD}")
    work = {
        depth_path(Path("depth"), view.name).as_posix(): Job.of(
            agree_depth_job,
            scaffold=scaffold,
            view=k,
            measured=[measured[k], *(measured[j] for j in neighbours[k])],
            agree=config.consistency,
            fill=config.completion,
        )
        for k, view in enumerate(views)
    }
    return stage.produce("depth confirmed", work, executor)


def measure_depth_job(out: str, scaffold: str, view: int, sources: list[int], config: Json, listen: Listener) -> None:
    """Write the measured depth of one aerial photo."""
    held = load_scaffold_file(scaffold)
    reference, others = held.views[view], [held.views[k] for k in sources]
    hints = points_in_view(view, reference, held.points, held.tracks)
    settings = codec.from_json(StereoConfig, config)
    save_depth(Path(out), estimate_depth(reference, others, hints, PHOTOS, settings, held.ground))


def agree_depth_job(
    out: str, scaffold: str, view: int, measured: list[str], agree: Json, fill: Json, listen: Listener
) -> None:
    """Write the depth of one photo, confirmed by its neighbours and completed; `measured` starts with its own."""
    held = load_scaffold_file(scaffold)
    own, *others = (load_depth(Path(path)) for path in measured)
    confirmed = make_consistent(own, others, codec.from_json(ConsistencyConfig, agree))
    pixels = _pixels(held.views[view], own.camera)
    settings = codec.from_json(CompletionConfig, fill)
    save_depth(Path(out), complete(confirmed, own, pixels, held.ground, settings))


def _pixels(view: View, camera: Camera) -> Bytes:
    """The photo at the size of a depth map's camera."""
    photo, _ = PHOTOS.photo(view.name, view.path, view.camera, 2 * camera.width, view.mask_path)
    small = cv2.resize(photo.pixels, (camera.width, camera.height), interpolation=cv2.INTER_AREA)
    return np.asarray(small, dtype=np.uint8)
