"""Hard days, one at a time: what is accepted, what is wrong, how exact the rest is, and at which severity it breaks.

    python benchmarks/hard.py [--conditions sun wet ...] [--severities mild middle hard] [--seeds 7 11] [--work DIR]
                              [--scenes SCENE ...] [--upto matches|anchors|trajectory|update] [--frames N]
                              [--jobs 1] [--workers 1] [--seconds S] [--table MD] [--curves PNG]

Every condition changes one thing about the mini town of a seed (`--preset` for another town): what is in the street,
in the camera or in the flight. The flight is built and prepared once per seed, by the run of the clear day, and serves
all conditions that leave it alone. `hard-1` to `hard-4` are the days of the presets of those names, which combine many
conditions, flight included: severities do not concern them. With `--scenes` the conditions that are operations on
photos are tried on those scenes (a folder with aerial and ground, truth beside the photos). Runs stop at the poses;
`--upto update` goes on to the splats, which is long, `--upto anchors --frames 12` looks at the first groups of a walk
alone, which is short. What lies below `--work` is not made again: the same command goes on after an interruption; after
`--seconds` nothing is begun any more, and the table is of what is there. The truth is read to score.

`--upto matches --frames 6` takes seconds: two photos are matched with bridge views rendered at their true poses, and
the matches are counted that agree with those. It tells whether a condition breaks the matching, not what becomes of a
walk.

Wrong is an accepted group more than 0.5 m or more than five of its stated sigmas from the truth, root mean square over
its frames, where sigma is the standard deviation per axis that the run states.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import skyanchor
from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.evidence import match_bridge
from skyanchor.anchors.frames import GroundFrames
from skyanchor.anchors.prepare import PreparedScaffold
from skyanchor.anchors.search import Search
from skyanchor.bridges.views import render_bridge
from skyanchor.errors import NothingPlacedError
from skyanchor.evaluation.metrics import evaluate_run, true_poses
from skyanchor.evaluation.poses import pose_errors
from skyanchor.evaluation.truth import read_truth
from skyanchor.geometry import cameras
from skyanchor.opened import Run
from skyanchor.pipeline import CPU
from skyanchor.run import records
from skyanchor.sequence import SequenceConfig, load_sequence
from skyanchor.sfm.uncertainty import centre_sigma_m
from skyanchor.town import CLEAR, PRESETS, build_town, build_walks
from skyanchor.town.conditions import HARD, MIDDLE, MILD, photo_under
from skyanchor.town.presets import HARD as HARD_DAYS
from skyanchor.town.presets import TownPreset
from skyanchor.town.routes import carried_plan
from skyanchor.town.spoiling import OPERATIONS
from skyanchor.town.weather import Weather, changed, names

SEVERITIES = ("mild", "middle", "hard")
WHOLE_DAY = "whole"
"""Of a preset, which combines conditions: it has one severity."""
WRONG_M, WRONG_SIGMAS = 0.5, 5.0


@dataclass(frozen=True)
class Hardship:
    """One condition at its three severities, or a whole day of the town's presets, which has none."""

    name: str
    steps: tuple[str, ...]
    """Settings of `skyanchor town --weather`, words apart by a space, mild to hard."""
    camera: bool = True
    """Whether the user knows the focal length."""

    @property
    def severities(self) -> tuple[str, ...]:
        """Those that it has."""
        return SEVERITIES if len(self.steps) == len(SEVERITIES) else (WHOLE_DAY,)

    def weather(self, severity: str) -> Weather:
        """The day of a severity."""
        return changed(CLEAR, self.steps[self.severities.index(severity)].split())

    def settings(self, severity: str) -> str:
        """What is different, for people."""
        if WHOLE_DAY in self.severities:
            return f"`--preset {self.name}`"
        return self.steps[self.severities.index(severity)].replace(" ", ", ")

    def tried(self, severities: Sequence[str]) -> tuple[str, ...]:
        """Those of the severities that it has; a whole day is tried whatever they are."""
        return tuple(one for one in self.severities if one in (*severities, WHOLE_DAY))

    @property
    def flown(self) -> bool:
        """Whether the flight is another one."""
        return any(word.startswith("flight.") for word in self.steps[0].split())

    @property
    def operation(self) -> str | None:
        """The operation on finished photos that it is, if it is one."""
        part, _, name = self.steps[0].partition("=")[0].partition(".")
        return name if part == "photos" else None


def _day(preset: TownPreset) -> Hardship:
    """All that is otherwise on the day of a preset than on a clear one."""
    words = []
    for name in names():
        part, _, setting = name.partition(".")
        held, usual = (getattr(getattr(weather, part), setting) for weather in (preset.weather, CLEAR))
        words += [f"{name}={held}"] if held != usual else []
    return Hardship(preset.name, (" ".join(words),))


def _photo(name: str) -> Hardship:
    low, middle, high = (f"photos.{name}={severity:.4f}" for severity in (MILD, MIDDLE, HARD))
    return Hardship(name.replace("_", "-"), (low, middle, high))


def _three(name: str, text: str, *values: float | str, camera: bool = True) -> Hardship:
    low, middle, high = (text.format(value) for value in values)
    return Hardship(name, (low, middle, high), camera)


def _two(name: str, text: str, *values: tuple[float, float], camera: bool = True) -> Hardship:
    low, middle, high = (text.format(*value) for value in values)
    return Hardship(name, (low, middle, high), camera)


CONDITIONS: dict[str, Hardship] = {
    hardship.name: hardship
    for hardship in (
        _two("sun", "world.sun_azimuth_deg={} world.sun_elevation_deg={}", (255, 40), (305, 30), (35, 20)),
        _three("overcast", "world.overcast={}", 0.5, 0.9, 1.0),
        _three("wet", "world.wet={0} world.overcast={0}", 0.4, 0.7, 1.0),
        _three("bare", "world.bare={}", 0.5, 0.8, 1.0),
        _three("hedges", "world.hedges={}", 0.2, 0.4, 0.8),
        _three("snow", "world.snow={}", 0.3, 0.6, 1.0),
        _three("cars", "world.cars={}", 0.3, 0.7, 1.0),
        _three("traffic", "world.traffic={}", 0.05, 0.2, 0.4),
        _three("works", "world.works={}", 0.15, 0.35, 0.7),
        _three("dusk", "world.dusk={}", 0.4, 0.7, 1.0),
        _two("rolling", "carried.readout_ms={} carried.speed_m_s={}", (20, 1.4), (20, 5), (25, 12)),
        _three("shake", "carried.shake_deg={}", 0.5, 1.5, 3.0),
        _three("height", "carried.eye_height_m={}", 1.0, 2.4, 3.0),
        _three("lean", "carried.lean_deg={}", 5, 12, 20),
        _three("portrait", "carried.portrait=true world.cars={}", 0, 0.3, 0.6),
        _two("wide", "carried.wide=0.5 carried.k1={} world.cars={}", (-0.01, 0), (-0.02, 0), (-0.03, 0), camera=False),
        _three("zoom", "carried.zoom={}", 1.1, 1.4, 2.0),
        _three("missing", "carried.missing={}", 0.1, 0.25, 0.5),
        _three("doubled", "carried.doubled={}", 0.1, 0.25, 0.5),
        *(_photo(name) for name in OPERATIONS),
        _two("flight-sun", "flight.sun_azimuth_deg={} flight.sun_elevation_deg={}", (255, 40), (305, 30), (35, 20)),
        _two("flight-poses", "flight.position_cm={} flight.angle_deg={}", (1, 0.01), (3, 0.02), (5, 0.02)),
        _three("flight-exposure", "flight.exposure_stops={}", 0.3, 0.6, 1.0),
        _three("flight-resolution", "flight.ground_cm={}", 9, 12, 15),
        _three("flight-nadir", "flight.nadir=true flight.overlap={}", 0.8, 0.7, 0.6),
        _three("flight-overlap", "flight.overlap={}", 0.7, 0.65, 0.6),
        *(_day(preset) for preset in HARD_DAYS),
    )
}
CLEAR_DAY = Hardship("clear", ("", "", ""))


@dataclass(frozen=True)
class Outcome:
    """What became of one walk under one condition."""

    condition: str
    severity: str
    where: str
    """Seed of the town, or name of the scene."""
    groups: int
    accepted: int
    wrong: int
    worst_m: float
    """Of the accepted groups, root mean square over a group's frames; 0 without any."""
    worst_sigmas: float
    """The same over the stated sigma."""
    anchors_ate_m: float | None
    ate_m: float | None
    posed: int
    frames: int
    psnr: float | None
    seconds: float
    reasons: dict[str, int]
    """Why groups were refused."""
    matches: float | None = None
    """Matches with a bridge view at the true pose that agree with it, per photo."""
    agreeing: float | None = None
    """Their share of all matches, 0..1."""


@dataclass(frozen=True)
class Task:
    """One condition at one severity on a town of a seed, or on a scene on disk."""

    hardship: Hardship
    severity: str
    work: Path
    """Where the runs of this town or scene go."""
    scene: Path
    """Folder with aerial and ground."""
    seed: int | None
    """None for a scene on disk."""
    preset: str
    upto: str
    frames: int | None
    """Of the walk, from its start; all without it."""
    workers: int
    until: float
    """Clock, seconds, after which it is not begun."""

    @property
    def folder(self) -> Path:
        """Of this condition at this severity."""
        alone = self.hardship == CLEAR_DAY or self.severity == WHOLE_DAY
        return self.work / (self.hardship.name if alone else f"{self.hardship.name}-{self.severity}")

    @property
    def where(self) -> str:
        """For people."""
        return self.scene.name if self.seed is None else f"seed {self.seed}"


# --- scenes -------------------------------------------------------------------------------------------------------


def built(task: Task) -> None:
    """The clear day, where it is a town that is not there yet."""
    if task.seed is not None and not (task.scene / "ground" / "truth").is_dir():
        build_town(task.scene, PRESETS[task.preset], task.seed)


def walk_of(task: Task) -> tuple[Path, Path]:
    """(aerial, ground) under the condition, made where they are not there yet."""
    target, hardship = task.folder / "scene", task.hardship
    if hardship == CLEAR_DAY or hardship.operation is not None:
        return task.scene / "aerial", spoiled_walk(task, target / "ground")
    if task.seed is None:
        raise SystemExit(f"{hardship.name} is rendered: it needs a town, not {task.scene}")
    weather = hardship.weather(task.severity)
    town = replace(PRESETS[task.preset], weather=weather, later_walk=None, other_walks=())
    if not target.is_dir():
        if hardship.flown:
            build_town(target, town, task.seed)
        else:
            build_walks(target, town, task.seed, first=task.frames)
    return (target if hardship.flown else task.scene) / "aerial", target / "ground"


def spoiled_walk(task: Task, ground: Path) -> Path:
    """The photos of the clear day after an operation, if there is one, beside their truth."""
    if not (ground / "truth").is_dir():
        shutil.rmtree(ground, ignore_errors=True)
        clear, name = task.scene / "ground", task.hardship.operation
        photos = sorted((clear / "images").iterdir())[: task.frames]
        (ground / "images").mkdir(parents=True)
        for number, photo in enumerate(photos):
            if name is None:
                shutil.copy(photo, ground / "images" / photo.name)
            else:
                level = (MILD, MIDDLE, HARD)[SEVERITIES.index(task.severity)]
                photo_under(photo, ground / "images" / photo.name, OPERATIONS[name], level, task.seed or 0, number)
        shutil.copytree(clear / "truth", ground / "truth")
    return ground


def focal_of(task: Task) -> str | None:
    """What a user would give as --camera."""
    if not task.hardship.camera:
        return None
    if task.seed is None:
        from scenes import camera_of

        return camera_of(task.scene / "ground" / "truth")
    return f"f={carried_plan(PRESETS[task.preset].walk, task.hardship.weather(task.severity).carried).focal}"


# --- runs ---------------------------------------------------------------------------------------------------------


def outcome_of(task: Task) -> Outcome | None:
    """What came of a task: read where it is there, else made, None where it is too late; a line is printed."""
    kept = task.folder / f"outcome-{task.upto}.json"
    if kept.is_file():
        outcome = Outcome(**json.loads(kept.read_text()))
    elif time.time() > task.until:
        return None
    else:
        outcome = _made_or_failed(task)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(asdict(outcome), indent=1))
    print(f"{outcome.condition} {outcome.severity} on {outcome.where}: {said_of(outcome)}", flush=True)
    return outcome


def said_of(outcome: Outcome) -> str:
    """What came of a task in a line."""
    if outcome.matches is not None and outcome.agreeing is not None:
        return f"{outcome.matches:.0f} matches a photo agree, {outcome.agreeing:.0%} of all, {outcome.seconds:.0f} s"
    error = "-" if outcome.ate_m is None else f"{outcome.ate_m:.3f} m"
    groups = f"{outcome.accepted}/{outcome.groups} groups, {outcome.wrong} wrong, ATE {error}"
    refused = ", ".join(f"{reason} {count}" for reason, count in outcome.reasons.items())
    return f"{groups}, {outcome.posed}/{outcome.frames} frames, {outcome.seconds:.0f} s {refused}"


def _made_or_failed(task: Task) -> Outcome:
    """What came of a task; an error is an outcome too, with its words as the reason, and does not end the others."""
    try:
        return _made(task)
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:160]
        named = (task.hardship.name, task.severity, task.where)
        return Outcome(*named, 0, 0, 0, 0.0, 0.0, None, None, 0, 0, None, 0.0, {reason: 1})


def _made(task: Task) -> Outcome:
    aerial, ground = walk_of(task)
    own = task.hardship == CLEAR_DAY or task.hardship.flown
    scaffold = aerial if own else task.work / CLEAR_DAY.name / "run" / "1-scaffold"
    config = replace(CPU, sequence=SequenceConfig(camera=focal_of(task)))
    verbs = {"anchors": skyanchor.localise, "trajectory": skyanchor.recover, "update": skyanchor.update}
    start = time.monotonic()
    if task.upto == "matches":
        found = matched(task, ground)
        return replace(found, seconds=time.monotonic() - start)
    with suppress(NothingPlacedError):  # no street can be added where nothing was placed: that is an outcome
        verbs[task.upto](scaffold, ground / "images", task.folder / "run", config, workers=task.workers)
    seconds = time.monotonic() - start
    found = scored(skyanchor.open_run(task.folder / "run"), ground / "truth")
    return replace(found, condition=task.hardship.name, severity=task.severity, where=task.where, seconds=seconds)


def scored(run: Run, truth: Path) -> Outcome:
    """The figures of a run."""
    true, groups = true_poses(run, truth), run.anchors.groups
    off, sigmas = [], []
    for group in groups:
        if group.accepted:
            names = [run.names[pose.frame] for pose in group.poses]
            poses = {name: pose.cam_from_world for name, pose in zip(names, group.poses, strict=True)}
            off.append(pose_errors(poses, true).position_m)
            sigma = np.sqrt(np.mean([centre_sigma_m(pose.covariance) ** 2 for pose in group.poses]))
            sigmas.append(off[-1] / float(sigma))
    anchors = pose_errors(records.anchor_poses(run.anchors_record), true)
    last = pose_errors(run.poses, true)
    metrics = evaluate_run(run, truth)
    refused = Counter(str(group.refusal.reason) for group in groups if group.refusal is not None)
    return Outcome(
        "", "", "", len(groups), len(off),
        sum(m > WRONG_M or s > WRONG_SIGMAS for m, s in zip(off, sigmas, strict=True)),
        max(off, default=0.0), max(sigmas, default=0.0),
        anchors.position_m if len(anchors) else None, last.position_m if len(last) else None,
        len(run.poses), len(run.names), metrics.render.ground.psnr, 0.0, dict(refused),
    )  # fmt: skip


@lru_cache(maxsize=1)
def _prepared(run: Path, scene: Path) -> PreparedScaffold:
    from scenes import prepared_in

    return prepared_in(run, scene, "ground")


def matched(task: Task, ground: Path) -> Outcome:
    """Matches of two photos with bridge views at their true poses; a match agrees within a hundredth of the width."""
    prepared = _prepared(task.work / CLEAR_DAY.name / "run", task.scene)
    sequence = load_sequence(ground / "images", SequenceConfig(camera=focal_of(task)))
    search = Search(prepared, GroundFrames(sequence), AnchorConfig())
    true = read_truth(ground / "truth", prepared.scaffold.georef.offset)
    camera, agreeing, total = search.camera, 0, 0
    chosen = sequence.frames[:: max(1, len(sequence.frames) // 2)][:2]
    for k, frame in ((frame.index, frame) for frame in chosen):
        bridge = render_bridge(prepared.atlas, camera, true[frame.name])
        found = match_bridge(
            search.matcher, k, search.frames.features(k, search.config.refine.matcher), k, bridge,
            search.matcher.extract(bridge.photo),
        )  # fmt: skip
        off = np.linalg.norm(cameras.project(camera, true[frame.name](found.points)) - found.xy, axis=1)
        agreeing, total = agreeing + int((off < 0.01 * camera.width).sum()), total + len(found)
    count = len(chosen)
    return Outcome(
        task.hardship.name, task.severity, task.where, 0, 0, 0, 0.0, 0.0, None, None, 0, count, None, 0.0, {},
        agreeing / count, agreeing / max(1, total),
    )  # fmt: skip


# --- tables -------------------------------------------------------------------------------------------------------


def table(outcomes: list[Outcome]) -> str:
    """Markdown, one row per condition and severity, over its towns or scenes."""
    head = "| condition | severity | settings | walks | groups accepted | wrong | worst group | ATE | frames posed |"
    lines = [head + " street PSNR | seconds | refused |", "|" + "---|" * 12]
    for key in dict.fromkeys((outcome.condition, outcome.severity) for outcome in outcomes):
        own = [outcome for outcome in outcomes if (outcome.condition, outcome.severity) == key]
        lines.append("| " + " | ".join(_row(own)) + " |")
    return "\n".join(lines) + "\n"


def _row(own: list[Outcome]) -> list[str]:
    first = own[0]
    hardship = CONDITIONS.get(first.condition, CLEAR_DAY)
    errors = [outcome.ate_m for outcome in own if outcome.ate_m is not None]
    psnr = [outcome.psnr for outcome in own if outcome.psnr is not None]
    refused = sum((Counter(outcome.reasons) for outcome in own), Counter[str]())
    spread = f"{min(errors):.3f} to {max(errors):.3f} m" if len(errors) > 1 else "".join(f"{e:.3f} m" for e in errors)
    worst = max(own, key=lambda outcome: outcome.worst_m)
    return [
        first.condition,
        "" if hardship == CLEAR_DAY else first.severity,
        hardship.settings(first.severity),
        str(len(own)),
        f"{sum(o.accepted for o in own)}/{sum(o.groups for o in own)}",
        str(sum(o.wrong for o in own)),
        f"{worst.worst_m:.3f} m, {max(o.worst_sigmas for o in own):.1f} sigmas" if errors else "-",
        spread or "-",
        f"{sum(o.posed for o in own)}/{sum(o.frames for o in own)}",
        f"{np.mean(psnr):.1f} dB" if psnr else "-",
        f"{np.median([o.seconds for o in own]):.0f}",
        ", ".join(f"{reason} {count}" for reason, count in refused.most_common()) or "-",
    ]


def matches_table(outcomes: list[Outcome]) -> str:
    """Markdown, one row per condition and severity: agreeing matches a photo, and what share they are."""
    lines = [
        "| condition | severity | settings | agreeing matches a photo | of the clear day's | share of all matches |"
    ]
    lines.append("|" + "---|" * 6)
    clear = {o.where: o.matches or 0.0 for o in outcomes if o.condition == CLEAR_DAY.name}
    for key in dict.fromkeys((o.condition, o.severity) for o in outcomes):
        own = [o for o in outcomes if (o.condition, o.severity) == key]
        hardship = CONDITIONS.get(key[0], CLEAR_DAY)
        settings = hardship.settings(key[1])
        kept = np.mean([(o.matches or 0.0) / max(1.0, clear[o.where]) for o in own])
        count, share = (np.mean([getattr(o, name) or 0.0 for o in own]) for name in ("matches", "agreeing"))
        severity = "" if hardship == CLEAR_DAY else key[1]
        lines.append(f"| {key[0]} | {severity} | {settings} | {count:.0f} | {kept:.0%} | {share:.0%} |")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Panel:
    """One of the pictures that `curves` draws."""

    title: str
    ticks: tuple[str, ...]
    """Along the axis, mild to hard."""
    outcomes: tuple[tuple[Outcome, ...], ...]
    """At every tick."""


def panels(outcomes: list[Outcome]) -> list[Panel]:
    """A panel per condition, over its severities, and one of all whole days, over these."""
    found, days = [], []
    for name in dict.fromkeys(o.condition for o in outcomes if o.condition != CLEAR_DAY.name):
        own = [outcome for outcome in outcomes if outcome.condition == name]
        if own[0].severity == WHOLE_DAY:
            days.append((name, tuple(own)))
            continue
        steps = tuple(tuple(o for o in own if o.severity == severity) for severity in SEVERITIES)
        found.append(Panel(name, SEVERITIES, steps))
    if days:
        found.append(Panel("whole days", *zip(*sorted(days), strict=True)))
    return found


def curves(outcomes: list[Outcome], path: Path) -> None:
    """Share of the groups accepted, of the frames posed, and error, a panel per condition."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = panels(outcomes)
    if not shown:
        return
    columns = min(6, len(shown))
    rows = -(-len(shown) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(2.6 * columns, 2.2 * rows), squeeze=False, sharey=True)
    for axis in axes.flat[len(shown) :]:
        axis.axis("off")
    for axis, panel in zip(axes.flat, shown, strict=False):
        for marks, label, value in CURVES:
            at = [k for k, own in enumerate(panel.outcomes) if own]
            axis.plot(at, [value(panel.outcomes[k]) for k in at], marks, label=label)
        axis.set(title=panel.title, xticks=range(len(panel.ticks)), xlim=(-0.3, len(panel.ticks) - 0.7))
        axis.set(ylim=(-0.05, 1.1))
        axis.set_xticklabels(panel.ticks, fontsize=7)
    axes.flat[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _accepted(own: Sequence[Outcome]) -> float:
    return sum(o.accepted for o in own) / max(1, sum(o.groups for o in own))


def _posed(own: Sequence[Outcome]) -> float:
    return sum(o.posed for o in own) / max(1, sum(o.frames for o in own))


def _error_dm(own: Sequence[Outcome]) -> float:
    errors = [o.ate_m for o in own if o.ate_m is not None]
    return 10.0 * float(np.median(errors)) if errors else float("nan")


CURVES = (("o-", "groups", _accepted), ("s:", "frames", _posed), ("x--", "ATE, dm", _error_dm))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conditions", nargs="*", metavar="NAME", help="all without it")
    parser.add_argument("--severities", nargs="*", default=["middle"], choices=["mild", "middle", "hard"])
    parser.add_argument("--seeds", nargs="*", type=int, default=[7])
    parser.add_argument(
        "--scenes", nargs="*", type=Path, default=[], help="instead of towns; operations on photos alone"
    )
    parser.add_argument("--preset", default="mini", choices=["mini", "town", "city"])
    parser.add_argument("--work", type=Path, default=Path("runs/hard"))
    parser.add_argument("--upto", default="trajectory", choices=["matches", "anchors", "trajectory", "update"])
    parser.add_argument("--frames", type=int, help="only the first so many of a walk")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--workers", type=int, default=1, help="processes of each run")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="nothing is begun later than that")
    parser.add_argument("--table", type=Path, help="write the table there too")
    parser.add_argument("--curves", type=Path, help="draw the curves there, .png")
    args = parser.parse_args()
    if unknown := set(args.conditions or ()) - set(CONDITIONS):
        parser.error(f"no condition {', '.join(sorted(unknown))}: there are {', '.join(CONDITIONS)}")
    asked = [CONDITIONS[name] for name in args.conditions or CONDITIONS]
    chosen = [hardship for hardship in asked if hardship.operation is not None or not args.scenes]
    part = "" if args.frames is None else f"-first-{args.frames}"
    places: list[tuple[Path, Path, int | None]] = [(args.work / (s.name + part), s, None) for s in args.scenes]
    if not places:
        folders = {seed: args.work / f"{args.preset}-{seed}{part}" for seed in args.seeds}
        places = [(folder, folder / "town", seed) for seed, folder in folders.items()]
    shared = (args.preset, args.upto, args.frames, args.workers, time.time() + args.seconds)
    clear = [Task(CLEAR_DAY, SEVERITIES[0], *place, *shared) for place in places]
    tasks = [
        Task(hardship, severity, *place, *shared)
        for hardship in chosen
        for severity in hardship.tried(args.severities)
        for place in places
    ]
    tasks.sort(key=lambda task: not task.hardship.flown)  # the long ones first: they prepare a flight of their own
    if args.jobs > 1:
        with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
            list(pool.map(built, clear))
            tried = [*pool.map(outcome_of, clear), *pool.map(outcome_of, tasks)]
    else:
        for task in clear:
            built(task)
        tried = [outcome_of(task) for task in (*clear, *tasks)]
    outcomes = [outcome for outcome in tried if outcome is not None]
    text = matches_table(outcomes) if args.upto == "matches" else table(outcomes)
    print("\n" + text)
    if args.table:
        args.table.write_text(text)
    if args.curves:
        curves(outcomes, args.curves)


if __name__ == "__main__":
    main()
