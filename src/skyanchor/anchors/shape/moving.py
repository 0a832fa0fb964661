"""A second look at the pairs of a group that something moves through: the pose that holds most of the picture wins.

RANSAC takes the pose with the most matches and stops early where most agree with one. Far walls agree with many poses,
so one that follows a car may be found first though the street's own has as many matches, and more of the picture.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skyanchor.geometry import cameras, rigid
from skyanchor.matching import TwoView, VerifyConfig, verify
from skyanchor.types import Camera, Floats, Pose

MORE_TRIALS = 1000
"""Of RANSAC at a second look, at least."""
BESIDE = VerifyConfig(trials=(500, 500), least_inliers=15, least_ratio=0.1)
"""How a pose is looked for among what the first one leaves over; seed and threshold are those of the first."""
GRID = (16, 12)
"""Cells of a picture in which spread is counted, across and down."""


def widest(
    xy_a: Floats, xy_b: Floats, camera: Camera, sigma_px: float, found: TwoView, config: VerifyConfig
) -> TwoView:
    """Of the pose found, one by more trials and one among the matches left over, that with most cells of photo a.

    xy_a and xy_b (N, 2) are all matches of the pair, PINHOLE pixels; each pose is given all that agree with it.
    """
    rest = ~found.inliers
    longer = replace(config, trials=(MORE_TRIALS, max(MORE_TRIALS, config.trials[1])))
    beside = replace(BESIDE, threshold=config.threshold, seed=config.seed)
    looked = (
        found,
        verify(xy_a, xy_b, camera, camera, sigma_px, longer),
        verify(xy_a[rest], xy_b[rest], camera, camera, sigma_px, beside),
    )
    poses = [view.b_from_a for view in looked if isinstance(view, TwoView)]
    most_px = config.threshold * sigma_px
    views = [TwoView(sampson_px(xy_a, xy_b, camera, pose) < most_px, pose) for pose in poses]
    return max(views, key=lambda view: cells(xy_a[view.inliers], camera))


def sampson_px(xy_a: Floats, xy_b: Floats, camera: Camera, b_from_a: Pose) -> Floats:
    """(N,), |x_bᵀ E x_a| / √(‖(E x_a)₁₂‖² + ‖(Eᵀ x_b)₁₂‖²) of rays x with E = [t]ₓ R, times the focal length."""
    rays_a, rays_b = cameras.unproject(camera, xy_a), cameras.unproject(camera, xy_b)
    essential = rigid.skew(b_from_a.translation) @ b_from_a.rotation
    lines_b, lines_a = rays_a @ essential.T, rays_b @ essential
    slope = np.sqrt((lines_b[:, :2] ** 2).sum(axis=1) + (lines_a[:, :2] ** 2).sum(axis=1))
    off = np.abs((rays_b * lines_b).sum(axis=1)) / np.maximum(slope, 1e-12)
    return off * cameras.focal_px(camera)


def cells(xy: Floats, camera: Camera) -> int:
    """How many cells of the picture hold a pixel of xy (N, 2)."""
    at = np.floor(xy * GRID / np.array([camera.width, camera.height])).astype(np.int64)
    return len(np.unique(at, axis=0))
