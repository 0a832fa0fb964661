"""What is another way today than on the days before, and which pixels of their photos show it as it was.

A photo of an earlier day is right about its own day. Where the walk's depth contradicts that day, several views against
several, its pixels say nothing of today: they neither bring back what is gone nor take away what has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from skyanchor.ahead import made_ahead
from skyanchor.changes import ChangeConfig, Day, Region, flight_as_day, united, vanished_region, walk_as_day
from skyanchor.geometry import cameras, rigid
from skyanchor.photos import PhotoCache
from skyanchor.stereo.storage import DepthFolder
from skyanchor.types import Bools, Bytes, Camera, DepthMap, Floats32, Pose, View

DayDepth: TypeAlias = Sequence[DepthMap] | DepthFolder
"""Of one day: in memory, or read when asked for."""
REACH = 1
"""Cells beside those that contradict which go with them: a Gaussian is as wide as that."""
BEHIND_M = 0.12
"""How far behind what a photo shows a cell may lie and still be part of it, metres."""


@dataclass(frozen=True, eq=False)
class Since:
    """Where an earlier day and the walk contradict each other in depth."""

    gone: Region
    """Surfaces of that day that the walk looks through."""
    come: Region
    """Surfaces of the walk that that day looks through."""
    depth: DayDepth
    """Of that day."""


def since_flight(aerial: DayDepth, walk: Sequence[DepthMap], config: ChangeConfig) -> Since:
    """What vanished since the flight, as depth alone has it.

    What appeared since is not asked: lamps and fronts that the depth of the flight does not have would be all of it.
    """
    if not len(aerial):
        return Since(nowhere(config), nowhere(config), aerial)
    places = rigid.centres_in_world([one.cam_from_world for one in walk])
    gone = vanished_region([flight_as_day(aerial, places, config)], walk_as_day(walk, config), config)
    return Since(gone, nowhere(config), aerial)


def since_walk(
    earlier: DayDepth, walk: Sequence[DepthMap], then: Sequence[View], now: Sequence[View], config: ChangeConfig
) -> Since:
    """What vanished and what appeared since an earlier walk, borne out by the photos of both: views of the maps."""
    if not len(earlier):
        return Since(nowhere(config), nowhere(config), earlier)
    before, after = walk_day(earlier, then, config), walk_day(walk, now, config)
    come = vanished_region([after], before, config)  # back in time it is what has come that vanishes
    return Since(vanished_region([before], after, config), come, earlier)


def walk_day(maps: Iterable[DepthMap], views: Sequence[View], config: ChangeConfig) -> Day:
    """A walk as a day: its depth maps, and its photos at their sizes; without views depth alone speaks."""
    by_name = {view.name: view for view in views}
    photos = PhotoCache(64 << 20)

    def pixels(one: DepthMap) -> Bytes:
        view = by_name[one.name]
        return photos.photo(view.name, view.path, view.camera, one.depth.shape[1], view.mask_path)[0].pixels

    return walk_as_day(maps, config, list(made_ahead(pixels, maps)) if views else ())


def nowhere(config: ChangeConfig) -> Region:
    """No place at all."""
    return Region(np.zeros((0, 3), np.int64), config.voxel_m)


def otherwise(since: Since) -> Region:
    """All places where a day contradicts the walk."""
    return united([since.gone, since.come])


def showing(region: Region, camera: Camera, cam_from_world: Pose, depth: Floats32) -> Bools:
    """(H, W), pixels of a pinhole in which the region lies on or before what is seen there.

    `depth` (H, W) is of what is seen; where there is none, nothing hides the region.
    """
    nearest = nearest_cell(region, camera, cam_from_world)
    return np.asarray(np.isfinite(nearest) & ((depth <= 0) | (nearest <= depth + BEHIND_M)))


def nearest_cell(region: Region, camera: Camera, cam_from_world: Pose) -> Floats32:
    """(H, W), depth of the nearest cell of the region in every pixel of a pinhole, metres; inf where there is none."""
    from skyanchor.scene import kernels

    k = cameras.calibration(camera)
    pose = np.concatenate([cam_from_world.rotation.ravel(), cam_from_world.translation])
    half = (REACH + 0.5) * region.voxel_m
    pinhole = np.array([k[0, 0], k[1, 1], k[0, 2], k[1, 2]])
    return kernels.nearest((region.cells + 0.5) * region.voxel_m, pose, pinhole, half, camera.height, camera.width)
