"""Where tracks lie: rays of posed frames, the points they meet in, and which of them are believed.

`triangulate` takes every ray as it is; `structure` builds tracks and drops what does not fit, which costs a loop per
track and is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from skyanchor.geometry import cameras, rigid
from skyanchor.sfm.bundle import Bundle
from skyanchor.sfm.tracks import Pairs, TrackTable, Twice, build_tracks, kept, pixels_of
from skyanchor.sfm.triangulation_kernels import fit_tracks
from skyanchor.types import Camera, Floats, Ints, Pose


def triangulate(bundle: Bundle) -> Floats:
    """(P, 3), the point nearest to its rays: Σ (I - d dᵀ)(x - c) = 0; nan for fewer than two rays."""
    centres = rigid.centres_in_world(bundle.cams_from_world)
    k = bundle.calibrations[bundle.camera]
    rays = np.concatenate([(bundle.xy - k[:, 2:]) / k[:, :2], np.ones((len(k), 1))], axis=1)
    rays = np.einsum("kji,kj->ki", bundle.rotations[bundle.camera], rays)
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    across = np.eye(3) - rays[:, :, None] * rays[:, None, :]
    matrix, target = np.zeros((len(bundle.points), 3, 3)), np.zeros((len(bundle.points), 3))
    pulls = np.einsum("kij,kj->ki", across, centres[bundle.camera])
    for i in range(3):
        target[:, i] = np.bincount(bundle.point, pulls[:, i], len(target))
        for j in range(3):
            matrix[:, i, j] = np.bincount(bundle.point, across[:, i, j], len(target))
    enough = np.linalg.det(matrix) > 1e-9
    points = np.full((len(bundle.points), 3), np.nan)
    points[enough] = np.linalg.solve(matrix[enough], target[enough][..., None])[..., 0]
    return points


def ray_angles(bundle: Bundle) -> Floats:
    """(P,), largest angle between a point's first ray and its others, radians; 0 for single observations."""
    centres = rigid.centres_in_world(bundle.cams_from_world)
    rays = bundle.points[bundle.point] - centres[bundle.camera]
    rays /= np.linalg.norm(rays, axis=1, keepdims=True) + 1e-12
    first = np.zeros(len(bundle.points), dtype=np.int64)
    first[bundle.point[::-1]] = np.arange(len(rays))[::-1]
    cosine = np.clip((rays * rays[first[bundle.point]]).sum(axis=1), -1.0, 1.0)
    angles = np.zeros(len(bundle.points))
    np.maximum.at(angles, bundle.point, np.arccos(cosine))
    return angles


@dataclass(frozen=True, eq=False)
class Sight:
    """Posed frames as arrays, and what each observation sees: rays and centres in the world."""

    rotations: Floats
    """(F, 3, 3), cam_from_world."""
    translations: Floats
    """(F, 3)."""
    slot: Ints
    """(K,), row of each observation's frame."""
    rays: Floats
    """(K, 3), unit, world frame."""
    xy: Floats
    """(K, 2), pixels."""

    @property
    def centres(self) -> Floats:
        """(F, 3), camera centres in the world: -Rᵀ t."""
        return -np.einsum("fji,fj->fi", self.rotations, self.translations)


def look(table: TrackTable, poses: Mapping[int, Pose], camera: Camera, xy: Mapping[int, Floats]) -> Sight:
    """The rays behind a table whose frames are all posed."""
    frames, slot = np.unique(table.frame, return_inverse=True)
    pixels = pixels_of(table, xy)
    rotations = np.array([poses[int(f)].rotation for f in frames]).reshape(-1, 3, 3)
    translations = np.array([poses[int(f)].translation for f in frames]).reshape(-1, 3)
    in_cam = cameras.unproject(camera, pixels)
    rays = np.einsum("kji,kj->ki", rotations[slot], in_cam / np.linalg.norm(in_cam, axis=1, keepdims=True))
    return Sight(rotations, translations, slot.astype(np.int64), rays, pixels)


@dataclass(frozen=True)
class TrackFilter:
    """What a triangulated track must satisfy."""

    error_px: float
    """Most reprojection error, pixels."""
    least_angle: float
    """Between the rays that are most apart, radians."""
    most_depth_m: float
    """Depth in any camera that sees it: farther points are refused, metres."""


def structure(
    pairs: Pairs, poses: Mapping[int, Pose], camera: Camera, xy: Mapping[int, Floats], limits: TrackFilter
) -> tuple[TrackTable, Floats]:
    """Tracks among posed frames and their points; observations that do not fit were dropped, widest first."""
    among = {key: held for key, held in pairs.items() if key[0] in poses and key[1] in poses}
    table = build_tracks(among, Twice.LOSES_FRAME, {frame: len(pixels) for frame, pixels in xy.items()})
    if not len(table.point):
        return table, np.empty((0, 3))
    sight = look(table, poses, camera, xy)
    in_cam = cameras.unproject(camera, sight.xy)[:, :2]
    focal = np.diag(cameras.calibration(camera))[:2].copy()
    starts = np.append(np.flatnonzero(np.diff(table.point, prepend=-1)), len(table.point))
    points, keep = fit_tracks(
        starts,
        sight.slot,
        in_cam,
        sight.rays,
        sight.rotations,
        sight.translations,
        sight.centres,
        focal,
        limits.error_px,
        limits.least_angle,
        limits.most_depth_m,
    )
    return kept(table, points, keep)
