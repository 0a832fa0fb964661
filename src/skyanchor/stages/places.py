"""Described places of the scaffold, one set per field of view of a street camera, for all walks that look alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from skyanchor.anchors.places import (
    PlaceIndex,
    PlacesConfig,
    PlaceView,
    choose_nodes,
    describe_nodes,
    index_places,
    load_descriptor,
    view_camera,
)
from skyanchor.bridges.ground import Ground
from skyanchor.bridges.surface import Surface
from skyanchor.bridges.views import AerialAtlas, Node
from skyanchor.events import Listener
from skyanchor.geometry import cameras
from skyanchor.matching.global_descriptors import GlobalDescriptor
from skyanchor.run import prepared as parts
from skyanchor.run.executor import Executor, Job
from skyanchor.run.folder import PROGRESS, Made, Stage
from skyanchor.sequence.intrinsics import guessed_camera
from skyanchor.stages.scaffold import SCAFFOLD_FILE, load_scaffold_file
from skyanchor.stages.survey import Site, value_digest
from skyanchor.storage import codec, files
from skyanchor.storage.codec import Json
from skyanchor.types import Camera, Scaffold

PHONE = guessed_camera(1920, 1080)
"""What a walk is taken with when nobody says."""
NODES_PER_JOB = 60
"""Places that one job describes: enough to share the aerial photos it reads."""
DESCRIBING = (
    "nodes", "bridge", "width", "features", "centres", "descriptor", "least_painted", "landmarks", "most_views",
)  # fmt: skip
"""Settings of `PlacesConfig` that the described places depend on; the others only matter for the search."""


@dataclass(frozen=True, eq=False)
class PlaceViews:
    """Described places, as a job leaves them."""

    views: tuple[PlaceView, ...]


def places_part(site: Site, surface: Made, camera: Camera, config: PlacesConfig) -> Made:
    """All places of the scaffold as such a street camera sees them: the set that is there, else made and kept."""
    settings = {"camera": view_camera(camera, config.width), "places": describing(config)}
    name = f"{parts.PLACES}/{_field_of_view(camera)}-{value_digest(settings)[:8]}"
    held = site.prepared.part(name)
    if held is not None:
        return held
    with site.adding(parts.PLACES) as folder:
        stage = folder.stage(name, "places as this street camera sees them", settings, {}, (surface,))
        if not stage.done:
            _make(stage, site.scaffold, surface, camera, config, site.executor)
        return stage


def describing(config: PlacesConfig) -> dict[str, Json]:
    """The settings that the described places depend on."""
    document = codec.to_json(config)
    assert isinstance(document, dict)
    return {name: document[name] for name in DESCRIBING}


def _field_of_view(camera: Camera) -> str:
    """Width and height of a camera's picture in whole degrees, e.g. 70x43."""
    flat = cameras.undistorted(camera)
    k = cameras.calibration(flat)
    wide, high = 2.0 * np.degrees(np.arctan2([flat.width, flat.height], [2.0 * k[0, 0], 2.0 * k[1, 1]]))
    return f"{wide:.0f}x{high:.0f}"


def _make(
    stage: Stage, scaffold: Scaffold, surface: Made, camera: Camera, config: PlacesConfig, executor: Executor
) -> None:
    ground = surface.load(parts.GROUND_FILE, Ground)
    stage.save(f"{PROGRESS}/{SCAFFOLD_FILE}", scaffold)
    chosen = choose_nodes(ground, scaffold.points, (), config)
    index = described(stage, chosen, surface, camera, config, executor)
    stage.save(parts.PLACES_FILE, index)
    stage.finish({"views": len(index.views)})


def described(
    stage: Stage,
    chosen: tuple[Node, ...],
    surface: Made,
    camera: Camera,
    config: PlacesConfig,
    executor: Executor,
    basis: object = None,
) -> PlaceIndex:
    """The index of the nodes, described a few dozen at a time; the stage holds scaffold.npz in its progress."""
    shared = {
        "scaffold": stage.path(f"{PROGRESS}/{SCAFFOLD_FILE}"),
        "surface": surface.path(parts.SURFACE_FILE),
        "camera": camera,
        "config": config,
    }
    groups = [chosen[start : start + NODES_PER_JOB] for start in range(0, len(chosen), NODES_PER_JOB)]
    work = {
        f"{PROGRESS}/places-{k}-{value_digest(group)}.npz": Job.of(describe_places_job, nodes=group, **shared)
        for k, group in enumerate(groups)
    }
    made = [files.load(path, PlaceViews).views for path in stage.produce("describe places", work, executor, basis)]
    return index_places(tuple(view for views in made for view in views), config.centres)


# --- jobs ---------------------------------------------------------------------------------------------------------


def describe_places_job(
    out: str, scaffold: str, surface: str, camera: Json, config: Json, nodes: Json, listen: Listener
) -> None:
    """Write the PlaceViews from some nodes."""
    settings, chosen = codec.from_json(PlacesConfig, config), codec.from_json(tuple[Node, ...], nodes)
    atlas = coarse_atlas(scaffold, surface, settings)
    descriptor = place_descriptor(scaffold, surface, settings)
    street = codec.from_json(Camera, camera)
    views = describe_nodes(atlas, chosen, street, settings.features.load(), settings, descriptor)
    files.save(Path(out), PlaceViews(views))


@lru_cache(maxsize=1)
def coarse_atlas(scaffold: str, surface: str, config: PlacesConfig) -> AerialAtlas:
    """The aerial photos as the views of places are painted from them."""
    views = load_scaffold_file(scaffold).views
    return AerialAtlas(files.load(Path(surface), Surface), views, config.bridge, limit_bytes=1 << 30)


@lru_cache(maxsize=1)
def place_descriptor(scaffold: str, surface: str, config: PlacesConfig) -> GlobalDescriptor | None:
    """The chosen global descriptor, ready to run; None for none."""
    if config.descriptor is None:
        return None
    return load_descriptor(config.descriptor, coarse_atlas(scaffold, surface, config))
