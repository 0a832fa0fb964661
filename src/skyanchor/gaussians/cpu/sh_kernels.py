"""Real spherical harmonics up to degree 3 in the sign convention of 3DGS: basis and its derivative."""

from __future__ import annotations

from typing import Any

from skyanchor.compiled import njit
from skyanchor.gaussians.cpu.layout import FAST_INLINE, F

C0 = F(0.28209479177387814)
C1 = F(0.4886025119029199)
C2_XY = F(1.0925484305920792)
C2_ZZ = F(0.31539156525252005)
C2_XX = F(0.5462742152960396)
C3_A = F(0.5900435899266435)
C3_B = F(2.890611442640554)
C3_C = F(0.4570457994644658)
C3_D = F(0.3731763325901154)
C3_E = F(1.445305721320277)
TWO, THREE, FOUR, SIX, EIGHT = F(2.0), F(3.0), F(4.0), F(6.0), F(8.0)


@njit(**FAST_INLINE)
def sh_basis(x: Any, y: Any, z: Any, degree: Any, out: Any) -> None:
    """Writes Y_k(x, y, z), k < (degree + 1)², of a unit direction to `out` (16,)."""
    out[0] = C0
    if degree > 0:
        out[1] = -C1 * y
        out[2] = C1 * z
        out[3] = -C1 * x
    if degree > 1:
        xx, yy, zz = x * x, y * y, z * z
        out[4] = C2_XY * x * y
        out[5] = -C2_XY * y * z
        out[6] = C2_ZZ * (TWO * zz - xx - yy)
        out[7] = -C2_XY * x * z
        out[8] = C2_XX * (xx - yy)
        if degree > 2:
            out[9] = -C3_A * y * (THREE * xx - yy)
            out[10] = C3_B * x * y * z
            out[11] = -C3_C * y * (FOUR * zz - xx - yy)
            out[12] = C3_D * z * (TWO * zz - THREE * xx - THREE * yy)
            out[13] = -C3_C * x * (FOUR * zz - xx - yy)
            out[14] = C3_E * z * (xx - yy)
            out[15] = -C3_A * x * (xx - THREE * yy)


@njit(**FAST_INLINE)
def _gradient_of_degree_2(x: Any, y: Any, z: Any, g: Any) -> Any:
    dx = C2_XY * (y * g[4] - z * g[7]) - TWO * C2_ZZ * x * g[6] + TWO * C2_XX * x * g[8]
    dy = C2_XY * (x * g[4] - z * g[5]) - TWO * C2_ZZ * y * g[6] - TWO * C2_XX * y * g[8]
    dz = -C2_XY * (y * g[5] + x * g[7]) + FOUR * C2_ZZ * z * g[6]
    return dx, dy, dz


@njit(**FAST_INLINE)
def _gradient_of_degree_3(x: Any, y: Any, z: Any, g: Any) -> Any:
    xx, yy, zz = x * x, y * y, z * z
    dx = -C3_A * SIX * x * y * g[9] + C3_B * y * z * g[10] + C3_C * TWO * x * y * g[11] - C3_D * SIX * x * z * g[12]
    dx += -C3_C * (FOUR * zz - THREE * xx - yy) * g[13] + C3_E * TWO * x * z * g[14] - C3_A * THREE * (xx - yy) * g[15]
    dy = -C3_A * THREE * (xx - yy) * g[9] + C3_B * x * z * g[10] - C3_C * (FOUR * zz - xx - THREE * yy) * g[11]
    dy += -C3_D * SIX * y * z * g[12] + C3_C * TWO * x * y * g[13] - C3_E * TWO * y * z * g[14]
    dy += C3_A * SIX * x * y * g[15]
    dz = C3_B * x * y * g[10] - C3_C * EIGHT * y * z * g[11] + C3_D * (SIX * zz - THREE * xx - THREE * yy) * g[12]
    dz += -C3_C * EIGHT * x * z * g[13] + C3_E * (xx - yy) * g[14]
    return dx, dy, dz


@njit(**FAST_INLINE)
def sh_basis_gradient(x: Any, y: Any, z: Any, degree: Any, g: Any) -> Any:
    """(dx, dy, dz) = Σ_k g_k ∇Y_k, the polynomials taken as functions on all of R³."""
    dx, dy, dz = F(0.0), F(0.0), F(0.0)
    if degree > 0:
        dx, dy, dz = -C1 * g[3], -C1 * g[1], C1 * g[2]
    if degree > 1:
        ex, ey, ez = _gradient_of_degree_2(x, y, z, g)
        dx, dy, dz = dx + ex, dy + ey, dz + ez
    if degree > 2:
        ex, ey, ez = _gradient_of_degree_3(x, y, z, g)
        dx, dy, dz = dx + ex, dy + ey, dz + ez
    return dx, dy, dz
