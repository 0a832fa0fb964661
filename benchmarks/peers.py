"""Every way to place a walk that runs here, on one scene, scored alike: the paper's tables as Markdown.

    python benchmarks/peers.py SCENE [--ground ground] [--work DIR] [--run RUN]
                               [--ways extend,joint,global,single,chain]
                               [--matchers sift,lighter-glue,light-glue-aliked] [--guess] [--least-height M]
                               [--model NAME=PATH[,AERIAL_PREFIX,GROUND_PREFIX] ...] [--fps FPS] [--splats RUN]
                               [--most-s SECONDS] [--all-pairs 100] [--preset auto]

SCENE holds aerial (images, sparse) and ground (images, and truth, which is read here only, to score and, unless
--guess, for the street camera, which every program is given; so is the camera of the flight). Each program works in a
process of its own, one after the other: features and matches once per matcher, whose cost is added to every way that
uses them. The same command with the same --work goes on where it was stopped.

    extend    COLMAP registers the walk into the flight, whose poses are constant
    joint     COLMAP maps both together; global: GLOMAP does
    single    hloc's way: each frame for itself, by the aerial photos that share most matches, PnP
    chain     PnP from frame to frame from our first anchors, as On-the-fly NVS goes on

SIFT is COLMAP's, all pairs; others are ours, all pairs up to --all-pairs photos, else retrieved ones. --model adds what
another program made elsewhere (MASt3R-SfM, MP-SfM: a COLMAP model; MASt3R-SLAM, VGGT-SLAM: TUM format), with what it
puts before the names of either kind where they share them: mp=model,aerial/,ground/. --splats adds the table of
Gaussians of a run that `skyanchor ablate RUN --stages update` has measured. --least-height leaves out aerial photos
lower above the ground, as the paper removes linking images. Ours is run by the command with --preset, or read from
--run. An empty --matchers runs no other program.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pycolmap
from processes import FailedError, timed

from skyanchor import open_run
from skyanchor.backends.names import choice_named
from skyanchor.errors import InputError, SkyAnchorError
from skyanchor.evaluation import peer_tables, peers, peers_pnp
from skyanchor.evaluation.ablate import JSON, AblationRecord
from skyanchor.evaluation.foreign import ForeignConfig, Outcome, score_foreign
from skyanchor.evaluation.metrics import evaluate_run
from skyanchor.evaluation.peer_tables import Cost, PeerRow
from skyanchor.evaluation.split_model import write_aerial
from skyanchor.evaluation.truth import read_truth
from skyanchor.geometry.colmap import from_camera
from skyanchor.matching import AnySparse
from skyanchor.photos import natural_key
from skyanchor.run import records
from skyanchor.scaffold.colmap_files import find_model, read_model
from skyanchor.storage import files

NAMES = {key: label for key, (label, _) in peers.WAYS.items()} | {
    "single": "single frames, retrieval + PnP (hloc)",
    "chain": "PnP chain from our first anchors",
}
IN_FRAME = ("single", "chain")
"""Ways that leave the walk alone, in the aerial frame."""
PREFIXES = ForeignConfig(aerial_prefix=peers.AERIAL, ground_prefix=peers.GROUND)


def scene_of(args: argparse.Namespace) -> peers.PeerScene:
    """What every program is given."""
    truth = args.scene / args.ground / "truth"
    cameras = pycolmap.Reconstruction(str(find_truth(truth))).cameras
    camera = None if args.guess else from_camera(next(iter(cameras.values())))
    return peers.PeerScene(args.aerial, args.scene / args.ground / "images", camera)


def find_truth(truth: Path) -> Path:
    """Folder of the model itself."""
    return next(
        path for path in (truth, truth / "sparse", truth / "sparse/0", truth / "0") if list(path.glob("images.*"))
    )


# --- in a process of its own --------------------------------------------------------------------------------------


def child(args: argparse.Namespace) -> None:
    """Do the matches of a matcher, or one way on them."""
    pycolmap.logging.minloglevel = pycolmap.logging.ERROR.value
    scene, (matcher, way) = scene_of(args), args.one.split(":")
    work = args.work / matcher
    if way == "matches":
        shutil.rmtree(work, ignore_errors=True)
        peers.collect_photos(scene, work)
        if matcher == "sift":
            peers.match_sift(work)
        else:
            chosen = choice_named(AnySparse, matcher, "--matchers")
            photos = len(peers.names_in(work))
            peers.match_with(work, chosen.load(), photos <= args.all_pairs)
        return
    out = work / way
    shutil.rmtree(out, ignore_errors=True)
    if way == "single":
        peers_pnp.single_frames(scene, work, out)
    elif way == "chain":
        record = open_run(args.run).anchors_record
        first = peers_pnp.first_anchors(records.anchor_poses(record), record.names)
        peers_pnp.chain(scene, work, out, first)
    else:
        peers.WAYS[way][1](scene, work, out)


def spawned(args: argparse.Namespace, one: str) -> Cost:
    """The cost of one such process."""
    command = [sys.executable, __file__, str(args.scene), "--ground", args.ground, "--one", one]
    command += ["--work", str(args.work), "--aerial", str(args.aerial), "--run", str(args.run)]
    command += ["--all-pairs", str(args.all_pairs), *(["--guess"] if args.guess else [])]
    held = args.work / f"{one.replace(':', '-')}.json"
    if not held.is_file():
        files.save(held, timed(command, held.with_suffix(".log"), most_s=args.most_s))
    return files.load(held, Cost)


def added(a: Cost, b: Cost) -> Cost:
    """One after the other."""
    return Cost(a.seconds + b.seconds, a.cpu_s + b.cpu_s, max(a.peak_bytes, b.peak_bytes))


# --- rows ---------------------------------------------------------------------------------------------------------


def ours(args: argparse.Namespace) -> tuple[PeerRow, tuple[str, ...]]:
    """Our row and the frames of the anchor groups; the run is made where none is given."""
    cost = None
    if args.run is None:
        args.run = args.work / "ours"
        command = [sys.executable, "-m", "skyanchor.cli", "trajectory", "--preset", args.preset, "--out", str(args.run)]
        command += ["--scaffold", str(args.aerial), "--ground", str(args.scene / args.ground / "images")]
        camera = scene_of(args).camera
        command += [] if camera is None else ["--camera", ",".join([camera.model, *map(str, camera.params)])]
        try:
            cost = timed(command, args.work / "ours.log", dict(os.environ))
        except FailedError as error:  # nothing placed, which is shown as others' failures are
            cost = error.cost
    run = open_run(args.run)
    if cost is None and run.seconds:
        peak = max((peak.bytes for peak in run.memory.values()), default=0)
        cost = Cost(sum(run.seconds.values()), float("nan"), peak)
    metrics = evaluate_run(run, args.scene / args.ground / "truth")
    row = peer_tables.own_row(metrics.anchors, metrics.trajectory, cost)
    return row, records.anchor_names(run.anchors_record)


def scored(
    args: argparse.Namespace,
    name: str,
    model: Path,
    config: ForeignConfig,
    asked: tuple[str, ...],
    in_frame: bool = False,
) -> PeerRow:
    """The row of what a program left; `in_frame` says that its poses are in the aerial frame, the flight left out."""
    truth = args.scene / args.ground / "truth"
    walk = score_foreign(model, args.aerial, truth, config)
    anchors = score_foreign(model, args.aerial, truth, replace(config, only=asked))
    best = next(score for score in anchors.models if score.path == walk.best.path)
    row = peer_tables.peer_row(name, best, walk.best, len(walk.models), None)
    if in_frame and walk.best.aerial == 0:
        verdict = Outcome.OK if walk.best.outcome is Outcome.CANNOT_ALIGN else walk.best.outcome
        row = replace(row, verdict=verdict.value, anchors=best.as_it_came, trajectory=walk.best.as_it_came)
    return row


def rivals(args: argparse.Namespace, asked: tuple[str, ...]) -> list[PeerRow]:
    """Every way with every matcher."""
    rows: list[PeerRow] = []
    for matcher in filter(None, args.matchers.split(",")):
        try:
            matches = spawned(args, f"{matcher}:matches")
        except FailedError as error:
            rows.append(peer_tables.failed_row(f"{matcher}: all", f"matches: {error}", error.cost))
            continue
        for way in args.ways.split(","):
            name = f"{NAMES[way]}, {matcher}"
            try:
                cost = added(matches, spawned(args, f"{matcher}:{way}"))
            except FailedError as error:
                rows.append(peer_tables.failed_row(name, f"failed: {error}", added(matches, error.cost)))
                continue
            try:
                row = scored(args, name, args.work / matcher / way / "sparse", PREFIXES, asked, way in IN_FRAME)
            except InputError:
                row = peer_tables.failed_row(name, "nothing came out")
            rows.append(replace(row, cost=cost))
            print(rows[-1], flush=True)
    return rows


def given_models(args: argparse.Namespace, asked: tuple[str, ...]) -> list[PeerRow]:
    """Rows of what was made elsewhere; one that cannot be read says why, and the others go on."""
    rows: list[PeerRow] = []
    for given in map(peers.given_model, args.model):
        config = ForeignConfig(aerial_prefix=given.aerial_prefix, ground_prefix=given.ground_prefix, fps=args.fps)
        try:
            rows.append(scored(args, given.name, given.path, config, asked))
        except InputError as error:
            rows.append(peer_tables.failed_row(given.name, f"failed: {error}"))
    return rows


def higher(args: argparse.Namespace) -> Path:
    """The aerial model without its low photos."""
    out = args.work / "aerial"
    shutil.rmtree(out, ignore_errors=True)
    model = read_model(find_model(args.scene / "aerial"))
    names = sorted((image.name for image in model.images), key=natural_key)
    left = write_aerial(out, model, names, args.scene / "aerial" / "images", args.least_height)
    print(f"{len(left)} of {len(names)} aerial photos are at least {args.least_height:g} m above the ground")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", type=Path)
    parser.add_argument("--ground", default="ground")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--ways", default="extend,joint,global,single,chain")
    parser.add_argument("--matchers", default="sift,lighter-glue")
    parser.add_argument("--guess", action="store_true")
    parser.add_argument("--least-height", type=float)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--fps", type=float)
    parser.add_argument("--splats", type=Path)
    parser.add_argument("--most-s", type=float)
    parser.add_argument("--all-pairs", type=int, default=100, help="photos up to which our matchers see all pairs")
    parser.add_argument("--preset", default="auto", choices=("auto", "cpu", "gpu", "paper"), help="of ours")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--aerial", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.aerial = args.aerial or args.scene / "aerial"
    if args.one:
        child(args)
        return
    args.work = args.work or Path(tempfile.mkdtemp())
    args.work.mkdir(parents=True, exist_ok=True)
    args.aerial = args.aerial if args.least_height is None else higher(args)
    mine, asked = ours(args)
    print(mine, flush=True)
    rows = [*rivals(args, asked), *given_models(args, asked), mine]
    true = read_truth(args.scene / args.ground / "truth", np.zeros(3))
    print(f"\n## {args.scene.name}: {len(true)} street frames\n")
    print("\n".join(peer_tables.pose_tables(rows)))
    if args.splats is not None:
        print("\n".join(peer_tables.splat_table(files.load(args.splats / JSON, AblationRecord).rows)))


if __name__ == "__main__":
    try:
        main()
    except SkyAnchorError as known:
        sys.exit(str(known))
