"""Which focal length a camera has that nobody described: the one at which most of a group agrees with some place."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skyanchor.anchors.adjustment import FixedAerial, adjust_fixed_aerial
from skyanchor.anchors.evidence import GroupAt, sightings
from skyanchor.anchors.frames import Lens, with_focal
from skyanchor.anchors.place_finding import PlaceSeed, find_places
from skyanchor.anchors.place_refinement import Settled, settle
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.choice import group_shape, moving_shape
from skyanchor.anchors.shape.free import refocused
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.solve import GroupSolution, refined
from skyanchor.feedforward import Incremental
from skyanchor.geometry import similarity
from skyanchor.types import AnchorGroup, LocalisedGroup, Pose, Refusal, Similarity

FIT = 4
"""Power of the share of its matches that fit, by which a group counts: one with 90 % counts twice one with 76 %."""


@dataclass(frozen=True)
class FocalVotes:
    """What one group says about the focal lengths that were tried."""

    support: tuple[float, ...]
    """Per factor that was tried: ground keypoints that agree with the best place, 0 where there is none."""


def vote_focal(
    search: Search, group: AnchorGroup, seeds: tuple[PlaceSeed, ...], factors: tuple[float, ...]
) -> FocalVotes:
    """The support of the group's best place among `seeds` at each focal length that is tried."""
    frames, config = search.frames, search.config
    ground = tuple(frames.features(i, config.ground_matcher) for i in group.frames)
    matcher = frames.remembered(config.ground_matcher)
    support: list[float] = []
    local: LocalGroup | Refusal | None = None
    for factor in factors:
        camera = with_focal(search.camera, factor)
        if isinstance(local, LocalGroup) and isinstance(config.shape, Incremental):
            local = refocused(local, camera, config.local)
        if not isinstance(local, LocalGroup) or not isinstance(config.shape, Incremental):
            local = moving_shape(frames, group.frames, ground, camera, matcher, config)
        best = 0
        if isinstance(local, LocalGroup):
            places = find_places(seeds, local, camera, search.prepared.ground.up, config.places)
            best = places[0].support if places else 0
        support.append(float(best))
    return FocalVotes(tuple(support))


def elected(votes: tuple[FocalVotes, ...], factors: tuple[float, ...]) -> float:
    """The factor with the most support, every group's own best counting one; 1 when no group found any place."""
    total = np.zeros(len(factors))
    for vote in votes:
        most = max(vote.support)
        total += np.array(vote.support) / most if most > 0 else 0.0
    return float(factors[int(np.argmax(total))]) if total.any() else 1.0


def neighbours(factors: tuple[float, ...], chosen: float) -> tuple[float, ...]:
    """The factor nearest to the chosen one, and those next to it."""
    ordered = sorted(factors)
    at = int(np.argmin(np.abs(np.log(np.array(ordered) / chosen))))
    return tuple(ordered[max(0, at - 1) : at + 2])


def between(factors: tuple[float, ...], chosen: float) -> tuple[float, ...]:
    """Finer steps round the chosen factor: quarters of the steps to its neighbours, itself included."""
    steps = np.diff(np.log(sorted(factors)))
    step = float(np.median(steps)) if len(steps) else 0.0
    return tuple(chosen * float(np.exp(step * k / 4.0)) for k in (-2, -1, 0, 1, 2))


def agreed(groups: tuple[LocalisedGroup, ...], scales: tuple[float, ...]) -> float:
    """The focal scale that the accepted groups agree on: the median, weighted by the share of their matches that fit.

    A focal length that is off shows in matches that do not fit, so of two groups the better one decides.
    """
    held = sorted(
        (scale, group.figures.ratio**FIT) for group, scale in zip(groups, scales, strict=True) if group.accepted
    )
    if not held:
        return 1.0
    below = np.cumsum([weight for _, weight in held])
    return held[int(np.searchsorted(below, 0.5 * below[-1]))][0]


# --- the focal length of a group that stands ------------------------------------------------------------------------


def with_its_focal(search: Search, settled: Settled) -> Settled:
    """The place again with the focal length found there, until views rendered with it leave it as it is."""
    config, total = search.config.focal, 1.0
    for _ in range(config.turns):
        if settled.at is None or settled.done is None or abs(settled.done.focal_scale - 1.0) < config.settled:
            break
        found = _found(search, settled, total * settled.done.focal_scale)
        if found is None:
            break
        again, shape, solution = found
        total = again.lens.factor / search.lens.factor
        settled = settle(again, shape, solution, warm=True)
    return replace(settled, focal=total)


def _found(search: Search, settled: Settled, total: float) -> tuple[Search, LocalGroup, GroupSolution] | None:
    """The focal length at which the matches of a settled group stay where they are, with shape and pose there.

    Shape and pose follow the focal length; what was matched does not depend on it. None when the group falls apart.
    """
    assert settled.at is not None and settled.done is not None
    at, done, stays = settled.at, settled.done, search.config.focal.settled
    for _ in range(search.config.focal.turns):
        again = replace(search, lens=Lens(search.lens.factor * total, known=False))
        turned = _matches_kept(again, at, done.cams_from_world)
        if turned is None:
            return None
        at, done = turned
        if abs(done.focal_scale - 1.0) < stays:
            break
        total *= done.focal_scale
    return again, at.local, standing(at.local, done.cams_from_world)


def _matches_kept(search: Search, at: GroupAt, poses: tuple[Pose, ...]) -> tuple[GroupAt, FixedAerial] | None:
    """The group with the focal length of the search: its shape made anew, near where it stood, on the same matches."""
    config, frames, camera = search.config, search.frames, search.camera
    with frames.clock.step("shape of the group"):
        shape = group_shape(frames, at.local.frames, camera, config)
    if isinstance(shape, Refusal):
        return None
    with frames.clock.step("group pose"):
        near = standing(shape, poses).world_from_local
        solution = refined(sightings(at.matches, camera), shape.cams_from_local, near, config.refine.solve)
    with frames.clock.step("adjustment"):
        now = GroupAt(shape, camera, solution, at.matches, at.expected)
        done = adjust_fixed_aerial(search.prepared.atlas, now, config.adjustment, refine_focal=True)
    return None if done is None else (now, done)


def standing(shape: LocalGroup, poses: tuple[Pose, ...]) -> GroupSolution:
    """The group's shape laid on poses of its frames; a frame alone has no shape, and keeps its scale."""
    if len(poses) == 1:
        alone = poses[0].inverse @ shape.cams_from_local[0]
        world_from_local = Similarity(1.0, alone.rotation, alone.translation)
    else:
        world_from_local = similarity.align_cameras(shape.cams_from_local, poses)
    return GroupSolution(world_from_local, poses, np.empty(0, bool), 0.0)
