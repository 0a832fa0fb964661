"""A bundle: cameras, points and the observations between them, and what can be read off it without moving anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from skyanchor.geometry import cameras, rigid
from skyanchor.sfm import observation_kernels as kernels
from skyanchor.sfm.tracks import TrackTable
from skyanchor.types import Bools, Camera, Floats, Ints, Pose


@dataclass(frozen=True, eq=False)
class HeldPoses:
    """Poses that some cameras were given together by something else, as sure as it says."""

    camera: Ints
    """(A,), cameras of the bundle, none twice."""
    cams_from_world: tuple[Pose, ...]
    information: Floats
    """(6 A, 6 A), inverse covariance of (rotation rad, translation m) of one after the other, left perturbations."""


@dataclass(frozen=True, eq=False)
class Bundle:
    """Cameras, points and the observations between them."""

    cams_from_world: tuple[Pose, ...]
    lenses: tuple[Camera, ...]
    """Intrinsics of each camera; those of the same value are one lens."""
    constant: Bools
    """(C,), True for cameras that must not move."""
    points: Floats
    """(P, 3), metres."""
    camera: Ints
    """(K,), camera of each observation."""
    point: Ints
    """(K,), point of each observation."""
    xy: Floats
    """(K, 2), pixels."""
    sigma: Floats
    """(K,), standard deviation of an observation, pixels."""
    prior: Floats | None = None
    """(P, 3), where points were measured independently, metres; None for no priors."""
    prior_information: Floats | None = None
    """(P, 3, 3), inverse covariance of `prior`; zeros for a point without one."""
    names: tuple[int, ...] | None = None
    """What each camera is called, e.g. its frame in the sequence; its index where there are none. Ceres adds up in an
    order that depends on them, so the last bits of its result do."""
    held: tuple[HeldPoses, ...] = ()
    """Where movable cameras were measured independently."""

    @property
    def pinhole(self) -> bool:
        """Whether no lens has distortion."""
        return all(lens.model == "PINHOLE" for lens in self.lenses)

    @property
    def calibrations(self) -> Floats:
        """(C, 4): fx, fy, cx, cy of lenses without distortion, pixels."""
        if not self.pinhole:
            raise ValueError("a lens with distortion is no (fx, fy, cx, cy)")
        return np.array([lens.params for lens in self.lenses], dtype=np.float64).reshape(-1, 4)

    @property
    def rotations(self) -> Floats:
        """(C, 3, 3), of cams_from_world."""
        return np.array([pose.rotation for pose in self.cams_from_world]).reshape(-1, 3, 3)

    @property
    def translations(self) -> Floats:
        """(C, 3), of cams_from_world."""
        return np.array([pose.translation for pose in self.cams_from_world]).reshape(-1, 3)


def nothing() -> Bundle:
    """The bundle without cameras and points."""
    none = np.empty(0, np.int64)
    return Bundle((), (), np.empty(0, bool), np.empty((0, 3)), none, none, np.empty((0, 2)), np.empty(0))


def bundle_of(
    table: TrackTable, points: Floats, xy: Floats, poses: Mapping[int, Pose], lens: Camera, constant: frozenset[int]
) -> Bundle:
    """Tracks of posed frames as a bundle: camera k is frame table.frames[k], an observation is good to one pixel."""
    frames = table.frames.tolist()
    return Bundle(
        tuple(poses[frame] for frame in frames),
        (lens,) * len(frames),
        np.array([frame in constant for frame in frames], dtype=bool),
        points,
        np.searchsorted(table.frames, table.frame).astype(np.int64),
        table.point,
        xy,
        np.ones(len(xy)),
        names=tuple(frames),
    )


def residuals(bundle: Bundle) -> Floats:
    """(K, 2), where a camera sees its point minus where it was seen, in sigmas; BEHIND behind the camera."""
    if bundle.pinhole:
        return np.asarray(
            kernels.residuals(
                bundle.rotations,
                bundle.translations,
                bundle.calibrations,
                bundle.points,
                bundle.camera,
                bundle.point,
                bundle.xy,
                bundle.sigma,
            )
        )
    seen, pixels = in_cameras(bundle), np.full(bundle.xy.shape, np.nan)
    for lens in dict.fromkeys(bundle.lenses):
        rows = np.array([one == lens for one in bundle.lenses])[bundle.camera]
        pixels[rows] = cameras.project(lens, seen[rows])
    return np.nan_to_num((pixels - bundle.xy) / bundle.sigma[:, None], nan=kernels.BEHIND)


def from_held(bundle: Bundle, held: HeldPoses) -> Floats:
    """(6 A,), (rotation rad, translation m) that takes each held pose to that of its camera, from the left."""
    steps = [
        bundle.cams_from_world[k] @ pose.inverse
        for k, pose in zip(held.camera.tolist(), held.cams_from_world, strict=True)
    ]
    return np.array([np.append(rigid.rotation_log(one.rotation), one.translation) for one in steps]).ravel()


def residual_lengths(bundle: Bundle) -> Floats:
    """(K,), reprojection residual of every observation in sigmas."""
    return np.asarray(np.linalg.norm(residuals(bundle), axis=1))


def mean_error_px(bundle: Bundle) -> float:
    """Mean over the points of the mean reprojection error of their observations, pixels; 0 without points."""
    if not len(bundle.points):
        return 0.0
    seen = np.bincount(bundle.point, minlength=len(bundle.points))
    total = np.bincount(bundle.point, residual_lengths(bundle) * bundle.sigma, len(bundle.points))
    return float(np.mean(total / np.maximum(seen, 1)))


def in_cameras(bundle: Bundle) -> Floats:
    """(K, 3), every observation's point in the axes of its camera, metres."""
    turned = np.einsum("kij,kj->ki", bundle.rotations[bundle.camera], bundle.points[bundle.point])
    return turned + bundle.translations[bundle.camera]


def selected(bundle: Bundle, keep: Bools) -> tuple[Bundle, Ints]:
    """(the bundle with only the kept observations and the points they see, old index of each point)."""
    used, point = np.unique(bundle.point[keep], return_inverse=True)
    smaller = replace(
        bundle,
        points=bundle.points[used],
        camera=bundle.camera[keep],
        point=point.astype(np.int64),
        xy=bundle.xy[keep],
        sigma=bundle.sigma[keep],
        prior=None if bundle.prior is None else bundle.prior[used],
        prior_information=None if bundle.prior_information is None else bundle.prior_information[used],
    )
    return smaller, used
