"""Resection: the pose of one more camera from points that are known in the world (PnP)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import poselib

from skyanchor.matching.verify import posed
from skyanchor.types import Bools, Camera, Floats, Pose


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
