"""Anchors held by what is known of them: in a last adjustment they give way as far as their covariances say.

Constant anchors bend the walk between them. What the flight says of a group is good to centimetres, and its frames are
off together; what the walk says of the steps between them is good to millimetres.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.linalg import block_diag

from skyanchor.geometry import cameras, rigid
from skyanchor.matching.verify import undistorted_pixels
from skyanchor.sfm.bundle import Bundle, HeldPoses, residual_lengths
from skyanchor.sfm.uncertainty import MEDIAN_2
from skyanchor.trajectory.config import HoldConfig
from skyanchor.types import AnchorPose, Floats, Ints

LEAST_SIGMA_PX = 0.05
"""Of observations, as found from their residuals, pixels."""


def held_poses(slots: Ints, anchors: Sequence[AnchorPose], config: HoldConfig) -> HeldPoses:
    """The anchors of one walk, cameras (A,) of a bundle, as sure as they say."""
    information = np.asarray(np.linalg.inv(joint_covariance(anchors, config)), dtype=np.float64)
    return HeldPoses(slots, tuple(anchor.cam_from_world for anchor in anchors), information)


def joint_covariance(anchors: Sequence[AnchorPose], config: HoldConfig) -> Floats:
    """(6 A, 6 A), of anchors of one walk: they turn and shift together, the less the farther apart they are.

    Q_i S Q_jᵀ exp(-d_ij / alike), Q_i from world axes to those of camera i, S the mean covariance in world axes, and of
    each a share of its own besides.
    """
    centres = rigid.centres_in_world([anchor.cam_from_world for anchor in anchors])
    apart = np.linalg.norm(centres[:, None] - centres, axis=2)
    turned = [np.kron(np.eye(2), anchor.cam_from_world.rotation) for anchor in anchors]
    spread = np.mean([Q.T @ anchor.covariance @ Q for Q, anchor in zip(turned, anchors, strict=True)], axis=0)
    together = np.kron((1.0 - config.alone) * np.exp(-apart / config.alike_m), spread)
    axes, own = block_diag(*turned), block_diag(*(config.alone * anchor.covariance for anchor in anchors))
    return np.asarray(axes @ together @ axes.T + own)


def with_found_sigma(bundle: Bundle) -> Bundle:
    """The bundle with what its observations are found to be good to, from their median residual."""
    square = float(np.median(residual_lengths(bundle) ** 2)) / MEDIAN_2
    return replace(bundle, sigma=bundle.sigma * max(np.sqrt(square), LEAST_SIGMA_PX))


def undistorted(bundle: Bundle) -> Bundle:
    """The same seen without distortion, by cameras of one lens."""
    lens = bundle.lenses[0]
    xy = undistorted_pixels(lens, bundle.xy)
    return replace(bundle, lenses=(cameras.undistorted(lens),) * len(bundle.lenses), xy=xy)
