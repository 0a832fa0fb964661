"""Earlier runs that a walk stands on besides the flight: which they are, their keyframes, their digests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from skyanchor.anchors.earlier_walks.keyframes import EarlierWalks, Keyframe, described_walks
from skyanchor.errors import InputError
from skyanchor.events import TRAJECTORY, Listener
from skyanchor.gaussians.ply import PlyBytes, with_data
from skyanchor.matching import AnySparse
from skyanchor.photos import load_photo
from skyanchor.run import records
from skyanchor.run.earlier import HELD, EarlierRun, named_runs, refuse_other_flight
from skyanchor.run.executor import Executor
from skyanchor.run.folder import PROGRESS, RunFolder, Stage
from skyanchor.run.job import Job
from skyanchor.run.results import Run, open_run
from skyanchor.scene.patch import load_patch, patched
from skyanchor.stages.digests import aerial_digests
from skyanchor.stages.work import Site
from skyanchor.storage import codec, files
from skyanchor.storage.codec import Json

KEYFRAMES, EARLIER = "keyframes.npz", "earlier.npz"
"""In a progress folder: the keyframes, and the same with what they are recalled by."""


def earlier_runs(folder: RunFolder, paths: tuple[Path, ...], site: Site) -> tuple[EarlierRun, ...]:
    """The runs in order, each after those it stands on itself; InputError for one that this walk cannot stand on."""
    found: dict[Path, Run] = {}
    for path in paths:
        for run in _with_its_own(path.resolve(), (folder.root.resolve(),)):
            found.setdefault(run.root, run)
    flight = aerial_digests(folder, site.scaffold) if found else {}
    for run in found.values():
        refuse_other_flight(run, flight, site.scaffold.georef)
        _refuse_nothing_posed(run)
    return named_runs(tuple(found.values()))


def _with_its_own(path: Path, below: tuple[Path, ...]) -> Iterator[Run]:
    """The runs that a run stands on, then itself."""
    if path in below:
        raise InputError(path, "would stand on itself", "Give --onto runs of earlier walks.")
    run = open_run(path)
    for other in run.inputs.onto:
        yield from _with_its_own(other, (*below, path))
    yield run


def _refuse_nothing_posed(run: Run) -> None:
    """InputError where a run has no frame that could support another, or its photos are gone."""
    held = [posed.frame for posed in run.trajectory_record.frames if posed.support in HELD]
    if not held:
        raise InputError(run.root, "has no frame whose pose stands", "Leave it out of --onto.")
    missing = next((run.sequence.frames[k].path for k in held if not run.sequence.frames[k].path.is_file()), None)
    if missing is not None:
        raise InputError(
            missing, f"is a photo of {run.root} and does not exist", "Bring it back, or leave the run out."
        )


def earlier_digests(folder: RunFolder, earlier: tuple[EarlierRun, ...]) -> dict[str, str]:
    """Of the poses and the photos of each earlier walk."""
    digests = {}
    for k, one in enumerate(earlier):
        poses = one.run.stage(TRAJECTORY).path(records.TRAJECTORY_FILE)
        photos = {f"{one.name}/{keyframe.view.name}": keyframe.view.path for keyframe in one.keyframes}
        digests[f"onto-{k + 1}"] = folder.digest({f"{one.name}/{poses.name}": poses, **photos})
    return digests


def patch_digests(folder: RunFolder, earlier: tuple[EarlierRun, ...]) -> dict[str, str]:
    """Of what each earlier walk did to the splats, and of its photos that guard it."""
    digests = {}
    for k, one in enumerate(earlier):
        views = one.views.views
        photos = {view.name: view.path for view in (*views.training, *views.validation, *views.test)}
        given = {**photos, one.patch.name: one.patch}
        digests[f"onto-{k + 1}"] = folder.digest({f"{one.name}/{name}": path for name, path in given.items()})
    return digests


def with_patches(base: PlyBytes, earlier: tuple[EarlierRun, ...]) -> PlyBytes:
    """The splats with what every earlier walk did to them, in order; InputError where two changed the same ones."""
    for one in earlier:
        base = with_data(base, patched(base, load_patch(one.patch)))
    return base


def describe_walks(stage: Stage, earlier: tuple[EarlierRun, ...], choice: AnySparse, executor: Executor) -> Path | None:
    """The file with the keyframes of earlier walks as groups are matched with them; None without any."""
    if not earlier:
        return None
    keyframes = tuple(keyframe for one in earlier for keyframe in one.keyframes)
    stage.save(f"{PROGRESS}/{KEYFRAMES}", KeyframeList(keyframes))
    shared = {"keyframes": stage.path(f"{PROGRESS}/{KEYFRAMES}"), "matcher": Matched(choice)}
    work = {
        f"{PROGRESS}/keyframe-{k}.npz": Job.of(describe_keyframe_job, number=k, **shared) for k in range(len(keyframes))
    }
    paths = tuple(stage.produce("keyframes of earlier walks", work, executor))
    stage.save(f"{PROGRESS}/{EARLIER}", described_walks(keyframes, paths))
    return stage.path(f"{PROGRESS}/{EARLIER}")


@dataclass(frozen=True, eq=False)
class KeyframeList:
    """keyframes.npz."""

    keyframes: tuple[Keyframe, ...]


@dataclass(frozen=True)
class Matched:
    """What keyframes are described with."""

    choice: AnySparse


def describe_keyframe_job(out: str, keyframes: str, number: int, matcher: Json, listen: Listener) -> None:
    """Write the features of one keyframe."""
    view = files.load(Path(keyframes), KeyframeList).keyframes[number].view
    photo, _ = load_photo(view.name, view.path, view.camera, view.camera.width, view.mask_path)
    files.save(Path(out), codec.from_json(Matched, matcher).choice.load().extract(photo))


def load_earlier(path: Path | None) -> EarlierWalks | None:
    """What `describe_walks` wrote."""
    return None if path is None else files.load(path, EarlierWalks)
