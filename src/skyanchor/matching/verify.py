"""Two-view verification: which correspondences agree with one relative pose of two calibrated cameras."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import poselib

from skyanchor.bounds import Count, CountOrNone, Positive, Rising, Seed, Share
from skyanchor.geometry import cameras, colmap
from skyanchor.types import Bools, Camera, Floats, Pose, Reason, Refusal


@dataclass(frozen=True)
class VerifyConfig:
    """When two photos are believed to see the same place."""

    threshold: Positive = 2.0
    """Largest epipolar (Sampson) error, in units of the matcher's sigma."""
    confidence: Share = 0.9999
    """Probability that RANSAC has met an outlier-free sample."""
    trials: Annotated[tuple[Count, Count], Rising()] = (200, 20000)
    """Least and most RANSAC trials."""
    least_inliers: CountOrNone = 30
    """Inliers, at least."""
    least_ratio: Share = 0.30
    """Inliers over correspondences, at least."""
    seed: Seed = 0
    """Of RANSAC."""


@dataclass(frozen=True, eq=False)
class TwoView:
    """A verified pair of photos."""

    inliers: Bools
    """(N,), which correspondences agree."""
    b_from_a: Pose
    """Relative pose, translation of unit length (arbitrary when the cameras did not move)."""


def verify(
    xy_a: Floats, xy_b: Floats, camera_a: Camera, camera_b: Camera, sigma_px: float, config: VerifyConfig
) -> TwoView | Refusal:
    """The relative pose and its inliers among correspondences (N, 2), or why there is none."""
    if len(xy_a) < max(5, config.least_inliers):
        return Refusal(Reason.TOO_FEW_MATCHES, f"{len(xy_a)} matches, {config.least_inliers} are needed.")
    options = {
        "max_epipolar_error": config.threshold * sigma_px,
        "success_prob": config.confidence,
        "min_iterations": config.trials[0],
        "max_iterations": config.trials[1],
        "seed": config.seed,
    }
    flat_a, flat_b = cameras.undistorted(camera_a), cameras.undistorted(camera_b)
    xy_a, xy_b = undistorted_pixels(camera_a, xy_a), undistorted_pixels(camera_b, xy_b)
    pose, info = poselib.estimate_relative_pose(xy_a, xy_b, posed(flat_a), posed(flat_b), options, {})
    inliers = np.array(info["inliers"], dtype=bool)
    count, ratio = int(inliers.sum()), float(inliers.mean())
    if count < config.least_inliers or ratio < config.least_ratio:
        figures = {"inliers": float(count), "ratio": ratio}
        return Refusal(Reason.NO_COMMON_GEOMETRY, f"{count} of {len(xy_a)} matches agree with one pose.", figures)
    return TwoView(inliers, Pose(np.array(pose.R), np.array(pose.t)))


def undistorted_pixels(camera: Camera, xy: Floats) -> Floats:
    """(N, 2), where `cameras.undistorted(camera)` would see what the camera sees at pixels xy (N, 2)."""
    if cameras.is_pinhole(camera):
        return np.asarray(xy, dtype=np.float64)
    return cameras.project(cameras.undistorted(camera), cameras.unproject(camera, xy))


def posed(camera: Camera) -> dict[str, Any]:
    """The camera as poselib takes it."""
    colmap.shared_camera(camera)  # raises early for an unknown model
    return {"model": camera.model, "width": camera.width, "height": camera.height, "params": list(camera.params)}
