"""The demo as a stranger meets it, in fresh clones: set-up and job timed apart, and what came out.

    python benchmarks/demo.py [--times 2] [--work out/demo] [--json FILE]

A clone holds what was committed; its environment is made as `make demo` makes it, from whatever package index this
machine has. Kernels are compiled anew in every clone, within the job. Finished clones are not made again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from pathlib import Path

from kept import Outcome, made_here, write_lines
from processes import timed
from spread import figures_of

from skyanchor import open_run
from skyanchor.storage import codec, files

ROOT = Path(__file__).parents[1]
STEPS = {"set-up, s": ".venv/.installed", "town, s": "out/mini/scene.json", "job, s": "demo"}
"""Targets of the Makefile, one after the other."""


def main() -> None:
    options = arguments()
    found = [done(options.work / str(k + 1)) for k in range(options.times)]
    if options.json:
        write_lines(options.json, made_here(), found)
    for one in found:
        print(one.of, ", ".join(f"{name} {value:.4g}" for name, value in one.figures.items()))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path("out/demo"))
    parser.add_argument("--json", type=Path, help="file for the figures, JSON lines")
    return parser.parse_args()


def done(clone: Path) -> Outcome:
    """One clone: what each step took, and what came out."""
    kept = clone / "out/demo.json"
    if not kept.is_file():
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        theirs = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        seconds = {
            name: timed(["make", "-C", str(clone), target], clone.with_suffix(f".{number}.log"), theirs).seconds
            for number, (name, target) in enumerate(STEPS.items(), start=1)
        }
        timed_figures = {name: round(value, 1) for name, value in seconds.items()}
        figures = timed_figures | figures_of(open_run(clone / "out/mini-run"))
        files.write_text(kept, codec.dumps(Outcome(f"clone {clone.name}", figures)))
    return codec.loads(Outcome, kept.read_text())


if __name__ == "__main__":
    main()
