"""Things that go wrong, tried through the command line: one line per case, and whether it ended as promised.

    python benchmarks/faults.py [FAMILY ...] [--only TEXT] [--shared DIR] [--keep] [--jobs 1]

Families are tuples of cases in the files `fault_*.py`; without any, all of them run, which takes hours. Cases stand
on a street of paper and a run of it, which are made below `--shared` and found again there. `fault_frame.py` says what
a case is. Those that fill a disk mount a small one and need root; without it they say so and count as not tried.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import fault_disks
import fault_ends
import fault_inputs
import fault_odd
import fault_outputs
import fault_patches
import fault_races
from fault_frame import Bench, Case, NotTriedError

FAMILIES: dict[str, tuple[Case, ...]] = {
    "inputs": fault_inputs.CASES,
    "odd": fault_odd.CASES,
    "outputs": fault_outputs.CASES,
    "patches": fault_patches.CASES,
    "kills": fault_ends.KILLS,
    "stops": fault_ends.STOPS,
    "firsts": fault_ends.FIRSTS,
    "disks": fault_disks.CASES,
    "races": fault_races.CASES,
}


def tried(family: str, number: int, shared: Path, keep: bool) -> tuple[str, str]:
    """(what is not as promised, empty when all is; the line that says so) of one case of a family."""
    case = FAMILIES[family][number]
    folder = Path(tempfile.mkdtemp(prefix="fault-"))
    start = time.monotonic()
    try:
        problem = case.work(Bench(folder, shared))
        word = problem or "as promised"
    except NotTriedError as why:
        problem, word = "", f"not tried: {why}"
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
    return problem, f"{family:<8} {case.name:<58} {time.monotonic() - start:6.1f} s  {word}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("families", nargs="*", help="all without any")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--shared", type=Path, help="where scene and run are made and found again")
    parser.add_argument("--keep", action="store_true", help="leave the folders of the cases")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time")
    options = parser.parse_args()
    shared = (options.shared or Path(tempfile.mkdtemp(prefix="faults-"))).resolve()
    shared.mkdir(parents=True, exist_ok=True)
    chosen = [
        (family, number)
        for family in options.families or FAMILIES
        for number, case in enumerate(FAMILIES[family])
        if options.only in case.name
    ]
    if options.jobs > 1:  # made by one of them, found by the others
        Bench(shared, shared).whole_run()
    failed = 0
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(tried, *case, shared, options.keep) for case in chosen]):
            problem, line = done.result()
            failed += bool(problem)
            print(line, flush=True)
    print(f"{len(chosen)} cases, {failed} not as promised")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
