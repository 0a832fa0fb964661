"""Stage 1, the scaffold: dense depth of every aerial photo, and the surface that the depth maps agree on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np

from skyanchor.bounds import NotNegative
from skyanchor.bridges.fusion import SurfaceConfig, fuse_surface
from skyanchor.bridges.ground import find_ground
from skyanchor.errors import InputError, RecipeError
from skyanchor.events import SCAFFOLD, Listener, Note
from skyanchor.geometry import rigid
from skyanchor.photos import PhotoCache
from skyanchor.run import prepared as parts
from skyanchor.run.executor import Executor, alone, in_threads
from skyanchor.run.folder import Made, RunFolder, Stage, read_finished
from skyanchor.run.job import Job
from skyanchor.run.layout import PROGRESS, RECIPE
from skyanchor.run.prepared import Prepared
from skyanchor.scaffold import ScaffoldConfig, georeference
from skyanchor.scaffold.windows import WindowConfig, ground_samples
from skyanchor.stages.digests import aerial_digests
from skyanchor.stages.job_files import SCAFFOLD_FILE, load_scaffold_file
from skyanchor.stages.windows import windows_part
from skyanchor.stages.work import Site
from skyanchor.stereo import (
    CompletionConfig,
    ConsistencyConfig,
    DepthFolder,
    RefineConfig,
    SourceConfig,
    StereoConfig,
    choose_neighbours,
    choose_sources,
    complete,
    depth_files,
    estimate_depth,
    make_consistent,
    points_in_view,
    save_depth,
)
from skyanchor.stereo.sources import NEIGHBOURS
from skyanchor.storage import codec, files
from skyanchor.storage.codec import Json
from skyanchor.types import Bytes, Camera, Floats, Ints, Scaffold, View

MEASURED = f"{PROGRESS}/measured"
"""In the folder of depth: maps before they are confirmed."""

TILES = "tiles"
"""In a progress folder: what of the surface finds no room in memory."""

SMALLEST_DEPTH = 256
"""Width of depth maps of low flights, pixels: windows of the stereo matching must not span houses."""

UNSAMPLED_DEPTH = 800
"""Width of depth maps where no sparse point tells what a pixel covers."""

LEAST_BASELINE = 0.002
"""Between two photos over the distance to what they show: with less there is no depth to be measured."""

DEPTH_BYTES = 1 << 28
"""Depth maps held in memory while they are compared, and while the surface is made."""

PHOTO_BYTES = 512 << 20
"""Photos held in memory while depth is measured, at most."""

PHOTOS_HELD = 40
"""So many are enough, at both sizes that they are looked at: with fewer, photos that follow each other on a flight of
five cameras read what they share again; with twice as many they read as much."""

PHOTOS = PhotoCache(PHOTO_BYTES)
"""Photos that this worker has read."""


@dataclass(frozen=True)
class GeometryConfig:
    """Dense depth of the aerial photos and the surface made of it."""

    sources: SourceConfig = field(default_factory=SourceConfig)
    """Photos that measure a photo's depth."""
    sample_m: NotNegative = 0.15
    """Ground sample distance that depth is measured at, metres per pixel, if the photos are finer; 0 is theirs."""
    stereo: StereoConfig = field(default_factory=lambda: StereoConfig(refine=RefineConfig(coarse_rounds=2, rounds=1)))
    neighbours: SourceConfig = NEIGHBOURS
    """Photos whose depth confirms it."""
    consistency: ConsistencyConfig = field(default_factory=ConsistencyConfig)
    completion: CompletionConfig = field(default_factory=CompletionConfig)
    surface: SurfaceConfig = field(default_factory=SurfaceConfig)
    """The surface that the depth maps agree on."""
    windows: WindowConfig = field(default_factory=WindowConfig)
    """Large photos are cut, for street-level views to be painted from as fine as they are."""


def run(site: Site, config: GeometryConfig, reading: ScaffoldConfig) -> Made:
    """The surface of the scaffold: as it was prepared, or made now with the depth that it needs.

    Large photos have their windows beside it then.
    """
    if site.given:
        found = site.prepared.needed(parts.SURFACE)
        windows_part(site, config.windows)
        return found
    replace_earlier_layout(site)
    with site.adding(parts.DEPTH) as folder:
        depth = depth_part(folder, site.scaffold, config, site.executor)
        parts.write_aerial(folder.root, site.scaffold, reading)
        surface = surface_part(folder, site.scaffold, depth, config.surface, site.executor)
    windows_part(site, config.windows)
    return surface


def replace_earlier_layout(site: Site) -> None:
    """Remove a first stage of version 0.1's earlier layout under redo; RecipeError without it."""
    root = site.prepared.root
    held = read_finished(root)
    if held is None or held.recipe.stage != SCAFFOLD:
        return
    if not site.redo:
        advice = "Use --redo to make it again, or another folder"
        raise RecipeError(f"{root} was made by an earlier version, which kept depth alone there. {advice}.")
    files.remove(root)


def check_photos_are_those(run: RunFolder, prepared: Prepared, scaffold: Scaffold) -> None:
    """InputError when the photos are not those that the scaffold was prepared from."""
    made_from = prepared.needed(parts.DEPTH).recipe.inputs
    changed = [name for name, digest in aerial_digests(run, scaffold).items() if made_from.get(name) != digest]
    if changed:
        advice = "Give the same photos with --images, or prepare the scaffold anew."
        raise InputError(prepared.root, f"was prepared from other {' and '.join(changed)}", advice)


# --- depth --------------------------------------------------------------------------------------------------------


def depth_part(folder: RunFolder, scaffold: Scaffold, config: GeometryConfig, executor: Executor) -> Stage:
    """Dense depth of every aerial photo, measured and then confirmed by its neighbours: depth/NAME.npz."""
    views = scaffold.views
    given = ("sources", "sample_m", "stereo", "neighbours", "consistency", "completion")
    settings = {name: getattr(config, name) for name in given} | {"up": scaffold.up, "ground": scaffold.ground}
    what = f"depth of {len(views)} aerial photos"
    stage = folder.stage(parts.DEPTH, what, settings, aerial_digests(folder, scaffold))
    if not stage.done:
        stage.save(f"{PROGRESS}/{SCAFFOLD_FILE}", scaffold)
        seen = (views, scaffold.points, scaffold.tracks)
        sources = choose_sources(*seen, config.sources)
        refuse_lonely(scaffold, sources, config.consistency.fewest_layers)
        stereo = replace(config.stereo, width=depth_width(scaffold, config))
        with ThreadPoolExecutor(1) as beside:
            neighbours = beside.submit(choose_neighbours, *seen, config.neighbours)
            _measured_depths(stage, views, sources, stereo, executor)
            _agreed_depths(stage, views, neighbours.result(), config, executor)
        georeference.write_georef(stage.folder, scaffold.georef, scaffold.up)
        stage.finish({"photos": len(views)})
    return stage


def refuse_lonely(scaffold: Scaffold, sources: tuple[Ints, ...], fewest: int) -> None:
    """InputError, before depth is measured, when no photo overlaps with so many that a depth could be confirmed."""
    centres = rigid.centres_in_world([view.cam_from_world for view in scaffold.views])
    reach = np.median(np.linalg.norm(scaffold.points - centres.mean(axis=0), axis=1)) if len(scaffold.points) else 0.0

    def elsewhere(view: int, others: Ints) -> int:
        apart = np.linalg.norm(centres[others] - centres[view], axis=1)
        return int(np.sum(apart > LEAST_BASELINE * reach))

    if not any(elsewhere(k, others) + 1 >= fewest for k, others in enumerate(sources)):
        problem = f"has {len(sources)} photos, none of which overlaps with {fewest - 1} others taken elsewhere"
        advice = f"Depth is confirmed where {fewest} photos show the same place: give a flight with more overlap."
        raise InputError(scaffold.root, problem, advice)


def depth_width(scaffold: Scaffold, config: GeometryConfig) -> int:
    """Width of the depth maps, pixels: that of `sample_m` on the ground, at most `stereo.width`.

    Places, bridges and the scene need the shape of houses and cars, which are metres large; what a wall looks like
    comes from the photos, and where a match lies from several of them.
    """
    samples = ground_samples(scaffold)
    across = (samples * [view.camera.width for view in scaffold.views])[np.isfinite(samples)]
    if not len(across):
        return min(config.stereo.width, UNSAMPLED_DEPTH)
    if config.sample_m <= 0:
        return config.stereo.width
    asked = float(np.median(across)) / config.sample_m
    return int(min(config.stereo.width, max(SMALLEST_DEPTH, 16 * np.ceil(asked / 16))))


def depth_megapixels(scaffold: Scaffold, config: GeometryConfig) -> float:
    """Of the depth maps of all photos."""
    width = depth_width(scaffold, config)
    sizes = [(min(width, view.camera.width), view.camera.height / view.camera.width) for view in scaffold.views]
    return sum(across**2 * shape for across, shape in sizes) / 1e6


def _measured_depths(
    stage: Stage, views: tuple[View, ...], sources: tuple[Ints, ...], config: StereoConfig, executor: Executor
) -> list[Path]:
    scaffold = stage.path(f"{PROGRESS}/{SCAFFOLD_FILE}")
    work = {
        f"{MEASURED}/{name}": Job.of(
            measure_depth_job, scaffold=scaffold, view=k, sources=sources[k].tolist(), config=config
        )
        for k, name in enumerate(depth_files([view.name for view in views]))
    }
    runner = in_threads(executor) if config.backend.takes_turns else executor
    return stage.produce("depth measured", work, runner)


def _agreed_depths(
    stage: Stage,
    views: tuple[View, ...],
    neighbours: tuple[Ints, ...],
    config: GeometryConfig,
    executor: Executor,
) -> list[Path]:
    scaffold = stage.path(f"{PROGRESS}/{SCAFFOLD_FILE}")
    shared = {"scaffold": scaffold, "agree": config.consistency, "fill": config.completion}
    shared |= {"measured": stage.path(MEASURED), "made": files.mark(stage.path(f"{PROGRESS}/{RECIPE}"))}
    work = {
        name: replace(Job.of(agree_depth_job, view=k, neighbours=neighbours[k].tolist(), **shared), gpu=False)
        for k, name in enumerate(depth_files([view.name for view in views]))
    }
    return stage.produce("depth confirmed", work, executor)


# --- surface ------------------------------------------------------------------------------------------------------


def surface_part(
    folder: RunFolder, scaffold: Scaffold, depth: Stage, config: SurfaceConfig, executor: Executor
) -> Stage:
    """The surface and its ground: surface.npz, ground.npz."""
    stage = folder.stage(parts.SURFACE, f"surface of {len(scaffold.views)} depth maps", config, {}, (depth,))
    if not stage.done:
        scratch = stage.path(f"{PROGRESS}/{TILES}")
        names = tuple(view.name for view in scaffold.views)
        made = {"depth": depth.folder, "names": names, "up": scaffold.up, "config": config}
        out = {"surface": stage.path(parts.SURFACE_FILE), "ground": stage.path(parts.GROUND_FILE), "scratch": scratch}
        (said,) = alone(executor).run([Job.of(fuse_surface_job, **made, **out)], stage.listen)
        found = codec.from_json(SurfaceFigures, said)
        files.remove(scratch)
        stage.listen(Note(stage.label, f"{found.surfels} surfels, {found.free_m2:.0f} m² of free ground"))
        stage.finish({"surfels": found.surfels, "free_m2": found.free_m2})
    return stage


@dataclass(frozen=True)
class SurfaceFigures:
    """What came of the depth maps."""

    surfels: int
    free_m2: float
    """Ground that one can stand on, m²."""


# --- jobs ---------------------------------------------------------------------------------------------------------


def measure_depth_job(out: str, scaffold: str, view: int, sources: list[int], config: Json, listen: Listener) -> None:
    """Write the measured depth of one aerial photo."""
    held = load_scaffold_file(scaffold)
    reference, others = held.views[view], [held.views[k] for k in sources]
    hints = points_in_view(view, reference, held.points, held.tracks)
    settings = codec.from_json(StereoConfig, config)
    PHOTOS.limit_bytes = photo_room(reference.camera, settings)
    measured = estimate_depth(reference, others, hints, PHOTOS, settings, held.ground)
    save_depth(Path(out), measured, compressed=False)


def photo_room(camera: Camera, config: StereoConfig) -> int:
    """Bytes of photos to keep for those that come next, whatever their number: depth takes each at two sizes."""
    widths = [min(camera.width, 2 * width) for width in (config.width, config.width // config.sweep_scale)]
    each = sum(3 * width * round(camera.height * width / camera.width) for width in widths)
    return min(PHOTO_BYTES, PHOTOS_HELD * each)


def agree_depth_job(
    out: str,
    scaffold: str,
    view: int,
    neighbours: list[int],
    measured: str,
    made: str,
    agree: Json,
    fill: Json,
    listen: Listener,
) -> None:
    """Write the depth of one photo, confirmed by that of its neighbours in the folder `measured`, and completed."""
    held = load_scaffold_file(scaffold)
    maps = _measured_maps(measured, tuple(one.name for one in held.views), made)
    own, others = maps[view], [maps[k] for k in neighbours]
    confirmed = make_consistent(own, others, codec.from_json(ConsistencyConfig, agree))
    pixels = _pixels(held.views[view], own.camera)
    settings = codec.from_json(CompletionConfig, fill)
    save_depth(Path(out), complete(confirmed, own, pixels, held.ground, settings))


def fuse_surface_job(
    depth: str, names: list[str], up: Json, config: Json, surface: str, ground: str, scratch: str, listen: Listener
) -> Json:
    """Write the Surface and its Ground; the SurfaceFigures."""
    maps = DepthFolder(Path(depth), tuple(names), DEPTH_BYTES)
    settings = codec.from_json(SurfaceConfig, config)
    fused = fuse_surface(maps, codec.from_json(Floats, up), settings, listen, Path(scratch))
    found = find_ground(fused)
    files.save(Path(surface), fused)
    files.save(Path(ground), found)
    return codec.to_json(SurfaceFigures(len(fused.points), float(found.free.sum() * found.cell**2)))


@lru_cache(maxsize=1)
def _measured_maps(folder: str, names: tuple[str, ...], made: str) -> DepthFolder:
    """Depth maps that this worker has read; `made` is the mark of their stage's beginning."""
    return DepthFolder(Path(folder), names, DEPTH_BYTES)


def _pixels(view: View, camera: Camera) -> Bytes:
    """The photo at the size of a depth map's camera."""
    photo, _ = PHOTOS.photo(view.name, view.path, view.camera, 2 * camera.width, view.mask_path)
    small = cv2.resize(photo.pixels, (camera.width, camera.height), interpolation=cv2.INTER_AREA)
    return np.asarray(small, dtype=np.uint8)
