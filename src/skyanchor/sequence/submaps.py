"""A sequence cut into submaps with anchor groups at their ends."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from skyanchor.bounds import Range
from skyanchor.types import AnchorGroup, Submap


@dataclass(frozen=True)
class SubmapConfig:
    """How a sequence is cut."""

    submap_length: Annotated[int, Range(2, 1e6)] = 100
    """Frames per submap, about: T frames give n = max(1, round(T / L)) equal submaps."""
    group_size: Annotated[int, Range(2, 100)] = 6
    """Frames of an anchor group at each end of a submap."""
    join_boundaries: bool = True
    """Whether the rear group of a submap and the front group of the next are localised as one; the paper keeps two."""


def cut_submaps(frames: int, config: SubmapConfig, cuts: tuple[int, ...] = ()) -> tuple[Submap, ...]:
    """n = max(1, round(T / L)) contiguous submaps of each stretch of T frames, whose lengths differ by one at most.

    `cuts` are the frames that begin a further stretch. Every submap has room for two groups unless there is only one
    in its stretch; a stretch of fewer frames than one group has none.
    """
    edges, size = (0, *cuts, frames), config.group_size
    spans = [span for first, end in pairwise(edges) for span in _spans(first, end, config)]
    return tuple(Submap(k, span, span[:size], span[-size:]) for k, span in enumerate(spans))


def _spans(first: int, end: int, config: SubmapConfig) -> list[tuple[int, ...]]:
    """The frames of the submaps of one stretch."""
    frames = end - first
    if frames < config.group_size:
        return []
    count = max(1, round(frames / config.submap_length))
    count = min(count, max(1, frames // (2 * config.group_size)))  # short submaps still hold two groups
    edges = [first + round(k * frames / count) for k in range(count + 1)]
    return [tuple(range(edges[k], edges[k + 1])) for k in range(count)]


def anchor_groups(
    submaps: tuple[Submap, ...], config: SubmapConfig, cuts: tuple[int, ...] = ()
) -> tuple[AnchorGroup, ...]:
    """The groups in order of their frames; at a boundary one joint group, two in the paper's layout and at a cut.

    A submap too short for two groups apart has one group of all its frames.
    """
    pieces: list[tuple[tuple[int, ...], int]] = []
    for submap in submaps:
        if len(submap.frames) < len(submap.front) + len(submap.rear):
            pieces.append((submap.frames, submap.index))
        else:
            pieces += [(submap.front, submap.index), (submap.rear, submap.index)]
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for frames, index in pieces:
        boundary = bool(groups) and groups[-1][1][-1] != index and _goes_on(groups[-1][0][-1], frames[0], cuts)
        if config.join_boundaries and boundary:
            before, owners = groups.pop()
            groups.append(((*before, *frames), (*owners, index)))
        else:
            groups.append((frames, (index,)))
    return tuple(AnchorGroup(k, frames, owners) for k, (frames, owners) in enumerate(groups))


def _goes_on(last: int, first: int, cuts: tuple[int, ...]) -> bool:
    """Whether no cut lies after frame `last` and up to frame `first`."""
    return not any(last < cut <= first for cut in cuts)
