"""A mesh against the true surface: depth maps of known cameras say where the surface is, and where anybody looked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import numpy as np
from scipy.spatial import cKDTree

from skyanchor.errors import InputError
from skyanchor.evaluation.truth import read_cameras
from skyanchor.geometry import cameras
from skyanchor.geometry.depth import inside, lift, pixel_centres
from skyanchor.meshing.mesh import Mesh, area_m2, corners
from skyanchor.run.metrics import SurfaceMetrics
from skyanchor.run.results import Run
from skyanchor.scaffold.georeference import moved_by
from skyanchor.sequence import depth_files
from skyanchor.types import Bools, Camera, Floats, Floats32, Ints, Pose

ADVICE = "Give PNGs of one channel and 16 bits, named like the photos."
UNIT_M = 0.002
"""Of the 16-bit PNG, along the optical axis; 0 says nothing."""
HIDDEN_M = 0.5
"""A point this far behind the true surface was not looked at."""
SAME_M, SAME_SHARE = 0.05, 0.01
"""Views agree on a point when their depths differ by less: metres, plus this share of the depth."""
SPACING_M = 0.015
"""Between the samples of a mesh by which its nearest point is found."""
MOST_SAMPLES = 4_000_000
SEARCHED = 4.0
"""Tolerances within which a mesh is looked for."""
JUDGED = 200_000
"""Points at which a mesh, and the truth, are looked at."""


@dataclass(frozen=True, eq=False)
class TrueDepth:
    """Exact depth of one camera."""

    camera: Camera
    cam_from_world: Pose
    depth: Floats32
    """(H, W), metres along the optical axis, 0 where nothing is known."""


def read_true_depths(folder: Path, seen_by: Mapping[str, tuple[Camera, Pose]]) -> list[TrueDepth]:
    """The PNGs of a folder, by the file name of the camera that saw them; InputError for one that is none of its."""
    stems = {PurePosixPath(name).stem: value for name, value in seen_by.items()}
    found = []
    for path in sorted(folder.glob("*.png")):
        if path.stem in stems:
            found.append(_true_depth(path, *stems[path.stem]))
    if not found:
        raise InputError(folder, "holds no depth of a camera of the run", ADVICE)
    return found


def _true_depth(path: Path, camera: Camera, pose: Pose) -> TrueDepth:
    """The depth in a PNG of the picture that a camera took, at any scale."""
    values = depth_files.png_values(path)
    seen = cameras.undistorted(cameras.scaled(camera, values.shape[1]))
    if values.dtype != np.uint16:
        raise InputError(path, f"has {8 * values.dtype.itemsize} bits a pixel", ADVICE)
    if abs(values.shape[0] - seen.height) > 1:
        problem = f"is {values.shape[1]}x{values.shape[0]}, its camera {camera.width}x{camera.height}"
        raise InputError(path, problem, "Depth of the whole picture is needed, at any scale.")
    return TrueDepth(seen, pose, values.astype(np.float32) * np.float32(UNIT_M))


def run_surface(run: Run, truth: Path, depth: Path) -> SurfaceMetrics:
    """The mesh of a run against true depth of its street frames, or of aerial photos: then without completeness.

    Nobody knows which of the surfaces that a flight sees the street sees too; one aerial camera is enough to judge.
    """
    mesh, farthest_m = run.mesh, run.mesh_record.farthest_m
    street = read_cameras(truth, moved_by(run.scaffold.georef))
    if any(PurePosixPath(name).stem == path.stem for path in depth.glob("*.png") for name in street):
        return surface_metrics(mesh, read_true_depths(depth, street), farthest_m=farthest_m)
    aerial = {view.name: (view.camera, view.cam_from_world) for view in run.scaffold.views}
    return accuracy_alone(mesh, read_true_depths(depth, aerial), least_views=1)


def surface_metrics(
    mesh: Mesh,
    truth: Sequence[TrueDepth],
    tolerance_m: float = 0.05,
    least_views: int = 3,
    farthest_m: float = np.inf,
    seed: int = 0,
) -> SurfaceMetrics:
    """Accuracy, completeness and mean error where at least `least_views` of the true cameras look, within `farthest_m`.

    Accuracy is the share of the mesh, by area, that lies within the tolerance of the truth; completeness the share of
    the truth, by pixels, that the mesh lies within the tolerance of. Errors are distances to the other's plane.
    """
    found = accuracy_alone(mesh, truth, tolerance_m, least_views, farthest_m, seed)
    true = _true_points(truth, least_views, farthest_m, seed)
    missed = _off_the_mesh(true, mesh, seed, SEARCHED * tolerance_m)
    return replace(found, completeness=_share(missed <= tolerance_m), true_points=len(true))


def accuracy_alone(
    mesh: Mesh,
    truth: Sequence[TrueDepth],
    tolerance_m: float = 0.05,
    least_views: int = 3,
    farthest_m: float = np.inf,
    seed: int = 0,
) -> SurfaceMetrics:
    """The same without completeness."""
    off, looks = _off_the_truth(area_samples(mesh, JUDGED, seed), truth, farthest_m)
    judged = off[looks >= least_views]
    mean, median = (float(value(judged)) if len(judged) else None for value in (np.mean, np.median))
    return SurfaceMetrics(tolerance_m, _share(judged <= tolerance_m), None, mean, median, len(judged), 0)


def _share(good: Bools) -> float | None:
    return float(good.mean()) if len(good) else None


# --- mesh against truth -------------------------------------------------------------------------------------------


def area_samples(mesh: Mesh, count: int, seed: int) -> Floats:
    """(count, 3), points of the mesh, equally likely everywhere on it."""
    if not len(mesh):
        return np.zeros((0, 3))
    rng = np.random.default_rng(seed)
    return _in_triangles(mesh, rng.choice(len(mesh), count, p=_areas(mesh) / _areas(mesh).sum()), rng)


def _areas(mesh: Mesh) -> Floats:
    a, b, c = corners(mesh).transpose(1, 0, 2)
    return np.linalg.norm(np.cross(b - a, c - a), axis=1)


def _in_triangles(mesh: Mesh, rows: Ints, rng: np.random.Generator) -> Floats:
    """A random point of each triangle: folded back where it falls beyond the diagonal."""
    a, b, c = corners(mesh)[rows].transpose(1, 0, 2)
    u, v = rng.uniform(size=(2, len(rows), 1))
    beyond = u + v > 1.0
    u, v = np.where(beyond, 1.0 - u, u), np.where(beyond, 1.0 - v, v)
    return a + u * (b - a) + v * (c - a)


def _off_the_truth(points: Floats, truth: Iterable[TrueDepth], farthest_m: float) -> tuple[Floats, Ints]:
    """(N,), distance to the nearest true plane that a camera sees there, metres, and how many cameras look there."""
    best, looks = np.full(len(points), np.inf), np.zeros(len(points), np.int64)
    for one in truth:
        in_cam = one.cam_from_world(points)
        rows, row, column = _pixels(one, in_cam, farthest_m)
        surface = one.depth[row, column].astype(np.float64)
        seen = (surface > 0) & (in_cam[rows, 2] < surface + HIDDEN_M)
        rows, row, column, surface = rows[seen], row[seen], column[seen], surface[seen]
        looks[rows] += 1
        on_surface = lift(one.camera, Pose(np.eye(3), np.zeros(3)), pixel_centres(row, column), surface)
        off = np.abs(((in_cam[rows] - on_surface) * _normals(one)[row, column]).sum(axis=1))
        best[rows] = np.minimum(best[rows], off)
    return best, looks


def _pixels(one: TrueDepth, in_cam: Floats, farthest_m: float) -> tuple[Ints, Ints, Ints]:
    """Rows of the points in the picture, and the pixels that they fall on."""
    rows = np.flatnonzero((in_cam[:, 2] > 0.1) & (in_cam[:, 2] < farthest_m))
    xy = cameras.project(one.camera, in_cam[rows])
    good = inside(one.camera, xy)
    column, row = xy[good].astype(np.int64).T
    return rows[good], np.minimum(row, one.depth.shape[0] - 1), np.minimum(column, one.depth.shape[1] - 1)


def _normals(one: TrueDepth) -> Floats:
    """(H, W, 3), unit normals of the true surface in camera axes, from the neighbours that are nearer in depth."""
    height, width = one.depth.shape
    rows, columns = (axis.ravel() for axis in np.mgrid[:height, :width])
    here = Pose(np.eye(3), np.zeros(3))
    points = lift(one.camera, here, pixel_centres(rows, columns), one.depth.ravel().astype(np.float64))
    points = points.reshape(height, width, 3)
    right, down = _smaller_step(points, 1), _smaller_step(points, 0)
    normal = np.cross(right, down)
    return np.asarray(normal / np.maximum(np.linalg.norm(normal, axis=-1, keepdims=True), 1e-12))


def _smaller_step(points: Floats, axis: int) -> Floats:
    """To the next or from the last pixel along an axis, whichever is less in depth: edges do not bend normals."""
    ahead = np.roll(points, -1, axis) - points
    behind = points - np.roll(points, 1, axis)
    first, last = (np.take(np.arange(points.shape[axis]), [k]) for k in (0, -1))
    place = np.arange(points.shape[axis]).reshape([-1 if k == axis else 1 for k in range(2)])
    forward = (np.abs(ahead[..., 2]) <= np.abs(behind[..., 2])) | (place == first)
    return np.where((forward & (place != last))[..., None], ahead, behind)


# --- truth against mesh -------------------------------------------------------------------------------------------


def _true_points(truth: Sequence[TrueDepth], least_views: int, farthest_m: float, seed: int) -> Floats:
    """(N, 3), pixels of the truth as points that enough cameras agree on."""
    rng = np.random.default_rng(seed)
    found = []
    for one in truth:
        rows, columns = np.nonzero((one.depth > 0) & (one.depth < farthest_m))
        some = rng.permutation(len(rows))[: JUDGED // len(truth)]
        depth = one.depth[rows[some], columns[some]].astype(np.float64)
        found.append(lift(one.camera, one.cam_from_world, pixel_centres(rows[some], columns[some]), depth))
    points = np.concatenate(found)
    looks = np.zeros(len(points), np.int64)
    for one in truth:
        in_cam = one.cam_from_world(points)
        rows, row, column = _pixels(one, in_cam, farthest_m)
        gap = np.abs(one.depth[row, column] - in_cam[rows, 2])
        looks[rows] += gap < SAME_M + SAME_SHARE * in_cam[rows, 2]
    return np.asarray(points[looks >= least_views])


def _off_the_mesh(points: Floats, mesh: Mesh, seed: int, within_m: float) -> Floats:
    """(N,), distance to the mesh, metres: to the plane of the nearest sample's triangle, unless that is elsewhere.

    Infinite where the mesh is farther than `within_m`.
    """
    if not len(mesh):
        return np.full(len(points), np.inf)
    count = int(np.clip(area_m2(mesh) / SPACING_M**2, 1000, MOST_SAMPLES))
    rng = np.random.default_rng(seed)
    rows = rng.choice(len(mesh), count, p=_areas(mesh) / _areas(mesh).sum())
    samples = _in_triangles(mesh, rows, rng)
    a, b, c = corners(mesh)[rows].transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-20)
    gap, nearest = cKDTree(samples).query(points, distance_upper_bound=within_m)
    nearest = np.minimum(nearest, len(samples) - 1)
    plane = np.abs(((points - samples[nearest]) * normal[nearest]).sum(axis=1))
    beside = np.sqrt(np.maximum(gap**2 - plane**2, 0.0))
    return np.asarray(np.where(np.isfinite(gap) & (beside < 3.0 * SPACING_M), plane, gap))
