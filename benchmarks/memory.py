"""Peak memory against the number of aerial photos: depth, fusion, atlas, places, vocabulary, what the update loads.

    python benchmarks/memory.py [PHOTOS ...] [--work DIR] [--only STEP ...] [--jobs N] [--markdown]

A flat town of houses 25 m apart is flown with five cameras at stations 50 m apart: about 0.8 km² at 1 000 photos. Its
depth is known, so no depth is measured but that of one photo; all photos show the same picture, of 2400x1800 pixels.
Every step goes over all photos in a process of its own, whose memory is looked at twice a second: what the system
cannot take back, pages of files not counted. With `--jobs` so many steps go on side by side. A town that lies in the
folder of `--work` is not made again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import cv2
import numpy as np

from skyanchor.anchors.place_description import Describer
from skyanchor.anchors.place_finding import PlacesConfig
from skyanchor.bridges.fusion import SurfaceConfig, fuse_surface
from skyanchor.bridges.ground import Ground, find_ground
from skyanchor.bridges.surface import Surface
from skyanchor.bridges.views import AerialAtlas, BridgeConfig, NodeConfig, nodes
from skyanchor.gaussians.training import TrainConfig
from skyanchor.gaussians.views import aerial_pool, load_target
from skyanchor.geometry import cameras, rigid
from skyanchor.matching.retrieval import even_sample, fit_vocabulary
from skyanchor.photos import PhotoCache
from skyanchor.run.memory import tree_bytes
from skyanchor.scene.reach import sees
from skyanchor.stages.scaffold import DEPTH_BYTES, PHOTOS, photo_room
from skyanchor.stages.since import DEPTH_BYTES as STREET_DEPTH_BYTES
from skyanchor.stereo import DepthFolder, StereoConfig, depth_path, estimate_depth, save_depth
from skyanchor.storage import files
from skyanchor.types import Bools, Camera, DepthMap, Floats, Georeference, Plane, Pose, Scaffold, Tracks, View

UP = np.array([0.0, 0.0, 1.0])
APART_M, HEIGHT_M, STATION_M = 25.0, 60.0, 50.0
HOUSE_M, ROOF_M = 12.0, 8.0
PHOTO = cameras.pinhole(2400, 1800, 1725.0)
SHRUNK = 640
"""Width of the depth maps, pixels: 13 cm on the ground."""
TILTS = ((0.0, 0.0), (1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0))
PLACES = 60
"""Views that are painted, all over the town."""
PATCHES, CHANNELS = 3942, 1536
"""Of a photo, as AnyLoc's largest network describes it."""


# --- the town -----------------------------------------------------------------------------------------------------


def in_house(xy: Floats) -> Bools:
    return (np.abs((xy + APART_M / 2) % APART_M - APART_M / 2) < HOUSE_M / 2).all(axis=-1)


def seen(camera: Camera, pose: Pose) -> DepthMap:
    """Exact depth of ground, roofs and walls."""
    x, y = np.meshgrid(np.arange(camera.width) + 0.5, np.arange(camera.height) + 0.5)
    rays = cameras.unproject(camera, np.stack([x.ravel(), y.ravel()], 1)) @ pose.rotation
    eye = rigid.centre_in_world(pose)
    roof, ground = (ROOF_M - eye[2]) / rays[:, 2], -eye[2] / rays[:, 2]
    on_roof = in_house((eye + rays * roof[:, None])[:, :2])
    end = (eye + rays * ground[:, None])[:, :2]
    on_wall = in_house(end) & ~on_roof
    middle = np.round(end / APART_M) * APART_M
    with np.errstate(divide="ignore"):
        faces = (middle - np.sign(rays[:, :2]) * HOUSE_M / 2 - eye[:2]) / rays[:, :2]
    axis = faces.argmax(axis=1)
    depth = np.where(on_roof, roof, np.where(on_wall, faces.max(axis=1), ground))
    normal = np.tile(UP, (len(rays), 1))
    normal[on_wall] = -np.sign(rays[on_wall, axis[on_wall]])[:, None] * np.eye(3)[axis[on_wall]]
    shape = (camera.height, camera.width)
    sure = np.full(shape, 0.9, np.float32)
    return DepthMap(
        "", camera, pose, depth.reshape(shape).astype(np.float32), sure, np.zeros(shape, bool),
        normal.reshape(*shape, 3).astype(np.float32),
    )  # fmt: skip


def poses(photos: int) -> list[Pose]:
    side = int(np.ceil(np.sqrt(photos / 5)))
    found = []
    for k in range(photos):
        station, (dx, dy) = k // 5, TILTS[k % 5]
        eye = np.array([station % side * STATION_M, station // side * STATION_M, HEIGHT_M])
        found.append(rigid.look_at(eye, eye + np.array([dx, dy + 1e-3, -1.0]), UP))
    return found


def build(work: Path, photos: int) -> None:
    """Photos under their names, the depth of each, and a model of points on the ground."""
    (work / "images").mkdir(parents=True)
    (work / "depth").mkdir()
    x, y = np.meshgrid(np.arange(PHOTO.width), np.arange(PHOTO.height))
    picture = np.stack([x // 10, y // 8, (x + y) // 17], axis=-1).astype(np.uint8)
    cv2.imwrite(str(work / "images" / "one.jpg"), picture)
    found = poses(photos)
    templates = [template(work, pose) for pose in found[:5]]
    for k, pose in enumerate(found):
        os.link(work / "images" / "one.jpg", work / "images" / f"{k:04d}.jpg")
        own = {"name": np.array(f"{k:04d}.jpg"), "rotation": pose.rotation, "translation": pose.translation}
        files.write_arrays(work / "depth" / f"{k:04d}.npz", {**templates[k % 5], **own})
    files.save(work / "scaffold.npz", model(work, found))


def template(work: Path, pose: Pose) -> dict[str, np.ndarray]:
    """The arrays of a depth map; the town repeats from station to station."""
    save_depth(work / "template.npz", seen(cameras.scaled(PHOTO, SHRUNK), pose))
    with np.load(work / "template.npz") as held:
        return dict(held)


def model(work: Path, found: list[Pose]) -> Scaffold:
    rng = np.random.default_rng(0)
    views = tuple(View(f"{k:04d}.jpg", work / "images" / f"{k:04d}.jpg", PHOTO, pose) for k, pose in enumerate(found))
    eyes, count = rigid.centres_in_world(found)[:, :2], 300 * len(found)
    flat = rng.uniform(eyes.min(axis=0) - HEIGHT_M, eyes.max(axis=0) + HEIGHT_M, (count, 2))
    points = np.column_stack([flat, np.zeros(count)])
    nothing = np.zeros(0, np.int64)
    return Scaffold(
        work, views, points, np.zeros((len(points), 3), np.uint8), np.arange(len(points)),
        Tracks(nothing, nothing, np.zeros((0, 2))), UP, Plane(UP, 0.0), Georeference(np.zeros(3)),
    )  # fmt: skip


# --- steps --------------------------------------------------------------------------------------------------------


def depth(work: Path, scaffold: Scaffold) -> None:
    """One photo measured, then all photos read as the jobs of one worker read them."""
    hints = scaffold.points[:: len(scaffold.points) // 3000]
    sources = [scaffold.views[k] for k in (5, 10)]
    config = StereoConfig(width=SHRUNK)
    PHOTOS.limit_bytes = photo_room(PHOTO, config)
    estimate_depth(scaffold.views[0], sources, hints, PHOTOS, config, scaffold.ground)
    for view in scaffold.views:
        PHOTOS.photo(view.name, view.path, view.camera, 2 * SHRUNK)


def fusion(work: Path, scaffold: Scaffold) -> None:
    """The surface and its ground, as stage 1 makes them."""
    maps = DepthFolder(work / "depth", tuple(view.name for view in scaffold.views), DEPTH_BYTES)
    surface = fuse_surface(maps, scaffold.up, SurfaceConfig(), scratch=work / "tiles")
    ground = find_ground(surface)
    files.save(work / "surface.npz", surface)
    files.save(work / "ground.npz", ground)
    files.remove(work / "tiles")
    print(f"{len(surface.points)} surfels, {ground.free.sum() * ground.cell**2 / 1e6:.2f} km² of free ground", end=" ")


@cache
def surface_of(work: Path) -> Surface:
    return files.load(work / "surface.npz", Surface)


def atlas(work: Path, scaffold: Scaffold) -> None:
    """Every photo with the surface that it sees, as groups paint from them."""
    held = AerialAtlas(surface_of(work), scaffold.views, BridgeConfig())
    for k in range(len(scaffold.views)):
        held.pixels(k)


def places(work: Path, scaffold: Scaffold) -> None:
    """Views all over the town, painted and described."""
    ground = files.load(work / "ground.npz", Ground)
    camera = cameras.pinhole(1280, 720, 960.0)
    stand = nodes(ground, replace(NodeConfig(), spacing=40.0, headings=2))
    some = stand[:: max(1, len(stand) // PLACES)]
    Describer(scaffold, surface_of(work), camera, PlacesConfig()).describe(some)


def vocabulary(work: Path, scaffold: Scaffold) -> None:
    """AnyLoc's: patches of every photo, of random content, summed up in 32 words."""
    rng = np.random.default_rng(0)
    patches = (rng.random((PATCHES, CHANNELS), np.float32) for _ in scaffold.views)
    fit_vocabulary(even_sample(patches, len(scaffold.views)), 32)


def update(work: Path, scaffold: Scaffold) -> None:
    """The depth of the photos that see a walk of 100 m, and all aerial photos as training reads them."""
    walk = np.column_stack([np.linspace(0.0, 100.0, 400), np.full(400, APART_M / 2), np.zeros(400)])
    names = tuple(view.name for view in scaffold.views if sees(view, walk) and depth_path(work / "depth", view.name))
    for one in DepthFolder(work / "depth", names, STREET_DEPTH_BYTES):
        assert one.depth.any()
    photos = PhotoCache(TrainConfig().cache_bytes)
    for item in aerial_pool(scaffold.views):
        load_target(photos, item, PHOTO.width)


STEPS: tuple[Callable[[Path, Scaffold], None], ...] = (depth, fusion, atlas, places, vocabulary, update)
ON_THE_SURFACE = ("atlas", "places")
"""Steps that read what the fusion wrote."""


# --- measuring ----------------------------------------------------------------------------------------------------


def watched(step: str, work: Path) -> tuple[float, int]:
    """(seconds, most bytes) of a step in a process of its own."""
    begun, most = time.perf_counter(), 0
    child = subprocess.Popen([sys.executable, __file__, "--step", step, "--work", str(work)])
    while child.poll() is None:
        most = max(most, tree_bytes(child.pid))
        time.sleep(0.5)
    if child.returncode:
        raise SystemExit(f"{step} failed")
    return time.perf_counter() - begun, most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=int, nargs="*", default=[100, 400, 1000])
    parser.add_argument("--work", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    if args.step:
        step = next(one for one in STEPS if one.__name__ == args.step)
        step(args.work, files.load(args.work / "scaffold.npz", Scaffold))
        return
    with tempfile.TemporaryDirectory() as folder:
        only = args.only or [step.__name__ for step in STEPS]
        table = measured(args.photos, args.work or Path(folder), only, args.jobs)
    if args.markdown:
        print(f"| step | {' | '.join(f'{count} photos' for count in args.photos)} | most / least |")
        print(f"|---|{'---|' * (len(args.photos) + 1)}")
        for step, row in table.items():
            cells = " | ".join(f"{most / 1e6:.0f} MB, {seconds:.0f} s" for seconds, most in row)
            print(f"| {step} | {cells} | {max(most for _, most in row) / min(most for _, most in row):.2f} |")


def measured(counts: list[int], work: Path, only: list[str], jobs: int) -> dict[str, list[tuple[float, int]]]:
    """Per step the seconds and bytes at every number of photos."""
    table: dict[tuple[str, int], tuple[float, int]] = {}

    def measure(step: str, count: int) -> None:
        seconds, most = table[step, count] = watched(step, work / str(count))
        print(f"{count:5d} photos  {step:12s} {most / 1e6:7.0f} MB {seconds:7.1f} s", flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        new = [count for count in counts if not (work / str(count) / "scaffold.npz").is_file()]
        list(pool.map(lambda count: build(work / str(count), count), new))
        for later in (False, True):
            steps = [step for step in only if (step in ON_THE_SURFACE) == later]
            asked = [pool.submit(measure, step, count) for count in sorted(counts, reverse=True) for step in steps]
            for future in asked:
                future.result()
    return {step: [table[step, count] for count in counts] for step in only}


if __name__ == "__main__":
    main()
