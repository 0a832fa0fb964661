"""What walks gain from each other in one adjustment, over towns: each located on the flight alone, then all together.

    python benchmarks/network.py --work DIR [--seeds 31 32 33] [--jobs 2]

A mini town each with three walks that overlap along one street, on two days. Every walk is located on the flight, then
`merge --adjust` adjusts them as one network with the flight constant. Per town and walk: ATE against the truth before
and after, the mean error as the shift that all its frames share, and the stated sigma along the worst axis. Truth is
read only to score. Towns are jobs; what is there is kept.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import skyanchor
from skyanchor.evaluation.truth import read_truth
from skyanchor.geometry import rigid
from skyanchor.pipeline import CPU
from skyanchor.stages.merge import NETWORK, TRACKS, NetworkRecord
from skyanchor.storage import files
from skyanchor.town.build import build_town
from skyanchor.town.presets import MINI, WalkPlan
from skyanchor.trajectory.network import NetworkConfig
from skyanchor.types import Floats

LATER = WalkPlan(((1.0, 0.42), (1.0, 0.98)), 32, -0.4, 480, 270, 343.0, gain=0.9, noise=0.015)
ASIDE = WalkPlan(((1.0, 0.35), (1.0, 0.9)), 32, 1.1, 480, 270, 343.0, gain=1.1)
THREE = replace(MINI, name="mini-three", later_walk=LATER, other_walks=(ASIDE,))
CONFIG = replace(CPU, sequence=replace(CPU.sequence, camera="f=343"))
WALKS = ("ground", "ground2", "ground3")


def town_rows(work: Path, seed: int) -> list[str]:
    """A line for each walk of a town."""
    root = work / f"town-{seed}"
    if not (root / "scene").is_dir():
        build_town(root / "scene", THREE, seed)
    scaffold, runs = root / "scene/aerial", []
    for walk in WALKS:
        runs.append(skyanchor.recover(scaffold, root / "scene" / walk, root / walk, CONFIG, workers=1))
        scaffold = root / WALKS[0] / "1-scaffold"
    together = root / "together"
    if not together.is_dir():
        skyanchor.merge(runs, together, NetworkConfig())
    figures = files.load(together / NETWORK, NetworkRecord).walks
    rows = []
    for k, (walk, run) in enumerate(zip(WALKS, runs, strict=True)):
        truth = root / "scene" / walk / "truth"
        before, after = off_before(run, truth), off_after(run, together / TRACKS / f"{walk}.tum", truth)
        said = f"{figures[k].sigma_before_m:.3f} | {figures[k].sigma_after_m:.3f}"
        rows.append(f"| {seed} | {walk} | {_figures(before)} | {_figures(after)} | {said} |")
    return rows


def _figures(off: Floats) -> str:
    """ATE and shared shift of errors (N, 3), metres."""
    return f"{np.sqrt((off**2).sum(axis=1).mean()):.3f} | {np.linalg.norm(off.mean(axis=0)):.3f}"


def off_before(run: skyanchor.Run, truth: Path) -> Floats:
    """(N, 3), where each located frame is minus where it was, metres."""
    true = read_truth(truth, run.scaffold.georef.offset)
    return np.array(
        [rigid.centre_in_world(pose) - rigid.centre_in_world(true[name]) for name, pose in run.poses.items()]
    )


def off_after(run: skyanchor.Run, tum: Path, truth: Path) -> Floats:
    """The same of a merged trajectory, in the user's coordinates."""
    true = read_truth(truth, np.zeros(3))
    rows = np.loadtxt(tum, ndmin=2)
    names = [run.names[int(frame)] for frame in rows[:, 0]]
    return rows[:, 1:4] - np.array([rigid.centre_in_world(true[name]) for name in names])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for towns and runs")
    parser.add_argument("--seeds", type=int, nargs="+", default=[31, 32, 33])
    parser.add_argument("--jobs", type=int, default=1, help="towns at a time")
    given = parser.parse_args()
    print("| town | walk | ATE m alone | shift m | ATE m together | shift m | sigma m alone | together |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        for rows in pool.map(town_rows, [given.work] * len(given.seeds), given.seeds):
            print(*rows, sep="\n", flush=True)


if __name__ == "__main__":
    main()
