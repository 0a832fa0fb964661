"""The anchor stage over a whole sequence: every group, priors from its neighbours, and agreement along the walk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from skyanchor.anchors.ablated import localise_ablated
from skyanchor.anchors.agreement import (
    borne_out,
    disagreeing,
    group_centre,
    neighbour_prior,
    off_the_walk,
    refused,
)
from skyanchor.anchors.config import AnchorAblation, AnchorConfig
from skyanchor.anchors.focal import FocalVotes, agreed, between, elected, neighbours
from skyanchor.anchors.frames import Lens, camera_of, spread_over
from skyanchor.anchors.group import climbed, localise_again, localise_group
from skyanchor.anchors.ladder import Rung, rungs
from skyanchor.anchors.odometry import Steps, Walk, walked
from skyanchor.anchors.paper_route.route import settle_both_ways, settle_on_cameras
from skyanchor.anchors.prepared_scaffold import PreparedScaffold
from skyanchor.anchors.priors import Near, Prior, allowed, gps_priors, narrowed
from skyanchor.anchors.search import Search
from skyanchor.anchors.self_lens import agreed_k1, agreed_k1_k2, joint_estimate, lens_advice
from skyanchor.anchors.walk_votes import Said, Voters, hints_for, middle_frame, voting_frames
from skyanchor.events import ANCHORS, Listener, Note, silent
from skyanchor.types import (
    QUIET,
    AnchorGroup,
    AnchorPose,
    Anchors,
    GroupFigures,
    LensEstimate,
    LocalisedGroup,
    Reason,
    Sequence,
    TriedPlace,
)


@dataclass(frozen=True)
class GroupTask:
    """One group to be localised, independent of the others."""

    group: AnchorGroup
    near: tuple[Prior, ...]
    """Where it may stand; anywhere when empty."""
    lens: Lens = field(default_factory=Lens)
    found: tuple[AnchorPose, ...] = ()
    """Where it was found with nearly the same lens; looked at first."""
    figures: GroupFigures | None = None
    """What was measured there, by the flight alone and with so much the same lens that its odds still hold."""
    hints: tuple[Near, ...] = ()
    """Where the walk says that it stands; empty where the walk was not asked."""


@dataclass(frozen=True, eq=False)
class GroupVerdict:
    """The verdict on one task."""

    localised: LocalisedGroup
    focal_scale: float
    """Focal length found over the one assumed."""
    seconds: dict[str, float]
    """Per step of the work on it."""
    tried: tuple[TriedPlace, ...] = field(default=(), metadata=QUIET)
    """Places that were looked at, in order."""


def verdict_on(search: Search, task: GroupTask) -> GroupVerdict:
    """The verdict on one group, by the method or by what an ablation leaves of it."""
    if search.config.ablation != AnchorAblation():
        localised, focal_scale = localise_ablated(search, task.group)
    elif search.config.route != "bridges":
        way = settle_on_cameras if search.config.route == "paper" else settle_both_ways
        localised, focal_scale = climbed(search, task.group, _rungs(search, task.group), way)
    elif task.found:
        localised, focal_scale = localise_again(search, task.group, task.found, task.figures)
    else:
        localised, focal_scale = localise_group(search, task.group)
    return GroupVerdict(localised, focal_scale, search.frames.clock.take(), tuple(search.tried))


def _rungs(search: Search, group: AnchorGroup) -> tuple[Rung, ...]:
    return rungs(search.frames.sequence, group, search.config)


class Runner(Protocol):
    """Does the work on independent tasks, in whatever process, and returns what came of each, in order."""

    def groups(self, tasks: tuple[GroupTask, ...]) -> tuple[GroupVerdict, ...]:
        """The verdict on each group."""
        ...

    def votes(self, tasks: tuple[GroupTask, ...], factors: tuple[float, ...]) -> tuple[FocalVotes, ...]:
        """What each group says of the focal lengths that are tried."""
        ...

    def steps(self, lens: Lens) -> tuple[Steps, ...]:
        """The motion between all consecutive frames, stretch by stretch."""
        ...

    def looks(self, frames: tuple[int, ...]) -> Said:
        """How much the frames are like all described places, for any of them."""
        ...


@dataclass(frozen=True, eq=False)
class _Outing:
    """What all groups of a walk share."""

    prepared: PreparedScaffold
    sequence: Sequence
    config: AnchorConfig
    runner: Runner
    listen: Listener

    def tell(self, text: str, warning: bool = False) -> None:
        self.listen(Note(ANCHORS, text, warning))


def localise_walk(
    prepared: PreparedScaffold,
    sequence: Sequence,
    config: AnchorConfig,
    runner: Runner,
    listen: Listener = silent,
) -> Anchors:
    """Stage 2: a verdict on every group, each on its own, then against the walk between them.

    `config.prior.near` is in the scaffold's coordinates, see `priors.local_priors`.
    """
    outing = _Outing(prepared, sequence, config, runner, listen)
    gps = gps_priors(prepared.scaffold, sequence, prepared.ground, config.prior.gps_radius, listen)
    verdicts, lens = _first_look(outing, gps)
    groups = [verdict.localised for verdict in verdicts]
    if sequence.camera_is_guess:
        verdicts, lens = _unbent(outing, verdicts, lens)
        groups = [verdict.localised for verdict in verdicts]
        scales = tuple(verdict.focal_scale for verdict in verdicts)
        shared = agreed(tuple(groups), scales)
        lens = replace(lens, factor=lens.factor * shared, known=True)
        groups = _calibrated(outing, groups, lens, tuple(scale / shared for scale in scales))
    if len(groups) > 1 and any(group.accepted for group in groups):
        groups = _along_the_walk(outing, groups, lens)
    for stretch in range(len(sequence.cuts) + 1):
        groups = borne_out(groups, sequence, config, stretch, narrowed(config.prior.near, prepared.ground))
    _tell_shapes(outing, groups)
    camera = joint_estimate([group.lens for group in groups if group.accepted])
    for text in lens_advice(camera, sequence.camera_is_guess):
        outing.tell(text, warning=True)
    return Anchors(without_needless_k2(groups, camera), camera_of(sequence, lens), camera)


# --- looks at the groups --------------------------------------------------------------------------------------------


def without_needless_k2(groups: list[LocalisedGroup], joint: LensEstimate | None) -> tuple[LocalisedGroup, ...]:
    """The groups, with k1 and k2 of their own only where `joint`, the estimate of all of them, has these."""
    if joint is not None and joint.both is not None:
        return tuple(groups)
    return tuple(
        group if group.lens is None else replace(group, lens=replace(group.lens, both=None)) for group in groups
    )


def _initial_priors(frames: AnchorGroup, config: AnchorConfig, gps: dict[int, Near]) -> tuple[Prior, ...]:
    from_gps = tuple(gps[f] for f in frames.frames if f in gps)
    return from_gps or config.prior.near


def _tell_shapes(outing: _Outing, groups: list[LocalisedGroup]) -> None:
    """Say for how many groups the feed-forward shape was not taken."""
    refused = [any(why.reason is Reason.FEED_FORWARD_REFUSED for why in group.attempts) for group in groups]
    if any(refused):
        shapes = f"the feed-forward shape of {sum(refused)} of {len(groups)} groups"
        outing.tell(f"{shapes} was not taken: their matches contradict it", warning=True)


def _first_look(outing: _Outing, gps: dict[int, Near]) -> tuple[tuple[GroupVerdict, ...], Lens]:
    """(a verdict on each group on its own, the lens of the look); EXIF that no group bears out is dropped."""
    sequence, config = outing.sequence, outing.config
    tasks = tuple(GroupTask(group, _initial_priors(group, config, gps)) for group in sequence.groups)
    tasks = _with_hints(outing, tasks)
    focal = 1.0
    if sequence.focal_sigma > config.focal.vote_above:
        focal = _elected(outing, tasks)
        outing.tell(f"most agrees at {focal:.2f} of the guessed focal length")
    lens = Lens(focal, known=not sequence.camera_is_guess)
    verdicts = outing.runner.groups(tuple(replace(task, lens=lens) for task in tasks))
    if gps and not any(verdict.localised.accepted for verdict in verdicts):
        outing.tell("no group was found where EXIF says: all are looked for without it")
        return _first_look(outing, {})
    return verdicts, lens


def _with_hints(outing: _Outing, tasks: tuple[GroupTask, ...]) -> tuple[GroupTask, ...]:
    """The tasks, those that may stand in more places than a group can tell apart with what the walk says of them."""
    config, index, ground = outing.config.votes, outing.prepared.places, outing.prepared.ground
    flat = index.eyes @ ground.across.T
    free = {task.group.index: allowed(task.near, flat) for task in tasks}
    wide = [task for task in tasks if free[task.group.index].sum() > config.above]
    if not wide or outing.config.ablation != AnchorAblation():
        return tasks
    voting = {task.group.index: voting_frames(outing.sequence, task.group, config) for task in wide}
    asked = tuple(sorted({frame for frames in voting.values() for frame in frames}))
    said = outing.runner.looks(asked)
    walk, grid = walked(outing.runner.steps(Lens()), outing.sequence.cuts), outing.prepared.described_with.nodes
    hints: dict[int, tuple[Near, ...]] = {}
    for task in wide:
        k, frames = task.group.index, voting[task.group.index]
        voters = Voters(walk, middle_frame(task.group), frames, said(frames))
        hints[k] = hints_for(index, ground, voters, free[k], grid, config)
    outing.tell(f"{len(asked)} frames voted on where {len(wide)} groups stand, among {len(index)} views")
    return tuple(replace(task, hints=hints.get(task.group.index, ())) for task in tasks)


def _elected(outing: _Outing, tasks: tuple[GroupTask, ...]) -> float:
    """The focal length at which most of a few groups agrees with some place, over the guessed one."""
    config = outing.config.focal
    some = tuple(tasks[k] for k in spread_over(len(tasks), config.voters))
    votes: dict[float, tuple[float, ...]] = {}

    def best(factors: tuple[float, ...]) -> float:
        fresh = tuple(factor for factor in factors if factor not in votes)
        cast = outing.runner.votes(some, fresh) if fresh else ()
        votes.update({factor: tuple(vote.support[k] for vote in cast) for k, factor in enumerate(fresh)})
        known = tuple(sorted(votes))
        return elected(tuple(FocalVotes(held) for held in zip(*(votes[f] for f in known), strict=True)), known)

    coarse, tried = 0.0, 1.0
    while coarse != tried:
        coarse, tried = tried, best(neighbours(config.factors, tried))
    return best(between(config.factors, coarse))


@dataclass(frozen=True)
class _Bend:
    """Distortion to be taken out of the photos."""

    k1: float
    k2: float
    size: float
    """How much it is: of what is left afterwards this must be less."""

    def undoes(self, taken: _Bend) -> bool:
        """Whether what is left speaks against what was taken: it is no less, and no k2 of the same sign.

        A first estimate of k2 is far too small: while much distortion is left, the worst pixels hardly count. So a
        second one may be larger and go on in the same direction.
        """
        return self.size >= taken.size and not self.k2 * taken.k2 > 0.0


def _unbent(outing: _Outing, verdicts: tuple[GroupVerdict, ...], lens: Lens) -> tuple[tuple[GroupVerdict, ...], Lens]:
    """(the verdicts, the lens) with distortion that the groups agree on taken out of the photos, until none is left.

    k1 alone goes first: what it leaves is small, and says whether k2 is needed. Once k2 is out as well, k1 is looked at
    once more. Every step must leave as many groups standing as before, and less distortion.
    """
    verdicts, lens = _unbent_by(outing, verdicts, lens, _k1_alone)
    if _k1_alone(verdicts) is not None:
        return verdicts, lens
    verdicts, lens = _unbent_by(outing, verdicts, lens, _k1_and_k2)
    return (verdicts, lens) if lens.k2 == 0.0 else _unbent_by(outing, verdicts, lens, _k1_alone)


def _unbent_by(
    outing: _Outing,
    verdicts: tuple[GroupVerdict, ...],
    lens: Lens,
    told: Callable[[tuple[GroupVerdict, ...]], _Bend | None],
) -> tuple[tuple[GroupVerdict, ...], Lens]:
    for _ in range(outing.config.focal.unbend):
        groups = tuple(verdict.localised for verdict in verdicts)
        bend = told(verdicts)
        if bend is None:
            break
        shared = agreed(groups, tuple(verdict.focal_scale for verdict in verdicts))
        trial = Lens(lens.factor * shared, known=False, k1=lens.k1 + bend.k1, k2=lens.k2 + bend.k2)
        again = outing.runner.groups(tuple(_task_again(outing, i, group, trial) for i, group in enumerate(groups)))
        left = told(again)
        if (left is not None and left.undoes(bend)) or _standing(again) < _standing(verdicts):
            break
        outing.tell(f"the lens bends the picture: {_in_words(trial)}, found by the groups")
        verdicts, lens = again, trial
    return verdicts, lens


def _in_words(lens: Lens) -> str:
    return f"k1 = {lens.k1:.3f}" if lens.k2 == 0.0 else f"k1 = {lens.k1:.3f}, k2 = {lens.k2:.3f}"


def _k1_alone(verdicts: tuple[GroupVerdict, ...]) -> _Bend | None:
    k1 = agreed_k1(_estimates(verdicts))
    return None if k1 == 0.0 else _Bend(k1, 0.0, abs(k1))


def _k1_and_k2(verdicts: tuple[GroupVerdict, ...]) -> _Bend | None:
    both = agreed_k1_k2(_estimates(verdicts))
    return None if both is None else _Bend(both.k1, both.k2, both.moved)


def _estimates(verdicts: tuple[GroupVerdict, ...]) -> list[LensEstimate | None]:
    return [verdict.localised.lens for verdict in verdicts if verdict.localised.accepted]


def _standing(verdicts: tuple[GroupVerdict, ...]) -> int:
    return sum(verdict.localised.accepted for verdict in verdicts)


def _task_again(outing: _Outing, index: int, group: LocalisedGroup, lens: Lens) -> GroupTask:
    """A group with another lens: near where it was found, or as it was asked for where it was not."""
    original = outing.sequence.groups[index]
    if not group.accepted:
        return GroupTask(original, outing.config.prior.near, lens)
    x, y = outing.prepared.ground.across @ group_centre(group)
    near = (Near(float(x), float(y), outing.config.focal.again_within),)
    return GroupTask(original, near, lens, group.poses)


def _calibrated(
    outing: _Outing, groups: list[LocalisedGroup], lens: Lens, own: tuple[float, ...]
) -> list[LocalisedGroup]:
    """The accepted groups again with the focal length they agree on, near where they were found.

    `own` are the focal lengths of the groups over that.
    """
    tasks: dict[int, GroupTask] = {}
    for i, group in enumerate(groups):
        if group.accepted:
            same = abs(own[i] - 1.0) <= outing.config.focal.alike and group.overlap is None
            figures = group.figures if same else None
            tasks[i] = replace(_task_again(outing, i, group, lens), figures=figures)
    again = dict(zip(tasks, outing.runner.groups(tuple(tasks.values())), strict=True))
    return [again[i].localised if i in again else group for i, group in enumerate(groups)]


def _along_the_walk(outing: _Outing, groups: list[LocalisedGroup], lens: Lens) -> list[LocalisedGroup]:
    """The groups with those refused that the walk contradicts, and those that failed tried where it leads."""
    odometry, groups = outing.config.odometry, list(groups)
    walk = walked(outing.runner.steps(lens), outing.sequence.cuts)
    for i in disagreeing(groups, walk, odometry):
        groups[i] = refused(groups[i], outing.sequence.groups[i], off_the_walk(groups[i]))
    for i, group in enumerate(outing.sequence.groups):
        if not groups[i].accepted:
            near = neighbour_prior(groups, i, walk, outing.prepared.ground, odometry)
            groups[i] = _retried(outing, groups, i, GroupTask(group, near, lens), walk) if near else groups[i]
    return groups


def _retried(outing: _Outing, groups: list[LocalisedGroup], index: int, task: GroupTask, walk: Walk) -> LocalisedGroup:
    """A refused group tried once more where the walk from its neighbours leads; it must then lie on that walk."""
    before = groups[index]
    again = outing.runner.groups((task,))[0].localised
    attempts = (*before.attempts, *((before.refusal,) if before.refusal else ()), *again.attempts)
    again = replace(again, attempts=attempts)
    trial = [*groups[:index], again, *groups[index + 1 :]]
    if again.accepted and disagreeing(trial, walk, outing.config.odometry):
        return refused(again, task.group, off_the_walk(again))
    word = "accepted" if again.accepted else "refused"
    outing.tell(f"group {index} {word} on a second look where the walk from its neighbours leads")
    return again
