"""A place that stands, looked at once more with a matcher that is slower to find a place and more exact at it."""

from __future__ import annotations

from dataclasses import replace

from skyanchor.anchors.focal import standing
from skyanchor.anchors.likelihood import exact_log_odds
from skyanchor.anchors.place_refinement import Settled, settle
from skyanchor.anchors.search import Search, unwatched
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.verdict import judge
from skyanchor.types import GroupFigures, Pose, Reason

TELLS = 2.0
"""Powers of ten: what the last look adds to the odds where most of its matches agree."""


def sharpened(search: Search, settled: Settled) -> Settled:
    """The place by the last look where the group stands by that too; else by the first one, if the odds of both allow.

    Semi-dense matches tell where a group is, keypoints to a fraction of a pixel where exactly, and with what focal
    length; and where hardly any of them agree, that it is a look-alike. So the odds are those of both looks. A place
    that only its odds speak against is looked at too, where the last look could still tell it from a look-alike.
    """
    if settled.local is None or settled.done is None or not in_question(search, settled):
        return settled
    sharp = _by_both(search, settled, settled.local, settled.done.cams_from_world)
    if sharp is not settled:
        search.watch(sharp)
    return sharp


def _by_both(search: Search, settled: Settled, local: LocalGroup, poses: tuple[Pose, ...]) -> Settled:
    """A place by the last look, or by the first one with the odds of both."""
    lens = replace(search.lens, factor=search.lens.factor * settled.focal)
    again = _looked(replace(search, lens=lens), local, poses)
    if again is None:
        return settled
    known = with_last_look(settled.figures, again)
    exact = _standing_by(search, again, known)
    if exact is None:
        return replace(settled, figures=known, refusal=judge(known, search.config.verdict))
    stands = replace(settled, done=exact.done, refusal=None, figures=exact.figures, support=exact.support)
    return replace(stands, at=exact.at, cross_view=exact.cross_view)


def in_question(search: Search, settled: Settled) -> bool:
    """Whether a last look can change what is known of the place: it stands, or is refused for its odds by little."""
    if settled.refusal is None:
        return True
    least = search.config.verdict.least_odds
    return settled.refusal.reason is Reason.LOOK_ALIKE and settled.figures.log_odds + TELLS >= least


def last_look(search: Search, local: LocalGroup, poses: tuple[Pose, ...], known: GroupFigures) -> Settled | None:
    """A group near the given poses by the last look alone, with the odds known of it; None where it does not stand."""
    again = _looked(search, local, poses)
    return None if again is None else _standing_by(search, again, known)


def _looked(search: Search, local: LocalGroup, poses: tuple[Pose, ...]) -> Settled | None:
    """What the exact matcher makes of a group near the given poses; None where there is none."""
    refine = search.config.refine
    if refine.last is None:
        return None
    config = replace(search.config, refine=replace(refine, matcher=refine.last, last=None))
    return settle(replace(search, config=config, watch=unwatched), local, standing(local, poses), warm=True)


def _standing_by(search: Search, again: Settled, known: GroupFigures) -> Settled | None:
    """The last look where the group stands by all that it measured, and by the odds known; else None."""
    figures = with_odds_of(known, again.figures)
    if again.done is None or judge(figures, search.config.verdict) is not None:
        return None
    return replace(again, figures=figures, refusal=None)


def with_last_look(first: GroupFigures, again: Settled) -> GroupFigures:
    """The figures of the first look, with the share of the last one's matches that agree and the odds by both."""
    if not again.turns:
        return first
    turn = again.turns[-1]
    odds = first.log_odds + exact_log_odds(turn.agreeing, turn.matches)
    share = turn.agreeing / max(turn.matches, 1)
    return replace(first, exact=float(turn.matches), exact_share=share, log_odds=odds)


def with_odds_of(known: GroupFigures, last: GroupFigures) -> GroupFigures:
    """The figures of the last look with the odds that are known, and what these rest on."""
    of_views = ("fronts", "confirmed", "ground", "ground_confirmed", "edges", "edges_met")
    kept = (*of_views, "exact", "exact_share", "log_odds")
    return replace(last, **{name: getattr(known, name) for name in kept})
