"""Jobs of the stages: what a worker process runs. Inputs and results are files; arguments are JSON."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np

from skyanchor import codec, files
from skyanchor.anchors.bridges import AerialAtlas, Node
from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.focal import vote_focal
from skyanchor.anchors.frames import GroundFrames
from skyanchor.anchors.localise import PreparedScaffold
from skyanchor.anchors.odometry import measure_steps
from skyanchor.anchors.places import PlaceIndex, PlaceView, describe_nodes, load_descriptor
from skyanchor.anchors.stage import GroupTask, localise_task
from skyanchor.anchors.surface import Ground, Surface
from skyanchor.codec import Json
from skyanchor.events import Listener
from skyanchor.matching.global_descriptors import GlobalDescriptor
from skyanchor.photos import PhotoCache
from skyanchor.scaffold import visibility_graph
from skyanchor.stereo import (
    CompletionConfig,
    ConsistencyConfig,
    StereoConfig,
    complete,
    estimate_depth,
    load_depth,
    make_consistent,
    points_in_view,
    save_depth,
)
from skyanchor.trajectory import PhotoFeatures, SubmapJob, recover_submap
from skyanchor.types import Bytes, Camera, Scaffold, Sequence, View

SCAFFOLD, SEQUENCE, SETTINGS = "scaffold.npz", "sequence.json", "settings.json"
SURFACE, GROUND, PLACES = "surface.npz", "ground.npz", "places.npz"
"""Files in a stage's progress folder that its jobs share."""

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
    reference, others = held.views[view], [held.views[k] for k in sources]
    hints = points_in_view(view, reference, held.points, held.tracks)
    settings = codec.from_json(StereoConfig, config)
    save_depth(Path(out), estimate_depth(reference, others, hints, PHOTOS, settings, held.ground))


def agree_depth_job(
    out: str, scaffold: str, view: int, measured: list[str], agree: Json, fill: Json, listen: Listener
) -> None:
    """Write the depth of one photo, confirmed by its neighbours and completed; `measured` starts with its own."""
    held = _scaffold(scaffold)
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


@lru_cache(maxsize=1)
def _ready(context: str) -> tuple[PreparedScaffold, GroundFrames, AnchorConfig]:
    """What all groups share, from the files that the anchor stage left in a folder."""
    folder = Path(context)
    scaffold, config = _scaffold(str(folder / SCAFFOLD)), files.load(folder / SETTINGS, AnchorConfig)
    surface, ground = files.load(folder / SURFACE, Surface), files.load(folder / GROUND, Ground)
    atlas = AerialAtlas(surface, scaffold.views, config.bridge)
    index, graph = files.load(folder / PLACES, PlaceIndex), visibility_graph(scaffold)
    prepared = PreparedScaffold(scaffold, surface, ground, atlas, index, graph, descriptor=_descriptor(context))
    return prepared, GroundFrames(_sequence(str(folder / SEQUENCE)), config), config


@dataclass(frozen=True, eq=False)
class PlaceViews:
    """Described places, as a job leaves them."""

    views: tuple[PlaceView, ...]


@lru_cache(maxsize=1)
def _coarse_atlas(context: str) -> AerialAtlas:
    folder = Path(context)
    scaffold, config = _scaffold(str(folder / SCAFFOLD)), files.load(folder / SETTINGS, AnchorConfig)
    surface = files.load(folder / SURFACE, Surface)
    return AerialAtlas(surface, scaffold.views, config.places.bridge, limit_bytes=1 << 30)


@lru_cache(maxsize=1)
def _descriptor(context: str) -> GlobalDescriptor | None:
    choice = files.load(Path(context) / SETTINGS, AnchorConfig).places.descriptor
    return None if choice is None else load_descriptor(choice, _coarse_atlas(context))


def describe_places_job(out: str, context: str, nodes: Json, listen: Listener) -> None:
    """Write the PlaceViews from some nodes."""
    folder = Path(context)
    config, camera = files.load(folder / SETTINGS, AnchorConfig).places, _sequence(str(folder / SEQUENCE)).camera
    chosen = codec.from_json(tuple[Node, ...], nodes)
    atlas, descriptor = _coarse_atlas(context), _descriptor(context)
    views = describe_nodes(atlas, chosen, camera, config.features.load(), config, descriptor)
    files.save(Path(out), PlaceViews(views))


def localise_group_job(out: str, context: str, task: Json, listen: Listener) -> None:
    """Write the GroupVerdict on one GroupTask."""
    prepared, frames, _ = _ready(context)
    files.save(Path(out), localise_task(prepared, frames, codec.from_json(GroupTask, task)))


def vote_focal_job(out: str, context: str, task: Json, listen: Listener) -> None:
    """Write the FocalVotes of one GroupTask."""
    prepared, frames, config = _ready(context)
    given = codec.from_json(GroupTask, task)
    files.save(Path(out), vote_focal(prepared.index, prepared.ground, frames, given.group, config, given.near))


def measure_steps_job(out: str, context: str, first: int, last: int, focal: float, listen: Listener) -> None:
    """Write the Steps of one stretch of the walk."""
    folder = Path(context)
    config = files.load(folder / SETTINGS, AnchorConfig)
    frames = GroundFrames(_sequence(str(folder / SEQUENCE)), config, focal)
    files.save(Path(out), measure_steps(frames, first, last, config.odometry))


def recover_submap_job(out: str, sequence: str, features: str, job: Json, listen: Listener) -> None:
    """Write the SubmapResult of one SubmapJob."""
    given = codec.from_json(SubmapJob, job)
    source = PhotoFeatures(_sequence(sequence), given.config.matcher, Path(features), given.config.device)
    files.save(Path(out), recover_submap(given, source))
