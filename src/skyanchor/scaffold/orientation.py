"""Up and ground of an aerial model: from the georeference where there is one, else from cameras and points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from skyanchor.bounds import Coordinate, Degrees, Direction
from skyanchor.geometry import planes, rigid
from skyanchor.types import Floats, Plane, Pose, UpSource

Z = np.array([0.0, 0.0, 1.0])


@dataclass(frozen=True)
class OrientationConfig:
    """How up and ground are found."""

    up: Annotated[tuple[float, float, float], Direction()] | None = None
    """Up in the model's frame when you know it, e.g. 0 0 1; found from georeference or data otherwise."""
    ground_height: Coordinate | None = None
    """Ground level along up in the model's own coordinates, metres; found from the points otherwise."""
    snap_deg: Degrees = 3.0
    """When the up of the data is this near to the z axis, up is z, degrees: metric models nearly always have z up."""
    distrust_deg: Degrees = 20.0
    """When the data contradict the georeference's up by more, the data win, degrees (e.g. geocentric coordinates)."""
    level_deg: Degrees = 3.0
    """Median roll of the photos up to which their level axes are believed rather than the points, degrees."""


def find_up(
    cams_from_world: list[Pose], points: Floats, georef_up: Floats | None, config: OrientationConfig
) -> tuple[Floats, UpSource]:
    """Unit up vector (3,) and what it rests on."""
    if config.up is not None:
        return planes.unit(np.array(config.up)), UpSource.GIVEN
    up, source = up_from_data(cams_from_world, points, config)
    if georef_up is not None and planes.angle_deg(georef_up, up) <= config.distrust_deg:
        return georef_up, UpSource.GEOREFERENCE
    if planes.angle_deg(up, Z) <= config.snap_deg:
        return Z.copy(), UpSource.MODEL_AXIS
    return up, source


def up_from_data(cams_from_world: list[Pose], points: Floats, config: OrientationConfig) -> tuple[Floats, UpSource]:
    """Up from the level axes of photos that do not roll, else from the dominant plane that the cameras look at."""
    cameras = planes.up_from_cameras(np.stack([pose.rotation.T for pose in cams_from_world]))
    if cameras.determined and cameras.spread_deg <= config.level_deg:
        return cameras.up, UpSource.CAMERAS
    found = up_from_points(points, cameras.up)
    return (cameras.up, UpSource.CAMERAS) if found is None else (found, UpSource.POINTS)


def up_from_points(points: Floats, rough: Floats) -> Floats | None:
    """Normal of the plane that most places have as their lowest surface, within 60 degrees of a rough up; or None.

    What is lowest depends on up, so it is done again with the better one.
    """
    if len(points) < 20:
        return None
    up, within_deg = planes.unit(rough), 60.0
    for _ in range(4):
        lows = planes.low_points(points, up)
        reach = float(np.linalg.norm(np.ptp(np.percentile(lows, [5.0, 95.0], axis=0), axis=0)))
        fit = planes.fit_plane_robust(lows, reach / 200.0, up, within_deg, trials=2000)
        if fit is None:
            return None
        up, within_deg = fit.plane.normal, 30.0
    return up


def find_ground(cams_from_world: list[Pose], points: Floats, up: Floats, height: float | None) -> Plane | None:
    """The level plane of the ground with its normal up; None without points to tell and no `height` given."""
    if height is not None:
        return Plane(up, height)
    if len(points) == 0:
        return None
    ceiling = np.max(rigid.centres_in_world(cams_from_world) @ up)
    below = points[points @ up < ceiling]
    return planes.ground_plane(below if len(below) else points, up)
