"""Relaxation: a gap between two ends of a chain of poses spread over the poses between them.

A pose graph over similarities, because the scale of a monocular chain drifts as well. Nodes are world_from_cam as 4x4
matrices S; an edge (i, j) remembers Z = S_i⁻¹ S_j as the images saw it. With S_k <- exp(e_k) S_k the residual is
    r_ij = log(Z⁻¹ S_i⁻¹ S_j) ~ r_ij(0) + Ad(S_j⁻¹) (e_j - e_i),
linear in the corrections e, which are 7-vectors (rotation, translation, log-scale).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.linalg import expm, logm

from skyanchor.geometry import rigid
from skyanchor.types import Floats, Pose


@dataclass(frozen=True, eq=False)
class Edge:
    """How frame j lies as seen from frame i."""

    i: int
    j: int
    i_from_j: Pose


@dataclass(frozen=True)
class EdgeSigmas:
    """Standard deviations of an edge."""

    rotation: float = 0.002
    """Radians."""
    translation: float = 0.01
    """Per metre of the edge's length."""
    translation_floor: float = 0.005
    """Metres."""
    log_scale: float = 0.005
    """Of the logarithm of an edge's scale."""


def relax(
    poses: Mapping[int, Pose], fixed: frozenset[int], edges: list[Edge], sigmas: EdgeSigmas, rounds: int = 3
) -> dict[int, Pose]:
    """Poses (cam_from_world) that satisfy the edges best while the fixed ones stay; frames without edges stay too."""
    touched = {e.i for e in edges} | {e.j for e in edges}
    free = sorted(f for f in poses if f not in fixed and f in touched)
    if not free:
        return dict(poses)
    nodes = {f: pose.inverse.matrix for f, pose in poses.items()}
    slot = {f: 7 * k for k, f in enumerate(free)}
    measured = [e.i_from_j.inverse.matrix for e in edges]
    weights = [_weights(e, sigmas) for e in edges]
    for _ in range(rounds):
        step = _step(nodes, slot, edges, measured, weights)
        for f in free:
            nodes[f] = expm(_hat(step[slot[f] : slot[f] + 7])) @ nodes[f]
    return {f: _pose(nodes[f]) if f in slot else pose for f, pose in poses.items()}


def _step(
    nodes: dict[int, Floats], slot: dict[int, int], edges: list[Edge], measured: list[Floats], weights: list[Floats]
) -> Floats:
    """The Gauss-Newton step of all free nodes, (7 n,)."""
    size = 7 * len(slot)
    matrix, gradient = 1e-9 * np.eye(size), np.zeros(size)
    for edge, back, weight in zip(edges, measured, weights, strict=True):
        residual = _vee(np.real(logm(back @ np.linalg.inv(nodes[edge.i]) @ nodes[edge.j])))
        lever = _adjoint(np.asarray(np.linalg.inv(nodes[edge.j]), dtype=np.float64))
        block = lever.T @ (weight[:, None] * lever)
        pull = lever.T @ (weight * residual)
        a, b = slot.get(edge.i), slot.get(edge.j)
        if a is not None:
            matrix[a : a + 7, a : a + 7] += block
            gradient[a : a + 7] -= pull
        if b is not None:
            matrix[b : b + 7, b : b + 7] += block
            gradient[b : b + 7] += pull
        if a is not None and b is not None:
            matrix[a : a + 7, b : b + 7] -= block
            matrix[b : b + 7, a : a + 7] -= block
    return np.asarray(-np.linalg.solve(matrix, gradient))


def _weights(edge: Edge, sigmas: EdgeSigmas) -> Floats:
    """(7,), inverse variances."""
    length = float(np.linalg.norm(edge.i_from_j.translation))
    spread = np.hypot(sigmas.translation * length, sigmas.translation_floor)
    return np.repeat([sigmas.rotation, spread, sigmas.log_scale], [3, 3, 1]) ** -2.0


def _hat(e: Floats) -> Floats:
    """(4, 4), the element of sim(3) with coordinates (w, v, s): [[w]ₓ + s I, v; 0, 0]."""
    out = np.zeros((4, 4))
    out[:3, :3] = rigid.skew(e[:3]) + e[6] * np.eye(3)
    out[:3, 3] = e[3:6]
    return out


def _vee(m: Floats) -> Floats:
    """(7,), coordinates of an element of sim(3)."""
    w = 0.5 * np.array([m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]])
    return np.concatenate([w, m[:3, 3], [np.trace(m[:3, :3]) / 3.0]])


_BASIS = np.stack([_hat(e) for e in np.eye(7)])


def _adjoint(s: Floats) -> Floats:
    """(7, 7), Ad(S): coordinates of S ê S⁻¹ for each basis element."""
    turned = s @ _BASIS @ np.linalg.inv(s)
    return np.stack([_vee(m) for m in turned], axis=1)


def _pose(world_from_cam: Floats) -> Pose:
    """cam_from_world of a similarity node: its scale is dropped, its rotation and centre stay."""
    u, _, vt = np.linalg.svd(world_from_cam[:3, :3])
    return rigid.from_centre((u @ vt).T, world_from_cam[:3, 3])
