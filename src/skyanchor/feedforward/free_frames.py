"""Frames with poses and depth in a frame of their own, as feed-forward systems give them: from a folder, or from a run.

The folder is what VGGT-SLAM, MASt3R-SLAM and their like can be made to write:
    trajectory.tum          frame tx ty tz qx qy qz qw, world_from_cam in any frame and scale
    depth/<frame or name>   .npy, .npz (depth, and confidence if it has one) or 16-bit .png
    confidence/<...>        .npy, optional
    intrinsics.txt          fx fy cx cy in pixels of the depth maps, optional
    depth_scale.txt         units per step of a .png, optional (0.001)
"""

from __future__ import annotations

import io
from collections.abc import Sequence as Ordered
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from skyanchor.errors import InputError
from skyanchor.geometry import rigid
from skyanchor.sequence.depth_files import PNG_STEP, find_depth, plane, read_depth
from skyanchor.storage import files, foreign
from skyanchor.types import Camera, Floats, Floats32, Photo, Pose, Sequence

FARTHEST = 1e9
"""Numbers of a folder are less than this."""


@dataclass(frozen=True, eq=False)
class FreeFrame:
    """One frame in the free frame."""

    frame: int
    """Index in the sequence."""
    cam_from_free: Pose
    """In units of the free frame."""
    depth: Floats32
    """(h, w), along the optical axis, units of the free frame; 0 = none. The whole photo at another resolution."""
    confidence: Floats32
    """(h, w), higher is better, any scale."""


@dataclass(frozen=True, eq=False)
class FreeFrames:
    """Frames that share a free frame."""

    frames: tuple[FreeFrame, ...]
    """In order of the sequence."""
    camera: Camera | None = None
    """Intrinsics that poses and depth were made with, in pixels of the photos; None means the sequence's own."""


class LocalReconstruction(Protocol):
    """Poses and depth of a few photos in one pass, in a frame and scale of its own: of an anchor group, or a submap."""

    def reconstruct(self, frames: Ordered[int], photos: Ordered[Photo]) -> FreeFrames:
        """The photos, numbered by `frames` and as they are on disk, in one free frame; frames may be missing."""
        ...


# --- import -------------------------------------------------------------------------------------------------------


class FolderReconstruction:
    """Local reconstruction that a system run elsewhere left in a folder; depth is read when it is asked for."""

    def __init__(self, folder: Path, sequence: Sequence) -> None:
        """InputError where the poses cannot be read."""
        poses = read_tum(folder / "trajectory.tum")
        numbers = frame_numbers(poses, sequence, folder)
        self.folder = folder
        self.sequence = sequence
        self.poses = {number: pose for number, (_, pose) in zip(numbers, poses, strict=True)}

    def reconstruct(self, frames: Ordered[int], photos: Ordered[Photo] = ()) -> FreeFrames:
        """Those of the frames that have both a pose and a depth map, perhaps none; the photos are not needed."""
        step = _number(self.folder / "depth_scale.txt", PNG_STEP)
        found = [self._frame(frame, step) for frame in sorted(frames) if frame in self.poses]
        held = tuple(one for one in found if one is not None)
        shape = held[0].depth.shape if held else (1, 1)
        return FreeFrames(held, _camera(self.folder / "intrinsics.txt", shape, self.sequence.camera))

    def _frame(self, frame: int, step: float) -> FreeFrame | None:
        path = find_depth(self.folder / "depth", frame, self.sequence.frames[frame].name)
        if path is None:
            return None
        depth, confidence = read_depth(path, step)
        return FreeFrame(frame, self.poses[frame], depth, _confidence(self.folder, path, depth.shape, confidence))


def read_free_frames(folder: Path, sequence: Sequence) -> FreeFrames:
    """What a system run elsewhere left in a folder, for the frames that have both a pose and a depth map."""
    found = FolderReconstruction(folder, sequence).reconstruct(range(len(sequence.frames)))
    if not found.frames:
        raise InputError(folder / "depth", "has no depth map of any frame", "Name them like the photos or by index.")
    return found


def write_free_frames(folder: Path, free: FreeFrames) -> None:
    """The folder that `read_free_frames` reads, for those who run a system elsewhere; intrinsics are left out."""
    lines = []
    for one in free.frames:
        world_from_cam = one.cam_from_free.inverse
        w, x, y, z = rigid.quaternion_from_rotation(world_from_cam.rotation)
        lines.append(" ".join(str(v) for v in (one.frame, *world_from_cam.translation, x, y, z, w)))
        for part, values in (("depth", one.depth), ("confidence", one.confidence)):
            buffer = io.BytesIO()
            np.save(buffer, values)
            files.write_bytes(folder / part / f"{one.frame}.npy", buffer.getvalue())
    files.write_text(folder / "trajectory.tum", "\n".join(lines))


def read_tum(path: Path) -> list[tuple[float, Pose]]:
    """(time or number, cam_from_free) per line of a TUM file."""
    text = foreign.read_text(path, "Write one line per frame: number tx ty tz qx qy qz qw.")
    lines = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    advice = "Each line needs 8 numbers: t tx ty tz qx qy qz qw."
    try:
        rows = np.array(lines, dtype=np.float64).reshape(-1, 8)
    except ValueError as error:
        raise InputError(path, "is no TUM trajectory", advice) from error
    if not (np.abs(rows) < FARTHEST).all() or (np.linalg.norm(rows[:, 4:], axis=1) < 1e-6).any():
        raise InputError(path, "has a pose that is no pose", advice)
    poses = []
    for time, x, y, z, qx, qy, qz, qw in rows.tolist():
        free_from_cam = Pose(rigid.rotation_from_quaternion(np.array([qw, qx, qy, qz])), np.array([x, y, z]))
        poses.append((time, free_from_cam.inverse))
    return poses


def frame_numbers(poses: list[tuple[float, Pose]], sequence: Sequence, folder: Path) -> list[int]:
    """Index of each pose's frame: the first column where it counts frames, else its order when all frames are there."""
    given = np.array([time for time, _ in poses])
    count = len(sequence.frames)
    whole = len(given) > 0 and bool((given == np.round(given)).all() and (given >= 0).all() and (given < count).all())
    if whole and len(np.unique(given)) == len(given):
        return [int(number) for number in given]
    if len(given) == count:
        return [int(k) for k in np.argsort(np.argsort(given, kind="stable"), kind="stable")]
    what = f"has {len(given)} poses that are not numbered by frame, for {count} photos"
    raise InputError(folder / "trajectory.tum", what, "Put the frame's index, from 0, into the first column.")


def _confidence(folder: Path, depth_path: Path, shape: tuple[int, ...], held: Floats32 | None) -> Floats32:
    beside = folder / "confidence" / f"{depth_path.stem}.npy"
    advice = "It belongs to the depth map of that name."
    if held is None and foreign.is_there(beside, advice):
        arrays = foreign.read_arrays(beside, advice)
        held = plane(beside, next(iter(arrays.values()), np.empty(0)))
    if held is None:
        return np.ones(shape, np.float32)
    if held.shape != shape:
        raise InputError(beside, f"has shape {held.shape} beside depth of {shape}", "Both must have one size.")
    return held


def _number(path: Path, default: float) -> float:
    """The one number above 0 that a file holds."""
    advice = "Write one number above 0."
    return float(_numbers(path, 1, advice, 1)[0]) if foreign.is_there(path, advice) else default


def _numbers(path: Path, count: int, advice: str, positive: int) -> Floats:
    """So many numbers of a text, the first few of them above 0."""
    try:
        values = np.array(foreign.read_text(path, advice).split(), dtype=np.float64)
    except ValueError as error:
        raise InputError(path, f"holds something else than numbers ({error})", advice) from error
    if len(values) != count or not (np.abs(values) < FARTHEST).all() or not (values[:positive] > 0.0).all():
        raise InputError(path, f"has {len(values)} numbers that cannot be used", advice)
    return values


def _camera(path: Path, shape: tuple[int, ...], photo: Camera) -> Camera | None:
    advice = "Write fx fy cx cy in pixels of the depth maps."
    if not foreign.is_there(path, advice):
        return None
    values = _numbers(path, 4, advice, 2)
    return photo_camera(values, shape, photo)


def photo_camera(intrinsics: Floats, shape: tuple[int, ...], photo: Camera) -> Camera:
    """PINHOLE camera in pixels of the photos, from fx fy cx cy (4,) in pixels of depth maps (h, w)."""
    scale = np.array([photo.width / shape[1], photo.height / shape[0]])
    scaled = (np.asarray(intrinsics).reshape(2, 2) * scale).ravel()
    return Camera("PINHOLE", photo.width, photo.height, tuple(float(value) for value in scaled))
