"""The figures of a run against its truth: what `skyanchor evaluate` writes to metrics.json and prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from skyanchor.errors import InputError
from skyanchor.evaluation.images import psnr, ssim
from skyanchor.evaluation.poses import NOTHING, PoseMetrics, pose_metrics
from skyanchor.evaluation.truth import matched, read_truth
from skyanchor.geometry import similarity
from skyanchor.photos import read_pixels
from skyanchor.run import records
from skyanchor.run.folder import RECIPE, timings
from skyanchor.scaffold.georeference import moved_by
from skyanchor.storage import codec, files
from skyanchor.types import Bytes, Floats, Pose

METRICS = "metrics.json"
TEST_VIEWS = "test"
"""4-scene/test/{aerial,ground}/{render,photo}/*.png: the held-out views, rendered and real."""


@dataclass(frozen=True)
class ImageMetrics:
    """Means over the held-out views; None where there are none."""

    psnr: float | None
    """dB."""
    ssim: float | None
    """11x11 Gaussian window of 1.5 px, zero padded, as in the Gaussian splatting papers."""
    lpips: float | None
    """VGG16, version 0.1, images scaled to -1..1; None where the weights are absent."""


@dataclass(frozen=True)
class RenderMetrics:
    """Aerial and ground views apart."""

    aerial: ImageMetrics
    ground: ImageMetrics


@dataclass(frozen=True)
class AlignedMetrics:
    """The same errors after the best similarity, for methods without a metric frame."""

    anchors: PoseMetrics
    trajectory: PoseMetrics


@dataclass(frozen=True)
class Metrics:
    """metrics.json."""

    anchors: PoseMetrics
    trajectory: PoseMetrics
    render: RenderMetrics
    seconds: dict[str, float]
    """Wall time per stage."""
    aligned: AlignedMetrics | None = None


@dataclass(frozen=True, eq=False)
class Estimate:
    """Poses that a stage found, and what it was asked for."""

    sequence: tuple[str, ...]
    """All frame names in order."""
    asked: tuple[str, ...]
    """Those that were to get a pose."""
    cams_from_world: dict[str, Pose]
    moved: Floats
    """(3,), what was subtracted from the coordinates in the user's files, metres."""


Perceptual: TypeAlias = Callable[[Bytes, Bytes], float]
"""LPIPS of a render and a photo."""


def evaluate_run(run: Path, truth: Path, align: bool = False, perceptual: Perceptual | None = None) -> Metrics:
    """The figures of a run folder against a COLMAP model; stages that are not there yet count nothing."""
    anchors, trajectory = _anchors(run), _trajectory(run)
    stages = [estimate for estimate in (anchors, trajectory) if estimate is not None]
    if not stages:
        raise InputError(run, "holds neither anchors nor a trajectory", "Run those stages first.")
    true = matched(read_truth(truth, stages[-1].moved), stages[-1].sequence)
    if not true:
        raise InputError(truth, "shares no image name with the run", "Give the model of the same sequence.")
    return Metrics(
        measured(anchors, true),
        measured(trajectory, true),
        RenderMetrics(*(render_metrics(views, perceptual) for views in held_out_views(run))),
        timings(run),
        AlignedMetrics(aligned(anchors, true), aligned(trajectory, true)) if align else None,
    )


def write_metrics(run: Path, metrics: Metrics) -> Path:
    """metrics.json in the run folder; the aligned figures only where they were asked for."""
    document = codec.to_json(metrics)
    assert isinstance(document, dict)
    shown = {key: value for key, value in document.items() if key != "aligned" or value is not None}
    files.write_bytes(run / METRICS, codec.dumps(shown).encode())
    return run / METRICS


# --- poses --------------------------------------------------------------------------------------------------------


def measured(estimate: Estimate | None, true: Mapping[str, Pose]) -> PoseMetrics:
    """Errors in the frame the estimate came in: no alignment."""
    if estimate is None:
        return NOTHING
    return pose_metrics(estimate.cams_from_world, true, estimate.sequence, estimate.asked)


def aligned(estimate: Estimate | None, true: Mapping[str, Pose]) -> PoseMetrics:
    """Errors after the similarity that fits the estimated to the true cameras best; scale needs two places."""
    if estimate is None:
        return NOTHING
    shared = [name for name in estimate.cams_from_world if name in true]
    if len(shared) < 2:
        return measured(replace(estimate, cams_from_world={}), true)
    true_from_ours = similarity.align_cameras(
        [estimate.cams_from_world[name] for name in shared], [true[name] for name in shared]
    )
    moved = {name: similarity.transform_camera(true_from_ours, pose) for name, pose in estimate.cams_from_world.items()}
    return measured(replace(estimate, cams_from_world=moved), true)


def _anchors(run: Path) -> Estimate | None:
    if not (run / records.ANCHORS / RECIPE).is_file():
        return None
    record = records.load_anchors(run)
    poses = records.anchor_poses(record)
    return Estimate(record.names, records.anchor_names(record), poses, moved_by(record.georef))


def _trajectory(run: Path) -> Estimate | None:
    if not (run / records.TRAJECTORY / RECIPE).is_file():
        return None
    record = records.load_trajectory(run)
    return Estimate(record.names, record.names, records.trajectory_poses(record), moved_by(record.georef))


# --- renders ------------------------------------------------------------------------------------------------------


def held_out_views(run: Path) -> tuple[Path, Path]:
    """Folders of the held-out aerial and ground views."""
    views = run / records.SCENE / TEST_VIEWS
    return views / "aerial", views / "ground"


def render_metrics(views: Path, perceptual: Perceptual | None = None, drawn: str = "render") -> ImageMetrics:
    """Means over the pairs DRAWN/NAME.png and photo/NAME.png; `drawn` may be "before", the scene without its update."""
    names = sorted(path.name for path in (views / drawn).glob("*.png"))
    if not names:
        return ImageMetrics(None, None, None)
    pairs = [(read_pixels(views / drawn / name), read_pixels(views / "photo" / name)) for name in names]
    return ImageMetrics(
        float(np.mean([psnr(*pair) for pair in pairs])),
        float(np.mean([ssim(*pair) for pair in pairs])),
        float(np.mean([perceptual(*pair) for pair in pairs])) if perceptual is not None else None,
    )
