"""Which anchors each submap gets, which submaps are joined, and which group is wrong when two contradict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from skyanchor.trajectory.closure import Closure
from skyanchor.trajectory.config import TrajectoryConfig
from skyanchor.trajectory.jobs import SubmapJob, anchor_segments
from skyanchor.types import AnchorPose, Anchors, Reason, Refusal, Sequence, Submap


@dataclass(frozen=True)
class RejectedGroup:
    """An accepted anchor group that the trajectory contradicts."""

    group: int
    refusal: Refusal


def accepted_anchors(anchors: Anchors, without: Iterable[int] = ()) -> dict[int, AnchorPose]:
    """Anchors by frame, of all accepted groups except some."""
    left_out = set(without)
    groups = [g for g in anchors.groups if g.accepted and g.group.index not in left_out]
    return {pose.frame: pose for group in groups for pose in group.poses}


def plan_jobs(
    sequence: Sequence, anchors: Mapping[int, AnchorPose], anchors_camera: Anchors, config: TrajectoryConfig
) -> tuple[SubmapJob, ...]:
    """One job per submap, or per run of submaps whose common boundaries have no anchors; none without anchors."""
    jobs = []
    for submap in joined_submaps(sequence, anchors, config.merge_refused):
        held = submap_anchors(submap, anchors, config)
        if held:
            jobs.append(SubmapJob(submap, held, anchors_camera.camera, sequence.camera_is_guess, config))
    return tuple(jobs)


def joined_submaps(sequence: Sequence, anchors: Mapping[int, AnchorPose], merge_refused: bool) -> tuple[Submap, ...]:
    """Submaps in order; neighbours become one when there is no anchor on either side of their boundary, and no cut."""
    joined: list[Submap] = []
    for submap in sequence.submaps:
        if joined and sequence.stretch_of(joined[-1].frames[-1]) != sequence.stretch_of(submap.frames[0]):
            joined.append(submap)
            continue
        bare = not any(f in anchors for f in submap.frames)
        gone = joined and not (_rear_half(joined[-1], anchors) or _front_half(submap, anchors))
        lonely = joined and (bare or not any(f in anchors for f in joined[-1].frames))
        if joined and (lonely or (merge_refused and gone)):
            before = joined.pop()
            submap = Submap(before.index, (*before.frames, *submap.frames), before.front, submap.rear)
        joined.append(submap)
    return tuple(joined)


def _rear_half(submap: Submap, anchors: Mapping[int, AnchorPose]) -> bool:
    return any(f in anchors for f in submap.frames[len(submap.frames) // 2 :])


def _front_half(submap: Submap, anchors: Mapping[int, AnchorPose]) -> bool:
    return any(f in anchors for f in submap.frames[: (len(submap.frames) + 1) // 2])


def submap_anchors(
    submap: Submap, anchors: Mapping[int, AnchorPose], config: TrajectoryConfig
) -> tuple[AnchorPose, ...]:
    """The anchors a submap may use: at most `group_size` at each end, the outermost; the front alone if so asked."""
    inside = [f for f in submap.frames if f in anchors]
    segments = anchor_segments(inside)
    size = config.ablation.group_size
    chosen: list[int] = []
    for k, segment in enumerate(segments):
        outermost = segment[:size] if k < len(segments) / 2 else segment[-size:]
        chosen += outermost if k == 0 or config.ablation.rear_anchors else ()
    return tuple(anchors[f] for f in chosen)


def wrong_groups(closures: Iterable[Closure], anchors: Anchors) -> tuple[RejectedGroup, ...]:
    """Groups to leave out: of those that agree with no other group the one with most contradictions, and so on.

    Of two that contradict each other alone, the one whose own poses are less certain goes. Two groups that contradict
    each other but agree with further groups both stay; their submap says so.
    """
    owner = {pose.frame: g.group.index for g in anchors.groups if g.accepted for pose in g.poses}
    variance = {g.group.index: _variance(g.poses) for g in anchors.groups if g.accepted}
    links = [(owner[c.from_frames[-1]], owner[c.frames[0]], c) for c in closures]
    links = [link for link in links if link[0] != link[1]]
    agreeing = {g for a, b, c in links if not c.contradiction for g in (a, b)}
    open_links = [link for link in links if link[2].contradiction]
    rejected: list[RejectedGroup] = []
    while True:
        count = Counter(g for a, b, _ in open_links for g in (a, b) if g not in agreeing)
        if not count:
            return tuple(rejected)
        wrong = max(count, key=lambda g: (count[g], variance[g], -g))
        a, b, closure = next(link for link in open_links if wrong in link[:2])
        rejected.append(RejectedGroup(wrong, _why(wrong, b if wrong == a else a, closure)))
        open_links = [link for link in open_links if wrong not in link[:2]]


def _variance(poses: tuple[AnchorPose, ...]) -> float:
    return float(np.mean([np.trace(pose.covariance[3:, 3:]) for pose in poses])) if poses else np.inf


def _why(wrong: int, other: int, closure: Closure) -> Refusal:
    detail = (
        f"Anchor group {wrong} contradicts group {other}: the map between them misses it by {closure.gap_m:.2f} m and"
        f" {closure.gap_deg:.1f} deg after {closure.path_m:.0f} m, {closure.sigmas:.0f} times the expected drift."
    )
    figures = {"gap_m": closure.gap_m, "gap_deg": closure.gap_deg, "path_m": closure.path_m, "sigmas": closure.sigmas}
    return Refusal(Reason.CONTRADICTS_TRAJECTORY, detail, figures)


def same_job(a: SubmapJob, b: SubmapJob) -> bool:
    """Whether two jobs would give the same result."""
    return a.submap.frames == b.submap.frames and [p.frame for p in a.anchors] == [p.frame for p in b.anchors]
