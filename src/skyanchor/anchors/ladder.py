"""What is tried before a group is given up."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skyanchor.anchors.config import AnchorAblation, AnchorConfig
from skyanchor.matching import AnyMatcher, XFeatStar, through_shade
from skyanchor.types import AnchorGroup, Sequence

SHADE_COSINE = 0.86
"""Cosine between descriptors of a match that confirms a place through shade, at least."""


@dataclass(frozen=True)
class Rung:
    """One attempt at a group."""

    frames: tuple[int, ...]
    config: AnchorConfig


def rungs(sequence: Sequence, group: AnchorGroup, config: AnchorConfig) -> tuple[Rung, ...]:
    """What is tried in turn: as it is, through shade, a wider search, shifted into its submap, twelve frames."""
    shifted, larger = _moved(sequence, group, config)
    wide, shade = _wider(config), in_shade(config)
    tries = (
        Rung(group.frames, config),
        Rung(group.frames, shade),
        Rung(group.frames, wide),
        Rung(shifted, config),
        Rung(larger, config),
    )
    kept: list[Rung] = []
    for rung in tries:
        if _there(sequence, rung.frames) and rung not in kept:
            kept.append(rung)
    return tuple(kept)


def _there(sequence: Sequence, frames: tuple[int, ...]) -> bool:
    """Whether all of the frames are there, and in one stretch."""
    if not frames or frames[0] < 0 or frames[-1] >= len(sequence.frames):
        return False
    return sequence.stretch_of(frames[0]) == sequence.stretch_of(frames[-1])


def in_shade(config: AnchorConfig) -> AnchorConfig:
    """Features that see through shadows and sunlit patches, in the frames and in the views rendered for them."""
    if not config.ladder.shade or config.route != "bridges" or config.ablation != AnchorAblation():
        return config
    return replace(
        config,
        places=replace(config.places, features=through_shade(config.places.features)),
        refine=replace(config.refine, matcher=_choosy(through_shade(config.refine.matcher))),
    )


def _choosy(choice: AnyMatcher) -> AnyMatcher:
    """Of semi-dense matches only the more alike: most edges of a shaded picture are those of its shadows."""
    if not isinstance(choice, XFeatStar):
        return choice
    return replace(choice, least_cosine=max(choice.least_cosine, SHADE_COSINE))


def _wider(config: AnchorConfig) -> AnchorConfig:
    """More voters, a longer shortlist, more seeds, more places refined."""
    factor = config.ladder.wider_search
    places = replace(
        config.places,
        shortlist=config.places.shortlist * factor,
        seeds=config.places.seeds * factor,
        voters=config.places.voters * 2,
    )
    paper = replace(config.paper, retrieved=config.paper.retrieved * factor, near=config.paper.near * factor)
    return replace(config, places=places, paper=paper, ladder=replace(config.ladder, places=config.ladder.places * 2))


def _moved(sequence: Sequence, group: AnchorGroup, config: AnchorConfig) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(the group shifted towards the middle of its submaps, the group enlarged that way)."""
    spans = [sequence.submaps[m].frames for m in group.submaps] or [tuple(range(len(sequence.frames)))]
    inside = [f for span in spans for f in span]
    middle = (min(inside) + max(inside)) / 2.0
    way = 1 if np.mean(group.frames) < middle else -1
    shifted = tuple(f + way * config.ladder.shift for f in group.frames)
    missing = max(0, config.ladder.enlarge - len(group.frames))
    first = group.frames[0] - (missing if way < 0 else 0)
    return shifted, tuple(range(first, first + len(group.frames) + missing))
