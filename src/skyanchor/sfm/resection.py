"""Resection: the pose of one more camera from points known in the world (PnP), or from rays of known cameras."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import poselib

from skyanchor.matching.verify import posed
from skyanchor.types import Bools, Camera, Floats, Pose

SAMPLE = 5
"""Pixels shared with one camera that make a sample, with one more of another; PoseLib draws for ever without."""


@dataclass(frozen=True)
class Trials:
    """How long poses are drawn."""

    most: int = 5000
    least: int = 1000
    sure: float = 0.9999
    """Probability of having met a sample without outliers at which drawing ends, 0..1."""
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Resected:
    """A camera's pose and the points that agree with it."""

    cam_from_world: Pose
    inliers: Bools
    """(N,)."""


def resect(
    xy: Floats, points: Floats, camera: Camera, most_px: float, trials: Trials, sigma_px: float | None = None
) -> Resected:
    """The pose with most agreement of world points (N, 3) and pixels xy (N, 2) of a camera without distortion.

    With `sigma_px` it is adjusted on its inliers (Cauchy at one sigma); they stay those of the drawn pose.
    """
    options = {
        "max_reproj_error": most_px,
        "max_iterations": trials.most,
        "min_iterations": trials.least,
        "success_prob": trials.sure,
        "seed": trials.seed,
    }
    pose, info = poselib.estimate_absolute_pose(xy, points, posed(camera), options, {})
    inliers = np.array(info["inliers"], dtype=bool)
    if sigma_px is not None and inliers.sum() >= 4:
        loss = {"loss_type": "CAUCHY", "loss_scale": sigma_px}
        pose, _ = poselib.refine_absolute_pose(xy[inliers], points[inliers], pose, posed(camera), loss)
    return Resected(Pose(np.array(pose.R), np.array(pose.t)), inliers)


@dataclass(frozen=True, eq=False)
class Shared:
    """What a camera sees together with one whose pose is known."""

    cam_from_world: Pose
    """Of the known one."""
    camera: Camera
    """Of the known one."""
    xy_known: Floats
    """(M, 2), pixels of the known one."""
    xy: Floats
    """(M, 2), the same spots in the other."""


def resect_by_rays(shared: Sequence[Shared], camera: Camera, most_px: float, trials: Trials) -> Resected:
    """The pose with most agreement of pixels shared with known cameras; where the spots lie need not be known.

    The known cameras are one rig whose base gives the length of the way to this one, as far as it shows: rays that
    nearly meet say little of depth, but the epipolar lines of each known camera must meet the other's pixels.
    Inliers are in the order of `shared`, one after the other; there are none where a single known camera shares pixels,
    which leaves that length open, or none shares the five of a sample.
    """
    shared = [one for one in shared if len(one.xy)]
    if len(shared) < 2 or max(len(one.xy) for one in shared) < SAMPLE:
        return Resected(Pose(np.eye(3), np.zeros(3)), np.zeros(sum(len(one.xy) for one in shared), bool))
    rig = [_camera_pose(one.cam_from_world) for one in shared]
    options = {
        "max_epipolar_error": most_px,
        "max_iterations": trials.most,
        "min_iterations": trials.least,
        "success_prob": trials.sure,
        "seed": trials.seed,
    }
    matches = [_pairwise(k, one) for k, one in enumerate(shared)]
    lenses, alone = [posed(one.camera) for one in shared], [poselib.CameraPose()]
    pose, info = poselib.estimate_generalized_relative_pose(matches, rig, lenses, alone, [posed(camera)], options, {})
    inliers = np.concatenate([np.array(one, dtype=bool) for one in info["inliers"]])
    return Resected(Pose(np.array(pose.R), np.array(pose.t)), inliers)


def _camera_pose(cam_from_world: Pose) -> Any:
    pose = poselib.CameraPose()
    pose.R, pose.t = cam_from_world.rotation, cam_from_world.translation
    return pose


def _pairwise(number: int, shared: Shared) -> Any:
    matches = poselib.PairwiseMatches()
    matches.cam_id1, matches.cam_id2 = number, 0
    matches.x1, matches.x2 = shared.xy_known, shared.xy
    return matches
