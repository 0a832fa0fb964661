"""Compiled pose of a camera from three points that it sees.

The distances d of the points along their rays satisfy dᵀ M_ij d = a_ij, M_ij the cosine rule and a_ij the squared
distance of points i and j. Two combinations of the three equations are free of the unit of length: the conics D and E.
A member D + γE of their pencil with determinant 0 is a pair of lines, and the points where those meet D are the
solutions (Persson and Nordberg, Lambda Twist, ECCV 2018, from there on by conics alone).
"""

from __future__ import annotations

import numpy as np

from skyanchor.compiled import njit
from skyanchor.types import Floats

STEPS = 3
"""Newton steps that a solution is polished with."""


@njit(cache=True)
def _adjugate(m: Floats, out: Floats) -> None:
    """The adjugate of a symmetric matrix: m · out = det(m) I."""
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        for r in range(3):
            s, t = (r + 1) % 3, (r + 2) % 3
            out[i, r] = m[j, s] * m[k, t] - m[j, t] * m[k, s]


@njit(cache=True)
def _real_root(b: float, c: float, d: float) -> float:
    """A real root of x³ + b x² + c x + d, the one farthest from the others where there are three."""
    q, r = (b * b - 3.0 * c) / 9.0, (2.0 * b * b * b - 9.0 * b * c + 27.0 * d) / 54.0
    if r * r < q * q * q:
        angle = np.arccos(r / np.sqrt(q * q * q))
        x = -2.0 * np.sqrt(q) * np.cos((angle if r >= 0.0 else angle + 2.0 * np.pi) / 3.0) - b / 3.0
    else:
        s = np.cbrt(abs(r) + np.sqrt(r * r - q * q * q))
        s = -s if r > 0.0 else s
        x = s + (q / s if s != 0.0 else 0.0) - b / 3.0
    for _ in range(STEPS):
        slope = (3.0 * x + 2.0 * b) * x + c
        if slope != 0.0:
            x -= (((x + b) * x + c) * x + d) / slope
    return x


@njit(cache=True)
def _lines(m: Floats, adjugate: Floats, lines: Floats) -> bool:
    """Fill the two lines (2, 3) of a conic of determinant 0; False where they are not real.

    The adjugate is -p pᵀ with p where they meet, and m + [p]ₓ is one line times the other.
    """
    _adjugate(m, adjugate)
    i = 0
    for k in range(1, 3):
        if abs(adjugate[k, k]) > abs(adjugate[i, i]):
            i = k
    if not adjugate[i, i] < 0.0:
        return False
    depth = np.sqrt(-adjugate[i, i])
    p0, p1, p2 = adjugate[0, i] / depth, adjugate[1, i] / depth, adjugate[2, i] / depth
    product = adjugate
    product[0, 0], product[0, 1], product[0, 2] = m[0, 0], m[0, 1] - p2, m[0, 2] + p1
    product[1, 0], product[1, 1], product[1, 2] = m[1, 0] + p2, m[1, 1], m[1, 2] - p0
    product[2, 0], product[2, 1], product[2, 2] = m[2, 0] - p1, m[2, 1] + p0, m[2, 2]
    row, column = 0, 0
    for r in range(3):
        for c in range(3):
            if abs(product[r, c]) > abs(product[row, column]):
                row, column = r, c
    for k in range(3):
        lines[0, k], lines[1, k] = product[k, column], product[row, k]
    return True


@njit(cache=True)
def _form(m: Floats, u: Floats, v: Floats) -> float:
    """uᵀ m v."""
    total = 0.0
    for i in range(3):
        total += u[i] * (m[i, 0] * v[0] + m[i, 1] * v[1] + m[i, 2] * v[2])
    return total


@njit(cache=True)
def _on_line(conic: Floats, line: Floats, u: Floats, v: Floats, found: Floats) -> int:
    """How many of found (2, 3) were filled: where the line meets the conic, as homogeneous points."""
    big = 0
    for k in range(1, 3):
        if abs(line[k]) > abs(line[big]):
            big = k
    if line[big] == 0.0:
        return 0
    j, k = (big + 1) % 3, (big + 2) % 3
    u[j], u[k], u[big] = 1.0, 0.0, -line[j] / line[big]
    v[j], v[k], v[big] = 0.0, 1.0, -line[k] / line[big]
    a, b, c = _form(conic, u, u), _form(conic, u, v), _form(conic, v, v)
    inside = b * b - a * c
    if inside < 0.0:
        return 0
    root = -b - np.sqrt(inside) if b > 0.0 else -b + np.sqrt(inside)
    for i in range(3):  # x u + y v with a x² + 2 b x y + c y² = 0
        found[0, i] = root * u[i] + a * v[i]
        found[1, i] = c * u[i] + root * v[i]
    return 2


@njit(cache=True)
def _polish(d: Floats, cosine: Floats, square: Floats) -> None:
    """Newton steps on d_i² + d_j² - 2 cos d_i d_j = a_ij; pairs in the order 01, 02, 12."""
    for _ in range(STEPS):
        r0 = d[0] * d[0] + d[1] * d[1] - 2.0 * cosine[0] * d[0] * d[1] - square[0]
        r1 = d[0] * d[0] + d[2] * d[2] - 2.0 * cosine[1] * d[0] * d[2] - square[1]
        r2 = d[1] * d[1] + d[2] * d[2] - 2.0 * cosine[2] * d[1] * d[2] - square[2]
        a, b = 2.0 * (d[0] - cosine[0] * d[1]), 2.0 * (d[1] - cosine[0] * d[0])
        c, e = 2.0 * (d[0] - cosine[1] * d[2]), 2.0 * (d[2] - cosine[1] * d[0])
        f, g = 2.0 * (d[1] - cosine[2] * d[2]), 2.0 * (d[2] - cosine[2] * d[1])
        det = -a * e * f - b * c * g  # of [a b 0; c 0 e; 0 f g]
        if det == 0.0:
            return
        d[0] -= (-e * f * r0 - b * g * r1 + b * e * r2) / det
        d[1] -= (-c * g * r0 + a * g * r1 - a * e * r2) / det
        d[2] -= (c * f * r0 - a * f * r1 - b * c * r2) / det


@njit(cache=True)
def _cross(a: Floats, b: Floats, out: Floats) -> None:
    out[0] = a[1] * b[2] - a[2] * b[1]
    out[1] = a[2] * b[0] - a[0] * b[2]
    out[2] = a[0] * b[1] - a[1] * b[0]


@njit(cache=True)
def _pose(d: Floats, rays: Floats, points: Floats, scratch: Floats, rotation: Floats, translation: Floats) -> None:
    """The motion of the points to where the rays have them, R = Σ y_k x*_k over two sides and their normal."""
    a, b, n, y, z, m, side, far, along = scratch
    for i in range(3):
        a[i], b[i] = points[1, i] - points[0, i], points[2, i] - points[0, i]
        y[i], z[i] = d[1] * rays[1, i] - d[0] * rays[0, i], d[2] * rays[2, i] - d[0] * rays[0, i]
    _cross(a, b, n)
    _cross(y, z, m)
    _cross(b, n, side)
    _cross(n, a, far)
    size = n[0] * n[0] + n[1] * n[1] + n[2] * n[2]
    for i in range(3):
        along[i] = n[i] / size
        side[i] /= size
        far[i] /= size
    for i in range(3):
        translation[i] = d[0] * rays[0, i]
        for j in range(3):
            rotation[i, j] = y[i] * side[j] + z[i] * far[j] + m[i] * along[j]
            translation[i] -= rotation[i, j] * points[0, j]


@njit(cache=True)
def p3p(rays: Floats, points: Floats, rotations: Floats, translations: Floats) -> int:
    """How many of the four poses (4, 3, 3), (4, 3) were filled: cameras whose unit rays (3, 3) meet points (3, 3)."""
    cosine, square = np.empty(3), np.empty(3)
    for k in range(3):
        i, j = (0, 1) if k == 0 else ((0, 2) if k == 1 else (1, 2))
        cosine[k] = rays[i, 0] * rays[j, 0] + rays[i, 1] * rays[j, 1] + rays[i, 2] * rays[j, 2]
        square[k] = (
            (points[i, 0] - points[j, 0]) ** 2 + (points[i, 1] - points[j, 1]) ** 2 + (points[i, 2] - points[j, 2]) ** 2
        )
    # D = a_12 M_01 - a_01 M_12 and E = a_12 M_02 - a_02 M_12
    D, E, member = np.zeros((3, 3)), np.zeros((3, 3)), np.empty((3, 3))
    D[0, 0], D[1, 1], D[2, 2] = square[2], square[2] - square[0], -square[0]
    D[0, 1] = D[1, 0] = -cosine[0] * square[2]
    D[1, 2] = D[2, 1] = cosine[2] * square[0]
    E[0, 0], E[1, 1], E[2, 2] = square[2], -square[1], square[2] - square[1]
    E[0, 2] = E[2, 0] = -cosine[1] * square[2]
    E[1, 2] = E[2, 1] = cosine[2] * square[1]
    scratch, lines, found = np.empty((9, 3)), np.empty((2, 3)), np.empty((2, 3))
    adjugate = np.empty((3, 3))
    _adjugate(D, adjugate)
    constant, linear = 0.0, 0.0
    for i in range(3):
        constant += D[0, i] * adjugate[i, 0]
        for j in range(3):
            linear += adjugate[i, j] * E[j, i]
    _adjugate(E, adjugate)
    quadratic, cubic = 0.0, 0.0
    for i in range(3):
        cubic += E[0, i] * adjugate[i, 0]
        for j in range(3):
            quadratic += adjugate[i, j] * D[j, i]
    if cubic == 0.0:
        return 0
    factor = _real_root(quadratic / cubic, linear / cubic, constant / cubic)
    for i in range(3):
        for j in range(3):
            member[i, j] = D[i, j] + factor * E[i, j]
    if not _lines(member, adjugate, lines):
        return 0
    count = 0
    for line in lines:
        for k in range(_on_line(D, line, scratch[0], scratch[1], found)):
            d = found[k]
            if d[0] < 0.0:
                d *= -1.0
            size = d[1] * d[1] + d[2] * d[2] - 2.0 * cosine[2] * d[1] * d[2]
            if not (d[0] > 0.0 and d[1] > 0.0 and d[2] > 0.0 and size > 0.0):
                continue
            d *= np.sqrt(square[2] / size)
            _polish(d, cosine, square)
            _pose(d, rays, points, scratch, rotations[count], translations[count])
            count += 1
    return count
