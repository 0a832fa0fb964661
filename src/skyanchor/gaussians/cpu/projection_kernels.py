"""World to screen and back: the 2D Gaussian, its colour, and the gradients of both.

A 3D Gaussian with Σ = R S² Rᵀ projects to Σ' = B Bᵀ + blur·I with B = J W R S (2x3): W rotates world to camera, J is
the Jacobian of the pinhole at the centre, x/z and y/z clamped a little beyond the image edge. The conic is Σ'⁻¹.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange

from skyanchor.compiled import njit
from skyanchor.gaussians.cpu.layout import (
    ALPHA_MIN,
    BLOCK,
    BLUE,
    CONIC_A,
    CONIC_B,
    CONIC_C,
    DEPTH,
    GREEN,
    LEVEL,
    MEAN_X,
    MEAN_Y,
    OPACITY,
    RED,
    SAFE,
    SAFE_INLINE,
    VAR_X,
    VAR_Y,
    F,
)
from skyanchor.gaussians.cpu.sh_kernels import sh_basis, sh_basis_gradient

ZERO, HALF, ONE, TWO = F(0.0), F(0.5), F(1.0), F(2.0)
MARGIN = F(0.15)
"""How far beyond the image edge J still follows the centre, in image widths."""
LARGEST = F(1e30)
"""Determinants at or above this (and nan) are not drawn."""


# --- small matrices as tuples, rows first -------------------------------------------------------------------------


@njit(**SAFE_INLINE)
def mul_23_33(a: Any, m: Any) -> Any:
    """A M."""
    return (
        a[0] * m[0] + a[1] * m[3] + a[2] * m[6],
        a[0] * m[1] + a[1] * m[4] + a[2] * m[7],
        a[0] * m[2] + a[1] * m[5] + a[2] * m[8],
        a[3] * m[0] + a[4] * m[3] + a[5] * m[6],
        a[3] * m[1] + a[4] * m[4] + a[5] * m[7],
        a[3] * m[2] + a[4] * m[5] + a[5] * m[8],
    )


@njit(**SAFE_INLINE)
def mul_23_33t(a: Any, m: Any) -> Any:
    """A Mᵀ."""
    return mul_23_33(a, (m[0], m[3], m[6], m[1], m[4], m[7], m[2], m[5], m[8]))


@njit(**SAFE_INLINE)
def mul_23t_23(a: Any, b: Any) -> Any:
    """Aᵀ B, 3x3."""
    return (
        a[0] * b[0] + a[3] * b[3],
        a[0] * b[1] + a[3] * b[4],
        a[0] * b[2] + a[3] * b[5],
        a[1] * b[0] + a[4] * b[3],
        a[1] * b[1] + a[4] * b[4],
        a[1] * b[2] + a[4] * b[5],
        a[2] * b[0] + a[5] * b[3],
        a[2] * b[1] + a[5] * b[4],
        a[2] * b[2] + a[5] * b[5],
    )


@njit(**SAFE_INLINE)
def rotation_of(w: Any, x: Any, y: Any, z: Any) -> Any:
    """The rotation matrix of a unit quaternion."""
    return (
        ONE - TWO * (y * y + z * z),
        TWO * (x * y - w * z),
        TWO * (x * z + w * y),
        TWO * (x * y + w * z),
        ONE - TWO * (x * x + z * z),
        TWO * (y * z - w * x),
        TWO * (x * z - w * y),
        TWO * (y * z + w * x),
        ONE - TWO * (x * x + y * y),
    )


@njit(**SAFE_INLINE)
def rotation_gradient(w: Any, x: Any, y: Any, z: Any, g: Any) -> Any:
    """dL/d(w, x, y, z) from G = dL/dR, before the normalisation of the quaternion."""
    return (
        TWO * (x * (g[7] - g[5]) + y * (g[2] - g[6]) + z * (g[3] - g[1])),
        TWO * (y * (g[1] + g[3]) + z * (g[2] + g[6]) + w * (g[7] - g[5]) - TWO * x * (g[4] + g[8])),
        TWO * (x * (g[1] + g[3]) + z * (g[5] + g[7]) + w * (g[2] - g[6]) - TWO * y * (g[0] + g[8])),
        TWO * (x * (g[2] + g[6]) + y * (g[5] + g[7]) + w * (g[3] - g[1]) - TWO * z * (g[0] + g[4])),
    )


@njit(**SAFE_INLINE)
def scaled_columns(r: Any, s: Any) -> Any:
    """R diag(s)."""
    return (
        r[0] * s[0],
        r[1] * s[1],
        r[2] * s[2],
        r[3] * s[0],
        r[4] * s[1],
        r[5] * s[2],
        r[6] * s[0],
        r[7] * s[1],
        r[8] * s[2],
    )


# --- one Gaussian's geometry, shared by both directions -------------------------------------------------------------


@njit(**SAFE_INLINE)
def in_camera(view: Any, means: Any, i: Any) -> Any:
    """The centre in camera axes."""
    x, y, z = means[i, 0], means[i, 1], means[i, 2]
    return (
        view[0, 0] * x + view[0, 1] * y + view[0, 2] * z + view[0, 3],
        view[1, 0] * x + view[1, 1] * y + view[1, 2] * z + view[1, 3],
        view[2, 0] * x + view[2, 1] * y + view[2, 2] * z + view[2, 3],
    )


@njit(**SAFE_INLINE)
def unit_quaternion(quats: Any, i: Any) -> Any:
    """(w, x, y, z, 1/|q|)."""
    w, x, y, z = quats[i, 0], quats[i, 1], quats[i, 2], quats[i, 3]
    inverse = ONE / math.sqrt(w * w + x * x + y * y + z * z)
    return w * inverse, x * inverse, y * inverse, z * inverse, inverse


@njit(**SAFE_INLINE)
def clamped_slope(slope: Any, focal: Any, centre: Any, size: Any) -> Any:
    """x/z kept within the image and MARGIN of its size beyond, and 1 where that changed nothing, else 0."""
    margin = MARGIN * size / focal
    low, high = -(centre / focal + margin), (size - centre) / focal + margin
    if slope < low:
        return low, ZERO
    if slope > high:
        return high, ZERO
    return slope, ONE


@njit(**SAFE_INLINE)
def jacobian(c: Any, lens: Any) -> Any:
    """(j00, j02, j11, j12) of J = [[j00, 0, j02], [0, j11, j12]], and 1 where x (y) is within the clamp, else 0."""
    inverse_z = ONE / c[2]
    ux, inside_x = clamped_slope(c[0] * inverse_z, lens.fx, lens.cx, lens.width)
    uy, inside_y = clamped_slope(c[1] * inverse_z, lens.fy, lens.cy, lens.height)
    j00, j11 = lens.fx * inverse_z, lens.fy * inverse_z
    return j00, -j00 * ux, j11, -j11 * uy, inside_x, inside_y


@njit(**SAFE_INLINE)
def screen_from_world(j: Any, view: Any) -> Any:
    """A = J W, 2x3."""
    return (
        j[0] * view[0, 0] + j[1] * view[2, 0],
        j[0] * view[0, 1] + j[1] * view[2, 1],
        j[0] * view[0, 2] + j[1] * view[2, 2],
        j[2] * view[1, 0] + j[3] * view[2, 0],
        j[2] * view[1, 1] + j[3] * view[2, 1],
        j[2] * view[1, 2] + j[3] * view[2, 2],
    )


@njit(**SAFE_INLINE)
def scales_of(log_scales: Any, i: Any) -> Any:
    """Standard deviations along the splat's axes, metres."""
    return math.exp(log_scales[i, 0]), math.exp(log_scales[i, 1]), math.exp(log_scales[i, 2])


@njit(**SAFE_INLINE)
def covariance_det(b: Any, trace: Any, blur: Any) -> Any:
    """det(B Bᵀ + blur·I) = |b₀ x b₁|² + blur·(trace - blur), b₀ and b₁ the rows of B.

    The plain var_x var_y - cov² loses half the digits of a needle.
    """
    x, y, z = b[1] * b[5] - b[2] * b[4], b[2] * b[3] - b[0] * b[5], b[0] * b[4] - b[1] * b[3]
    return x * x + y * y + z * z + blur * (trace - blur)


# --- forward --------------------------------------------------------------------------------------------------------


@njit(**SAFE_INLINE)
def project_one(i: Any, splats: Any, view: Any, lens: Any, drawn: Any, reach: Any) -> bool:
    """Whether Gaussian i is drawn; if so its geometry is written to `drawn` and `reach`, else its `reach` is 0."""
    reach[i, VAR_X], reach[i, VAR_Y], reach[i, LEVEL] = ZERO, ZERO, ZERO
    c = in_camera(view, splats.means, i)
    opacity = ONE / (ONE + math.exp(-splats.logits[i]))
    if not (c[2] >= lens.near and c[2] <= lens.far and opacity > ALPHA_MIN):
        return False
    w, x, y, z, _ = unit_quaternion(splats.quats, i)
    rs = scaled_columns(rotation_of(w, x, y, z), scales_of(splats.log_scales, i))
    b = mul_23_33(screen_from_world(jacobian(c, lens), view), rs)
    var_x = b[0] * b[0] + b[1] * b[1] + b[2] * b[2] + lens.blur
    cov = b[0] * b[3] + b[1] * b[4] + b[2] * b[5]
    var_y = b[3] * b[3] + b[4] * b[4] + b[5] * b[5] + lens.blur
    det = covariance_det(b, var_x + var_y, lens.blur)
    if not (det > ZERO and det < LARGEST):
        return False
    level = TWO * math.log(opacity * F(255.0))
    u, v = lens.fx * c[0] / c[2] + lens.cx, lens.fy * c[1] / c[2] + lens.cy
    rx, ry = math.ceil(math.sqrt(level * var_x)), math.ceil(math.sqrt(level * var_y))
    if not (u + rx > ZERO and u - rx < lens.width and v + ry > ZERO and v - ry < lens.height):
        return False
    drawn[i, MEAN_X], drawn[i, MEAN_Y], drawn[i, OPACITY], drawn[i, DEPTH] = u, v, opacity, c[2]
    drawn[i, CONIC_A], drawn[i, CONIC_B], drawn[i, CONIC_C] = var_y / det, -cov / det, var_x / det
    reach[i, VAR_X], reach[i, VAR_Y], reach[i, LEVEL] = var_x, var_y, level
    return True


@njit(**SAFE_INLINE)
def direction(means: Any, i: Any, centre: Any) -> Any:
    """Unit vector from the camera's centre to the Gaussian, and one over the distance."""
    x, y, z = means[i, 0] - centre[0], means[i, 1] - centre[1], means[i, 2] - centre[2]
    inverse = ONE / math.sqrt(x * x + y * y + z * z)
    return x * inverse, y * inverse, z * inverse, inverse


@njit(**SAFE_INLINE)
def colour_one(i: Any, splats: Any, centre: Any, degree: Any, basis: Any, drawn: Any) -> None:
    """Writes max(Σ_k Y_k sh_k + 0.5, 0) to `drawn`."""
    x, y, z, _ = direction(splats.means, i, centre)
    sh_basis(x, y, z, degree, basis)
    red, green, blue = HALF, HALF, HALF
    for k in range((degree + 1) * (degree + 1)):
        red += basis[k] * splats.sh[i, k, 0]
        green += basis[k] * splats.sh[i, k, 1]
        blue += basis[k] * splats.sh[i, k, 2]
    drawn[i, RED], drawn[i, GREEN], drawn[i, BLUE] = max(red, ZERO), max(green, ZERO), max(blue, ZERO)


@njit(**SAFE)
def _project_block(
    first: Any, last: Any, splats: Any, view: Any, lens: Any, centre: Any, degree: Any, drawn: Any, reach: Any
) -> None:
    basis = np.empty(16, np.float32)
    for i in range(first, last):
        if project_one(i, splats, view, lens, drawn, reach):
            colour_one(i, splats, centre, degree, basis, drawn)


@njit(parallel=True, **SAFE)
def project_splats(splats: Any, view: Any, lens: Any, centre: Any, degree: Any, drawn: Any, reach: Any) -> None:
    """Fills `drawn` (N, DRAWN) and `reach` (N, REACH); rows that are not drawn have reach 0 and no `drawn`."""
    n = splats.means.shape[0]
    for block in prange((n + BLOCK - 1) // BLOCK):
        first = np.int64(block) * BLOCK
        _project_block(first, min(n, first + BLOCK), splats, view, lens, centre, degree, drawn, reach)


# --- backward -------------------------------------------------------------------------------------------------------


@njit(**SAFE_INLINE)
def covariance_gradient(conic: Any, g: Any) -> Any:
    """The entries (xx, xy, yy) of dL/dΣ' = -Σ'⁻¹ (dL/dΣ'⁻¹) Σ'⁻¹; both gradients as symmetric matrices.

    In float64: for a needle the products all but cancel.
    """
    p, q, s = np.float64(conic[0]), np.float64(conic[1]), np.float64(conic[2])
    t0, t1 = g[0] * p + g[1] * q, g[0] * q + g[1] * s
    t2, t3 = g[1] * p + g[2] * q, g[1] * q + g[2] * s
    return F(-(p * t0 + q * t2)), F(-(p * t1 + q * t3)), F(-(q * t1 + s * t3))


@njit(**SAFE_INLINE)
def shape_gradient(i: Any, splats: Any, a: Any, conic: Any, g_conic: Any, train: Any, grads: Any) -> Any:
    """dL/dA (2x3); for a trained row the gradients of quaternion and log-scales are written to `grads`."""
    w, x, y, z, inverse = unit_quaternion(splats.quats, i)
    r, s = rotation_of(w, x, y, z), scales_of(splats.log_scales, i)
    rs = scaled_columns(r, s)
    b = mul_23_33(a, rs)
    gxx, gxy, gyy = covariance_gradient(conic, g_conic)
    gb = (
        TWO * (gxx * b[0] + gxy * b[3]),
        TWO * (gxx * b[1] + gxy * b[4]),
        TWO * (gxx * b[2] + gxy * b[5]),
        TWO * (gxy * b[0] + gyy * b[3]),
        TWO * (gxy * b[1] + gyy * b[4]),
        TWO * (gxy * b[2] + gyy * b[5]),
    )
    if train:
        e = mul_23t_23(a, gb)  # dL/d(RS)
        grads.log_scales[i, 0] = (e[0] * r[0] + e[3] * r[3] + e[6] * r[6]) * s[0]
        grads.log_scales[i, 1] = (e[1] * r[1] + e[4] * r[4] + e[7] * r[7]) * s[1]
        grads.log_scales[i, 2] = (e[2] * r[2] + e[5] * r[5] + e[8] * r[8]) * s[2]
        h = rotation_gradient(w, x, y, z, scaled_columns(e, s))
        along = h[0] * w + h[1] * x + h[2] * y + h[3] * z
        grads.quats[i, 0], grads.quats[i, 1] = (h[0] - along * w) * inverse, (h[1] - along * x) * inverse
        grads.quats[i, 2], grads.quats[i, 3] = (h[2] - along * y) * inverse, (h[3] - along * z) * inverse
    return mul_23_33t(gb, rs)


@njit(**SAFE_INLINE)
def centre_gradient(c: Any, j: Any, ga: Any, g_mean: Any, g_depth: Any, view: Any, lens: Any) -> Any:
    """dL/d(centre in camera axes), through the projected mean, the depth and the Jacobian."""
    inverse_z = ONE / c[2]
    tx, ty = c[0] * inverse_z, c[1] * inverse_z
    g00 = ga[0] * view[0, 0] + ga[1] * view[0, 1] + ga[2] * view[0, 2]
    g02 = ga[0] * view[2, 0] + ga[1] * view[2, 1] + ga[2] * view[2, 2]
    g11 = ga[3] * view[1, 0] + ga[4] * view[1, 1] + ga[5] * view[1, 2]
    g12 = ga[3] * view[2, 0] + ga[4] * view[2, 1] + ga[5] * view[2, 2]
    gx, gy = j[0] * g_mean[0], j[2] * g_mean[1]
    gz = g_depth - gx * tx - gy * ty - (j[0] * g00 + j[2] * g11 + j[1] * g02 + j[3] * g12) * inverse_z
    ex, ey = j[4] * inverse_z * g02, j[5] * inverse_z * g12  # inside the clamp j02 = -fx x / z², else -fx u / z
    gx, gy, gz = gx - j[0] * ex, gy - j[2] * ey, gz - j[1] * ex - j[3] * ey
    return gx, gy, gz


@njit(**SAFE_INLINE)
def add_pose_gradient(pose: Any, means: Any, i: Any, g: Any, j: Any, ga: Any) -> None:
    """Adds dL/d[W | t] of one Gaussian to `pose` (15,), float64: its centre moves (g) and A = J W turns (ga)."""
    for k in range(3):
        pose[k] += g[0] * means[i, k]
        pose[4 + k] += g[1] * means[i, k]
        pose[8 + k] += g[2] * means[i, k]
    pose[3] += g[0]
    pose[7] += g[1]
    pose[11] += g[2]
    pose[0] += j[0] * ga[0]
    pose[1] += j[0] * ga[1]
    pose[2] += j[0] * ga[2]
    pose[4] += j[2] * ga[3]
    pose[5] += j[2] * ga[4]
    pose[6] += j[2] * ga[5]
    pose[8] += j[1] * ga[0] + j[3] * ga[3]
    pose[9] += j[1] * ga[1] + j[3] * ga[4]
    pose[10] += j[1] * ga[2] + j[3] * ga[5]


@njit(**SAFE_INLINE)
def geometry_gradient(
    i: Any, splats: Any, view: Any, lens: Any, drawn: Any, g: Any, train: Any, grads: Any, pose: Any
) -> None:
    """Gradients of one drawn Gaussian's centre, quaternion, scales and opacity from `g`, the gradient of drawn[i]."""
    c = in_camera(view, splats.means, i)
    j = jacobian(c, lens)
    conic = (drawn[i, CONIC_A], drawn[i, CONIC_B], drawn[i, CONIC_C])
    g_conic = (g[CONIC_A], HALF * g[CONIC_B], g[CONIC_C])
    ga = shape_gradient(i, splats, screen_from_world(j, view), conic, g_conic, train, grads)
    gx, gy, gz = centre_gradient(c, j, ga, (g[MEAN_X], g[MEAN_Y]), g[DEPTH], view, lens)
    add_pose_gradient(pose, splats.means, i, (gx, gy, gz), j, ga)
    if train:
        for k in range(3):
            grads.means[i, k] = view[0, k] * gx + view[1, k] * gy + view[2, k] * gz
        grads.logits[i] = g[OPACITY] * drawn[i, OPACITY] * (ONE - drawn[i, OPACITY])


@njit(**SAFE_INLINE)
def colour_gradient(
    i: Any, splats: Any, centre: Any, degree: Any, drawn: Any, g: Any, train: Any, grads: Any, pose: Any, scratch: Any
) -> None:
    """Gradients of SH, and of the viewing direction with respect to the Gaussian's and the camera's centre."""
    x, y, z, inverse = direction(splats.means, i, centre)
    basis, g_basis = scratch[0], scratch[1]
    sh_basis(x, y, z, degree, basis)
    red = g[RED] if drawn[i, RED] > ZERO else ZERO
    green = g[GREEN] if drawn[i, GREEN] > ZERO else ZERO
    blue = g[BLUE] if drawn[i, BLUE] > ZERO else ZERO
    for k in range((degree + 1) * (degree + 1)):
        g_basis[k] = splats.sh[i, k, 0] * red + splats.sh[i, k, 1] * green + splats.sh[i, k, 2] * blue
        if train:
            grads.sh[i, k, 0], grads.sh[i, k, 1], grads.sh[i, k, 2] = basis[k] * red, basis[k] * green, basis[k] * blue
    dx, dy, dz = sh_basis_gradient(x, y, z, degree, g_basis)
    along = dx * x + dy * y + dz * z
    dx, dy, dz = (dx - along * x) * inverse, (dy - along * y) * inverse, (dz - along * z) * inverse
    pose[12] -= dx
    pose[13] -= dy
    pose[14] -= dz
    if train:
        grads.means[i, 0] += dx
        grads.means[i, 1] += dy
        grads.means[i, 2] += dz


@njit(**SAFE)
def _unproject_block(
    first: Any, last: Any, trained: Any, splats: Any, view: Any, lens: Any, centre: Any, degree: Any, drawn: Any,
    reach: Any, g_drawn: Any, grads: Any, pose: Any,
) -> None:  # fmt: skip
    scratch = np.empty((2, 16), np.float32)
    for i in range(first, last):
        if reach[i, LEVEL] > ZERO:
            geometry_gradient(i, splats, view, lens, drawn, g_drawn[i], i < trained, grads, pose)
            colour_gradient(i, splats, centre, degree, drawn, g_drawn[i], i < trained, grads, pose, scratch)


@njit(parallel=True, **SAFE)
def unproject_gradients(
    rows: Any, trained: Any, splats: Any, view: Any, lens: Any, centre: Any, degree: Any, drawn: Any, reach: Any,
    g_drawn: Any, grads: Any, pose: Any,
) -> None:  # fmt: skip
    """Fills `grads` (zeroed Splats) for the first `trained` rows and `pose` (blocks, 15) from the first `rows` rows.

    `pose` holds, per block and in float64, dL/d[W | t] (3x4, the centre held fixed) and dL/d(centre in world).
    """
    for block in prange(pose.shape[0]):
        first = np.int64(block) * BLOCK
        _unproject_block(
            first, min(rows, first + BLOCK), trained, splats, view, lens, centre, degree, drawn, reach,
            g_drawn, grads, pose[block],
        )  # fmt: skip
