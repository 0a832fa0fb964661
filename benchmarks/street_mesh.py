"""The mesh of the street against the true surface, over mini towns: by measured depth, and by surfels on a GPU.

    python benchmarks/street_mesh.py [SEED ...] [--ways depth surfels] [--poses true recovered] [--stereo triton]
        [--jobs 8] [--out DIR] [--scene DIR --walk ground2 [--run RUN]]

Every way goes through the stage that `skyanchor mesh` runs. At true poses there is no flight: what is missing is then
owed to depth and fusion alone. At recovered ones the flight is rendered and the walk located by commands. Truth is read
to score, and for the poses where they are said to be true. What is there already is not made again. With `--scene` it
is a walk of that scene, at true poses or as `--run` has recovered them, against the exact depth of aerial photos:
complete is what of it three street photos see too, by true poses and that depth, whatever the mesh has; accuracy is of
all of the mesh that an aerial photo shows, within any depth.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from skyanchor import open_run
from skyanchor.evaluation.surface import against_aerial, surface_metrics
from skyanchor.evaluation.true_depth import read_true_depths
from skyanchor.evaluation.truth import read_cameras
from skyanchor.events import silent
from skyanchor.meshing import Mesh
from skyanchor.meshing.mesh import read_ply
from skyanchor.run.executor import executor_of
from skyanchor.run.folder import Finished, RunFolder
from skyanchor.run.metrics import SurfaceMetrics
from skyanchor.run.recipe import Recipe
from skyanchor.scaffold import load_scaffold
from skyanchor.scaffold.georeference import moved_by
from skyanchor.scene.surfels import SurfelConfig
from skyanchor.stages import mesh as stage
from skyanchor.stereo.backends import AnyStereo, NumbaStereo, TritonStereo
from skyanchor.storage import files
from skyanchor.town import MINI, build_town, build_walks
from skyanchor.town.build import TRUE_DEPTH
from skyanchor.town.routes import Shot
from skyanchor.town.tracks import TrackConfig, triangulated
from skyanchor.types import Floats, Frame, Georeference, PosedFrame, Support

STEREO: dict[str, AnyStereo] = {"numba": NumbaStereo(), "triton": TritonStereo()}
FARTHEST_M = (20.0, 12.0)
"""Depths within which a mesh is judged, metres: the paper's crop, and what a walk passes closely."""


@dataclass(frozen=True, eq=False)
class Points:
    """What the depth search starts from."""

    points: Floats
    """(N, 3), metres."""


@dataclass(frozen=True)
class Row:
    """One mesh."""

    of: str
    """Seed of the town, or scene and walk."""
    poses: str
    way: str
    seconds: float
    scores: tuple[SurfaceMetrics, ...]
    """One for each of `FARTHEST_M`."""

    def __str__(self) -> str:
        """A line of the table."""
        figures = []
        for one in self.scores:
            shares = f"{100 * (one.accuracy or 0):.0f} / {100 * (one.completeness or 0):.0f} %"
            figures.append(f"{shares}, {100 * (one.mean_m or 0):.1f} cm, {100 * (one.median_m or 0):.1f} cm")
        return f"| {self.of} | {self.poses} | {self.way} | {self.seconds:.0f} s | {' | '.join(figures)} |"


def main() -> None:
    options = arguments()
    within = " | ".join(f"within {far:g} m: accuracy / completeness at 5 cm, mean, median" for far in FARTHEST_M)
    print(f"| of | poses | way | time | {within} |\n|---|---|---|---|---|---|", flush=True)
    for row in of_towns(options) if options.scene is None else of_scene(options):
        print(row, flush=True)


def of_towns(options: argparse.Namespace) -> Iterator[Row]:
    """Every way over the towns of the seeds."""
    tasks = [(seed, poses) for seed in options.seeds for poses in options.poses]
    with ProcessPoolExecutor(min(options.jobs, len(tasks))) as pool:
        list(pool.map(partial(made, out=options.out), tasks))
    for seed, poses in tasks:
        for way in options.ways:
            yield meshed(options, seed, poses, way)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", type=int, nargs="*", default=[31, 32])
    parser.add_argument("--ways", nargs="+", choices=("depth", "surfels"), default=["depth"])
    parser.add_argument("--poses", nargs="+", choices=("true", "recovered"), default=["true"])
    parser.add_argument("--stereo", choices=("numba", "triton"), default="numba", help="where depth is measured")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=Path("out/street_mesh"))
    parser.add_argument("--scene", type=Path, help="a scene with aerial/, a walk and truth_aerial_depth/")
    parser.add_argument("--walk", default="ground", help="of that scene")
    parser.add_argument("--run", type=Path, help="a run of that walk, for its poses and surface; without it true poses")
    return parser.parse_args()


def made(task: tuple[int, str], out: Path) -> None:
    """The town of a seed, and where its walk was."""
    seed, poses = task
    town = out / f"{poses}-{seed}/town"
    if not town.is_dir():
        (build_walks if poses == "true" else build_town)(town, MINI, seed)
    if poses == "recovered":
        given = ("--ground", town / "ground", "--out", town.parent / "run", "--camera", f"f={MINI.walk.focal:g}")
        command = [sys.executable, "-m", "skyanchor.cli", "trajectory", "--scaffold", town / "aerial", *given]
        subprocess.run([*map(str, command), "--workers", "1", "--preset", "cpu"], check=True, stdout=sys.stderr)
    elif not (town.parent / "points.npz").is_file():
        camera, shots = _true_shots(town / "ground", np.zeros(3))
        model = triangulated(town / "ground/images", camera, shots, TrackConfig(), silent)
        found = np.array([point.xyz for point in model.points3D.values()]).reshape(-1, 3)
        files.save(town.parent / "points.npz", Points(found))


def _true_shots(walk: Path, offset: Floats) -> tuple[Any, list[Shot]]:
    seen = sorted(read_cameras(walk / "truth", offset).items())
    return seen[0][1][0], [Shot(name, pose) for name, (_, pose) in seen]


def meshed(options: argparse.Namespace, seed: int, poses: str, way: str) -> Row:
    """The mesh of one walk, made one way and scored."""
    root, start = options.out / f"{poses}-{seed}", time.perf_counter()
    run = open_run(root / "run") if poses == "recovered" else of_town(root)
    mesh = by_the_stage(root / way, run, way, options)
    walk = root / "town/ground"
    truth = read_true_depths(walk / TRUE_DEPTH, read_cameras(walk / "truth", moved_by(run.scaffold.georef)))
    seconds = time.perf_counter() - start
    scores = tuple(surface_metrics(mesh, truth, farthest_m=far) for far in FARTHEST_M)
    return Row(str(seed), poses, way, seconds, scores)


def of_scene(options: argparse.Namespace) -> Iterator[Row]:
    """Every way on a walk of a scene, against what aerial photos and street see both."""
    walk, aerial = options.scene / options.walk, load_scaffold(options.scene / "aerial")
    root = options.out / f"{options.scene.name}-{options.walk}{'' if options.run is None else '-recovered'}"
    recovered = options.run is not None
    run = open_run(options.run) if recovered else true_run(walk, root, aerial.points, aerial.georef)
    views = {view.name: (view.camera, view.cam_from_world) for view in aerial.views}
    truth = read_true_depths(options.scene / "truth_aerial_depth", views)
    street = list(read_cameras(walk / "truth", moved_by(aerial.georef)).values())
    for way in options.ways:
        start = time.perf_counter()
        mesh = by_the_stage(root / way, run, way, options)
        seconds = time.perf_counter() - start
        scores = tuple(against_aerial(mesh, truth, street, farthest_m=far) for far in FARTHEST_M)
        yield Row(f"{options.scene.name}, {options.walk}", "recovered" if recovered else "true", way, seconds, scores)


def by_the_stage(folder: Path, run: Any, way: str, options: argparse.Namespace) -> Mesh:
    """The mesh that `skyanchor mesh` makes of a run, local frame."""
    config = stage.StreetMeshConfig(surfels=SurfelConfig() if way == "surfels" else None)
    stereo = replace(config.points.stereo, backend=STEREO[options.stereo])
    config = replace(config, points=replace(config.points, stereo=stereo))
    with RunFolder(folder, listen=silent) as held:
        found = stage.run(held, run, config, executor_of(options.jobs))
    mesh = read_ply(found.path("mesh.ply"))
    mesh.vertices[:] -= moved_by(run.scaffold.georef)
    return mesh


def of_town(root: Path) -> Any:
    """A town's walk at its true poses."""
    points = files.load(root / "points.npz", Points).points
    return true_run(root / "town/ground", root, points, Georeference(np.zeros(3)))


def true_run(walk: Path, root: Path, points: Floats, georef: Georeference) -> Any:
    """What the stage asks of a run, with the poses that are true."""
    camera, shots = _true_shots(walk, moved_by(georef))
    frames = tuple(Frame(k, shot.name, walk / "images" / shot.name) for k, shot in enumerate(shots))
    posed = tuple(PosedFrame(k, Support.ANCHORED, shot.cam_from_world, 0, 0.0) for k, shot in enumerate(shots))
    return SimpleNamespace(
        stage=lambda name: Finished(root / name, Recipe(name, {}, {}, (), {})),
        sequence=SimpleNamespace(frames=frames),
        trajectory=SimpleNamespace(frames=posed, camera=camera, points=points),
        scaffold=SimpleNamespace(georef=georef, up=np.array([0.0, 0.0, 1.0])),
    )


if __name__ == "__main__":
    main()
