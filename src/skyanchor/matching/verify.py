"""Two-view verification: which correspondences agree with one relative pose of two calibrated cameras."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import cv2
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
    estimator: Literal["lo-ransac", "magsac"] = "lo-ransac"
    """How samples are scored: PoseLib's truncated cost with local optimisation, or the paper's MAGSAC (OpenCV)."""


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
    flat_a, flat_b = cameras.undistorted(camera_a), cameras.undistorted(camera_b)
    xy_a, xy_b = undistorted_pixels(camera_a, xy_a), undistorted_pixels(camera_b, xy_b)
    estimate = _magsac if config.estimator == "magsac" else _lo_ransac
    pose, inliers = estimate(xy_a, xy_b, flat_a, flat_b, config.threshold * sigma_px, config)
    count, ratio = int(inliers.sum()), float(inliers.mean())
    if count < config.least_inliers or ratio < config.least_ratio:
        figures = {"inliers": float(count), "ratio": ratio}
        return Refusal(Reason.NO_COMMON_GEOMETRY, f"{count} of {len(xy_a)} matches agree with one pose.", figures)
    return TwoView(inliers, pose)


def _lo_ransac(
    xy_a: Floats, xy_b: Floats, camera_a: Camera, camera_b: Camera, most_px: float, config: VerifyConfig
) -> tuple[Pose, Bools]:
    """(b_from_a, inliers) of pixels (N, 2) of cameras without distortion."""
    options = {
        "max_epipolar_error": most_px,
        "success_prob": config.confidence,
        "min_iterations": config.trials[0],
        "max_iterations": config.trials[1],
        "seed": config.seed,
    }
    pose, info = poselib.estimate_relative_pose(xy_a, xy_b, posed(camera_a), posed(camera_b), options, {})
    return Pose(np.array(pose.R), np.array(pose.t)), np.array(info["inliers"], dtype=bool)


def _magsac(
    xy_a: Floats, xy_b: Floats, camera_a: Camera, camera_b: Camera, most_px: float, config: VerifyConfig
) -> tuple[Pose, Bools]:
    """As `_lo_ransac`; samples are drawn on the plane z = 1, where a pixel is 1 / f, and the best pose is refined."""
    rays_a, rays_b = cameras.unproject(camera_a, xy_a)[:, :2], cameras.unproject(camera_b, xy_b)[:, :2]
    params = cv2.UsacParams()
    params.threshold = 2.0 * most_px / (cameras.focal_px(camera_a) + cameras.focal_px(camera_b))
    params.confidence, params.maxIterations = config.confidence, config.trials[1]
    params.score, params.loMethod = cv2.SCORE_METHOD_MAGSAC, cv2.LOCAL_OPTIM_SIGMA
    params.final_polisher, params.final_polisher_iterations = cv2.MAGSAC, 10
    params.randomGeneratorState = config.seed
    whole, none = np.eye(3), np.zeros(5)
    essential, mask = cv2.findEssentialMat(rays_a, rays_b, whole, whole, none, none, params)
    if essential is None or essential.shape != (3, 3) or mask is None:
        return Pose(np.eye(3), np.zeros(3)), np.zeros(len(xy_a), bool)
    inliers = np.asarray(mask).ravel() > 0
    _, rotation, translation, _ = cv2.recoverPose(essential, rays_a[inliers], rays_b[inliers], whole)
    rough = poselib.CameraPose()
    rough.R, rough.t = np.asarray(rotation, np.float64), np.asarray(translation, np.float64).ravel()
    given = (xy_a[inliers], xy_b[inliers], rough, posed(camera_a), posed(camera_b))
    pose, _ = poselib.refine_relative_pose(*given, {"loss_type": "CAUCHY", "loss_scale": most_px})
    return Pose(np.array(pose.R), np.array(pose.t)), inliers


def undistorted_pixels(camera: Camera, xy: Floats) -> Floats:
    """(N, 2), where `cameras.undistorted(camera)` would see what the camera sees at pixels xy (N, 2)."""
    if cameras.is_pinhole(camera):
        return np.asarray(xy, dtype=np.float64)
    return cameras.project(cameras.undistorted(camera), cameras.unproject(camera, xy))


def posed(camera: Camera) -> dict[str, Any]:
    """The camera as poselib takes it."""
    colmap.shared_camera(camera)  # raises early for an unknown model
    return {"model": camera.model, "width": camera.width, "height": camera.height, "params": list(camera.params)}
