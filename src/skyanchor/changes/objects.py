"""Contradicting cells gathered to things: what lies together is one change."""

from __future__ import annotations

import numpy as np

from skyanchor.changes.change import Change, ChangeKind
from skyanchor.types import Ints

MOST_OF_IT = 0.75
"""Share of the cells that one kind must have for changes in one place to be of that kind."""


def gathered(index: Ints, reach: int) -> list[Ints]:
    """Rows of the cells (N, 3) of every piece, the largest first; cells at most `reach` apart belong together."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree

    if not len(index):
        return []
    pairs = cKDTree(index).query_pairs(reach + 0.01, p=np.inf, output_type="ndarray")
    joined = coo_matrix((np.ones(len(pairs), np.bool_), pairs.T), shape=(len(index), len(index)))
    count, piece = connected_components(joined, directed=False)
    return sorted((np.flatnonzero(piece == k) for k in range(count)), key=len, reverse=True)


def together(found: list[Change]) -> list[Change]:
    """The changes, with one for all of them in one place: of the kind of most, else something was replaced."""
    left = sorted(found, key=lambda one: len(one.cells), reverse=True)
    kept = []
    while left:
        some = [left.pop(0)]
        while near := [one for one in left if any(_overlap(one, other) for other in some)]:
            some += near
            left = [one for one in left if all(one is not other for other in near)]
        kept.append(_united(some) if len(some) > 1 else some[0])
    return sorted(kept, key=lambda one: len(one.cells), reverse=True)


def _overlap(a: Change, b: Change) -> bool:
    """Whether the boxes of two changes share at least half of the smaller one."""
    common = np.prod(np.maximum(np.minimum(a.high, b.high) - np.maximum(a.low, b.low), 0.0))
    return bool(common >= 0.5 * min(np.prod(a.size), np.prod(b.size)))


def _united(some: list[Change]) -> Change:
    counts = {kind: sum(len(one.cells) for one in some if one.kind == kind) for kind in ChangeKind}
    most = max(counts, key=lambda kind: counts[kind])
    kind = most if counts[most] >= MOST_OF_IT * sum(counts.values()) else ChangeKind.ALTERED
    cells = np.unique(np.concatenate([one.cells for one in some]), axis=0)
    low, high = np.min([one.low for one in some], axis=0), np.max([one.high for one in some], axis=0)
    before, after = (max(getattr(one, name) for one in some) for name in ("views_before", "views_after"))
    weights = [len(one.cells) for one in some]
    sure = float(np.average([one.confidence for one in some], weights=weights))
    return Change(kind, cells, low, high, before, after, sure)
