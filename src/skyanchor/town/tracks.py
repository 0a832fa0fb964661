"""Sparse points as a survey delivers them: SIFT features matched between photos, triangulated at the known poses."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pycolmap
from scipy.sparse import csr_array

from skyanchor.errors import InputError, WriteError
from skyanchor.events import Listener, Progress
from skyanchor.geometry import cameras, colmap, rigid
from skyanchor.geometry.depth import inside
from skyanchor.matching.choices import Sift
from skyanchor.matching.features import Features
from skyanchor.matching.sift import SiftMatcher
from skyanchor.photos import read_pixels
from skyanchor.scaffold import colmap_files
from skyanchor.storage import files
from skyanchor.town.photographing import side_by_side
from skyanchor.town.routes import Shot, zoomed
from skyanchor.types import Camera, Floats, Ints, Photo, Pose


@dataclass(frozen=True)
class TrackConfig:
    """How sparse points are made."""

    sift: Sift = field(default_factory=lambda: Sift(keypoints=3000, ratio=0.8, contrast=0.01))
    """Features and matches."""
    neighbours: int = 12
    """Photos each photo is matched with."""
    epipolar_px: float = 1.5
    """Sampson error at the known poses that a match may have."""
    reprojection_px: float = 1.5
    """Reprojection error that an observation may have."""
    min_angle_deg: float = 2.0
    """Least triangulation angle."""


def triangulated(
    folder: Path, camera: Camera, shots: list[Shot], config: TrackConfig, listen: Listener
) -> pycolmap.Reconstruction:
    """The COLMAP model of the photos in `folder`: exact poses, points with tracks, colours."""
    matcher = SiftMatcher(config.sift)
    features: list[Features] = []
    for one in side_by_side(lambda shot: matcher.extract(Photo(shot.name, read_pixels(folder / shot.name))), shots):
        features.append(one)
        listen(Progress("town", "aerial features", len(features), len(shots)))
    model = empty_model(camera, shots, [f.xy for f in features])
    graph = pycolmap.CorrespondenceGraph()
    for k in range(len(shots)):
        graph.add_image(k + 1, len(features[k].xy))
    pairs = _pairs(camera, shots, config.neighbours)

    def matched(pair: tuple[int, int]) -> Ints:
        a, b = (features[k] for k in pair)
        return _true(matcher.pairs(a, b), a, b, camera, (shots[pair[0]], shots[pair[1]]), config.epipolar_px)

    for n, ((a, b), found) in enumerate(zip(pairs, side_by_side(matched, pairs), strict=True)):
        if len(found):
            geometry = pycolmap.TwoViewGeometry(inlier_matches=found.astype(np.uint32))
            graph.add_two_view_geometry(a + 1, b + 1, geometry)
        listen(Progress("town", "aerial matches", n + 1, len(pairs)))
    graph.finalize()
    _triangulate(model, graph, config)
    model.extract_colors_for_all_images(folder, 1)
    return model


def empty_model(camera: Camera, shots: list[Shot], xy: list[Floats] | None = None) -> pycolmap.Reconstruction:
    """A COLMAP model of cameras and poses, with keypoints where given."""
    model = pycolmap.Reconstruction()
    numbers = {zoom: k + 1 for k, zoom in enumerate(dict.fromkeys(shot.zoom for shot in shots))}
    for zoom, number in numbers.items():
        model.add_camera_with_trivial_rig(colmap.to_camera(zoomed(camera, zoom), number))
    for k, shot in enumerate(shots):
        points = np.zeros((0, 2)) if xy is None else xy[k]
        image = pycolmap.Image(name=shot.name, keypoints=points, camera_id=numbers[shot.zoom], image_id=k + 1)
        model.add_image_with_trivial_frame(image, colmap.to_rigid3d(shot.cam_from_world))
    return model


def write_model(folder: Path, model: pycolmap.Reconstruction) -> None:
    """The model's files, read once more: COLMAP does not say when a disk is full."""
    model.write_binary(files.make_folder(folder))
    try:
        colmap_files.read_model(folder)
    except InputError as error:
        advice = "Make room there; then the same command goes on."
        raise WriteError(f"{folder}: cannot be written whole. {advice}") from error


def _pairs(camera: Camera, shots: list[Shot], neighbours: int) -> list[tuple[int, int]]:
    """Pairs of photos that share ground and look in similar directions, each with its best neighbours."""
    seen = _footprints(camera, shots)
    axes = np.array([shot.cam_from_world.rotation[2] for shot in shots])
    shared, own = (seen @ seen.T).toarray(), seen.sum(axis=1)
    either = np.maximum(own[:, None] + own[None] - shared, 1.0)
    score = shared / either * np.maximum(axes @ axes.T - 0.6, 0.0)  # beyond 53 degrees SIFT finds nothing
    np.fill_diagonal(score, 0.0)
    best = np.argsort(-score, axis=1, kind="stable")[:, :neighbours]
    chosen = {(min(a, b), max(a, b)) for a in range(len(shots)) for b in best[a].tolist() if score[a, b] > 0.02}
    return sorted(chosen)


def _footprints(camera: Camera, shots: list[Shot]) -> csr_array:
    """(photos, cells), sparse: 1 for the cells of a ground grid that a photo sees, roofs and walls aside."""
    centres = rigid.centres_in_world([shot.cam_from_world for shot in shots])
    low, high = centres[:, :2].min(axis=0) - 60.0, centres[:, :2].max(axis=0) + 60.0
    x, y = np.meshgrid(np.arange(low[0], high[0], 2.5), np.arange(low[1], high[1], 2.5))
    cells = np.stack([x.ravel(), y.ravel(), np.full(x.size, 3.0)], axis=1)

    def seen_by(shot: Shot) -> Ints:
        return np.flatnonzero(inside(camera, cameras.project(camera, shot.cam_from_world(cells))))

    seen = list(side_by_side(seen_by, shots))
    starts = np.cumsum([0, *map(len, seen)])
    return csr_array((np.ones(starts[-1]), np.concatenate(seen), starts), shape=(len(shots), len(cells)))


def _true(pairs: Ints, a: Features, b: Features, camera: Camera, shots: tuple[Shot, Shot], limit_px: float) -> Ints:
    """The pairs (M, 2) of keypoints that obey the epipolar geometry of the known poses."""
    poses = (shots[0].cam_from_world, shots[1].cam_from_world)
    return pairs[_sampson(a.xy[pairs[:, 0]], b.xy[pairs[:, 1]], camera, *poses) < limit_px]


def _sampson(xy_a: Floats, xy_b: Floats, camera: Camera, a_from_world: Pose, b_from_world: Pose) -> Floats:
    """Pixels: |b'Fa| / |first two of Fa and F'b|, F = K^-T [t]x R K^-1 of the known relative pose."""
    b_from_a = b_from_world @ a_from_world.inverse
    inverse = np.linalg.inv(cameras.calibration(camera))
    f = inverse.T @ rigid.skew(b_from_a.translation) @ b_from_a.rotation @ inverse
    a, b = (np.column_stack([xy, np.ones(len(xy))]) for xy in (xy_a, xy_b))
    fa, fb = a @ f.T, b @ f
    scale = np.sqrt((fa[:, :2] ** 2).sum(1) + (fb[:, :2] ** 2).sum(1))
    return np.abs((b * fa).sum(1)) / np.maximum(scale, 1e-12)


def _triangulate(model: pycolmap.Reconstruction, graph: pycolmap.CorrespondenceGraph, config: TrackConfig) -> None:
    options = pycolmap.IncrementalTriangulatorOptions(random_seed=0, min_angle=config.min_angle_deg)
    observations = pycolmap.ObservationManager(model, graph)
    triangulator = pycolmap.IncrementalTriangulator(graph, model, observations)
    for image_id in sorted(model.images):
        triangulator.triangulate_image(options, image_id)
    triangulator.complete_all_tracks(options)
    triangulator.merge_all_tracks(options)
    for point_id in [k for k, point in model.points3D.items() if _repeats(point.track)]:
        observations.delete_point3D(point_id)
    observations.filter_all_points3D(config.reprojection_px, config.min_angle_deg)
    model.update_point_3d_errors()


def _repeats(track: pycolmap.Track) -> bool:
    """Whether a track holds two keypoints of one photo."""
    photos = [element.image_id for element in track.elements]
    return len(set(photos)) < len(photos)
