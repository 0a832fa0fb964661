"""Walks that do not belong, and walks that do: what the verdict says of each, with all that it rests on.

    python benchmarks/wrong_walks.py [--work DIR] [--towns 31 43:2] [--scenes SCENE ...] [--more 12]
                                     [--kinds KIND[=N] ...] [--days DAY ...] [--spread OUT] [--jobs 1] [--limit N]
                                     [--seconds S] [--evidence] [--shade] [--curves PNG]

Scaffolds are mini towns by their seeds (43:2 is built of two house designs alone, the others of nine), and scenes on
disk (a folder with aerial and ground). Towns that `benchmarks/spread.py` has prepared below OUT are taken from there
with their walks, and are only read. On each scaffold are tried, two groups and more of a walk:

    foreign       the walk of another town or scene
    twin          a walk through another town that builds the same house designs, one of `--more` for each scaffold
    street        a walk in another street of the same town, which the flight hardly saw or did not see
    mirrored      its own walk, left for right
    upside-down   its own walk, every photo turned by 180 degrees
    half          its own walk, and after the middle that of another town
    woven         the same where nobody noticed, the change within a group
    reversed      its own walk from its end to its start
    own           its own walk, on the clear day and on others (`DAYS`)

Whether a group that was accepted is wrong is said by the truth alone: a frame that has none (another place, a mirrored
photo), more than 0.5 m or more than five stated sigmas. A walk is done as the command does it, on its own and in one
process: groups, then what they say of each other.

A pairing is one process with one thread. It leaves DIR/pairings/NAME.jsonl, a line per group (the verdict, its figures,
every place that was looked at with its distance to the truth, seconds), with `--evidence` NAME.npz too, the matches of
the places with the most support, and is not done again. The same command goes on after an interruption; after
`--seconds` nothing is begun any more. The end is DIR/groups.jsonl, all lines together, and a table; what is found with
`--shade` stands beside them, in names that end so. Where something failed the exit code is not 0.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from traceback import format_exception

import cv2
import numpy as np
from hard_conditions import WRONG_M, WRONG_SIGMAS
from scenes import camera_of, prepared_at, prepared_in
from wrong_pairings import DAYS, LEAVES, Pairing, Walk, of_kinds, pairings
from wrong_walks_table import curves, read_lines, table

from skyanchor.anchors.evidence import sightings
from skyanchor.anchors.frames import GroundFrames, Lens, spread_over
from skyanchor.anchors.in_process import LocalRunner
from skyanchor.anchors.odometry import Walk as Reckoned
from skyanchor.anchors.odometry import walked
from skyanchor.anchors.place_refinement import Settled
from skyanchor.anchors.prepared_scaffold import PreparedScaffold
from skyanchor.anchors.solve import group_residuals
from skyanchor.anchors.verdict import is_sure
from skyanchor.anchors.walk import GroupTask, GroupVerdict, localise_walk, verdict_on
from skyanchor.bridges.views import render_bridge
from skyanchor.evaluation.poses import pose_errors
from skyanchor.evaluation.truth import read_truth
from skyanchor.events import silent
from skyanchor.geometry import cameras
from skyanchor.pipeline import CPU
from skyanchor.sequence import SequenceConfig, SubmapConfig, load_sequence
from skyanchor.sequence.segments import SegmentConfig, cut_at, find_cuts
from skyanchor.sfm.uncertainty import centre_sigma_m
from skyanchor.town import build_town, build_walks
from skyanchor.town.conditions import MIDDLE, MILD, leaf_shade, photo_under
from skyanchor.types import LocalisedGroup, Pose, Sequence

FRAMES = 18
"""Of every walk, from its start: two groups, and what the ladder asks for besides."""
UPSIDE_DOWN = Pose(np.diag([-1.0, -1.0, 1.0]), np.zeros(3))
SHOWN = 1
"""Places of a group whose matches are kept."""
SEEN = 240
"""Width of the photos and views that are kept beside them, pixels."""


# --- photos -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where everything is made and found."""

    work: Path
    scenes: dict[str, Path]
    """Those on disk, by name."""
    spread: Path | None = None
    """Towns that are there with their runs."""
    way: str = ""
    """What the names of the results end in, where the groups are not looked for as usual."""

    @property
    def pairings(self) -> Path:
        """The folder with a file per pairing."""
        return self.work / f"pairings{self.way}"

    def scene(self, town: Walk) -> Path:
        """The folder with aerial and ground."""
        return self.scenes.get(town.town) or self._spread(town) or self.work / "towns" / town.name

    def run(self, town: Walk) -> Path:
        """The folder in which its flight is prepared, or was."""
        there = self._spread(town)
        return self.work / "runs" / town.name if there is None else there.with_name(f"{there.name}-run")

    def is_given(self, town: Walk) -> bool:
        """Whether the town is there with its prepared flight."""
        return self._spread(town) is not None

    def _spread(self, town: Walk) -> Path | None:
        if self.spread is None or town != Walk(town.town):
            return None
        there = self.spread / f"mini-{town.town}"
        return there if (there / "ground" / "truth").is_dir() else None

    def photos(self, walk: Walk) -> Path:
        """The folder with images and truth."""
        alone = self.work / "walks" / walk.rendered.name
        return alone / "ground" if alone.is_dir() else self.scene(walk.rendered) / "ground"


def made_ready(place: Place, walk: Walk, scaffold: bool) -> Walk:
    """The walk, with its flight prepared where it is a scaffold; built where it is not there."""
    scene = place.scene(walk)
    if scaffold and not place.is_given(walk):
        if not (scene / "ground" / "truth").is_dir():
            build_town(scene, walk.preset, int(walk.town))
        prepared_in(place.run(walk), scene, "ground", silent)
    elif not (place.photos(walk) / "truth").is_dir():
        build_walks(place.work / "walks" / walk.name, walk.preset, int(walk.town), first=FRAMES)
    return walk


@lru_cache(maxsize=1)
def _standing(run: Path, ground: Path) -> PreparedScaffold:
    """The scaffold of a pairing; the next one often stands on the same."""
    return prepared_at(run, ground)


@dataclass(frozen=True, eq=False)
class Tried:
    """The photos of a pairing, and where they were really taken."""

    sequence: Sequence
    true: dict[str, Pose]
    """By name; none for photos that do not belong."""


def tried_photos(place: Place, pairing: Pairing, scaffold: PreparedScaffold) -> Tried:
    """The photos of a pairing as a user would bring them, written below the work folder."""
    folder = place.work / "photos" / pairing.name
    photos = _photos(place, pairing.walk)
    true = read_truth(place.photos(pairing.walk) / "truth", scaffold.scaffold.georef.offset)
    belongs = replace(pairing.walk, day="", street=None) == pairing.scaffold
    names = [(path, true.get(path.name) if belongs else None) for path in photos]
    if pairing.kind == "reversed":
        names.reverse()
    if pairing.after is not None:
        half = FRAMES // 2 if pairing.kind == "half" else FRAMES - 3
        names = names[:half] + [(path, None) for path in _photos(place, pairing.after)[: FRAMES - half]]
        names = names if pairing.kind == "half" else names[3:half] + names[half:] + names[:3]
    folder.mkdir(parents=True, exist_ok=True)
    kept: dict[str, Pose] = {}
    for number, (path, pose) in enumerate(names):
        name = f"{number:03d}{path.suffix}"
        _handled(path, folder / name, pairing, number)
        if pose is not None and pairing.kind != "mirrored":
            kept[name] = UPSIDE_DOWN @ pose if pairing.kind == "upside-down" else pose
    cut = SubmapConfig(submap_length=FRAMES)
    sequence = load_sequence(folder, SequenceConfig(camera=camera_of(place.photos(pairing.walk) / "truth"), cut=cut))
    if pairing.kind == "half":
        sequence = cut_at(sequence, find_cuts(sequence, SegmentConfig(), cut.group_size), cut)
    return Tried(sequence, kept)


def _photos(place: Place, walk: Walk) -> list[Path]:
    return sorted((place.photos(walk) / "images").iterdir())[:FRAMES]


def _handled(source: Path, target: Path, pairing: Pairing, number: int) -> None:
    """Write one photo of a pairing."""
    flips = {"mirrored": 1, "upside-down": -1}
    if pairing.kind in flips:
        turned = cv2.flip(cv2.imread(str(source)), flips[pairing.kind])
        cv2.imwrite(str(target), turned, [cv2.IMWRITE_JPEG_QUALITY, 95])
    elif pairing.walk.day in LEAVES:
        photo_under(source, target, leaf_shade, MILD if pairing.walk.day.endswith("mild") else MIDDLE, 1, number)
    else:
        target.write_bytes(source.read_bytes())


# --- one pairing --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Watched(LocalRunner):
    """A runner that keeps every place it looked at, and the first verdict on each group."""

    looked: dict[int, list[Settled]] = field(default_factory=dict)
    """By group."""
    first: dict[int, GroupVerdict] = field(default_factory=dict)
    spent: dict[int, float] = field(default_factory=dict)
    """CPU seconds of the first look at each group."""

    def groups(self, tasks: tuple[GroupTask, ...]) -> tuple[GroupVerdict, ...]:
        """The verdict on each group."""
        done = []
        for task in tasks:
            index, start = task.group.index, time.process_time()
            kept = self.looked.setdefault(index, [])
            done.append(verdict_on(replace(self.search(task), watch=kept.append), task))
            self.first.setdefault(index, done[-1])
            self.spent.setdefault(index, time.process_time() - start)
        return tuple(done)


def tried(place: Place, pairing: Pairing, shade: bool, evidence: bool) -> Path:
    """The lines of one pairing, written where they are not there yet."""
    lines = place.pairings / f"{pairing.name}.jsonl"
    if lines.is_file():
        return lines
    town = pairing.scaffold
    prepared = _standing(place.run(town), place.scene(town) / "ground")
    photos = tried_photos(place, pairing, prepared)
    config = replace(CPU.anchors, ladder=replace(CPU.anchors.ladder, shade=shade))
    runner = Watched(prepared, GroundFrames(photos.sequence), config)
    groups = localise_walk(prepared, photos.sequence, config, runner).groups
    walk = walked(runner.steps(Lens()), photos.sequence.cuts)
    said = [_line(pairing, photos, runner, walk, group, k) for k, group in enumerate(groups)]
    lines.parent.mkdir(parents=True, exist_ok=True)
    if evidence:
        np.savez_compressed(lines.with_suffix(".npz"), **_evidence(photos, runner))
    draft = lines.with_suffix(".tmp")
    draft.write_text("".join(json.dumps(line, default=float) + "\n" for line in said))
    draft.replace(lines)
    return lines


def _line(
    pairing: Pairing, photos: Tried, runner: Watched, walk: Reckoned, last: LocalisedGroup, index: int
) -> dict[str, object]:
    """All about one group."""
    group, first = photos.sequence.groups[index], runner.first[index]
    names = [photos.sequence.frames[k].name for k in group.frames]
    return {
        "pairing": pairing.name, "kind": pairing.kind, "scaffold": pairing.scaffold.name, "walk": pairing.walk.name,
        "day": pairing.walk.day, "group": index, "frames": len(names),
        "belong": sum(name in photos.true for name in names),
        **_score(photos, last), "first": _score(photos, first.localised),
        "sure": last.accepted and is_sure(last.figures, runner.config.verdict),
        "reason": _reason(last), "figures": asdict(last.figures),
        "attempts": [attempt.reason for attempt in last.attempts],
        "places": [_looked(photos, settled, walk) for settled in runner.looked[index]],
        "seconds": runner.spent[index], "steps": first.seconds,
    }  # fmt: skip


def _reason(group: LocalisedGroup) -> str:
    return "" if group.refusal is None else str(group.refusal.reason)


def _score(photos: Tried, group: LocalisedGroup) -> dict[str, object]:
    """Whether it was accepted, and how far from the truth."""
    poses = {photos.sequence.frames[pose.frame].name: pose for pose in group.poses}
    off = _off(photos, {name: pose.cam_from_world for name, pose in poses.items()})
    sigma = float(np.sqrt(np.mean([centre_sigma_m(pose.covariance) ** 2 for pose in poses.values()] or [np.nan])))
    wrong = group.accepted and not (off <= WRONG_M and off <= WRONG_SIGMAS * sigma)
    return {"accepted": group.accepted, "wrong": bool(wrong), "error_m": off, "sigma_m": sigma}


def _off(photos: Tried, poses: dict[str, Pose]) -> float:
    """Root mean square distance to the truth, metres; infinite where a frame has none, nan without frames."""
    if not poses:
        return float("nan")
    if any(name not in photos.true for name in poses):
        return float("inf")
    errors = pose_errors(poses, photos.true)
    return errors.position_m if errors.rotation_deg < 45.0 else float("inf")


def _poses(photos: Tried, settled: Settled) -> dict[str, Pose]:
    """Where a place puts the frames, by name."""
    if settled.local is None or (settled.done is None and settled.at is None):
        return {}
    at = settled.done.cams_from_world if settled.done is not None else settled.at.solution.cams_from_world
    return {photos.sequence.frames[k].name: pose for k, pose in zip(settled.local.frames, at, strict=True)}


def _looked(photos: Tried, settled: Settled, walk: Reckoned) -> dict[str, object]:
    """One place that was looked at."""
    return {
        "reason": "" if settled.refusal is None else str(settled.refusal.reason),
        "support": settled.support,
        "error_m": _off(photos, _poses(photos, settled)),
        "frames": [] if settled.local is None else settled.local.frames,
        "figures": None if settled.done is None else asdict(settled.figures),
        "middle": _middle(settled, walk),
        "turns": [asdict(turn) for turn in settled.turns],
    }


def _middle(settled: Settled, walk: Reckoned) -> dict[str, object] | None:
    """Where the group's middle frame was put, and where dead reckoning has it, its unit a step; steps up to there."""
    if settled.local is None or settled.done is None:
        return None
    slot = (len(settled.local.frames) - 1) // 2
    frame = settled.local.frames[slot]
    poses = {"cam_from_world": settled.done.cams_from_world[slot], "cam_from_start": walk.cams_from_start[frame]}
    flat = {name: [*pose.rotation.ravel(), *pose.translation] for name, pose in poses.items()}
    return flat | {"walked": float(walk.path[frame])}


def _evidence(photos: Tried, runner: Watched) -> dict[str, np.ndarray]:
    """Matches of the best supported places, surface points in centimetres from their middle; three frames as seen."""
    kept: dict[str, np.ndarray] = {}
    for index, looked in runner.looked.items():
        ranked = sorted((k for k, place in enumerate(looked) if place.at is not None), key=lambda k: -looked[k].support)
        for k in ranked[:SHOWN]:
            settled = looked[k]
            at, done = settled.at, settled.done
            poses = at.solution.cams_from_world if done is None else done.cams_from_world
            agrees = at.solution.inliers.astype(np.uint8)
            if done is not None:
                agrees[np.flatnonzero(at.solution.inliers)[done.cross]] = 2
            middle = np.median(at.matches.points, axis=0)
            kept |= {
                f"{index}.{k}.frame": at.matches.frame.astype(np.uint8),
                f"{index}.{k}.xy": at.matches.xy.astype(np.float16),
                f"{index}.{k}.points": np.clip(100 * (at.matches.points - middle), -3e4, 3e4).astype(np.int16),
                f"{index}.{k}.residual": group_residuals(poses, sightings(at.matches, at.camera)).astype(np.float16),
                f"{index}.{k}.sigma": at.matches.sigma_px.astype(np.float16),
                f"{index}.{k}.agrees": agrees,
                f"{index}.{k}.source": at.matches.source.astype(np.uint8),
            }
            kept |= {f"{index}.{k}.{name}": packed for name, packed in _seen(runner, settled).items()}
    return kept


def _seen(runner: Watched, settled: Settled) -> dict[str, np.ndarray]:
    """Small photos and the views rendered where they were put, as JPEG, with where those were painted, as PNG."""
    poses, frames = settled.at.solution.cams_from_world, settled.local.frames
    poses = poses if settled.done is None else settled.done.cams_from_world
    kept: dict[str, np.ndarray] = {}
    for k in map(int, spread_over(len(frames), 3)):
        bridge = render_bridge(runner.prepared.atlas, cameras.scaled(settled.at.camera, SEEN), poses[k])
        size = bridge.photo.pixels.shape[1::-1]
        photo = cv2.resize(runner.frames.photo(frames[k]).pixels, size, interpolation=cv2.INTER_AREA)
        for name, pixels in (("photo", photo), ("bridge", bridge.photo.pixels)):
            kept[f"{name}{k}"] = cv2.imencode(".jpg", pixels[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 85])[1]
        kept[f"painted{k}"] = cv2.imencode(".png", 255 * np.uint8(bridge.photo.mask))[1]
    return kept


# --- all of them --------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("runs/wrong-walks"))
    parser.add_argument("--towns", nargs="*", default=["31", "43:2"], help="seed, or seed:designs")
    parser.add_argument("--scenes", type=Path, nargs="*", default=[], help="further scaffolds, with their walks")
    parser.add_argument("--more", type=int, default=12, help="towns of the same house designs for each")
    parser.add_argument("--kinds", nargs="*", default=[], help="only these, KIND or KIND=most on each; all without it")
    parser.add_argument("--days", nargs="*", help="other days of own walks, CONDITION-SEVERITY")
    parser.add_argument("--spread", type=Path, help="where benchmarks/spread.py has left towns with their runs")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--limit", type=int, help="only so many pairings")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="nothing is begun later than that")
    parser.add_argument("--evidence", action="store_true", help="keep matches and pictures of the best places")
    parser.add_argument("--shade", action="store_true", help="with the attempt through shade")
    parser.add_argument("--curves", type=Path, help="draw the odds of right and wrong places there, .png")
    given = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    for name in (
        "OMP_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "OPENCV_FOR_THREADS_NUM",
    ):
        os.environ[name] = "1"
    spread = None if given.spread is None else given.spread.absolute()
    place = Place(
        given.work.absolute(), {scene.name: scene.absolute() for scene in given.scenes}, spread, "-shade" * given.shade
    )
    towns = [Walk(seed, int(designs or 9)) for seed, _, designs in (town.partition(":") for town in given.towns)]
    scaffolds = [*towns, *(Walk(scene.name) for scene in given.scenes)]
    try:
        everything = pairings(scaffolds, given.more, DAYS if given.days is None else given.days)
        chosen = of_kinds(everything, given.kinds)[: given.limit]
    except ValueError as error:
        parser.error(str(error))
    print(f"{len(chosen)} of {len(everything)} pairings", flush=True)
    failed = work_off(place, chosen, given)
    lines = read_lines(place.pairings)
    (place.work / f"groups{place.way}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if given.curves is not None:
        curves(lines, given.curves)
    text = table(lines)
    print("\n" + text)
    (place.work / f"table{place.way}.md").write_text(text)
    if failed:
        raise SystemExit(f"{failed} failed, and what waits for them was not tried")


def work_off(place: Place, chosen: list[Pairing], given: argparse.Namespace) -> int:
    """Every pairing in turn, and what it needs before it; how many of either failed."""
    failed = 0
    end, todo = time.monotonic() + given.seconds, _Todo(list(chosen))
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        running: set[Future[Walk] | Future[Path]] = set()
        while True:
            while len(running) < given.jobs and time.monotonic() < end:
                task = todo.next()
                if task is None:
                    break
                running.add(
                    pool.submit(tried, place, task, given.shade, given.evidence)
                    if isinstance(task, Pairing)
                    else pool.submit(made_ready, place, *task)
                )
            if not running:
                break
            finished = next(as_completed(running))
            running.discard(finished)
            if (error := finished.exception()) is not None:  # one that fails does not stop the others
                failed += 1
                print("FAILED: " + "".join(format_exception(error)), flush=True)
            elif isinstance(result := finished.result(), Walk):
                todo.ready.add(result)
                print(f"{result.name} is ready", flush=True)
            else:
                _tell(result)
    return failed


@dataclass
class _Todo:
    """What is left to do."""

    pairings: list[Pairing]
    ready: set[Walk] = field(default_factory=set)
    begun: set[Walk] = field(default_factory=set)

    def next(self) -> Pairing | tuple[Walk, bool] | None:
        """The first pairing that can be tried, or before it the first walk that one waits for; is it a scaffold?"""
        for pairing in self.pairings:
            missing = [walk for walk in pairing.needs if walk not in self.ready]
            if not missing:
                self.pairings.remove(pairing)
                return pairing
            for walk in missing:
                if walk not in self.begun:
                    self.begun.add(walk)
                    return walk, any(walk == other.scaffold for other in self.pairings)
        return None


def _tell(lines: Path) -> None:
    for line in map(json.loads, lines.read_text().splitlines()):
        word = "WRONG" if line["wrong"] else "accepted" if line["accepted"] else line["reason"]
        off = f" {line['error_m']:.3f} m" if line["accepted"] else ""
        print(f"{line['pairing']} {line['group']}: {word}{off}, {line['seconds']:.0f} s", flush=True)


if __name__ == "__main__":
    main()
