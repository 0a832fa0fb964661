"""Closure error: how far the map, grown from one anchor group, misses the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from skyanchor.geometry import rigid
from skyanchor.trajectory.config import ClosureConfig
from skyanchor.trajectory.localmap import gap
from skyanchor.types import Floats, Pose


@dataclass(frozen=True)
class Closure:
    """The gap at an anchor group, before anything was pulled together."""

    submap: int
    frames: tuple[int, ...]
    """Anchors that the map reached."""
    from_frames: tuple[int, ...]
    """Anchors that the map grew from."""
    path_m: float
    """Path between the groups, metres."""
    gap_m: float
    """Median distance between the grown and the anchored centre, metres."""
    gap_deg: float
    """Median angle between the grown and the anchored rotation, degrees."""
    scale: float
    """Spread of the anchored centres over that of the grown ones."""
    sigmas: float
    """The gap in units of the drift that is expected over the path."""
    contradiction: bool
    """Whether one of the two groups must be wrong."""


def measure(
    submap: int,
    visual: Mapping[int, Pose],
    anchored: Mapping[int, Pose],
    origin: Mapping[int, Pose],
    path_m: float,
    scale_sigma: float,
    config: ClosureConfig,
) -> Closure:
    """The closure at the anchors `visual` reached, grown from `origin`, whose scale is known to `scale_sigma`."""
    frames = sorted(visual)
    grown = rigid.centres_in_world([visual[f] for f in frames])
    given = rigid.centres_in_world([anchored[f] for f in frames])
    start = rigid.centres_in_world(list(origin.values())).mean(axis=0)
    gaps = np.array([gap(visual[f], anchored[f]) for f in frames])
    metres, turn = np.median(gaps, axis=0)
    offset, line = given.mean(axis=0) - grown.mean(axis=0), grown.mean(axis=0) - start
    sigmas = _sigmas(offset, line, turn, path_m, scale_sigma, config)
    return Closure(
        submap,
        tuple(frames),
        tuple(sorted(origin)),
        path_m,
        float(metres),
        float(np.degrees(turn)),
        _spread(given) / max(_spread(grown), 1e-9) if len(frames) > 1 else 1.0,
        sigmas,
        sigmas > config.most_sigmas,
    )


def _spread(centres: Floats) -> float:
    return float(np.linalg.norm(centres - centres.mean(axis=0), axis=1).mean())


def _sigmas(
    offset: Floats, line: Floats, turn: float, path_m: float, scale_sigma: float, config: ClosureConfig
) -> float:
    """The offset along and across the line between the groups, and the turn, each over its expected spread."""
    direction = line / max(float(np.linalg.norm(line)), 1e-9)
    along = abs(float(offset @ direction))
    across = float(np.linalg.norm(offset - (offset @ direction) * direction))
    turned = float(np.degrees(turn)) / (config.turn_deg + config.turn_deg_per_m * path_m)
    drift = float(np.hypot(config.along, scale_sigma))
    ratios = [along / (drift * path_m + config.floor_m), across / (config.across * path_m + config.floor_m)]
    return float(np.linalg.norm([*ratios, turned]))
