"""Scenes with known truth, as the benchmarks of the anchors take them: prepared once in a run folder, scored by truth.

A scene is a folder with `aerial`, and `ground` (or `ground2`, ...) with `images` and `truth`. Truth is read here only,
to score, and for the camera that a user would have calibrated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from skyanchor.anchors.place_index import PlaceIndex
from skyanchor.anchors.prepared_scaffold import PreparedScaffold, prepared_for
from skyanchor.bridges.ground import Ground
from skyanchor.bridges.surface import Surface
from skyanchor.evaluation.truth import PLACES, read_truth
from skyanchor.events import Event, Listener, Note, Progress, silent
from skyanchor.pipeline import CPU, PipelineConfig, read_work
from skyanchor.run import prepared as parts
from skyanchor.run.executor import executor_of
from skyanchor.run.folder import Made, RunFolder
from skyanchor.run.inputs import Inputs
from skyanchor.run.prepared import find_prepared
from skyanchor.scaffold import load_scaffold
from skyanchor.sequence import SequenceConfig, SubmapConfig, load_sequence
from skyanchor.stages import scaffold as scaffold_stage
from skyanchor.stages.places import place_files, places_part
from skyanchor.stages.windows import painted_from
from skyanchor.stages.work import Site
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
    import pycolmap  # not before skyanchor, which brings zlib first: the other way round the heap is spoilt

    folder = next(truth / place for place in PLACES if (truth / place).is_dir() and _is_model(truth / place))
    camera = next(iter(pycolmap.Reconstruction(str(folder)).cameras.values()))
    return ",".join([camera.model_name, *map(str, camera.params)])


def _is_model(folder: Path) -> bool:
    return any((folder / f"images{suffix}").is_file() for suffix in (".bin", ".txt"))


def config_for(ground: Path, submap: int = 100) -> PipelineConfig:
    """The defaults with the camera of a walk's truth."""
    return replace(
        CPU, sequence=SequenceConfig(camera=camera_of(ground / "truth"), cut=SubmapConfig(submap_length=submap))
    )


def load_scene(folder: Path, ground: str, submap: int = 100) -> Scene:
    """The scene and its truth."""
    scaffold = load_scaffold(folder / "aerial")
    sequence = load_sequence(folder / ground / "images", config_for(folder / ground, submap).sequence)
    return Scene(scaffold, sequence, read_truth(folder / ground / "truth", scaffold.georef.offset))


def prepared_in(run: Path, folder: Path, ground: str, listen: Listener = told) -> PreparedScaffold:
    """A scene's scaffold made ready for the camera of one of its walks, by stage 1 in a run folder."""
    config = config_for(folder / ground)
    with RunFolder(run, listen=listen) as opened:
        work = read_work(opened, Inputs(folder / "aerial", folder / ground / "images"), config, executor_of(1))
        surface = scaffold_stage.run(work.site, config.geometry, config.scaffold)
        camera, settings = work.sequence.camera, config.anchors.places
        places_part(work.site, surface, camera, settings)
        places = place_files(work.site, surface, camera, settings, (), listen).index()
    return _ready(painted_from(work.site), surface, places, config)


def prepared_at(run: Path, ground: Path) -> PreparedScaffold:
    """A scaffold as some run has left it, for the camera of a walk on it; only read, by any number of processes."""
    config, held = config_for(ground), find_prepared(run)
    assert held is not None, f"{run} holds no prepared scaffold"
    site, surface = Site(held.scaffold(), held, executor_of(1), given=True), held.needed(parts.SURFACE)
    camera = load_sequence(ground / "images", config.sequence).camera
    places = place_files(site, surface, camera, config.anchors.places, (), silent).index()
    return _ready(painted_from(site), surface, places, config)


def surface_at(run: Path) -> PreparedScaffold:
    """A scaffold as some run has left it, with no place described: for ways that match the aerial photos themselves."""
    held = find_prepared(run)
    assert held is not None, f"{run} holds no prepared scaffold"
    site = Site(held.scaffold(), held, executor_of(1), given=True)
    return _ready(painted_from(site), held.needed(parts.SURFACE), PlaceIndex((), None), CPU)


def _ready(scaffold: Scaffold, surface: Made, places: PlaceIndex, config: PipelineConfig) -> PreparedScaffold:
    on = (surface.load(parts.SURFACE_FILE, Surface), surface.load(parts.GROUND_FILE, Ground))
    return prepared_for(scaffold, *on, places, config.anchors)
