"""The whole job against COLMAP's joint mapping of the same photos, in one run: seconds, memory, errors.

    python benchmarks/whole_job.py SCENE [--ground ground] [--work DIR] [--camera f=457] [--upto trajectory|update]
                                   [--preset cpu|gpu] [--before COMMIT_SRC] [--no-colmap] [--markdown]

SCENE holds aerial (images, sparse) and ground (images, and truth, which is read here only, to score). Each program runs
in a process of its own, one after the other, on a quiet machine if the ratio is to mean something; `--before` is the
src folder of another version, whose poses are timed in the same run. COLMAP gets the same photos without any poses:
SIFT, all pairs, joint incremental mapping, one camera per folder; a similarity then lays it on the aerial cameras.
The paper's figures are for 419 + 436 photos on an RTX PRO 6000; they are scaled by the number of photos.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pycolmap

from skyanchor import open_run
from skyanchor.evaluation.truth import read_truth
from skyanchor.geometry import rigid, similarity
from skyanchor.geometry.colmap import from_rigid3d
from skyanchor.run.memory import tree_bytes
from skyanchor.types import Floats, Pose

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
    """Frames with a pose of all."""
    error_m: float | None
    """Root mean square of the positions, metres."""
    steps: dict[str, float] = field(default_factory=dict)


def timed(command: list[str], log: Path, environment: dict[str, str]) -> tuple[float, float, int]:
    """(seconds, CPU seconds, most memory) of a command that must succeed."""
    before, start, peak, ended = os.times(), time.monotonic(), [0], threading.Event()
    with log.open("w") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)

        def watch() -> None:
            while not ended.wait(0.5):
                peak[0] = max(peak[0], tree_bytes(child.pid))

        watching = threading.Thread(target=watch)
        watching.start()
        code = child.wait()
        ended.set()
        watching.join()
    if code != 0:
        raise SystemExit(f"{' '.join(command)} failed, see {log}")
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.monotonic() - start, cpu, peak[0]


def rms(errors: Floats) -> float | None:
    """Root mean square of lengths; None for none."""
    return float(np.sqrt((errors**2).mean())) if len(errors) else None


def position_errors(poses: dict[str, Pose], true: dict[str, Pose]) -> Floats:
    """(N,), metres, of the frames that have both."""
    names = sorted(set(poses) & set(true))
    here = rigid.centres_in_world([poses[name] for name in names]).reshape(-1, 3)
    return np.linalg.norm(here - rigid.centres_in_world([true[name] for name in names]).reshape(-1, 3), axis=1)


# --- SkyAnchor ----------------------------------------------------------------------------------------------------


def ours(args: argparse.Namespace, work: Path, name: str, source: Path | None = None) -> Row:
    """The job by the command, from this version or from the src folder of another."""
    run = work / name.replace(" ", "-")
    shutil.rmtree(run, ignore_errors=True)
    command = [sys.executable, "-m", "skyanchor.cli", args.upto, "--preset", args.preset, "--out", str(run)]
    command += ["--scaffold", str(args.scene / "aerial"), "--ground", str(args.scene / args.ground / "images")]
    command += ["--camera", args.camera] if args.camera else []
    paths = [str(source)] if source else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])}
    spent = timed(command, work / f"{run.name}.log", environment)
    done = open_run(run)
    true = read_truth(args.scene / args.ground / "truth", done.scaffold.georef.offset)
    poses = done.poses
    frames = f"{len(poses)}/{len(true)}"
    return Row(name, *spent, frames, rms(position_errors(poses, true)), done.seconds)


# --- COLMAP -------------------------------------------------------------------------------------------------------


def colmap_main(scene: Path, ground: str, out: Path) -> None:
    """Joint mapping of flight and walk into `out`; seconds per step are left in steps.json."""
    images = out / "images"
    images.mkdir(parents=True)
    for folder, place in (("aerial", scene / "aerial" / "images"), ("ground", scene / ground / "images")):
        (images / folder).symlink_to(place.resolve())
    names = [f"{f}/{path.name}" for f in ("aerial", "ground") for path in sorted((images / f).iterdir())]
    steps: dict[str, float] = {}

    def step(name: str, since: float) -> float:
        steps[name] = time.monotonic() - since
        return time.monotonic()

    now = time.monotonic()
    pycolmap.extract_features(out / "db.db", images, image_names=names, camera_mode=pycolmap.CameraMode.PER_FOLDER)
    now = step("features", now)
    pycolmap.match_exhaustive(out / "db.db")
    now = step("matches of all pairs", now)
    pycolmap.incremental_mapping(out / "db.db", images, out / "sparse")
    step("mapping", now)
    (out / "steps.json").write_text(json.dumps(steps))


def colmap(args: argparse.Namespace, work: Path) -> Row:
    """COLMAP's joint mapping, scored after a similarity on the aerial cameras."""
    out = work / "colmap"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    command = [sys.executable, __file__, str(args.scene), "--ground", args.ground, "--colmap-into", str(out)]
    spent = timed(command, work / "colmap.log", dict(os.environ))
    steps = json.loads((out / "steps.json").read_text())
    models = [pycolmap.Reconstruction(str(folder)) for folder in sorted((out / "sparse").iterdir())]
    best = max(models, key=lambda model: model.num_reg_images())
    poses = {image.name: from_rigid3d(image.cam_from_world()) for image in best.images.values() if image.has_pose}
    flight = pycolmap.Reconstruction(str(sparse_of(args.scene / "aerial")))
    known = {f"aerial/{image.name}": from_rigid3d(image.cam_from_world()) for image in flight.images.values()}
    true = read_truth(args.scene / args.ground / "truth", np.zeros(3))
    walk = {name.removeprefix("ground/"): pose for name, pose in poses.items() if name.startswith("ground/")}
    shared = sorted(set(poses) & set(known))
    error = None
    if len(shared) >= 3 and walk:
        ends = [rigid.centres_in_world([held[name] for name in shared]) for held in (poses, known)]
        world_from_colmap = similarity.umeyama(*ends)
        names = sorted(set(walk) & set(true))
        here = world_from_colmap(rigid.centres_in_world([walk[name] for name in names]))
        error = rms(np.linalg.norm(here - rigid.centres_in_world([true[name] for name in names]), axis=1))
    name = "COLMAP, joint mapping" + (f" ({len(models)} models, the largest)" if len(models) > 1 else "")
    return Row(name, *spent, f"{len(walk)}/{len(true)}", error, steps)


def sparse_of(aerial: Path) -> Path:
    """Folder of the aerial model."""
    return next(path for path in (aerial / "sparse" / "0", aerial / "sparse") if list(path.glob("images.*")))


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", type=Path)
    parser.add_argument("--ground", default="ground")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--camera", default="")
    parser.add_argument("--upto", default="trajectory", choices=["trajectory", "update"])
    parser.add_argument("--preset", default="cpu")
    parser.add_argument("--before", type=Path)
    parser.add_argument("--no-colmap", action="store_true")
    parser.add_argument("--colmap-into", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.colmap_into:
        colmap_main(args.scene, args.ground, args.colmap_into)
        return
    work = args.work or Path(tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    rows = [ours(args, work, f"skyanchor {args.upto}")]
    rows += [] if args.no_colmap else [colmap(args, work)]
    rows += [ours(args, work, "skyanchor before", args.before)] if args.before else []
    unit = rows[-1] if args.no_colmap else rows[1]
    head = ["", "seconds", "CPU s", "ratio", "CPU ratio", "GB", "frames", "error m"]
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(line(row, unit)) + " |")
    photos = sum(len(list((args.scene / part / "images").iterdir())) for part in ("aerial", args.ground))
    print(f"\nThe paper's poses for {photos} photos, by their number: {PAPER_POSES_S * photos / PAPER_PHOTOS:.0f} s.")
    for row in rows:
        print(f"\n{row.name}: " + ", ".join(f"{step} {seconds:.0f} s" for step, seconds in row.steps.items()))


if __name__ == "__main__":
    main()
