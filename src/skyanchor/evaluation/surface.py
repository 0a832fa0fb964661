"""A mesh against the true surface: depth maps of known cameras say where the surface is, and where anybody looked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np
from scipy.spatial import cKDTree

from skyanchor.errors import InputError
from skyanchor.evaluation.shared_surface import HIDDEN_M, seen_from_the_street
from skyanchor.evaluation.true_depth import TrueDepth, normals_of, pixels_of, read_true_depths
from skyanchor.evaluation.truth import read_cameras
from skyanchor.geometry import cameras
from skyanchor.geometry.depth import lift, pixel_centres
from skyanchor.meshing.mesh import Mesh, area_m2, corners
from skyanchor.run.metrics import SurfaceMetrics
from skyanchor.run.results import Run
from skyanchor.scaffold.georeference import moved_by
from skyanchor.types import Bools, Camera, Floats, Ints, Pose

SAME_M, SAME_SHARE = 0.05, 0.01
"""Views agree on a point when their depths differ by less: metres, plus this share of the depth."""
SPACING_M = 0.015
"""Between the samples of a mesh by which its nearest point is found."""
MOST_SAMPLES = 4_000_000
SEARCHED = 4.0
"""Tolerances within which a mesh is looked for."""
JUDGED = 200_000
"""Points at which a mesh, and the truth, are looked at."""
BESIDE_M, NEAREST_DISCS = 2.0, 6
"""How far around a point of the mesh, and at how many of the nearest true pixels, its surface is looked for."""


def run_surface(run: Run, truth: Path, depth: Path) -> SurfaceMetrics:
    """The mesh of a run against true depth of its street frames, or of aerial photos, where both see."""
    mesh, farthest_m = run.mesh, run.mesh_record.farthest_m
    street = read_cameras(truth, moved_by(run.scaffold.georef))
    if any(PurePosixPath(name).stem == path.stem for path in depth.glob("*.png") for name in street):
        return surface_metrics(mesh, read_true_depths(depth, street), farthest_m=farthest_m)
    aerial = {view.name: (view.camera, view.cam_from_world) for view in run.scaffold.views}
    walked = {PurePosixPath(frame.name).stem for frame in run.sequence.frames}
    seen = [street[name] for name in sorted(street) if PurePosixPath(name).stem in walked]
    if not seen:
        raise InputError(truth, "holds no photo of the run's walk", "Give the true poses of this walk.")
    return against_aerial(mesh, read_true_depths(depth, aerial), seen, farthest_m=farthest_m)


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
    the truth, by pixels, that the mesh lies within the tolerance of. Errors are distances to the other's surface.
    """
    found = _accuracy(mesh, truth, tolerance_m, least_views, farthest_m, seed)
    return _with_completeness(found, _true_points(truth, least_views, farthest_m, seed), mesh, seed)


def against_aerial(
    mesh: Mesh,
    truth: Sequence[TrueDepth],
    street: Sequence[tuple[Camera, Pose]],
    tolerance_m: float = 0.05,
    least_views: int = 3,
    farthest_m: float = np.inf,
    seed: int = 0,
) -> SurfaceMetrics:
    """The same against the depth of aerial photos; one of them is enough to judge the mesh.

    Completeness is of the true points that at least `least_views` of the street cameras see within `farthest_m`, as the
    true surface and true cameras tell: what the mesh has, or has not, plays no part.
    """
    found = _accuracy(mesh, truth, tolerance_m, 1, np.inf, seed)
    true = seen_from_the_street(truth, street, least_views, farthest_m)
    return _with_completeness(found, true[np.random.default_rng(seed).permutation(len(true))[:JUDGED]], mesh, seed)


def _with_completeness(found: SurfaceMetrics, true: Floats, mesh: Mesh, seed: int) -> SurfaceMetrics:
    """The same with the share of true points near which the mesh is."""
    missed = _off_the_mesh(true, mesh, seed, SEARCHED * found.tolerance_m)
    return replace(found, completeness=_share(missed <= found.tolerance_m), true_points=len(true))


def _accuracy(
    mesh: Mesh, truth: Sequence[TrueDepth], tolerance_m: float, least_views: int, farthest_m: float, seed: int
) -> SurfaceMetrics:
    """The mesh against the truth, nothing of the truth against the mesh."""
    points = area_samples(mesh, JUDGED, seed)
    off, looks = _off_the_truth(points, truth, farthest_m)
    seen = looks >= least_views
    judged = np.minimum(off[seen], _off_the_pixels(points[seen], truth))
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


def _off_the_pixels(points: Floats, truth: Sequence[TrueDepth]) -> Floats:
    """(N,), distance to the nearest true pixel as a disc on its plane, metres; infinite beyond `BESIDE_M`.

    A point just beside a post or a crown is seen before what lies metres behind them, whose plane says nothing of it:
    its distance to the surface is that to the edge.
    """
    if not len(points):
        return np.zeros(0)
    parts = [_discs(one) for one in truth]
    centres, normals, radii = (np.concatenate([part[k] for part in parts]) for k in range(3))
    gap, near = cKDTree(centres).query(points, k=NEAREST_DISCS, distance_upper_bound=BESIDE_M)
    near = np.minimum(near, len(centres) - 1)
    plane = np.abs(((points[:, None] - centres[near]) * normals[near]).sum(axis=2))
    beside = np.sqrt(np.maximum(gap**2 - plane**2, 0.0)) - radii[near]
    off = np.where(np.isfinite(gap), np.hypot(plane, np.maximum(beside, 0.0)), np.inf)
    return np.asarray(off.min(axis=1))


def _discs(one: TrueDepth) -> tuple[Floats, Floats, Floats]:
    """Centres (N, 3) and normals (N, 3) in the world, and radii (N,), of the pixels of a true depth map.

    r = z / (√2 f): from the middle of a pixel that is met at a right angle to its corner.
    """
    rows, columns = np.nonzero(one.depth > 0)
    depth = one.depth[rows, columns].astype(np.float64)
    centres = lift(one.camera, one.cam_from_world, pixel_centres(rows, columns), depth)
    normals = normals_of(one)[rows, columns] @ one.cam_from_world.rotation
    return centres, normals, depth / (np.sqrt(2.0) * cameras.focal_px(one.camera))


def _off_the_truth(points: Floats, truth: Iterable[TrueDepth], farthest_m: float) -> tuple[Floats, Ints]:
    """(N,), distance to the nearest true plane that a camera sees there, metres, and how many cameras look there."""
    best, looks = np.full(len(points), np.inf), np.zeros(len(points), np.int64)
    for one in truth:
        in_cam = one.cam_from_world(points)
        rows, row, column = pixels_of(one, in_cam, farthest_m)
        surface = one.depth[row, column].astype(np.float64)
        seen = (surface > 0) & (in_cam[rows, 2] < surface + HIDDEN_M)
        rows, row, column, surface = rows[seen], row[seen], column[seen], surface[seen]
        looks[rows] += 1
        on_surface = lift(one.camera, Pose(np.eye(3), np.zeros(3)), pixel_centres(row, column), surface)
        off = np.abs(((in_cam[rows] - on_surface) * normals_of(one)[row, column]).sum(axis=1))
        best[rows] = np.minimum(best[rows], off)
    return best, looks


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
        rows, row, column = pixels_of(one, in_cam, farthest_m)
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
