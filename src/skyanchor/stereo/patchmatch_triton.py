"""The slanted-plane PatchMatch of patchmatch_kernels.py as Triton kernels.

Formulas, random numbers and the order of the hypotheses are those of the Numba kernels, which hold grey values of the
sources in steps of 1/256; results differ where rounding decides between two hypotheses of nearly the same cost. A
program works on a tile of pixels of one colour of the checkerboard, so each reads only what another launch wrote.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton  # type: ignore[import-not-found]  # comes with torch for CUDA
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

from skyanchor.stereo.stack_triton import UNSEEN, Stack, bilinear, inserted, lowest, mean_of_lowest

HOPELESS = tl.constexpr(1e9)
TEXTURE = tl.constexpr(25.0)
"""Grey variance at which the pull of the first surface has halved."""
TURNING = tl.constexpr(2)
"""Rounds in which level and upright planes are tried; later ones stay with what neighbours have."""
ACROSS = tl.constexpr(8)
"""Pixels of one colour in a row of a tile, which is then twice as wide."""
TILE = 32
"""Pixels of a tile: a thread each."""
DIAMOND = ((0, -1), (-1, -2), (0, -3), (1, -2), (1, -2), (1, -2))
"""Offsets (dx, dy) of a near region, the last thrice: as many as in a far strip."""
STRIP = tuple((5 + 4 * i, 0) for i in range(6))


def offsets() -> tuple[tuple[tuple[int, int], ...], ...]:
    """Offsets (dx, dy) of the eight regions whose cheapest neighbour is tried: near diamonds, far strips."""
    near = (
        DIAMOND,
        tuple((-x, -y) for x, y in DIAMOND),
        tuple((y, x) for x, y in DIAMOND),
        tuple((-y, -x) for x, y in DIAMOND),
    )
    far = (
        STRIP,
        tuple((-x, y) for x, y in STRIP),
        tuple((y, x) for x, y in STRIP),
        tuple((y, -x) for x, y in STRIP),
    )
    return (*near, *far)


@triton.jit
def _hash(x, y, k):
    """Numbers in [0, 1) that depend on the three integers alone."""
    h = (x.to(tl.uint64) * 73856093) ^ (y.to(tl.uint64) * 19349663) ^ (k.to(tl.uint64) * 83492791)
    h = h ^ (h >> 13)
    h = h * 0x5BD1E995
    h = h ^ (h >> 15)
    h = h * 0x27D4EB2D
    h = h ^ (h >> 16)
    return (h & 0xFFFFFF).to(tl.float32) / 16777216.0


@triton.jit
def _tile(colour, width, block: tl.constexpr):
    """Columns and rows of the program's pixels."""
    lane = tl.arange(0, block)
    y = tl.program_id(1) * (block // ACROSS) + lane // ACROSS
    x = 2 * (tl.program_id(0) * ACROSS + lane % ACROSS) + ((y + colour) & 1)
    return x, y


@triton.jit
def _sample(reference, x, y, dx, dy, height, width, centre, sharp, spread):
    """Grey value at an offset and its bilateral weight."""
    row = tl.minimum(tl.maximum(y + dy, 0), height - 1)
    column = tl.minimum(tl.maximum(x + dx, 0), width - 1)
    value = tl.load(reference + row * width + column)
    far = (dx * dx + dy * dy) * spread
    return value, tl.exp(-tl.abs(value - centre) * sharp - far)


@triton.jit
def _window(
    reference, x, y, height, width, sharp, spread, radius: tl.constexpr, stride: tl.constexpr, block: tl.constexpr
):
    """Grey value of the centre, sum of the weights, weighted mean and variance of the windows."""
    centre = tl.load(reference + y * width + x)
    total = tl.zeros([block], tl.float32)
    mean, variance = total, total
    for dy in range(-radius, radius + 1, stride):
        for dx in tl.static_range(-radius, radius + 1, stride):
            value, weight = _sample(reference, x, y, dx, dy, height, width, centre, sharp, spread)
            total += weight
            mean += weight * value
    mean /= total
    for dy in range(-radius, radius + 1, stride):
        for dx in tl.static_range(-radius, radius + 1, stride):
            value, weight = _sample(reference, x, y, dx, dy, height, width, centre, sharp, spread)
            variance += weight * (value - mean) * (value - mean)
    return centre, total, mean, variance / total


@triton.jit
def _source_cost(
    reference, sources, sizes, M, m, s, x, y, w, a, b, window, where, height, width, source_height, source_width,
    sharp, spread, eps, radius: tl.constexpr, stride: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """1 - weighted ZNCC of the windows seen through the planes, 0..2; `UNSEEN` where a centre leaves the source."""
    centre, total, mean_own, variance = window
    px, py = x.to(tl.float32) + 0.5, y.to(tl.float32) + 0.5
    M += 9 * s
    m += 3 * s
    m0, m1, m2 = tl.load(m), tl.load(m + 1), tl.load(m + 2)
    m00, m01, m10, m11 = tl.load(M), tl.load(M + 1), tl.load(M + 3), tl.load(M + 4)
    m20, m21 = tl.load(M + 6), tl.load(M + 7)
    q2 = m20 * px + m21 * py + tl.load(M + 8) + w * m2
    seen = where & (q2 > 0.0)
    inv = 1.0 / tl.where(seen, q2, 1.0)
    u = (m00 * px + m01 * py + tl.load(M + 2) + w * m0) * inv
    v = (m10 * px + m11 * py + tl.load(M + 5) + w * m1) * inv
    right, bottom = tl.load(sizes + 2 * s) - 1.001, tl.load(sizes + 2 * s + 1) - 1.001
    seen = seen & (u >= 0.5) & (v >= 0.5) & (u - 0.5 <= right) & (v - 0.5 <= bottom)
    zx, zy = m20 + a * m2, m21 + b * m2
    ux, uy = (m00 + a * m0 - u * zx) * inv, (m01 + b * m0 - u * zy) * inv
    vx, vy = (m10 + a * m1 - v * zx) * inv, (m11 + b * m1 - v * zy) * inv
    u -= 0.5
    v -= 0.5
    image = sources + s * source_height * source_width
    mean = tl.zeros([block], tl.float32)
    square, cross = mean, mean
    for dy in range(-radius, radius + 1, stride):
        for dx in tl.static_range(-radius, radius + 1, stride):
            own, weight = _sample(reference, x, y, dx, dy, height, width, centre, sharp, spread)
            su = tl.minimum(tl.maximum(u + ux * dx + uy * dy, 0.0), right)
            sv = tl.minimum(tl.maximum(v + vx * dx + vy * dy, 0.0), bottom)
            value = bilinear(image, source_width, su, sv, seen)
            weighted = weight * value
            mean += weighted
            square += weighted * value
            cross += weighted * (own - mean_own)
    mean /= total
    var = tl.maximum(square / total - mean * mean, 0.0)
    cost = 1.0 - cross / total / tl.sqrt((variance + eps) * (var + eps))
    return tl.where(seen, cost, UNSEEN)


@triton.jit(do_not_specialize=["colour", "count"])
def _costs(
    reference, sources, sizes, M, m, planes, out, colour, count, height, width, source_height, source_width,
    sharp, spread, eps, radius: tl.constexpr, stride: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Cost (S, H, W) of the planes as they are in every source."""
    x, y = _tile(colour, width, block)
    inside = (x < width) & (y < height)
    x, y = tl.minimum(x, width - 1), tl.minimum(y, height - 1)
    at, pixels = y * width + x, height * width
    w, a, b = tl.load(planes + at), tl.load(planes + pixels + at), tl.load(planes + 2 * pixels + at)
    window = _window(reference, x, y, height, width, sharp, spread, radius, stride, block)
    for s in range(count):
        cost = _source_cost(
            reference, sources, sizes, M, m, s, x, y, w, a, b, window, inside, height, width,
            source_height, source_width, sharp, spread, eps, radius, stride, block,
        )  # fmt: skip
        tl.store(out + s * pixels + at, cost, mask=inside)


@triton.jit(do_not_specialize=["count"])
def _rank(each, order, lows, seen, count, pixels, keep: tl.constexpr, block: tl.constexpr):
    """The sources by cost, stable (S, H, W), the mean of the `keep` lowest costs, and how many see the plane."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < pixels
    low = lowest(keep, block)
    sum_seen = tl.zeros([block], tl.int32)
    for s in range(count):
        cost = tl.load(each + s * pixels + at, mask=inside, other=UNSEEN)
        low = inserted(low, tl.where(cost < UNSEEN, tl.minimum(cost, 1.0), UNSEEN), keep)
        sum_seen += (cost < UNSEEN).to(tl.int32)
        rank = tl.zeros([block], tl.int32)
        for other in range(count):
            theirs = tl.load(each + other * pixels + at, mask=inside, other=UNSEEN)
            rank += ((theirs < cost) | ((theirs == cost) & (other < s))).to(tl.int32)
        tl.store(order + rank * pixels + at, tl.zeros([block], tl.int32) + s, mask=inside)
    tl.store(lows + at, mean_of_lowest(low, keep, block), mask=inside)
    tl.store(seen + at, sum_seen, mask=inside)


@triton.jit
def _fits(w, a, b, px, py, K, low, high):
    """Whether the planes are in range and seen at less than about 84 degrees."""
    fx, fy, cx, cy = tl.load(K), tl.load(K + 1), tl.load(K + 2), tl.load(K + 3)
    gx, gy = fx * a, fy * b
    gz = (cx - px) * a + (cy - py) * b + w
    rx, ry = (px - cx) / fx, (py - cy) / fy
    return (w >= low) & (w <= high) & (w * w > 0.01 * (gx * gx + gy * gy + gz * gz) * (rx * rx + ry * ry + 1.0))


@triton.jit
def _upright(w, px, py, K, tilt, yaw):
    """Gradient of planes that stand upright on the sweep's planes; the formulas are in the Numba kernel."""
    fx, fy, cx, cy = tl.load(K), tl.load(K + 1), tl.load(K + 2), tl.load(K + 3)
    t0, t1, t2 = tl.load(tilt), tl.load(tilt + 1), tl.load(tilt + 2)
    rx, ry = (px - cx) / fx, (py - cy) / fy
    nx, ny, nz = fx * t0, fy * t1, cx * t0 + cy * t1 + t2
    along = rx * nx + ry * ny + nz
    hx, hy, hz = rx - along * nx, ry - along * ny, 1.0 - along * nz
    c, s = tl.cos(yaw), tl.sin(yaw)
    gx, gy = c * hx + s * (ny * hz - nz * hy), c * hy + s * (nz * hx - nx * hz)
    towards = c * (hx * hx + hy * hy + hz * hz)
    scale = tl.where(towards < 0.01, 0.0, w / tl.maximum(towards, 0.01))
    return scale * gx / fx, scale * gy / fy


@triton.jit
def _neighbour(planes, cost, regions, region, x, y, height, width, inside, block: tl.constexpr):
    """Planes at the pixels of the cheapest neighbour in a region, and whether there is one."""
    pixels = height * width
    best = tl.full([block], HOPELESS, tl.float32)
    best_x, best_y = x, y
    for i in range(6):
        place = regions + 12 * region + 2 * i
        cx, cy = x + tl.load(place), y + tl.load(place + 1)
        there = inside & (cx >= 0) & (cx < width) & (cy >= 0) & (cy < height)
        here = tl.load(cost + cy * width + cx, mask=there, other=HOPELESS)
        better = here < best
        best = tl.where(better, here, best)
        best_x, best_y = tl.where(better, cx, best_x), tl.where(better, cy, best_y)
    at = best_y * width + best_x
    w, a, b = tl.load(planes + at), tl.load(planes + pixels + at), tl.load(planes + 2 * pixels + at)
    w += a * (x - best_x).to(tl.float32) + b * (y - best_y).to(tl.float32)
    return w, a, b, best < HOPELESS


@triton.jit
def _changed(k, round_, colour, x, y, w, a, b, K, tilt, reach):
    """The k-th hypothesis that is not a neighbour's: level, moved, turned, both, or upright."""
    px, py = x.to(tl.float32) + 0.5, y.to(tl.float32) + 0.5
    turn = round_ * 2 + colour
    if k == 8:
        t0, t1 = tl.load(tilt), tl.load(tilt + 1)
        u = w / (t0 * px + t1 * py + tl.load(tilt + 2))
        a, b = u * t0, u * t1
    elif k == 13:
        a, b = _upright(w, px, py, K, tilt, (_hash(x, y, 977 + turn) - 0.5) * 2.2)
    else:
        seed = turn * 16 + k
        if k != 10:
            w += (_hash(x, y, seed) - 0.5) * 2.0 * reach
        if k >= 10:
            a += (_hash(x, y, seed + 7919) - 0.5) * 0.5 * reach
            b += (_hash(x, y, seed + 104729) - 0.5) * 0.5 * reach
    return w, a, b


@triton.jit(do_not_specialize=["colour", "round_", "tried"])
def _improve(
    reference, sources, sizes, M, m, planes, cost, order, lows, prior, K, tilt, regions,
    colour, round_, tried, height, width, source_height, source_width,
    sharp, spread, eps, pull, scale, reach, w_low, w_high,
    keep: tl.constexpr, radius: tl.constexpr, stride: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Pixels of one colour try their neighbours' planes and random changes, in place."""
    x, y = _tile(colour, width, block)
    inside = (x < width) & (y < height)
    x, y = tl.minimum(x, width - 1), tl.minimum(y, height - 1)
    at, pixels = y * width + x, height * width
    px, py = x.to(tl.float32) + 0.5, y.to(tl.float32) + 0.5
    window = _window(reference, x, y, height, width, sharp, spread, radius, stride, block)
    stay = pull * TEXTURE / (TEXTURE + window[3])
    first = tl.load(prior + at)
    bw, ba, bb = tl.load(planes + at), tl.load(planes + pixels + at), tl.load(planes + 2 * pixels + at)
    best = stay * tl.minimum(1.0, tl.abs(bw - first) / scale) + tl.load(lows + at)
    for k in range(14):
        tw, ta, tb = bw, ba, bb
        wanted = inside
        if k < 8:
            tw, ta, tb, found = _neighbour(planes, cost, regions, k, x, y, height, width, inside, block)
            near = tl.abs(tw - bw) < 0.02 * scale
            wanted = found & ~(near & (tl.abs(ta - ba) + tl.abs(tb - bb) < 0.004 * scale))
        else:
            tw, ta, tb = _changed(k, round_, colour, x, y, bw, ba, bb, K, tilt, reach)
            wanted = wanted & ((round_ < TURNING) | ((k != 8) & (k != 13)))
        wanted = wanted & inside & _fits(tw, ta, tb, px, py, K, w_low, w_high)
        leaving = stay * tl.minimum(1.0, tl.abs(tw - first) / scale)
        low = lowest(keep, block)
        i = 0
        left = tl.max(wanted.to(tl.int32), axis=0)
        while (i < tried) & (left > 0):
            s = tl.load(order + i * pixels + at)
            one = _source_cost(
                reference, sources, sizes, M, m, s, x, y, tw, ta, tb, window, wanted, height, width,
                source_height, source_width, sharp, spread, eps, radius, stride, block,
            )  # fmt: skip
            low = inserted(low, tl.where(one < UNSEEN, tl.minimum(one, 1.0), UNSEEN), keep)
            i += 1
            least = tl.zeros([block], tl.float32)
            for j in tl.static_range(keep):
                least += tl.where((j < keep - (tried - i)) & (low[j] < UNSEEN), low[j], 0.0)
            wanted = wanted & (least < (best - leaving) * keep)
            left = tl.max(wanted.to(tl.int32), axis=0)
        total = leaving + mean_of_lowest(low, keep, block)
        better = wanted & (total < best)
        best = tl.where(better, total, best)
        bw, ba, bb = tl.where(better, tw, bw), tl.where(better, ta, ba), tl.where(better, tb, bb)
    tl.store(planes + at, bw, mask=inside)
    tl.store(planes + pixels + at, ba, mask=inside)
    tl.store(planes + 2 * pixels + at, bb, mask=inside)
    tl.store(cost + at, best, mask=inside)


@dataclass(frozen=True)
class Window:
    """How windows are compared."""

    radius: int
    """Pixels."""
    stride: int
    """Pixels from sample to sample."""
    sigma_grey: float
    """Grey levels from the middle over which a sample's weight falls."""
    noise: float
    """Of the photos, grey levels."""
    keep: int
    """Sources whose mean cost counts."""

    @property
    def figures(self) -> tuple[float, float, float]:
        """1 / sigma, 1 / (2 (0.7 radius)²), noise²."""
        return 1.0 / self.sigma_grey, 1.0 / (2.0 * (0.7 * self.radius) ** 2), self.noise**2


@dataclass(frozen=True, eq=False)
class Search:
    """What bounds the planes that are tried."""

    K: Tensor
    """fx, fy, cx, cy."""
    tilt: Tensor
    """(3,), of the sweep's planes."""
    prior: Tensor
    """(H, W), inverse depth of the first surface."""
    pull: float
    """What it costs most to leave that surface."""
    scale: float
    """Inverse depth that moves a source by a pixel."""
    low: float
    """Least inverse depth."""
    high: float
    """Most inverse depth."""
    tried: int
    """Sources in which new planes are tried."""


class PatchMatch:
    """Planes of one photo, and what they cost."""

    def __init__(self, stack: Stack, planes: Tensor, window: Window) -> None:
        """`planes` (3, H, W) is w, a, b, and changes as they improve."""
        self.stack, self.planes, self.window = stack, planes, window
        _, height, width = planes.shape
        count = len(stack.sources)
        self.each = torch.empty((count, height, width), device=planes.device)
        self.order = torch.empty((count, height, width), dtype=torch.int32, device=planes.device)
        self.lows = torch.empty((height, width), device=planes.device)
        self.seen = torch.empty((height, width), dtype=torch.int32, device=planes.device)
        self.regions = torch.tensor(offsets(), dtype=torch.int32, device=planes.device)
        self.grid = (triton.cdiv(triton.cdiv(width, 2), ACROSS.value), triton.cdiv(height, TILE // ACROSS.value))
        self.sizes = (height, width, *stack.sources.shape[1:])
        self.images = (stack.reference, stack.sources, stack.sizes, stack.M, stack.m)

    def score(self) -> Tensor:
        """Photometric cost (H, W) of the planes as they are, 0..1, nearer to 1 where fewer than `keep` see them."""
        self._compare((0, 1))
        share = self.seen.clamp(max=self.window.keep) / self.window.keep
        return 1.0 - (1.0 - self.lows) * share

    def improve(self, cost: Tensor, search: Search, round_: int, colour: int) -> None:
        """One half-iteration in place over the pixels of one colour of the checkerboard."""
        self._compare((colour,))
        window = self.window
        tried = min(len(self.stack.sources), search.tried)
        _improve[self.grid](
            *self.images, self.planes, cost, self.order, self.lows, search.prior, search.K, search.tilt, self.regions,
            colour, round_, tried, *self.sizes, *window.figures,
            search.pull, search.scale, search.scale * 0.5**round_, search.low, search.high,
            window.keep, window.radius, window.stride, TILE, num_warps=1,
        )  # fmt: skip

    def _compare(self, colours: tuple[int, ...]) -> None:
        """Fill what the planes cost in each source, and the order of the sources."""
        window, count = self.window, len(self.stack.sources)
        for colour in colours:
            _costs[self.grid](
                *self.images, self.planes, self.each, colour, count, *self.sizes, *window.figures,
                window.radius, window.stride, TILE, num_warps=1,
            )  # fmt: skip
        pixels = self.lows.numel()
        _rank[(triton.cdiv(pixels, 256),)](self.each, self.order, self.lows, self.seen, count, pixels, window.keep, 256)
