"""What the scene update works on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from skyanchor.changes import Region, united
from skyanchor.gaussians.splats import Splats
from skyanchor.gaussians.split import Split
from skyanchor.scene.earlier import EarlierViews
from skyanchor.stereo.storage import DepthFolder
from skyanchor.types import Cloud, DepthMap, Floats

AerialDepth: TypeAlias = tuple[DepthMap, ...] | DepthFolder
"""In memory, or read when asked for."""


@dataclass(frozen=True, eq=False)
class UpdateInputs:
    """What the update works on, all in the local frame."""

    aerial: Splats
    """Those that a view of the update may show."""
    aerial_views: Split
    """Aerial photos that see the walk."""
    ground_views: Split
    cloud: Cloud
    """Dense ground points; empty when there are none."""
    track_points: Floats
    """(M, 3), points of the trajectory's adjustment."""
    track_colors: np.ndarray
    """(M, 3), RGB."""
    depth: tuple[DepthMap, ...]
    """Depth of ground training views, for free space and sky."""
    up: Floats
    extent: float
    """Typical distance from camera to surface in the ground views, metres."""
    aerial_depth: AerialDepth = ()
    """Depth of aerial views: what they look through cannot hold a ground Gaussian."""
    owner: int = 1
    """Owner of the new Gaussians: the number of this ground sequence."""
    earlier: tuple[EarlierViews, ...] = ()
    """Photos of walks that the set holds already, in order: they guard it as the aerial ones do."""
    vanished: Region | None = None
    """Where surfaces of an earlier walk are free on the day of the walk, as photos of both bear out; None = no such."""
    appeared: Region | None = None
    """Where surfaces of the walk were free on the day of an earlier one."""
    doubted: Region | None = None
    """Where the walk looks through surfaces of the flight, by depth alone: it may be the depth that is wrong."""
    flight: Floats = field(default_factory=lambda: np.zeros((0, 3)))
    """(F, 3), where the aerial photos were taken, those that do not see the walk included, metres; none when all do."""

    @property
    def otherwise(self) -> Region | None:
        """Where the scene is another way today; None where it is not, as far as is known."""
        found = [region for region in (self.vanished, self.appeared) if region is not None and len(region)]
        return united(found) if found else None
