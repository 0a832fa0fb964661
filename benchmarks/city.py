"""A square kilometre searched whole: groups accepted, wrong, metres and seconds, against the area that is searched.

    python benchmarks/city.py WORK [--part 22 25] [--frames 240] [--designs 9] [--seed 7] [--jobs N]
                                   [--depth measured|walks|exact]
                                   [--spacing 72 64] [--altitude 100] [--pixels 1280 1250] [--areas 0.05 0.2]
                                   [--near 100] [--headings 6] [--fixed] [--into ROWS.jsonl] [--table OUT.md]
    python benchmarks/city.py --rows ROWS.jsonl [...] [--table OUT.md]

The town's preset `city`, or a part of it with fewer streets, is built, prepared as `skyanchor prepare` does (without
splats), and its walks are looked for by `skyanchor anchors`: in squares of so many square kilometres round the middle
of each walk (`--within`), round it (`--near`), and everywhere. Every search has two workers and no GPU; as many go on
side by side as there are jobs for. `--depth exact` takes the town's own depth in place of depth measured between
photos; `--depth walks` does so in all photos but those that show ground near a walk: right places are as they are with
measured depth, and those of look-alikes as well made as can be. Rows are printed as they come and added to a file; what
lies in WORK is not made again, so the same command goes on after an interruption. The truth is read to score, for the
camera, for the middle of each walk and, by `--depth walks`, for what is near one.

A group is wrong as in `benchmarks/hard.py`: more than 0.5 m or more than five of its stated sigmas off. It was found by
the search, whatever the verdict, where its first look tried a place within 3 m of the truth in about its direction.
The end is a table by area and number of house designs (`city_table.py`), of the rows of WORK and of other files of them
(`--rows`; with these alone nothing is built or searched).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path

import numba
import numpy as np
from city_table import read, table
from hard_conditions import WRONG_M, WRONG_SIGMAS
from scenes import camera_of

from skyanchor.anchors.place_finding import PlacesConfig
from skyanchor.cli import kernels
from skyanchor.cli.runs import chosen_preset
from skyanchor.evaluation.metrics import pose_errors
from skyanchor.evaluation.truth import read_truth
from skyanchor.events import Event, Note, Progress
from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import inside, lift, pixel_centres
from skyanchor.pipeline import PipelineConfig
from skyanchor.run import prepared as parts
from skyanchor.run.executor import executor_of
from skyanchor.run.folder import Made, Stage
from skyanchor.run.job import Job
from skyanchor.run.layout import PROGRESS
from skyanchor.run.memory import peaks, tree_bytes
from skyanchor.run.prepared import Prepared
from skyanchor.run.records import ANCHOR_SECONDS_FILE, AnchorSeconds, GroupSeconds
from skyanchor.run.results import Run
from skyanchor.run.timing import timings
from skyanchor.scaffold import load_scaffold
from skyanchor.sequence.loading import street_camera
from skyanchor.sfm.uncertainty import centre_sigma_m
from skyanchor.stages import scaffold as scaffold_stage
from skyanchor.stages.digests import aerial_digests
from skyanchor.stages.job_files import SCAFFOLD_FILE
from skyanchor.stages.places import place_files, places_part
from skyanchor.stages.windows import windows_part
from skyanchor.stages.work import Site
from skyanchor.stereo import choose_neighbours, choose_sources, depth_files, save_depth
from skyanchor.storage import files
from skyanchor.town import CITY, Epoch, TownPreset, build_town, make_town, render_depth
from skyanchor.town.photographing import side_by_side
from skyanchor.town.presets import FlightPlan, WalkPlan
from skyanchor.types import Camera, DepthMap, Floats, Floats32, Ints, Pose, Scaffold, TriedPlace, View

WORKERS = 2
"""Of one search."""
WALK_REACH_M, EYE_M = 30.0, 1.7
"""How far round a walk depth is measured, where it is not everywhere; height of the cameras of walks."""
NEAR_M, ALONG_DEG = 3.0, 30.0
"""A place that was tried so near to the truth, turned by so little, is the right one."""


@dataclass(frozen=True)
class Plan:
    """What is built and how it is prepared."""

    part: tuple[int, int]
    """North-south and east-west streets; the preset has 22 and 25."""
    frames: int
    """Of each walk, at the preset's pace."""
    designs: int
    """Of houses."""
    depth: str
    """measured, walks or exact."""
    sample_m: float
    """Ground sample distance of depth, metres."""
    flight: FlightPlan = CITY.flight
    """How it is flown; the margin is that of the part."""
    seed: int = CITY.seed
    """Of the town, its flight and its walks."""

    @property
    def preset(self) -> TownPreset:
        """The city with so many streets, its walks moved into them."""
        columns, rows = self.part
        streets = replace(CITY.streets, columns=columns, rows=rows, designs=self.designs)
        whole = (columns, rows) == (CITY.streets.columns, CITY.streets.rows)
        flight = self.flight if whole else replace(self.flight, margin=70.0)
        first, *others = (self._walk(walk) for walk in (CITY.walk, *CITY.other_walks))
        return replace(CITY, streets=streets, flight=flight, walk=first, other_walks=tuple(others), seed=self.seed)

    def _walk(self, walk: WalkPlan) -> WalkPlan:
        """The beginning of a walk, at its pace, where the streets allow it."""
        metres = np.array([CITY.streets.column_spacing, CITY.streets.row_spacing])
        corners = np.array(walk.corners)
        at = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(corners * metres, axis=0), axis=1))])
        end = at[-1] * min(1.0, self.frames / walk.frames)
        last = [np.interp(end, at, corners[:, k]) for k in (0, 1)]
        kept = tuple((float(x), float(y)) for x, y in [*corners[at < end], last])
        return replace(walk, corners=self._moved(kept), frames=min(self.frames, walk.frames))

    def _moved(self, corners: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
        """The walk as near to its place in the whole city as the streets allow, on streets of the same kind."""
        low, high = np.min(corners, axis=0), np.max(corners, axis=0)
        room = np.array(self.part) - 2.0 - (high - low)
        whole = np.array([CITY.streets.columns, CITY.streets.rows]) - 2.0 - (high - low)
        shift = np.round(1.0 + np.maximum((low - 1.0) / whole * room, 0.0) - low)
        return tuple((float(x), float(y)) for x, y in np.array(corners) + shift)


@dataclass
class Told:
    """Prints what happens, and keeps the seconds of every step from its first word to its last."""

    steps: dict[str, tuple[float, float]] = field(default_factory=dict)
    said: float = 0.0
    since: float = field(default_factory=time.monotonic)

    def __call__(self, event: Event) -> None:
        """Hear of one event."""
        now = time.monotonic()
        if isinstance(event, Note):
            print(f"{now - self.since:7.0f} s  {event.text}", flush=True)
        if isinstance(event, Progress):
            first = self.steps.get(event.step, (self.said or self.since, 0.0))[0]
            self.steps[event.step] = (first, now)
            if event.done == event.total or event.done % max(1, event.total // 10) == 0:
                print(f"{now - self.since:7.0f} s  {event.step} {event.done}/{event.total}", flush=True)
        self.said = now

    @property
    def seconds(self) -> dict[str, float]:
        """Per step."""
        return {step: round(last - first, 1) for step, (first, last) in self.steps.items()}


@dataclass(frozen=True)
class Bench:
    """Where the work is done and where its rows go."""

    work: Path
    plan: Plan
    config: PipelineConfig
    jobs: int
    into: Path

    @property
    def scene(self) -> Path:
        """Folder of the town."""
        return self.work / "scene"

    @property
    def scaffold(self) -> Path:
        """Folder of what was prepared."""
        return self.work / "scaffold"

    @property
    def looked(self) -> tuple[str, ...]:
        """How the described views differ from the defaults, as options of a search."""
        places, usual = self.config.anchors.places, PlacesConfig()
        asked = [
            (f"nodes.headings={places.nodes.headings}", places.nodes.headings != usual.nodes.headings),
            ("nodes.no-along-streets", not places.nodes.along_streets),
            (f"bridge.paint-width={places.bridge.paint_width}", places.bridge.paint_width != usual.bridge.paint_width),
            (f"bridge.front-width={places.bridge.front_width}", places.bridge.front_width != usual.bridge.front_width),
        ]
        return tuple(f"--anchors.places.{option}" for option, other in asked if other)

    def row(self, **values: object) -> None:
        """Print a row and add it to the file."""
        plan = {
            "streets": self.plan.part,
            "seed": self.plan.seed,
            "designs": self.plan.designs,
            "depth": self.plan.depth,
        }
        line = json.dumps(
            {
                **plan,
                "spacing": self.plan.flight.spacing,
                "altitude": self.plan.flight.altitude,
                "pixels": (self.plan.flight.width, self.plan.flight.focal),
                **values,
                "looked": self.looked,
            }
        )
        print(line, flush=True)
        with self.into.open("a") as file:
            file.write(line + "\n")


# --- scene and preparation ----------------------------------------------------------------------------------------


def built(bench: Bench) -> None:
    """The scene, where it is not there yet."""
    if (bench.scene / "scene.json").is_file():
        return
    told, start = Told(), time.monotonic()
    numba.set_num_threads(min(bench.jobs, numba.config.NUMBA_NUM_THREADS))
    build_town(bench.scene, bench.plan.preset, listen=told)
    photos = len(list((bench.scene / "aerial" / "images").iterdir()))
    bench.row(what="built", seconds=round(time.monotonic() - start), photos=photos, steps=told.seconds)


def prepared(bench: Bench) -> tuple[Site, Camera]:
    """The scaffold with its places for the walks' camera, made where it is not there yet."""
    config, told, start = bench.config, Told(), time.monotonic()
    held = load_scaffold(bench.scene / "aerial", None, None, config.scaffold)
    site = Site(held, Prepared(bench.scaffold), executor_of(bench.jobs), told)
    settings = replace(config.sequence, camera=camera_of(bench.scene / "ground" / "truth"))
    camera = street_camera(bench.scene / "ground" / "images", settings)
    with site.executor.held():
        measured = bench.plan.depth == "measured"
        surface = scaffold_stage.run(site, config.geometry, config.scaffold) if measured else exact_surface(bench, site)
        places = places_part(site, surface, camera, config.anchors.places)
    if not told.steps:
        return site, camera
    index = place_files(site, surface, camera, config.anchors.places, (), told).index()
    tiles = list(places.path(parts.TILES).iterdir())
    bench.row(
        what="prepared", seconds=round(time.monotonic() - start), steps=told.seconds, stages=timings(bench.scaffold),
        gigabytes={name: round(peak.bytes / 1e9, 2) for name, peak in peaks(bench.scaffold).items()},
        gpu_gigabytes={name: round(peak.gpu_bytes / 1e9, 2) for name, peak in peaks(bench.scaffold).items()},
        points=len(held.points), tiles=len(tiles), views=len(index),
        places_mb=round(sum(tile.stat().st_size for tile in tiles) / 1e6, 1),
        surface_mb=round(surface.path(parts.SURFACE_FILE).stat().st_size / 1e6, 1),
    )  # fmt: skip
    return site, camera


def exact_surface(bench: Bench, site: Site) -> Made:
    """The surface of the scaffold, from the town's own depth, but for what is measured near the walks."""
    with site.adding(parts.DEPTH) as folder:
        settings = {"exact": bench.plan.depth, "sample_m": bench.plan.sample_m}
        stage = folder.stage(parts.DEPTH, "exact depth", settings, aerial_digests(folder, site.scaffold))
        if not stage.done:
            near = _views_near_walks(bench, site.scaffold) if bench.plan.depth == "walks" else np.empty(0, np.int64)
            _exact_maps(bench, site, stage, near)
            _measured_maps(bench, site, stage, near)
            stage.finish({"photos": len(site.scaffold.views), "measured": len(near)})
        parts.write_aerial(folder.root, site.scaffold, bench.config.scaffold)
        surface = bench.config.geometry.surface
        made = scaffold_stage.surface_part(folder, site.scaffold, stage, surface, site.executor)
    windows_part(site, bench.config.geometry.windows)
    return made


def _views_near_walks(bench: Bench, scaffold: Scaffold) -> Ints:
    """(M,), the photos that show ground within `WALK_REACH_M` of where a street photo was taken."""
    truths = (read_truth(path, scaffold.georef.offset) for path in sorted(bench.scene.glob("ground*/truth")))
    ways = np.concatenate([rigid.centres_in_world(list(true.values()))[::10] for true in truths])
    side = np.arange(-WALK_REACH_M, WALK_REACH_M + 1.0, 10.0)
    around = np.stack(np.meshgrid(side, side, [-EYE_M]), axis=-1).reshape(-1, 3)
    around = around[np.linalg.norm(around[:, :2], axis=1) <= WALK_REACH_M]
    ground = (ways[:, None] + around).reshape(-1, 3)

    def shows(view: View) -> bool:
        local = view.cam_from_world(ground)
        seen = cameras.project(view.camera, local[local[:, 2] > 0.0])
        return bool(inside(view.camera, seen).any())

    return np.flatnonzero([shows(view) for view in scaffold.views])


def _exact_maps(bench: Bench, site: Site, stage: Stage, left_out: Ints) -> None:
    """Write the town's own depth of all photos but some, as measured and as confirmed."""
    views, names = site.scaffold.views, depth_files([view.name for view in site.scaffold.views])
    town = make_town(bench.plan.preset.streets, bench.plan.preset.seed)
    width = scaffold_stage.depth_width(site.scaffold, bench.config.geometry)

    def write(k: int) -> None:
        camera = cameras.scaled(views[k].camera, min(width, views[k].camera.width))
        depth = render_depth(town, camera, views[k].cam_from_world, Epoch.AERIAL)
        sure, none = np.full(depth.shape, 0.9, np.float32), np.zeros(depth.shape, bool)
        normal = _normals(camera, views[k], depth)
        made = DepthMap(views[k].name, camera, views[k].cam_from_world, depth, sure, none, normal)
        save_depth(stage.path(f"{scaffold_stage.MEASURED}/{names[k]}"), made, compressed=False)
        save_depth(stage.path(names[k]), made)

    others = np.setdiff1d(np.arange(len(names)), left_out).tolist()
    others = [k for k in others if not stage.path(names[k]).is_file()]
    for done, _ in enumerate(side_by_side(write, others)):
        site.listen(Progress(stage.label, "exact depth", done + 1, len(others)))


def _measured_maps(bench: Bench, site: Site, stage: Stage, chosen: Ints) -> None:
    """Measure the depth of some photos and confirm it by their neighbours', by the jobs of `skyanchor prepare`."""
    config, held = bench.config.geometry, stage.path(f"{PROGRESS}/{SCAFFOLD_FILE}")
    stage.save(f"{PROGRESS}/{SCAFFOLD_FILE}", site.scaffold)
    seen = (site.scaffold.views, site.scaffold.points, site.scaffold.tracks)
    sources, beside = choose_sources(*seen, config.sources), choose_neighbours(*seen, config.neighbours)
    names = depth_files([view.name for view in site.scaffold.views])
    stereo = replace(config.stereo, width=scaffold_stage.depth_width(site.scaffold, config))
    work = {
        f"{scaffold_stage.MEASURED}/{names[k]}": Job.of(
            scaffold_stage.measure_depth_job, scaffold=held, view=k, sources=sources[k].tolist(), config=stereo
        )
        for k in chosen.tolist()
    }
    stage.produce("depth measured", work, site.executor)
    shared = {"scaffold": held, "agree": config.consistency, "fill": config.completion, "made": bench.plan.depth}
    shared |= {"measured": stage.path(scaffold_stage.MEASURED)}
    work = {
        names[k]: Job.of(scaffold_stage.agree_depth_job, view=k, neighbours=beside[k].tolist(), **shared)
        for k in chosen.tolist()
    }
    stage.produce("depth confirmed", work, site.executor)


def _normals(camera: Camera, view: View, depth: Floats32) -> Floats32:
    """(H, W, 3), of the surface through each pixel and those beside it, towards the camera, world."""
    rows, columns = np.mgrid[: camera.height, : camera.width]
    xy = pixel_centres(rows.ravel(), columns.ravel())
    points = lift(camera, view.cam_from_world, xy, depth.ravel()).reshape(*depth.shape, 3)
    normal = np.cross(np.gradient(points, axis=1), np.gradient(points, axis=0))
    normal /= np.maximum(np.linalg.norm(normal, axis=2, keepdims=True), 1e-12)
    away = points - rigid.centre_in_world(view.cam_from_world)
    return np.where((normal * away).sum(axis=2, keepdims=True) > 0, -normal, normal).astype(np.float32)


# --- searches -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Search:
    """One walk looked for in one area."""

    walk: str
    area: str
    """whole, a number of square kilometres, or `near`."""
    options: tuple[str, ...]
    """What a user says of the place."""
    near_m: float | None = None
    """Radius of `near`."""


def searches(bench: Bench, areas: list[float], near: float) -> list[Search]:
    """The whole city first, then its parts."""
    asked: list[Search] = []
    for walk in sorted(path.parent.name for path in bench.scene.glob("ground*/images")):
        true = read_truth(bench.scene / walk / "truth", np.zeros(3))
        middle = rigid.centres_in_world(list(true.values())).mean(axis=0)[:2]
        asked.append(Search(walk, "whole", ()))
        asked += [Search(walk, f"{km2:g}", ("--within", _square(bench, walk, middle, km2))) for km2 in areas]
        if near > 0:
            asked.append(Search(walk, "near", (f"--near={middle[0]:.1f},{middle[1]:.1f},{near:g}",), near))
    order = ["whole", *(f"{km2:g}" for km2 in areas), "near"]
    return sorted(asked, key=lambda search: order.index(search.area))


def _square(bench: Bench, walk: str, middle: Floats, km2: float) -> str:
    """A file with the corners of a square of so many square kilometres round a place."""
    half = 500.0 * np.sqrt(km2)
    path = bench.work / f"{walk}-{km2:g}.txt"
    corners = [(-half, -half), (half, -half), (half, half), (-half, half)]
    path.write_text("".join(f"{middle[0] + x:.2f},{middle[1] + y:.2f}\n" for x, y in corners))
    return str(path)


def searched(bench: Bench, search: Search, submap: int) -> None:
    """A row on one walk in one area, by `skyanchor anchors` in a process of its own."""
    name = "-".join([search.walk, search.area, *(option.rpartition(".")[2] for option in bench.looked)])
    out, done = bench.work / "runs" / name, bench.work / "rows" / f"{name}.json"
    if done.is_file():
        return
    ground = bench.scene / search.walk
    command = [
        sys.executable, "-m", "skyanchor.cli", "anchors", "--preset", "cpu", "--scaffold", str(bench.scaffold),
        "--ground", str(ground / "images"), "--camera", camera_of(ground / "truth"), "--workers", str(WORKERS),
        f"--sequence.cut.submap-length={submap}", "--out", str(out), *search.options,
        *bench.looked,
    ]  # fmt: skip
    (bench.work / "logs").mkdir(exist_ok=True)
    start, most, single = time.monotonic(), 0, 0
    with (bench.work / "logs" / f"{name}.txt").open("a") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
        while child.poll() is None:
            most, single = max(most, tree_bytes(child.pid)), max(single, _largest_worker(child.pid))
            time.sleep(1.0)
    if child.returncode not in (0, 3):
        bench.row(what="failed", walk=search.walk, area=search.area, near_m=search.near_m, code=child.returncode)
        return
    row = scored(Run(out), ground / "truth") | {
        "wall_s": round(time.monotonic() - start, 1), "memory_mb": round(most / 1e6), "worker_mb": round(single / 1e6)
    }  # fmt: skip
    bench.row(what="searched", walk=search.walk, area=search.area, near_m=search.near_m, **row)
    files.write_bytes(done, json.dumps(row).encode())


def _largest_worker(process: int) -> int:
    """Bytes of the largest of the processes that one started, file pages not counted."""
    from skyanchor.run.memory import _own_bytes, family

    return max((_own_bytes(entry) for entry in family(process)[1:]), default=0)


def scored(run: Run, truth: Path) -> dict[str, object]:
    """The figures of a run."""
    true, groups = read_truth(truth, run.anchors_record.georef.offset), run.anchors.groups
    off, sigmas = {}, {}
    for k, group in enumerate(groups):
        if group.accepted:
            off[k] = pose_errors({run.names[a.frame]: a.cam_from_world for a in group.poses}, true).position_m
            stated = np.mean([centre_sigma_m(a.covariance) ** 2 for a in group.poses])
            sigmas[k] = off[k] / float(np.sqrt(stated))
    looks = files.load(run.root / ANCHOR_SECONDS_FILE, AnchorSeconds).looks
    per_group = [sum(sum(look.seconds.values()) for look in looks if look.group == k) for k in range(len(groups))]
    stage = timings(run.root)
    return {
        "groups": len(groups), "accepted": len(off),
        "wrong": sum(off[k] > WRONG_M or sigmas[k] > WRONG_SIGMAS for k in off),
        "found": found(looks, {i: true[name] for i, name in enumerate(run.names) if name in true}, len(groups)),
        "worst_m": round(max(off.values(), default=0.0), 3),
        "rms_m": round(float(np.sqrt(np.mean(np.square(list(off.values()))))), 4) if off else None,
        "odds": [round(group.figures.log_odds, 1) for group in groups],
        "metres": {k: round(m, 3) for k, m in off.items()}, "sigmas": {k: round(s, 1) for k, s in sigmas.items()},
        "refused": {k: str(g.refusal.reason) for k, g in enumerate(groups) if g.refusal is not None},
        "attempts": [len(group.attempts) for group in groups],
        "group_s": [round(seconds, 1) for seconds in per_group], "stages_s": stage,
    }  # fmt: skip


def found(looks: Iterable[GroupSeconds], true: dict[int, Pose], groups: int) -> list[int]:
    """Which of the groups the search found: the first look at each, for a second one knows where its neighbours stand.

    `true` are the poses of the frames by their numbers.
    """
    first: dict[int, GroupSeconds] = {}
    for look in looks:
        first.setdefault(look.group, look)
    return [k for k in range(groups) if k in first and any(_right(place, true) for place in first[k].tried)]


def _right(place: TriedPlace, true: dict[int, Pose]) -> bool:
    if place.frame not in true:
        return False
    errors = pose_errors({"": place.cam_from_world}, {"": true[place.frame]})
    return errors.position_m <= NEAR_M and errors.rotation_deg <= ALONG_DEG


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, nargs="?")
    parser.add_argument("--part", type=int, nargs=2, default=(22, 25))
    parser.add_argument("--frames", type=int, default=240)
    parser.add_argument("--spacing", type=float, nargs=2, help="of stations, metres; the preset's without it")
    parser.add_argument("--altitude", type=float, help="of the flight, metres; the preset's without it")
    parser.add_argument(
        "--pixels", type=int, nargs=2, help="width and focal length of aerial photos; the preset's without"
    )
    parser.add_argument("--designs", type=int, default=9)
    parser.add_argument("--seed", type=int, help="of town, flight and walks; the preset's without")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--depth", choices=("measured", "walks", "exact"), default="measured")
    parser.add_argument("--sample", type=float, default=0.15, help="metres per pixel of depth")
    parser.add_argument("--width", type=int, help="pixels of depth, at most; the preset's without it")
    parser.add_argument("--preset", default="auto", help="of the preparation: auto, cpu or gpu")
    parser.add_argument("--areas", type=float, nargs="*", default=[0.05, 0.2], help="square kilometres")
    parser.add_argument("--near", type=float, default=100.0, help="metres; 0 leaves it out")
    parser.add_argument("--headings", type=int, default=0, help="directions of the described views; 0 is the default")
    parser.add_argument("--fixed", action="store_true", help="directions from the axes of the map, not the streets")
    parser.add_argument("--paint", type=int, default=0, help="width of the photos that paint them; 0 is the default")
    parser.add_argument("--submap", type=int, default=40, help="frames between anchor groups")
    parser.add_argument("--upto", choices=("built", "prepared", "searched"), default="searched")
    parser.add_argument("--into", type=Path, help="file that rows are added to; WORK/rows.jsonl without it")
    parser.add_argument("--rows", type=Path, nargs="+", default=[], help="files of rows that the table has too")
    parser.add_argument("--table", type=Path, help="file for the table, which is printed in any case")
    given = parser.parse_args()
    if given.work is None and not given.rows:
        parser.error("give WORK, or --rows for a table alone")
    if given.work is not None:
        searched_in(given)
    own = [] if given.work is None else [given.into or given.work / "rows.jsonl"]
    text = table(read([path for path in (*own, *given.rows) if path.is_file()]))
    print(text)
    if given.table is not None:
        given.table.write_text(text)


def searched_in(given: argparse.Namespace) -> None:
    """Build, prepare and search, as far as is asked."""
    work = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    flight = CITY.flight
    width, focal = given.pixels or (flight.width, flight.focal)
    altitude, spacing = given.altitude or flight.altitude, tuple(given.spacing or flight.spacing)
    size = {"width": width, "height": width * 3 // 4, "focal": float(focal)}
    flight = replace(flight, **size, altitude=altitude, spacing=spacing)
    plan = Plan(tuple(given.part), given.frames, given.designs, given.depth, given.sample, flight)
    plan = plan if given.seed is None else replace(plan, seed=given.seed)
    config = chosen_preset(given.preset).config
    stereo = config.geometry.stereo
    stereo = stereo if given.width is None else replace(stereo, width=given.width)
    config = replace(config, geometry=replace(config.geometry, sample_m=given.sample, stereo=stereo))
    places = config.anchors.places
    headings = given.headings or places.nodes.headings
    places = replace(places, nodes=replace(places.nodes, headings=headings, along_streets=not given.fixed))
    if given.paint:
        places = replace(places, bridge=replace(places.bridge, paint_width=given.paint, front_width=given.paint // 2))
    config = replace(config, anchors=replace(config.anchors, places=places))
    bench = Bench(work, plan, config, given.jobs, given.into or work / "rows.jsonl")
    kernels.announce(Told())
    built(bench)
    if given.upto == "built":
        return
    prepared(bench)
    if given.upto == "prepared":
        return
    asked = searches(bench, given.areas, given.near)
    with ThreadPoolExecutor(max(1, given.jobs // WORKERS)) as pool:
        for future in as_completed([pool.submit(searched, bench, search, given.submap) for search in asked]):
            future.result()


if __name__ == "__main__":
    main()
