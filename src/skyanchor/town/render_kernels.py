"""Numba kernels: light, and the image. Every pixel is a pure function of the scene, so threads cannot change it."""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from skyanchor.town import noise_kernels as noise
from skyanchor.town import texture_kernels as texture
from skyanchor.town.coats import Material
from skyanchor.town.geometry import CYLINDER, HULL, Geometry
from skyanchor.town.ground_kernels import ground_colour
from skyanchor.town.ray_kernels import GROUND, KERB, SKY, nearest

FACADE, TILES, FLAT_ROOF, METAL = (
    int(Material.FACADE),
    int(Material.TILES),
    int(Material.FLAT_ROOF),
    int(Material.METAL),
)
BODYWORK, STRIPES, PLANKS, LEAVES = (
    int(Material.BODYWORK),
    int(Material.STRIPES),
    int(Material.PLANKS),
    int(Material.LEAVES),
)
BARK, LETTERS, CAR_SIDE, CAR_GLASS = (
    int(Material.BARK),
    int(Material.LETTERS),
    int(Material.CAR_SIDE),
    int(Material.CAR_GLASS),
)
STONE = int(Material.STONE)
FAR = 900.0
"""Metres beyond which a ray sees the sky."""
CALM = 0.05
"""Relative difference of two samples below which a pixel needs no more."""


@njit(cache=True, fastmath=True)
def sky(dx, dy, dz):  # type: ignore[no-untyped-def]
    """Radiance of the sky: paler towards the horizon, with thin clouds."""
    k = max(0.0, dz)
    cloud = 0.0
    if k > 0.02:
        cloud = min(1.0, max(0.0, 1.6 * (noise.grain(dx / (k + 0.15), dy / (k + 0.15), 900, 1.3, 4, 0.02) + 0.12)))
        cloud *= min(1.0, 6.0 * k)
    r, g, b = 0.62 - 0.42 * k, 0.72 - 0.34 * k, 0.88 - 0.18 * k
    return r + (0.95 - r) * cloud, g + (0.95 - g) * cloud, b + (0.97 - b) * cloud


@njit(cache=True, fastmath=True)
def _coat(material, x, y, z, u, v, part, c, seed, foot):  # type: ignore[no-untyped-def]
    """Colour and share of mirror of every coat but facades; `part` tells a leaf's shell from its core."""
    r, g, b, mirror = c[1], c[2], c[3], 0.0
    if material == TILES:
        r, g, b = texture.tiles(u, v, c, seed, foot)
    elif material == FLAT_ROOF:
        r, g, b = texture.flat_roof(u, v, c, seed, foot)
    elif material == LEAVES:
        r, g, b = texture.leaves(x, y, z, part == 1, c, seed, foot)
    elif material == LETTERS:
        r, g, b = texture.letters(u, v, c[7], c[1], c[2], c[3], seed, foot)
    elif material == STRIPES:
        k = 1.0 if noise.wrap(u, 2.0 * c[7]) > 0.0 else 0.0
        tone = 1.0 + 0.5 * noise.grain(u, v, seed, 0.7, 4, foot)
        r, g, b = (c[4] + (r - c[4]) * k) * tone, (c[5] + (g - c[5]) * k) * tone, (c[6] + (b - c[6]) * k) * tone
    elif material == PLANKS:
        k = (
            1.0
            + 0.5 * (noise.cell(math.floor(v / 0.14), 1, seed) - 0.5)
            + 0.6 * noise.grain(u, v * 6.0, seed, 0.9, 5, foot)
        )
        k *= 1.0 - 0.6 * noise.stripe(noise.wrap(v, 0.14), 0.012, foot)
        r, g, b = r * k, g * k, b * k
    elif material == CAR_GLASS:
        mirror = 0.3
    elif material in (BODYWORK, CAR_SIDE):
        mirror = 0.08
        k = 1.0 + 0.15 * noise.grain(u, v, seed, 0.9, 3, foot)
        if material == CAR_SIDE:
            k *= 1.0 - 0.75 * max(
                noise.stripe(noise.wrap(u - 0.45, 1.02), 0.012, foot), noise.stripe(v - 0.1, 0.03, foot)
            )
        r, g, b = r * k, g * k, b * k
    elif material == BARK:
        k = 1.0 + 1.3 * noise.grain(u * 3.0, v * 0.6, seed, 0.25, 4, foot)
        r, g, b = r * k, g * k, b * k
    else:
        amount = 0.45 if material == STONE else 0.25
        k = 1.0 + amount * noise.grain(u, v, seed, 1.2, 7, foot)
        r, g, b = r * k, g * k, b * k
    return r, g, b, mirror


@njit(cache=True, fastmath=True)
def _recess(u, v, du, dv, dn, u0, v0, u1, v1, depth):  # type: ignore[no-untyped-def]
    """Distance from a facade's plane to the pane or a reveal, and which: 0 pane, 1 side, 2 sill or lintel."""
    back = depth / max(-dn, 1e-9)
    side = ((u1 if du > 0.0 else u0) - u) / (du if abs(du) > 1e-9 else 1e-9)
    level = ((v1 if dv > 0.0 else v0) - v) / (dv if abs(dv) > 1e-9 else 1e-9)
    if back <= side and back <= level:
        return back, 0
    return (side, 1) if side < level else (level, 2)


@njit(cache=True, fastmath=True)
def _lit(x, y, z, nx, ny, nz, r, g, b, openness, shaded, sx, sy, sz, town, epoch, light):  # type: ignore[no-untyped-def]
    """Light leaving a surface: sky from above, and the sun where (sx, sy, sz), the start of the shadow ray, sees it."""
    cosine = nx * light[0] + ny * light[1] + nz * light[2]
    sun = 0.0
    if cosine > 0.0 and not shaded:
        _, solid, _ = nearest(sx, sy, sz, light[0], light[1], light[2], 80.0, town, epoch, True)
        if solid == SKY:
            sun = cosine * light[4]
    dome = light[3] * openness * (0.72 + 0.28 * nz)
    return r * (dome + sun), g * (dome + 0.96 * sun), b * (1.06 * dome + 0.88 * sun)


@njit(cache=True, fastmath=True)
def _facade_light(ox, oy, oz, dx, dy, dz, t, face, seed, town, epoch, light, angle):  # type: ignore[no-untyped-def]
    """Radiance and distance of a hit on a facade, through to the pane or reveal of an opening."""
    f = town.faces[face]
    c = town.coats[int(f[9])]
    nx, ny, nz, ux, uy, uz = f[0], f[1], f[2], f[4], f[5], f[6]
    vx, vy, vz = ny * uz - nz * uy, nz * ux - nx * uz, nx * uy - ny * ux
    x, y, z = ox + t * dx, oy + t * dy, oz + t * dz
    u, v = ux * x + uy * y + uz * z - f[7], vx * x + vy * y + vz * z - f[8]
    dn = nx * dx + ny * dy + nz * dz
    foot = t * angle / math.sqrt(max(-dn, 0.08))
    kind, u0, v0, u1, v1, bay, floor = texture.opening(u, v, c)
    if kind == texture.NO_OPENING:
        r, g, b = texture.facade(u, v, u0, v0, u1, v1, floor, c, seed, foot)
        ex, ey, ez = x + 1e-3 * nx, y + 1e-3 * ny, z + 1e-3 * nz
        r, g, b = _lit(x, y, z, nx, ny, nz, r, g, b, 0.9, False, ex, ey, ez, town, epoch, light)
        return r, g, b, t
    du, dv = ux * dx + uy * dy + uz * dz, vx * dx + vy * dy + vz * dz
    step, which = _recess(u, v, du, dv, dn, u0, v0, u1, v1, c[texture.RECESS])
    depth, u, v = -dn * step, u + du * step, v + dv * step
    x, y, z = x + step * dx, y + step * dy, z + step * dz
    mirror, openness = 0.0, 0.6
    mx, my, mz = nx, ny, nz
    if which == 0:
        r, g, b, mirror = texture.pane(kind, u, v, u0, v0, u1, v1, bay, floor, c, seed, foot)
    else:
        k = 0.85 + 0.35 * noise.grain(u + depth, v, seed + 3, 0.5, 4, foot)
        r, g, b = c[4] * k, c[5] * k, c[6] * k
        openness = 0.5
        if which == 1:
            mx, my, mz = (-ux, -uy, -uz) if du > 0.0 else (ux, uy, uz)
        else:
            mx, my, mz = (-vx, -vy, -vz) if dv > 0.0 else (vx, vy, vz)
    su, sv = ux * light[0] + uy * light[1] + uz * light[2], vx * light[0] + vy * light[1] + vz * light[2]
    sn = nx * light[0] + ny * light[1] + nz * light[2]
    shaded, out = True, 0.0
    if sn > 1e-3:  # does the sun enter through this opening and reach the point?
        out = depth / sn
        a, e = u + su * out, v + sv * out
        shaded = a < u0 or a > u1 or e < v0 or e > v1
    ex, ey, ez = x + light[0] * out + 1e-3 * nx, y + light[1] * out + 1e-3 * ny, z + light[2] * out + 1e-3 * nz
    r, g, b = _lit(x, y, z, mx, my, mz, r, g, b, openness, shaded, ex, ey, ez, town, epoch, light)
    if mirror > 0.0:
        a, e, h = sky(dx - 2.0 * dn * nx, dy - 2.0 * dn * ny, dz - 2.0 * dn * nz)
        r, g, b = r + mirror * a, g + mirror * e, b + mirror * h
    return r, g, b, t + step


@njit(cache=True, fastmath=True)
def _solid_light(ox, oy, oz, dx, dy, dz, t, solid, part, town, epoch, light, angle):  # type: ignore[no-untyped-def]
    """Radiance of a hit on a hull's plain face, a cylinder or a lobe."""
    x, y, z = ox + t * dx, oy + t * dy, oz + t * dz
    kind, coat, seed = town.labels[solid, 0], town.labels[solid, 1], town.labels[solid, 2]
    s = town.shapes[solid]
    openness, code = 0.9, 0
    if kind == HULL:
        f = town.faces[part]
        nx, ny, nz = f[0], f[1], f[2]
        coat = int(f[9])
        u = f[4] * x + f[5] * y + f[6] * z - f[7]
        v = (ny * f[6] - nz * f[5]) * x + (nz * f[4] - nx * f[6]) * y + (nx * f[5] - ny * f[4]) * z - f[8]
    elif kind == CYLINDER:
        wx, wy, wz = x - s[0], y - s[1], z - s[2]
        h = wx * s[3] + wy * s[4] + wz * s[5]
        nx, ny, nz = (wx - h * s[3]) / s[7], (wy - h * s[4]) / s[7], (wz - h * s[5]) / s[7]
        u, v = s[7] * math.atan2(ny, nx + nz), h
        if part == 1:
            sign = 1.0 if h > 0.5 * s[6] else -1.0
            nx, ny, nz = sign * s[3], sign * s[4], sign * s[5]
            u, v = wx + wz, wy
    else:
        wobble = 3.1
        nx = (x - s[0]) / s[3] + 0.9 * (noise.smooth3(x * wobble, y * wobble, z * wobble, seed + 1) - 0.5)
        ny = (y - s[1]) / s[3] + 0.9 * (noise.smooth3(x * wobble, y * wobble, z * wobble, seed + 2) - 0.5)
        nz = (z - s[2]) / s[3] + 0.25
        length = 1.0 / math.sqrt(nx * nx + ny * ny + nz * nz)
        nx, ny, nz, u, v, code = nx * length, ny * length, nz * length, 0.0, 0.0, part
        openness = 0.85
    c = town.coats[coat]
    dn = nx * dx + ny * dy + nz * dz
    foot = t * angle / math.sqrt(max(abs(dn), 0.08))
    r, g, b, mirror = _coat(int(c[0]), x, y, z, u, v, code, c, seed, foot)
    lift = 0.02 if kind > CYLINDER else 1e-3
    r, g, b = _lit(
        x, y, z, nx, ny, nz, r, g, b, openness, False, x + lift * nx, y + lift * ny, z + lift * nz, town, epoch, light
    )
    if mirror > 0.0:
        a, e, h = sky(dx - 2.0 * dn * nx, dy - 2.0 * dn * ny, dz - 2.0 * dn * nz)
        r, g, b = r + mirror * a, g + mirror * e, b + mirror * h
    return r, g, b


@njit(cache=True, fastmath=True)
def _ground_light(ox, oy, oz, dx, dy, dz, t, solid, town, epoch, light, angle):  # type: ignore[no-untyped-def]
    """Radiance of a hit on road, pavement, yard or kerb face."""
    x, y, z = ox + t * dx, oy + t * dy, oz + t * dz
    if solid == KERB:
        k = 0.3 * (1.0 + 0.6 * noise.grain(x + y, z * 4.0, 70, 0.5, 5, t * angle))
        side = 1.0 / math.sqrt(dx * dx + dy * dy + 1e-9)
        nx, ny, nz = -dx * side, -dy * side, 0.0
        r, g, b = k, 0.98 * k, 0.94 * k
    else:
        length = 1.0 / math.sqrt(1.0 + town.ground[0] * town.ground[0] + town.ground[1] * town.ground[1])
        nx, ny, nz = -town.ground[0] * length, -town.ground[1] * length, length
        foot = t * angle / math.sqrt(max(abs(nx * dx + ny * dy + nz * dz), 0.02))
        r, g, b = ground_colour(x, y, town.streets, town.ground, foot)
    return _lit(x, y, z, nx, ny, nz, r, g, b, 0.9, False, x, y, z + 1e-3, town, epoch, light)


@njit(cache=True, fastmath=True)
def radiance(ox, oy, oz, dx, dy, dz, town: Geometry, epoch, light, angle):  # type: ignore[no-untyped-def]
    """Linear colour seen along a ray, and the distance to what it sees (-1 for the sky)."""
    t, solid, part = nearest(ox, oy, oz, dx, dy, dz, FAR, town, epoch, False)
    if solid == SKY:
        r, g, b = sky(dx, dy, dz)
        return r, g, b, -1.0
    if solid in (GROUND, KERB):
        r, g, b = _ground_light(ox, oy, oz, dx, dy, dz, t, solid, town, epoch, light, angle)
    elif town.labels[solid, 0] == HULL and int(town.coats[int(town.faces[part, 9]), 0]) == FACADE:
        seed = town.labels[solid, 2]
        r, g, b, t = _facade_light(ox, oy, oz, dx, dy, dz, t, part, seed, town, epoch, light, angle)
    else:
        r, g, b = _solid_light(ox, oy, oz, dx, dy, dz, t, solid, part, town, epoch, light, angle)
    haze = 1.0 - math.exp(-t / 1200.0)
    return r + (0.62 - r) * haze, g + (0.70 - g) * haze, b + (0.82 - b) * haze, t


@njit(cache=True, fastmath=True, parallel=True)
def image(width, height, k, rotation, centre, town: Geometry, epoch, light, want_colour):  # type: ignore[no-untyped-def]
    """(H, W, 3) linear colour, or (H, W) depth along the optical axis (0 = sky); the other one comes out as zeros.

    `k` is fx, fy, cx, cy. Colour is the mean of two samples on a diagonal, of four where those two differ; depth is
    that of the pixel's centre. One entry point for both: the compiler optimises everything below it anew for each.
    """
    pixels, depth = np.zeros((height, width, 3), np.float32), np.zeros((height, width), np.float32)
    angle = (0.5 if want_colour else 1.0) / k[0]
    for row in prange(height):
        for col in range(width):
            r, g, b, differ, q = 0.0, 0.0, 0.0, 0.0, 0
            while q < (4 if want_colour else 1):
                x = (col + (0.25 + 0.5 * (q & 1) if want_colour else 0.5) - k[2]) / k[0]
                y = (row + (0.25 + 0.5 * ((q ^ (q >> 1)) & 1) if want_colour else 0.5) - k[3]) / k[1]
                length = 1.0 / math.sqrt(x * x + y * y + 1.0)
                dx = (rotation[0, 0] * x + rotation[1, 0] * y + rotation[2, 0]) * length
                dy = (rotation[0, 1] * x + rotation[1, 1] * y + rotation[2, 1]) * length
                dz = (rotation[0, 2] * x + rotation[1, 2] * y + rotation[2, 2]) * length
                red, green, blue, t = radiance(centre[0], centre[1], centre[2], dx, dy, dz, town, epoch, light, angle)
                depth[row, col] = max(t, 0.0) * length
                differ = abs(red - r) + abs(green - g) + abs(blue - b)
                r, g, b, q = r + red, g + green, b + blue, q + 1
                if q == 2 and differ < CALM * (r + g + b):
                    break
            pixels[row, col, 0], pixels[row, col, 1], pixels[row, col, 2] = r / q, g / q, b / q
    return pixels, depth
