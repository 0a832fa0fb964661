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
`--seconds` nothing is begun any more. The end is DIR/groups.jsonl, all lines together, and a table.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from math import isfinite
from multiprocessing import get_context
from pathlib import Path
from traceback import format_exception

import cv2
import numpy as np
from hard import CONDITIONS, WRONG_M, WRONG_SIGMAS
from scenes import camera_of, prepared_at, prepared_in

from skyanchor.anchors.evidence import sightings
from skyanchor.anchors.frames import GroundFrames, Lens
from skyanchor.anchors.in_process import LocalRunner
from skyanchor.anchors.odometry import Walk as Reckoned
from skyanchor.anchors.odometry import walked
from skyanchor.anchors.place import Settled
from skyanchor.anchors.places import spread_voters
from skyanchor.anchors.prepare import PreparedScaffold
from skyanchor.anchors.solve import group_residuals
from skyanchor.anchors.verdict import VerdictConfig, is_sure
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
from skyanchor.town import CLEAR, PRESETS, build_town, build_walks
from skyanchor.town.conditions import MIDDLE, MILD, leaf_shade, photo_under
from skyanchor.town.presets import TownPreset
from skyanchor.types import LocalisedGroup, Pose, Sequence

FRAMES = 18
"""Of every walk, from its start: two groups, and what the ladder asks for besides."""
STREETS = (
    ((0.0, 0.3), (0.0, 1.0)), ((2.0, 0.3), (2.0, 1.0)), ((0.3, 2.0), (1.0, 2.0)),
    ((1.0, 1.9), (1.0, 1.2)), ((0.2, 1.0), (0.9, 1.0)), ((0.4, 0.0), (1.0, 0.0)),
)  # fmt: skip
"""Ways in other streets than the mini town's walk, in street numbers."""
DAYS = (
    "sun-mild", "leaves-mild", "traffic-middle", "snow-mild", "sun-middle", "shadows-middle", "wet-middle",
    "passers-middle", "dusk-middle", "leaves-middle", "works-middle", "compression-middle", "snow-middle",
    "bare-middle",
)  # fmt: skip
"""Conditions of `benchmarks/hard.py` with their severity, and leaf shade."""
UPSIDE_DOWN = Pose(np.diag([-1.0, -1.0, 1.0]), np.zeros(3))
SHOWN = 1
"""Places of a group whose matches are kept."""
SEEN = 240
"""Width of the photos and views that are kept beside them, pixels."""


# --- what is tried on what ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Walk:
    """A walk and where it was taken."""

    town: str
    """Seed, or the name of a scene on disk."""
    designs: int = 9
    designs_of: int | None = None
    street: int | None = None
    """Of `STREETS`; the walk of the preset without it."""
    day: str = ""
    """Of `DAYS`; clear without it."""

    @property
    def name(self) -> str:
        """Of its folder."""
        return "-".join(
            [self.town, f"{self.designs}designs"]
            + ([] if self.designs_of is None else [f"of{self.designs_of}"])
            + ([] if self.street is None else [f"street{self.street}"])
            + ([self.day] if self.day else [])
        )

    @property
    def is_town(self) -> bool:
        """Whether it is built here."""
        return self.town.isdigit()

    @property
    def rendered(self) -> Walk:
        """The walk that its photos are rendered for: leaf shade is laid over those of the clear day."""
        return self if self.day.rpartition("-")[0] in CONDITIONS else replace(self, day="")

    @property
    def preset(self) -> TownPreset:
        """The town it is taken in, with its weather."""
        plan = PRESETS["mini"]
        streets = replace(plan.streets, designs=self.designs, designs_of=self.designs_of)
        way = plan.walk if self.street is None else replace(plan.walk, corners=STREETS[self.street])
        condition, _, severity = self.day.rpartition("-")
        weather = CONDITIONS[condition].weather(severity) if condition in CONDITIONS else CLEAR
        return replace(plan, streets=streets, walk=way, weather=weather, depth_photos=1)


@dataclass(frozen=True)
class Pairing:
    """A walk on a scaffold."""

    kind: str
    scaffold: Walk
    """Whose flight."""
    walk: Walk
    after: Walk | None = None
    """What goes on from the middle, for half right walks."""

    @property
    def name(self) -> str:
        """Of its files."""
        return f"{self.kind}-{self.scaffold.name}-{self.walk.name}{f'-{self.after.name}' if self.after else ''}"

    @property
    def needs(self) -> tuple[Walk, ...]:
        """What must be built: its scaffold, and where its photos come from."""
        return (self.scaffold, *(walk.rendered for walk in (self.walk, self.after) if walk is not None))


def pairings(scaffolds: list[Walk], more: int, days: Iterable[str] = DAYS) -> list[Pairing]:
    """All of them, every kind and scaffold in turn, so that a part of the list is a part of everything."""
    twins = [[_twin(here, n) for n in range(1, more + 1)] if here.is_town else [] for here in scaffolds]
    rows = [list(_of_scaffold(scaffolds, twins, k, tuple(days))) for k in range(len(scaffolds))]
    return [row[turn] for turn in range(max(map(len, rows))) for row in rows if turn < len(row)]


def of_kinds(some: list[Pairing], kinds: list[str]) -> list[Pairing]:
    """Those of the kinds named, of KIND=N the first N on each scaffold; all of them where none is named."""
    most = {kind: int(count) if count else len(some) for kind, _, count in (word.partition("=") for word in kinds)}
    kept: list[Pairing] = []
    taken: Counter[tuple[str, Walk]] = Counter()
    for pairing in some:
        if not kinds or taken[pairing.kind, pairing.scaffold] < most.get(pairing.kind, 0):
            taken[pairing.kind, pairing.scaffold] += 1
            kept.append(pairing)
    return kept


def _twin(here: Walk, number: int) -> Walk:
    return replace(here, town=str(int(here.town) + 100 * number), designs_of=int(here.town))


def _of_scaffold(scaffolds: list[Walk], twins: list[list[Walk]], k: int, named: tuple[str, ...]) -> Iterator[Pairing]:
    here, own = scaffolds[k], twins[k]
    after = [(k + n) % len(scaffolds) for n in range(1, len(scaffolds))]
    foreign = [*(scaffolds[j] for j in after), *(walk for j in after for walk in twins[j])]
    days = [replace(here, day=day) for day in named if here.is_town or "leaves" in day]
    streets = [replace(here, street=n) for n in range(len(STREETS))] if here.is_town else []
    columns = (
        [Pairing("twin", here, walk) for walk in own],
        [Pairing("own", here, walk) for walk in (here, *days)],
        [Pairing("foreign", here, walk) for walk in foreign],
        [
            *(Pairing("street", here, walk) for walk in streets),
            *(Pairing(kind, here, here) for kind in ("mirrored", "upside-down", "reversed")),
            *(Pairing("mirrored", here, walk) for walk in own),
        ],
        [Pairing("half" if n % 2 else "woven", here, here, walk) for n, walk in enumerate([*own, *foreign])],
    )
    for turn in range(max(map(len, columns))):
        yield from (column[turn] for column in columns if turn < len(column))


# --- photos -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where everything is made and found."""

    work: Path
    scenes: dict[str, Path]
    """Those on disk, by name."""
    spread: Path | None = None
    """Towns that are there with their runs."""

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
    elif pairing.walk.day.startswith("leaves"):
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
    lines = place.work / "pairings" / f"{pairing.name}.jsonl"
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
    for k in map(int, spread_voters(len(frames), 3)):
        bridge = render_bridge(runner.prepared.atlas, cameras.scaled(settled.at.camera, SEEN), poses[k])
        size = bridge.photo.pixels.shape[1::-1]
        photo = cv2.resize(runner.frames.photo(frames[k]).pixels, size, interpolation=cv2.INTER_AREA)
        for name, pixels in (("photo", photo), ("bridge", bridge.photo.pixels)):
            kept[f"{name}{k}"] = cv2.imencode(".jpg", pixels[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 85])[1]
        kept[f"painted{k}"] = cv2.imencode(".png", 255 * np.uint8(bridge.photo.mask))[1]
    return kept


# --- all of them --------------------------------------------------------------------------------------------------


def read_lines(folder: Path) -> list[dict[str, object]]:
    """A line per group of all pairings that are done."""
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


HEAD = (
    "walk", "pairings", "groups", "belong", "accepted", "wrong", "worst error", "odds, accepted", "odds, wrong places",
    "seconds", "of an acceptance", "refused",
)  # fmt: skip


def table(lines: list[dict]) -> str:
    """Markdown, one row per kind of walk and day; odds are powers of ten, seconds CPU medians of a first look."""
    taken = [line["seconds"] for line in lines if line["accepted"]]
    rows = [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    for key in dict.fromkeys((line["kind"], line["day"]) for line in sorted(lines, key=lambda line: line["kind"])):
        own = [line for line in lines if (line["kind"], line["day"]) == key]
        rows.append(f"| {' '.join(filter(None, key))} | {' | '.join(_row(own, float(np.median(taken or [np.nan]))))} |")
    return "\n".join(rows) + "\n"


def _row(own: list[dict], acceptance_s: float) -> list[str]:
    """What became of the groups of one kind."""
    right = [line["error_m"] for line in own if line["accepted"] and not line["wrong"]]
    least = [line["figures"]["log_odds"] for line in own if line["accepted"]]
    most = [odds for is_right, odds, _ in best_places(own) if not is_right and np.isfinite(odds)]
    reasons = sorted({line["reason"] for line in own if line["reason"]})
    seconds = float(np.median([line["seconds"] for line in own]))
    return [
        str(len({line["pairing"] for line in own})),
        str(len(own)),
        str(sum(line["belong"] == line["frames"] for line in own)),
        str(sum(line["accepted"] for line in own)),
        str(sum(line["wrong"] for line in own)),
        f"{max(right):.3f} m" if right else "-",
        f"from {min(least):.1f}" if least else "-",
        f"up to {max(most):.1f}" if most else "-",
        f"{seconds:.1f}",
        f"{seconds / acceptance_s:.1f}",
        ", ".join(f"{reason} {sum(line['reason'] == reason for line in own)}" for reason in reasons) or "-",
    ]


def last_words(places: list[dict]) -> list[dict]:
    """Places that were measured, each as it was known in the end: after its last look, if it had one.

    A place that stands by its last look has that one's figures; the odds rest on the share that agreed in the first,
    on its residual and on its halves.
    """
    of_the_first = ("ratio", "reprojection", "halves_m")
    latest: dict[tuple[float, ...], dict] = {}
    for place in places:
        if place["figures"] is not None and isfinite(place["figures"]["log_odds"]):
            key = tuple(place["figures"][name] for name in ("fronts", "confirmed", "ground"))
            first = latest.get(key, place)["figures"]
            latest[key] = place | {"figures": place["figures"] | {name: first[name] for name in of_the_first}}
    return list(latest.values())


def best_places(lines: list[dict]) -> list[tuple[bool, float, float]]:
    """(right, odds, share that agrees) of the best place of every group, -inf where none came so far."""
    found = []
    for line in lines:
        best = max(last_words(line["places"]), key=lambda place: place["figures"]["log_odds"], default=None)
        belongs = line["belong"] == line["frames"] if best is None else (best["error_m"] or 0.0) < WRONG_M
        odds, share = (-np.inf if best is None else best["figures"][name] for name in ("log_odds", "ratio"))
        found.append((belongs, odds, share))
    return found


def curves(lines: list[dict], path: Path) -> None:
    """The odds of right and wrong places, and what a limit on them or on the agreeing share takes of either."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = best_places(lines)
    right, odds, share = (np.array(column) for column in zip(*found, strict=True))
    figure, (left, other) = pyplot.subplots(1, 2, figsize=(9.0, 3.4))
    bins = np.arange(-6.0, 11.0, 0.5)
    for chosen, name in ((right, "right"), (~right, "wrong")):
        left.hist(np.clip(odds[chosen], bins[0], bins[-1]), bins, alpha=0.6, label=f"{name}, {chosen.sum()} groups")
    left.axvline(VerdictConfig().sure_odds, color="k", lw=0.8, ls=":")
    left.set(xlabel="odds of the best place, powers of ten", ylabel="groups")
    for values, name in ((odds, "odds"), (share, "share that agrees")):
        limits = np.r_[np.inf, np.sort(values)[::-1]]
        taken = [[float((values[chosen] >= limit).mean()) for limit in limits] for chosen in (~right, right)]
        other.step(*taken, where="post", label=name)
    other.set(xlabel="wrong places above the limit", ylabel="right places above it", xlim=(-0.02, 1), ylim=(0, 1.02))
    for axis in (left, other):
        axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


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
    place = Place(given.work.absolute(), {scene.name: scene.absolute() for scene in given.scenes}, spread)
    towns = [Walk(seed, int(designs or 9)) for seed, _, designs in (town.partition(":") for town in given.towns)]
    everything = pairings([*towns, *(Walk(scene.name) for scene in given.scenes)], given.more, given.days or DAYS)
    chosen = of_kinds(everything, given.kinds)[: given.limit]
    print(f"{len(chosen)} of {len(everything)} pairings", flush=True)
    work_off(place, chosen, given)
    lines = read_lines(place.work / "pairings")
    (place.work / "groups.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if given.curves is not None:
        curves(lines, given.curves)
    text = table(lines)
    print("\n" + text)
    (place.work / "table.md").write_text(text)


def work_off(place: Place, chosen: list[Pairing], given: argparse.Namespace) -> None:
    """Every pairing in turn, and what it needs before it."""
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
                print("FAILED: " + "".join(format_exception(error)), flush=True)
            elif isinstance(result := finished.result(), Walk):
                todo.ready.add(result)
                print(f"{result.name} is ready", flush=True)
            else:
                _tell(result)


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
