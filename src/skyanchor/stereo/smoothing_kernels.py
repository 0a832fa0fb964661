"""Numba kernel that averages the local planes of neighbouring pixels; every pixel is written by one thread."""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numba as nb
import numpy as np

from skyanchor.compiled import njit

LEAST_CONFIDENCE = np.float32(0.05)
"""Neighbours with less are not asked."""


@njit(cache=True, fastmath=True, inline="always")
def _asked(grey, w, a, b, confidence, x, y, radius, stride, sigma_grey, said, weight, row, column):
    """Fill what the neighbours say of a pixel's inverse depth, their weights and places; returns how many there are."""
    height, width = w.shape
    spread = np.float32(1.0 / (2.0 * (0.6 * radius) ** 2))
    n = 0
    for dy in range(-radius, radius + 1, stride):
        for dx in range(-radius, radius + 1, stride):
            r = y + dy
            c = x + dx
            if r < 0 or c < 0 or r >= height or c >= width or w[r, c] <= 0.0 or confidence[r, c] < LEAST_CONFIDENCE:
                continue
            said[n] = w[r, c] - a[r, c] * dx - b[r, c] * dy
            likeness = np.exp(-abs(grey[r, c] - grey[y, x]) / sigma_grey - (dx * dx + dy * dy) * spread)
            weight[n] = confidence[r, c] * likeness
            row[n] = r
            column[n] = c
            n += 1
    return n


@njit(cache=True, parallel=True, fastmath=True)
def averaged(grey, w, a, b, confidence, radius, stride, tolerance, sigma_grey, rounds, least):
    """(w, a, b, share of the neighbours that agree), (H, W) each; zeros where fewer than `least` do."""
    height, width = w.shape
    out_w = np.zeros((height, width), np.float32)
    out_a = np.zeros((height, width), np.float32)
    out_b = np.zeros((height, width), np.float32)
    share = np.zeros((height, width), np.float32)
    most = (2 * radius // stride + 1) ** 2
    for y in nb.prange(height):
        said = np.empty(most, np.float32)
        weight = np.empty(most, np.float32)
        row = np.empty(most, np.int64)
        column = np.empty(most, np.int64)
        for x in range(width):
            if w[y, x] <= 0.0:
                continue
            n = _asked(grey, w, a, b, confidence, x, y, radius, stride, sigma_grey, said, weight, row, column)
            middle = w[y, x]
            agreeing = np.float32(0.0)
            slope_x = np.float32(0.0)
            slope_y = np.float32(0.0)
            for _ in range(rounds):
                agreeing = np.float32(1e-12)
                slope_x = np.float32(0.0)
                slope_y = np.float32(0.0)
                shift = np.float32(0.0)
                for k in range(n):
                    r = (said[k] - middle) / tolerance
                    if r * r < 1.0:
                        v = weight[k] * (np.float32(1.0) - r * r)
                        agreeing += v
                        shift += v * (said[k] - middle)
                        slope_x += v * a[row[k], column[k]]
                        slope_y += v * b[row[k], column[k]]
                middle += shift / agreeing
            total = np.float32(1e-12)
            for k in range(n):
                total += weight[k]
            if agreeing >= least * total and middle > 0.0:
                out_w[y, x] = middle
                out_a[y, x] = slope_x / agreeing
                out_b[y, x] = slope_y / agreeing
                share[y, x] = agreeing / total
    return out_w, out_a, out_b, share
