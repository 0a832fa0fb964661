"""Poses on a scene that has no seeds: its walk begun at one frame and at others, so that each run takes other anchors.

    python benchmarks/starts.py SCENE [--grounds ground ground2] [--starts 0 2 4] [--upto trajectory|update]
                                [--preset cpu] [--out out/starts] [--at-once 1] [--workers 2] [--json FILE]
                                [--more anchors.refine.last:none]

SCENE holds aerial and, for every walk, images and truth, which is read by `evaluate` and here, only to score. Nothing
is told of the camera. The flight is prepared by the first; what is there already is not done again. `--more` are words
that every run is given besides, for an --out of its own.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
from kept import Outcome, made_here, write_lines
from spread import called, figures_of

from skyanchor import open_run
from skyanchor.events import SCAFFOLD
from skyanchor.sequence.loading import find_photos
from skyanchor.storage import files


def main() -> None:
    options = arguments()
    first, *others = product(options.grounds, options.starts)
    found = [done(*first, options.scene / "aerial", options)]
    scaffold = run_of(*first, options) / SCAFFOLD
    with ThreadPoolExecutor(options.at_once) as pool:
        found += pool.map(lambda one: done(*one, scaffold, options), others)
    if options.json:
        write_lines(options.json, made_here(), found)
    for name in found[0].figures:
        values = [one.figures[name] for one in found]
        each = ", ".join(f"{value:.4g}" for value in values)
        print(f"{name}: {np.nanmedian(values):.4g} ({np.nanmin(values):.4g} to {np.nanmax(values):.4g}): {each}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", type=Path)
    parser.add_argument("--grounds", nargs="+", default=["ground"], help="folders of walks")
    parser.add_argument("--starts", type=int, nargs="+", default=[0, 2, 4], help="frames left out before the first")
    parser.add_argument("--upto", choices=("trajectory", "update"), default="trajectory")
    parser.add_argument("--preset", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("out/starts"))
    parser.add_argument("--at-once", type=int, default=1, help="walks done side by side")
    parser.add_argument("--workers", type=int, default=2, help="processes of each run")
    parser.add_argument("--more", nargs="+", default=[], help="further words of the command")
    parser.add_argument("--json", type=Path, help="file for the figures, JSON lines")
    return parser.parse_args()


def run_of(ground: str, start: int, options: argparse.Namespace) -> Path:
    """Its folder."""
    return options.out / f"{options.scene.name}-{ground}-{start}-run"


def done(ground: str, start: int, scaffold: Path, options: argparse.Namespace) -> Outcome:
    """The walk without its first frames, located and scored."""
    run = run_of(ground, start, options)
    walk = run.with_name(run.name.removesuffix("-run"))
    for photo in find_photos(options.scene / ground)[1][start:]:
        files.link(photo, walk / "images" / photo.name)
    called(
        options.upto, "--scaffold", scaffold, "--ground", walk, "--out", run,
        "--workers", options.workers, "--preset", options.preset, *options.more,
    )  # fmt: skip
    called("evaluate", run, "--truth", options.scene / ground / "truth")
    print(f"{walk.name} done", file=sys.stderr, flush=True)
    return Outcome(f"{ground} from frame {start}", figures_of(open_run(run)))


if __name__ == "__main__":
    main()
