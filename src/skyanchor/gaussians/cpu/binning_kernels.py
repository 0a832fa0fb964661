"""Which tiles each Gaussian touches, exactly: the ellipse alpha = 1/255 against every row of tiles.

The Gaussians, nearest first, are cut into CHUNKS runs. Each run counts its hits per tile; a scan over (tile, run) gives
every run its own place in every tile's list; each run then fills its places. Both passes run in parallel, and the lists
come out in depth order for any number of threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange

from skyanchor.compiled import njit
from skyanchor.gaussians.cpu.layout import (
    CONIC_A,
    CONIC_B,
    CONIC_C,
    FAST,
    FAST_INLINE,
    LEVEL,
    MEAN_X,
    MEAN_Y,
    TILE,
    VAR_X,
    VAR_Y,
    F,
)

ZERO, ONE, HALF = F(0.0), F(1.0), F(0.5)
SLACK = F(1e-2)
"""Pixels by which an ellipse is taken larger, against rounding."""
EDGE = F(TILE)
INNER = F(TILE - 1)
"""Distance between the first and the last pixel centre of a tile."""
INVERSE_EDGE = F(1.0 / TILE)


@njit(**FAST_INLINE)
def ellipse(a: Any, b: Any, c: Any, half_x: Any, half_y: Any, level: Any) -> Any:
    """What `chord` needs of the ellipse a x² + 2 b x y + c y² <= level with the bounding box ±half_x, ±half_y."""
    return b / a, level / a, ONE / (half_y * half_y), -b / c * half_x, half_y


@njit(**FAST_INLINE)
def chord(e: Any, y0: Any, y1: Any) -> Any:
    """The x range (low, high) of an ellipse for y in [y0, y1]; low > high when empty.

    At one y, x = -(b/a) y ± sqrt((level/a) (1 - (y/half_y)²)); the largest x = half_x lies at y = -(b/c) half_x, the
    smallest at the opposite point, and where these are outside the range its nearer end takes their place.
    """
    slope, square, curve, widest, half_y = e
    if y0 > half_y or y1 < -half_y:
        return ONE, -ONE
    y = min(max(widest, y0), y1)
    high = math.sqrt(max(ZERO, square * (ONE - curve * y * y))) - slope * y
    y = min(max(-widest, y0), y1)
    low = -math.sqrt(max(ZERO, square * (ONE - curve * y * y))) - slope * y
    return low, high


@njit(**FAST_INLINE)
def clipped(value: Any, count: Any) -> Any:
    """floor(value) kept within 0..count, as an integer: clipped, then cut off."""
    return np.int64(min(max(value, ZERO), F(count)))


@njit(**FAST_INLINE)
def tile_columns(x: Any, low: Any, high: Any, columns: Any) -> Any:
    """The tiles [first, end) of a row of tiles whose pixel centres can lie in x + [low, high]."""
    if low > high or x + high + SLACK < HALF:
        return 0, 0
    first = clipped((x + low - SLACK - HALF) * INVERSE_EDGE, columns)
    return first, min(columns, clipped((x + high + SLACK - HALF) * INVERSE_EDGE, columns) + 1)


@njit(**FAST_INLINE)
def pixel_rows(y: Any, low: Any, high: Any) -> Any:
    """The rows of a tile that y + [low, high] (pixels from the tile's top) can touch, packed as first | end << 8."""
    if low > high or y + high + SLACK < HALF:
        return 0
    first = clipped(y + low - SLACK - HALF + ONE, TILE)
    end = min(TILE, clipped(y + high + SLACK - HALF, TILE) + 1)
    return first | (end << 8) if end > first else 0


@njit(**FAST)
def _walk(
    first: Any, last: Any, order: Any, drawn: Any, reach: Any, columns: Any, rows: Any, cursor: Any, hits: Any,
    starts: Any, ids: Any, places: Any, spans: Any, fill: Any,
) -> None:  # fmt: skip
    """One run of Gaussians over its tiles: counts (fill = False) or writes. One walk, so both passes agree exactly."""
    for k in range(first, last):
        g = order[k]
        x, y, level = drawn[g, MEAN_X], drawn[g, MEAN_Y], reach[g, LEVEL]
        a, b, c = drawn[g, CONIC_A], drawn[g, CONIC_B], drawn[g, CONIC_C]
        half_x, half_y = math.sqrt(level * reach[g, VAR_X]), math.sqrt(level * reach[g, VAR_Y])
        across, down = ellipse(a, b, c, half_x, half_y, level), ellipse(c, b, a, half_y, half_x, level)
        found = starts[k] if fill else 0
        top = clipped((y - half_y - ONE) * INVERSE_EDGE, rows)
        bottom = min(rows, clipped((y + half_y + ONE) * INVERSE_EDGE, rows) + 1)
        for row in range(top, bottom):
            y0 = F(row) * EDGE + HALF - y
            low, high = chord(across, y0 - SLACK, y0 + INNER + SLACK)
            left, right = tile_columns(x, low, high, columns)
            for tile in range(row * columns + left, row * columns + right):
                if fill:
                    place = cursor[tile]
                    x0 = F(tile - row * columns) * EDGE + HALF - x
                    low, high = chord(down, x0 - SLACK, x0 + INNER + SLACK)
                    ids[place], places[found] = g, place
                    spans[place] = pixel_rows(y - F(row) * EDGE, low, high)
                cursor[tile] += 1
                found += 1
        if not fill:
            hits[k] = found


@njit(parallel=True, **FAST)
def walk_tiles(
    order: Any, drawn: Any, reach: Any, columns: Any, rows: Any, cursors: Any, hits: Any, starts: Any, ids: Any,
    places: Any, spans: Any, fill: Any,
) -> None:  # fmt: skip
    """Counts hits per run and tile (`cursors`) and per Gaussian (`hits`), or fills `ids`, `places` and `spans`."""
    n = order.shape[0]
    chunks = cursors.shape[0]
    for chunk in prange(chunks):
        run = np.int64(chunk)
        _walk(
            n * run // chunks, n * (run + 1) // chunks, order, drawn, reach, columns, rows, cursors[run], hits,
            starts, ids, places, spans, fill,
        )  # fmt: skip
