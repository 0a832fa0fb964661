"""A triangle mesh with colours: made coarser, rid of crumbs, written for other programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from skyanchor.errors import InputError
from skyanchor.storage import files
from skyanchor.types import Bytes, Floats, Ints

AGAIN = "Copy the file again, or make it anew."
Y_UP = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, -1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
"""glTF has y up: x stays, z becomes y, y becomes -z."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles whose corners run counter-clockwise seen from the free side."""

    vertices: Floats
    """(N, 3), metres, local frame."""
    faces: Ints
    """(F, 3), rows of vertices."""
    colors: Bytes
    """(N, 3), RGB."""

    def __len__(self) -> int:
        """How many triangles."""
        return len(self.faces)


def corners(mesh: Mesh) -> Floats:
    """(F, 3, 3), the corners of every triangle, metres."""
    return mesh.vertices[mesh.faces]


def area_m2(mesh: Mesh) -> float:
    """Of all triangles."""
    a, b, c = corners(mesh).transpose(1, 0, 2)
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2.0)


def without_crumbs(mesh: Mesh, least_faces: int) -> Mesh:
    """The pieces that have at least so many triangles."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    if not len(mesh):
        return mesh
    ones = np.ones(2 * len(mesh), np.bool_)
    starts, ends = mesh.faces[:, [0, 1]].ravel("F"), mesh.faces[:, [1, 2]].ravel("F")
    size = len(mesh.vertices)
    _, piece = connected_components(coo_matrix((ones, (starts, ends)), shape=(size, size)), directed=False)
    held = piece[mesh.faces[:, 0]]
    return _used(mesh, mesh.faces[np.bincount(held, minlength=piece.max() + 1)[held] >= least_faces])


def _used(mesh: Mesh, faces: Ints) -> Mesh:
    """The triangles with the vertices that they need."""
    rows, renamed = np.unique(faces, return_inverse=True)
    return Mesh(mesh.vertices[rows], renamed.reshape(-1, 3), mesh.colors[rows])


def coarser(mesh: Mesh, share: float) -> Mesh:
    """About this share of the triangles, by quadric edge collapse; colours are those of the nearest vertex."""
    import fast_simplification
    from scipy.spatial import cKDTree

    if not len(mesh):
        return mesh
    middle = mesh.vertices.mean(axis=0)
    points, faces = fast_simplification.simplify(
        (mesh.vertices - middle).astype(np.float32), mesh.faces.astype(np.int32), target_reduction=1.0 - share
    )
    vertices = points.astype(np.float64) + middle
    _, nearest = cKDTree(mesh.vertices).query(vertices)
    return _used(Mesh(vertices, faces, mesh.colors[nearest]), faces.astype(np.int64))


def write_ply(path: Path, mesh: Mesh, offset: Floats) -> None:
    """Binary .ply in the user's coordinates, local + offset, as doubles: map coordinates need them."""
    kinds = [("x", "<f8"), ("y", "<f8"), ("z", "<f8"), ("red", "u1"), ("green", "u1"), ("blue", "u1")]
    table = np.zeros(len(mesh.vertices), kinds)
    for name, column in zip("xyz", (mesh.vertices + offset).T, strict=True):
        table[name] = column
    for name, column in zip(("red", "green", "blue"), mesh.colors.T, strict=True):
        table[name] = column
    corners = np.zeros(len(mesh), [("count", "u1"), ("rows", "<i4", 3)])
    corners["count"], corners["rows"] = 3, mesh.faces
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(mesh.vertices)}"]
    header += [f"property {'double' if kind == '<f8' else 'uchar'} {name}" for name, kind in kinds]
    header += [f"element face {len(mesh)}", "property list uchar int vertex_indices", "end_header", ""]
    files.write_bytes(path, "\n".join(header).encode() + table.tobytes() + corners.tobytes())


def write_glb(path: Path, mesh: Mesh) -> None:
    """Binary glTF in the local frame turned y up, for viewers; georef.json beside it says where that lies."""
    import trimesh

    opaque = np.full((len(mesh.vertices), 1), 255, np.uint8)
    held = trimesh.Trimesh(
        mesh.vertices, mesh.faces, vertex_colors=np.concatenate([mesh.colors, opaque], axis=1), process=False
    )
    held.apply_transform(Y_UP)
    packed = held.export(file_type="glb")
    assert isinstance(packed, bytes)
    files.write_bytes(path, packed)


def read_ply(path: Path) -> Mesh:
    """A triangle mesh that any program wrote as .ply; grey where it has no colours. InputError where it is none."""
    import trimesh

    try:
        held = trimesh.load_mesh(path, file_type="ply", process=False)
        vertices, faces = np.asarray(held.vertices, np.float64), np.asarray(held.faces, np.int64)
        colored = held.visual.kind == "vertex"
        colors = np.asarray(held.visual.vertex_colors)[:, :3] if colored else np.full(vertices.shape, 128)
    except Exception as error:  # trimesh raises whatever its parser met
        raise InputError(path, f"cannot be read as a mesh ({error})", AGAIN) from error
    sizes = vertices.shape[1:] == faces.shape[1:] == (3,) and colors.shape == vertices.shape
    if not sizes or not np.isfinite(vertices).all():
        raise InputError(path, "has vertices that are no places, or faces that are no triangles", AGAIN)
    if faces.size and not (faces.min() >= 0 and faces.max() < len(vertices)):
        raise InputError(path, "has triangles between vertices that are not there", AGAIN)
    return Mesh(vertices, faces, colors.astype(np.uint8))
