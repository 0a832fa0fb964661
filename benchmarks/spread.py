"""The README's figures of the procedural town, over seeds: each as median and range, and whether stated sigmas hold.

    python benchmarks/spread.py [SEED ...] [--preset mini] [--focal 343] [--upto trajectory|update] [--out out/spread]
                                [--mesh] [--at-once 1] [--workers 2] [--json FILE]

Every seed is a town that no setting was chosen on, done as a user would do it: `skyanchor town`, `skyanchor update`,
`skyanchor evaluate`. What is there already is not done again. Truth is read by `evaluate` and here, only to score. An
error counts per axis: with a right sigma 68 % of them are below it, 95 % below two, and 95 % of the distances are below
the radius that the report states. Frames of one town share a shift, so a town is one draw, however many frames it has.
`--json` keeps everything that the tables are made of.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from kept import made_here, write_lines

from skyanchor import open_run
from skyanchor.bridges.surface import Surface
from skyanchor.evaluation.metrics import true_poses
from skyanchor.events import SCENE
from skyanchor.geometry import rigid
from skyanchor.run import prepared as parts
from skyanchor.run.results import Run
from skyanchor.sfm.uncertainty import centre_sigma_m, position_sigma_m, radius_95_m
from skyanchor.storage import files
from skyanchor.types import Floats, LocalisedGroup, Pose

DIGITS = 5
"""Of metres, where they are kept."""


@dataclass(frozen=True, eq=False)
class Group:
    """An anchor group that was accepted."""

    index: int
    errors_m: Floats
    """(F, 3), of the frames' centres."""
    sigmas_m: Floats
    """(F,), as stated, along the worst axis."""
    formal_m: float
    """Largest standard deviation of a centre by the adjustment alone, metres."""
    halves_m: float
    """Distance between the solutions of two halves of the evidence, metres."""


@dataclass(frozen=True, eq=False)
class Town:
    """What came out on one town."""

    seed: int
    figures: dict[str, float]
    """By the row they stand in."""
    errors_m: Floats
    """(F, 3), of the frames' centres."""
    sigmas_m: Floats
    """(F,), as the run states them, per axis."""
    radius_m: float
    """That 95 % of the frames are within, as the run states it."""
    gsd_m: float
    """Ground sample distance of the aerial depth."""
    groups: tuple[Group, ...]


def main() -> None:
    options = arguments()
    with ThreadPoolExecutor(options.at_once) as pool:
        towns = list(pool.map(lambda seed: done(seed, options), options.seeds))
    if options.json:
        write_lines(options.json, made_here(), towns)
    for line in [*figure_table(towns), "", *sigma_table(towns)]:
        print(line)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", type=int, nargs="*", default=[21, 22, 23, 24, 25, 26, 27, 28])
    parser.add_argument("--preset", default="mini", help="of the town")
    parser.add_argument("--focal", default="343", help="of the street camera, pixels; 'unknown' gives none")
    parser.add_argument("--upto", choices=("trajectory", "update"), default="update")
    parser.add_argument("--mesh", action="store_true", help="the street as a mesh too, against the true surface")
    parser.add_argument("--out", type=Path, default=Path("out/spread"))
    parser.add_argument("--at-once", type=int, default=1, help="towns done side by side")
    parser.add_argument("--workers", type=int, default=2, help="processes of each run")
    parser.add_argument("--json", type=Path, help="file for the figures and errors, JSON lines")
    return parser.parse_args()


def done(seed: int, options: argparse.Namespace) -> Town:
    """One town, made, done and scored."""
    scene, run = options.out / f"{options.preset}-{seed}", options.out / f"{options.preset}-{seed}-run"
    truth = scene / "ground/truth"
    known = [] if options.focal == "unknown" else ["--camera", f"f={options.focal}"]
    if not (scene / "scene.json").is_file():
        called("town", scene, "--preset", options.preset, "--seed", seed)
    called(
        options.upto, "--scaffold", scene / "aerial", "--ground", scene / "ground", "--out", run, *known,
        "--workers", options.workers, "--preset", "cpu",
    )  # fmt: skip
    if options.mesh:
        called("mesh", run, "--workers", options.workers)
    surface = ["--truth-surface", truth / "depth"] if options.mesh else []
    called("evaluate", run, "--truth", truth, *surface)
    print(f"town {seed} done", file=sys.stderr, flush=True)
    return read_town(seed, run, truth)


def called(*words: object) -> None:
    """Run a command of skyanchor that must succeed; exit code 3 is a walk that was not placed, which counts too."""
    command = [sys.executable, "-m", "skyanchor.cli", *map(str, words)]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    if child.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command)}\n{child.stdout[-2000:]}{child.stderr[-2000:]}")


def read_town(seed: int, path: Path, truth: Path) -> Town:
    """The figures of a finished run, and its errors axis by axis."""
    run = open_run(path)
    true = true_poses(run, truth)
    names = [name for name in run.poses if name in true]
    sigmas = [run.sigmas[name] for name in names]
    errors = off([run.poses[name] for name in names], [true[name] for name in names])
    groups = tuple(read_group(run, group, true) for group in run.anchors.groups if group.accepted)
    surface = files.load_mapped(run.prepared.root / parts.SURFACE / parts.SURFACE_FILE, Surface)
    stated, radius = np.round(np.array(sigmas), DIGITS), round(radius_95_m(sigmas), DIGITS)
    return Town(seed, figures_of(run), errors, stated, radius, round(surface.gsd, DIGITS), groups)


def figures_of(run: Run) -> dict[str, float]:
    """What `evaluate` found of a run, with what it states and scored itself."""
    metrics, sigmas = run.metrics, list(run.sigmas.values())
    figures = {
        "anchor frames asked for": float(metrics.anchors.total),
        "anchor frames": float(metrics.anchors.registered),
        "anchor ATE, m": metrics.anchors.ate_m or np.nan,
        "frames asked for": float(metrics.trajectory.total),
        "frames": float(metrics.trajectory.registered),
        "trajectory ATE, m": metrics.trajectory.ate_m or np.nan,
        "stated sigma per axis, m": position_sigma_m(sigmas) if sigmas else np.nan,
    }
    if run.has(SCENE):
        scene = run.scene
        figures |= {
            "street before, dB": scene.before.ground_psnr,
            "street after, dB": scene.after.ground_psnr,
            "air before, dB": scene.before.aerial_psnr,
            "air after, dB": scene.after.aerial_psnr,
            "air gained, dB": scene.after.aerial_psnr - scene.before.aerial_psnr,
        }
    if metrics.surface is not None:
        figures |= {
            "mesh within 5 cm": metrics.surface.accuracy or np.nan,
            "surface found within 5 cm": metrics.surface.completeness or np.nan,
            "mesh off by, median, m": metrics.surface.median_m or np.nan,
        }
    return {name: round(value, DIGITS) for name, value in figures.items()}


def read_group(run: Run, group: LocalisedGroup, true: dict[str, Pose]) -> Group:
    """The errors of an accepted group, and what its sigma is made of."""
    poses = [pose for pose in group.poses if run.names[pose.frame] in true]
    errors = off([pose.cam_from_world for pose in poses], [true[run.names[pose.frame]] for pose in poses])
    sigmas = np.array([centre_sigma_m(pose.covariance) for pose in poses])
    formal, halves = round(group.figures.sigma_m, DIGITS), round(group.figures.halves_m, DIGITS)
    return Group(group.group.index, errors, np.round(sigmas, DIGITS), formal, halves)


def off(poses: list[Pose], true: list[Pose]) -> Floats:
    """(F, 3), by how much the centres are off, metres."""
    return np.round(rigid.centres_in_world(poses) - rigid.centres_in_world(true), DIGITS)


def figure_table(towns: list[Town]) -> list[str]:
    """Markdown: a figure per row, median, range, and the towns one by one."""
    head = ["figure", "median", "from", "to", *(str(town.seed) for town in towns)]
    rows = [head, ["---"] * len(head)]
    for name in towns[0].figures:
        values = [town.figures.get(name, np.nan) for town in towns]
        over = (np.nanmedian(values), np.nanmin(values), np.nanmax(values))
        rows.append([name, *(f"{value:.4g}" for value in (*over, *values))])
    return ["| " + " | ".join(row) + " |" for row in rows]


def sigma_table(towns: list[Town]) -> list[str]:
    """Markdown: the share of errors that a right sigma would have below itself, over all towns."""
    scaled = np.concatenate([np.abs(town.errors_m) / town.sigmas_m[:, None] for town in towns])
    within = np.concatenate([np.linalg.norm(town.errors_m, axis=1) <= town.radius_m for town in towns])
    each = [float(np.sqrt(((town.errors_m / town.sigmas_m[:, None]) ** 2).mean())) for town in towns]
    shares = ", ".join(f"{value:.2f}" for value in each)
    return [
        f"Per axis, {len(towns)} towns: {100 * (scaled <= 1).mean():.0f} % within one stated sigma (right: 68), "
        f"{100 * (scaled <= 2).mean():.0f} % within two (right: 95);",
        f"{100 * within.mean():.0f} % of the frames within the stated 95 % radius.",
        f"Root mean square of error over sigma, town by town: {shares} (right: 1).",
    ]


if __name__ == "__main__":
    main()
