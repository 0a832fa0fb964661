"""What a run folder holds so far, for the live viewer: finished stages, and the progress of the one at work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from skyanchor.anchors.walk import GroupVerdict
from skyanchor.gaussians import ply
from skyanchor.gaussians.checkpoint import checkpoint_splats
from skyanchor.gaussians.splats import Splats
from skyanchor.report.live_scene import LiveScene, owners_by_patches
from skyanchor.report.progress import LOG
from skyanchor.report.run_data import finished, run_scaffold, street_photos
from skyanchor.run import records
from skyanchor.run.folder import PROGRESS, RECIPE
from skyanchor.scaffold.georeference import moved_by
from skyanchor.stages.anchors import SEQUENCE
from skyanchor.stages.scene import PATCH_FILE, UPDATED_PLY
from skyanchor.storage import files
from skyanchor.trajectory import SubmapResult
from skyanchor.types import Camera, Pose, Scaffold, Sequence, View
from skyanchor.update.patch import applied_patches, load_patch

GROUPS, SUBMAPS = f"{records.ANCHORS}/{PROGRESS}/group-*.npz", f"{records.TRAJECTORY}/{PROGRESS}/submap-*.npz"
AERIAL_TRAINING = f"{records.SPLATS}/{PROGRESS}/checkpoint.npz"
STREET_TRAINING = tuple(f"{records.SCENE}/{PROGRESS}/{phase}.npz" for phase in ("joint", "insertion"))
"""Of an update that goes on, the later phase first."""
WATCHED = (f"*/{RECIPE}", GROUPS, SUBMAPS, AERIAL_TRAINING, *STREET_TRAINING)


def state_of(run: Path) -> tuple[tuple[str, int], ...]:
    """Finished stages, groups, submaps and checkpoints: what is shown changes when this does."""
    found = [path for pattern in WATCHED for path in run.glob(pattern)]
    return tuple(sorted((path.relative_to(run).as_posix(), _written(path)) for path in found))


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:  # removed between two looks, when its stage ended
        return 0


def status_of(run: Path) -> str:
    """The run's last word, as Markdown."""
    log = run / LOG
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    when, _, said = (lines[-1] if lines else "").partition("  ")
    return f"**{run.resolve().name}**\n\n{said or 'nothing said yet'}\n\n{when}"


def live_scene(run: Path) -> LiveScene:
    """Everything that can be shown of a run, finished or not."""
    scaffold = run_scaffold(run)
    before, names = _aerial_splats(run, scaffold)
    unchanged = np.zeros(0 if before is None else len(before), np.bool_)
    street = _street(run)
    points = (scaffold.points, scaffold.point_colors)
    scene = LiveScene(
        before, None, unchanged, unchanged, scaffold.views, street, scaffold.up, names, _training(run), *points
    )
    if before is None or not finished(run, records.SCENE):
        return scene
    return _patched(scene, before, run, scaffold)


def _patched(scene: LiveScene, before: Splats, run: Path, scaffold: Scaffold) -> LiveScene:
    """The scene with the finished update."""
    folder = run / records.SCENE
    offset = np.zeros(3) if scaffold.splats_path is None else moved_by(scaffold.georef)
    after, patch = ply.read_splats(folder / UPDATED_PLY, offset), load_patch(folder / PATCH_FILE)
    stack = applied_patches(folder / UPDATED_PLY)
    changed, hidden = np.zeros((2, len(before)), np.bool_)
    changed[patch.changed], hidden[patch.hidden] = True, True
    after = replace(after, owner=owners_by_patches(len(after), tuple(one.added for one in stack)))
    return replace(scene, after=after, changed=changed, hidden=hidden, sequences=tuple(one.name for one in stack))


def _aerial_splats(run: Path, scaffold: Scaffold) -> tuple[Splats | None, tuple[str, ...]]:
    """The set before the run's own patch, with the names of the sequences it holds already."""
    given, trained = scaffold.splats_path, run / records.SPLATS / records.SPLATS_FILE
    if given is not None:
        splats = ply.read_splats(given, moved_by(scaffold.georef))
        stack = applied_patches(given) if given.suffix == ".ply" else ()
        owners = owners_by_patches(len(splats), tuple(one.added for one in stack))
        return replace(splats, owner=owners), tuple(one.name for one in stack)
    if finished(run, records.SPLATS):
        return ply.read_splats(trained), ()
    sets = checkpoint_splats(run / AERIAL_TRAINING)
    return (sets[0] if sets else None), ()


def _training(run: Path) -> Splats | None:
    """The street Gaussians of an update at work: the first set of its newest checkpoint."""
    held = [checkpoint_splats(run / name) for name in STREET_TRAINING if (run / name).is_file()]
    return held[0][0] if held and held[0] else None


# --- street cameras -----------------------------------------------------------------------------------------------


def _street(run: Path) -> tuple[View, ...]:
    """The posed street frames: of the trajectory, else of the submaps and anchors so far."""
    if finished(run, records.TRAJECTORY):
        track = records.load_trajectory(run)
        return _views(run, track.names, records.trajectory_poses(track), track.camera)
    if finished(run, records.ANCHORS):
        anchors = records.load_anchors(run)
        poses = {**records.anchor_poses(anchors), **_submap_poses(run, anchors.names)}
        return _views(run, anchors.names, poses, anchors.anchors.camera)
    shared = run / records.ANCHORS / PROGRESS / SEQUENCE
    if not shared.is_file():
        return ()
    sequence = files.load(shared, Sequence)
    names = tuple(frame.name for frame in sequence.frames)
    return _views(run, names, _group_poses(run, names), sequence.camera)


def _views(run: Path, names: tuple[str, ...], poses: dict[str, Pose], camera: Camera) -> tuple[View, ...]:
    """The posed frames in the order of the sequence; `image_id` is the frame's number."""
    photos = street_photos(run)
    posed = [(frame, name) for frame, name in enumerate(names) if name in poses]
    return tuple(View(name, photos.get(name, Path(name)), camera, poses[name], image_id=frame) for frame, name in posed)


def _group_poses(run: Path, names: tuple[str, ...]) -> dict[str, Pose]:
    """Anchors of the groups that have a verdict."""
    verdicts = [files.load(path, GroupVerdict) for path in sorted(run.glob(GROUPS))]
    return {names[pose.frame]: pose.cam_from_world for verdict in verdicts for pose in verdict.localised.poses}


def _submap_poses(run: Path, names: tuple[str, ...]) -> dict[str, Pose]:
    """Keyframes of the submaps that are ready."""
    results = [files.load(path, SubmapResult) for path in sorted(run.glob(SUBMAPS))]
    return {names[pose.frame]: pose.cam_from_world for result in results for pose in result.poses}
