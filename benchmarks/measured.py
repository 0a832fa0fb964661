"""README's table of figures, from results that are kept beside this script, and each of these made again.

    python benchmarks/measured.py table [--check]
    python benchmarks/measured.py run NAME [--scenes DIR] [--out out/measured] [--at-once 1] [--workers 2]
    python benchmarks/measured.py keep NAME FILE ... [--commit COMMIT]

`table` writes what stands between marks in README.md, the table and the figures of its first screen; with `--check` it
only says whether that is what the results say. `run` makes a result: NAME is one of those in the table, DIR holds the
scenes mini and yard; towns are built. `keep` takes in what the commands of `run` left elsewhere.

Every figure is a median with the lowest and the highest of its draws: towns by their seeds, a scene without seeds by
the frame its walk begins with, a GPU by repetition. results/NAME.jsonl holds, line by line, what it was made with and
then every draw.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from kept import Made, Outcome, made_here, plain_command, read_lines, write_lines
from spread import Town

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
BEGIN, END = "<!-- measured: benchmarks/measured.py table -->", "<!-- measured: end -->"
PHRASE = re.compile(r"(<!-- measured: (\w+) -->)(.*?)(<!-- end -->)")
"""What stands in running text."""
TOWNS = [str(seed) for seed in range(32, 56)]
"""Seeds that no setting was chosen on: 31 and those below were in sight when one or another was."""


@dataclass(frozen=True, eq=False)
class Result:
    """What is kept of one benchmark."""

    name: str
    made: Made
    draws: list[Outcome]
    towns: list[Town]
    """The same with errors frame by frame, where the benchmark is that of towns."""

    def values(self, figure: str, of: str = "") -> list[float]:
        """A figure of all draws whose name holds `of`."""
        return [one.figures[figure] for one in self.draws if of in one.of and figure in one.figures]


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    result: str
    """Its name."""
    what: str
    """With {draws} for their number and {seeds} for those of towns."""
    figure: Callable[[Result], str]


def main() -> None:
    options = arguments()
    if options.verb == "table":
        told = written(check=options.check)
    elif options.verb == "run":
        told = run(options)
    else:
        told = kept(options.name, options.files, options.commit)
    print(told)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("table", "run", "keep"))
    parser.add_argument("name", nargs="?", help="of the result")
    parser.add_argument("files", nargs="*", type=Path, help="results to keep")
    parser.add_argument("--check", action="store_true", help="end with 1 where README says something else")
    parser.add_argument("--scenes", type=Path, default=Path("scenes"), help="folder with mini and yard")
    parser.add_argument("--out", type=Path, default=Path("out/measured"), help="where runs are made")
    parser.add_argument("--at-once", default="1", help="draws made side by side")
    parser.add_argument("--workers", default="2", help="processes of each")
    parser.add_argument("--commit", default="", help="of results whose machine had no repository")
    options = parser.parse_args()
    if options.verb != "table" and options.name not in (*COMMANDS, WRONG):
        parser.error(f"{options.verb} what? Name one of {', '.join((*COMMANDS, WRONG))}.")
    return options


# --- making results -----------------------------------------------------------------------------------------------


def of_towns(options: argparse.Namespace) -> list[list[str]]:
    return [["spread.py", *TOWNS, "--upto", "trajectory", *beside(options, "towns")]]


def of_updates(options: argparse.Namespace) -> list[list[str]]:
    return [["spread.py", *TOWNS[:8], "--mesh", *beside(options, "towns")]]


def of_mesh(options: argparse.Namespace) -> list[list[str]]:
    return [["starts.py", str(options.scenes / "mini"), "--starts", *"012345", *beside(options, "starts")]]


def of_yard(options: argparse.Namespace) -> list[list[str]]:
    walks = ["--grounds", "ground", "ground2", "--starts", "0", "3"]
    return [["starts.py", str(options.scenes / "yard"), *walks, *beside(options, "starts")]]


def beside(options: argparse.Namespace, folder: str) -> list[str]:
    """How many at once, and where."""
    return ["--at-once", options.at_once, "--workers", options.workers, "--out", str(options.out / folder)]


def of_colmap(options: argparse.Namespace) -> list[list[str]]:
    """Timed: on a quiet machine, after `towns`."""
    towns = [options.out / "towns" / f"mini-{seed}" for seed in TOWNS[:3]]
    work = ["--work", str(options.out / "colmap")]
    return [
        ["whole_job.py", str(options.scenes / "mini"), *work],
        *(["whole_job.py", str(town), "--camera", "f=343", *work] for town in towns),
    ]


def of_gpu(options: argparse.Namespace) -> list[list[str]]:
    job = ["whole_job.py", str(options.scenes / "yard"), "--upto", "update", "--preset", "gpu", "--no-colmap"]
    return [[*job, "--work", str(options.out / f"gpu-{k}")] for k in range(3)]


def of_demo(options: argparse.Namespace) -> list[list[str]]:
    """Timed, and from the last commit."""
    return [["demo.py", "--times", "3", "--work", str(options.out / "demo")]]


COMMANDS: dict[str, Callable[[argparse.Namespace], list[list[str]]]] = {
    "towns": of_towns,
    "mesh": of_mesh,
    "yard": of_yard,
    "colmap": of_colmap,
    "updates": of_updates,
    "gpu": of_gpu,
    "demo": of_demo,
}
WRONG = "wrong"
"""The result of walks that do not belong, whose benchmark keeps lines of its own."""
BELONG = ("own", "reversed")
"""Kinds of pairings that do."""
KINDS = ["foreign=3", *(f"{kind}=1" for kind in ("twin", "street", "mirrored", "upside-down", "half", "woven"))]


def run(options: argparse.Namespace) -> str:
    """Make a result by its commands, and keep it."""
    here, left = Path(__file__).parent, []
    if options.name == WRONG:
        work = options.out / WRONG
        words = ["--work", str(work), "--spread", str(options.out / "towns"), "--towns", *TOWNS, "--more", "1"]
        words += ["--kinds", *KINDS, "--jobs", options.at_once]
        subprocess.run([sys.executable, str(here / "wrong_walks.py"), *words], check=True)
        return kept(WRONG, [work / "groups.jsonl"], "")
    for k, words in enumerate(COMMANDS[options.name](options)):
        left.append(options.out / f"{options.name}-{k}.jsonl")
        left[-1].parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, str(here / words[0]), *words[1:], "--json", str(left[-1])], check=True)
    return kept(options.name, left, "")


def kept(name: str, found: Sequence[Path], commit: str) -> str:
    """Take results in, one after the other."""
    if name == WRONG:
        made, records = made_here(), list(map(of_pairing, pairings_in(found)))
    else:
        kind = Town if is_of_towns(name) else Outcome
        read = [read_lines(path, kind) for path in found]
        made, records = read[0][0], [record for _, those in read for record in those]
        made = replace(
            made,
            command=joined(plain_command(one.command.split()[1:]) for one, _ in read),
            commit=joined(one.commit for one, _ in read),
            machine=joined(one.machine for one, _ in read),
        )
    path = RESULTS / f"{name}.jsonl"
    write_lines(path, replace(made, commit=commit or made.commit), records)
    return f"{path}: {len(records)} draws"


def joined(words: Iterable[str]) -> str:
    """Each once."""
    return "; ".join(dict.fromkeys(words))


def is_of_towns(name: str) -> bool:
    """Whether the result comes from `spread.py`."""
    return name in ("towns", "updates")


def pairings_in(found: Sequence[Path]) -> list[list[dict[str, object]]]:
    """Lines of `wrong_walks.py`, by pairing."""
    lines = [json.loads(line) for path in found for line in path.read_text().splitlines()]
    by_name: dict[str, list[dict[str, object]]] = {}
    for line in lines:
        by_name.setdefault(line["pairing"], []).append(line)
    return [by_name[name] for name in sorted(by_name)]


def of_pairing(lines: list[dict[str, object]]) -> Outcome:
    """Groups of one walk on one scaffold: how many, accepted, accepted and wrong, and with a true place there."""
    accepted, wrong = (float(sum(bool(line[key]) for line in lines)) for key in ("accepted", "wrong"))
    belong = float(sum(bool(line["belong"]) for line in lines))
    figures = {"groups": float(len(lines)), "accepted": accepted, "wrong": wrong, "belong": belong}
    return Outcome(str(lines[0]["pairing"]), figures)


# --- the table ----------------------------------------------------------------------------------------------------


def over(values: Sequence[float], digits: int, unit: str = "") -> str:
    """The median with the lowest and the highest; one value alone, or one that repeats, is said to be that."""
    told = [f"{value:.{digits}f}" for value in (np.median(values), min(values), max(values))]
    if len(values) == 1 or min(values) == max(values):
        return f"{told[0]}{unit} ({'once' if len(values) == 1 else 'each time'})"
    return f"{told[0]}{unit} ({told[1]} to {told[2]})"


def share(found: Sequence[float], asked: Sequence[float]) -> str:
    """How many of all."""
    return f"{sum(found):.0f} of {sum(asked):.0f}"


def poses_of(result: Result) -> str:
    """Frames and errors, anchors first."""
    anchors = share(result.values("anchor frames"), result.values("anchor frames asked for"))
    frames = share(result.values("frames"), result.values("frames asked for"))
    anchor_m, frame_m = (over(result.values(name), 3, " m") for name in ("anchor ATE, m", "trajectory ATE, m"))
    return f"anchors {anchors} frames, ATE {anchor_m}; walk {frames} frames, ATE **{frame_m}**"


def sigmas_of(result: Result) -> str:
    """Whether what is stated of the poses holds, per axis and as a radius."""
    below = [float((np.abs(town.errors_m) < town.sigmas_m[:, None]).mean()) for town in result.towns]
    within = [float((np.linalg.norm(town.errors_m, axis=1) < town.radius_m).mean()) for town in result.towns]
    ratio = [float(np.sqrt(((town.errors_m / town.sigmas_m[:, None]) ** 2).mean())) for town in result.towns]
    shares = [f"{100 * np.mean(values):.0f} %" for values in (below, within)]
    return (
        f"{shares[0]} of the errors along an axis below the stated sigma (right: 68), {shares[1]} of the frames within "
        f"the stated radius (right: 95); error over sigma {over(ratio, 2)}"
    )


def beside_colmap(result: Result) -> str:
    """Seconds and errors of both, over the same scenes, some of them twice."""
    ours, theirs = (
        f"{over(result.values('seconds', of), 0, ' s')}, "
        f"{share(result.values('frames', of), result.values('frames asked for', of))} frames"
        for of in ("skyanchor", "COLMAP")
    )
    errors = result.values("ATE, m", "COLMAP")
    aligned = [error for error in errors if np.isfinite(error)]
    off = f", ATE after a similarity {over(aligned, 3, ' m')}" if aligned else ""
    apart = f"; in {len(errors) - len(aligned)} of {len(errors)} runs its street and flight stay apart"
    ate = over(result.values("ATE, m", "skyanchor"), 3, " m")
    return f"{ours}, ATE {ate}; COLMAP {theirs}{off}{apart if len(aligned) < len(errors) else ''}"


def update_of(result: Result) -> str:
    """Likeness before and after."""
    before, after = (over(result.values(f"street {when}, dB"), 1, " dB") for when in ("before", "after"))
    gained = over(result.values("air gained, dB"), 2, " dB")
    return f"street {before} -> **{after}**; air {gained} of {over(result.values('air before, dB'), 1, ' dB')}"


def mesh_of(result: Result) -> str:
    """The mesh against the true surface."""
    near, there = ([100 * v for v in result.values(name)] for name in ("mesh within 5 cm", "surface found within 5 cm"))
    off = over([100 * value for value in result.values("mesh off by, median, m")], 1, " cm")
    found = over(there, 0, " %")
    return f"{over(near, 0, ' %')} of it within 5 cm of the true surface, median {off}; {found} of that found"


def wrong_of(result: Result) -> str:
    """What was accepted of walks that do not belong."""
    walks = [one for one in result.draws if not one.of.startswith(BELONG)]
    groups, wrong = (sum(one.figures[name] for one in walks) for name in ("groups", "wrong"))
    return f"{len(walks)} pairings, {groups:.0f} groups, **{wrong:.0f} accepted wrongly**"


def gpu_of(result: Result) -> str:
    """Seconds, errors and likeness."""
    minutes = over([seconds / 60 for seconds in result.values("seconds")], 1, " min")
    street = over(result.values("street after, dB"), 1, " dB")
    gained = [b - a for a, b in zip(result.values("air before, dB"), result.values("air after, dB"), strict=True)]
    return f"{minutes}; ATE {over(result.values('ATE, m'), 3, ' m')}; street {street}, air {over(gained, 2, ' dB')}"


def demo_of(result: Result) -> str:
    """Seconds of every step, and likeness."""
    names = ("set-up", "town", "job")
    steps = ", ".join(f"{name} {over(result.values(f'{name}, s'), 0, ' s')}" for name in names)
    return f"{steps}; ATE {over(result.values('trajectory ATE, m'), 3, ' m')}; {update_of(result)}"


def seeds(result: Result) -> str:
    """Of its towns, as in 31 to 54."""
    held = sorted(town.seed for town in result.towns)
    in_a_row = len(held) > 2 and held == list(range(held[0], held[-1] + 1))
    return f"{held[0]} to {held[-1]}" if in_a_row else ", ".join(map(str, held))


ROWS = (
    Row("towns", "{draws} mini towns that no setting was chosen on (seeds {seeds})", poses_of),
    Row("towns", "the same: what the runs state of themselves", sigmas_of),
    Row("mesh", "mini mesh, walk begun at {draws} frames, camera unknown", poses_of),
    Row("yard", "yard, two walks, {draws} beginnings in all, camera unknown", poses_of),
    Row("colmap", "poses on two cores, and COLMAP's joint mapping of the same photos", beside_colmap),
    Row("updates", "update on the CPU, test views of {draws} mini towns (seeds {seeds})", update_of),
    Row("updates", "the street of these towns as a mesh", mesh_of),
    Row(WRONG, "walks that do not belong, on the flights of those towns", wrong_of),
    Row("demo", "`make demo` in a fresh clone (clones: {draws})", demo_of),
    Row("gpu", "yard, the whole job on a GPU, {draws} times", gpu_of),
)


# --- figures of the first screen ------------------------------------------------------------------------------------


def between(values: Sequence[float], unit: str) -> str:
    """The lowest and the highest in whole numbers, as in 2 to 5 cm."""
    low, high = (f"{value:.0f}" for value in (min(values), max(values)))
    return (f"{low} to {high} {unit}" if low != high else f"{low} {unit}").strip()


def how_exact(found: dict[str, Result]) -> str:
    """Centimetres over the towns."""
    errors = [100 * value for value in found["towns"].values("trajectory ATE, m")]
    middle = f"{np.median(errors):.1f} in the median"
    return f"{between(errors, 'cm')}, {middle}, on {len(errors)} towns that nothing was tuned on"


def how_alike(found: dict[str, Result]) -> str:
    """Decibels of street views before and after, over the towns or else in the demo."""
    result, where = (found["updates"], "") if "updates" in found else (found["demo"], "the demo's ")
    before, after = (result.values(f"street {when}, dB") for when in ("before", "after"))
    likeness = f"{between(after, 'dB')} (PSNR) instead of {between(before, '')}"
    return f"{where}street photos that were held back are drawn at {likeness}"


def how_long(found: dict[str, Result]) -> str:
    """Poses, the demo and its set-up."""
    poses = between(found["colmap"].values("seconds", "skyanchor"), "seconds")
    first = f"`make demo`, which compiles them, in {demo_minutes(found)}"
    return f"two cores: poses of 40 frames in {poses} once the kernels are compiled, {first}"


def demo_minutes(found: dict[str, Result]) -> str:
    """Of town and job, and of the set-up."""
    demo = found["demo"]
    town, job, setup = ([v / 60 for v in demo.values(f"{name}, s")] for name in ("town", "job", "set-up"))
    both = [a + b for a, b in zip(town, job, strict=True)]
    return f"{minutes(both)} after {minutes(setup)} for its set-up"


def minutes(values: Sequence[float]) -> str:
    """1 minute, 2 to 5 minutes."""
    told = between(values, "minutes")
    return "1 minute" if told == "1 minutes" else told


PHRASES: dict[str, Callable[[dict[str, Result]], str]] = {
    "exact": how_exact,
    "alike": how_alike,
    "long": how_long,
    "demo": demo_minutes,
}


def written(check: bool) -> str:
    """README with the table; SystemExit where it has another and is only checked."""
    path = ROOT / "README.md"
    text = path.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    found = all_kept()
    right = f"{before}{BEGIN}\n{table(found)}\n{END}{after}"
    right = PHRASE.sub(lambda hit: f"{hit[1]}{PHRASES[hit[2]](found)}{hit[4]}", right)
    if check and right != text:
        raise SystemExit("README.md says something else than the results: run `python benchmarks/measured.py table`.")
    if not check:
        path.write_text(right)
    return "README.md says what the results say"


def table(found: dict[str, Result]) -> str:
    """Markdown, one line per row whose result is there."""
    lines = ["| what | median (lowest to highest) | `run` | made |", "|---|---|---|---|"]
    for row in ROWS:
        if row.result in found:
            result = found[row.result]
            made = ", ".join(filter(None, (result.made.date, result.made.machine, result.made.commit)))
            what = row.what.format(draws=len(result.draws), seeds=seeds(result))
            lines.append(f"| {what} | {row.figure(result)} | `{row.result}` | {made} |")
    return "\n".join(lines)


def all_kept() -> dict[str, Result]:
    """Every result by its name."""
    return {path.stem: read(path) for path in sorted(RESULTS.glob("*.jsonl"))}


def read(path: Path) -> Result:
    """A result that is kept; of towns those that nothing was chosen on."""
    if not is_of_towns(path.stem):
        return Result(path.stem, *read_lines(path, Outcome), [])
    made, towns = read_lines(path, Town)
    towns = [town for town in towns if str(town.seed) in TOWNS]
    return Result(path.stem, made, [Outcome(str(town.seed), town.figures) for town in towns], towns)


if __name__ == "__main__":
    main()
