"""Scenes with known truth, as the benchmarks of the anchors take them: prepared once in a run folder, scored by truth.

A scene is a folder with `aerial`, and `ground` (or `ground2`, ...) with `images` and `truth`. Truth is read here only,
to score, and for the camera that a user would have calibrated.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pycolmap

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.places import PlaceIndex
from skyanchor.anchors.prepare import Describer, PreparedScaffold, described_places, prepared_for
from skyanchor.bridges.ground import find_ground
from skyanchor.bridges.surface import Surface, fuse_surface
from skyanchor.evaluation.truth import PLACES, read_truth
from skyanchor.events import Event, Note, Progress
from skyanchor.pipeline import CPU
from skyanchor.run.executor import executor_of
from skyanchor.run.folder import RunFolder
from skyanchor.scaffold import load_scaffold
from skyanchor.sequence import SequenceConfig, SubmapConfig, load_sequence
from skyanchor.stages.scaffold import geometry_stage
from skyanchor.stages.survey import Survey
from skyanchor.stereo import DepthFolder
from skyanchor.storage import files
from skyanchor.types import Pose, Scaffold, Sequence


@dataclass(frozen=True, eq=False)
class Scene:
    """A flight, a walk through it, and where the walk really was."""

    scaffold: Scaffold
    sequence: Sequence
    true: dict[str, Pose]


def told(event: Event) -> None:
    """Print what happens."""
    if isinstance(event, Note):
        print("  ", event.text, flush=True)
    if isinstance(event, Progress):
        print(f"   {event.step} {event.done}/{event.total}", flush=True)


def camera_of(truth: Path) -> str:
    """The camera of a COLMAP model as `--camera` takes it."""
    folder = next(truth / place for place in PLACES if (truth / place).is_dir() and _is_model(truth / place))
    camera = next(iter(pycolmap.Reconstruction(str(folder)).cameras.values()))
    return ",".join([camera.model_name, *map(str, camera.params)])


def _is_model(folder: Path) -> bool:
    return any((folder / f"images{suffix}").is_file() for suffix in (".bin", ".txt"))


def load_walk(ground: Path, images: Path | None = None, submap: int = 100) -> Sequence:
    """The street frames with the camera of their truth, from another folder of images where one is given."""
    config = SequenceConfig(camera=camera_of(ground / "truth"), cut=SubmapConfig(submap_length=submap))
    return load_sequence(images or ground / "images", config)


def load_scene(folder: Path, ground: str, submap: int = 100) -> Scene:
    """The scene and its truth."""
    scaffold = load_scaffold(folder / "aerial")
    true = read_truth(folder / ground / "truth", scaffold.georef.offset)
    return Scene(scaffold, load_walk(folder / ground, submap=submap), true)


def prepared_in(run: Path, scaffold: Scaffold, sequence: Sequence, config: AnchorConfig) -> PreparedScaffold:
    """The scaffold made ready for the walk's camera; depth, surface and places are kept in a run folder."""
    with RunFolder(run, listen=told) as folder:
        depth = geometry_stage(folder, Survey(scaffold, sequence), CPU.geometry, executor_of(1))
    kept = run / "benchmark"
    if not (kept / "places.npz").is_file():
        maps = DepthFolder(depth.path("depth"), tuple(view.name for view in scaffold.views))
        surface = fuse_surface(maps, scaffold.up, config.surface, told)
        describer = Describer(scaffold, surface, sequence.camera, config.places)
        places = described_places(scaffold, find_ground(surface), config, describer.describe, told)
        files.save(kept / "surface.npz", surface)
        files.save(kept / "places.npz", places)
    surface, places = files.load(kept / "surface.npz", Surface), files.load(kept / "places.npz", PlaceIndex)
    return prepared_for(scaffold, surface, find_ground(surface), places, config)
