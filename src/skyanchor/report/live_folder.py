"""What a run folder holds so far, for the live viewer."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from skyanchor import records
from skyanchor.gaussians import ply
from skyanchor.gaussians.splats import Splats
from skyanchor.report.live import LiveScene
from skyanchor.report.run_data import finished, run_scaffold, street_photos
from skyanchor.run_folder import RECIPE
from skyanchor.scaffold.georeference import moved_by
from skyanchor.scene_stage import PATCH_FILE, UPDATED_PLY
from skyanchor.types import Scaffold, View
from skyanchor.update.patch import load_patch


def state_of(run: Path) -> tuple[str, ...]:
    """The finished stages: what is shown changes when this does."""
    return tuple(sorted(path.parent.name for path in run.glob(f"*/{RECIPE}")))


def live_scene(run: Path) -> LiveScene:
    """Everything that can be shown of a run, finished or not."""
    scaffold = run_scaffold(run)
    scene = run / records.SCENE
    before = _aerial_splats(run, scaffold)
    after, moved = None, np.zeros((2, 0 if before is None else len(before)), np.bool_)
    if finished(run, records.SCENE) and before is not None:
        offset = np.zeros(3) if scaffold.splats_path is None else moved_by(scaffold.georef)
        after, patch = ply.read_splats(scene / UPDATED_PLY, offset), load_patch(scene / PATCH_FILE)
        moved[0, patch.changed], moved[1, patch.hidden] = True, True
    return LiveScene(before, after, moved[0], moved[1], scaffold.views, _street(run), scaffold.up)


def _aerial_splats(run: Path, scaffold: Scaffold) -> Splats | None:
    if scaffold.splats_path is not None:
        return ply.read_splats(scaffold.splats_path, moved_by(scaffold.georef))
    trained = run / records.SPLATS / records.SPLATS_FILE
    return ply.read_splats(trained) if trained.is_file() else None


def _street(run: Path) -> tuple[View, ...]:
    """The posed street frames, or before there is a trajectory the anchors."""
    if finished(run, records.TRAJECTORY):
        track = records.load_trajectory(run)
        poses, camera = records.trajectory_poses(track), track.camera
    elif finished(run, records.ANCHORS):
        anchors = records.load_anchors(run)
        poses, camera = records.anchor_poses(anchors), anchors.anchors.camera
    else:
        return ()
    photos = street_photos(run)
    return tuple(View(name, photos.get(name, Path(name)), camera, pose) for name, pose in poses.items())
