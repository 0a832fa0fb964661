"""Compiled loops of the group pose: hypotheses from samples, their costs, and the equations of the refinement.

A group stands where x_cam = R_k (A X + b) + s t_k for a point X that frame k sees, R_k and t_k its pose in the group.
"""

from __future__ import annotations

import numpy as np

from skyanchor.compiled import njit
from skyanchor.sfm.p3p_kernels import p3p
from skyanchor.types import Floats, Ints


@njit(cache=True)
def hypotheses(
    rotations: Floats,
    translations: Floats,
    samples: Ints,
    others: Ints,
    frame: Ints,
    rays: Floats,
    points: Floats,
    up: Floats,
    least_up: float,
    steps: tuple[float, float],
) -> tuple[Floats, Floats, Floats]:
    """(A, b, s) of upright P3P poses of samples (T, 3), one frame each, with the scale by `others` (4 T,) elsewhere.

    With d the ray of the other sighting, d × (u + s v) = 0, so s = -(d×u)·(d×v) / |d×v|². Steps are those of s.
    """
    most = 4 * len(samples)
    A, b, s = np.empty((most, 3, 3)), np.empty((most, 3)), np.empty(most)
    found_r, found_t = np.empty((4, 3, 3)), np.empty((4, 3))
    three_rays, three_points = np.empty((3, 3)), np.empty((3, 3))
    count, drawn = 0, 0
    for q in samples:
        if q[0] == q[1] or q[1] == q[2] or q[0] == q[2]:
            continue
        for i in range(3):
            three_rays[i], three_points[i] = rays[q[i]], points[q[i]]
        first = frame[q[0]]
        for h in range(p3p(three_rays, three_points, found_r, found_t)):
            r = found_r[h]
            if not -(r[1, 0] * up[0] + r[1, 1] * up[1] + r[1, 2] * up[2]) > least_up:
                continue
            for i in range(3):
                b[count, i] = 0.0
                for j in range(3):
                    b[count, i] += rotations[first, j, i] * found_t[h, j]
                    A[count, i, j] = 0.0
                    for k in range(3):
                        A[count, i, j] += rotations[first, k, i] * r[k, j]
            other = others[drawn]
            drawn += 1
            s[count] = 1.0
            if len(rotations) > 1:
                if frame[other] == first:
                    continue
                s[count] = _scale(
                    A[count], b[count], rotations, translations, first, frame[other], rays[other], points[other]
                )
                if not steps[0] < s[count] < steps[1]:
                    continue
            for i in range(3):
                for j in range(3):
                    b[count, i] -= s[count] * rotations[first, j, i] * translations[first, j]
            count += 1
    return A[:count], b[:count], s[:count]


@njit(cache=True)
def _scale(
    A: Floats, b: Floats, rotations: Floats, translations: Floats, first: int, k: int, ray: Floats, point: Floats
) -> float:
    """Metres per unit of the group at which frame k sees the point along the ray, where the first frame stands."""
    local, back = np.empty(3), np.empty(3)
    for i in range(3):
        local[i] = A[i, 0] * point[0] + A[i, 1] * point[1] + A[i, 2] * point[2] + b[i]
        back[i] = 0.0
        for j in range(3):
            back[i] += rotations[first, j, i] * translations[first, j]
    u, v = np.empty(3), np.empty(3)
    for i in range(3):
        r = rotations[k, i]
        u[i] = r[0] * local[0] + r[1] * local[1] + r[2] * local[2]
        v[i] = translations[k, i] - (r[0] * back[0] + r[1] * back[1] + r[2] * back[2])
    top, low = 0.0, 0.0
    for i in range(3):
        j, m = (i + 1) % 3, (i + 2) % 3
        a, c = ray[j] * u[m] - ray[m] * u[j], ray[j] * v[m] - ray[m] * v[j]
        top, low = top + a * c, low + c * c
    return -top / max(low, 1e-12)


@njit(cache=True, fastmath=True)
def truncated_costs(
    rotations: Floats,
    translations: Floats,
    A: Floats,
    b: Floats,
    s: Floats,
    frame: Ints,
    xy: Floats,
    points: Floats,
    sigma: Floats,
    threshold: float,
) -> Floats:
    """(H,), Σ min(r², threshold²) over sightings for each hypothesis."""
    limit = threshold * threshold
    out = np.empty(len(s))
    best = 1e300
    for h in range(len(s)):
        total = 0.0
        for n in range(len(frame)):
            p, k = points[n], frame[n]
            y0 = A[h, 0, 0] * p[0] + A[h, 0, 1] * p[1] + A[h, 0, 2] * p[2] + b[h, 0]
            y1 = A[h, 1, 0] * p[0] + A[h, 1, 1] * p[1] + A[h, 1, 2] * p[2] + b[h, 1]
            y2 = A[h, 2, 0] * p[0] + A[h, 2, 1] * p[1] + A[h, 2, 2] * p[2] + b[h, 2]
            r, t = rotations[k], translations[k]
            z = r[2, 0] * y0 + r[2, 1] * y1 + r[2, 2] * y2 + s[h] * t[2]
            if z < 0.05:
                total += limit
            else:
                u = (r[0, 0] * y0 + r[0, 1] * y1 + r[0, 2] * y2 + s[h] * t[0]) / z - xy[n, 0]
                v = (r[1, 0] * y0 + r[1, 1] * y1 + r[1, 2] * y2 + s[h] * t[1]) / z - xy[n, 1]
                total += min((u * u + v * v) / (sigma[n] * sigma[n]), limit)
            if total > best:
                break
        out[h] = total
        best = min(best, total)
    return out


@njit(cache=True)
def normal_equations(
    rotations: Floats,
    translations: Floats,
    A: Floats,
    b: Floats,
    s: float,
    frame: Ints,
    xy: Floats,
    points: Floats,
    sigma: Floats,
    loss_scale: float,
) -> tuple[Floats, Floats]:
    """(JᵀWJ (7, 7), JᵀWr (7,)) of the residuals in sigmas with Cauchy weights.

    A moves by exp([w]ₓ), b by v, s by a factor exp(e): the unknowns are (w, v, e).
    """
    matrix, gradient = np.zeros((7, 7)), np.zeros(7)
    jac, cam, residual = np.empty((2, 7)), np.empty(3), np.empty(2)
    for n in range(len(frame)):
        p, k = points[n], frame[n]
        r, t = rotations[k], translations[k]
        x0 = A[0, 0] * p[0] + A[0, 1] * p[1] + A[0, 2] * p[2]
        x1 = A[1, 0] * p[0] + A[1, 1] * p[1] + A[1, 2] * p[2]
        x2 = A[2, 0] * p[0] + A[2, 1] * p[1] + A[2, 2] * p[2]
        for i in range(3):
            cam[i] = r[i, 0] * (x0 + b[0]) + r[i, 1] * (x1 + b[1]) + r[i, 2] * (x2 + b[2]) + s * t[i]
        if not cam[2] > 0.05:
            continue
        across = 1.0 / (cam[2] * sigma[n])
        for i in range(2):
            residual[i] = (cam[i] / cam[2] - xy[n, i]) / sigma[n]
            along = -cam[i] / cam[2] * across
            g0 = across * r[i, 0] + along * r[2, 0]
            g1 = across * r[i, 1] + along * r[2, 1]
            g2 = across * r[i, 2] + along * r[2, 2]
            jac[i, 0], jac[i, 1], jac[i, 2] = g2 * x1 - g1 * x2, g0 * x2 - g2 * x0, g1 * x0 - g0 * x1
            jac[i, 3], jac[i, 4], jac[i, 5] = g0, g1, g2
            jac[i, 6] = s * (across * t[i] + along * t[2])
        weight = 1.0 / (1.0 + (residual[0] * residual[0] + residual[1] * residual[1]) / (loss_scale * loss_scale))
        for i in range(7):
            for row in range(2):
                gradient[i] += weight * jac[row, i] * residual[row]
                for j in range(i, 7):
                    matrix[i, j] += weight * jac[row, i] * jac[row, j]
    for i in range(7):
        for j in range(i):
            matrix[i, j] = matrix[j, i]
    return matrix, gradient
