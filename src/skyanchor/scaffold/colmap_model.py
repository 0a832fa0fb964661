"""A COLMAP model as its files hold it, number for number, and which cameras can be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pycolmap

from skyanchor.errors import InputError
from skyanchor.geometry.cameras import plausible_focal, plausible_lens, plausible_params
from skyanchor.scaffold.checked_file import COPY_ADVICE
from skyanchor.scaffold.colmap_rigs import Rigs
from skyanchor.types import Bytes, Camera, Floats, Ints

NO_POINT = -1
"""Point id of a keypoint without a 3D point."""
LONGEST_SIDE = 1 << 20
"""Of a photo, pixels; no reader takes more."""


@dataclass(frozen=True, eq=False)
class ColmapImage:
    """One registered image as the files hold it."""

    image_id: int
    camera_id: int
    name: str
    quaternion: Floats
    """(4,), wxyz of cam_from_world, not normalised here."""
    translation: Floats
    """(3,)."""
    xy: Floats
    """(K, 2), keypoints, pixels."""
    point_ids: Ints
    """(K,), NO_POINT where there is none."""


@dataclass(frozen=True, eq=False)
class ColmapPoints:
    """3D points as the files hold them; tracks flat, point k owns elements start[k] to start[k + 1]."""

    ids: Ints
    """(M,)."""
    xyz: Floats
    """(M, 3)."""
    rgb: Bytes
    """(M, 3)."""
    error: Floats
    """(M,), mean reprojection error, pixels."""
    track_start: Ints
    """(M + 1,)."""
    track_image_ids: Ints
    """(K,)."""
    track_keypoints: Ints
    """(K,), index into the image's keypoints."""


@dataclass(frozen=True, eq=False)
class ColmapModel:
    """A sparse model: what cameras, images, points3D and, where there are any, rigs and frames files say."""

    cameras: dict[int, Camera]
    """By camera id."""
    images: tuple[ColmapImage, ...]
    """In file order."""
    points: ColmapPoints
    rigs: Rigs | None = None
    """None for a model without files of rigs and frames: every image stands for itself."""


def no_points() -> ColmapPoints:
    """An empty set of points."""
    empty = np.zeros(0, np.int64)
    return ColmapPoints(
        empty, np.zeros((0, 3)), np.zeros((0, 3), np.uint8), np.zeros(0), np.zeros(1, np.int64), empty, empty
    )


# --- cameras ----------------------------------------------------------------------------------------------------


def camera_of(path: Path, camera_id: int, model: int | str, width: int, height: int, params: Floats) -> Camera:
    """A checked Camera; `model` is COLMAP's number or name."""
    name = str(model)
    if isinstance(model, int):
        name = next((n for n, v in pycolmap.CameraModelId.__members__.items() if int(v) == model), str(model))
    expected = parameter_count(name)
    if expected is None:
        raise InputError(
            path,
            f"camera {camera_id} has the unknown camera model {name}",
            "Undistort the model to PINHOLE first (colmap image_undistorter).",
        )
    numbers = tuple(float(p) for p in params)
    if not _possible(name, width, height, numbers):
        raise InputError(
            path,
            f"camera {camera_id} ({name}, {width}x{height}) has parameters that cannot be: {list(numbers)}",
            f"{name} needs {expected} finite numbers, a focal length that a lens can have, a principal point in or "
            "near the image, distortion that can be undone and a size above zero.",
        )
    return Camera(name, width, height, numbers)


def _possible(model: str, width: int, height: int, params: tuple[float, ...]) -> bool:
    """Whether a camera is one that can have been: size, number of parameters, their size, focal lengths, the lens."""
    if not (0 < width <= LONGEST_SIDE and 0 < height <= LONGEST_SIDE and len(params) == parameter_count(model)):
        return False
    focal = pycolmap.Camera.create_from_model_name(1, model, 1.0, 1, 1).focal_length_idxs()
    sane = plausible_params(params) and all(plausible_focal(params[k], width, height) for k in focal)
    return sane and plausible_lens(Camera(model, width, height, params))


def refuse_twice(path: Path, camera_id: int, cameras: dict[int, Camera]) -> None:
    """InputError where there is a camera of this id already."""
    if camera_id in cameras:
        raise InputError(path, f"has camera {camera_id} twice", COPY_ADVICE)


def parameter_count(model: str) -> int | None:
    """How many parameters a camera model has; None for one that cannot be used (unknown or not a perspective)."""
    if model in ("INVALID", "EQUIRECTANGULAR") or model not in pycolmap.CameraModelId.__members__:
        return None
    return len(pycolmap.Camera.create_from_model_name(1, model, 1.0, 1, 1).params)
