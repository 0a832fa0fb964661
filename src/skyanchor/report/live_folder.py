"""What a run folder holds so far, for the live viewer: finished stages, and the progress of the one at work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from skyanchor.anchors.walk import GroupVerdict
from skyanchor.events import ANCHORS, SCAFFOLD, SCENE, TRAJECTORY
from skyanchor.gaussians import ply
from skyanchor.gaussians.checkpoint import checkpoint_splats
from skyanchor.gaussians.splats import Splats
from skyanchor.report.live_scene import LiveScene, owners_by_patches
from skyanchor.report.progress import LOG
from skyanchor.run import prepared as parts
from skyanchor.run import records
from skyanchor.run.layout import PROGRESS, RECIPE, STATE
from skyanchor.run.results import Run
from skyanchor.scene.patch import applied_patches, before_last, load_patch
from skyanchor.storage import files
from skyanchor.trajectory import SubmapResult
from skyanchor.types import Camera, Pose, View

GROUPS, SUBMAPS = f"{ANCHORS}/{PROGRESS}/group-*.npz", f"{TRAJECTORY}/{PROGRESS}/submap-*.npz"
AERIAL_TRAINING = f"{parts.SPLATS}/{PROGRESS}/checkpoint.npz"
"""In the scaffold's folder."""
STREET_TRAINING = tuple(f"{SCENE}/{PROGRESS}/{phase}.npz" for phase in ("amends", "joint", "insertion"))
"""Of an update that goes on, the later phase first."""
WATCHED = (f"*/{RECIPE}", GROUPS, SUBMAPS, f"{SCAFFOLD}/{AERIAL_TRAINING}", *STREET_TRAINING)


def state_of(run: Path) -> tuple[tuple[str, str], ...]:
    """Finished stages, groups, submaps and checkpoints: what is shown changes when this does."""
    found = [path for pattern in WATCHED for path in run.glob(pattern)]
    return tuple(sorted((path.relative_to(run).as_posix(), files.mark(path)) for path in found))


def status_of(run: Path) -> str:
    """The run's last word, as Markdown."""
    log = run / LOG
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    when, _, said = (lines[-1] if lines else "").partition("  ")
    return f"**{run.resolve().name}**\n\n{said or 'nothing said yet'}\n\n{when}"


def live_scene(run: Run) -> LiveScene:
    """Everything that can be shown of a run, finished or not."""
    scaffold = run.scaffold
    before, names = _aerial_splats(run)
    unchanged = np.zeros(0 if before is None else len(before), np.bool_)
    points = (scaffold.points, scaffold.point_colors)
    training = _training(run.root)
    scene = LiveScene(
        before, None, unchanged, unchanged, scaffold.views, _street(run), scaffold.up, names, training, *points
    )
    if before is None or not run.has(SCENE):
        return scene
    return _patched(scene, run)


def _patched(scene: LiveScene, run: Run) -> LiveScene:
    """The scene with the finished update."""
    updated, patch = run.updated, load_patch(run.stage(SCENE).path(records.PATCH_FILE))
    held = ply.read_bytes(updated.path)
    before, after, stack = updated.local(before_last(held, patch)), updated.local(held), applied_patches(held)
    rows = np.flatnonzero(held.usable[: patch.count])
    changed, hidden = np.isin(rows, patch.changed), np.isin(rows, patch.hidden)
    added = tuple(one.added for one in stack)
    before = replace(before, owner=owners_by_patches(len(before), added[:-1]))
    after = replace(after, owner=owners_by_patches(len(after), added))
    sequences = tuple(one.name for one in stack)
    return replace(scene, before=before, after=after, changed=changed, hidden=hidden, sequences=sequences)


def _aerial_splats(run: Run) -> tuple[Splats | None, tuple[str, ...]]:
    """The set before the run's own patch, with the names of the sequences it holds already."""
    base = run.base
    if base is None:
        sets = checkpoint_splats(run.prepared.root / AERIAL_TRAINING)
        return (sets[0] if sets else None), ()
    held = ply.read_bytes(base.path)
    splats, stack = base.local(held), applied_patches(held)
    owners = owners_by_patches(len(splats), tuple(one.added for one in stack))
    return replace(splats, owner=owners), tuple(one.name for one in stack)


def _training(run: Path) -> Splats | None:
    """The street Gaussians of an update at work: the first set of its newest checkpoint."""
    held = [checkpoint_splats(run / name) for name in STREET_TRAINING if (run / name).is_file()]
    return held[0][0] if held and held[0] else None


# --- street cameras -----------------------------------------------------------------------------------------------


def _street(run: Run) -> tuple[View, ...]:
    """The posed street frames: of the trajectory, else of the submaps and anchors so far."""
    if run.has(TRAJECTORY):
        return _views(run, run.poses, run.camera)
    if run.has(ANCHORS):
        return _views(run, {**run.poses, **_submap_poses(run)}, run.camera)
    if not (run.root / STATE / records.SEQUENCE_FILE).is_file():
        return ()
    return _views(run, _group_poses(run), run.sequence.camera)


def _names(run: Run) -> tuple[str, ...]:
    return tuple(frame.name for frame in run.sequence.frames)


def _views(run: Run, poses: dict[str, Pose], camera: Camera) -> tuple[View, ...]:
    """The posed frames in the order of the sequence; `image_id` is the frame's number."""
    photos, names = run.photos, run.names if run.has(ANCHORS) else _names(run)
    posed = [(frame, name) for frame, name in enumerate(names) if name in poses]
    return tuple(View(name, photos.get(name, Path(name)), camera, poses[name], image_id=frame) for frame, name in posed)


def _group_poses(run: Run) -> dict[str, Pose]:
    """Anchors of the groups that have a verdict."""
    names = _names(run)
    verdicts = [files.load(path, GroupVerdict) for path in sorted(run.root.glob(GROUPS))]
    return {names[pose.frame]: pose.cam_from_world for verdict in verdicts for pose in verdict.localised.poses}


def _submap_poses(run: Run) -> dict[str, Pose]:
    """Keyframes of the submaps that are ready."""
    results = [files.load(path, SubmapResult) for path in sorted(run.root.glob(SUBMAPS))]
    return {run.names[pose.frame]: pose.cam_from_world for result in results for pose in result.poses}
