"""Keyframe test: frames that moved enough to be worth triangulating."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from skyanchor.trajectory.config import KeyframeConfig
from skyanchor.trajectory.localmap import PairFinder, strongest

STRONGEST = 1500
"""Keypoints per frame that the test looks at."""


def motion_px(finder: PairFinder, i: int, j: int) -> tuple[float, int]:
    """(median motion of the strongest keypoints between two frames in pixels, their number); inf when none match."""
    a, b = (strongest(finder.features(f), count=STRONGEST) for f in (i, j))
    with finder.clock.step("keyframes"):
        pairs = finder.matcher.pairs(a, b)
    if not len(pairs):
        return float("inf"), 0
    moved = a.xy[pairs[:, 0]] - b.xy[pairs[:, 1]]
    return float(np.median(np.linalg.norm(moved, axis=1))), len(pairs)


def choose_keyframes(
    frames: tuple[int, ...], anchored: frozenset[int], finder: PairFinder, config: KeyframeConfig
) -> list[int]:
    """Keyframes in order: the ends, the anchors, and every frame that moved or changed enough since the last one.

    When the view changes so fast that too few matches are left, the frame before becomes a keyframe as well.
    """
    least = max(config.least_motion * finder.camera.width, config.least_motion_px)
    chosen, at_first = [frames[0]], 0
    for previous, frame in pairwise(frames):
        motion, matches = motion_px(finder, chosen[-1], frame)
        if matches < config.least_matches and previous != chosen[-1]:
            chosen.append(previous)
            motion, matches = motion_px(finder, previous, frame)
        at_first = matches if previous == chosen[-1] else at_first
        few = matches < max(config.least_matches, config.least_kept * at_first)
        if motion > least or few or frame in anchored or frame == frames[-1]:
            chosen.append(frame)
    return chosen
