"""Numba kernels of the visibility graph: the inverted cell index and overlap counts."""

from __future__ import annotations

import numpy as np
from numba import prange

from skyanchor.compiled import njit


@njit(cache=True)
def cells_seen(first, cell, around, cell_count):  # type: ignore[no-untyped-def]
    """Different cells per view as (start, cells): those of its observations first[k]:first[k + 1] and those around."""
    n = first.shape[0] - 1
    stamp = np.full(cell_count, -1, np.int32)
    start = np.zeros(n + 1, np.int64)
    for view in range(n):
        found = 0
        for k in range(first[view], first[view + 1]):
            for step in around:
                if stamp[cell[k] + step] != view:
                    stamp[cell[k] + step] = view
                    found += 1
        start[view + 1] = start[view] + found
    cells = np.empty(start[n], np.int32)
    stamp[:] = -1
    at = 0
    for view in range(n):
        for k in range(first[view], first[view + 1]):
            for step in around:
                if stamp[cell[k] + step] != view:
                    stamp[cell[k] + step] = view
                    cells[at] = cell[k] + step
                    at += 1
    return start, cells


@njit(cache=True)
def invert_index(start, cells, cell_count):  # type: ignore[no-untyped-def]
    """Views per cell as (start, views): the transpose of cells per view, by counting sort."""
    cell_start = np.zeros(cell_count + 1, np.int64)
    for k in range(cells.shape[0]):
        cell_start[cells[k] + 1] += 1
    for c in range(cell_count):
        cell_start[c + 1] += cell_start[c]
    at = cell_start[:-1].copy()
    views = np.empty(cells.shape[0], np.int32)
    for view in range(start.shape[0] - 1):
        for k in range(start[view], start[view + 1]):
            cell = cells[k]
            views[at[cell]] = view
            at[cell] += 1
    return cell_start, views


@njit(cache=True, parallel=True)
def top_overlaps(start, cells, cell_start, cell_views, most):  # type: ignore[no-untyped-def]
    """Per view the `most` others with the largest IoU > 0, best first, ties by index: (n, most) ids (-1) and IoU.

    |A ∩ B| is counted by walking through the views of every cell of A; |A ∪ B| = |A| + |B| - |A ∩ B|.
    """
    n = start.shape[0] - 1
    ids = np.full((n, most), -1, np.int64)
    overlap = np.zeros((n, most), np.float64)
    for view in prange(n):
        shared = np.zeros(n, np.int32)
        for k in range(start[view], start[view + 1]):
            cell = cells[k]
            for j in range(cell_start[cell], cell_start[cell + 1]):
                shared[cell_views[j]] += 1
        size = start[view + 1] - start[view]
        filled = 0
        for other in range(n):
            if shared[other] == 0 or other == view:
                continue
            iou = shared[other] / (size + start[other + 1] - start[other] - shared[other])
            filled = _insert(ids[view], overlap[view], filled, other, iou)
    return ids, overlap


@njit(cache=True)
def _insert(ids, overlap, filled, other, iou):  # type: ignore[no-untyped-def]
    """Keep a row sorted by falling IoU; an equal one goes behind."""
    most = ids.shape[0]
    if filled == most and iou <= overlap[most - 1]:
        return filled
    at = min(filled, most - 1)
    while at > 0 and overlap[at - 1] < iou:
        ids[at] = ids[at - 1]
        overlap[at] = overlap[at - 1]
        at -= 1
    ids[at] = other
    overlap[at] = iou
    return min(filled + 1, most)
