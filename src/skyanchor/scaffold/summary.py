"""What was understood of an aerial model, in figures a person can check."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from skyanchor.geometry import cameras, planes, rigid
from skyanchor.scaffold import colmap_files, georeference
from skyanchor.scaffold.observed_patches import patches_alike
from skyanchor.types import Camera, Floats, Scaffold

SAMPLED = 200_000
"""Observations whose reprojection is looked at."""
FEW_VIEWS = 4
PLAUSIBLE_ALTITUDE_M = (8.0, 3000.0)
LARGE_ERROR_PX = 4.0
LEAST_ALIKE = 0.25
"""Share of the points around which two photos show the same: 0.9 of the model's own photos, less than 0.1 of others."""
COARSE_M = 0.15
"""Ground sample distance from which on the fronts of a town are hardly recognised (docs/scale.md)."""
STRAIGHT_DOWN_DEG = 15.0
"""Photos that look no farther aside show roofs and ground, and hardly a front."""


@dataclass(frozen=True)
class CameraSummary:
    """One camera of the model and how many photos it took."""

    model: str
    width: int
    """Pixels."""
    height: int
    """Pixels."""
    focal_px: float
    images: int


@dataclass(frozen=True)
class ScaffoldSummary:
    """The aerial model as understood."""

    model: str
    """Folder of the model's files."""
    images: int
    masks: int
    """Photos with a mask."""
    cameras: tuple[CameraSummary, ...]
    points: int
    observations: int
    track_length: float
    """Mean observations per point; 0 without tracks."""
    reprojection_px: float
    """Median over the observations, pixels; nan without tracks."""
    altitude_m: float
    """Median height of the cameras above the ground, metres."""
    ground_sample_m: float
    """Median size of a pixel on the ground, metres."""
    extent_m: tuple[float, float]
    """Size of the area with points (1..99 %), along the ground's two axes, metres."""
    up: tuple[float, float, float]
    up_from: str
    ground_height_m: float
    """Ground level along up in the local frame, metres."""
    offset_m: tuple[float, float, float]
    """x_original = x_local + offset."""
    crs: str | None
    splats: str | None
    warnings: tuple[str, ...]


def describe(scaffold: Scaffold) -> ScaffoldSummary:
    """Counts, cameras, scale, up, ground, and what looks wrong."""
    heights, sample = planes.heights(scaffold.ground, _centres(scaffold)), ground_sample_m(scaffold)
    errors = reprojection_errors(scaffold)
    error = float(np.median(errors)) if len(errors) else float("nan")
    observations = len(scaffold.tracks.point)
    seen = len(np.unique(scaffold.tracks.point))
    return ScaffoldSummary(
        str(scaffold.model_path or scaffold.root),
        len(scaffold.views),
        sum(view.mask_path is not None for view in scaffold.views),
        _cameras(scaffold),
        len(scaffold.points),
        observations,
        observations / seen if seen else 0.0,
        error,
        float(np.median(heights)),
        sample,
        _extent(scaffold),
        _triple(scaffold.up),
        scaffold.up_source.value,
        float(scaffold.ground.offset),
        _triple(scaffold.georef.offset),
        scaffold.georef.crs,
        None if scaffold.splats_path is None else str(scaffold.splats_path),
        _warnings(scaffold, heights, error, sample),
    )


def warnings_of(scaffold: Scaffold) -> tuple[str, ...]:
    """What looks wrong, alone."""
    errors = reprojection_errors(scaffold)
    error = float(np.median(errors)) if len(errors) else float("nan")
    heights = planes.heights(scaffold.ground, _centres(scaffold))
    return _warnings(scaffold, heights, error, ground_sample_m(scaffold))


def reprojection_errors(scaffold: Scaffold) -> Floats:
    """Pixels between observations and the projections of their points, for a regular sample of the observations."""
    tracks = scaffold.tracks
    step = max(1, len(tracks.point) // SAMPLED)
    point, image, xy = tracks.point[::step], tracks.image[::step], tracks.xy[::step]
    errors = [np.zeros(0)]
    for k in np.unique(image):
        view, own = scaffold.views[k], image == k
        in_cam = view.cam_from_world(scaffold.points[point[own]])
        error = np.linalg.norm(cameras.project(view.camera, in_cam) - xy[own], axis=1)
        errors.append(np.where(np.isfinite(error), error, np.inf))
    return np.concatenate(errors)


def ground_sample_m(scaffold: Scaffold) -> float:
    """Median over the views of distance to the ground at the image centre / focal length, metres per pixel.

    Views that look at the horizon or above are left out.
    """
    forward = np.stack([view.cam_from_world.rotation[2] for view in scaffold.views])
    falling = -(forward @ scaffold.ground.normal)
    height = planes.heights(scaffold.ground, _centres(scaffold))
    focal = np.array([cameras.focal_px(view.camera) for view in scaffold.views])
    looking = (falling > 0.1) & (height > 0)
    return float(np.median(height[looking] / falling[looking] / focal[looking])) if looking.any() else float("nan")


def _only_down(scaffold: Scaffold) -> bool:
    """Whether no photo looks aside."""
    forward = np.stack([view.cam_from_world.rotation[2] for view in scaffold.views])
    return bool(np.all(-(forward @ scaffold.ground.normal) > np.cos(np.radians(STRAIGHT_DOWN_DEG))))


def _centres(scaffold: Scaffold) -> Floats:
    return rigid.centres_in_world([view.cam_from_world for view in scaffold.views])


def _triple(vector: Floats) -> tuple[float, float, float]:
    x, y, z = (float(v) + 0.0 for v in vector)
    return x, y, z


def _cameras(scaffold: Scaffold) -> tuple[CameraSummary, ...]:
    counts: dict[Camera, int] = {}
    for view in scaffold.views:
        counts[view.camera] = counts.get(view.camera, 0) + 1
    return tuple(
        CameraSummary(camera.model, camera.width, camera.height, cameras.focal_px(camera), count)
        for camera, count in counts.items()
    )


def _extent(scaffold: Scaffold) -> tuple[float, float]:
    places = scaffold.points if len(scaffold.points) else _centres(scaffold)
    flat = places @ planes.basis(scaffold.ground.normal).T
    width, depth = np.ptp(np.percentile(flat, [1.0, 99.0], axis=0), axis=0)
    return float(width), float(depth)


# --- what looks wrong -------------------------------------------------------------------------------------------


def _warnings(scaffold: Scaffold, heights: Floats, error: float, sample: float) -> tuple[str, ...]:
    low, high = PLAUSIBLE_ALTITUDE_M
    altitude, alike = float(np.median(heights)), patches_alike(scaffold)
    checks = [
        (len(scaffold.views) < FEW_VIEWS, f"only {len(scaffold.views)} photos: at least {FEW_VIEWS} are needed"),
        (
            len(scaffold.tracks.point) == 0,
            "the model has no tracks: footprints come from the frusta, and no reprojection error can be told",
        ),
        (
            not low <= altitude <= high,
            f"the cameras are {altitude:.3g} m above the ground: is the model metric, and up right?",
        ),
        (
            bool(np.any(heights <= 0)),
            f"{int(np.sum(heights <= 0))} cameras lie below the ground plane: is up right? Give it with --up",
        ),
        (
            error > LARGE_ERROR_PX,
            f"points miss their pixels by {error:.1f} px: poses, points or image sizes do not belong together",
        ),
        (
            alike < LEAST_ALIKE,
            f"two photos show the same around only {alike:.0%} of the points that they share: "
            "are these the photos that the model was made from?",
        ),
        (
            sample > COARSE_M,
            f"a pixel covers {100 * sample:.0f} cm of the ground: fronts are so coarse that many a walk is refused",
        ),
        (
            _only_down(scaffold),
            "all photos look straight down: house fronts, by which a street is known, need oblique ones",
        ),
        (
            georeference.unplaced(scaffold),
            f"the coordinates are a map's, but of which system? For GPS and GeoJSON {georeference.advice(scaffold)}",
        ),
        (
            georeference.elsewhere(scaffold),
            f"the coordinates do not lie where {scaffold.georef.crs} is used: is that the right system?",
        ),
        *[(True, text) for text in _other_models(scaffold.model_path)],
    ]
    return tuple(text for wrong, text in checks if wrong)


def _other_models(folder: Path | None) -> list[str]:
    """A note when sparse/ holds more models than the one that was read."""
    if folder is None or folder.name != "0":
        return []
    others = [
        other.name
        for other in sorted(folder.parent.iterdir())
        if other != folder and other.is_dir() and colmap_files.suffix_of_model(other)
    ]
    return [f"{folder.parent} also holds the models {', '.join(others)}; {folder.name} was read"] if others else []
