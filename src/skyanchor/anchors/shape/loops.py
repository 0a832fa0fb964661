"""Pairs of frames that follow something that moves: what they say of the turn contradicts the others of the group.

Before a passing car one pose of two photos may fit the car and what is far away, with more matches than the street has.
From other frames the car is elsewhere, so such a pair stands alone: around three frames the turns of pairs that see the
same street add up to nothing, those of a pair that follows the car do not, whichever the third frame is.
"""

from __future__ import annotations

from itertools import combinations
from typing import TypeAlias

import numpy as np

from skyanchor.geometry import rigid
from skyanchor.matching import TwoView
from skyanchor.types import Floats, Ints

Pairs: TypeAlias = dict[tuple[int, int], tuple[Ints, TwoView]]
"""Verified keypoint pairs of two frames a < b of a group, and b from a."""


def agreeing(pairs: Pairs, most_open_deg: float) -> Pairs:
    """The pairs without those that most loops through them contradict, the most contradicted dropped first."""
    names = list(pairs)
    sides, left_over = loops(pairs)
    inliers = np.array([len(pairs[name][0]) for name in names])
    votes = np.where(left_over > np.radians(most_open_deg), 1, -1)
    dropped: set[int] = set()
    while len(sides) > 1:  # one loop alone does not say which of its pairs is wrong
        against = np.bincount(sides.ravel(), np.repeat(votes, 3), len(names))
        worst = int(np.lexsort((inliers, -against))[0])
        if against[worst] <= 0:
            break
        dropped.add(worst)
        untouched = (sides != worst).all(axis=1)
        sides, votes = sides[untouched], votes[untouched]
    return {name: pairs[name] for k, name in enumerate(names) if k not in dropped}


def loops(pairs: Pairs) -> tuple[Ints, Floats]:
    """((L, 3), which pairs join three frames a < b < c; (L,), the angle of R_bc R_ab R_acᵀ, radians)."""
    at = {name: k for k, name in enumerate(pairs)}
    turns = {name: view.b_from_a.rotation for name, (_, view) in pairs.items()}
    frames = sorted({frame for name in pairs for frame in name})
    around = [((a, b), (b, c), (a, c)) for a, b, c in combinations(frames, 3)]
    closed = [loop for loop in around if all(side in at for side in loop)]
    sides = np.array([[at[side] for side in loop] for loop in closed], np.int64).reshape(-1, 3)
    left_over = [rigid.angle_between(turns[bc] @ turns[ab], turns[ac]) for ab, bc, ac in closed]
    return sides, np.array(left_over)
