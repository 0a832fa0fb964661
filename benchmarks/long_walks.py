"""CPU seconds and memory of what a walk alone costs, by its length: cuts, dead reckoning, the whole trajectory stage.

    python benchmarks/long_walks.py WORK [FRAMES ...] [--photos] [--noise 0.02]

One walk goes up and down the streets of a town of the preset `city`, 0.6 m a frame, past new houses all the way; a walk
of so many frames is its beginning. No flight is needed: the anchor groups of every submap stand at the truth, each as a
whole `--noise` metres off and saying so. All else is what the command does: keypoints and cuts of the photos, steps of
dead reckoning, and the trajectory stage with submaps, registration, adjustments and export, in one process with one
thread. The anchor stage, which places the groups, is not in it.

It can be done in pieces: photos (480x270 as in the preset `mini`, 0.43 core seconds each) are drawn fifty at a time and
those that lie in WORK are not drawn again (`--photos` ends with them), and a length that was measured is only printed.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numba
import numpy as np

from skyanchor.anchors.config import OdometryConfig
from skyanchor.anchors.frames import GroundFrames, Lens
from skyanchor.anchors.odometry import measure_steps
from skyanchor.events import ANCHORS, TRAJECTORY, silent
from skyanchor.geometry import rigid
from skyanchor.run import records
from skyanchor.run.executor import InProcess
from skyanchor.run.folder import RunFolder
from skyanchor.run.inputs import Inputs
from skyanchor.run.memory import MemoryWatch, peaks
from skyanchor.run.prepared import Prepared
from skyanchor.run.records import TrajectorySeconds
from skyanchor.run.results import open_run
from skyanchor.sequence import SequenceConfig, load_sequence
from skyanchor.stages import trajectory
from skyanchor.stages.cuts import cut_where_photos_say
from skyanchor.stages.work import Site, Work
from skyanchor.storage import files
from skyanchor.town import CITY, MINI, Epoch, make_town
from skyanchor.town.layout import way_point
from skyanchor.town.photographing import Roll, photograph
from skyanchor.town.presets import WalkPlan
from skyanchor.town.routes import Shot, flight_camera, walk_camera, walk_shots
from skyanchor.town.sensor import handheld_sensor
from skyanchor.town.town import Town
from skyanchor.town.tracks import empty_model, write_model
from skyanchor.trajectory import TrajectoryConfig
from skyanchor.types import Georeference, Plane, Scaffold, Tracks
from trajectory import metrics, perfect_anchors, truth_of

STREETS = 8
"""Of each family; the walk keeps off the outermost."""
PACE_M = 0.6
PART = 50
"""Photos that are drawn at a time."""
SEED = CITY.seed
RECKONING = "reckoning"
"""Cuts and dead reckoning, among the stages whose memory is watched."""


@dataclass(frozen=True)
class Row:
    """What a walk took."""

    frames: int
    reckoning_s: float
    """CPU seconds of cuts and dead reckoning."""
    trajectory_s: float
    """CPU seconds of the stage."""
    wall_s: float
    """Of both."""
    steps: dict[str, float]
    """Share of each step of the stage in its seconds on the clock, 0..1."""
    reckoning_bytes: int
    trajectory_bytes: int
    """Most memory at a time."""
    posed: int
    ate_m: float


# --- photos -------------------------------------------------------------------------------------------------------


def walk_plan(town: Town) -> WalkPlan:
    """Up one street and down the next, as far as they go."""
    ends = [(1, STREETS - 2) if column % 2 else (STREETS - 2, 1) for column in range(1, STREETS - 1)]
    corners = [(float(column), float(row)) for column, rows in enumerate(ends, 1) for row in rows]
    way = np.array([way_point(town.layout, *corner) for corner in corners])
    length = float(np.linalg.norm(np.diff(way, axis=0), axis=1).sum())
    return replace(MINI.walk, corners=tuple(corners), frames=math.floor(length / PACE_M))


def draw(work: Path, count: int) -> None:
    """The first photos of the walk and its truth, where they are not there yet."""
    parts = range(math.ceil(count / PART))
    missing = [part for part in parts if not photos(work, part).is_dir()]
    if not missing and (work / "truth").is_dir():
        return
    numba.set_num_threads(1)
    town = make_town(replace(CITY.streets, columns=STREETS, rows=STREETS), SEED)
    plan = walk_plan(town)
    shots = walk_shots(plan, town.layout, "walk", np.random.default_rng([SEED, 12]))
    if count > len(shots):
        raise SystemExit(f"the walk ends after {len(shots)} frames")
    camera = walk_camera(plan)
    files.write_through(work / "truth", lambda draft: write_model(draft, empty_model(camera, shots)))
    phone = handheld_sensor(plan.gain, plan.noise, 0.1)
    for part in missing:

        def take(draft: Path, first: int = part * PART, seed: int = SEED + part) -> None:
            roll = Roll(camera, shots[first : first + PART], Epoch.GROUND, phone, plan)
            photograph(town, roll, draft, seed, silent)

        files.write_through(photos(work, part), take)
        print(f"photos {part * PART} .. {(part + 1) * PART - 1}", flush=True)


def photos(work: Path, part: int) -> Path:
    """Folder of so many photos."""
    return work / "photos" / f"{part:03d}"


# --- a walk -------------------------------------------------------------------------------------------------------


def walked(work: Path, count: int, noise_m: float) -> Row:
    """Cuts, dead reckoning and trajectory of the first frames."""
    truth, camera = truth_of(work / "truth")
    root, ground = work / f"run-{count}", work / f"walk-{count}" / "images"
    for folder in (root, ground.parent):
        files.remove(folder)
    link(work, count, ground)
    config = SequenceConfig(camera=",".join([camera.model, *map(str, camera.params)]))
    settings = TrajectoryConfig()
    settings = replace(settings, adjust=replace(settings.adjust, threads=1))
    begun = time.monotonic()
    with RunFolder(root) as run:
        files.save(root / ".state" / "inputs.json", Inputs(root / "aerial", ground))
        sequence = load_sequence(ground, config)
        with measured(root, RECKONING) as reckoning:
            sequence = cut_where_photos_say(run, sequence, config, OdometryConfig(), InProcess())
            files.save(root / ".state" / records.SEQUENCE_FILE, sequence)
            frames = GroundFrames(sequence, root / ".state" / "features")
            measure_steps(frames, 0, count - 1, Lens(), OdometryConfig())
        site = Site(flat_ground(root / "aerial"), Prepared(root / "1-scaffold"), InProcess())
        given = Work(run, site, sequence, InProcess())
        anchors = perfect_anchors(sequence, truth, camera, noise_m, 0.0, 0)
        above = run.stage(ANCHORS, "given", {}, {})
        above.save(records.ANCHORS_FILE, records.AnchorsRecord(given.names, site.scaffold.georef, anchors))
        above.finish()
        start = time.process_time()
        trajectory.run(given, settings, above)
        stage_s = time.process_time() - start
    wall_s = time.monotonic() - begun
    spent, most = files.load(root / records.TRAJECTORY_SECONDS_FILE, TrajectorySeconds), peaks(root)
    found = metrics(sequence, open_run(root).trajectory, truth)
    return Row(
        count, reckoning[0], stage_s, wall_s, shares(spent), most[RECKONING].bytes, most[TRAJECTORY].bytes,
        found.registered, found.ate_m,
    )  # fmt: skip


@contextmanager
def measured(root: Path, name: str) -> Iterator[list[float]]:
    """A block whose most memory is kept; its CPU seconds are in the list when it has ended."""
    watch, start, spent = MemoryWatch(root, name), time.process_time(), [0.0]
    watch.start()
    try:
        yield spent
    finally:
        spent[0] = time.process_time() - start
        watch.stop()


def link(work: Path, count: int, folder: Path) -> None:
    """The first photos under one roof."""
    files.make_folder(folder)
    held = [photo for part in range(math.ceil(count / PART)) for photo in sorted(photos(work, part).iterdir())]
    for photo in held[:count]:
        os.link(photo, folder / photo.name)


def flat_ground(model: Path) -> Scaffold:
    """A scaffold of one photo that nobody looks at: the stage asks it for its ground, its map and its files alone."""
    none, up = np.empty(0, np.int64), np.array([0.0, 0.0, 1.0])
    above = rigid.look_at(100.0 * up, 0.0 * up, np.array([0.0, 1.0, 0.0]))
    write_model(model, empty_model(flight_camera(CITY.flight), [Shot("aerial.jpg", above)]))
    tracks = Tracks(none, none, np.empty((0, 2)))
    points, colors = np.empty((0, 3)), np.empty((0, 3), np.uint8)
    return Scaffold(
        Path(), (), points, colors, none, tracks, up, Plane(up, 0.0), Georeference(np.zeros(3)), model_path=model
    )


def shares(spent: TrajectorySeconds) -> dict[str, float]:
    """Of every step, those of the submaps by their own names."""
    seconds = {step: s for step, s in spent.whole.items() if step not in ("submaps", "total")}
    for submap in spent.submaps:
        for step, s in submap.seconds.items():
            if step != "total":
                seconds[step] = seconds.get(step, 0.0) + s
    total = sum(seconds.values())
    return {step: round(s / total, 3) for step, s in sorted(seconds.items(), key=lambda item: -item[1])}


# --- all of it ----------------------------------------------------------------------------------------------------


def told(row: Row) -> str:
    """A line of the table."""
    each = [f"{seconds / row.frames:.2f}" for seconds in (row.reckoning_s, row.trajectory_s)]
    memory = [f"{most / 1e6:.0f} MB" for most in (row.reckoning_bytes, row.trajectory_bytes)]
    return " | ".join(["", str(row.frames), *each, *memory, f"{row.posed}", f"{row.ate_m:.3f} m", ""]).strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("frames", type=int, nargs="*", default=[100, 250, 500, 2000])
    parser.add_argument("--photos", action="store_true", help="draw what is missing, and no more")
    parser.add_argument("--noise", type=float, default=0.02, help="of each anchor group, metres")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    work = given.work.resolve()
    if given.one:
        count = given.frames[0]
        files.save(work / f"row-{count}.json", walked(work, count, given.noise))
        return
    print("| frames | reckoning, CPU s a frame | trajectory, CPU s a frame | reckoning | trajectory | posed | ATE |")
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    for count in given.frames:
        draw(work, count)
        if given.photos:
            continue
        row = work / f"row-{count}.json"
        if not row.is_file():
            command = [sys.executable, __file__, str(work), str(count), "--noise", str(given.noise), "--one"]
            subprocess.run(command, check=True, env={**os.environ, **one_thread, "CUDA_VISIBLE_DEVICES": ""})
        held = files.load(row, Row)
        print(told(held), flush=True)
        print("   ", held.steps, flush=True)


if __name__ == "__main__":
    main()
