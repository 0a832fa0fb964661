"""What changed between two walks, over towns that know it: precision, recall, and silence where nothing changed.

    python benchmarks/changes.py [SEED ...] [--poses true|recovered] [--jobs 2] [--out out/changes] [--weather W ...]
        [--stereo triton]

Every seed is two pairs of walks along one street, the later one a metre aside in hazier light: in the first pair cars,
bins, benches, signs, stalls, hedges and scaffolding come and go, in the second nothing does. With true poses depth is
measured at them as in stage 4; with recovered ones the flight is rendered too and everything is done by commands:
`trajectory` of both walks, `changes --since`. What is there already is not done again.

Truth is read only to score. A true change counts if its largest side is above 0.5 m and both walks can know it: over
five metres of the one way (eight photos) it takes a five-hundredth of the picture, from at most 14 m, and over three of
the other (five photos) half of what those show is looked through, or, where something altered, it is shown there too. A
reported change is right if half of its cells lie within 0.25 m of a true change of its kind, whether that counts or
not; where one thing stands in the place of another any kind is right.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from skyanchor import open_run
from skyanchor.changes import find_changes
from skyanchor.events import CHANGES, silent
from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import inside, lift, pixel_centres
from skyanchor.photos import PhotoCache
from skyanchor.run.records import CHANGED_CELLS, ChangedCells
from skyanchor.scaffold import colmap_files
from skyanchor.scene.ground_points import (
    GroundPointConfig,
    consistent_ground_depth,
    depth_views,
    ground_depth,
    source_views,
)
from skyanchor.scene.since import walk_day
from skyanchor.stages.changes import StreetChangesConfig
from skyanchor.stages.street_depth import NEIGHBOURS
from skyanchor.stereo import load_depth, save_depth
from skyanchor.stereo.backends import AnyStereo, NumbaStereo, TritonStereo
from skyanchor.storage import files
from skyanchor.town import MINI, TownPreset, build_town, build_walks
from skyanchor.town.build import DEPTH_UNIT, TRUE_CHANGES, TRUE_DEPTH, half_camera
from skyanchor.town.routes import Shot
from skyanchor.town.tracks import TrackConfig, triangulated
from skyanchor.town.turnover import ALTERED, APPEARED, VANISHED, TrueChanges, Turnover
from skyanchor.town.weather import Since, Weather, changed
from skyanchor.types import DepthMap, Floats, Ints, Pose, View

PAIRS = {"year": Since(cars=0.25, hedges=0.08, works=0.12), "still": Since(still=True)}
WALKS = ("ground", "ground2")
STEREO: dict[str, AnyStereo] = {"numba": NumbaStereo(), "triton": TritonStereo()}
UP = np.array([0.0, 0.0, 1.0])
FARTHEST_M, LEAST_SIDE_M, NEAR_M = 14.0, 0.5, 0.25
SHOWN_BY, SHOWN_SHARE = 8, 0.002
"""Photos that must show a thing, and the share of their picture that it takes."""
THROUGH_BY, THROUGH_SHARE = 5, 0.5
"""Photos that must look through a place, and the share of a thing's seen points for which that must hold."""


@dataclass(frozen=True)
class Found:
    """A reported change, and what it is."""

    kind: str
    centre: tuple[float, ...]
    size: tuple[float, ...]
    cells: int
    confidence: float
    right: str
    """Name of the true change that it is; empty when there is none."""


@dataclass(frozen=True)
class Wanted:
    """A true change that counts."""

    name: str
    kind: str
    centre: tuple[float, ...]
    size: tuple[float, ...]
    found: bool


@dataclass(frozen=True)
class Score:
    """One pair of walks."""

    seed: int
    pair: str
    found: tuple[Found, ...]
    wanted: tuple[Wanted, ...]


def main() -> None:
    options = arguments()
    tasks = [(seed, pair) for seed in options.seeds for pair in options.pairs]
    threads = max(1, (os.cpu_count() or 1) // options.jobs)
    with ProcessPoolExecutor(options.jobs, initializer=_with_threads, initargs=(threads,)) as pool:
        scores = list(pool.map(partial(done, options=options), tasks))
    for line in table(scores):
        print(line)


def _with_threads(count: int) -> None:
    import numba

    numba.set_num_threads(min(count, numba.get_num_threads()))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", type=int, nargs="*", default=list(range(41, 51)))
    parser.add_argument("--pairs", nargs="+", choices=("year", "still"), default=["year", "still"])
    parser.add_argument("--poses", choices=("true", "recovered"), default="true")
    parser.add_argument("--weather", nargs="*", default=[], help="more of the town's settings, as world.traffic=0.1")
    parser.add_argument("--stereo", choices=("numba", "triton"), default="numba", help="where depth is measured")
    parser.add_argument("--out", type=Path, default=Path("out/changes"))
    parser.add_argument("--jobs", type=int, default=1, help="pairs of walks done side by side")
    return parser.parse_args()


def done(task: tuple[int, str], options: argparse.Namespace) -> Score:
    """One pair, made, searched and scored."""
    seed, pair = task
    root = options.out / f"{options.poses}-{pair}-{seed}"
    town = preset(pair, options.weather)
    if not (root / "walks").is_dir():
        build = build_walks if options.poses == "true" else build_town
        build(root / "walks", town, seed)
    cells = by_true_poses(root, STEREO[options.stereo]) if options.poses == "true" else by_commands(root, town)
    score = scored(seed, pair, root / "walks", cells)
    files.write_bytes(root / "score.json", json.dumps(asdict(score), indent=1).encode())
    print(f"{seed} {pair}: {len(score.found)} found, {len(score.wanted)} wanted", file=sys.stderr, flush=True)
    return score


def preset(pair: str, weather: list[str]) -> TownPreset:
    """The mini town with a later walk along the same street."""
    later = replace(MINI.walk, side=-0.4, gain=0.9, noise=0.015)
    return replace(MINI, later_walk=later, weather=changed(Weather(since=PAIRS[pair]), weather))


@dataclass(frozen=True)
class Reported:
    """A change as it is reported."""

    kind: str
    cells: Ints
    voxel_m: float
    confidence: float


# --- by true poses ------------------------------------------------------------------------------------------------


def by_true_poses(root: Path, stereo: AnyStereo) -> list[Reported]:
    """The changes between the walks of a town, with depth that is measured at the true poses."""
    settings = StreetChangesConfig()
    config, points = settings.changes, settings.points
    points = replace(points, stereo=replace(points.stereo, backend=stereo))
    days = []
    for walk in WALKS:
        views = true_views(root / "walks" / walk)
        days.append(walk_day(measured(root / "depth" / walk, views, points), views, config))
    found = find_changes(days[:1], days[1], config)
    return [Reported(one.kind.value, one.cells, config.voxel_m, one.confidence) for one in found]


def true_views(walk: Path) -> list[View]:
    """The photos of a walk at their true poses."""
    model = colmap_files.read_model(walk / "truth")
    views = []
    for image in sorted(model.images, key=lambda image: image.name):
        pose = Pose(rigid.rotation_from_quaternion(image.quaternion), image.translation)
        views.append(View(image.name, walk / "images" / image.name, model.cameras[image.camera_id], pose))
    return views


def measured(folder: Path, views: list[View], config: GroundPointConfig) -> list[DepthMap]:
    """The street's depth as the stage measures it, kept map by map."""
    photos = PhotoCache(256 << 20)
    chosen = depth_views(views, config)
    own = [folder / "measured" / f"{k:04d}.npz" for k in chosen]
    sure = [folder / "street" / f"{k:04d}.npz" for k in chosen]
    if not all(path.is_file() for path in sure):
        shots = [Shot(view.name, view.cam_from_world) for view in views]
        model = triangulated(views[0].path.parent, views[0].camera, shots, TrackConfig(), silent)
        points = np.array([point.xyz for point in model.points3D.values()]).reshape(-1, 3)
        for k, path in zip(chosen, own, strict=True):
            if not path.is_file():
                sources = [views[j] for j in source_views(views, k, config)]
                save_depth(path, ground_depth(views[k], sources, points, photos, config, UP))
        maps = [load_depth(path) for path in own]
        for i, path in enumerate(sure):
            near = [maps[j] for j in range(max(0, i - NEIGHBOURS), min(len(maps), i + NEIGHBOURS + 1)) if j != i]
            save_depth(path, consistent_ground_depth(maps[i], near, config))
    return [load_depth(path) for path in sure]


# --- by commands --------------------------------------------------------------------------------------------------


def by_commands(root: Path, town: TownPreset) -> list[Reported]:
    """The changes as a user finds them."""
    scaffold = root / "scaffold"
    focal = ("--camera", f"f={town.walk.focal:g}", "--workers", "1", "--preset", "cpu")
    called("prepare", root / "walks/aerial", "--out", scaffold, "--ground", root / "walks/ground", *focal)
    for walk in WALKS:
        given = ("--scaffold", scaffold, "--ground", root / "walks" / walk, "--out", root / walk)
        called("trajectory", *given, *focal)
    called("changes", root / WALKS[1], "--since", root / WALKS[0], "--workers", "1")
    run = open_run(root / WALKS[1])
    held = run.stage(CHANGES).load(CHANGED_CELLS, ChangedCells)
    record = run.changes
    return [
        Reported(row.how.value, held.cells[held.number == row.number], record.voxel_m, row.confidence)
        for row in record.changes
    ]


def called(*words: object) -> None:
    """Run a command of skyanchor that must succeed."""
    command = [sys.executable, "-m", "skyanchor.cli", *map(str, words)]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)}\n{child.stdout[-2000:]}{child.stderr[-2000:]}")


# --- truth --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Truth:
    """A walk as it was."""

    poses: list[Pose]
    camera: object
    depth: list[Floats]
    """(H, W) each, metres, 0 = none."""


def read_walk(walk: Path) -> Truth:
    """True poses and depth of a walk."""
    views = true_views(walk)
    stored = [np.asarray(Image.open(walk / TRUE_DEPTH / Path(view.name).with_suffix(".png").name)) for view in views]
    return Truth(
        [view.cam_from_world for view in views], half_camera(views[0].camera), [s * DEPTH_UNIT for s in stored]
    )


def shown(thing: Turnover, walk: Truth) -> tuple[int, Floats]:
    """How many photos show enough of a thing, and (N, 3) points of it that they show."""
    count, points = 0, [np.zeros((0, 3))]
    low, high = np.array(thing.low) - 0.05, np.array(thing.high) + 0.05
    for pose, depth in zip(walk.poses, walk.depth, strict=True):
        rows, columns = np.nonzero((depth > 0) & (depth <= FARTHEST_M))
        seen = lift(walk.camera, pose, pixel_centres(rows, columns), depth[rows, columns])
        held = seen[np.all((seen >= low) & (seen <= high), axis=1)]
        if len(held) >= SHOWN_SHARE * depth.size:
            count += 1
            points.append(held[:: max(1, len(held) // 50)])
    return count, np.concatenate(points)


def looked_through(points: Floats, walk: Truth) -> float:
    """Share of the points that enough photos look through."""
    count = np.zeros(len(points), np.int64)
    for pose, depth in zip(walk.poses, walk.depth, strict=True):
        in_cam = pose(points)
        xy = cameras.project(walk.camera, in_cam)
        rows = np.flatnonzero((in_cam[:, 2] > 0) & (in_cam[:, 2] <= FARTHEST_M) & inside(walk.camera, xy))
        column, row = np.floor(xy[rows]).astype(int).T
        behind = depth[row, column]
        count[rows] += (behind == 0) | (behind > in_cam[rows, 2] + 0.3)
    return float((count >= THROUGH_BY).mean()) if len(points) else 0.0


def counts(thing: Turnover, before: Truth, after: Truth) -> bool:
    """Whether both walks can know of a change."""
    if max(thing.size) <= LEAST_SIDE_M:
        return False
    (was, gone), (now, new) = shown(thing, before), shown(thing, after)
    if thing.how == ALTERED:
        return was >= SHOWN_BY and now >= SHOWN_BY
    if thing.how == VANISHED:
        return was >= SHOWN_BY and looked_through(gone, after) >= THROUGH_SHARE
    return now >= SHOWN_BY and looked_through(new, before) >= THROUGH_SHARE


def scored(seed: int, pair: str, walks: Path, reported: list[Reported]) -> Score:
    """What was found beside what is true."""
    truth = files.load(walks / WALKS[1] / TRUE_CHANGES, TrueChanges).since_first_walk
    before, after = (read_walk(walks / walk) for walk in WALKS)
    hits = [[covered(one, thing) for thing in truth] for one in reported]
    found = []
    for one, row in zip(reported, hits, strict=True):
        place = one.voxel_m * (one.cells + 0.5)
        name = next((thing.name for thing, hit in zip(truth, row, strict=True) if hit), "")
        size = (np.ptp(place, axis=0) + one.voxel_m).round(2).tolist()
        centre = ((place.min(axis=0) + place.max(axis=0)) / 2).round(2).tolist()
        found.append(Found(one.kind, tuple(centre), tuple(size), len(one.cells), one.confidence, name))
    wanted = []
    for k, thing in enumerate(truth):
        if counts(thing, before, after):
            centre = (np.add(thing.low, thing.high) / 2).round(2).tolist()
            size = tuple(round(side, 2) for side in thing.size)
            wanted.append(Wanted(thing.name, thing.how, tuple(centre), size, any(row[k] for row in hits)))
    return Score(seed, pair, tuple(found), tuple(wanted))


def covered(one: Reported, thing: Turnover) -> bool:
    """Whether half of a reported change lies where a true one of its kind is."""
    if thing.how in (VANISHED, APPEARED) and one.kind != thing.how:
        return False
    place = one.voxel_m * (one.cells + 0.5)
    near = np.all((place >= np.array(thing.low) - NEAR_M) & (place <= np.array(thing.high) + NEAR_M), axis=1)
    return bool(near.mean() >= 0.5)


def table(scores: list[Score]) -> list[str]:
    """Markdown: a row per pair, and what they make together."""
    rows = [["seed", "pair", "reported", "right", "wanted", "found", "missed", "wrong"], ["---"] * 8]
    for one in scores:
        right, got = sum(bool(f.right) for f in one.found), sum(w.found for w in one.wanted)
        missed = ", ".join(f"{w.name} {w.kind}" for w in one.wanted if not w.found)
        wrong = ", ".join(f"{f.kind} {max(f.size):.1f} m" for f in one.found if not f.right)
        figures = (one.seed, one.pair, len(one.found), right, len(one.wanted), got, missed, wrong)
        rows.append([str(value) for value in figures])
    year = [one for one in scores if one.pair == "year"]
    found, wanted = [f for one in year for f in one.found], [w for one in year for w in one.wanted]
    precision = np.mean([bool(f.right) for f in found]) if found else np.nan
    recall = np.mean([w.found for w in wanted]) if wanted else np.nan
    still = [one for one in scores if one.pair == "still"]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines += ["", f"Precision {precision:.3f} of {len(found)}, recall {recall:.3f} of {len(wanted)}; where nothing "
              f"changed, {sum(len(one.found) for one in still)} reported over {len(still)} pairs."]  # fmt: skip
    return lines


if __name__ == "__main__":
    main()
