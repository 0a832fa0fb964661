"""Groups of one walk among each other: whether the walk between them leads there, and which bear each other out."""

from __future__ import annotations

from dataclasses import asdict
from itertools import combinations
from math import isnan

import numpy as np

from skyanchor.anchors.config import AnchorConfig, OdometryConfig
from skyanchor.anchors.odometry import Walk, reckoned
from skyanchor.anchors.priors import Near
from skyanchor.anchors.verdict import VerdictConfig, is_sure, strength
from skyanchor.bridges.ground import Ground
from skyanchor.geometry import rigid
from skyanchor.types import AnchorGroup, Bools, Floats, LocalisedGroup, Reason, Refusal, Sequence

MOST_DOUBT = 1.0
"""Powers of ten: about one group of ten is refused at the right place, and nearly all are at the wrong one."""
APART_M = 40.0
"""Groups this far from each other see other houses."""


def group_centre(group: LocalisedGroup) -> Floats:
    """(3,), mean camera centre of an accepted group, metres."""
    return np.asarray(rigid.centres_in_world([a.cam_from_world for a in group.poses]).mean(axis=0))


def off_course(walk: Walk, a: LocalisedGroup, b: LocalisedGroup, config: OdometryConfig) -> bool:
    """Whether the walk between two accepted groups leads elsewhere, seen from either of them; a cut leads anywhere."""
    if not walk.joins(a.group, b.group):
        return False
    misses = []
    for known, other in ((a, b), (b, a)):
        place, within = reckoned(walk, known, other.group, config)
        misses.append(float(np.linalg.norm(group_centre(other) - place)) / within)
    return min(misses) > 1.0


def disagreeing(groups: list[LocalisedGroup], walk: Walk, config: OdometryConfig) -> list[int]:
    """Accepted groups that lie where the walk between them does not lead, fewest to drop, weakest first.

    Of every two that contradict each other the one in more contradictions goes, of two alike the one of lower odds.
    """
    accepted = [i for i, g in enumerate(groups) if g.accepted]
    clash = {i: set[int]() for i in accepted}
    for i, j in combinations(accepted, 2):
        if off_course(walk, groups[i], groups[j], config):
            clash[i].add(j)
            clash[j].add(i)
    dropped: list[int] = []
    while any(clash.values()):
        worst = max(clash, key=lambda i: (len(clash[i]), tuple(-part for part in strength(groups[i].figures))))
        dropped.append(worst)
        for others in clash.values():
            others.discard(worst)
        del clash[worst]
    return dropped


def neighbour_prior(
    groups: list[LocalisedGroup], index: int, walk: Walk, ground: Ground, config: OdometryConfig
) -> tuple[Near, ...]:
    """Where the walk from the nearest accepted group on either side, before a cut, leads; the smaller circle."""
    circles: list[Near] = []
    for side in (range(index - 1, -1, -1), range(index + 1, len(groups))):
        known = next((groups[i] for i in side if groups[i].accepted), None)
        if known is not None and walk.joins(known.group, groups[index].group):
            place, within = reckoned(walk, known, groups[index].group, config)
            x, y = ground.across @ place
            circles.append(Near(float(x), float(y), within))
    return (min(circles, key=lambda c: c.radius),) if circles else ()


def borne_out(
    groups: list[LocalisedGroup], sequence: Sequence, config: AnchorConfig, stretch: int, prior: float = 0.0
) -> list[LocalisedGroup]:
    """The groups; in a stretch where nothing is sure all are refused.

    Those accepted in one stretch agree with the walk between them, so one that is sure bears the others out, and so do
    several that would be in a small model, if their odds together are enough for this one (`_sure_together`). `prior`
    is what the user's word on where they are adds to the odds, and the size of the model takes from them, powers of
    ten.
    """
    mine = [sequence.stretch_of(group.frames[0]) == stretch for group in sequence.groups]
    accepted = [i for i, group in enumerate(groups) if group.accepted and mine[i]]
    doubted = {i: _doubt([groups[k] for k in (i - 1, i + 1) if 0 <= k < len(groups) and mine[k]]) for i in accepted}
    alone = any(is_sure(groups[i].figures, config.verdict, prior - doubted[i]) for i in accepted)
    certain = [i for i in accepted if is_sure(groups[i].figures, config.verdict, -doubted[i])]
    against = sum(_against(group) for group, one in zip(groups, mine, strict=True) if one)
    if alone or _sure_together([groups[i] for i in certain], config.verdict, prior - against):
        return groups
    return [_not_borne_out(group, sequence.groups[i]) if i in accepted else group for i, group in enumerate(groups)]


def _doubt(neighbours: list[LocalisedGroup]) -> float:
    """What refused neighbours take from the odds of a group, powers of ten.

    They were looked for where the walk from it leads: at the right place they would have been recognised there.
    """
    against = [group.figures.log_odds for group in neighbours if not group.accepted]
    return sum(min(MOST_DOUBT, -odds) for odds in against if odds < 0.0)  # nan where nothing was measured


def _against(group: LocalisedGroup) -> float:
    """What a refused group takes from the odds of all others together, powers of ten.

    The walk from them leads somewhere: that it was recognised elsewhere, or hardly is there, is a doubt about them all.
    """
    if group.accepted:
        return 0.0
    said = [*group.attempts, *([] if group.refusal is None else [group.refusal])]
    elsewhere = any(refusal.reason is Reason.OFF_THE_WALK for refusal in said)
    return MOST_DOUBT if elsewhere else _doubt([group])


def _sure_together(certain: list[LocalisedGroup], verdict: VerdictConfig, narrowed: float) -> bool:
    """Whether groups, each sure but for the size of the model, are sure together: those that see other houses.

    A look-alike would have to explain all of them where the walk from one leads to the next, in circles smaller than
    the models that the odds were fitted on: so odds multiply, and the size of this one is paid once. Of groups side by
    side one counts: a walk past one look-alike is put beside it twice, and agrees with itself.
    """
    ordered = sorted(certain, key=lambda group: group.figures.log_odds, reverse=True)
    odds = np.array([group.figures.log_odds for group in ordered])
    centres = np.reshape([group_centre(group) for group in ordered], (-1, 3))
    apart = np.linalg.norm(centres[:, None] - centres, axis=2) >= APART_M
    return any(odds[_chain(first, apart)].sum() + narrowed >= verdict.sure_odds for first in range(len(ordered)))


def _chain(first: int, apart: Bools) -> list[int]:
    """One of the groups, and in their order those that stand `apart` (G, G) from all that were taken before them."""
    taken, free = [first], apart[first].copy()
    for group in range(len(apart)):
        if free[group]:
            taken.append(group)
            free &= apart[group]
    return taken


def _not_borne_out(group: LocalisedGroup, original: AnchorGroup) -> LocalisedGroup:
    """An accepted group refused, because neither it nor any other makes its place sure."""
    figures = group.figures
    told = f"{figures.ratio:.0%} of the matches agree"
    if not isnan(figures.confirmed):
        told = f"{figures.confirmed:.0%} of the fronts in sight are recognised, {told}"
    text = f"Only {told}, and no other group makes the place sure."
    return refused(group, original, Refusal(Reason.NOT_BORNE_OUT, text, asdict(figures)))


def refused(group: LocalisedGroup, original: AnchorGroup, reason: Refusal) -> LocalisedGroup:
    """The group as it was asked for, without poses, with what was measured of it."""
    return LocalisedGroup(original, (), reason, group.figures, group.attempts, group.cross_view, group.overlap)


def off_the_walk(group: LocalisedGroup) -> Refusal:
    """Why a group is refused that others contradict."""
    return Refusal(Reason.OFF_THE_WALK, "The walk from other groups does not lead there.", asdict(group.figures))
