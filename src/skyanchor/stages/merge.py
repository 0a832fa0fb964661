"""One model of the flight and all walks, and a trajectory of each, for other programs; adjusted together on request."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skyanchor.errors import InputError
from skyanchor.events import TRAJECTORY
from skyanchor.run import prepared as parts
from skyanchor.run.earlier import EarlierRun, named_runs, refuse_other_flight, refuse_twice
from skyanchor.run.known_files import Digests, KnownFiles
from skyanchor.run.layout import DIGESTS, STATE
from skyanchor.run.results import open_run
from skyanchor.stages.digests import check_street_photos
from skyanchor.storage import codec, files
from skyanchor.storage.digest_cache import DigestCache
from skyanchor.trajectory import PhotoFeatures, TrajectoryConfig, export
from skyanchor.trajectory.network import Network, NetworkConfig, NetworkWalk, WalkFigures, adjust_network

MODEL, TRACKS, PHOTOS, NETWORK = "sparse", "trajectories", "photos.txt", "network.json"


@dataclass(frozen=True)
class NetworkRecord:
    """network.json: what the walks did to each other."""

    walks: tuple[WalkFigures, ...]


@dataclass(frozen=True)
class Merged:
    """What was put together."""

    walks: tuple[str, ...]
    photos: int
    """Street photos with a pose."""
    points: int
    """Points of the street."""
    network: tuple[WalkFigures, ...] = ()
    """What the adjustment did to each walk; empty where there was none."""


def merge(paths: tuple[Path, ...], out: Path, adjust: NetworkConfig | None = None) -> Merged:
    """Write sparse/, trajectories/NAME.{tum,geojson} and photos.txt of the runs into an empty folder, whole or not.

    All of it is in the coordinates of the aerial files. InputError where runs stand on different flights. With `adjust`
    the walks are adjusted together before, and network.json says what that did; the runs stay as they are.
    """
    if out.is_symlink() or out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise InputError(out, "is not an empty folder", "Give a new or empty folder.")
    runs = tuple(open_run(path.resolve()) for path in paths)
    if not runs:
        raise InputError(out, "would hold no walk", "Give the run folders of one walk or more.")
    refuse_twice(runs)
    flight = runs[0].prepared.needed(parts.DEPTH).recipe.inputs
    for run in runs:
        refuse_other_flight(run, flight, runs[0].trajectory_record.georef)
    files.sweep_dead(out)
    found: list[Merged] = []
    files.write_through(out, lambda draft: found.append(_write(draft, named_runs(runs), adjust)))
    return found[0]


def _write(folder: Path, runs: tuple[EarlierRun, ...], adjust: NetworkConfig | None) -> Merged:
    scaffold = runs[0].run.scaffold
    network = None if adjust is None else _adjusted(runs, adjust)
    trajectories = [one.run.trajectory for one in runs] if network is None else network.trajectories
    walks = [
        export.Walk(one.name, one.run.sequence, trajectory) for one, trajectory in zip(runs, trajectories, strict=True)
    ]
    photos = export.write_model_of_walks(folder / MODEL, scaffold, walks)
    for walk in walks:
        tum = export.tum_text(walk.trajectory, scaffold.georef)
        files.write_text(folder / TRACKS / f"{walk.name}.tum", tum)
        track = export.geojson_text(walk.trajectory, walk.sequence, scaffold.georef)
        if track is not None:
            files.write_text(folder / TRACKS / f"{walk.name}.geojson", track)
    files.write_text(folder / PHOTOS, "".join(f"{name}\t{path}\n" for name, path in photos.items()))
    points = sum(len(walk.trajectory.points) for walk in walks)
    figures = () if network is None else network.figures
    if network is not None:
        files.save(folder / NETWORK, NetworkRecord(figures))
    return Merged(tuple(walk.name for walk in walks), len(photos), points, figures)


def _adjusted(runs: tuple[EarlierRun, ...], adjust: NetworkConfig) -> Network:
    """The walks adjusted together; InputError where a photo changed since its pose was found, or does meanwhile."""
    known = KnownFiles()
    for one in runs:
        check_street_photos(Digests(DigestCache(one.run.root / STATE / DIGESTS, kept=False), known), one.run)
    found = adjust_network([_in_network(one) for one in runs], adjust)
    changed = known.changed()
    if changed is not None:
        raise InputError(changed, "was changed while walks were adjusted", "Put it back, then give the command again.")
    return found


def _in_network(one: EarlierRun) -> NetworkWalk:
    """The walk of a run, with the keypoints that its own tracks are made of."""
    matcher = codec.from_json(TrajectoryConfig, one.run.stage(TRAJECTORY).recipe.settings).matcher
    source = PhotoFeatures(one.run.sequence, matcher)
    return NetworkWalk(one.name, one.run.trajectory, one.run.anchors.groups, source)
