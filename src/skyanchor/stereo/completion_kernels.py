"""Numba kernels of the completion: robust planes over plain regions, and colour-guided filling of what is left."""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numba as nb
import numpy as np

from skyanchor.compiled import njit


@njit(cache=True)
def _noise(i, k):
    """A number in [0, 1) from two integers."""
    h = np.uint32(i) * np.uint32(2654435761) ^ np.uint32(k) * np.uint32(40503)
    h ^= h >> np.uint32(15)
    h *= np.uint32(0x2C1B3C6D)
    h ^= h >> np.uint32(12)
    return (h & np.uint32(0xFFFFFF)) / float(0x1000000)


@njit(cache=True)
def _solve(x, y, w, weight):
    """Weighted least squares (a, b, c) of w = a x + b y + c by Cramer's rule; False when the points are collinear."""
    sxx = sxy = sx = syy = sy = s = sxw = syw = sw = 0.0
    for i in range(x.shape[0]):
        k = weight[i]
        sxx += k * x[i] * x[i]
        sxy += k * x[i] * y[i]
        sx += k * x[i]
        syy += k * y[i] * y[i]
        sy += k * y[i]
        s += k
        sxw += k * x[i] * w[i]
        syw += k * y[i] * w[i]
        sw += k * w[i]
    c00 = syy * s - sy * sy
    c01 = sxy * s - sy * sx
    c02 = sxy * sy - syy * sx
    det = sxx * c00 - sxy * c01 + sx * c02
    if abs(det) < 1e-9 * max(sxx * syy * s, 1e-30):
        return False, 0.0, 0.0, 0.0
    a = (sxw * c00 - sxy * (syw * s - sw * sy) + sx * (syw * sy - syy * sw)) / det
    b = (sxx * (syw * s - sy * sw) - sxw * c01 + sx * (sxy * sw - syw * sx)) / det
    c = (sxx * (syy * sw - sy * syw) - sxy * (sxy * sw - syw * sx) + sxw * c02) / det
    return True, a, b, c


@njit(cache=True)
def fit_plane(x, y, w, tolerance, trials, seed):
    """Robust plane (a, b, c) of w = a x + b y + c and the share of points within tolerance.

    RANSAC over three points, then four rounds of reweighted least squares with 1 / (1 + (r / tolerance)²)².
    x and y should be centred and of the order of one for conditioning.
    """
    n = x.shape[0]
    best = -1.0
    pa = pb = pc = 0.0
    stride = max(1, n // 2000)
    for t in range(trials):
        i = int(_noise(seed, 3 * t) * n)
        j = int(_noise(seed, 3 * t + 1) * n)
        k = int(_noise(seed, 3 * t + 2) * n)
        det = (x[j] - x[i]) * (y[k] - y[i]) - (x[k] - x[i]) * (y[j] - y[i])
        if abs(det) < 1e-3:
            continue
        a = ((w[j] - w[i]) * (y[k] - y[i]) - (w[k] - w[i]) * (y[j] - y[i])) / det
        b = ((x[j] - x[i]) * (w[k] - w[i]) - (x[k] - x[i]) * (w[j] - w[i])) / det
        c = w[i] - a * x[i] - b * y[i]
        score = 0.0
        for p in range(0, n, stride):
            r = (w[p] - a * x[p] - b * y[p] - c) / tolerance[p]
            score += max(0.0, 1.0 - r * r)
        if score > best:
            best = score
            pa, pb, pc = a, b, c
    weight = np.empty(n)
    for _ in range(4):
        for p in range(n):
            r = (w[p] - pa * x[p] - pb * y[p] - pc) / tolerance[p]
            weight[p] = 1.0 / (1.0 + r * r) ** 2 / (tolerance[p] * tolerance[p])
        ok, a, b, c = _solve(x, y, w, weight)
        if not ok:
            break
        pa, pb, pc = a, b, c
    inside = 0
    for p in range(n):
        if abs(w[p] - pa * x[p] - pb * y[p] - pc) < tolerance[p]:
            inside += 1
    return pa, pb, pc, inside / max(n, 1)


@njit(cache=True, parallel=True)
def fill(w, a, b, level, known, grey, sigma_grey, reach, tilt):
    """Planes for the unknown pixels, each from the known pixel it resembles most along one of 16 directions.

    The choice minimises distance / 8 + grey difference / sigma along the way, so a pixel joins the surface whose
    colour it has. Level surfaces go on level (w ∝ tilt . p), others along their own plane.
    """
    height, width = w.shape
    out_w = w.copy()
    out_a = a.copy()
    out_b = b.copy()
    filled = np.zeros((height, width), np.bool_)
    dxs = np.array([1, 1, 1, 2, 0, -1, -1, -2, -1, -1, -1, -2, 0, 1, 1, 2])
    dys = np.array([0, 1, 2, 1, 1, 1, 2, 1, 0, -1, -2, -1, -1, -1, -2, -1])
    for row in nb.prange(height):
        y = np.int64(row)
        for x in range(width):
            if known[y, x]:
                continue
            best = np.float32(1e9)
            bx = -1
            by = -1
            for k in range(16):
                cx = x
                cy = y
                worst = np.float32(0.0)
                for _ in range(1, reach):
                    cx += dxs[k]
                    cy += dys[k]
                    if cx < 0 or cy < 0 or cx >= width or cy >= height:
                        break
                    worst = max(worst, abs(grey[cy, cx] - grey[y, x]))
                    far = np.sqrt(float((cx - x) ** 2 + (cy - y) ** 2))
                    total = far / 8.0 + worst / sigma_grey
                    if total >= best:
                        break
                    if known[cy, cx]:
                        best = total
                        bx = cx
                        by = cy
                        break
            if bx < 0:
                continue
            here = tilt[0] * (x + 0.5) + tilt[1] * (y + 0.5) + tilt[2]
            there = tilt[0] * (bx + 0.5) + tilt[1] * (by + 0.5) + tilt[2]
            if level[by, bx]:
                u = w[by, bx] / there
                out_w[y, x] = u * here
                out_a[y, x] = u * tilt[0]
                out_b[y, x] = u * tilt[1]
            else:
                out_w[y, x] = w[by, bx] + a[by, bx] * (x - bx) + b[by, bx] * (y - by)
                out_a[y, x] = a[by, bx]
                out_b[y, x] = b[by, bx]
            filled[y, x] = out_w[y, x] > 0.0
    return out_w, out_a, out_b, filled
