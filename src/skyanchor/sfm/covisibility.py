"""Keyframes that look at the same points although they are far apart in time: loops and ways back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import inside
from skyanchor.types import Bools, Camera, Floats, Pose

SAMPLE = 200
"""Points per keyframe that are projected into the others."""


def loop_pairs(
    poses: Mapping[int, Pose],
    xyz: Mapping[int, Floats],
    camera: Camera,
    known: Iterable[tuple[int, int]],
    most: int,
    least_overlap: float = 0.35,
    apart: int = 12,
) -> list[tuple[int, int]]:
    """Pairs (i, j) of keyframes at least `apart` keyframes apart that should share points, best `most` per keyframe."""
    frames = sorted(poses)
    if len(frames) <= apart or most <= 0:
        return []
    overlap = overlaps(frames, poses, xyz, camera)
    score = np.minimum(overlap, overlap.T)
    far = np.abs(np.subtract.outer(np.arange(len(frames)), np.arange(len(frames)))) >= apart
    score = np.where(far, score, 0.0)
    seen = set(known)
    found: set[tuple[int, int]] = set()
    for a in range(len(frames)):
        for b in np.argsort(-score[a], kind="stable")[:most]:
            pair = (min(frames[a], frames[b]), max(frames[a], frames[b]))
            if score[a, b] >= least_overlap and pair not in seen:
                found.add(pair)
    return sorted(found)


def overlaps(frames: list[int], poses: Mapping[int, Pose], xyz: Mapping[int, Floats], camera: Camera) -> Floats:
    """(F, F), part of row i's points that frame j sees from a similar direction and distance."""
    samples = [_sample(xyz[f]) for f in frames]
    count = np.array([len(s) for s in samples])
    points = np.concatenate(samples) if count.sum() else np.empty((0, 3))
    centres = rigid.centres_in_world([poses[f] for f in frames])
    own = np.repeat(np.arange(len(frames)), count)
    home = points - centres[own]
    near = np.linalg.norm(home, axis=1)
    out = np.zeros((len(frames), len(frames)))
    for j, frame in enumerate(frames):
        visible = _sees(poses[frame], centres[j], points, home, near, camera)
        out[:, j] = np.bincount(own, visible, minlength=len(frames)) / np.maximum(count, 1)
    return out


def _sample(xyz: Floats) -> Floats:
    good = xyz[np.isfinite(xyz[:, 0])]
    return good[:: max(1, len(good) // SAMPLE)][:SAMPLE]


def _sees(pose: Pose, centre: Floats, points: Floats, home: Floats, near: Floats, camera: Camera) -> Bools:
    """(N,), which points fall into the frame, within 40 degrees and a factor two of how their own frame sees them."""
    pixels = cameras.project(cameras.undistorted(camera), pose(points))
    away = points - centre
    far = np.linalg.norm(away, axis=1)
    turned = np.einsum("ki,ki->k", away, home) > np.cos(np.radians(40.0)) * far * near
    return np.asarray(inside(camera, pixels) & turned & (far < 2.0 * near) & (near < 2.0 * far))
