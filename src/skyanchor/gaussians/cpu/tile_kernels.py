"""The hot loops: blending the Gaussians of a tile front to back, and the gradients of that.

Front to back, Gaussian k with alpha a_k and features f_k (red, green, blue, depth) at a pixel gives
    F = Σ_k a_k T_k f_k + T_end·background,  T_{k+1} = T_k (1 - a_k),  a_k = min(cap, o_k exp(-σ_k)).
With v = dL/dF and the rest R_k = v·(F - Σ_{j<=k} a_j T_j f_j) - T_end dL/dalpha still to come behind k,
    dL/da_k = T_k v·f_k - R_k / (1 - a_k):
the backward pass walks front to back too and needs neither stored weights nor a division by T.

Vectorisation decides the speed and is easily lost. What keeps it: the loop over pixels sits in a plain function called
from the parallel loop; all planes of a tile live in one scratch buffer at constant offsets, so no aliasing is possible;
row bounds are masked, so that no index can be negative; the exponential is a polynomial; every literal is float32.
`benchmarks/rasteriser_cpu.py` prints ns per pixel-lane: look at it after any change here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from skyanchor.compiled import njit
from skyanchor.gaussians.cpu.layout import (
    ALPHA_MIN,
    BLUE,
    CONIC_A,
    CONIC_B,
    CONIC_C,
    DEPTH,
    DRAWN,
    FAST,
    GREEN,
    MEAN_X,
    MEAN_Y,
    OPACITY,
    RED,
    STOP,
    TILE,
    TILE_PIXELS,
    F,
)

ZERO, HALF, ONE, TWO = F(0.0), F(0.5), F(1.0), F(2.0)
TINY = F(1e-10)
LOG2_E = F(1.4426950408889634)
LN2_HIGH, LN2_LOW = F(0.693359375), F(-2.12194440e-4)
INT = np.int32

# Offsets of the planes in a tile's scratch buffer.
THROUGH = 0 * TILE_PIXELS  # transmittance T
LIVE = 1 * TILE_PIXELS  # 1 while the pixel takes Gaussians, else 0
AT_X = 2 * TILE_PIXELS
AT_Y = 3 * TILE_PIXELS
F_RED = 4 * TILE_PIXELS  # forward: the sums; backward: dL/dF
F_GREEN = 5 * TILE_PIXELS
F_BLUE = 6 * TILE_PIXELS
F_DEPTH = 7 * TILE_PIXELS
REST = 8 * TILE_PIXELS  # backward only: R
PLANES = 9


@njit(**FAST)
def exp_negative(x: Any) -> Any:
    """e^x for x <= 0, to 2 ulp: 2^n by its bits times a polynomial on [-ln 2, 0] (Cephes coefficients)."""
    x = max(x, F(-87.0))
    n = F(INT(x * LOG2_E - HALF))
    t = x - n * LN2_HIGH
    t = t - n * LN2_LOW
    p = F(1.9875691500e-4)
    p = p * t + F(1.3981999507e-3)
    p = p * t + F(8.3334519073e-3)
    p = p * t + F(4.1665795894e-2)
    p = p * t + F(1.6666665459e-1)
    p = p * t + F(5.0000001201e-1)
    p = p * t * t + t + ONE
    return p * INT((INT(n) + INT(127)) << INT(23)).view(np.float32)


@njit(**FAST)
def tile_is_full(s: Any) -> bool:
    """Whether no pixel of the tile takes any more Gaussians."""
    live = ZERO
    for p in range(TILE_PIXELS):
        live += s[LIVE + p]
    return live == ZERO


@njit(**FAST)
def start_tile(s: Any, left: Any, top: Any, width: Any, height: Any) -> None:
    """Planes of an empty tile: T = 1, pixel centres, and live only within the image."""
    for p in range(TILE_PIXELS):
        x, y = left + (p & (TILE - 1)), top + p // TILE
        s[THROUGH + p] = ONE
        s[LIVE + p] = ONE if (x < width) & (y < height) else ZERO
        s[AT_X + p] = F(x) + HALF
        s[AT_Y + p] = F(y) + HALF


@njit(**FAST)
def blend(s: Any, span: Any, d: Any, cap: Any) -> None:
    """Adds one Gaussian (its row of `drawn`) to the pixel rows `span` of a tile."""
    x, y, a, b, c = d[MEAN_X], d[MEAN_Y], HALF * d[CONIC_A], d[CONIC_B], HALF * d[CONIC_C]
    opacity, red, green, blue, depth = d[OPACITY], d[RED], d[GREEN], d[BLUE], d[DEPTH]
    for p in range((span & 31) * TILE, ((span >> 8) & 31) * TILE):
        dx, dy = x - s[AT_X + p], y - s[AT_Y + p]
        sigma = a * dx * dx + c * dy * dy + b * dx * dy
        alpha = min(opacity * exp_negative(-sigma), cap)
        through, live = s[THROUGH + p], s[LIVE + p]
        on = live if (sigma >= ZERO) & (alpha >= ALPHA_MIN) else ZERO
        behind = through * (ONE - alpha)
        stop = behind <= STOP
        s[LIVE + p] = ZERO if stop & (on > ZERO) else live
        on = ZERO if stop else on
        w = on * alpha * through
        s[F_RED + p] += w * red
        s[F_GREEN + p] += w * green
        s[F_BLUE + p] += w * blue
        s[F_DEPTH + p] += w * depth
        s[THROUGH + p] = behind if on > ZERO else through


@njit(**FAST)
def store_tile(s: Any, left: Any, top: Any, background: Any, rgb: Any, alpha: Any, depth: Any) -> None:
    """Writes a finished tile to the images."""
    height, width = alpha.shape
    for j in range(min(TILE, height - top)):
        for i in range(min(TILE, width - left)):
            p = j * TILE + i
            through = s[THROUGH + p]
            rgb[top + j, left + i, 0] = s[F_RED + p] + through * background[0]
            rgb[top + j, left + i, 1] = s[F_GREEN + p] + through * background[1]
            rgb[top + j, left + i, 2] = s[F_BLUE + p] + through * background[2]
            alpha[top + j, left + i] = ONE - through
            depth[top + j, left + i] = s[F_DEPTH + p] / max(ONE - through, TINY)


@njit(**FAST)
def _draw_tile(
    tile: Any, columns: Any, bounds: Any, ids: Any, spans: Any, drawn: Any, cap: Any, background: Any, rgb: Any,
    alpha: Any, depth: Any,
) -> None:  # fmt: skip
    left, top = (tile % columns) * TILE, (tile // columns) * TILE
    s = np.zeros(PLANES * TILE_PIXELS, np.float32)
    start_tile(s, left, top, alpha.shape[1], alpha.shape[0])
    for k in range(bounds[tile], bounds[tile + 1]):
        blend(s, spans[k], drawn[ids[k]], cap)
        if (k & 15) == 15 and tile_is_full(s):
            break
    store_tile(s, left, top, background, rgb, alpha, depth)


@njit(parallel=True, **FAST)
def draw_tiles(
    columns: Any, bounds: Any, ids: Any, spans: Any, drawn: Any, cap: Any, background: Any, rgb: Any, alpha: Any,
    depth: Any,
) -> None:  # fmt: skip
    """Fills rgb (H, W, 3), alpha (H, W) and depth (H, W)."""
    for tile in prange(bounds.shape[0] - 1):
        _draw_tile(np.int64(tile), columns, bounds, ids, spans, drawn, cap, background, rgb, alpha, depth)


# --- backward -------------------------------------------------------------------------------------------------------


@njit(**FAST)
def start_gradients(s: Any, left: Any, top: Any, images: Any, grads: Any) -> None:
    """Planes dL/dF and R before the first Gaussian; depth = D / alpha is taken apart into D and alpha here."""
    height, width = images.alpha.shape
    for j in range(min(TILE, height - top)):
        for i in range(min(TILE, width - left)):
            y, x, p = top + j, left + i, j * TILE + i
            alpha, depth = images.alpha[y, x], images.depth[y, x]
            g_depth = grads.depth[y, x] / alpha if alpha > TINY else ZERO  # dL/dD
            g_alpha = grads.alpha[y, x] - g_depth * depth
            red, green, blue = grads.rgb[y, x, 0], grads.rgb[y, x, 1], grads.rgb[y, x, 2]
            s[F_RED + p], s[F_GREEN + p], s[F_BLUE + p], s[F_DEPTH + p] = red, green, blue, g_depth
            rest = red * images.rgb[y, x, 0] + green * images.rgb[y, x, 1] + blue * images.rgb[y, x, 2]
            s[REST + p] = rest + g_depth * depth * alpha - (ONE - alpha) * g_alpha


@njit(**FAST)
def pass_over(s: Any, span: Any, d: Any, cap: Any) -> None:
    """Takes one Gaussian that gets no gradient out of T and R."""
    x, y, a, b, c = d[MEAN_X], d[MEAN_Y], HALF * d[CONIC_A], d[CONIC_B], HALF * d[CONIC_C]
    opacity, red, green, blue, depth = d[OPACITY], d[RED], d[GREEN], d[BLUE], d[DEPTH]
    for p in range((span & 31) * TILE, ((span >> 8) & 31) * TILE):
        dx, dy = x - s[AT_X + p], y - s[AT_Y + p]
        sigma = a * dx * dx + c * dy * dy + b * dx * dy
        alpha = min(opacity * exp_negative(-sigma), cap)
        through, live = s[THROUGH + p], s[LIVE + p]
        on = live if (sigma >= ZERO) & (alpha >= ALPHA_MIN) else ZERO
        behind = through * (ONE - alpha)
        stop = behind <= STOP
        s[LIVE + p] = ZERO if stop & (on > ZERO) else live
        on = ZERO if stop else on
        vf = red * s[F_RED + p] + green * s[F_GREEN + p] + blue * s[F_BLUE + p] + depth * s[F_DEPTH + p]
        s[REST + p] -= on * alpha * through * vf
        s[THROUGH + p] = behind if on > ZERO else through


@njit(**FAST)
def blend_gradient(s: Any, span: Any, d: Any, cap: Any, out: Any) -> None:
    """Writes the gradient of one Gaussian's row of `drawn`, summed over the pixel rows `span` of a tile, to `out`.

    Long because it is one loop: what the ten sums share stays in vector registers.
    """
    x, y, a, b, c = d[MEAN_X], d[MEAN_Y], HALF * d[CONIC_A], d[CONIC_B], HALF * d[CONIC_C]
    opacity, red, green, blue, depth = d[OPACITY], d[RED], d[GREEN], d[BLUE], d[DEPTH]
    g_red, g_green, g_blue, g_depth, g_sigma = ZERO, ZERO, ZERO, ZERO, ZERO
    sum_x, sum_y, sum_xx, sum_xy, sum_yy = ZERO, ZERO, ZERO, ZERO, ZERO
    for p in range((span & 31) * TILE, ((span >> 8) & 31) * TILE):
        dx, dy = x - s[AT_X + p], y - s[AT_Y + p]
        sigma = a * dx * dx + c * dy * dy + b * dx * dy
        raw = opacity * exp_negative(-sigma)
        alpha = min(raw, cap)
        through, live = s[THROUGH + p], s[LIVE + p]
        on = live if (sigma >= ZERO) & (alpha >= ALPHA_MIN) else ZERO
        remain = ONE - alpha
        behind = through * remain
        stop = behind <= STOP
        s[LIVE + p] = ZERO if stop & (on > ZERO) else live
        on = ZERO if stop else on
        w = on * alpha * through
        v_red, v_green, v_blue, v_depth = s[F_RED + p], s[F_GREEN + p], s[F_BLUE + p], s[F_DEPTH + p]
        vf = red * v_red + green * v_green + blue * v_blue + depth * v_depth
        rest = s[REST + p] - w * vf
        v_sigma = -raw * on * (through * vf - rest / remain) if raw <= cap else ZERO
        vx, vy = v_sigma * dx, v_sigma * dy
        g_red += w * v_red
        g_green += w * v_green
        g_blue += w * v_blue
        g_depth += w * v_depth
        g_sigma += v_sigma
        sum_x += vx
        sum_y += vy
        sum_xx += vx * dx
        sum_xy += vx * dy
        sum_yy += vy * dy
        s[REST + p] = rest
        s[THROUGH + p] = behind if on > ZERO else through
    out[MEAN_X], out[MEAN_Y] = TWO * a * sum_x + b * sum_y, b * sum_x + TWO * c * sum_y
    out[CONIC_A], out[CONIC_B], out[CONIC_C] = HALF * sum_xx, sum_xy, HALF * sum_yy
    out[OPACITY] = -g_sigma / opacity
    out[RED], out[GREEN], out[BLUE], out[DEPTH] = g_red, g_green, g_blue, g_depth


@njit(**FAST)
def after_last(ids: Any, start: Any, end: Any, rows: Any) -> Any:
    """The end of a tile's list cut behind its last Gaussian of the first `rows`: nothing behind needs a look."""
    while end > start and ids[end - 1] >= rows:
        end -= 1
    return end


@njit(**FAST)
def _tile_gradients(
    tile: Any, columns: Any, rows: Any, bounds: Any, ids: Any, spans: Any, drawn: Any, cap: Any, images: Any,
    grads: Any, hit_grads: Any,
) -> None:  # fmt: skip
    k = bounds[tile]
    end = after_last(ids, k, bounds[tile + 1], rows)
    if k == end:
        return
    left, top = (tile % columns) * TILE, (tile // columns) * TILE
    s = np.zeros(PLANES * TILE_PIXELS, np.float32)
    start_tile(s, left, top, images.alpha.shape[1], images.alpha.shape[0])
    start_gradients(s, left, top, images, grads)
    full = False
    while k < end and not full:
        if ids[k] < rows:
            blend_gradient(s, spans[k], drawn[ids[k]], cap, hit_grads[k])
        else:
            pass_over(s, spans[k], drawn[ids[k]], cap)
        full = (k & 15) == 15 and tile_is_full(s)
        k += 1
    for j in range(k, end):
        for column in range(DRAWN):
            hit_grads[j, column] = ZERO


@njit(parallel=True, **FAST)
def tile_gradients(
    columns: Any, rows: Any, bounds: Any, ids: Any, spans: Any, drawn: Any, cap: Any, images: Any, grads: Any,
    hit_grads: Any,
) -> None:  # fmt: skip
    """Fills hit_grads (hits, DRAWN), one gradient per (Gaussian, tile) with a Gaussian of the first `rows`."""
    for tile in prange(bounds.shape[0] - 1):
        _tile_gradients(np.int64(tile), columns, rows, bounds, ids, spans, drawn, cap, images, grads, hit_grads)


@njit(**FAST)
def _sum_run(first: Any, last: Any, order: Any, rows: Any, starts: Any, places: Any, hit_grads: Any, out: Any) -> None:
    for k in range(first, last):
        g = order[k]
        if g < rows:
            for j in range(starts[k], starts[k + 1]):
                for column in range(DRAWN):
                    out[g, column] += hit_grads[places[j], column]


@njit(parallel=True, **FAST)
def sum_hits(order: Any, rows: Any, starts: Any, places: Any, hit_grads: Any, out: Any, chunks: Any) -> None:
    """Adds each Gaussian's rows of hit_grads, tile by tile, to its row of `out` (zeroed)."""
    n = order.shape[0]
    for chunk in prange(chunks):
        run = np.int64(chunk)
        _sum_run(n * run // chunks, n * (run + 1) // chunks, order, rows, starts, places, hit_grads, out)
