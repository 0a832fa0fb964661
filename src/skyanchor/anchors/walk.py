"""The anchor stage over a whole sequence: every group, priors from its neighbours, and agreement along the walk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import TypeAlias

import numpy as np

from skyanchor.anchors.config import AnchorConfig, OdometryConfig
from skyanchor.anchors.focal import FocalVotes, elected, vote_focal
from skyanchor.anchors.frames import GroundFrames, with_focal
from skyanchor.anchors.group import PreparedScaffold, localise_group, prepare
from skyanchor.anchors.odometry import Steps, Walk, measure_steps, reckoned, walked
from skyanchor.anchors.priors import Near, Prior, gps_priors, local_priors
from skyanchor.anchors.verdict import is_sure
from skyanchor.bridges.ground import Ground
from skyanchor.events import Listener, Note, Progress, silent
from skyanchor.geometry import cameras, rigid
from skyanchor.types import (
    AnchorGroup,
    Anchors,
    DepthMap,
    Floats,
    LocalisedGroup,
    Reason,
    Refusal,
    Scaffold,
    Sequence,
    VisibilityGraph,
)


@dataclass(frozen=True)
class GroupTask:
    """One group to be localised, independent of the others."""

    group: AnchorGroup
    near: tuple[Prior, ...]
    """Where it may stand; anywhere when empty."""
    focal: float = 1.0
    """Factor on the focal length of the sequence's camera."""
    focal_known: bool = True
    """Whether that is the camera's focal length, or one to be refined."""


@dataclass(frozen=True, eq=False)
class GroupVerdict:
    """The verdict on one task."""

    localised: LocalisedGroup
    focal_scale: float
    """Focal length found over the one assumed."""
    seconds: dict[str, float]
    """Per step of the work on it."""


StepRunner: TypeAlias = Callable[[float], tuple[Steps, ...]]
"""The motion between all consecutive frames at a focal length, a factor on the sequence's."""
FocalRunner: TypeAlias = Callable[[tuple[GroupTask, ...]], tuple[FocalVotes, ...]]
"""Runs independent tasks, in whatever process, and returns what each group says of the focal length, in order."""
GroupRunner: TypeAlias = Callable[[tuple[GroupTask, ...]], tuple[GroupVerdict, ...]]
"""Runs independent tasks, in whatever process, and returns their verdicts in order."""


@dataclass(frozen=True)
class Runners:
    """Who does the work, in whatever process."""

    groups: GroupRunner
    focal: FocalRunner
    steps: StepRunner


def group_centre(group: LocalisedGroup) -> Floats:
    """(3,), mean camera centre of an accepted group, metres."""
    return np.asarray(rigid.centres_in_world([a.cam_from_world for a in group.poses]).mean(axis=0))


def off_course(walk: Walk, a: LocalisedGroup, b: LocalisedGroup, config: OdometryConfig) -> bool:
    """Whether the walk between two accepted groups leads elsewhere, seen from either of them."""
    misses = []
    for known, other in ((a, b), (b, a)):
        place, within = reckoned(walk, known, other.group, config)
        misses.append(float(np.linalg.norm(group_centre(other) - place)) / within)
    return min(misses) > 1.0


def disagreeing(groups: list[LocalisedGroup], walk: Walk, config: OdometryConfig) -> list[int]:
    """Accepted groups that lie where the walk between them does not lead, fewest to drop, weakest first.

    Of every two that contradict each other the one in more contradictions goes, of two alike the less supported.
    """
    accepted = [i for i, g in enumerate(groups) if g.accepted]
    clash = {i: set[int]() for i in accepted}
    for i, j in combinations(accepted, 2):
        if off_course(walk, groups[i], groups[j], config):
            clash[i].add(j)
            clash[j].add(i)
    dropped: list[int] = []
    while any(clash.values()):
        worst = max(clash, key=lambda i: (len(clash[i]), -groups[i].figures.support))
        dropped.append(worst)
        for others in clash.values():
            others.discard(worst)
        del clash[worst]
    return dropped


def _refused(group: LocalisedGroup, original: AnchorGroup, reason: Refusal) -> LocalisedGroup:
    return LocalisedGroup(original, (), reason, group.figures, group.attempts, group.cross_view)


def _off_the_walk(group: LocalisedGroup) -> Refusal:
    return Refusal(Reason.OFF_THE_WALK, "The walk from other groups does not lead there.", asdict(group.figures))


def neighbour_prior(
    groups: list[LocalisedGroup], index: int, walk: Walk, ground: Ground, config: OdometryConfig
) -> tuple[Near, ...]:
    """Where the walk from the nearest accepted group on either side leads; the smaller of the two circles."""
    circles: list[Near] = []
    for side in (range(index - 1, -1, -1), range(index + 1, len(groups))):
        known = next((groups[i] for i in side if groups[i].accepted), None)
        if known is not None:
            place, within = reckoned(walk, known, groups[index].group, config)
            x, y = ground.across @ place
            circles.append(Near(float(x), float(y), within))
    return (min(circles, key=lambda c: c.radius),) if circles else ()


def _initial_priors(frames: AnchorGroup, config: AnchorConfig, gps: dict[int, Near]) -> tuple[Prior, ...]:
    from_gps = tuple(gps[f] for f in frames.frames if f in gps)
    return from_gps or config.prior.near


def localise_task(prepared: PreparedScaffold, frames: GroundFrames, task: GroupTask) -> GroupVerdict:
    """The verdict on one task; `frames` takes on its focal length."""
    frames.focal, frames.focal_known = task.focal, task.focal_known
    found = localise_group(prepared, frames, task.group, frames.config, task.near)
    return GroupVerdict(*found, frames.clock.take())


def localise_prepared(
    prepared: PreparedScaffold, sequence: Sequence, config: AnchorConfig, listen: Listener = silent
) -> Anchors:
    """Every group of the sequence against a prepared scaffold, one after the other."""
    frames = GroundFrames(sequence, config)

    def run(tasks: tuple[GroupTask, ...]) -> tuple[GroupVerdict, ...]:
        verdicts: list[GroupVerdict] = []
        for task in tasks:
            verdicts.append(localise_task(prepared, frames, task))
            listen(Progress("anchors", "localise groups", len(verdicts), len(tasks), verdicts[-1].seconds))
        return tuple(verdicts)

    def vote(tasks: tuple[GroupTask, ...]) -> tuple[FocalVotes, ...]:
        parts = (prepared.index, prepared.ground, frames)
        return tuple(vote_focal(*parts, task.group, config, task.near) for task in tasks)

    def steps(focal: float) -> tuple[Steps, ...]:
        frames.focal = focal
        return (measure_steps(frames, 0, len(sequence.frames) - 1, config.odometry),)

    return localise_all(prepared.scaffold, prepared.ground, sequence, config, Runners(run, vote, steps), listen)


def localise_all(
    scaffold: Scaffold,
    ground: Ground,
    sequence: Sequence,
    config: AnchorConfig,
    runners: Runners,
    listen: Listener = silent,
) -> Anchors:
    """Verdicts on all groups: each on its own, then against the walk between them."""
    gps = gps_priors(scaffold, sequence, ground, config.prior.gps_radius, listen)
    verdicts, focal = _first_look(sequence, config, gps, runners, listen)
    groups = [verdict.localised for verdict in verdicts]
    if sequence.camera_is_guess:
        focal *= _median_scale(verdicts)
        groups = _calibrated(ground, groups, focal, sequence, config, runners.groups)
    if len(groups) > 1 and any(group.accepted for group in groups):
        groups = _along_the_walk(ground, groups, focal, sequence, config, runners, listen)
    groups = borne_out(groups, sequence.groups, config)
    _tell_shapes(groups, listen)
    camera = sequence.camera if focal == 1.0 else with_focal(cameras.undistorted(sequence.camera), focal)
    return Anchors(tuple(groups), camera)


def _tell_shapes(groups: list[LocalisedGroup], listen: Listener) -> None:
    """Say for how many groups the feed-forward shape was not taken."""
    count = sum(any(one.reason == Reason.FEED_FORWARD_REFUSED for one in group.attempts) for group in groups)
    if count:
        text = f"the feed-forward shape of {count} of {len(groups)} groups was not taken: their matches contradict it"
        listen(Note("anchors", text, warning=True))


def _first_look(
    sequence: Sequence, config: AnchorConfig, gps: dict[int, Near], runners: Runners, listen: Listener
) -> tuple[tuple[GroupVerdict, ...], float]:
    """(a verdict on each group on its own, the focal length of the look); EXIF that no group bears out is dropped."""
    tasks = tuple(GroupTask(group, _initial_priors(group, config, gps)) for group in sequence.groups)
    focal = 1.0
    if sequence.focal_sigma > config.focal.vote_above:
        focal = elected(runners.focal(tasks), config.focal.factors)
        listen(Note("anchors", f"most agrees at {focal:.2f} of the guessed focal length"))
    tasks = tuple(replace(task, focal=focal, focal_known=not sequence.camera_is_guess) for task in tasks)
    verdicts = runners.groups(tasks)
    if gps and not any(verdict.localised.accepted for verdict in verdicts):
        listen(Note("anchors", "no group was found where EXIF says: all are looked for without it"))
        return _first_look(sequence, config, {}, runners, listen)
    return verdicts, focal


def _median_scale(verdicts: tuple[GroupVerdict, ...]) -> float:
    """Focal length that the accepted groups found, over the one they assumed."""
    scales = [verdict.focal_scale for verdict in verdicts if verdict.localised.accepted]
    return float(np.median(scales)) if scales else 1.0


def _calibrated(
    ground: Ground,
    groups: list[LocalisedGroup],
    focal: float,
    sequence: Sequence,
    config: AnchorConfig,
    run: GroupRunner,
) -> list[LocalisedGroup]:
    """The accepted groups again with the focal length they agree on, near where they were found."""
    wanted = [i for i, group in enumerate(groups) if group.accepted]
    tasks = []
    for i in wanted:
        x, y = ground.across @ group_centre(groups[i])
        near = (Near(float(x), float(y), config.focal.again_within),)
        tasks.append(GroupTask(sequence.groups[i], near, focal))
    again = [verdict.localised for verdict in run(tuple(tasks))]
    for i, localised in zip(wanted, again, strict=True):
        groups[i] = localised
    return groups


def _along_the_walk(
    ground: Ground,
    groups: list[LocalisedGroup],
    focal: float,
    sequence: Sequence,
    config: AnchorConfig,
    runners: Runners,
    listen: Listener,
) -> list[LocalisedGroup]:
    """The groups with those refused that the walk contradicts, and those that failed tried where it leads."""
    walk = walked(runners.steps(focal))
    for i in disagreeing(groups, walk, config.odometry):
        groups[i] = _refused(groups[i], sequence.groups[i], _off_the_walk(groups[i]))
    for i, group in enumerate(sequence.groups):
        if not groups[i].accepted:
            near = neighbour_prior(groups, i, walk, ground, config.odometry)
            task = GroupTask(group, near, focal)
            groups[i] = _retried(groups, i, task, walk, config, runners.groups, listen) if near else groups[i]
    return groups


def borne_out(
    groups: list[LocalisedGroup], asked: tuple[AnchorGroup, ...], config: AnchorConfig
) -> list[LocalisedGroup]:
    """The groups; a single accepted one that is not sure by itself is refused where nobody said where the walk was.

    Those accepted agree with the walk between them, so two of them bear each other out.
    """
    accepted = [i for i, group in enumerate(groups) if group.accepted]
    if len(accepted) != 1 or config.prior.near or is_sure(groups[accepted[0]].figures, config.verdict):
        return groups
    (only,) = accepted
    figures = groups[only].figures
    text = f"Only {figures.ratio:.0%} of the matches agree, and no other group bears the place out."
    alone = _refused(groups[only], asked[only], Refusal(Reason.NOT_BORNE_OUT, text, asdict(figures)))
    return [*groups[:only], alone, *groups[only + 1 :]]


def _retried(
    groups: list[LocalisedGroup],
    index: int,
    task: GroupTask,
    walk: Walk,
    config: AnchorConfig,
    run: GroupRunner,
    listen: Listener,
) -> LocalisedGroup:
    """A refused group tried once more where the walk from its neighbours leads; it must then lie on that walk."""
    before = groups[index]
    again = run((task,))[0].localised
    attempts = (*before.attempts, *((before.refusal,) if before.refusal else ()), *again.attempts)
    again = replace(again, attempts=attempts)
    trial = [*groups[:index], again, *groups[index + 1 :]]
    if again.accepted and disagreeing(trial, walk, config.odometry):
        return _refused(again, task.group, _off_the_walk(again))
    word = "accepted" if again.accepted else "refused"
    listen(Note("anchors", f"group {index} {word} on a second look where the walk from its neighbours leads"))
    return again


def localise(
    scaffold: Scaffold,
    graph: VisibilityGraph,
    depth_maps: tuple[DepthMap, ...],
    sequence: Sequence,
    config: AnchorConfig | None = None,
    listen: Listener = silent,
) -> Anchors:
    """Stage 1: a verdict on every anchor group of the sequence, poses in the scaffold's frame."""
    config = config or AnchorConfig()
    config = replace(config, prior=replace(config.prior, near=local_priors(config.prior.near, scaffold)))
    prepared = prepare(scaffold, graph, depth_maps, sequence.camera, config, config.prior.near, listen)
    return localise_prepared(prepared, sequence, config, listen)
