"""What is tried before a group is given up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.frames import GroundFrames
from skyanchor.types import AnchorGroup


def rungs(frames: GroundFrames, group: AnchorGroup, config: AnchorConfig) -> list[tuple[tuple[int, ...], AnchorConfig]]:
    """What is tried in turn: as it is, a wider search, the group shifted into its submap, twelve frames."""
    factor = config.ladder.wider_search
    wide = replace(
        config,
        places=replace(
            config.places,
            shortlist=config.places.shortlist * factor,
            seeds=config.places.seeds * factor,
            voters=config.places.voters * 2,
        ),
        ladder=replace(config.ladder, places=config.ladder.places * 2),
    )
    spans = [frames.sequence.submaps[m].frames for m in group.submaps] or [tuple(range(len(frames.sequence.frames)))]
    inside = [f for span in spans for f in span]
    middle = (min(inside) + max(inside)) / 2.0
    way = 1 if np.mean(group.frames) < middle else -1
    shifted = tuple(f + way * config.ladder.shift for f in group.frames)
    missing = max(0, config.ladder.enlarge - len(group.frames))
    first = group.frames[0] - (missing if way < 0 else 0)
    larger = tuple(range(first, first + len(group.frames) + missing))
    tries = [(group.frames, config), (group.frames, wide), (shifted, config), (larger, config)]
    if config.ablation.single_frame:
        tries = [((group.frames[len(group.frames) // 2],), config)]
    last = len(frames.sequence.frames)
    seen: set[tuple[tuple[int, ...], bool]] = set()
    kept = []
    for indices, settings in tries:
        key = (indices, settings is wide)
        if indices and indices[0] >= 0 and indices[-1] < last and key not in seen:
            seen.add(key)
            kept.append((indices, settings))
    return kept
