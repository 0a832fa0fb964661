"""True cameras of a sequence, from a COLMAP model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from skyanchor.errors import InputError
from skyanchor.scaffold.checked_file import COPY_ADVICE
from skyanchor.scaffold.colmap_binary import read_cameras_bin, read_images_bin
from skyanchor.scaffold.colmap_model import ColmapImage
from skyanchor.scaffold.colmap_text import read_cameras_txt, read_images_txt
from skyanchor.scaffold.georeference import to_local
from skyanchor.scaffold.loading import pose_of, refuse_no_pose
from skyanchor.types import Camera, Floats, Pose

PLACES = (".", "sparse", "sparse/0", "0")
"""Where a model may lie below the given folder."""


def read_truth(path: Path, offset: Floats) -> dict[str, Pose]:
    """cam_from_world by image name, in the local frame x_local = x_original - offset."""
    return _read(_model_in(path), offset)


def read_poses(folder: Path) -> dict[str, Pose] | None:
    """cam_from_world by image name of the model in a folder itself; None where there is none."""
    return _read(folder, np.zeros(3)) if _holds_model(folder) else None


def read_cameras(path: Path, offset: Floats) -> dict[str, tuple[Camera, Pose]]:
    """Camera and cam_from_world by image name, in the local frame."""
    folder = _model_in(path)
    cameras, images = _camera_files(folder)
    known = (read_cameras_bin if cameras.suffix == ".bin" else read_cameras_txt)(cameras)
    found = _images(folder)
    lost = next((image for image in found if image.camera_id not in known), None)
    if lost is not None:
        raise InputError(images, f"image {lost.name} has camera {lost.camera_id}, which is missing", COPY_ADVICE)
    return {image.name: (known[image.camera_id], to_local(pose_of(image), offset)) for image in found}


def _model_in(path: Path) -> Path:
    """The folder with the model's files."""
    folder = next((path / place for place in PLACES if _holds_model(path / place)), None)
    if folder is None:
        raise InputError(path, "holds no COLMAP model", "Give the folder with cameras and images, .bin or .txt.")
    return folder


def _read(folder: Path, offset: Floats) -> dict[str, Pose]:
    return {image.name: to_local(pose_of(image), offset) for image in _images(folder)}


def _images(folder: Path) -> tuple[ColmapImage, ...]:
    """The images of a model, each with a pose and a name of its own; nobody asks for its points."""
    _, path = _camera_files(folder)
    found = (read_images_bin if path.suffix == ".bin" else read_images_txt)(path)
    for image in found:
        refuse_no_pose(path, image)
    twice = next((name for name, count in Counter(image.name for image in found).items() if count > 1), None)
    if twice is not None:
        raise InputError(path, f"image {twice} is there twice", COPY_ADVICE)
    return found


def _camera_files(folder: Path) -> tuple[Path, Path]:
    """The files of cameras and images, of one kind."""
    for suffix in (".bin", ".txt"):
        cameras, images = folder / f"cameras{suffix}", folder / f"images{suffix}"
        if cameras.is_file() and images.is_file():
            return cameras, images
    advice = "A COLMAP model has cameras and images, both .bin or both .txt."
    raise InputError(folder, "has images without cameras of the same kind", advice)


def _holds_model(folder: Path) -> bool:
    return any((folder / f"images{suffix}").is_file() for suffix in (".bin", ".txt"))


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
