"""What a run folder holds so far, for the live viewer."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from skyanchor import files, records
from skyanchor.gaussians import ply
from skyanchor.gaussians.splats import Splats
from skyanchor.report.live import LiveScene
from skyanchor.run_folder import RECIPE, STATE
from skyanchor.scaffold import load_scaffold
from skyanchor.scaffold.georeference import moved_by
from skyanchor.scene_stage import PATCH_FILE, UPDATED_PLY
from skyanchor.types import Scaffold, View
from skyanchor.update.patch import load_patch


def state_of(run: Path) -> tuple[str, ...]:
    """The finished stages: what is shown changes when this does."""
    return tuple(sorted(path.parent.name for path in run.glob(f"*/{RECIPE}")))


def live_scene(run: Path) -> LiveScene:
    """Everything that can be shown of a run, finished or not."""
    from skyanchor.pipeline import Inputs

    inputs = files.load(run / STATE / "inputs.json", Inputs)
    scaffold = load_scaffold(inputs.aerial, inputs.images, inputs.splats)
    scene = run / records.SCENE
    before = _aerial_splats(run, scaffold)
    after, moved = None, np.zeros((2, 0 if before is None else len(before)), np.bool_)
    if (scene / RECIPE).is_file() and before is not None:
        offset = np.zeros(3) if scaffold.splats_path is None else moved_by(scaffold.georef)
        after, patch = ply.read_splats(scene / UPDATED_PLY, offset), load_patch(scene / PATCH_FILE)
        moved[0, patch.changed], moved[1, patch.hidden] = True, True
    return LiveScene(before, after, moved[0], moved[1], scaffold.views, _street(run, inputs.ground), scaffold.up)


def _aerial_splats(run: Path, scaffold: Scaffold) -> Splats | None:
    if scaffold.splats_path is not None:
        return ply.read_splats(scaffold.splats_path, moved_by(scaffold.georef))
    trained = run / records.SPLATS / records.SPLATS_FILE
    return ply.read_splats(trained) if trained.is_file() else None


def _street(run: Path, ground: Path) -> tuple[View, ...]:
    """The posed street frames, or before there is a trajectory the anchors."""
    if (run / records.TRAJECTORY / RECIPE).is_file():
        track = records.load_trajectory(run)
        poses, camera = records.trajectory_poses(track), track.camera
    elif (run / records.ANCHORS / RECIPE).is_file():
        anchors = records.load_anchors(run)
        poses, camera = records.anchor_poses(anchors), anchors.anchors.camera
    else:
        return ()
    roots = [run / "frames", ground, ground / "images"]
    found = {name: next((root / name for root in roots if (root / name).is_file()), ground / name) for name in poses}
    return tuple(View(name, found[name], camera, pose) for name, pose in poses.items())
