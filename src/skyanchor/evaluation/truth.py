"""True cameras of a sequence, from a COLMAP model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import pycolmap

from skyanchor.errors import InputError
from skyanchor.geometry.colmap import from_camera, from_rigid3d
from skyanchor.types import Camera, Floats, Pose

PLACES = (".", "sparse", "sparse/0", "0")
"""Where a model may lie below the given folder."""


def read_truth(path: Path, offset: Floats) -> dict[str, Pose]:
    """cam_from_world by image name, in the local frame x_local = x_original - offset."""
    folder = next((path / place for place in PLACES if _holds_model(path / place)), None)
    if folder is None:
        raise InputError(path, "holds no COLMAP model", "Give the folder with cameras and images, .bin or .txt.")
    return _read(folder, offset)


def read_poses(folder: Path) -> dict[str, Pose] | None:
    """cam_from_world by image name of the model in a folder itself; None where there is none."""
    return _read(folder, np.zeros(3)) if _holds_model(folder) else None


def _read(folder: Path, offset: Floats) -> dict[str, Pose]:
    try:
        model = pycolmap.Reconstruction(str(folder))
    except Exception as error:  # pycolmap raises whatever its parser met
        raise InputError(folder, f"cannot be read ({error})", "Export the model again.") from error
    return {image.name: _local(image.cam_from_world(), offset) for image in model.images.values() if image.has_pose}


def read_cameras(path: Path, offset: Floats) -> dict[str, tuple[Camera, Pose]]:
    """Camera and cam_from_world by image name, in the local frame."""
    poses = read_truth(path, offset)
    folder = next(path / place for place in PLACES if _holds_model(path / place))
    model = pycolmap.Reconstruction(str(folder))
    held = {image.name: from_camera(model.cameras[image.camera_id]) for image in model.images.values()}
    return {name: (held[name], pose) for name, pose in poses.items()}


def _holds_model(folder: Path) -> bool:
    return any((folder / f"images{suffix}").is_file() for suffix in (".bin", ".txt"))


def _local(cam_from_original: pycolmap.Rigid3d, offset: Floats) -> Pose:
    """t_local = t + R offset."""
    found = from_rigid3d(cam_from_original)
    return Pose(found.rotation, found.translation + found.rotation @ offset)


def matched(true: Mapping[str, Pose], names: Sequence[str]) -> dict[str, Pose]:
    """The true poses under the names of our frames: by full name, else by file name where that is unique."""
    found = {name: true[name] for name in names if name in true}
    if found:
        return found
    by_file: dict[str, list[Pose]] = {}
    for name, pose in true.items():
        by_file.setdefault(PurePosixPath(name).name, []).append(pose)
    files = {name: by_file.get(PurePosixPath(name).name, []) for name in names}
    return {name: poses[0] for name, poses in files.items() if len(poses) == 1}
