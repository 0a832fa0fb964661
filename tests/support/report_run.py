"""A run folder made by hand, stage by stage, on a street of paper: what the report and the viewer have to read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import paper_street
from PIL import Image

from skyanchor.events import ANCHORS, SCAFFOLD, SCENE, TRAJECTORY
from skyanchor.gaussians.ply import read_bytes, read_ply, write_ply
from skyanchor.gaussians.seeding import splats_from_points
from skyanchor.gaussians.splat_file import SplatFile
from skyanchor.gaussians.splats import owned
from skyanchor.geometry import cameras
from skyanchor.run import prepared as parts
from skyanchor.run import records
from skyanchor.run.folder import RunFolder
from skyanchor.run.inputs import Inputs
from skyanchor.run.layout import OF_A_SCAFFOLD, STATE
from skyanchor.run.records import PATCH_FILE, SCENE_FILE, UPDATED_PLY, SceneRecord
from skyanchor.scaffold import OrientationConfig, ScaffoldConfig, load_scaffold
from skyanchor.scene.patch import Change, apply_patch, make_patch, save_patch
from skyanchor.scene.schedule import CurvePoint
from skyanchor.scene.scoring import Quality, WalkQuality
from skyanchor.storage import files
from skyanchor.trajectory import TrajectoryReport
from skyanchor.trajectory.closure import Closure
from skyanchor.trajectory.planning import RejectedGroup
from skyanchor.trajectory.recover import SubmapReport
from skyanchor.types import (
    AnchorGroup,
    AnchorPose,
    Anchors,
    CrossView,
    Georeference,
    GroupFigures,
    LocalisedGroup,
    PosedFrame,
    Reason,
    Refusal,
    Support,
    Tracks,
)

FRAMES = 12
UP = np.array([0.6, 0.0, 0.8])
"""Given by the user; nothing in the model says so."""
NAMES = tuple(f"g{k:03}.png" for k in range(FRAMES))
GROUPS = (AnchorGroup(0, (0, 1, 2, 3, 4, 5), (0,)), AnchorGroup(1, (6, 7, 8, 9, 10, 11), (0,)))
REFUSAL = Refusal(Reason.AMBIGUOUS_PLACE, "A place 30 m away fits nearly as well.", {})


def begin(scene: Path, root: Path) -> None:
    """The first stage, with an up of the user's own."""
    reading = ScaffoldConfig(OrientationConfig(up=(0.6, 0.0, 0.8), ground_height=0.5))
    files.save(root / STATE / "inputs.json", Inputs(scene / "aerial", scene / "ground"))
    with RunFolder(root / SCAFFOLD, part_of=SCAFFOLD, layout=OF_A_SCAFFOLD) as folder:
        scaffold = load_scaffold(scene / "aerial", config=reading)
        parts.write_aerial(folder.root, scaffold, reading)


def cross_view(scene: Path, frame: int) -> CrossView:
    """True matches of one frame with the nadir photo above it, the first one spoilt."""
    scaffold, pose = load_scaffold(scene / "aerial"), paper_street.walk(FRAMES)[frame]
    above = scaffold.views[7]
    points = np.array([[x, 4.0, z] for x in (3.0, 4.0, 5.0) for z in (0.5, 1.5, 2.5)])
    street = cameras.project(paper_street.WALKER, pose(points))
    aerial = cameras.project(above.camera, above.cam_from_world(points))
    agrees = np.arange(len(points)) > 0
    residual = np.where(agrees, 0.5, 40.0)
    return CrossView(np.full(len(points), frame), street, np.full(len(points), 7), aerial, residual, agrees)


def add_anchors(scene: Path, root: Path, accepted: tuple[bool, bool]) -> None:
    poses = paper_street.walk(FRAMES)
    groups = tuple(
        LocalisedGroup(
            group, tuple(AnchorPose(f, poses[f], np.eye(6) * 1e-4) for f in group.frames) if good else (),
            None if good else REFUSAL, GroupFigures(support=700), (), cross_view(scene, group.frames[2]),
        )
        for group, good in zip(GROUPS, accepted, strict=True)
    )  # fmt: skip
    with RunFolder(root) as run:
        stage = run.stage(ANCHORS, "places", {"camera": paper_street.WALKER}, {})
        record = records.AnchorsRecord(NAMES, Georeference(np.zeros(3)), Anchors(groups, paper_street.WALKER))
        stage.save(records.ANCHORS_FILE, record)
        stage.finish()


def add_trajectory(root: Path) -> None:
    poses = paper_street.walk(FRAMES)
    frames = tuple(PosedFrame(k, Support.KEYFRAME, poses[k], 60, 0.04) for k in range(FRAMES))
    closure = Closure(0, (6, 7), (0, 1), 4.8, 0.21, 0.3, 1.0, 0.4, False)
    report = TrajectoryReport(
        (SubmapReport(0, 0, FRAMES - 1, 12, 12, 12, {"tracks": 900.0}, {}),), (closure,),
        (RejectedGroup(1, Refusal(Reason.CONTRADICTS_TRAJECTORY, "Group 1 lies 9 m from the walk.")),),
        ("Group 1 lies 9 m from the walk.",), {"keyframe": float(FRAMES)}, {},
    )  # fmt: skip
    with RunFolder(root) as run:
        stage = run.stage(TRAJECTORY, "poses", {}, {})
        camera = paper_street.WALKER
        record = records.TrajectoryRecord(NAMES, Georeference(np.zeros(3)), camera, frames)
        stage.save(records.TRAJECTORY_FILE, record)
        stage.save(records.POINTS_FILE, street_points())
        stage.save(records.REPORT_FILE, report)
        stage.finish()


def street_points() -> records.PointsRecord:
    """Points on the left wall, seen by every frame that has them in its picture."""
    points = np.array([[x, 4.0, z] for x in np.arange(0.0, 14.0, 0.5) for z in (0.5, 1.5, 2.5)])
    seen = []
    for k, pose in enumerate(paper_street.walk(FRAMES)):
        in_cam = pose(points)
        xy = cameras.project(paper_street.WALKER, in_cam)
        there = np.all((xy > 0) & (xy < [paper_street.WALKER.width, paper_street.WALKER.height]), axis=1)
        seen += [(p, k, *xy[p]) for p in np.flatnonzero(there & (in_cam[:, 2] > 0))]
    held = np.array(seen)
    tracks = Tracks(held[:, 0].astype(np.int64), held[:, 1].astype(np.int64), held[:, 2:])
    return records.PointsRecord(points, np.full((len(points), 3), 90, np.uint8), tracks)


def add_scene(root: Path, later: bool = False) -> None:
    """Forty aerial Gaussians, two moved, one hidden, nine new ones; a later walk does it once more upon these."""
    rng = np.random.default_rng(0)
    grey = np.full((40, 3), 120, np.uint8)
    with RunFolder(root / SCAFFOLD, part_of=SCAFFOLD, layout=OF_A_SCAFFOLD) as folder:
        trained = folder.stage(parts.SPLATS, "aerial", {}, {})
        base = trained.path(parts.SPLATS_FILE)
        write_ply(base, splats_from_points(rng.uniform(-5, 15, (40, 3)), grey, sh_degree=0))
        trained.finish()
    with RunFolder(root) as run:
        stage = run.stage(SCENE, "street", {}, {})
        for name in ("monday", "friday") if later else ("monday",):
            street = owned(splats_from_points(rng.uniform(0, 5, (9, 3)), grey[:9], sh_degree=0), 1)
            held = read_bytes(base)
            rows = np.arange(held.header.count)
            moved, hidden = rows < 2, rows == 7
            patch = make_patch(held, name, Change(_shifted(base, moved), moved, hidden, street), "{}")
            save_patch(stage.path(PATCH_FILE), patch)
            base = stage.path(UPDATED_PLY) if name == "friday" or not later else root / "monday.ply"
            apply_patch(held, patch, base)
        before, after = Quality(27.0, 0.9, 12.0, 0.5, 11.0), Quality(26.9, 0.9, 21.0, 0.7, 20.0)
        if later:
            before = replace(before, earlier=(WalkQuality("june", 22.0, 0.7),))
            after = replace(after, earlier=(WalkQuality("june", 22.5, 0.8),))
        curves = (CurvePoint("insertion", 100, after), CurvePoint("joint", 50, after))
        file = SplatFile(Path("splats.ply"))
        stage.save(SCENE_FILE, SceneRecord(file, before, after, before, curves, True, 40, 9, 2, 1))
        for kind in ("aerial", "ground"):
            for part, grey_level in (("photo", 90), ("before", 200), ("render", 95)):
                path = stage.path(f"test/{kind}/{part}/v0.png")
                path.parent.mkdir(parents=True)
                Image.fromarray(np.full((30, 40, 3), grey_level, np.uint8)).save(path)
        stage.finish()


def _shifted(base: Path, rows: np.ndarray) -> object:
    splats = read_ply(base)
    splats.means[rows] += 0.5
    return splats
