"""A place that stands, looked at once more with a matcher that is slower to find a place and more exact at it."""

from __future__ import annotations

from dataclasses import replace

from skyanchor.anchors.focal import standing
from skyanchor.anchors.place import Settled, settle
from skyanchor.anchors.search import Search, unwatched
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.verdict import judge
from skyanchor.types import GroupFigures, Pose


def sharpened(search: Search, settled: Settled) -> Settled:
    """The place by the last look where the group stands by that too, else as it was."""
    if settled.local is None or settled.done is None or settled.refusal is not None:
        return settled
    lens = replace(search.lens, factor=search.lens.factor * settled.focal)
    again = last_look(replace(search, lens=lens), settled.local, settled.done.cams_from_world, settled.figures)
    if again is None:
        return settled
    return replace(
        settled, done=again.done, figures=again.figures, support=again.support, at=again.at, cross_view=again.cross_view
    )


def last_look(search: Search, local: LocalGroup, poses: tuple[Pose, ...], first: GroupFigures) -> Settled | None:
    """A group near the given poses by the last look, with what the first measured there; None where it does not stand.

    Semi-dense matches tell where a group is and whether that is the right place, keypoints to a fraction of a pixel
    where exactly, and with what focal length. So the odds stay those of the first look; all else that is judged is what
    the last one measured.
    """
    refine = search.config.refine
    if refine.last is None:
        return None
    config = replace(search.config, refine=replace(refine, matcher=refine.last, last=None))
    again = settle(replace(search, config=config, watch=unwatched), local, standing(local, poses), warm=True)
    figures = with_odds_of(first, again.figures)
    if again.done is None or judge(figures, search.config.verdict) is not None:
        return None
    return replace(again, figures=figures, refusal=None)


def with_odds_of(first: GroupFigures, last: GroupFigures) -> GroupFigures:
    """The figures of the last look with the odds of the first, and what these rest on."""
    kept = ("fronts", "confirmed", "ground", "ground_confirmed", "log_odds")
    return replace(last, **{name: getattr(first, name) for name in kept})
