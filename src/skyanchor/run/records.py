"""What the stages leave in a run folder: anchors.json, trajectory.json, points.npz, with names beside the poses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skyanchor.storage import files
from skyanchor.types import Anchors, Bytes, Camera, Floats, Georeference, Pose, PosedFrame, Tracks, Trajectory

SCAFFOLD, ANCHORS, TRAJECTORY, SCENE = "1-scaffold", "2-anchors", "3-trajectory", "4-scene"
"""The stage folders."""
SPLATS = "1-splats"
"""Aerial Gaussians, where they are trained here."""

ANCHORS_FILE = "anchors.json"
ANCHOR_SECONDS_FILE = "anchor_seconds.json"
TRAJECTORY_FILE = "trajectory.json"
POINTS_FILE = "points.npz"
REPORT_FILE = "report.json"
SPLATS_FILE = "splats.ply"
MODEL_FOLDER = "model"
MERGED_FOLDER = "merged"


@dataclass(frozen=True, eq=False)
class AnchorsRecord:
    """anchors.json."""

    names: tuple[str, ...]
    """Name of every frame of the sequence; `frame` fields are positions in it."""
    georef: Georeference
    """Where the frame of the poses lies."""
    anchors: Anchors


@dataclass(frozen=True)
class GroupSeconds:
    """One look at one anchor group; a group may be looked at again with what its neighbours found."""

    group: int
    seconds: dict[str, float]
    """Per step, e.g. `places`, `bridge views`, `adjustment`."""


@dataclass(frozen=True)
class AnchorSeconds:
    """anchor_seconds.json: apart from the results, which do not depend on the machine."""

    looks: tuple[GroupSeconds, ...]


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


def load_anchors(run: Path) -> AnchorsRecord:
    """The anchors of a run folder."""
    return files.load(run / ANCHORS / ANCHORS_FILE, AnchorsRecord)


def load_trajectory(run: Path) -> TrajectoryRecord:
    """The trajectory of a run folder, without its points."""
    return files.load(run / TRAJECTORY / TRAJECTORY_FILE, TrajectoryRecord)
