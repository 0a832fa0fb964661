"""The town as flat arrays for the kernels: solids, faces, coats, and a threaded bounding-volume tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skyanchor.town import coats, solids
from skyanchor.town.coats import Coat
from skyanchor.town.solids import Cylinder, Hull, Lobe, Solid
from skyanchor.types import Floats, Floats32, Ints

HULL, CYLINDER, LOBE = 0, 1, 2
LEAF_SIZE = 2
SLACK = 1e-3
"""Metres that float32 node bounds are widened by."""


class Geometry(NamedTuple):
    """Arrays of one town; a named tuple because numba takes it as it is.

    The tree is stored once per octant of ray directions, children in front-to-back order, as a list in depth-first
    order with skip links, so that traversal needs no stack.
    """

    nodes: Floats32
    """(8, M, 6): entry planes x y z, then exit planes x y z, as seen by rays of that octant."""
    links: Ints
    """(8, M, 3): node to go to when missed, first solid, number of solids (0 for inner nodes)."""
    shapes: Floats
    """(N, 8): hull: first face, faces; cylinder: start, axis, length, radius; lobe: centre, radius."""
    labels: Ints
    """(N, 4): kind, coat (hulls: -1), seed, epoch bits."""
    faces: Floats
    """(F, 10): normal, offset, u axis, u origin, v origin, coat; u = U·p - u0, v = (n × U)·p - v0."""
    coats: Floats
    """(C, COLUMNS)."""
    streets: Floats
    """(S, 6): unit normal x y, offset, half width, surface (0 asphalt, 1 setts), family (0 columns, 1 rows)."""
    ground: Floats
    """(4,): slope dz/dx, dz/dy, kerb height, pavement width."""


def pack(parts: Sequence[Solid], streets: Floats, ground: Floats) -> Geometry:
    """The arrays of a town."""
    boxes = np.array([np.concatenate(solids.bounds(part)) for part in parts])
    order, tree = _grow(boxes)
    index: dict[Coat, int] = {}
    shapes, labels, faces = np.zeros((len(parts), 8)), np.zeros((len(parts), 4), np.int64), []
    first = 0
    for row, k in enumerate(order):
        shapes[row], labels[row], own = _encode(parts[k], index, first)
        faces.extend(own)
        first += len(own)
    nodes, links = _thread(tree)
    return Geometry(nodes, links, shapes, labels, np.array(faces), coats.table(list(index)), streets, ground)


def _encode(part: Solid, index: dict[Coat, int], first: int) -> tuple[Floats, Ints, list[Floats]]:
    shape, own = np.zeros(8), []
    label = np.array([HULL, -1, part.seed, part.epochs], dtype=np.int64)
    if isinstance(part, Hull):
        own = [_face(part, k, index) for k in range(len(part.faces))]
        shape[:2] = first, len(own)
        return shape, label, own
    label[1] = index.setdefault(part.coat, len(index))
    if isinstance(part, Lobe):
        label[0] = LOBE
        shape[:4] = *part.centre, part.radius
    elif isinstance(part, Cylinder):
        label[0] = CYLINDER
        along = part.end - part.start
        length = float(np.linalg.norm(along))
        shape[:] = *part.start, *(along / length), length, part.radius
    return shape, label, own


def _face(part: Hull, k: int, index: dict[Coat, int]) -> Floats:
    a, b, c = part.vertices[list(part.faces[k][:3])]
    u = (b - a) / np.linalg.norm(b - a)
    normal = _cross(u, c - a)
    normal /= np.linalg.norm(normal)
    coat = index.setdefault(part.coats[k], len(index))
    return np.array([*normal, normal @ a, *u, u @ a, _cross(normal, u) @ a, coat])


def _cross(a: Floats, b: Floats) -> Floats:
    """(3,), for one pair of vectors much faster than numpy's."""
    (ax, ay, az), (bx, by, bz) = a.tolist(), b.tolist()
    return np.array([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx])


# --- the tree ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Node:
    box: Floats
    axis: int
    children: tuple[_Node, _Node] | None
    first: int
    count: int


def _grow(boxes: Floats) -> tuple[Ints, _Node]:
    """Solids in tree order, and the tree, split by the surface-area heuristic."""
    ordered: list[int] = []

    def grow(members: Ints) -> _Node:
        box = np.concatenate([boxes[members, :3].min(axis=0), boxes[members, 3:].max(axis=0)])
        if len(members) <= LEAF_SIZE:
            ordered.extend(members.tolist())
            return _Node(box, 0, None, len(ordered) - len(members), len(members))
        axis, low, high = _split(boxes, members)
        return _Node(box, axis, (grow(low), grow(high)), 0, 0)

    root = grow(np.arange(len(boxes)))
    return np.array(ordered), root


def _split(boxes: Floats, members: Ints) -> tuple[int, Ints, Ints]:
    """The axis and halves of least cost area(left) * n_left + area(right) * n_right."""
    best = (np.inf, 0, 0, members)
    for axis in range(3):
        order = members[np.argsort(boxes[members, axis] + boxes[members, axis + 3], kind="stable")]
        left = _areas(boxes[order])[:-1]
        right = _areas(boxes[order][::-1])[::-1][1:]
        n = np.arange(1, len(members))
        cost = left * n + right * n[::-1]
        k = int(np.argmin(cost))
        if cost[k] < best[0]:
            best = (float(cost[k]), axis, k + 1, order)
    _, axis, cut, order = best
    return axis, order[:cut], order[cut:]


def _areas(boxes: Floats) -> Floats:
    """Half surface area of the box around the first 1, 2, ... boxes."""
    size = np.maximum.accumulate(boxes[:, 3:], axis=0) - np.minimum.accumulate(boxes[:, :3], axis=0)
    return size[:, 0] * size[:, 1] + size[:, 1] * size[:, 2] + size[:, 2] * size[:, 0]


def _thread(root: _Node) -> tuple[Floats32, Ints]:
    """Nodes and links for each octant; bit k of the octant is set when the ray goes down along axis k."""
    nodes, links = zip(*(_thread_octant(root, octant) for octant in range(8)), strict=True)
    return np.array(nodes, dtype=np.float32), np.array(links, dtype=np.int64)


def _thread_octant(root: _Node, octant: int) -> tuple[Floats, list[list[int]]]:
    boxes: list[Floats] = []
    links: list[list[int]] = []
    down = [bool(octant >> axis & 1) for axis in range(3)]

    def visit(node: _Node) -> None:
        here = len(boxes)
        boxes.append(node.box)
        links.append([0, node.first, node.count])
        if node.children is not None:
            for child in node.children[::-1] if down[node.axis] else node.children:
                visit(child)
        links[here][0] = len(boxes)

    visit(root)
    low, high = np.array(boxes)[:, :3] - SLACK, np.array(boxes)[:, 3:] + SLACK
    return np.concatenate([np.where(down, high, low), np.where(down, low, high)], axis=1), links
