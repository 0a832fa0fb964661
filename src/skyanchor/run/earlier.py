"""A run whose walk was located before: what later walks on the same flight take from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from skyanchor.anchors.earlier_walks.keyframes import Keyframe
from skyanchor.errors import InputError
from skyanchor.events import SCENE
from skyanchor.gaussians.split import split
from skyanchor.run import prepared as parts
from skyanchor.run.records import PATCH_FILE
from skyanchor.run.results import Run
from skyanchor.scene.earlier import EarlierViews
from skyanchor.scene.views import ground_views
from skyanchor.types import Georeference, Support, View

HELD = (Support.ANCHORED, Support.KEYFRAME)
"""Frames that took part in the adjustment of their walk."""


@dataclass(frozen=True, eq=False)
class EarlierRun:
    """A run whose walk was located before, on the same flight."""

    name: str
    """Of its folder, with a number where two are called the same."""
    run: Run

    @property
    def keyframes(self) -> tuple[Keyframe, ...]:
        """The frames that its own adjustment rests on, in order."""
        record, sequence = self.run.trajectory_record, self.run.sequence
        found = []
        for posed in record.frames:
            if posed.support in HELD and posed.cam_from_world is not None:
                frame = sequence.frames[posed.frame]
                pose = posed.cam_from_world
                view = View(frame.name, frame.path, record.camera, pose, frame.mask_path, posed.frame)
                found.append(Keyframe(self.name, view, posed.sigma_m))
        return tuple(found)

    @property
    def views(self) -> EarlierViews:
        """All its frames that have a pose, as they take part in an update."""
        return EarlierViews(self.name, split(ground_views(self.run.sequence, self.run.trajectory)))

    @property
    def in_scene(self) -> bool:
        """Whether its street was added to the splats."""
        return self.run.has(SCENE)

    @property
    def patch(self) -> Path:
        """What it did to the splats."""
        return self.run.stage(SCENE).path(PATCH_FILE)


def named_runs(runs: Sequence[Run]) -> tuple[EarlierRun, ...]:
    """The runs by the names of their folders, numbered where two are called the same."""
    names = [run.root.name for run in runs]
    numbered = [name if names.count(name) == 1 else f"{name}-{k + 1}" for k, name in enumerate(names)]
    return tuple(EarlierRun(name, run) for name, run in zip(numbered, runs, strict=True))


def refuse_twice(runs: Sequence[Run]) -> None:
    """InputError for a run that is given more than once, by whatever path."""
    roots = [run.root.resolve() for run in runs]
    twice = next((run for k, run in enumerate(runs) if roots[k] in roots[:k]), None)
    if twice is not None:
        raise InputError(twice.root, "is given twice", "Name every run once.")


def refuse_other_flight(run: Run, flight: Mapping[str, str], georef: Georeference) -> None:
    """InputError where a run's poses are not in the frame of a flight, by the digests of its files and its place."""
    made_from = run.prepared.needed(parts.DEPTH).recipe.inputs
    offsets = (run.trajectory_record.georef.offset, georef.offset)
    if any(made_from.get(name) != digest for name, digest in flight.items()) or not np.array_equal(*offsets):
        raise InputError(run.root, "stands on another aerial model", "Give runs of the same --scaffold.")
