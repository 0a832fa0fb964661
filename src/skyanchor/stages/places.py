"""Described places of the scaffold: one set per field of view of a street camera, tile by tile, for all walks alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from skyanchor.anchors.place_description import Describer, Sampled, choose_nodes, tiles_of
from skyanchor.anchors.place_finding import PlacesConfig
from skyanchor.anchors.place_index import TILE_FORMAT, PlaceIndex
from skyanchor.anchors.priors import Prior
from skyanchor.bridges.ground import Ground
from skyanchor.bridges.surface import Surface
from skyanchor.bridges.views import Node
from skyanchor.events import Listener
from skyanchor.geometry import cameras
from skyanchor.matching.retrieval import Vocabulary
from skyanchor.run import prepared as parts
from skyanchor.run.folder import Made, Stage
from skyanchor.run.job import Job
from skyanchor.run.layout import PROGRESS
from skyanchor.sequence.intrinsics import guessed_camera
from skyanchor.stages.digests import value_digest
from skyanchor.stages.job_files import SCAFFOLD_FILE, load_scaffold_file
from skyanchor.stages.windows import painted_from, windows_under
from skyanchor.stages.work import Site
from skyanchor.storage import codec, files
from skyanchor.storage.codec import Json
from skyanchor.types import Camera

PHONE = guessed_camera(1920, 1080)
"""What a walk is taken with when nobody says."""
FOCAL_STEP = 1.1
"""Between the focal lengths that places are described for."""
SHAPES = (9 / 16, 2 / 3, 3 / 4, 1.0, 4 / 3, 3 / 2, 16 / 9)
"""Height over width of the pictures that places are described for."""
VOCABULARY_FILE = "vocabulary.npz"
"""In the folder of a set of places, beside its tiles."""
SAMPLED_FILE = f"{PROGRESS}/sampled.npz"
"""The views that words were found in, for the jobs that describe the tiles."""
DESCRIBING = (
    "nodes", "bridge", "paint_m", "width", "features", "centres", "descriptor", "least_painted", "landmarks", "tile",
    "sampled",
)  # fmt: skip
"""Settings of `PlacesConfig` that the described places depend on; the others only matter for the search."""


@dataclass(frozen=True, eq=False)
class Words:
    """vocabulary.npz."""

    vocabulary: Vocabulary | None


@dataclass(frozen=True)
class PlaceFiles:
    """The places that a search looks at."""

    vocabulary: Path
    tiles: tuple[Path, ...]

    def index(self) -> PlaceIndex:
        """The places, mapped."""
        return PlaceIndex(self.tiles, files.load(self.vocabulary, Words).vocabulary)


def places_part(site: Site, surface: Made, camera: Camera, config: PlacesConfig) -> Made:
    """All places of the scaffold as street cameras like this one see them: the set that is there, else made and kept.

    Any camera can be compared with any set, since places know their points in 3D; those of about its own field of view
    show the most of what it sees. Sets are kept in steps of a tenth of the focal length.
    """
    camera = like(camera, config.width)
    name, settings = _set_for(site, camera, config)
    held = site.prepared.part(name)
    if held is not None:
        return held
    with site.adding(parts.PLACES) as folder:
        upstream = (surface, *windows_under(site))
        stage = folder.stage(name, "places as this street camera sees them", settings, {}, upstream)
        if not stage.done:
            made = _make(stage, site, surface, camera, config, ())
            stage.finish({"views": len(made.index())})
        return stage


def place_files(
    site: Site, surface: Made, camera: Camera, config: PlacesConfig, near: tuple[Prior, ...], listen: Listener
) -> PlaceFiles:
    """The tiles that priors (in the scaffold's coordinates) allow; those that nobody needed before are described now.

    They stay with the scaffold: a set that only walks with priors have used is unfinished, and grows.
    """
    camera = like(camera, config.width)
    name, settings = _set_for(site, camera, config)
    if not near or site.prepared.part(name) is not None:
        ground = surface.load(parts.GROUND_FILE, Ground)
        return _files(site.prepared.root / name, tuple(tiles_of(site.scaffold, ground, config, near, listen)))
    with site.adding(parts.PLACES) as folder:
        upstream = (surface, *windows_under(site))
        stage = folder.stage(name, "places where the walk may have been", settings, {}, upstream)
        stage.grows = True
        made = _make(stage, site, surface, camera, config, near)
        stage.refuse_changed()
        return made


def _set_for(site: Site, camera: Camera, config: PlacesConfig) -> tuple[str, dict[str, object]]:
    """(name, settings) of the set of places that a camera's walks use.

    Tiles name the views that they were painted from by number: with windows, or with others, it is another set.
    """
    settings: dict[str, object] = {"camera": camera, "places": describing(config), "format": TILE_FORMAT}
    for windows in windows_under(site):
        settings[parts.WINDOWS] = windows.recipe.settings
    return f"{parts.PLACES}/{_field_of_view(camera)}-{value_digest(settings)[:8]}", settings


def _files(folder: Path, squares: tuple[tuple[int, int], ...]) -> PlaceFiles:
    return PlaceFiles(folder / VOCABULARY_FILE, tuple(folder / _tile_file(square) for square in squares))


def _tile_file(square: tuple[int, int]) -> str:
    return f"{parts.TILES}/{square[0]}_{square[1]}.npz"


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
    stage: Stage, site: Site, surface: Made, camera: Camera, config: PlacesConfig, near: tuple[Prior, ...]
) -> PlaceFiles:
    """The vocabulary and the tiles that priors allow, described by jobs where they are not there."""
    scaffold, ground = painted_from(site), surface.load(parts.GROUND_FILE, Ground)
    stage.save(f"{PROGRESS}/{SCAFFOLD_FILE}", scaffold)
    shared = {
        "scaffold": stage.path(f"{PROGRESS}/{SCAFFOLD_FILE}"),
        "surface": surface.path(parts.SURFACE_FILE),
        "camera": camera,
        "config": config,
        "sampled": stage.path(SAMPLED_FILE),
    }
    tiles = tiles_of(scaffold, ground, config, near, stage.listen)
    everywhere = {VOCABULARY_FILE: Job.of(find_words_job, ground=surface.path(parts.GROUND_FILE), **shared)}
    words = stage.produce("words for places", everywhere, site.executor)[0]
    work = {
        _tile_file(square): Job.of(describe_places_job, nodes=nodes, words=words, **shared)
        for square, nodes in tiles.items()
    }
    stage.produce("describe places", work, site.executor)
    return _files(stage.folder, tuple(tiles))


# --- jobs ---------------------------------------------------------------------------------------------------------


def find_words_job(
    out: str, scaffold: str, surface: str, ground: str, camera: Json, config: Json, sampled: str, listen: Listener
) -> None:
    """Write the Words of places, and the Sampled views that they were found in."""
    describer = _describer(scaffold, surface, codec.from_json(Camera, camera), codec.from_json(PlacesConfig, config))
    nodes = choose_nodes(files.load(Path(ground), Ground), describer.scaffold.points, describer.config)
    held = describer.sampled(nodes)
    files.save(Path(sampled), held)
    files.save(Path(out), Words(describer.vocabulary(held)))


def describe_places_job(
    out: str,
    scaffold: str,
    surface: str,
    camera: Json,
    config: Json,
    sampled: str,
    nodes: Json,
    words: str,
    listen: Listener,
) -> None:
    """Write the PlaceTile of some nodes."""
    describer = _describer(scaffold, surface, codec.from_json(Camera, camera), codec.from_json(PlacesConfig, config))
    vocabulary = files.load(Path(words), Words).vocabulary
    held = _sampled(sampled, files.mark(Path(sampled))) if Path(sampled).is_file() else None
    files.save(Path(out), describer.tile(codec.from_json(tuple[Node, ...], nodes), vocabulary, held))


@lru_cache(maxsize=1)
def _sampled(path: str, seen: str) -> Sampled:
    """The views in a file as it was at some time."""
    return files.load(Path(path), Sampled)


def _describer(scaffold: str, surface: str, camera: Camera, config: PlacesConfig) -> Describer:
    seen = (files.mark(Path(scaffold)), files.mark(Path(surface)))
    return _held_describer(scaffold, surface, seen, camera, config)


@lru_cache(maxsize=1)
def _held_describer(
    scaffold: str, surface: str, seen: tuple[str, str], camera: Camera, config: PlacesConfig
) -> Describer:
    return Describer(load_scaffold_file(scaffold), files.load(Path(surface), Surface), camera, config)
