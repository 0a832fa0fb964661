"""Update a scene's aerial model from its street photos and print PSNR from air and street, before and after.

    python benchmarks/scene_update.py SCENE [--splats aerial.ply] [--run RUN] [--device auto] [--width PX] ...

SCENE holds aerial/ (sparse/, images/) and ground/ (images/, truth/). Poses are the true ones, or those of a finished
run (--run), so that the two can be compared. Without --splats the aerial model is trained first.
--ablations adds a row per switch: paper's objective, not frozen, no dense points, no BA initialisation, no joint
refinement, no insertion, from scratch; --only picks rows by name, so that several processes can share the work (give
them the same --splats and --depth-cache). CPU seconds are of all threads: two cores busy for a minute are 120.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from skyanchor.events import Event, Note, Progress
from skyanchor.gaussians.devices import Engine, load_engine
from skyanchor.gaussians.parameters import BRISK, QUICK, Rates
from skyanchor.gaussians.ply import read_splats, write_ply
from skyanchor.gaussians.splats import Splats
from skyanchor.gaussians.split import split
from skyanchor.geometry import colmap
from skyanchor.photos import PhotoCache
from skyanchor.run.results import open_run
from skyanchor.scaffold import load_scaffold, training
from skyanchor.scene.config import (
    UpdateConfig,
    preset,
    trained_from_scratch,
    with_iterations,
    without_insertion,
    without_refinement,
)
from skyanchor.scene.ground_points import (
    GroundPointConfig,
    consistent_ground_depth,
    depth_views,
    ground_cloud,
    ground_depth,
    source_views,
)
from skyanchor.scene.inputs import UpdateInputs
from skyanchor.scene.update import SceneUpdate, update_scene
from skyanchor.stereo import depth_path, load_depth, save_depth
from skyanchor.stereo.backends import NumbaStereo, TritonStereo
from skyanchor.types import DepthMap, Pose, Scaffold, View

RATES: dict[str, Rates | None] = {"preset": None, "usual": Rates(), "brisk": BRISK, "quick": QUICK}
"""Rates of learning by name; None leaves those of the preset."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", type=Path)
    parser.add_argument("--splats", type=Path, help="aerial model; trained when it is not given")
    parser.add_argument("--aerial-iterations", type=int, help="of that training")
    parser.add_argument("--run", type=Path, help="take the poses of this run instead of the true ones")
    parser.add_argument("--aerial-depth", type=Path, help="depth maps of the aerial photos (1-scaffold/depth of a run)")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--width", type=int, help="pixels of training and scoring")
    parser.add_argument("--depth-width", type=int, default=640, help="pixels of the street's depth maps")
    parser.add_argument("--insertion", type=int, help="iterations")
    parser.add_argument("--joint", type=int, help="iterations")
    parser.add_argument("--rates", choices=("preset", "usual", "brisk", "quick"), default="preset", help="of learning")
    parser.add_argument("--score-every", type=int, help="iterations")
    parser.add_argument("--guard-weight", type=float, help="of the aerial views")
    parser.add_argument("--patience", type=int, help="scores without a gain that end a phase")
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--only", nargs="*", help="names of rows; 'prepare' stops before the update")
    parser.add_argument("--depth-cache", type=Path, help="folder for the street's depth: read if there, else written")
    parser.add_argument("--out", type=Path, help="write the trained aerial model here")
    return parser.parse_args()


def true_views(scene: Path, scaffold: Scaffold) -> tuple[View, ...]:
    """The street frames at their true poses."""
    import pycolmap  # not before skyanchor, which brings zlib first: the other way round the heap is spoilt

    model = pycolmap.Reconstruction(str(scene / "ground/truth"))
    views = []
    for k, image in enumerate(sorted(model.images.values(), key=lambda one: one.name)):
        found = colmap.from_rigid3d(image.cam_from_world())
        pose = Pose(found.rotation, found.translation + found.rotation @ scaffold.georef.offset)
        camera = colmap.from_camera(model.cameras[image.camera_id])
        path = scene / "ground/images" / image.name
        views.append(View(image.name, path, camera, pose, image_id=k))
    return tuple(views)


def recovered_views(scene: Path, run: Path) -> tuple[View, ...]:
    """The street frames at the poses of a run."""
    found = open_run(run).trajectory_record
    posed = [frame for frame in found.frames if frame.cam_from_world is not None]
    names = found.names
    return tuple(
        View(names[f.frame], scene / "ground/images" / names[f.frame], found.camera, f.cam_from_world, image_id=f.frame)
        for f in posed
        if f.cam_from_world is not None
    )


def street_depth(
    views: tuple[View, ...], scaffold: Scaffold, config: GroundPointConfig, cache: Path | None
) -> list[DepthMap]:
    """Consistent depth maps along the walk, from the cache where it holds them."""
    names = [views[k].name for k in depth_views(views, config)]
    if cache is not None and all(depth_path(cache, name).is_file() for name in names):
        return [load_depth(depth_path(cache, name)) for name in names]
    maps = _measured_depth(views, scaffold, config)
    for one in maps if cache is not None else ():
        save_depth(depth_path(cache, one.name), one)
    return maps


def _measured_depth(views: tuple[View, ...], scaffold: Scaffold, config: GroundPointConfig) -> list[DepthMap]:
    photos = PhotoCache(1 << 30)
    chosen = depth_views(views, config)
    sources = {k: [views[j] for j in source_views(views, k, config)] for k in chosen}
    raw = [ground_depth(views[k], sources[k], scaffold.points, photos, config, scaffold.up) for k in chosen]
    near = [[raw[j] for j in range(max(0, i - 3), min(len(raw), i + 4)) if j != i] for i in range(len(raw))]
    return [consistent_ground_depth(one, others, config) for one, others in zip(raw, near, strict=True)]


def aerial_model(scaffold: Scaffold, engine: Engine, options: argparse.Namespace) -> Splats:
    if options.splats:
        return read_splats(options.splats)
    config = training.preset(engine.device)
    if options.aerial_iterations:
        config = training.with_iterations(config, options.aerial_iterations)
    if options.width:
        config = replace(config, train=replace(config.train, width=options.width))
    model = training.train_aerial(scaffold, engine, config, listen=spoken())
    print(f"aerial model: {len(model.splats)} Gaussians, {model.seconds:.0f} s, {model.scores.psnr:.2f} dB held out")
    if options.out:
        write_ply(options.out, model.splats)
    return model.splats


def settings(engine: Engine, options: argparse.Namespace) -> UpdateConfig:
    config = preset(engine.device)
    assert config.joint is not None
    width = options.width or config.insertion.width
    insertion, joint = options.insertion or config.insertion.iterations, options.joint or config.joint.iterations
    config = with_iterations(config, insertion, joint)
    assert config.joint is not None
    rates = RATES[options.rates]
    learning = config.insertion.rates if rates is None else (rates, None)
    refining = config.joint.rates if rates is None else (rates, rates, None)
    return replace(
        config,
        insertion=replace(config.insertion, width=width, rates=learning),
        joint=replace(config.joint, width=width, rates=refining),
        score_every=options.score_every or config.score_every,
        guard_weight=options.guard_weight or config.guard_weight,
        patience=options.patience or config.patience,
    )


def spoken() -> object:
    begun = time.perf_counter()

    def listener(event: Event) -> None:
        told = isinstance(event, Progress) and event.done % max(1, event.total // 5) == 0
        if isinstance(event, Progress) and (told or "aerial_psnr" in event.figures):
            figures = "  ".join(f"{name} {value:.2f}" for name, value in event.figures.items())
            done = f"{event.step} {event.done}/{event.total}"
            print(f"{time.perf_counter() - begun:7.1f} s  {done}  {figures}", flush=True)
        elif isinstance(event, Note):
            print(event.text, flush=True)

    return listener


def row(name: str, update: SceneUpdate, seconds: float, cpu: float) -> str:
    a, b = update.before, update.after
    return (
        f"{name:24s} aerial {a.aerial_psnr:6.2f} -> {b.aerial_psnr:6.2f}"
        f"   ground {a.ground_psnr:6.2f} -> {b.ground_psnr:6.2f}"
        f" (raw {b.ground_psnr_raw:5.2f})   SSIM {b.aerial_ssim:.3f} {b.ground_ssim:.3f}"
        f"   +{len(update.change.ground)} Gaussians, {int(update.change.hidden.sum())} hidden"
        f"   {seconds:.0f} s, {cpu:.0f} CPU s"
    )


def ablations(config: UpdateConfig) -> dict[str, UpdateConfig]:
    return {
        "paper's objective": replace(config, guard=False),
        "not frozen": replace(config, frozen=False),
        "no dense points": replace(config, seeds="tracks"),
        "no BA initialisation": replace(config, seeds="random"),
        "no joint refinement": without_refinement(config),
        "no insertion": without_insertion(config),
        "from scratch": trained_from_scratch(config),
    }


def main() -> None:
    options = arguments()
    engine = load_engine(options.device)
    scaffold = load_scaffold(options.scene / "aerial")
    views = recovered_views(options.scene, options.run) if options.run else true_views(options.scene, scaffold)
    backend = TritonStereo() if engine.device == "cuda" else NumbaStereo()
    points = GroundPointConfig()
    points = replace(points, stereo=replace(points.stereo, width=options.depth_width, backend=backend))
    begun = time.perf_counter()
    maps = street_depth(split(views).training, scaffold, points, options.depth_cache)
    cloud = ground_cloud(maps, views, points)
    print(f"street: {len(maps)} depth maps, {len(cloud.points)} points, {time.perf_counter() - begun:.0f} s")
    aerial = aerial_model(scaffold, engine, options)
    extent = float(np.median(np.concatenate([one.depth[one.depth > 0] for one in maps])))
    some = cloud.points[:: max(1, len(cloud.points) // 20_000)].astype(np.float64)
    colors = cloud.colors[:: max(1, len(cloud.points) // 20_000)]
    above = (
        tuple(load_depth(path) for path in sorted(options.aerial_depth.glob("*.npz"))) if options.aerial_depth else ()
    )
    inputs = UpdateInputs(
        aerial, split(scaffold.views), split(views), cloud, some, colors, tuple(maps), scaffold.up, extent, above
    )
    config = settings(engine, options)
    runs = {"full method": config, **(ablations(config) if options.ablations or options.only else {})}
    for name, one in runs.items():
        if options.only is not None and name not in options.only:
            continue
        begun, cpu = time.perf_counter(), time.process_time()
        result = update_scene(inputs, one, engine, spoken())
        print(row(name, result, time.perf_counter() - begun, time.process_time() - cpu), flush=True)


if __name__ == "__main__":
    main()
