"""The sweep and the PatchMatch of the Numba kernels as torch tensor operations, for CUDA.

Formulas, random numbers and the order of the hypotheses are those of sweep_kernels.py and patchmatch_kernels.py;
results differ from theirs only where rounding decides between two hypotheses of nearly the same cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from skyanchor.types import Floats32

UNSEEN = 2.0
TEXTURE = 25.0
DIAMOND = ((0, -1), (-1, -2), (0, -3), (1, -2))
REACH = (5, 9, 13, 17, 21, 25)


@dataclass(frozen=True, eq=False)
class Images:
    """A grey stack on the device."""

    reference: Any
    """(H, W)."""
    sources: Any
    """(S, 1, H, W)."""
    sizes: Any
    """(S, 2)."""
    M: Any
    m: Any


def upload(reference: Floats32, sources: Floats32, sizes: Floats32, M: Floats32, m: Floats32, device: str) -> Images:
    """The stack as tensors."""
    put = [torch.as_tensor(np.ascontiguousarray(v), device=device) for v in (reference, sources[:, None], sizes, M, m)]
    return Images(*put)


def _sample(image: Any, u: Any, v: Any) -> Any:
    """Bilinear values of image (1, H, W) at pixel coordinates u, v of shape (A, B), replicated beyond the border."""
    height, width = image.shape[-2:]
    grid = torch.stack([u * (2.0 / width) - 1.0, v * (2.0 / height) - 1.0], dim=-1)
    return functional.grid_sample(image[None], grid[None], mode="bilinear", padding_mode="border", align_corners=False)[
        0, 0
    ]


def _mean_of_best(costs: Any, keep: int) -> Any:
    """Mean of the `keep` smallest seen costs over dimension 0; 1 where nothing is seen."""
    low = torch.sort(costs, dim=0).values[: min(keep, costs.shape[0])]
    seen = low < UNSEEN
    count = seen.sum(dim=0)
    mean = (low * seen).sum(dim=0) / count.clamp(min=1)
    return torch.where(count > 0, mean, torch.ones_like(mean))


# --- plane sweep --------------------------------------------------------------------------------------------------


def sweep(images: Images, tilt: Floats32, planes: Floats32, radius: int, noise: float, keep: int) -> Any:
    """Matching cost (H, W, D) int32, 0..255."""
    height, width = images.reference.shape
    y, x = torch.meshgrid(
        torch.arange(height, device=images.M.device) + 0.5,
        torch.arange(width, device=images.M.device) + 0.5,
        indexing="ij",
    )
    slope = float(tilt[0]) * x + float(tilt[1]) * y + float(tilt[2])
    slices = []
    for u_plane in planes:
        w = float(u_plane) * slope
        costs = [_plane_zncc(images, s, x, y, w, radius, noise) for s in range(images.M.shape[0])]
        slices.append((_mean_of_best(torch.stack(costs), keep) * 255.0).to(torch.uint8))
    return torch.stack(slices, dim=-1).to(torch.int32)


def _plane_zncc(images: Images, s: int, x: Any, y: Any, w: Any, radius: int, noise: float) -> Any:
    """1 - ZNCC of source s seen through the plane of inverse depth w, (H, W)."""
    M, m = images.M[s], images.m[s]
    q = [M[i, 0] * x + M[i, 1] * y + M[i, 2] + w * m[i] for i in range(3)]
    u, v = q[0] / q[2], q[1] / q[2]
    right, bottom = images.sizes[s, 0] - 0.501, images.sizes[s, 1] - 0.501
    seen = (w > 0) & (q[2] > 0) & (u >= 0.5) & (v >= 0.5) & (u < right) & (v < bottom)
    b = _sample(images.sources[s], u, v)
    a, one = images.reference, seen.to(b.dtype)
    sums = torch.stack([one, one * a, one * b, one * a * a, one * b * b, one * a * b])
    size = 2 * radius + 1
    s0, s1, s2, s3, s4, s5 = functional.avg_pool2d(sums[None].double(), size, 1, radius)[0] * size**2
    n = s0.clamp(min=1.0)
    ma, mb, eps = s1 / n, s2 / n, noise * noise
    va, vb = (s3 / n - ma * ma).clamp(min=0.0), (s4 / n - mb * mb).clamp(min=0.0)
    cost = (1.0 - (s5 / n - ma * mb) / torch.sqrt((va + eps) * (vb + eps))).clamp(0.0, 1.0)
    return torch.where(seen & (s0 > 3.5), cost.float(), torch.full_like(w, UNSEEN))


def aggregate(volume: Any, reference: Any, p1: int, p2: int, contrast: float) -> Any:
    """Semi-global aggregation over eight paths, (H, W, D) int32."""
    total = torch.zeros_like(volume)
    for dx, dy in ((1, 0), (-1, 0)):
        _scan(volume.transpose(0, 1), reference.T, total.transpose(0, 1), dx, dy, p1, p2, contrast)
    for dx, dy in ((0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1)):
        _scan(volume, reference, total, dy, dx, p1, p2, contrast)
    return total


def _scan(volume: Any, reference: Any, total: Any, step: int, side: int, p1: int, p2: int, contrast: float) -> None:
    """Add the path costs of one direction: rows go by `step`, the path moves sideways by `side`."""
    rows = range(volume.shape[0]) if step > 0 else range(volume.shape[0] - 1, -1, -1)
    before, grey = torch.zeros_like(volume[0]), reference[rows[0]]
    far = 1 << 20
    for row in rows:
        if side:
            before, grey = torch.roll(before, side, 0), torch.roll(grey, side, 0)
            edge = 0 if side > 0 else -1
            before[edge], grey[edge] = 0, reference[row][edge]
        jump = torch.clamp((p2 / (1.0 + (reference[row] - grey).abs() / contrast)).to(torch.int32), min=p1 + 1)
        low = before.min(dim=1, keepdim=True).values
        padded = functional.pad(before, (1, 1), value=far)
        near = torch.minimum(padded[:, :-2], padded[:, 2:]) + p1
        best = torch.minimum(torch.minimum(before, near), low + jump[:, None])
        before, grey = volume[row] + best - low, reference[row]
        total[row] += before


def best_planes(total: Any, planes: Floats32) -> Any:
    """Per pixel 1/distance of the best plane, refined by a parabola, (H, W)."""
    count = len(planes)
    k = total.argmin(dim=2, keepdim=True)
    inner = k.clamp(1, count - 2)
    left, mid, right = (total.gather(2, inner + i).float()[..., 0] for i in (-1, 0, 1))
    bend = left + right - 2.0 * mid
    shift = torch.where((bend > 0) & (inner == k)[..., 0], 0.5 * (left - right) / bend.clamp(min=1e-6), 0.0)
    u = torch.as_tensor(planes, device=total.device)
    return u[k[..., 0]] + shift * float(planes[-1] - planes[0]) / (count - 1)


# --- PatchMatch ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Windows:
    """Grey windows of P reference pixels."""

    x: Any
    """(P,), column."""
    y: Any
    """(P,), row."""
    dx: Any
    """(n,), sample offsets, pixels."""
    dy: Any
    values: Any
    """(P, n), grey with the weighted mean removed."""
    weights: Any
    """(P, n), bilateral, sum 1."""
    variance: Any
    """(P,)."""


def windows(reference: Any, x: Any, y: Any, radius: int, stride: int, sigma_grey: float) -> Windows:
    """The bilateral windows around pixels (x, y)."""
    height, width = reference.shape
    steps = torch.arange(-radius, radius + 1, stride, device=reference.device)
    dy, dx = (g.reshape(-1) for g in torch.meshgrid(steps, steps, indexing="ij"))
    values = reference[(y[:, None] + dy).clamp(0, height - 1), (x[:, None] + dx).clamp(0, width - 1)]
    spread = (dx * dx + dy * dy) / (2.0 * (0.7 * radius) ** 2)
    weights = torch.exp(-(values - reference[y, x][:, None]).abs() / sigma_grey - spread)
    weights = weights / weights.sum(dim=1, keepdim=True)
    values = values - (weights * values).sum(dim=1, keepdim=True)
    return Windows(x, y, dx.float(), dy.float(), values, weights, (weights * values * values).sum(dim=1))


def plane_costs(images: Images, win: Windows, w: Any, a: Any, b: Any, noise: float) -> Any:
    """Cost (S, P) of the planes (w, a, b) in every source: 1 - ZNCC, at most 1; `UNSEEN` where it does not look."""
    return torch.stack([_source_cost(images, s, win, w, a, b, noise) for s in range(images.M.shape[0])])


def _source_cost(images: Images, s: int, win: Windows, w: Any, a: Any, b: Any, noise: float) -> Any:
    M, m = images.M[s], images.m[s]
    px, py = win.x + 0.5, win.y + 0.5
    q = [M[i, 0] * px + M[i, 1] * py + M[i, 2] + w * m[i] for i in range(3)]
    u, v = q[0] / q[2], q[1] / q[2]
    right, bottom = images.sizes[s, 0] - 0.501, images.sizes[s, 1] - 0.501
    seen = (q[2] > 0) & (u >= 0.5) & (v >= 0.5) & (u <= right) & (v <= bottom)
    zx, zy = M[2, 0] + a * m[2], M[2, 1] + b * m[2]
    rate = [(M[i, j] + g * m[i] - p * z) / q[2] for i, p in ((0, u), (1, v)) for j, g, z in ((0, a, zx), (1, b, zy))]
    su = u[:, None] + rate[0][:, None] * win.dx + rate[1][:, None] * win.dy
    sv = v[:, None] + rate[2][:, None] * win.dx + rate[3][:, None] * win.dy
    value = _sample(images.sources[s], su.clamp(max=right), sv.clamp(max=bottom))
    weighted = win.weights * value
    mean = weighted.sum(dim=1)
    var = ((weighted * value).sum(dim=1) - mean * mean).clamp(min=0.0)
    cross = (weighted * win.values).sum(dim=1)
    cost = (1.0 - cross / torch.sqrt((win.variance + noise**2) * (var + noise**2))).clamp(max=1.0)
    return torch.where(seen, cost, torch.full_like(cost, UNSEEN))


def hashed(x: Any, y: Any, k: int) -> Any:
    """Numbers in [0, 1) that depend on the three integers alone; the same as the Numba kernel's."""
    full = 0xFFFFFFFF
    h = ((x * 73856093) ^ (y * 19349663) ^ (k * 83492791)) & full
    h = h ^ (h >> 13)
    h = (h * 0x5BD1E995) & full
    h = h ^ (h >> 15)
    h = (h * 0x27D4EB2D) & full
    h = h ^ (h >> 16)
    return (h & 0xFFFFFF).float() / float(0x1000000)


def offsets_of(region: int) -> tuple[tuple[int, int], ...]:
    """Offsets (dx, dy) of the k-th of eight regions: four near diamonds, four far strips; all of odd distance."""
    if region < 4:
        turn = (lambda o: o, lambda o: (-o[0], -o[1]), lambda o: (o[1], o[0]), lambda o: (-o[1], -o[0]))[region]
        return tuple(turn(o) for o in DIAMOND)
    ox, oy = ((1, 0), (-1, 0), (0, 1), (0, -1))[region - 4]
    return tuple((ox * far, oy * far) for far in REACH)


def neighbour(cost: Any, x: Any, y: Any, region: int) -> tuple[Any, Any, Any]:
    """Column and row of the cheapest neighbour in a region, and whether there is one."""
    height, width = cost.shape
    best = torch.full(x.shape, float("inf"), device=cost.device)
    bx, by = x.clone(), y.clone()
    for ox, oy in offsets_of(region):
        cx, cy = x + ox, y + oy
        inside = (cx >= 0) & (cx < width) & (cy >= 0) & (cy < height)
        here = torch.where(inside, cost[cy.clamp(0, height - 1), cx.clamp(0, width - 1)], float("inf"))
        better = here < best
        best, bx, by = torch.where(better, here, best), torch.where(better, cx, bx), torch.where(better, cy, by)
    return bx, by, torch.isfinite(best)


def fits(w: Any, a: Any, b: Any, x: Any, y: Any, K: Floats32, low: float, high: float) -> Any:
    """Whether the planes are in range and seen at less than about 84 degrees."""
    fx, fy, cx, cy = (float(v) for v in K)
    c = w - a * (x + 0.5) - b * (y + 0.5)
    length = (fx * a) ** 2 + (fy * b) ** 2 + (cx * a + cy * b + c) ** 2
    ray = ((x + 0.5 - cx) / fx) ** 2 + ((y + 0.5 - cy) / fy) ** 2 + 1.0
    return (w >= low) & (w <= high) & (w * w > 0.01 * length * ray)


@dataclass(frozen=True, eq=False)
class Search:
    """What a PatchMatch half-iteration needs beside the planes."""

    images: Images
    K: Floats32
    """fx, fy, cx, cy."""
    tilt: Floats32
    prior: Any
    """(H, W), inverse depth of the first surface."""
    pull: float
    scale: float
    low: float
    high: float
    noise: float
    keep: int
    tried: int

    def leaving(self, w: Any, prior: Any, variance: Any) -> Any:
        """Cost of leaving the first surface; less where the photo has texture."""
        return self.pull * TEXTURE / (TEXTURE + variance) * ((w - prior).abs() / self.scale).clamp(max=1.0)


def proposal(search: Search, planes: Any, cost: Any, win: Windows, best: Any, k: int, round_: int, colour: int) -> Any:
    """The k-th hypothesis (3, P) of each pixel, and whether it is worth trying (P,)."""
    x, y = win.x, win.y
    w, a, b = best
    try_it = torch.ones_like(w, dtype=torch.bool)
    if k < 8:
        nx, ny, found = neighbour(cost, x, y, k)
        nw, na, nb = planes[:, ny, nx]
        nw = nw + na * (x - nx) + nb * (y - ny)
        same = ((nw - w).abs() < 0.02 * search.scale) & ((na - a).abs() + (nb - b).abs() < 0.004 * search.scale)
        return torch.stack([nw, na, nb]), found & ~same
    if k == 8:
        t0, t1, t2 = (float(t) for t in search.tilt)
        u = w / (t0 * (x + 0.5) + t1 * (y + 0.5) + t2)
        return torch.stack([w, u * t0, u * t1]), try_it
    if k == 13:
        a, b = upright(w, x, y, search.K, search.tilt, (hashed(x, y, 977 + round_ * 2 + colour) - 0.5) * 2.2)
        return torch.stack([w, a, b]), try_it
    seed = (round_ * 2 + colour) * 16 + k
    reach = search.scale * 0.5**round_
    if k != 10:
        w = w + (hashed(x, y, seed) - 0.5) * 2.0 * reach
    if k >= 10:
        a = a + (hashed(x, y, seed + 7919) - 0.5) * 0.5 * reach
        b = b + (hashed(x, y, seed + 104729) - 0.5) * 0.5 * reach
    return torch.stack([w, a, b]), try_it


def upright(w: Any, x: Any, y: Any, K: Floats32, tilt: Floats32, yaw: Any) -> tuple[Any, Any]:
    """Gradient of planes that stand upright on the sweep's planes; the formulas are in the Numba kernel."""
    fx, fy, cx, cy = (float(v) for v in K)
    t0, t1, t2 = (float(t) for t in tilt)
    nx, ny, nz = fx * t0, fy * t1, cx * t0 + cy * t1 + t2
    rx, ry = (x + 0.5 - cx) / fx, (y + 0.5 - cy) / fy
    along = rx * nx + ry * ny + nz
    hx, hy, hz = rx - along * nx, ry - along * ny, 1.0 - along * nz
    c, s = torch.cos(yaw), torch.sin(yaw)
    gx, gy = c * hx + s * (ny * hz - nz * hy), c * hy + s * (nz * hx - nx * hz)
    towards = c * (hx * hx + hy * hy + hz * hz)
    scale = torch.where(towards < 0.01, torch.zeros_like(w), w / towards.clamp(min=0.01))
    return scale * gx / fx, scale * gy / fy


def improve(search: Search, planes: Any, cost: Any, win: Windows, round_: int, colour: int) -> None:
    """One half-iteration in place over the pixels of `win`, all of one checkerboard colour."""
    best = planes[:, win.y, win.x]
    prior = search.prior[win.y, win.x]
    now = plane_costs(search.images, win, best[0], best[1], best[2], search.noise)
    untried = now.argsort(dim=0, stable=True).argsort(dim=0) >= search.tried
    lowest = _mean_of_best(now, search.keep) + search.leaving(best[0], prior, win.variance)
    for k in range(14):
        trial, ok = proposal(search, planes, cost, win, best, k, round_, colour)
        ok = ok & fits(trial[0], trial[1], trial[2], win.x, win.y, search.K, search.low, search.high)
        costs = plane_costs(search.images, win, trial[0], trial[1], trial[2], search.noise)
        total = _mean_of_best(costs.masked_fill(untried, UNSEEN), search.keep) + search.leaving(
            trial[0], prior, win.variance
        )
        better = ok & (total < lowest)
        lowest = torch.where(better, total, lowest)
        best = torch.where(better, trial, best)
    planes[:, win.y, win.x] = best
    cost[win.y, win.x] = lowest


def board(reference: Any, colour: int, settings: tuple[int, int, float]) -> Windows:
    """Windows of all pixels of one colour of the checkerboard; colour 2 is all pixels."""
    height, width = reference.shape
    y, x = (g.reshape(-1) for g in torch.meshgrid(
        torch.arange(height, device=reference.device), torch.arange(width, device=reference.device), indexing="ij"
    ))  # fmt: skip
    mine = ((x + y) & 1 == colour) | (colour == 2)
    return windows(reference, x[mine], y[mine], *settings)


def refine(search: Search, start: Any, rounds: int, settings: tuple[int, int, float]) -> tuple[Any, Any]:
    """Refined planes (3, H, W) and their photometric cost (H, W)."""
    planes = start.clone()
    reference = search.images.reference
    everywhere = board(reference, 2, settings)
    boards = (board(reference, 0, settings), board(reference, 1, settings))

    def photometric() -> Any:
        w, a, b = planes.reshape(3, -1)
        costs = plane_costs(search.images, everywhere, w, a, b, search.noise)
        seen = (costs < UNSEEN).sum(dim=0).clamp(max=search.keep) / search.keep
        return 1.0 - (1.0 - _mean_of_best(costs, search.keep)) * seen

    cost = photometric().reshape(reference.shape)
    for round_ in range(rounds):
        for colour in (0, 1):
            improve(search, planes, cost, boards[colour], round_, colour)
    return planes, photometric().reshape(reference.shape)
