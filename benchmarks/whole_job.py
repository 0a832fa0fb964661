"""The whole job against COLMAP's joint mapping of the same photos, in one run: seconds, memory, errors.

    python benchmarks/whole_job.py SCENE [--ground ground] [--work DIR] [--camera f=457] [--upto trajectory|update]
                                   [--preset cpu|gpu] [--prepared] [--before COMMIT_SRC] [--no-colmap] [--go-on]
                                   [--json FILE]

SCENE holds aerial (images, sparse) and ground (images, and truth, which is read here only, to score). Each program runs
in a process of its own, one after the other, on a quiet machine if the ratio is to mean something; `--before` is the
src folder of another version, whose poses are timed in the same run. `--prepared` does it in two commands, `prepare`
with the aerial splats and then the job on what is there, as every later walk would. COLMAP gets the same photos without
any poses: SIFT, all pairs, joint incremental mapping, one camera per folder; a similarity then lays it on the aerial
cameras.
The paper's figures are for 419 + 436 photos on an RTX PRO 6000; they are scaled by the number of photos.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from kept import Outcome, made_here, write_lines
from processes import timed

from skyanchor import open_run
from skyanchor.evaluation import peers
from skyanchor.evaluation.foreign import ForeignConfig, score_foreign
from skyanchor.evaluation.peer_tables import Cost
from skyanchor.evaluation.peers import PeerScene
from skyanchor.evaluation.truth import read_truth
from skyanchor.events import SCENE
from skyanchor.geometry import rigid
from skyanchor.run.memory import Peak, peaks
from skyanchor.run.results import Run
from skyanchor.run.runtime import runtime
from skyanchor.types import Floats, Pose

COLMAP = "COLMAP, joint mapping"
PREPARED = "prepared"
"""Folder of the flight that `prepare` made."""
PAPER_POSES_S, PAPER_PHOTOS = 78.0 * 60.0, 419 + 436
"""Poses of the paper's largest scene."""


@dataclass(frozen=True)
class Row:
    """What one program came to."""

    name: str
    seconds: float
    cpu_s: float
    peak_bytes: int
    found: str
    """Frames with a pose of all; empty where none were asked for."""
    error_m: float | None
    """Root mean square of the positions, metres."""
    steps: dict[str, float] = field(default_factory=dict)
    within: dict[str, dict[str, float]] = field(default_factory=dict)
    """Seconds per step of a stage, all its processes together."""
    memory: dict[str, Peak] = field(default_factory=dict)
    """Most memory at a time per stage."""
    scene: dict[str, float] = field(default_factory=dict)
    """What the update scored, dB."""

    def kept(self, scene: str) -> Outcome:
        """As it is kept, with the name of the scene."""
        located, asked = self.found.split("/") if self.found else ("nan", "nan")
        error = float("nan") if self.error_m is None else self.error_m
        figures = {"seconds": self.seconds, "CPU s": self.cpu_s, "GB": self.peak_bytes / 1e9, "ATE, m": error}
        counts = {"frames": float(located), "frames asked for": float(asked)}
        return Outcome(
            f"{scene}: {self.name}", {name: round(v, 5) for name, v in (figures | counts | self.scene).items()}
        )


def rms(errors: Floats) -> float | None:
    """Root mean square of lengths; None for none."""
    return float(np.sqrt((errors**2).mean())) if len(errors) else None


def position_errors(poses: dict[str, Pose], true: dict[str, Pose]) -> Floats:
    """(N,), metres, of the frames that have both."""
    names = sorted(set(poses) & set(true))
    here = rigid.centres_in_world([poses[name] for name in names]).reshape(-1, 3)
    return np.linalg.norm(here - rigid.centres_in_world([true[name] for name in names]).reshape(-1, 3), axis=1)


# --- SkyAnchor ----------------------------------------------------------------------------------------------------


def prepared(args: argparse.Namespace, work: Path) -> Row:
    """What the flight costs once, by `prepare`."""
    out = work / PREPARED
    if not args.go_on:
        shutil.rmtree(out, ignore_errors=True)
    words = ["prepare", str(args.scene / "aerial"), "--ground", str(args.scene / args.ground / "images")]
    spent = timed(command(args, out, words), work / f"{PREPARED}.log", dict(os.environ))
    return Row("skyanchor prepare", spent.seconds, spent.cpu_s, spent.peak_bytes, "", None, memory=peaks(out))


def command(args: argparse.Namespace, out: Path, words: list[str]) -> list[str]:
    """A command of skyanchor with the camera and the preset that were asked for."""
    camera = ["--camera", args.camera] if args.camera else []
    return [sys.executable, "-m", "skyanchor.cli", *words, "--out", str(out), "--preset", args.preset, *camera]


def ours(args: argparse.Namespace, work: Path, name: str, source: Path | None = None) -> Row:
    """The job by the command, from this version or from the src folder of another."""
    run = work / name.replace(" ", "-")
    if not args.go_on:
        shutil.rmtree(run, ignore_errors=True)
    scaffold = work / PREPARED if args.prepared and source is None else args.scene / "aerial"
    words = [args.upto, "--scaffold", str(scaffold), "--ground", str(args.scene / args.ground / "images")]
    paths = [str(source)] if source else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])}
    spent = timed(command(args, run, words), work / f"{run.name}.log", environment)
    done = open_run(run)
    true = read_truth(args.scene / args.ground / "truth", done.scaffold.georef.offset)
    poses = done.poses
    frames = f"{len(poses)}/{len(true)}"
    row = row_of(name, spent, frames, rms(position_errors(poses, true)), done.seconds)
    within = {stage.stage: {step.name: step.seconds for step in stage.steps} for stage in runtime(done).stages}
    row = replace(row, within=within, memory=done.memory)
    return replace(row, scene=scored(done)) if done.has(SCENE) else row


def scored(done: Run) -> dict[str, float]:
    """Likeness of the test views before and after the update."""
    before, after = done.scene.before, done.scene.after
    return {
        "street before, dB": before.ground_psnr,
        "street after, dB": after.ground_psnr,
        "air before, dB": before.aerial_psnr,
        "air after, dB": after.aerial_psnr,
    }


def row_of(name: str, spent: Cost, found: str, error_m: float | None, steps: dict[str, float]) -> Row:
    """A row with what the program spent."""
    return Row(name, spent.seconds, spent.cpu_s, spent.peak_bytes, found, error_m, steps)


# --- COLMAP -------------------------------------------------------------------------------------------------------


def colmap_main(scene: Path, ground: str, out: Path) -> None:
    """Joint mapping of flight and walk into `out`; seconds per step are left in steps.json."""
    given = PeerScene(scene / "aerial", scene / ground / "images", cameras_known=False)
    steps: dict[str, float] = {}
    for name, work in (
        ("features and matches of all pairs", lambda: (peers.collect_photos(given, out), peers.match_sift(out))),
        ("mapping", lambda: peers.joint(given, out, out / "joint")),
    ):
        start = time.monotonic()
        work()
        steps[name] = time.monotonic() - start
    (out / "steps.json").write_text(json.dumps(steps))


def colmap(args: argparse.Namespace, work: Path) -> Row:
    """COLMAP's joint mapping, scored after a similarity on the aerial cameras."""
    out = work / "colmap"
    shutil.rmtree(out, ignore_errors=True)
    words = [sys.executable, __file__, str(args.scene), "--ground", args.ground, "--colmap-into", str(out)]
    spent = timed(words, work / "colmap.log", dict(os.environ))
    steps = json.loads((out / "steps.json").read_text())
    config = ForeignConfig(aerial_prefix=peers.AERIAL, ground_prefix=peers.GROUND)
    found = score_foreign(out / "joint/sparse", args.scene / "aerial", args.scene / args.ground / "truth", config)
    walk = found.best.on_aerial
    name = COLMAP + (f" ({len(found.models)} models, the best)" if len(found.models) > 1 else "")
    return row_of(name, spent, f"{walk.registered}/{walk.total}", walk.ate_m, steps)


# --- tables -------------------------------------------------------------------------------------------------------


def line(row: Row, unit: Row) -> list[str]:
    """One row of the table; ratios are to `unit`."""
    error = "-" if row.error_m is None else f"{row.error_m:.3f}"
    figures = [
        f"{row.seconds:.0f}",
        f"{row.cpu_s:.0f}",
        f"{row.seconds / unit.seconds:.2f}",
        f"{row.cpu_s / unit.cpu_s:.2f}",
    ]
    return [row.name, *figures, f"{row.peak_bytes / 1e9:.1f}", row.found, error]


def gigabytes(peak: Peak) -> str:
    """Most memory in words."""
    return f"{peak.bytes / 1e9:.1f} GB" + (f", {peak.gpu_bytes / 1e9:.1f} GB on the GPU" if peak.gpu_bytes else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", type=Path)
    parser.add_argument("--ground", default="ground")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--camera", default="")
    parser.add_argument("--upto", default="trajectory", choices=["trajectory", "update"])
    parser.add_argument("--preset", default="cpu")
    parser.add_argument("--prepared", action="store_true", help="the flight by `prepare` first, then the walk on it")
    parser.add_argument("--before", type=Path)
    parser.add_argument("--no-colmap", action="store_true")
    parser.add_argument("--go-on", action="store_true", help="with a run in --work that was interrupted")
    parser.add_argument("--json", type=Path, help="file for the figures, JSON lines")
    parser.add_argument("--colmap-into", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.colmap_into:
        colmap_main(args.scene, args.ground, args.colmap_into)
        return
    work = args.work or Path(tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    rows = [prepared(args, work)] if args.prepared else []
    rows += [ours(args, work, f"skyanchor {args.upto}")]
    rows += [] if args.no_colmap else [colmap(args, work)]
    rows += [ours(args, work, "skyanchor before", args.before)] if args.before else []
    if args.json:
        write_lines(args.json, made_here(), [row.kept(args.scene.name) for row in rows])
    unit = next((row for row in rows if row.name.startswith(COLMAP)), rows[-1])
    head = ["", "seconds", "CPU s", "ratio", "CPU ratio", "GB", "frames", "error m"]
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(line(row, unit)) + " |")
    photos = sum(len(list((args.scene / part / "images").iterdir())) for part in ("aerial", args.ground))
    print(f"\nThe paper's poses for {photos} photos, by their number: {PAPER_POSES_S * photos / PAPER_PHOTOS:.0f} s.")
    for row in rows:
        print(f"\n{row.name}: " + ", ".join(f"{step} {seconds:.0f} s" for step, seconds in row.steps.items()))
        for stage, steps in row.within.items():
            print(f"  {stage}: " + ", ".join(f"{step} {seconds:.1f} s" for step, seconds in steps.items()))
        for stage, peak in row.memory.items():
            print(f"  {stage}: {gigabytes(peak)}")
            for step, part in peak.steps.items():
                print(f"    {step}: {gigabytes(part)}")


if __name__ == "__main__":
    main()
