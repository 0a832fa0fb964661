"""What is another way today than on the days before, by the depth of the walk and of each of these days."""

from __future__ import annotations

from scipy.spatial import cKDTree

from skyanchor.changes import ChangeConfig
from skyanchor.geometry import rigid
from skyanchor.run.earlier import EarlierRun
from skyanchor.run.executor import Executor
from skyanchor.run.folder import Stage
from skyanchor.run.layout import PROGRESS
from skyanchor.scene.config import UpdateConfig
from skyanchor.scene.ground_points import GroundPointConfig, depth_views
from skyanchor.scene.since import DayDepth, Since, since_flight, since_walk
from skyanchor.stages.street_depth import StreetPlan, street_depth
from skyanchor.stages.work import Work
from skyanchor.stereo import DepthFolder
from skyanchor.types import DepthMap, View

DEPTH_BYTES = 1 << 28
"""Depth maps of one day that are held in memory, bytes."""


def differences_since(
    stage: Stage, work: Work, views: tuple[View, ...], maps: list[DepthMap], aerial: DepthFolder,
    points: GroundPointConfig, config: UpdateConfig,
) -> tuple[Since, ...]:  # fmt: skip
    """What is another way since the flight, then since each earlier walk; nothing where that is not looked for."""
    look = config.vanished
    if look is None or config.floaters is None or not maps:
        return ()
    found = [since_flight(aerial, maps, look)]
    for number, one in enumerate(work.earlier, 1):
        plan = StreetPlan(_views_beside(one, maps, look), one.run.trajectory.points, work.scaffold.up, points)
        depth = _depth_of_walk(stage, plan, work.executor, f"{PROGRESS}/onto-{number}")
        found.append(since_walk(depth, maps, plan.views, views, look))
    return tuple(found)


def _depth_of_walk(stage: Stage, plan: StreetPlan, executor: Executor, folder: str) -> DayDepth:
    """The confirmed depth of an earlier walk's views, read when asked for; none of a single view."""
    if len(plan.views) < 2:
        return ()
    street_depth(stage, plan, executor, folder)
    names = tuple(plan.views[k].name for k in depth_views(plan.views, plan.config))
    return DepthFolder(stage.path(f"{folder}/street"), names, DEPTH_BYTES)


def _views_beside(one: EarlierRun, maps: list[DepthMap], config: ChangeConfig) -> tuple[View, ...]:
    """The training views of an earlier walk that may see what the walk sees; its test views decide nothing.

    Two views that look at the same thing stand at most twice the farthest distance apart at which it is compared.
    """
    walked = rigid.centres_in_world([found.cam_from_world for found in maps])
    views = one.views.views.training
    centres = rigid.centres_in_world([view.cam_from_world for view in views])
    away, _ = cKDTree(walked).query(centres)
    return tuple(view for view, metres in zip(views, away, strict=True) if metres <= 2.0 * config.farthest_m)
