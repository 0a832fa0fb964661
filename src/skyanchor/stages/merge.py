"""One model of the flight and all walks, and a trajectory of each, for other programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skyanchor.errors import InputError
from skyanchor.run import prepared as parts
from skyanchor.run.earlier import EarlierRun, named_runs, refuse_other_flight
from skyanchor.run.results import open_run
from skyanchor.storage import files
from skyanchor.trajectory import export

MODEL, TRACKS, PHOTOS = "sparse", "trajectories", "photos.txt"


@dataclass(frozen=True)
class Merged:
    """What was put together."""

    walks: tuple[str, ...]
    photos: int
    """Street photos with a pose."""
    points: int
    """Points of the street."""


def merge(paths: tuple[Path, ...], out: Path) -> Merged:
    """Write sparse/, trajectories/NAME.{tum,geojson} and photos.txt of the runs into an empty folder, whole or not.

    All of it is in the coordinates of the aerial files. InputError where runs stand on different flights.
    """
    if out.is_symlink() or out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise InputError(out, "is not an empty folder", "Give a new or empty folder.")
    runs = tuple(open_run(path.resolve()) for path in paths)
    if not runs:
        raise InputError(out, "would hold no walk", "Give the run folders of one walk or more.")
    flight = runs[0].prepared.needed(parts.DEPTH).recipe.inputs
    for run in runs:
        refuse_other_flight(run, flight, runs[0].trajectory_record.georef)
    found: list[Merged] = []
    files.write_through(out, lambda draft: found.append(_write(draft, named_runs(runs))))
    return found[0]


def _write(folder: Path, runs: tuple[EarlierRun, ...]) -> Merged:
    scaffold = runs[0].run.scaffold
    walks = [export.Walk(one.name, one.run.sequence, one.run.trajectory) for one in runs]
    photos = export.write_model_of_walks(folder / MODEL, scaffold, walks)
    for walk in walks:
        tum = export.tum_text(walk.trajectory, scaffold.georef)
        files.write_text(folder / TRACKS / f"{walk.name}.tum", tum)
        track = export.geojson_text(walk.trajectory, walk.sequence, scaffold.georef)
        if track is not None:
            files.write_text(folder / TRACKS / f"{walk.name}.geojson", track)
    files.write_text(folder / PHOTOS, "".join(f"{name}\t{path}\n" for name, path in photos.items()))
    points = sum(len(walk.trajectory.points) for walk in walks)
    return Merged(tuple(walk.name for walk in walks), len(photos), points)
