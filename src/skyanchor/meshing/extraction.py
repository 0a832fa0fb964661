"""Marching cubes over many blocks at once, and the joining of what blocks gave apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skyanchor.meshing.field import Samples
from skyanchor.meshing.field_kernels import CORNERS, EDGE
from skyanchor.meshing.mesh import Mesh
from skyanchor.types import Bools, Bytes, Floats, Ints

AT_ONCE = 64
"""Blocks in one call: they are laid end to end, and positions along them must stay exact in 32 bits."""
LEAST_DISTANCE = 1e-4
"""Metres: no lattice point lies on the surface, so no vertex lies on a lattice point but on one edge."""
KEY_BITS = 20
"""Of a lattice coordinate: 15 km either way at 3 cm."""


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of the mesh; vertices on the border of its blocks are also in its neighbours."""

    keys: Ints
    """(N,), the lattice edge that each vertex lies on: the same vertex has the same key in every piece."""
    vertices: Floats
    """(N, 3), lattice units."""
    colors: Bytes
    """(N, 3)."""
    faces: Ints
    """(F, 3)."""


def meshed(samples: Samples) -> Piece:
    """The zero surface of the blocks; cells with a corner that nobody saw have none."""
    parts = [_meshed(samples, slice(k, k + AT_ONCE)) for k in range(0, len(samples.blocks), AT_ONCE)]
    return _concatenated([part for part in parts if part is not None])


def _meshed(samples: Samples, some: slice) -> Piece | None:
    from skimage.measure import marching_cubes

    distance = samples.distance[some]
    seen = np.isfinite(distance)
    values = np.where(seen, np.copysign(np.maximum(np.abs(distance), LEAST_DISTANCE), distance), 1.0)
    cells = _over_corners(seen, np.logical_and)
    crossed = cells & _over_corners(values < 0, np.logical_or) & _over_corners(values > 0, np.logical_or)
    if not crossed.any():
        return None
    mask = np.zeros(distance.shape, np.bool_)
    mask[:, 1:, 1:, 1:] = cells  # of a cell, its corner farthest from the origin
    values = values.reshape(-1, CORNERS, CORNERS).astype(np.float32)
    vertices, faces, _, _ = marching_cubes(
        values, 0.0, mask=mask.reshape(values.shape), allow_degenerate=False, gradient_direction="descent"
    )
    block = np.clip((vertices[:, 0] / CORNERS).astype(np.int64), 0, len(distance) - 1)
    local = vertices.astype(np.float64)
    local[:, 0] -= block * CORNERS
    corner = samples.blocks[some][block] * EDGE
    nearest = np.clip(np.rint(local), 0, EDGE).astype(np.int64)
    colors = samples.colors[some][block, nearest[:, 0], nearest[:, 1], nearest[:, 2]]
    colors = np.clip(colors, 0, 255).astype(np.uint8)
    return Piece(edge_keys(corner, local), corner + local, colors, faces.astype(np.int64))


def _over_corners(of_points: Bools, joined_by: np.ufunc) -> Bools:
    """(B, E, E, E), a property of lattice points (B, N, N, N) joined over the eight corners of every cell."""
    for axis in (1, 2, 3):
        low, high = (np.moveaxis(of_points, axis, 0)[part] for part in (slice(None, -1), slice(1, None)))
        of_points = np.moveaxis(joined_by(low, high), 0, axis)
    return of_points


def edge_keys(corner: Ints, local: Floats) -> Ints:
    """(N,), one number per lattice edge: that of the vertex at corner + local, both (N, 3), lattice units."""
    low = np.floor(local).astype(np.int64)
    axis = (local - low).argmax(axis=1)
    place = corner + low + (1 << (KEY_BITS - 1))
    return ((place[:, 0] << KEY_BITS | place[:, 1]) << KEY_BITS | place[:, 2]) * 4 + axis


def _concatenated(parts: Sequence[Piece]) -> Piece:
    if not parts:
        nothing = np.zeros((0, 3))
        return Piece(np.zeros(0, np.int64), nothing, nothing.astype(np.uint8), nothing.astype(np.int64))
    starts = np.cumsum([0, *(len(part.keys) for part in parts)])
    return Piece(
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.vertices for part in parts]),
        np.concatenate([part.colors for part in parts]),
        np.concatenate([part.faces + start for part, start in zip(parts, starts, strict=False)]),
    )


def joined(pieces: Sequence[Piece], voxel_m: float) -> Mesh:
    """One mesh: what lies on one lattice edge is one vertex."""
    whole = _concatenated(pieces)
    _, first, row = np.unique(whole.keys, return_index=True, return_inverse=True)
    faces = row[whole.faces]
    good = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 0] != faces[:, 2])
    return Mesh(voxel_m * whole.vertices[first], faces[good], whole.colors[first])
