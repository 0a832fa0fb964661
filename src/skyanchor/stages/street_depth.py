"""Depth of the posed street views: a job measures each, another confirms it by its neighbours on the walk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from skyanchor.events import Listener
from skyanchor.photos import PhotoCache
from skyanchor.run.executor import Executor, in_threads
from skyanchor.run.folder import Stage
from skyanchor.run.job import Job
from skyanchor.run.layout import PROGRESS
from skyanchor.scene.ground_points import (
    GroundPointConfig,
    consistent_ground_depth,
    depth_views,
    ground_depth,
    source_views,
)
from skyanchor.stereo import depth_files, load_depth, save_depth
from skyanchor.storage import files
from skyanchor.types import DepthMap, Floats, View

PLAN_FILE = "street.npz"
"""What the jobs share."""
NEIGHBOURS = 3
"""Depth maps before and after one that confirm it."""
UNKNOWN_DEPTH_M = 10.0
"""Taken for the distance to what the street views see where no depth was confirmed, metres."""


@dataclass(frozen=True, eq=False)
class StreetPlan:
    """What the street's depth jobs share."""

    views: tuple[View, ...]
    points: Floats
    """(M, 3), points of the trajectory's adjustment."""
    up: Floats
    """(3,), unit."""
    config: GroundPointConfig


def street_depth(stage: Stage, plan: StreetPlan, executor: Executor, folder: str = PROGRESS) -> dict[str, Path]:
    """By name, files with the confirmed depth of the chosen street views, each kept as soon as it is there.

    They lie below `folder` in the stage's folder.
    """
    shared, files_of = _shared(stage, plan, folder), depth_files([view.name for view in plan.views])
    calls = {files_of[k]: Job.of(measure_street_job, plan=shared, view=k) for k in depth_views(plan.views, plan.config)}
    first = {f"{folder}/measured/{name}": call for name, call in calls.items()}
    runner = in_threads(executor) if plan.config.stereo.backend.takes_turns else executor
    measured = stage.produce("street depth measured", first, runner, plan.config)
    return confirmed(stage, plan, dict(zip(calls, measured, strict=True)), executor, folder=folder)


def confirmed(
    stage: Stage, plan: StreetPlan, measured: dict[str, Path], executor: Executor, what: str = "street",
    folder: str = PROGRESS,
) -> dict[str, Path]:  # fmt: skip
    """By name, files with what neighbours confirm of the maps, which follow each other along the walk."""
    shared, work, maps = _shared(stage, plan, folder), {}, list(measured.values())
    for i, (name, own) in enumerate(measured.items()):
        near = [maps[j] for j in range(max(0, i - NEIGHBOURS), min(len(maps), i + NEIGHBOURS + 1)) if j != i]
        call = Job.of(agree_street_job, plan=shared, measured=[own, *near])
        work[f"{folder}/{what}/{name}"] = replace(call, gpu=False)
    return dict(zip(measured, stage.produce(f"{what} depth confirmed", work, executor, plan.config), strict=True))


def _shared(stage: Stage, plan: StreetPlan, folder: str) -> Path:
    """The file of the plan, written for the jobs."""
    stage.save(f"{folder}/{PLAN_FILE}", plan)
    return stage.path(f"{folder}/{PLAN_FILE}")


def measure_street_job(out: str, plan: str, view: int, listen: Listener) -> None:
    """Write the measured depth of one street view."""
    held = files.load(Path(plan), StreetPlan)
    sources = [held.views[k] for k in source_views(held.views, view, held.config)]
    if not sources:
        sources = [held.views[k] for k in (view - 1, view + 1) if 0 <= k < len(held.views)]
    found = ground_depth(held.views[view], sources, held.points, PhotoCache(256 << 20), held.config, held.up)
    save_depth(Path(out), found)


def agree_street_job(out: str, plan: str, measured: list[str], listen: Listener) -> None:
    """Write the depth of one street view as its neighbours confirm it; `measured` starts with its own."""
    own, *others = (load_depth(Path(path)) for path in measured)
    held = files.load(Path(plan), StreetPlan)
    save_depth(Path(out), consistent_ground_depth(own, others, held.config, held.up))


def typical_depth(maps: Iterable[DepthMap]) -> float:
    """Median distance to what the street views see, metres."""
    seen = [one.depth[one.depth > 0] for one in maps]
    held = np.concatenate(seen) if seen else np.zeros(0)
    return float(np.median(held)) if len(held) else UNKNOWN_DEPTH_M
