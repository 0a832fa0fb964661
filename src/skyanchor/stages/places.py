"""Described places of the scaffold, one set per field of view of a street camera, for all walks that look alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from skyanchor.anchors.places import PlacesConfig, PlaceView
from skyanchor.anchors.prepare import Describer, described_places
from skyanchor.bridges.ground import Ground
from skyanchor.bridges.surface import Surface
from skyanchor.bridges.views import Node
from skyanchor.events import Listener
from skyanchor.geometry import cameras
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
FOCAL_STEP = 1.1
"""Between the focal lengths that places are described for."""
SHAPES = (9 / 16, 2 / 3, 3 / 4, 1.0, 4 / 3, 3 / 2, 16 / 9)
"""Height over width of the pictures that places are described for."""
NODES_PER_JOB = 20
"""Places that one job describes: few enough to keep many cores busy to the end."""
DESCRIBING = (
    "nodes", "bridge", "width", "features", "centres", "descriptor", "least_painted", "landmarks", "most_views",
)  # fmt: skip
"""Settings of `PlacesConfig` that the described places depend on; the others only matter for the search."""


@dataclass(frozen=True, eq=False)
class PlaceViews:
    """Described places, as a job leaves them."""

    views: tuple[PlaceView, ...]


def places_part(site: Site, surface: Made, camera: Camera, config: PlacesConfig) -> Made:
    """All places of the scaffold as street cameras like this one see them: the set that is there, else made and kept.

    Any camera can be compared with any set, since places know their points in 3D; those of about its own field of view
    show the most of what it sees. Sets are kept in steps of a tenth of the focal length.
    """
    camera = like(camera, config.width)
    settings = {"camera": camera, "places": describing(config)}
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


def like(camera: Camera, width: int) -> Camera:
    """The camera that stands for all street cameras of about the same field of view and shape of picture."""
    flat = cameras.undistorted(camera)
    shape = min(SHAPES, key=lambda ratio: abs(np.log(ratio * flat.width / flat.height)))
    steps = round(float(np.log(cameras.focal_px(flat) / flat.width) / np.log(FOCAL_STEP)))
    return cameras.pinhole(width, round(width * shape), width * FOCAL_STEP**steps)


def _field_of_view(camera: Camera) -> str:
    """Width and height of a pinhole camera's picture in whole degrees, e.g. 70x43."""
    focal = cameras.focal_px(camera)
    wide, high = (2.0 * np.degrees(np.arctan2(side, 2.0 * focal)) for side in (camera.width, camera.height))
    return f"{wide:.0f}x{high:.0f}"


def _make(
    stage: Stage, scaffold: Scaffold, surface: Made, camera: Camera, config: PlacesConfig, executor: Executor
) -> None:
    ground = surface.load(parts.GROUND_FILE, Ground)
    stage.save(f"{PROGRESS}/{SCAFFOLD_FILE}", scaffold)
    jobs = JobDescriber(stage, surface, camera, config, executor)
    index = described_places(scaffold, ground, config, jobs.describe)
    stage.save(parts.PLACES_FILE, index)
    stage.finish({"views": len(index.views)})


@dataclass(frozen=True, eq=False)
class JobDescriber:
    """Describes places by jobs, a few dozen at a time; the stage holds scaffold.npz in its progress."""

    stage: Stage
    surface: Made
    camera: Camera
    config: PlacesConfig
    executor: Executor
    basis: object = None
    """What the kept results depend on besides the nodes."""

    def describe(self, nodes: tuple[Node, ...]) -> tuple[PlaceView, ...]:
        """Views from the nodes with their features; those that show too little are left out."""
        shared = {
            "scaffold": self.stage.path(f"{PROGRESS}/{SCAFFOLD_FILE}"),
            "surface": self.surface.path(parts.SURFACE_FILE),
            "camera": self.camera,
            "config": self.config,
        }
        groups = [nodes[start : start + NODES_PER_JOB] for start in range(0, len(nodes), NODES_PER_JOB)]
        work = {
            f"{PROGRESS}/places-{k}-{value_digest(group)}.npz": Job.of(describe_places_job, nodes=group, **shared)
            for k, group in enumerate(groups)
        }
        made = self.stage.produce("describe places", work, self.executor, self.basis)
        return tuple(view for path in made for view in files.load(path, PlaceViews).views)


# --- jobs ---------------------------------------------------------------------------------------------------------


def describe_places_job(
    out: str, scaffold: str, surface: str, camera: Json, config: Json, nodes: Json, listen: Listener
) -> None:
    """Write the PlaceViews from some nodes."""
    describer = _describer(scaffold, surface, codec.from_json(Camera, camera), codec.from_json(PlacesConfig, config))
    files.save(Path(out), PlaceViews(describer.describe(codec.from_json(tuple[Node, ...], nodes))))


@lru_cache(maxsize=1)
def _describer(scaffold: str, surface: str, camera: Camera, config: PlacesConfig) -> Describer:
    return Describer(load_scaffold_file(scaffold), files.load(Path(surface), Surface), camera, config)
