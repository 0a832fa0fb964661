"""What a later walk gains from an earlier one, over towns: located on the flight alone, and onto the first walk too.

    python benchmarks/later_walk.py --work DIR [--seeds 7 11 12] [--silent] [--jobs 2]

A mini town each with a walk, a later one along the same street on another day, and one the other way. The first is
located on the flight; the others on the flight alone, then with `--onto` the first. Per town and walk: groups
accepted, groups that the first walk carries, ATE against the truth, how far the two walks' mean errors lie apart, and
the largest difference between flight and first walk in stated sigmas. `--silent` blacks the street out of the aerial
photos for the later walk: what is left of it with the flight alone, and carried. Towns are jobs; what is there is kept.
"""

from __future__ import annotations

import argparse
import math
import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import cv2
import numpy as np

import skyanchor
from skyanchor.evaluation.truth import read_truth
from skyanchor.geometry import cameras, rigid
from skyanchor.pipeline import CPU
from skyanchor.run.inputs import INPUTS_FILE, Inputs
from skyanchor.run.layout import STATE
from skyanchor.scaffold import load_scaffold
from skyanchor.storage import files
from skyanchor.town.build import build_town
from skyanchor.town.presets import MINI, WalkPlan
from skyanchor.types import Floats

LATER = WalkPlan(((1.0, 0.42), (1.0, 0.98)), 32, -0.4, 480, 270, 343.0, gain=0.9, noise=0.015)
BACK = WalkPlan(((1.0, 0.95), (1.0, 0.35)), 32, 0.9, 480, 270, 343.0, gain=1.1)
YEAR = replace(MINI, name="mini-year", later_walk=LATER, other_walks=(BACK,))
CONFIG = replace(CPU, sequence=replace(CPU.sequence, camera="f=343"))
CORRIDOR = (8.0, 45.0, 13.0, 10.0)
"""What is blacked out: metres before and beyond the walk, to either side, and above the ground."""


@dataclass(frozen=True)
class Row:
    """One walk of one town, located one way."""

    seed: int
    walk: str
    way: str
    accepted: int
    groups: int
    carried: int
    ate_m: float
    apart_m: float
    """Between the mean errors of this walk and of the first one."""
    sigmas: float
    """Largest difference between flight and first walk; nan where they do not meet."""

    def __str__(self) -> str:
        """A line of the table."""
        placed = f"{self.accepted}/{self.groups}"
        numbers = [f"{value:.3f}" if math.isfinite(value) else "-" for value in (self.ate_m, self.apart_m)]
        said = f"{self.sigmas:.1f}" if math.isfinite(self.sigmas) else "-"
        words = (str(self.seed), self.walk, self.way, placed, str(self.carried), *numbers, said)
        return f"| {' | '.join(words)} |"


def errors(run: skyanchor.Run, truth: Path) -> Floats:
    """(N, 3), where each located frame is minus where it was, metres."""
    true = read_truth(truth, run.scaffold.georef.offset)
    off = [rigid.centre_in_world(pose) - rigid.centre_in_world(true[name]) for name, pose in run.poses.items()]
    return np.array(off).reshape(-1, 3)


def scored(seed: int, walk: str, way: str, run: skyanchor.Run, truth: Path, first: Floats) -> Row:
    groups, off = run.anchors.groups, errors(run, truth)
    met = [group.overlap for group in groups if group.overlap is not None]
    sigmas = max((one.sigmas for one in met if not math.isnan(one.sigmas)), default=math.nan)
    ate = float(np.sqrt((off**2).sum(axis=1).mean())) if len(off) else math.nan
    apart = float(np.linalg.norm(off.mean(axis=0) - first.mean(axis=0))) if len(off) else math.nan
    counts = (sum(group.accepted for group in groups), len(groups), sum(one.carried for one in met))
    return Row(seed, walk, way, *counts, ate, apart, sigmas)


def black_out(aerial: Path, walked: Floats, out: Path) -> Path:
    """A copy of the flight whose photos show nothing of the street along camera centres (N, 3)."""
    if out.is_dir():
        return out
    draft = _draft(aerial, out)
    start, way = walked[0], walked[-1] - walked[0]
    length = float(np.linalg.norm(way[:2]))
    along = way[:2] / length
    before, beyond, side, high = CORRIDOR
    u, v, z = np.meshgrid(
        np.arange(-before, length + beyond, 0.25), np.arange(-side, side, 0.25), np.arange(-1.0, high, 0.5)
    )
    flat = start[:2] + u.reshape(-1, 1) * along + v.reshape(-1, 1) * np.array([-along[1], along[0]])
    points = np.column_stack([flat, z.ravel() + walked[:, 2].mean() - 1.7])
    for view in load_scaffold(aerial).views:
        mask = np.full((view.camera.height, view.camera.width), 255, np.uint8)
        in_cam = view.cam_from_world(points)
        xy = cameras.project(view.camera, in_cam[in_cam[:, 2] > 1.0])
        x, y = xy[((xy > 0) & (xy < [view.camera.width, view.camera.height])).all(axis=1)].astype(int).T
        mask[y, x] = 0
        path = draft / "masks" / f"{view.name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), cv2.erode(mask, np.ones((9, 9), np.uint8)))
    return draft.rename(out)


def _draft(source: Path, out: Path, *without: str) -> Path:
    """A copy that is not yet called what it is to become."""
    draft = out.with_name(f"{out.name}-draft")
    shutil.rmtree(draft, ignore_errors=True)
    return Path(shutil.copytree(source, draft, ignore=shutil.ignore_patterns(*without)))


def on_other_flight(run: Path, scaffold: Path, out: Path) -> Path:
    """The run as if it had been located on another flight: its poses stand, whatever that one shows."""
    if not out.is_dir():
        draft, held = _draft(run, out, "1-scaffold", "4-scene"), skyanchor.open_run(run).inputs
        files.save(draft / STATE / INPUTS_FILE, Inputs(scaffold.resolve(), held.ground))
        draft.rename(out)
    return out


def town_rows(work: Path, seed: int, silent: bool) -> list[Row]:
    """All walks of a town, each way."""
    root = work / f"town-{seed}"
    if not (root / "scene").is_dir():
        build_town(root / "scene", YEAR, seed)
    scene, scaffold = root / "scene", root / "first/1-scaffold"
    run = skyanchor.recover(scene / "aerial", scene / "ground", root / "first", CONFIG, workers=1)
    first = errors(run, scene / "ground/truth")
    rows = [scored(seed, "first", "flight", run, scene / "ground/truth", first)]
    for walk in ("ground2", "ground3"):
        for way, onto in (("flight", ()), ("onto the first", (root / "first",))):
            out = root / f"{walk}-{'onto' if onto else 'flight'}"
            held = skyanchor.recover(scaffold, scene / walk, out, CONFIG, onto=onto, workers=1)
            rows.append(scored(seed, walk, way, held, scene / walk / "truth", first))
    if silent:
        walked = rigid.centres_in_world(list(skyanchor.open_run(root / "ground2-flight").poses.values()))
        thin = black_out(scene / "aerial", walked, root / "silent/aerial")
        held = skyanchor.recover(thin, scene / "ground2", root / "silent/flight", CONFIG, workers=1)
        rows.append(scored(seed, "ground2", "silent flight", held, scene / "ground2/truth", first))
        prepared = root / "silent/flight/1-scaffold"
        earlier = on_other_flight(root / "first", prepared, root / "silent/first")
        onto = skyanchor.recover(prepared, scene / "ground2", root / "silent/onto", CONFIG, onto=[earlier], workers=1)
        rows.append(scored(seed, "ground2", "silent flight, onto the first", onto, scene / "ground2/truth", first))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for towns and runs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 11, 12])
    parser.add_argument("--silent", action="store_true", help="also with the street blacked out of the flight")
    parser.add_argument("--jobs", type=int, default=1, help="towns at a time")
    given = parser.parse_args()
    head = "| town | walk | on | groups | carried | ATE m | walks apart m | flight and walk apart, sigmas |"
    print(f"{head}\n|---|---|---|---|---|---|---|---|", flush=True)
    asked = [(given.work, seed, given.silent) for seed in given.seeds]
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        for rows in pool.map(town_rows, *zip(*asked, strict=True)):
            print(*rows, sep="\n", flush=True)


if __name__ == "__main__":
    main()
