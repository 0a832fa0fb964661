"""Real spherical harmonics up to degree 3 in the sign convention of 3DGS, and their rotation."""

from __future__ import annotations

import numpy as np

from skyanchor.types import Floats

SH_C0 = 0.28209479177387814
"""Y_0: colour = max(SH_C0 * sh_0 + ... + 0.5, 0)."""


def basis(directions: Floats, degree: int) -> Floats:
    """Y_k(d) of unit directions (N, 3), (N, (degree + 1)²)."""
    x, y, z = np.asarray(directions, np.float64).T
    bands = [np.full_like(x, SH_C0)]
    if degree > 0:
        c1 = 0.4886025119029199
        bands += [-c1 * y, c1 * z, -c1 * x]
    if degree > 1:
        bands += _band_2(x, y, z)
    if degree > 2:
        bands += _band_3(x, y, z)
    return np.stack(bands, axis=1)


def _band_2(x: Floats, y: Floats, z: Floats) -> list[Floats]:
    c = 1.0925484305920792
    return [
        c * x * y,
        -c * y * z,
        0.31539156525252005 * (2 * z * z - x * x - y * y),
        -c * x * z,
        0.5462742152960396 * (x * x - y * y),
    ]


def _band_3(x: Floats, y: Floats, z: Floats) -> list[Floats]:
    a, b, c = 0.5900435899266435, 2.890611442640554, 0.4570457994644658
    return [
        -a * y * (3 * x * x - y * y),
        b * x * y * z,
        -c * y * (4 * z * z - x * x - y * y),
        0.3731763325901154 * z * (2 * z * z - 3 * x * x - 3 * y * y),
        -c * x * (4 * z * z - x * x - y * y),
        1.445305721320277 * z * (x * x - y * y),
        -a * x * (x * x - 3 * y * y),
    ]


def band_rotations(rotation: Floats, degree: int) -> list[Floats]:
    """Per band l = 1..degree the (2l+1, 2l+1) matrix that turns its coefficients with the object.

    The turned object shows in direction d what it showed in Rᵀd: Σ c'_k Y_k(d) = Σ c_k Y_k(Rᵀd). A band is closed
    under rotation, Y(Rᵀd) = M Y(d), hence c' = Mᵀ c; M is solved for exactly from a handful of directions.
    """
    directions = np.random.default_rng(0).normal(size=(32, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    before, after = basis(directions, degree), basis(directions @ rotation, degree)
    matrices = []
    for band in range(1, degree + 1):
        rows = slice(band * band, (band + 1) ** 2)
        m_transposed, *_ = np.linalg.lstsq(before[:, rows], after[:, rows], rcond=None)
        matrices.append(np.asarray(m_transposed, np.float64))
    return matrices
