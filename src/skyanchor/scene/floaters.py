"""Aerial Gaussians that hang in the street: found by free space that ground views have verified, hidden reversibly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from skyanchor.ahead import made_ahead
from skyanchor.bounds import Few, NotNegative, NotNegativeOrAny, Share
from skyanchor.geometry import cameras
from skyanchor.types import Bools, DepthMap, Floats32, Ints


@dataclass(frozen=True)
class FloaterConfig:
    """When an aerial Gaussian counts as hanging in free space."""

    margin: NotNegative = 0.3
    """How far in front of the measured surface it must lie, metres ..."""
    relative_margin: NotNegative = 0.08
    """... plus this fraction of the surface's depth."""
    least_views: Few = 3
    """Ground views that must look through it."""
    least_share: Share = 0.8
    """Share of the views with an opinion that must look through it."""
    least_confidence: Share = 0.5
    """Depth below this confidence, and completed depth, gives no opinion, 0..1."""
    most_aerial_loss_db: NotNegativeOrAny = 0.05
    """PSNR of guarded views that hiding may cost, dB: of what is found, as much is hidden as that allows. `in_the_air`
    hides nothing, so there it is not asked."""


@dataclass(frozen=True, eq=False)
class Opinions:
    """What the ground views say about each Gaussian."""

    through: Ints
    """(N,), views that see a surface well behind it."""
    at: Ints
    """(N,), views that see a surface where it is."""


def free_space_opinions(means: Floats32, ground_depth: Iterable[DepthMap], config: FloaterConfig) -> Opinions:
    """Votes of all ground views on the Gaussians at `means` (N, 3)."""
    through = np.zeros(len(means), np.int64)
    at = np.zeros(len(means), np.int64)
    for rows, z, surface in made_ahead(lambda view: seen_surface(means, view, config.least_confidence), ground_depth):
        margin = config.margin + config.relative_margin * surface
        through[rows] += z < surface - margin
        at[rows] += np.abs(z - surface) <= margin
    return Opinions(through, at)


def seen_surface(means: Floats32, view: DepthMap, least_confidence: float) -> tuple[Ints, Floats32, Floats32]:
    """Rows of the means (N, 3) that fall on measured depth, their own depth, and the depth of the surface there."""
    from skyanchor.scene import kernels

    known = (view.depth > 0) & (view.confidence >= least_confidence) & ~view.completed
    k = cameras.calibration(view.camera)
    pinhole = np.array([k[0, 0], k[1, 1], k[0, 2], k[1, 2]])
    pose = np.concatenate([view.cam_from_world.rotation.ravel(), view.cam_from_world.translation])
    own, surface = kernels.met(np.ascontiguousarray(means), pose, pinhole, view.depth, known)
    rows = np.flatnonzero(surface > 0)
    return rows, own[rows], surface[rows]


def floaters(opinions: Opinions, config: FloaterConfig) -> Bools:
    """(N,), True for the Gaussians that enough views look through."""
    asked = opinions.through + opinions.at
    share = opinions.through / np.maximum(asked, 1)
    return np.asarray((opinions.through >= config.least_views) & (share >= config.least_share), np.bool_)
