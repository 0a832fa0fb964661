"""Numba kernels: light, and the image. Every pixel is a pure function of the scene, so threads cannot change it."""

from __future__ import annotations

import math
from typing import TypeAlias

from skyanchor.compiled import njit
from skyanchor.town import noise_kernels as noise
from skyanchor.town import texture_kernels as texture
from skyanchor.town.coats import Material
from skyanchor.town.geometry import CYLINDER, HULL
from skyanchor.town.ground_kernels import ground_colour
from skyanchor.town.ray_kernels import GROUND, KERB, SKY, Moment, Ray, nearest
from skyanchor.types import Floats, Floats32

Vector: TypeAlias = tuple[float, float, float]
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
OVERCAST, WET, SNOW, DUSK = 5, 6, 7, 8
"""Columns of a moment's light."""
FAR = 900.0
"""Metres beyond which a ray sees the sky."""
CALM = 0.05
"""Relative difference of two samples below which a pixel needs no more."""


@njit(cache=True, fastmath=True)
def sky(dx: float, dy: float, dz: float, light: Floats) -> Vector:
    """Radiance of the sky on a day: clear, behind clouds, or with the last light over the horizon."""
    r, g, b = _clear_sky(dx, dy, dz)
    if light[OVERCAST] > 0.0:
        k = max(0.0, dz)
        grey = 0.72 + 0.16 * k + 0.25 * noise.grain(dx / (k + 0.3), dy / (k + 0.3), 905, 1.1, 3, 0.02)
        share = light[OVERCAST] * (1.0 if dz > 0.1 else 0.5)
        r, g, b = r + (grey - r) * share, g + (grey - g) * share, b + (1.02 * grey - b) * share
    if light[DUSK] > 0.0:
        glow = 0.16 * math.exp(-9.0 * max(0.0, dz)) if dz > 0.05 else 0.0
        k = 1.0 - 0.88 * light[DUSK]
        r, g, b = r * k + glow * light[DUSK], g * k + 0.55 * glow * light[DUSK], b * k + 0.3 * glow * light[DUSK]
    return r, g, b


@njit(cache=True, fastmath=True)
def _clear_sky(dx: float, dy: float, dz: float) -> Vector:
    """Paler towards the horizon, with thin clouds above far, wooded hills."""
    k = max(0.0, dz)
    bearing = math.atan2(dy, dx)
    ridge = 0.035 + 0.07 * noise.grain(bearing, 0.0, 901, 0.9, 5, 0.004)
    if dz < ridge:
        wood = 1.0 + 0.5 * noise.grain(bearing * 8.0, dz * 14.0, 902, 0.4, 3, 0.01)
        return 0.30 * wood, 0.37 * wood, 0.40 * wood
    cloud = 0.0
    if k > 0.02:
        cloud = min(1.0, max(0.0, 1.6 * (noise.grain(dx / (k + 0.15), dy / (k + 0.15), 900, 1.3, 4, 0.02) + 0.12)))
        cloud *= min(1.0, 6.0 * k)
    r, g, b = 0.62 - 0.42 * k, 0.72 - 0.34 * k, 0.88 - 0.18 * k
    return r + (0.95 - r) * cloud, g + (0.95 - g) * cloud, b + (0.97 - b) * cloud


@njit(cache=True, fastmath=True)
def _coat(
    material: int, x: float, y: float, z: float, u: float, v: float, part: int, c: Floats, seed: int, foot: float
) -> tuple[float, float, float, float]:
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
def _recess(
    u: float, v: float, du: float, dv: float, dn: float, u0: float, v0: float, u1: float, v1: float, depth: float
) -> tuple[float, int]:
    """Distance from a facade's plane to the pane or a reveal, and which: 0 pane, 1 side, 2 sill or lintel."""
    back = depth / max(-dn, 1e-9)
    side = (u1 - u) / max(du, 1e-9) if du > 0.0 else (u0 - u) / min(du, -1e-9)
    level = (v1 - v) / max(dv, 1e-9) if dv > 0.0 else (v0 - v) / min(dv, -1e-9)
    if back <= side and back <= level:
        return back, 0
    return (side, 1) if side < level else (level, 2)


@njit(cache=True, fastmath=True)
def _lit(normal: Vector, colour: Vector, start: Vector, openness: float, shaded: bool, moment: Moment) -> Vector:
    """Light leaving a surface: sky from above, and the sun where `start` sees it."""
    light = moment.light
    (nx, ny, nz), (r, g, b) = normal, colour
    if light[SNOW] > 0.0 and nz > 0.35:
        r, g, b = _snowed(r, g, b, nz, start[0], start[1], light[SNOW])
    cosine = nx * light[0] + ny * light[1] + nz * light[2]
    sun = 0.0
    if cosine > 0.0 and not shaded:
        shadow = Ray(start[0], start[1], start[2], light[0], light[1], light[2])
        _, solid, _ = nearest(shadow, 80.0, moment, True)
        if solid == SKY:
            sun = cosine * light[4]
    dome = light[3] * openness * (0.72 + 0.28 * nz)
    return r * (dome + sun), g * (dome + 0.96 * sun), b * (1.06 * dome + 0.88 * sun)


@njit(cache=True, fastmath=True)
def _snowed(r: float, g: float, b: float, nz: float, x: float, y: float, snow: float) -> Vector:
    """Colour with snow on what faces up, in drifts and gaps."""
    drift = 0.5 + noise.grain(x, y, 77, 2.3, 5, 0.03)
    cover = min(1.0, max(0.0, 4.0 * (1.1 * snow - drift) + 0.5)) * min(1.0, (nz - 0.35) / 0.3)
    white = 0.8 + 0.12 * noise.grain(x, y, 78, 0.4, 4, 0.03)
    return r + (white - r) * cover, g + (1.01 * white - g) * cover, b + (1.05 * white - b) * cover


@njit(cache=True, fastmath=True)
def _facade_light(
    ray: Ray, t: float, face: int, seed: int, moment: Moment, angle: float
) -> tuple[float, float, float, float]:
    """Radiance and distance of a hit on a facade, through to the pane or reveal of an opening."""
    town, light = moment.town, moment.light
    ox, oy, oz, dx, dy, dz = ray
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
        r, g, b = _lit((nx, ny, nz), (r, g, b), (ex, ey, ez), 0.9, False, moment)
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
    glass, behind = mirror / 0.16, (r, g, b)
    r, g, b = _lit((mx, my, mz), (r, g, b), (ex, ey, ez), openness, shaded, moment)
    if light[DUSK] > 0.0 and which == 0 and kind != texture.DOOR:
        lit = kind == texture.SHOP or noise.cell(seed * 31 + bay * 7 + floor * 113, 9, 8) < 0.6 * light[DUSK]
        k = 0.55 * light[DUSK] * glass if lit else 0.0  # a lamp in the room
        r, g, b = r + k * (behind[0] + 0.3), g + 0.8 * k * (behind[1] + 0.28), b + 0.5 * k * (behind[2] + 0.25)
    if mirror > 0.0:
        a, e, h = sky(dx - 2.0 * dn * nx, dy - 2.0 * dn * ny, dz - 2.0 * dn * nz, light)
        r, g, b = r + mirror * a, g + mirror * e, b + mirror * h
    return r, g, b, t + step


@njit(cache=True, fastmath=True)
def _solid_light(ray: Ray, t: float, solid: int, part: int, moment: Moment, angle: float) -> Vector:
    """Radiance of a hit on a hull's plain face, a cylinder or a lobe."""
    town, light = moment.town, moment.light
    ox, oy, oz, dx, dy, dz = ray
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
    start = (x + lift * nx, y + lift * ny, z + lift * nz)
    r, g, b = _lit((nx, ny, nz), (r, g, b), start, openness, False, moment)
    if mirror > 0.0:
        a, e, h = sky(dx - 2.0 * dn * nx, dy - 2.0 * dn * ny, dz - 2.0 * dn * nz, light)
        r, g, b = r + mirror * a, g + mirror * e, b + mirror * h
    return r, g, b


@njit(cache=True, fastmath=True)
def _ground_light(ray: Ray, t: float, solid: int, moment: Moment, angle: float) -> Vector:
    """Radiance of a hit on road, pavement, yard or kerb face."""
    town = moment.town
    ox, oy, oz, dx, dy, dz = ray
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
    return _lit((nx, ny, nz), (r, g, b), (x, y, z + 1e-3), 0.9, False, moment)


@njit(cache=True, fastmath=True)
def radiance(ray: Ray, moment: Moment, angle: float) -> tuple[float, float, float, float]:
    """Linear colour seen along a ray, and the distance to what it sees (-1 for the sky)."""
    r, g, b, t, solid = _first_light(ray, moment, angle)
    if solid == GROUND and moment.light[WET] > 0.0:
        r, g, b = _wet(ray, t, (r, g, b), moment, angle)
    return r, g, b, t


@njit(cache=True, fastmath=True)
def _wet(ray: Ray, t: float, dry: Vector, moment: Moment, angle: float) -> Vector:
    """Wet ground: darker, and a mirror by Fresnel's law, F = 0.02 + 0.98 (1 - cos)⁵, clear in puddles, dull between."""
    town, wet = moment.town, moment.light[WET]
    ox, oy, oz, dx, dy, dz = ray
    x, y, z = ox + t * dx, oy + t * dy, oz + t * dz
    pool = 0.5 + noise.grain(x, y, 71, 3.0, 4, 0.02)
    puddle = min(1.0, max(0.0, 8.0 * (0.75 * wet - pool) + 0.5))
    ripple = (1.0 - puddle) * 0.05
    nx = -town.ground[0] + ripple * noise.grain(x, y, 72, 0.06, 2, 0.005)
    ny = -town.ground[1] + ripple * noise.grain(x, y, 73, 0.06, 2, 0.005)
    length = 1.0 / math.sqrt(nx * nx + ny * ny + 1.0)
    nx, ny, nz = nx * length, ny * length, length
    dn = nx * dx + ny * dy + nz * dz
    share = (0.02 + 0.98 * (1.0 - min(1.0, -dn)) ** 5) * wet * (0.4 + 0.6 * puddle)
    up = max(dz - 2.0 * dn * nz, 1e-3)
    mirrored = Ray(x, y, z + 2e-3, dx - 2.0 * dn * nx, dy - 2.0 * dn * ny, up)
    a, e, h, _, _ = _first_light(mirrored, moment, 4.0 * angle)
    k = (1.0 - 0.5 * wet) * (1.0 - share)
    return k * dry[0] + share * a, k * dry[1] + share * e, k * dry[2] + share * h


@njit(cache=True, fastmath=True)
def _first_light(ray: Ray, moment: Moment, angle: float) -> tuple[float, float, float, float, int]:
    """Linear colour, distance (-1 for the sky) and number of the first thing along a ray, as if it were dry."""
    town = moment.town
    t, solid, part = nearest(ray, FAR, moment, False)
    if solid == SKY:
        r, g, b = sky(ray.dx, ray.dy, ray.dz, moment.light)
        return r, g, b, -1.0, solid
    if solid in (GROUND, KERB):
        r, g, b = _ground_light(ray, t, solid, moment, angle)
    elif town.labels[solid, 0] == HULL and int(town.coats[int(town.faces[part, 9]), 0]) == FACADE:
        seed = town.labels[solid, 2]
        r, g, b, t = _facade_light(ray, t, part, seed, moment, angle)
    else:
        r, g, b = _solid_light(ray, t, solid, part, moment, angle)
    haze = (1.0 - math.exp(-t / 1200.0)) * (1.0 - 0.9 * moment.light[DUSK])
    return r + (0.62 - r) * haze, g + (0.70 - g) * haze, b + (0.82 - b) * haze, t, solid


@njit(cache=True, fastmath=True, nogil=True)
def draw(
    first: int,
    last: int,
    k: Floats,
    rotation: Floats,
    centre: Floats,
    moment: Moment,
    pixels: Floats32,
    depth: Floats32,
) -> None:
    """Fill the rows first..last-1 of `pixels` (H, W, 3), linear colour, or where that is empty of `depth` (H, W).

    `k` is fx, fy, cx, cy. Colour is the mean of two samples on a diagonal, of four where those two differ; depth is
    along the optical axis at the pixel's centre, 0 = sky. One entry point for both: the compiler would optimise
    everything below it anew for a second one.
    """
    colour = pixels.shape[0] > 0
    angle = (0.5 if colour else 1.0) / k[0]
    for row in range(first, last):
        for col in range(pixels.shape[1] if colour else depth.shape[1]):
            r, g, b, q = 0.0, 0.0, 0.0, 0
            while q < 4:
                x = (col + (0.25 + 0.5 * (q & 1) if colour else 0.5) - k[2]) / k[0]
                y = (row + (0.25 + 0.5 * ((q ^ (q >> 1)) & 1) if colour else 0.5) - k[3]) / k[1]
                length = 1.0 / math.sqrt(x * x + y * y + 1.0)
                dx = (rotation[0, 0] * x + rotation[1, 0] * y + rotation[2, 0]) * length
                dy = (rotation[0, 1] * x + rotation[1, 1] * y + rotation[2, 1]) * length
                dz = (rotation[0, 2] * x + rotation[1, 2] * y + rotation[2, 2]) * length
                ray = Ray(centre[0], centre[1], centre[2], dx, dy, dz)
                red, green, blue, t = radiance(ray, moment, angle)
                if not colour:
                    depth[row, col] = max(t, 0.0) * length
                    break
                differ = abs(red - r) + abs(green - g) + abs(blue - b)
                r, g, b, q = r + red, g + green, b + blue, q + 1
                if q == 2 and differ < CALM * (r + g + b):
                    break
            if colour:
                pixels[row, col, 0], pixels[row, col, 1], pixels[row, col, 2] = r / q, g / q, b / q
