"""COLMAP models from and to disk, value for value: which files a model is, found, read and written.

Poses, ids and intrinsics are kept as the numbers in the files, so that a model that is written back holds the same
bits. Poses come from images.bin or images.txt, which always hold cam_from_world of every image; rigs and frames are
kept for the model that is written.
"""

from __future__ import annotations

from pathlib import Path

from skyanchor.errors import InputError
from skyanchor.scaffold.colmap_binary import (
    cameras_bytes,
    images_bytes,
    points_bytes,
    read_cameras_bin,
    read_images_bin,
    read_points_bin,
)
from skyanchor.scaffold.colmap_model import ColmapModel
from skyanchor.scaffold.colmap_rigs import read_rigs, rig_files
from skyanchor.scaffold.colmap_text import read_cameras_txt, read_images_txt, read_points_txt
from skyanchor.storage.files import remove, write_bytes
from skyanchor.storage.kinds import kind_of

FILES = ("cameras", "images", "points3D")
OPTIONAL_FILES = ("rigs", "frames")


def suffix_of_model(folder: Path) -> str | None:
    """ ".bin" or ".txt" when the folder holds a whole model, else None."""
    for suffix in (".bin", ".txt"):
        if all((folder / f"{name}{suffix}").is_file() for name in FILES):
            return suffix
    return None


def model_files(folder: Path) -> list[Path]:
    """All files of the model in a folder, binary or text, rigs and frames included."""
    return sorted(path for path in folder.glob("*.*") if path.stem in (*FILES, *OPTIONAL_FILES))


def find_model(path: Path) -> Path:
    """The folder with the model's files: `path` itself, sparse/, sparse/0 or 0 beneath it."""
    if not path.exists():
        raise InputError(path, "does not exist", "Give the folder that holds sparse/ and images/.")
    if not path.is_dir():
        raise InputError(path, "is not a folder", "Give the folder that holds sparse/ and images/.")
    tried = [path, path / "sparse", path / "sparse" / "0", path / "0"]
    for folder in tried:
        if suffix_of_model(folder) is not None:
            return folder
    for folder in tried:
        there = [f for name in FILES for f in (folder / f"{name}.bin", folder / f"{name}.txt") if f.is_file()]
        if there:
            missing = next(n for n in FILES if not any(f.stem == n for f in there)) if len(there) < 3 else FILES[0]
            raise InputError(
                folder / f"{missing}{there[0].suffix}",
                f"is missing beside {there[0].name}",
                "A COLMAP model has cameras, images and points3D, all .bin or all .txt.",
            )
    if kind := kind_of(path):
        raise InputError(path, f"is {kind}", "Give the aerial model itself: a folder with sparse/ and images/.")
    raise InputError(
        path,
        "holds no COLMAP model",
        "Expected cameras, images and points3D (.bin or .txt) here, in sparse/ or in sparse/0.",
    )


def read_model(folder: Path) -> ColmapModel:
    """The model in a folder that `find_model` returned."""
    suffix = suffix_of_model(folder)
    if suffix is None:
        raise InputError(
            folder, "holds no COLMAP model", "Expected cameras, images and points3D, all .bin or all .txt."
        )
    paths, rigs = [folder / f"{name}{suffix}" for name in FILES], read_rigs(folder, suffix)
    if suffix == ".bin":
        model = ColmapModel(read_cameras_bin(paths[0]), read_images_bin(paths[1]), read_points_bin(paths[2]), rigs)
    else:
        model = ColmapModel(read_cameras_txt(paths[0]), read_images_txt(paths[1]), read_points_txt(paths[2]), rigs)
    _check_frames(folder / f"frames{suffix}", model)
    return model


def _check_frames(path: Path, model: ColmapModel) -> None:
    """Every image must be in some frame; files that a program left behind when it wrote images anew are not."""
    if model.rigs is None:
        return
    known = {recorded for frame in model.rigs.frames for recorded in frame.data[:, 2].tolist()}
    lost = next((image.name for image in model.images if image.image_id not in known), None)
    if lost is not None:
        advice = "Export the model again, or remove the files of rigs and frames if its cameras were single ones."
        raise InputError(path, f"has no frame for image {lost}", advice)


def write_model(folder: Path, model: ColmapModel) -> None:
    """cameras.bin, images.bin, points3D.bin, and rigs.bin and frames.bin where there are any; numbers as they are held.

    Files of rigs and frames of an older model there are removed where the new one has none: they would contradict it.
    """
    for name, data in rig_files(model.rigs).items():
        if data is None:
            remove(folder / name)
        else:
            write_bytes(folder / name, data)
    write_bytes(folder / "cameras.bin", cameras_bytes(model.cameras))
    write_bytes(folder / "images.bin", images_bytes(model.images))
    write_bytes(folder / "points3D.bin", points_bytes(model.points))
