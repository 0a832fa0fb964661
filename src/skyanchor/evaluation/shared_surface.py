"""What the street sees of the surface that aerial photos show: by true depth and true cameras alone, never by a mesh.

Whether a point counts is asked of the cameras and of the true surface between them and the point. A mesh that leaves a
place out, or has something before it, changes nothing. What stands before a point and none of the aerial photos shows
(the underside of a tree) is not known: its shade counts, and a mesh can only lose by that.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial import cKDTree

from skyanchor.bridges.surface import Surface, horizontal_axes, render_depth
from skyanchor.evaluation.true_depth import TrueDepth, normals_of
from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import inside, lift, pixel_centres, under
from skyanchor.types import Camera, Floats, Ints, Pose

HIDDEN_M = 0.5
"""A point this far behind the true surface is hidden."""
NEAREST_M = 0.1
DRAWN_PX = 640
"""Width of the pictures of the true surface by which it is asked what hides what."""
LEAST_SLANT = 0.25
"""Of a pixel's plane to its ray, 0..1: planes that are more along it are drawn no longer than this."""


def seen_from_the_street(
    truth: Sequence[TrueDepth], street: Sequence[tuple[Camera, Pose]], least_views: int, farthest_m: float
) -> Floats:
    """(N, 3), pixels of aerial truth as points that at least so many street cameras see.

    A camera sees a point that is in its picture, within `farthest_m`, with its face to the camera, and not more than
    `HIDDEN_M` behind what the true surface has there.
    """
    cloud = _near(truth, street, farthest_m)
    looks = np.zeros(len(cloud.points), np.int64)
    for camera, pose in street:
        smaller = cameras.scaled(cameras.undistorted(camera), min(camera.width, DRAWN_PX))
        looks[_seen_by(cloud, smaller, pose, farthest_m)] += 1
    return np.asarray(cloud.points[looks >= least_views], np.float64)


def _seen_by(cloud: Surface, camera: Camera, cam_from_world: Pose, farthest_m: float) -> Ints:
    """Rows of the points that one camera sees."""
    in_cam = cam_from_world(cloud.points.astype(np.float64))
    facing = ((cloud.normals @ cam_from_world.rotation.T) * in_cam).sum(axis=1) < 0.0
    rows = np.flatnonzero(facing & (in_cam[:, 2] > NEAREST_M) & (in_cam[:, 2] < farthest_m))
    xy = cameras.project(camera, in_cam[rows])
    shown = inside(camera, xy)
    rows, xy = rows[shown], xy[shown]
    drawn, _ = render_depth(cloud, camera, cam_from_world, NEAREST_M, farthest_m)
    surface = under(drawn, xy)
    return np.asarray(rows[(surface == 0.0) | (in_cam[rows, 2] < surface + HIDDEN_M)])


# --- the true surface as discs ------------------------------------------------------------------------------------


def _near(truth: Sequence[TrueDepth], street: Sequence[tuple[Camera, Pose]], farthest_m: float) -> Surface:
    """Pixels of the truth around the walk as discs, each as large as the place that it shows; all in one cell."""
    walk = cKDTree(np.array([rigid.centre_in_world(pose) for _, pose in street]))
    reach_m = farthest_m * max(_widest(camera) for camera, _ in street)
    parts = [_discs(one, walk, reach_m) for one in truth]
    points, normals, radii = (np.concatenate(part).astype(np.float32) for part in zip(*parts, strict=True))
    up = np.array([0.0, 0.0, 1.0])
    middle = points.mean(axis=0, dtype=np.float64) if len(points) else np.zeros(3)
    across = np.linalg.norm(points - middle, axis=1).max(keepdims=True, initial=0.0)
    ends = np.array([0, len(points)])
    return Surface(points, normals, radii, 0.0, horizontal_axes(up), up, 0.0, middle[None], across, ends)


def _widest(camera: Camera) -> float:
    """Length of the longest ray of a camera, at depth 1."""
    size = np.array([camera.width, camera.height], np.float64)
    corners = size * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    return float(np.linalg.norm(cameras.unproject(cameras.undistorted(camera), corners), axis=1).max())


def _discs(one: TrueDepth, walk: cKDTree, reach_m: float) -> tuple[Floats, Floats, Floats]:
    """Centre (N, 3), normal towards the camera (N, 3) and radius (N,) of its pixels near the walk."""
    rows, columns = np.nonzero(one.depth > 0)
    depth = one.depth[rows, columns].astype(np.float64)
    points = lift(one.camera, one.cam_from_world, pixel_centres(rows, columns), depth)
    near = np.flatnonzero(np.isfinite(walk.query(points, distance_upper_bound=reach_m)[0]))
    in_cam, normal = one.cam_from_world(points[near]), normals_of(one)[rows[near], columns[near]]
    slant = (normal * in_cam).sum(axis=1) / np.linalg.norm(in_cam, axis=1)
    normal = np.where((slant > 0.0)[:, None], -normal, normal) @ one.cam_from_world.rotation
    side = depth[near] / cameras.focal_px(one.camera) / np.maximum(np.abs(slant), LEAST_SLANT)
    return points[near], normal, np.sqrt(0.5) * side
