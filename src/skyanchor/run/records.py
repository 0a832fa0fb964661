"""What the stages leave in a run folder: anchors.json, trajectory.json, points.npz, scene.json."""

from __future__ import annotations

from dataclasses import dataclass, field

from skyanchor.changes import ChangeKind
from skyanchor.gaussians.splat_file import SplatFile
from skyanchor.run.folder import Made
from skyanchor.scene.schedule import CurvePoint
from skyanchor.scene.scoring import Quality
from skyanchor.types import (
    QUIET,
    Anchors,
    Bytes,
    Camera,
    Floats,
    Georeference,
    Ints,
    Pose,
    PosedFrame,
    Tracks,
    Trajectory,
    TriedPlace,
)

SEQUENCE_FILE = "sequence.json"
"""In .state/: the street frames as they were read."""
ANCHORS_FILE = "anchors.json"
ANCHOR_SECONDS_FILE, TRAJECTORY_SECONDS_FILE = "anchor_seconds.json", "trajectory_seconds.json"
SCENE_SECONDS_FILE = "scene_seconds.json"
TRAJECTORY_FILE = "trajectory.json"
POINTS_FILE = "points.npz"
REPORT_FILE = "report.json"
MODEL_FOLDER = "model"
MERGED_FOLDER = "merged"
UPDATED_PLY, UPDATED_SPLAT = "updated.ply", "updated.splat"
PATCH_FILE, SCENE_FILE, TEST_FOLDER = "patch.npz", "scene.json", "test"
"""TEST_FOLDER/{aerial,ground}/{photo,before,render}/*.png: the test views, real and drawn."""
VANISHED_FOLDER = "vanished"
"""VANISHED_FOLDER/{BEFORE_FOLDER,AFTER_FOLDER}/NUMBER.jpg: what the update hid there, drawn before and after it."""
MESH_FILE, MESH_GLB, MESH_RECORD = "mesh.ply", "mesh.glb", "mesh.json"
CHANGES_FILE, CHANGED_CELLS, CHANGES_GEOJSON = "changes.json", "cells.npz", "changes.geojson"
BEFORE_FOLDER, AFTER_FOLDER = "before", "after"
"""{BEFORE_FOLDER,AFTER_FOLDER}/NUMBER.jpg: a change in a photo of either day."""


@dataclass(frozen=True, eq=False)
class AnchorsRecord:
    """anchors.json."""

    names: tuple[str, ...]
    """Name of every frame of the sequence; `frame` fields are positions in it."""
    georef: Georeference
    """Where the frame of the poses lies."""
    anchors: Anchors
    cuts: tuple[int, ...] = ()
    """Frames that begin a new stretch of the walk."""


@dataclass(frozen=True)
class GroupSeconds:
    """One look at one anchor group; a group may be looked at again with what its neighbours found."""

    group: int
    seconds: dict[str, float]
    """Per step, e.g. `places`, `bridge views`, `adjustment`."""
    tried: tuple[TriedPlace, ...] = field(default=(), metadata=QUIET)
    """Places that were looked at, in order, whatever came of them."""


@dataclass(frozen=True)
class AnchorSeconds:
    """anchor_seconds.json: apart from the results, which do not depend on the machine."""

    looks: tuple[GroupSeconds, ...]


@dataclass(frozen=True)
class SubmapSeconds:
    """The work on one submap."""

    submap: int
    seconds: dict[str, float]
    """Per step, e.g. `matching`, `pnp`, `solver`, and as `total` their sum."""
    phases: dict[str, float] = field(default_factory=dict, metadata=QUIET)
    """The same time by what the map was at; nothing in records of earlier versions."""


@dataclass(frozen=True)
class TrajectorySeconds:
    """trajectory_seconds.json: apart from the results, which do not depend on the machine."""

    submaps: tuple[SubmapSeconds, ...]
    whole: dict[str, float]
    """Per step of the stage, the submaps being one of them."""


@dataclass(frozen=True)
class SceneSeconds:
    """scene_seconds.json: the last attempt at the update, apart from its results."""

    seconds: dict[str, float]
    """Per step, e.g. `free space`, `training`, `scores`, and as `total` their sum."""


@dataclass(frozen=True, eq=False)
class TrajectoryRecord:
    """trajectory.json."""

    names: tuple[str, ...]
    """Name of every frame of the sequence; `frame` fields are positions in it."""
    georef: Georeference
    """Where the frame of the poses lies."""
    camera: Camera
    frames: tuple[PosedFrame, ...]


@dataclass(frozen=True, eq=False)
class PointsRecord:
    """points.npz: the ground points behind a trajectory."""

    points: Floats
    point_colors: Bytes
    tracks: Tracks


@dataclass(frozen=True, eq=False)
class SceneRecord:
    """scene.json: how the update went."""

    base: SplatFile
    """The aerial .ply that the patch is made for, by its name, and its frame: that of the updated one too."""
    before: Quality
    """Of the test views."""
    after: Quality
    """Of the test views."""
    start: Quality
    """Of the validation views, before the update."""
    curves: tuple[CurvePoint, ...]
    """Of the validation views, which decide; never of the test views."""
    rolled_back: bool
    aerial: int
    """Gaussians of the aerial model."""
    added: int
    moved: int
    hidden: int
    end: Quality | None = None
    """Of the validation views, after the update; None in files of older versions."""
    left_out: int = 0
    """New Gaussians that were left out because guarded views lost too much by them."""
    hidden_vanished: int = 0
    """Of `hidden`, those in places where what the flight or an earlier walk measured is gone."""
    vanished: tuple[VanishedRow, ...] = ()
    """Those places, the ones with most hidden Gaussians first."""
    contradicted: float = 0.0
    """Share of the pixels of the street photos, the test left out, that took no part: neighbours contradict them."""


@dataclass(frozen=True)
class VanishedRow:
    """A thing that is gone, and hidden in the splats."""

    number: int
    """From 1: vanished/{before,after}/NUMBER.jpg are the splats there."""
    centre: tuple[float, float, float]
    """Middle of the box around it, metres, in the user's coordinates."""
    size: tuple[float, float, float]
    """Sides of that box along the axes, metres."""
    place: tuple[float, float, float] | None
    """Latitude, longitude (deg) and height (m) of the middle; None when nothing says where the model lies."""
    hidden: int
    """Gaussians."""


def anchor_poses(record: AnchorsRecord) -> dict[str, Pose]:
    """cam_from_world of the localised anchor frames by name."""
    accepted = [pose for group in record.anchors.groups for pose in group.poses]
    return {record.names[pose.frame]: pose.cam_from_world for pose in accepted}


def anchor_names(record: AnchorsRecord) -> tuple[str, ...]:
    """Names of the frames that were to become anchors, in the order of the sequence."""
    asked = sorted({frame for group in record.anchors.groups for frame in group.group.frames})
    return tuple(record.names[frame] for frame in asked)


def trajectory_poses(record: TrajectoryRecord) -> dict[str, Pose]:
    """cam_from_world of the frames that have a pose, by name."""
    return {
        record.names[frame.frame]: frame.cam_from_world for frame in record.frames if frame.cam_from_world is not None
    }


def split(
    names: tuple[str, ...], georef: Georeference, trajectory: Trajectory
) -> tuple[TrajectoryRecord, PointsRecord]:
    """The poses and the points of a trajectory, as they are stored."""
    return (
        TrajectoryRecord(names, georef, trajectory.camera, trajectory.frames),
        PointsRecord(trajectory.points, trajectory.point_colors, trajectory.tracks),
    )


def joined(record: TrajectoryRecord, points: PointsRecord) -> Trajectory:
    """The trajectory that `split` took apart."""
    return Trajectory(record.frames, record.camera, points.points, points.point_colors, points.tracks)


def read_trajectory(stage: Made) -> Trajectory:
    """The trajectory that a finished stage 3 holds, with its points."""
    return joined(stage.load(TRAJECTORY_FILE, TrajectoryRecord), stage.load(POINTS_FILE, PointsRecord))


@dataclass(frozen=True)
class MeshRecord:
    """mesh.json: the street as a mesh."""

    vertices: int
    faces: int
    coarser: tuple[int, ...]
    """Triangles of mesh-1.ply, mesh-2.ply, ..."""
    area_m2: float
    voxel_m: float
    """Distance of two lattice points, metres."""
    farthest_m: float
    """Depth beyond which street views took no part, metres."""


@dataclass(frozen=True)
class ChangeRow:
    """One thing that is another way than before."""

    number: int
    """From 1, the largest first."""
    how: ChangeKind
    centre: tuple[float, float, float]
    """Middle of the box around it, metres, in the user's coordinates."""
    size: tuple[float, float, float]
    """Sides of that box along the axes, metres."""
    place: tuple[float, float, float] | None
    """Latitude, longitude (deg) and height (m) of the middle; None when nothing says where the model lies."""
    confidence: float
    """Share of the views with an opinion that agree, both days multiplied, 0..1."""
    views_before: int
    """Views of the earlier day with an opinion, median over the cells ..."""
    views_after: int
    """... and of the later day."""
    photo_before: str
    """Name of the photo behind before/NUMBER.jpg; empty where none of that day shows the place."""
    photo_after: str
    """The same of after/NUMBER.jpg."""


@dataclass(frozen=True)
class ChangesRecord:
    """changes.json: what is another way than before."""

    since: tuple[str, ...]
    """Runs that it was compared with, the newest first."""
    voxel_m: float
    """Side of the cells, metres."""
    changes: tuple[ChangeRow, ...]
    """The largest first."""


@dataclass(frozen=True, eq=False)
class ChangedCells:
    """cells.npz: where the changes are, cell by cell, local frame."""

    cells: Ints
    """(N, 3), place / side rounded down."""
    number: Ints
    """(N,), the change that each belongs to."""
