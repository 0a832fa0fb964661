"""Numba kernels of slanted-plane PatchMatch.

Every pixel carries a local plane as inverse depth and its gradient: 1/z(p + d) = w + a dx + b dy, which is exact for a
plane under a pinhole camera. A source then sees the plane at q = M p + (1/z(p)) m, M = K_s R K⁻¹, m = K_s t.
Pixels of one colour of a checkerboard read only the other colour, so the result does not depend on the thread count.

Nearly all of the time goes into windows laid onto a source (`_sums`), and only vectors make them quick. What keeps
those: scratch that nothing else can point to, and a number of samples that the compiler knows. With scratch from the
heap it gives up after eight questions whether two arrays overlap, which is three times as slow.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numba as nb
import numpy as np

from skyanchor.compiled import njit
from skyanchor.stereo.stack_arrays import STACKED, stack_floats, stack_integers, stack_words
from skyanchor.stereo.sweep_kernels import UNSEEN

HOPELESS = np.float32(1e9)
ALWAYS = np.float32(1e8)
STEPS = 64
"""Steps of a grey level in which a window's weights know the grey difference to its middle."""
TURNING = 2
"""Rounds in which level and upright planes are tried; later ones stay with what neighbours have."""
TEXTURE = np.float32(25.0)
"""Grey variance at which the pull of the first surface has halved."""
LEVEL, UPRIGHT, OFFERS = 8, 13, 14
"""Planes that a pixel is offered: level and upright ones by their place among all."""
SMALL, LARGE = 7 * 7, 11 * 11
"""Samples of the windows that the presets use: loops of these lengths are compiled of their own."""


@njit(cache=True, inline="always")
def _hash(x, y, k):
    """A number in [0, 1) that depends on the three integers alone."""
    h = np.uint32(x) * np.uint32(73856093) ^ np.uint32(y) * np.uint32(19349663) ^ np.uint32(k) * np.uint32(83492791)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0x5BD1E995)
    h ^= h >> np.uint32(15)
    h *= np.uint32(0x27D4EB2D)
    h ^= h >> np.uint32(16)
    return np.float32(h & np.uint32(0xFFFFFF)) / np.float32(0x1000000)


@njit(cache=True, inline="always")
def _new_window(radius, stride):
    """Offsets (2), grey values, weights and nearness to the middle of one window's samples."""
    side = 2 * radius // stride + 1
    n = side * side
    dx = np.empty(n, np.float32)
    dy = np.empty(n, np.float32)
    near = np.empty(n, np.float32)
    spread = np.float32(1.0 / (2.0 * (0.7 * radius) ** 2))
    for k in range(n):
        dx[k] = (k % side) * stride - radius
        dy[k] = (k // side) * stride - radius
        near[k] = np.exp(-(dx[k] * dx[k] + dy[k] * dy[k]) * spread)
    return dx, dy, np.empty(n, np.float32), np.empty(n, np.float32), near


@njit(cache=True)
def _fading(sigma_grey):
    """exp(-d / sigma) of grey differences d in steps of 1 / `STEPS`."""
    return np.exp(-np.arange(256 * STEPS) / np.float32(STEPS * sigma_grey)).astype(np.float32)


@njit(cache=True, fastmath=True)
def _fill_window(reference, x, y, fade, window):
    """Fill the window's grey values (weighted mean removed) and bilateral weights; returns the weighted variance."""
    dx, dy, values, weights, near = window
    height, width = reference.shape
    centre = reference[y, x]
    total = np.float32(0.0)
    mean = np.float32(0.0)
    n = weights.shape[0]
    for k in range(n):
        row = min(max(y + int(dy[k]), 0), height - 1)
        col = min(max(x + int(dx[k]), 0), width - 1)
        value = reference[row, col]
        weight = near[k] * fade[np.uint32(abs(value - centre) * np.float32(STEPS))]
        values[k] = value
        weights[k] = weight
        total += weight
        mean += weight * value
    mean /= total
    variance = np.float32(0.0)
    for k in range(n):
        weights[k] /= total
        values[k] -= mean
        variance += weights[k] * values[k] * values[k]
    return variance


@njit(cache=True, fastmath=True, inline="always")
def _sums(flat, start, stride, u, v, ux, uy, vx, vy, right, bottom, window, first, n):
    """Σ w g, Σ w g², Σ w g r of n samples from the `first`: weights w, the source's grey values g, the window's own r.

    A sample at (dx, dy) lies in the source at (u, v) + dx (ux, vx) + dy (uy, vy), from the middle of the first pixel.
    """
    dx, dy, values, weights, _ = window
    index = stack_integers()
    fu = stack_floats()
    fv = stack_floats()
    raw = stack_words()
    zero = np.float32(0.0)
    low16 = np.uint64(0xFFFF)
    mean = zero
    square = zero
    cross = zero
    for k in range(n):
        su = min(max(u + ux * dx[first + k] + uy * dy[first + k], zero), right)
        sv = min(max(v + vx * dx[first + k] + vy * dy[first + k], zero), bottom)
        iu = np.int32(su)
        iv = np.int32(sv)
        index[k] = iv * stride + iu
        fu[k] = su - np.float32(iu)
        fv[k] = sv - np.float32(iv)
    for k in range(n):
        raw[k] = flat[start + np.uint64(index[k])]
    for k in range(n):
        p = raw[k]
        f = fu[k]
        g = fv[k]
        a0 = np.float32(np.int32(p & low16))
        a1 = np.float32(np.int32((p >> np.uint64(16)) & low16))
        a2 = np.float32(np.int32((p >> np.uint64(32)) & low16))
        a3 = np.float32(np.int32(p >> np.uint64(48)))
        top = a0 + f * (a1 - a0)
        low = a2 + f * (a3 - a2)
        value = (top + g * (low - top)) * np.float32(1.0 / 256.0)
        weighted = weights[first + k] * value
        mean += weighted
        square += weighted * value
        cross += weighted * values[first + k]
    return mean, square, cross


@njit(cache=True, fastmath=True)
def _large_sums(flat, start, stride, u, v, ux, uy, vx, vy, right, bottom, window):
    """The sums of a window of `LARGE` samples."""
    return _sums(flat, start, stride, u, v, ux, uy, vx, vy, right, bottom, window, 0, LARGE)


@njit(cache=True, fastmath=True)
def _all_sums(flat, start, stride, u, v, ux, uy, vx, vy, right, bottom, window):
    """The sums of a window of any size, in parts that the stack holds."""
    mean = np.float32(0.0)
    square = np.float32(0.0)
    cross = np.float32(0.0)
    n = window[0].shape[0]
    for first in range(0, n, STACKED):
        count = min(STACKED, n - first)
        part = _sums(flat, start, stride, u, v, ux, uy, vx, vy, right, bottom, window, first, count)
        mean += part[0]
        square += part[1]
        cross += part[2]
    return mean, square, cross


@njit(cache=True, fastmath=True, inline="always")
def _source_cost(flat, base, stride, width, height, M, m, s, x, y, w, a, b, window, variance, eps):
    """1 - weighted ZNCC of the window seen through the plane, 0..2; `UNSEEN` where the centre leaves the source."""
    px = np.float32(x + 0.5)
    py = np.float32(y + 0.5)
    q2 = M[s, 2, 0] * px + M[s, 2, 1] * py + M[s, 2, 2] + w * m[s, 2]
    if q2 <= 0.0:
        return UNSEEN
    inv = np.float32(1.0) / q2
    u = (M[s, 0, 0] * px + M[s, 0, 1] * py + M[s, 0, 2] + w * m[s, 0]) * inv
    v = (M[s, 1, 0] * px + M[s, 1, 1] * py + M[s, 1, 2] + w * m[s, 1]) * inv
    half = np.float32(0.5)
    right = width - np.float32(1.001)
    bottom = height - np.float32(1.001)
    if u < half or v < half or u - half > right or v - half > bottom:
        return UNSEEN
    zx = M[s, 2, 0] + a * m[s, 2]
    zy = M[s, 2, 1] + b * m[s, 2]
    ux = (M[s, 0, 0] + a * m[s, 0] - u * zx) * inv
    uy = (M[s, 0, 1] + b * m[s, 0] - u * zy) * inv
    vx = (M[s, 1, 0] + a * m[s, 1] - v * zx) * inv
    vy = (M[s, 1, 1] + b * m[s, 1] - v * zy) * inv
    u -= half
    v -= half
    start = np.uint64(base)
    n = window[0].shape[0]
    if n == SMALL:
        mean, square, cross = _sums(flat, start, stride, u, v, ux, uy, vx, vy, right, bottom, window, 0, SMALL)
    elif n == LARGE:
        mean, square, cross = _large_sums(flat, start, stride, u, v, ux, uy, vx, vy, right, bottom, window)
    else:
        mean, square, cross = _all_sums(flat, start, stride, u, v, ux, uy, vx, vy, right, bottom, window)
    var = max(square - mean * mean, np.float32(0.0))
    return np.float32(1.0) - cross / np.sqrt((variance + eps) * (var + eps))


@njit(cache=True, fastmath=True, inline="always")
def _plane_cost(flat, sizes, layout, M, m, x, y, w, a, b, window, variance, eps, order, tried, keep, limit, each, low):
    """Mean of the `keep` lowest costs over the first `tried` sources of `order`; 1 when none sees the plane.

    Gives up with `HOPELESS` once the mean must reach `limit` even if all remaining sources fitted perfectly.
    each[s] receives the cost in source s; low is scratch.
    """
    seen = 0
    total = np.float32(0.0)
    result = np.float32(-1.0)
    for i in range(tried):
        s = order[i]
        stride = np.int32(layout[s, 1])
        cost = _source_cost(
            flat, layout[s, 0], stride, sizes[s, 0], sizes[s, 1], M, m, s, x, y, w, a, b, window, variance, eps
        )
        each[s] = cost
        if cost < UNSEEN:
            at = seen
            cost = min(cost, np.float32(1.0))
            while at > 0 and low[at - 1] > cost:
                low[at] = low[at - 1]
                at -= 1
            low[at] = cost
            seen += 1
        total = np.float32(0.0)
        for k in range(min(seen, keep - (tried - 1 - i))):
            total += low[k]
        if total >= limit * np.float32(keep):
            result = HOPELESS
            worst = 0
            for k in range(1, i + 1):
                if each[order[k]] > each[order[worst]]:
                    worst = k
            order[0], order[worst] = order[worst], order[0]
            break
    if result < 0.0:
        result = total / np.float32(min(seen, keep)) if seen else np.float32(1.0)
    return result


@njit(cache=True)
def _rank(each, order):
    """Sort the sources by cost, stable."""
    for i in range(1, order.shape[0]):
        s = order[i]
        j = i - 1
        while j >= 0 and each[order[j]] > each[s]:
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = s


@njit(cache=True, fastmath=True, inline="always")
def _fits(w, a, b, x, y, K, low, high):
    """Whether the plane is in range and seen at less than about 84 degrees."""
    if not (low <= w <= high):
        return False
    # g = Kᵀ (a, b, c) is the plane g . X = 1; cos = w / (|g| |ray|)
    c = w - a * (x + 0.5) - b * (y + 0.5)
    gx = K[0] * a
    gy = K[1] * b
    gz = K[2] * a + K[3] * b + c
    rx = (x + 0.5 - K[2]) / K[0]
    ry = (y + 0.5 - K[3]) / K[1]
    return w * w > 0.01 * (gx * gx + gy * gy + gz * gz) * (rx * rx + ry * ry + 1.0)


@njit(cache=True, fastmath=True)
def _upright(w, x, y, K, tilt, yaw):
    """Gradient (a, b) of the plane through a pixel that stands upright on the sweep's planes, turned by `yaw`.

    With n = Kᵀ tilt, h = ray - (ray . n) n and k = n × h, the plane's normal is g = cos yaw h + sin yaw k; then
    a = w g_x / (f_x g . ray). Zeros where the ray runs along n.
    """
    rx = (x + np.float32(0.5) - K[2]) / K[0]
    ry = (y + np.float32(0.5) - K[3]) / K[1]
    nx = K[0] * tilt[0]
    ny = K[1] * tilt[1]
    nz = K[2] * tilt[0] + K[3] * tilt[1] + tilt[2]
    along = rx * nx + ry * ny + nz
    hx = rx - along * nx
    hy = ry - along * ny
    hz = np.float32(1.0) - along * nz
    c = np.cos(yaw)
    s = np.sin(yaw)
    gx = c * hx + s * (ny * hz - nz * hy)
    gy = c * hy + s * (nz * hx - nx * hz)
    towards = c * (hx * hx + hy * hy + hz * hz)
    if towards < 0.01:
        return np.float32(0.0), np.float32(0.0)
    return np.float32(w * gx / (K[0] * towards)), np.float32(w * gy / (K[1] * towards))


@njit(cache=True, fastmath=True)
def _best_in_strip(cost, x, y, k):
    """The neighbour with the lowest cost in the k-th of eight regions: four near diamonds, four far strips."""
    height, width = cost.shape
    best_x = -1
    best_y = -1
    best = np.float32(1e9)
    if k < 4:
        for i in range(4):
            step = 1 if i == 0 else 2
            side = 0 if i == 0 else (i - 2)
            if i == 0:
                ox, oy = 0, -1
            else:
                ox, oy = side, -(step + (1 if side == 0 else 0))
            if k == 1:
                ox, oy = -ox, -oy
            elif k == 2:
                ox, oy = oy, ox
            elif k == 3:
                ox, oy = -oy, -ox
            cx = x + ox
            cy = y + oy
            if 0 <= cx < width and 0 <= cy < height and ((cx + cy - x - y) & 1) == 1 and cost[cy, cx] < best:
                best = cost[cy, cx]
                best_x, best_y = cx, cy
    else:
        for i in range(6):
            far = 5 + 4 * i
            ox = far if k == 4 else (-far if k == 5 else 0)
            oy = far if k == 6 else (-far if k == 7 else 0)
            cx = x + ox
            cy = y + oy
            if 0 <= cx < width and 0 <= cy < height and cost[cy, cx] < best:
                best = cost[cy, cx]
                best_x, best_y = cx, cy
    return best_x, best_y


@njit(cache=True, fastmath=True, inline="always")
def _offered(k, x, y, w, a, b, cost, bw, ba, bb, K, tilt, scale, colour, round_):
    """(whether there is one, w, a, b): the k-th plane that a pixel may take instead of its own (bw, ba, bb).

    0 to 7 are those of neighbours, unless they are nearly its own; then its depth on a level plane, its plane changed
    by chance in depth, in slope and in both, and its depth on an upright plane.
    """
    offered = True
    tw = bw
    ta = ba
    tb = bb
    if k < 8:
        nx, ny = _best_in_strip(cost, x, y, k)
        offered = nx >= 0
        if offered:
            ta = a[ny, nx]
            tb = b[ny, nx]
            tw = w[ny, nx] + ta * np.float32(x - nx) + tb * np.float32(y - ny)
            near = abs(tw - bw) < np.float32(0.02) * scale
            offered = not (near and abs(ta - ba) + abs(tb - bb) < np.float32(0.004) * scale)
    elif k == LEVEL:
        along = tilt[0] * np.float32(x + 0.5) + tilt[1] * np.float32(y + 0.5) + tilt[2]
        offered = round_ < TURNING and along != np.float32(0.0)  # a ray on the horizon meets no level plane
        u = bw / along if offered else np.float32(0.0)
        ta = u * tilt[0]
        tb = u * tilt[1]
    elif k == UPRIGHT:
        offered = round_ < TURNING
        yaw = (_hash(x, y, 977 + round_ * 2 + colour) - np.float32(0.5)) * np.float32(2.2)
        ta, tb = _upright(bw, x, y, K, tilt, yaw)
    else:
        seed = (round_ * 2 + colour) * 16 + k
        reach = scale * np.float32(0.5) ** np.float32(round_)
        if k != 10:
            tw += (_hash(x, y, seed) - np.float32(0.5)) * np.float32(2.0) * reach
        if k >= 10:
            ta += (_hash(x, y, seed + 7919) - np.float32(0.5)) * np.float32(0.5) * reach
            tb += (_hash(x, y, seed + 104729) - np.float32(0.5)) * np.float32(0.5) * reach
    return offered, tw, ta, tb


@njit(cache=True, parallel=True, fastmath=True)
def score(reference, flat, sizes, layout, M, m, w, a, b, settings):
    """What the planes as they are cost, (H, W) twice, and (H, W, S) the sources by how well they fit, best first.

    The first is photometric, 0..1, nearer to 1 where fewer than `keep` sources see the plane; the second is without
    that.
    """
    height, width = reference.shape
    radius, stride, keep, sigma_grey, noise, _ = settings
    n = layout.shape[0]
    fade = _fading(sigma_grey)
    out = np.ones((height, width), np.float32)
    own = np.ones((height, width), np.float32)
    ranks = np.empty((height, width, n), np.uint8)
    for y in nb.prange(height):
        window = _new_window(radius, stride)
        each = np.empty(n, np.float32)
        low = np.empty(n, np.float32)
        order = np.arange(n)
        for x in range(width):
            variance = _fill_window(reference, x, y, fade, window)
            eps = np.float32(noise * noise)
            cost = _plane_cost(
                flat, sizes, layout, M, m, x, y, w[y, x], a[y, x], b[y, x], window, variance, eps,
                order, n, keep, ALWAYS, each, low,
            )  # fmt: skip
            seen = 0
            for s in range(n):
                seen += each[s] < UNSEEN
            out[y, x] = np.float32(1.0) - (np.float32(1.0) - cost) * np.float32(min(seen, keep)) / np.float32(keep)
            own[y, x] = cost
            _rank(each, order)
            for i in range(n):
                ranks[y, x, i] = np.uint8(order[i])
    return out, own, ranks


@njit(cache=True, fastmath=True, inline="always")
def _leaving(w, prior, stay, scale):
    """What a plane costs for lying off the first surface: stay min(1, |w - prior| / scale)."""
    return stay * min(np.float32(1.0), abs(w - prior) / scale)


@njit(cache=True, parallel=True, fastmath=True)
def improve(reference, flat, sizes, layout, M, m, w, a, b, cost, search, limits, colour, round_, settings, known):
    """One half-iteration in place: pixels of one checkerboard colour try their neighbours' planes and random changes.

    The cost of a plane is photometric + stay min(1, |w - prior| / scale), stay = pull T / (T + variance of the window).
    `search` is (fx, fy, cx, cy), the prior inverse depth (H, W) and the pull; `limits` a step of inverse depth, the
    gradient of level planes, the least and the most inverse depth; `known` whether these pixels have the planes that
    `score` told of, and what it gave, cost and ranks.
    """
    K, prior, pull = search
    scale, tilt, w_low, w_high = limits
    scored, own, ranks = known
    height, width = reference.shape
    radius, stride, keep, sigma_grey, noise, few = settings
    n = layout.shape[0]
    fade = _fading(sigma_grey)
    eps = np.float32(noise * noise)
    for y in nb.prange(height):
        window = _new_window(radius, stride)
        each = np.empty(n, np.float32)
        low = np.empty(n, np.float32)
        order = np.arange(n)
        for x in range((y + colour) & 1, width, 2):
            variance = _fill_window(reference, x, y, fade, window)
            bw = w[y, x]
            ba = a[y, x]
            bb = b[y, x]
            best = ALWAYS
            tried = n
            stay = pull * TEXTURE / (TEXTURE + variance)
            if scored:
                best = own[y, x] + _leaving(bw, prior[y, x], stay, scale)
                for i in range(n):
                    order[i] = ranks[y, x, i]
                tried = min(n, few)
            for k in range(0 if scored else -1, OFFERS):  # -1 is the plane it has: it ranks the sources
                tw, ta, tb = bw, ba, bb
                if k >= 0:
                    offered, tw, ta, tb = _offered(k, x, y, w, a, b, cost, bw, ba, bb, K, tilt, scale, colour, round_)
                    if not offered or not _fits(tw, ta, tb, x, y, K, w_low, w_high):
                        continue
                leaving = _leaving(tw, prior[y, x], stay, scale)
                total = leaving + _plane_cost(
                    flat, sizes, layout, M, m, x, y, tw, ta, tb, window, variance, eps,
                    order, tried, keep, best - leaving, each, low,
                )  # fmt: skip
                if k < 0:
                    _rank(each, order)
                    tried = min(n, few)
                if total < best:
                    best = total
                    bw = tw
                    ba = ta
                    bb = tb
            w[y, x] = bw
            a[y, x] = ba
            b[y, x] = bb
            cost[y, x] = best
