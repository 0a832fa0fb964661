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
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from hard_conditions import CLEAR_DAY, CONDITIONS, SEVERITIES, WHOLE_DAY, WRONG_M, WRONG_SIGMAS, Hardship
from hard_table import Outcome, curves, matches_table, table

import skyanchor
from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.evidence import match_bridge
from skyanchor.anchors.frames import GroundFrames
from skyanchor.anchors.prepared_scaffold import PreparedScaffold
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
from skyanchor.town import PRESETS, build_town, build_walks
from skyanchor.town.conditions import HARD, MIDDLE, MILD, photo_under
from skyanchor.town.routes import carried_plan
from skyanchor.town.spoiling import OPERATIONS


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
            search.matcher, k, search.frames.features(k, search.config.refine.matcher), bridge,
            search.matcher.extract(bridge.photo),
        )  # fmt: skip
        off = np.linalg.norm(cameras.project(camera, true[frame.name](found.points)) - found.xy, axis=1)
        agreeing, total = agreeing + int((off < 0.01 * camera.width).sum()), total + len(found)
    count = len(chosen)
    return Outcome(
        task.hardship.name, task.severity, task.where, 0, 0, 0, 0.0, 0.0, None, None, 0, count, None, 0.0, {},
        agreeing / count, agreeing / max(1, total),
    )  # fmt: skip


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
