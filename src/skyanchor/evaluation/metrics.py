"""The figures of a run against its truth: what `skyanchor evaluate` writes to metrics.json and prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from skyanchor.errors import InputError
from skyanchor.evaluation.images import psnr, ssim
from skyanchor.evaluation.poses import NOTHING, PoseErrors, pose_errors, pose_metrics
from skyanchor.evaluation.truth import matched, read_truth
from skyanchor.events import ANCHORS, TRAJECTORY
from skyanchor.geometry import rigid, similarity
from skyanchor.photos import read_pixels
from skyanchor.run import records
from skyanchor.run.metrics import (
    METRICS_FILE,
    AlignedMetrics,
    ImageMetrics,
    Metrics,
    PoseMetrics,
    RenderMetrics,
    StatedMetrics,
)
from skyanchor.run.results import Run
from skyanchor.scaffold.georeference import moved_by
from skyanchor.sfm.uncertainty import position_sigma_m, radius_95_m
from skyanchor.storage import codec, files
from skyanchor.types import Bytes, Floats, Pose


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


def evaluate_run(run: Run, truth: Path, align: bool = False, perceptual: Perceptual | None = None) -> Metrics:
    """The figures of a run against a COLMAP model; only finished stages count."""
    anchors, trajectory = _anchors(run), _trajectory(run)
    true = true_poses(run, truth)
    return Metrics(
        measured(anchors, true),
        measured(trajectory, true),
        RenderMetrics(*(render_metrics(views, perceptual) for views in held_out_views(run))),
        run.seconds,
        AlignedMetrics(aligned(anchors, true), aligned(trajectory, true)) if align else None,
        run.memory,
        stated=stated(run, true),
    )


def run_errors(run: Run, truth: Path) -> PoseErrors:
    """How far each frame of the last finished stage is from a COLMAP model; nothing is aligned."""
    return pose_errors(_last(run).cams_from_world, true_poses(run, truth))


def true_poses(run: Run, truth: Path) -> dict[str, Pose]:
    """cam_from_world of a COLMAP model by the run's frame names, in the run's local frame."""
    last = _last(run)
    if run.root.resolve() in (truth.resolve(), *truth.resolve().parents):
        raise InputError(truth, "lies in the run, which would be compared with itself", "Give the true poses.")
    true = matched(read_truth(truth, last.moved), last.sequence)
    if not true:
        raise InputError(truth, "shares no image name with the run", "Give the model of the same sequence.")
    return true


def write_metrics(run: Run, metrics: Metrics) -> Path:
    """metrics.json in the run folder; figures that are asked for only where they were."""
    document = codec.to_json(metrics)
    assert isinstance(document, dict)
    asked = ("aligned", "surface", "stated")
    shown = {key: value for key, value in document.items() if key not in asked or value is not None}
    files.sweep_dead(run.root / METRICS_FILE)
    files.write_bytes(run.root / METRICS_FILE, codec.dumps(shown).encode())
    return run.root / METRICS_FILE


# --- poses --------------------------------------------------------------------------------------------------------


def measured(estimate: Estimate | None, true: Mapping[str, Pose]) -> PoseMetrics:
    """Errors in the frame the estimate came in: no alignment."""
    if estimate is None:
        return NOTHING
    return pose_metrics(estimate.cams_from_world, true, estimate.sequence, estimate.asked)


def stated(run: Run, true: Mapping[str, Pose]) -> StatedMetrics | None:
    """What the run states of its positions against their errors; None where no frame has a pose and a truth."""
    names = [name for name in run.poses if name in true]
    if not names:
        return None
    centres = [rigid.centres_in_world([poses[name] for name in names]) for poses in (run.poses, true)]
    off, sigmas = centres[0] - centres[1], np.array([run.sigmas[name] for name in names])
    radius = radius_95_m(sigmas)
    below = float((np.abs(off) < sigmas[:, None]).mean())
    within = float((np.linalg.norm(off, axis=1) < radius).mean())
    return StatedMetrics(position_sigma_m(sigmas), radius, below, within)


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


def _last(run: Run) -> Estimate:
    """The trajectory, else the anchors."""
    found = _trajectory(run) or _anchors(run)
    if found is None:
        raise InputError(run.root, "holds neither anchors nor a trajectory", "Run those stages first.")
    return found


def _anchors(run: Run) -> Estimate | None:
    if not run.has(ANCHORS):
        return None
    record = run.anchors_record
    poses = records.anchor_poses(record)
    return Estimate(record.names, _asked(run), poses, moved_by(record.georef))


def _asked(run: Run) -> tuple[str, ...]:
    """Names of the frames that were to become anchors: of each group as it was cut, or where it was moved to."""
    if not run.has_sequence:
        return records.anchor_names(run.anchors_record)
    last = {verdict.group.index: verdict.group.frames for verdict in run.anchors.groups}
    cut = [(set(group.frames), set(last.get(group.index, ()))) for group in run.sequence.groups]
    frames = {frame for asked, found in cut for frame in (asked if found <= asked else found)}
    return tuple(run.sequence.frames[frame].name for frame in sorted(frames))


def _trajectory(run: Run) -> Estimate | None:
    if not run.has(TRAJECTORY):
        return None
    record = run.trajectory_record
    return Estimate(record.names, record.names, records.trajectory_poses(record), moved_by(record.georef))


# --- renders ------------------------------------------------------------------------------------------------------


def held_out_views(run: Run) -> tuple[Path | None, Path | None]:
    """Folders of the held-out aerial and ground views; None before the scene is finished."""
    views = run.held_out
    return (None, None) if views is None else (views / "aerial", views / "ground")


def render_metrics(views: Path | None, perceptual: Perceptual | None = None, drawn: str = "render") -> ImageMetrics:
    """Means over the pairs DRAWN/NAME.png and photo/NAME.png; `drawn` may be "before", the scene without its update."""
    names = [] if views is None else sorted(path.name for path in (views / drawn).glob("*.png"))
    if views is None or not names:
        return ImageMetrics(None, None, None)
    pairs = [(read_pixels(views / drawn / name), read_pixels(views / "photo" / name)) for name in names]
    return ImageMetrics(
        float(np.mean([psnr(*pair) for pair in pairs])),
        float(np.mean([ssim(*pair) for pair in pairs])),
        float(np.mean([perceptual(*pair) for pair in pairs])) if perceptual is not None else None,
    )
