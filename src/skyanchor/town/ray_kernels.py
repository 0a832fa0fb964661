"""Numba kernels: where a ray meets the town. Rays are origin o, unit direction d; distances in metres."""

from __future__ import annotations

import math
from typing import NamedTuple

from skyanchor.compiled import njit
from skyanchor.town.geometry import CYLINDER, HULL, Geometry
from skyanchor.town.noise_kernels import smooth3
from skyanchor.types import Floats

SKY, GROUND, KERB = -1, -2, -3
"""What `nearest` returns in place of a solid's number."""
LEAF_CORE = 0.84
"""Radius of a lobe's closed core over that of its shell."""
LEAF = 8.5
"""Leaves and gaps per metre on a lobe's shell."""
NEAR = 1e-4


class Ray(NamedTuple):
    """Origin and unit direction; world, metres."""

    ox: float
    oy: float
    oz: float
    dx: float
    dy: float
    dz: float


class Moment(NamedTuple):
    """The town at one epoch, in its light."""

    town: Geometry
    epoch: int
    """Bit of the epoch."""
    light: Floats
    """(9,): direction to the sun, strength of sky and of sun; overcast, wet, snow and dusk, each 0..1."""


@njit(cache=True, fastmath=True)
def _hull(first: int, count: int, faces: Floats, ray: Ray, far: float) -> tuple[float, int]:
    """Entry distance and face of a convex solid; (-1, -1) for a miss and for a start inside."""
    ox, oy, oz, dx, dy, dz = ray
    near, face = NEAR, -1
    for k in range(first, first + count):
        nx, ny, nz = faces[k, 0], faces[k, 1], faces[k, 2]
        along = nx * dx + ny * dy + nz * dz
        gap = faces[k, 3] - (nx * ox + ny * oy + nz * oz)
        if abs(along) < 1e-12:
            if gap < 0.0:
                return -1.0, -1
            continue
        t = gap / along
        if along < 0.0:
            if t > near:
                near, face = t, k
        elif t < far:
            far = t
        if near >= far:
            return -1.0, -1
    if face < 0:
        return -1.0, -1
    return near, face


@njit(cache=True, fastmath=True)
def _cylinder(s: Floats, ray: Ray, far: float) -> tuple[float, int]:
    """Entry distance into a capped cylinder and 0 = side, 1 = cap: |w - (w.a) a| = r with w = o + t d - start."""
    ox, oy, oz, dx, dy, dz = ray
    wx, wy, wz = ox - s[0], oy - s[1], oz - s[2]
    da, wa = dx * s[3] + dy * s[4] + dz * s[5], wx * s[3] + wy * s[4] + wz * s[5]
    a = 1.0 - da * da
    if a > 1e-12:
        b = wx * dx + wy * dy + wz * dz - wa * da
        c = wx * wx + wy * wy + wz * wz - wa * wa - s[7] * s[7]
        disc = b * b - a * c
        if disc <= 0.0:
            return -1.0, -1
        t = (-b - math.sqrt(disc)) / a
        h = wa + t * da
        if t > NEAR and t < far and h >= 0.0 and h <= s[6]:
            return t, 0
    if abs(da) > 1e-12:
        t = ((0.0 if da > 0.0 else s[6]) - wa) / da
        px, py, pz = wx + t * dx, wy + t * dy, wz + t * dz
        h = wa + t * da
        if t > NEAR and t < far and px * px + py * py + pz * pz - h * h <= s[7] * s[7]:
            return t, 1
    return -1.0, -1


@njit(cache=True, fastmath=True)
def _lobe(s: Floats, seed: int, ray: Ray, far: float) -> tuple[float, int]:
    """Entry distance into a leaf clump: its ragged shell where there are leaves, else its core."""
    ox, oy, oz, dx, dy, dz = ray
    px, py, pz = ox - s[0], oy - s[1], oz - s[2]
    b = px * dx + py * dy + pz * dz
    c = px * px + py * py + pz * pz
    radius = s[3]
    disc = b * b - c + radius * radius
    if disc <= 0.0:
        return -1.0, -1
    t = -b - math.sqrt(disc)
    if t > far:
        return -1.0, -1
    if t > NEAR:
        x, y, z = ox + t * dx, oy + t * dy, oz + t * dz
        if smooth3(x * LEAF, y * LEAF, z * LEAF, seed) > 0.5:
            return t, 0
    radius *= LEAF_CORE
    disc = b * b - c + radius * radius
    if disc <= 0.0:
        return -1.0, -1
    t = -b - math.sqrt(disc)
    if t > NEAR and t < far:
        return t, 1
    return -1.0, -1


@njit(cache=True, fastmath=True)
def raised(x: float, y: float, streets: Floats) -> bool:
    """Whether a ground point lies on a pavement or inside a block, not on a road."""
    for k in range(streets.shape[0]):
        if abs(streets[k, 0] * x + streets[k, 1] * y - streets[k, 2]) < streets[k, 3]:
            return False
    return True


@njit(cache=True, fastmath=True)
def _ground(ray: Ray, far: float, streets: Floats, ground: Floats) -> tuple[float, int]:
    """Distance and GROUND or KERB where a ray meets pavement top, road or kerb face; (far, SKY) for none."""
    ox, oy, oz, dx, dy, dz = ray
    above = oz - ground[0] * ox - ground[1] * oy
    sink = dz - ground[0] * dx - ground[1] * dy
    if sink >= -1e-9:
        return far, SKY
    top = (ground[2] - above) / sink
    if top > far:
        return far, SKY
    if top > 0.0 and raised(ox + top * dx, oy + top * dy, streets):
        return top, GROUND
    best, what = -above / sink, GROUND
    for k in range(streets.shape[0]):
        side = streets[k, 0] * ox + streets[k, 1] * oy - streets[k, 2]
        drift = streets[k, 0] * dx + streets[k, 1] * dy
        if abs(drift) < 1e-9:
            continue
        t = ((streets[k, 3] if drift > 0.0 else -streets[k, 3]) - side) / drift  # leaving this road
        if t > max(top, 0.0) and t < best and raised(ox + (t + NEAR) * dx, oy + (t + NEAR) * dy, streets):
            best, what = t, KERB
    if best <= 0.0 or best > far:
        return far, SKY
    return best, what


@njit(cache=True, fastmath=True)
def nearest(ray: Ray, far: float, moment: Moment, any_hit: bool) -> tuple[float, int, int]:
    """Distance, solid (or SKY, GROUND, KERB) and face of the first hit before `far`.

    With `any_hit` the ground is left out and the first solid found ends the search (shadow rays).
    """
    town, epoch, _ = moment
    ox, oy, oz, dx, dy, dz = ray
    best, solid, face = far, SKY, 0
    if not any_hit:
        best, solid = _ground(ray, far, town.streets, town.ground)
    dx, dy, dz = _nonzero(dx), _nonzero(dy), _nonzero(dz)
    ray = Ray(ox, oy, oz, dx, dy, dz)
    ix, iy, iz = 1.0 / dx, 1.0 / dy, 1.0 / dz
    octant = (1 if dx < 0.0 else 0) + (2 if dy < 0.0 else 0) + (4 if dz < 0.0 else 0)
    nodes, links = town.nodes[octant], town.links[octant]
    k, n = 0, nodes.shape[0]
    while k < n:
        enter = max((nodes[k, 0] - ox) * ix, (nodes[k, 1] - oy) * iy, (nodes[k, 2] - oz) * iz, 0.0)
        leave = min((nodes[k, 3] - ox) * ix, (nodes[k, 4] - oy) * iy, (nodes[k, 5] - oz) * iz, best)
        if enter > leave:
            k = links[k, 0]
            continue
        for q in range(links[k, 1], links[k, 1] + links[k, 2]):
            if town.labels[q, 3] & epoch == 0:
                continue
            kind, shape = town.labels[q, 0], town.shapes[q]
            if kind == HULL:
                t, f = _hull(int(shape[0]), int(shape[1]), town.faces, ray, best)
            elif kind == CYLINDER:
                t, f = _cylinder(shape, ray, best)
            else:
                t, f = _lobe(shape, town.labels[q, 2], ray, best)
            if f >= 0 and t < best:
                best, solid, face = t, q, f
                if any_hit:
                    return best, solid, face
        k += 1
    return best, solid, face


@njit(cache=True)
def _nonzero(x: float) -> float:
    return x if abs(x) > 1e-9 else 1e-9
