"""A sequence cut into submaps with anchor groups at their ends."""

from __future__ import annotations

from dataclasses import dataclass
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


def cut_submaps(frames: int, config: SubmapConfig) -> tuple[Submap, ...]:
    """n = max(1, round(T / L)) contiguous submaps whose lengths differ by one at most.

    Every submap has room for two groups unless there is only one; fewer frames than one group give none.
    """
    if frames < config.group_size:
        return ()
    count = max(1, round(frames / config.submap_length))
    count = min(count, max(1, frames // (2 * config.group_size)))  # short submaps still hold two groups
    edges = [round(k * frames / count) for k in range(count + 1)]
    spans = [tuple(range(edges[k], edges[k + 1])) for k in range(count)]
    size = config.group_size
    return tuple(Submap(k, span, span[:size], span[-size:]) for k, span in enumerate(spans))


def anchor_groups(submaps: tuple[Submap, ...], config: SubmapConfig) -> tuple[AnchorGroup, ...]:
    """The groups in order of their frames; at a boundary one joint group, or two in the paper's layout.

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
        boundary = bool(groups) and groups[-1][1][-1] != index
        if config.join_boundaries and boundary:
            before, owners = groups.pop()
            groups.append(((*before, *frames), (*owners, index)))
        else:
            groups.append((frames, (index,)))
    return tuple(AnchorGroup(k, frames, owners) for k, (frames, owners) in enumerate(groups))
