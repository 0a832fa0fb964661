"""A group's way with a part of the method left out: no bridges, no alignment, no shape of its own, a single frame."""

from __future__ import annotations

import numpy as np

from skyanchor.anchors.adjustment import FixedAerial
from skyanchor.anchors.direct import settle_on_photos
from skyanchor.anchors.group import Settle, anchor_poses, attempt, climbed, places_of, settle_on_bridges
from skyanchor.anchors.ladder import Rung, rungs
from skyanchor.anchors.paper import settle_on_cameras
from skyanchor.anchors.place import Settled
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.verdict import mean_step
from skyanchor.geometry import rigid
from skyanchor.types import AnchorGroup, AnchorPose, GroupFigures, LocalisedGroup, Reason, Refusal


def localise_ablated(search: Search, group: AnchorGroup) -> tuple[LocalisedGroup, float]:
    """As `localise_group`, by what the ablation leaves of the method."""
    ablation = search.config.ablation
    way: Settle = settle_on_bridges if ablation.metric_alignment else unaligned
    way = way if ablation.bridges else settle_on_photos
    way = settle_on_cameras if search.config.route == "paper" else way
    if not ablation.ground_first:
        return frame_by_frame(search, group, way), 1.0
    if ablation.single_frame:
        middle = group.frames[len(group.frames) // 2]
        return climbed(search, group, (Rung((middle,), search.config),), way)
    return climbed(search, group, rungs(search.frames.sequence, group, search.config), way)


def unaligned(search: Search, local: LocalGroup) -> Settled:
    """The best place as it was found, without metric alignment."""
    places = places_of(search, local)
    if not places or places[0].support < search.config.verdict.least_support:
        nowhere = Refusal(Reason.NO_PLACE, "No place of the scaffold looks like these frames.")
        return Settled(local, None, nowhere)
    poses, support = places[0].solution.cams_from_world, places[0].support
    none, nothing = np.empty(0, np.int64), np.empty((0, 3))
    covariances = np.tile(np.eye(6) * 0.25, (len(poses), 1, 1))
    done = FixedAerial(poses, covariances, none, none, none, np.inf, np.inf, nothing, 1.0)
    figures = GroupFigures(support, step_m=mean_step(rigid.centres_in_world(poses)), halves_m=0.0)
    return Settled(local, done, None, figures, support)


def frame_by_frame(search: Search, group: AnchorGroup, way: Settle) -> LocalisedGroup:
    """Every frame on its own, without ground-first reconstruction; those accepted make the group."""
    poses: list[AnchorPose] = []
    refusals: list[Refusal] = []
    figures = GroupFigures()
    for i in group.frames:
        settled = attempt(search, (i,), way)
        if settled.refusal is None and settled.done is not None:
            poses += anchor_poses(search, settled, (i,))
            figures = settled.figures
        else:
            refusals.append(settled.refusal or Refusal(Reason.NO_PLACE, "No place was found."))
    refusal = None if poses else refusals[-1]
    return LocalisedGroup(group, tuple(poses), refusal, figures, tuple(refusals))
