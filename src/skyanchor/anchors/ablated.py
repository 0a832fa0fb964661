"""A group's way with a part of the method left out: no bridges, no alignment, no shape first, single frames."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.focal import standing
from skyanchor.anchors.group import Settle, anchor_poses, attempt, climbed, places_of, settle_on_bridges
from skyanchor.anchors.ladder import rungs
from skyanchor.anchors.paper_route.route import settle_both_ways, settle_by_similarity, settle_on_cameras
from skyanchor.anchors.paper_route.support import settle_on_photos
from skyanchor.anchors.place_refinement import Settled, settle, unadjusted
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.free import shape_from_free
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.feedforward import FreeFrame, FreeFrames
from skyanchor.types import AnchorGroup, AnchorPose, GroupFigures, LocalisedGroup, Reason, Refusal


def localise_ablated(search: Search, group: AnchorGroup) -> tuple[LocalisedGroup, float]:
    """As `localise_group`, by what the ablation leaves of the method."""
    ablation, way = search.config.ablation, way_left(search.config)
    if ablation.single_frame:
        return frame_by_frame(search, group, _for_one(way)), 1.0
    if not ablation.ground_first:
        return cross_view_first(search, group, way)
    return climbed(search, group, rungs(search.frames.sequence, group, search.config), way)


def way_left(config: AnchorConfig) -> Settle:
    """From a group's shape to its place, by the route and what the ablation leaves of it."""
    ablation = config.ablation
    if config.route == "paper":
        return settle_on_cameras if ablation.metric_alignment else settle_by_similarity
    if not ablation.bridges:
        return settle_on_photos
    if not ablation.metric_alignment:
        return unaligned
    alone = ablation.single_frame or not ablation.ground_first  # the paper's way has no word on a frame alone
    return settle_both_ways if config.route == "both" and not alone else settle_on_bridges


def _for_one(way: Settle) -> Settle:
    """The way of a frame alone: the paper's route, which reconstructs a group, has its matches lifted instead."""
    return settle_on_photos if way in (settle_on_cameras, settle_by_similarity) else way


def unaligned(search: Search, local: LocalGroup) -> Settled:
    """The best place as it was found, without metric alignment."""
    places = places_of(search, local)
    if not places or places[0].support < search.config.verdict.least_support:
        nowhere = Refusal(Reason.NO_PLACE, "No place of the scaffold looks like these frames.")
        return Settled(local, None, nowhere)
    return unadjusted(local, places[0].solution.cams_from_world, places[0].support)


def frame_by_frame(search: Search, group: AnchorGroup, way: Settle) -> LocalisedGroup:
    """Every frame on its own, by aerial evidence alone; those accepted make the group."""
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


def cross_view_first(search: Search, group: AnchorGroup, way: Settle) -> tuple[LocalisedGroup, float]:
    """The group without ground-first reconstruction: cross-view matches lead, the frames' own matches come after.

    Each frame finds its pose by aerial evidence alone; those poses start the group's shape, and it is settled whole.
    """
    alone = frame_by_frame(search, group, _for_one(way))
    shape = led_shape(search, alone)
    if isinstance(shape, Refusal):
        return LocalisedGroup(group, (), shape, alone.figures, alone.attempts), 1.0
    poses = tuple(pose.cam_from_world for pose in alone.poses if pose.frame in shape.frames)
    on_bridges = way is settle_on_bridges
    settled = settle(search, shape, standing(shape, poses)) if on_bridges else way(search, shape)
    if settled.refusal is not None or settled.done is None:
        refusal = settled.refusal or Refusal(Reason.NO_PLACE, "No place was found.")
        return LocalisedGroup(group, (), refusal, settled.figures, alone.attempts, settled.cross_view), 1.0
    kept = tuple(i for i in group.frames if i in shape.frames)
    found = LocalisedGroup(group, anchor_poses(search, settled, kept), None, settled.figures, alone.attempts)
    return replace(found, cross_view=settled.cross_view), settled.done.focal_scale


def led_shape(search: Search, alone: LocalisedGroup) -> LocalGroup | Refusal:
    """The shape that poses of single frames start and the frames' own matches then adjust; or why there is none."""
    frames = tuple(pose.frame for pose in alone.poses)
    if len(frames) < 2:
        return alone.refusal or Refusal(Reason.GROUP_FALLS_APART, f"{len(frames)} frame found a pose of its own.")
    nothing = np.zeros((1, 1), np.float32)
    free = FreeFrames(tuple(FreeFrame(pose.frame, pose.cam_from_world, nothing, nothing) for pose in alone.poses))
    matcher = search.config.ground_matcher
    features = tuple(search.frames.features(i, matcher) for i in frames)
    return shape_from_free(frames, features, search.camera, matcher.load(), free, search.config.local)
