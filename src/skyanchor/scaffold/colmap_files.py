"""COLMAP models from and to disk, value for value: binary and text, every length checked before it is trusted.

Poses, ids and intrinsics are kept as the numbers in the files, so that a model that is written back holds the same
bits. Poses come from images.bin or images.txt, which always hold cam_from_world of every image; rigs and frames are
kept for the model that is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pycolmap

from skyanchor.errors import InputError
from skyanchor.geometry.cameras import plausible_focal, plausible_lens, plausible_params
from skyanchor.scaffold.checked_file import (
    COPY_ADVICE,
    CheckedBytes,
    bad_line,
    contents,
    id_of,
    numbered_lines,
    truncated,
)
from skyanchor.scaffold.colmap_rigs import Rigs, read_rigs, rig_files
from skyanchor.storage.files import remove, write_bytes
from skyanchor.storage.kinds import kind_of
from skyanchor.types import Bytes, Camera, Floats, Ints

NO_POINT = -1
"""Point id of a keypoint without a 3D point."""
LONGEST_SIDE = 1 << 20
"""Of a photo, pixels; no reader takes more."""
FILES = ("cameras", "images", "points3D")
OPTIONAL_FILES = ("rigs", "frames")


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


# --- which files ------------------------------------------------------------------------------------------------


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


# --- binary in --------------------------------------------------------------------------------------------------


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


def _refuse_twice(path: Path, camera_id: int, cameras: dict[int, Camera]) -> None:
    if camera_id in cameras:
        raise InputError(path, f"has camera {camera_id} twice", COPY_ADVICE)


def parameter_count(model: str) -> int | None:
    """How many parameters a camera model has; None for one that cannot be used (unknown or not a perspective)."""
    if model in ("INVALID", "EQUIRECTANGULAR") or model not in pycolmap.CameraModelId.__members__:
        return None
    return len(pycolmap.Camera.create_from_model_name(1, model, 1.0, 1, 1).params)


def read_cameras_bin(path: Path) -> dict[int, Camera]:
    """Cameras by id."""
    file = CheckedBytes(path, contents(path))
    cameras: dict[int, Camera] = {}
    for k in range(file.number("<u8")):
        file.what = f"camera {k + 1}"
        camera_id, model = file.number("<u4"), file.number("<i4")
        width, height = file.number("<u8"), file.number("<u8")
        name = next((n for n, v in pycolmap.CameraModelId.__members__.items() if int(v) == model), "")
        count = parameter_count(name)
        params = file.take("<f8", count) if count is not None else np.zeros(0)
        _refuse_twice(path, camera_id, cameras)
        cameras[camera_id] = camera_of(path, camera_id, model, width, height, params)
    file.finish()
    return cameras


def read_images_bin(path: Path) -> tuple[ColmapImage, ...]:
    """Images in file order."""
    file = CheckedBytes(path, contents(path))
    images: list[ColmapImage] = []
    keypoint = np.dtype([("xy", "<f8", 2), ("id", "<i8")])
    for k in range(file.number("<u8")):
        file.what = f"image {k + 1}"
        image_id = file.number("<u4")
        pose = file.take("<f8", 7).astype(np.float64)
        camera_id = file.number("<u4")
        name = file.text()
        file.what = f"image {k + 1} ({name})"
        count = file.number("<u8")
        if count * keypoint.itemsize > len(file.data) - file.at:
            raise truncated(path, file.what)
        keypoints = np.frombuffer(file.data, keypoint, count, file.at)
        file.at += count * keypoint.itemsize
        xy, ids = keypoints["xy"].astype(np.float64), keypoints["id"].astype(np.int64)
        images.append(ColmapImage(image_id, camera_id, name, pose[:4], pose[4:], xy.reshape(-1, 2), ids))
    file.finish()
    return tuple(images)


POINT_BYTES = 51
"""id 8, xyz 24, rgb 3, error 8, track length 8."""
POINT_DTYPE = np.dtype([("id", "<i8"), ("xyz", "<f8", 3), ("rgb", "u1", 3), ("error", "<f8"), ("length", "<i8")])


def read_points_bin(path: Path) -> ColmapPoints:
    """Points with their tracks."""
    data = contents(path)
    count = CheckedBytes(path, data).number("<u8")
    start = _point_offsets(path, data, count)
    if count == 0:
        return no_points()
    table = np.frombuffer(data, np.uint8)
    rows = np.ascontiguousarray(table[start[:, None] + np.arange(POINT_BYTES)]).view(POINT_DTYPE)[:, 0]
    length = rows["length"].astype(np.int64)
    first = np.concatenate([[0], np.cumsum(length)])
    within = np.arange(first[-1]) - np.repeat(first[:-1], length)
    at = np.repeat(start + POINT_BYTES, length) + 8 * within
    elements = np.ascontiguousarray(table[at[:, None] + np.arange(8)]).view("<u4").reshape(-1, 2).astype(np.int64)
    return ColmapPoints(
        rows["id"].astype(np.int64),
        rows["xyz"].astype(np.float64),
        rows["rgb"].copy(),
        rows["error"].astype(np.float64),
        first.astype(np.int64),
        elements[:, 0],
        elements[:, 1],
    )


def _point_offsets(path: Path, data: bytes, count: int) -> Ints:
    """Where each point's record begins; records have different lengths, so this walks through them."""
    if count > (len(data) - 8) // POINT_BYTES:
        raise truncated(path, f"its {count} points")
    at, size, offsets = 8, len(data), np.empty(count, np.int64)
    for k in range(count):
        end = at + POINT_BYTES
        if end > size:
            raise truncated(path, f"point {k + 1} of {count}")
        offsets[k] = at
        at = end + 8 * int.from_bytes(data[end - 8 : end], "little")
    if at > size:
        raise truncated(path, f"point {count} of {count}")
    if at < size:
        raise InputError(path, f"has {size - at} bytes more than it announces", COPY_ADVICE)
    return offsets


# --- text in ----------------------------------------------------------------------------------------------------


def read_cameras_txt(path: Path) -> dict[int, Camera]:
    """Cameras by id."""
    cameras: dict[int, Camera] = {}
    for number, line in numbered_lines(path):
        words = line.split()
        try:
            camera_id, width, height = id_of(words[0]), int(words[2]), int(words[3])
            params = np.array(words[4:], dtype=np.float64)
        except (ValueError, IndexError) as error:
            raise bad_line(path, number, "camera", error) from error
        _refuse_twice(path, camera_id, cameras)
        cameras[camera_id] = camera_of(path, camera_id, words[1], width, height, params)
    return cameras


def read_images_txt(path: Path) -> tuple[ColmapImage, ...]:
    """Images in file order: two lines each, the second (keypoints) may be empty."""
    lines = numbered_lines(path, keep_empty=True)
    while lines and not lines[0][1]:
        lines.pop(0)
    images: list[ColmapImage] = []
    k = 0
    while k < len(lines) and lines[k][1]:
        number, head = lines[k]
        tail = lines[k + 1][1] if k + 1 < len(lines) else ""
        try:
            images.append(_image_of_lines(head, tail))
        except (ValueError, IndexError, OverflowError) as error:
            raise bad_line(path, number, "image with keypoints below it", error) from error
        k += 2
    if any(text for _, text in lines[k:]):
        raise InputError(path, f"has an empty line {lines[k][0]} where an image should be", COPY_ADVICE)
    return tuple(images)


def _image_of_lines(head: str, tail: str) -> ColmapImage:
    words = head.split(maxsplit=9)
    if len(words) < 10:
        raise ValueError(f"{len(words)} values instead of 10")
    pose = np.array(words[1:8], dtype=np.float64)
    values = tail.split()
    if len(values) % 3:
        raise ValueError(f"{len(values)} keypoint values, not a multiple of 3")
    x = np.array(values[0::3], dtype=np.float64)
    y = np.array(values[1::3], dtype=np.float64)
    ids = np.array(values[2::3], dtype=np.int64)
    xy = np.stack([x, y], axis=1).reshape(-1, 2)
    return ColmapImage(id_of(words[0]), id_of(words[8]), words[9], pose[:4], pose[4:], xy, ids)


def read_points_txt(path: Path) -> ColmapPoints:
    """Points with their tracks."""
    ids, xyz, rgb, error, length, elements = [], [], [], [], [], []
    for number, line in numbered_lines(path):
        words = line.split()
        try:
            ids.append(id_of(words[0], 2**63 - 1))
            xyz.append([float(words[k]) for k in (1, 2, 3)])
            rgb.append([min(255, max(0, int(words[k]))) for k in (4, 5, 6)])
            error.append(float(words[7]))
            track = np.array(words[8:], dtype=np.int64).reshape(-1, 2)
        except (ValueError, IndexError, OverflowError) as problem:
            raise bad_line(path, number, "point", problem) from problem
        length.append(len(track))
        elements.append(track)
    if not ids:
        return no_points()
    flat = np.concatenate(elements).reshape(-1, 2)
    start = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    colors = np.array(rgb, dtype=np.uint8)
    return ColmapPoints(
        np.array(ids, np.int64), np.array(xyz), colors, np.array(error), start, flat[:, 0].copy(), flat[:, 1].copy()
    )


# --- binary out -------------------------------------------------------------------------------------------------


def write_model(folder: Path, model: ColmapModel) -> None:
    """cameras.bin, images.bin, points3D.bin, and rigs.bin and frames.bin where there are any; numbers as they are held.

    Files of rigs and frames of an older model there are removed where the new one has none: they would contradict it.
    """
    for name, data in rig_files(model.rigs).items():
        if data is None:
            remove(folder / name)
        else:
            write_bytes(folder / name, data)
    write_bytes(folder / "cameras.bin", _cameras_bytes(model.cameras))
    write_bytes(folder / "images.bin", _images_bytes(model.images))
    write_bytes(folder / "points3D.bin", _points_bytes(model.points))


def _number(value: int, size: int) -> bytes:
    return int(value).to_bytes(size, "little", signed=value < 0)


def _cameras_bytes(cameras: dict[int, Camera]) -> bytes:
    parts = [_number(len(cameras), 8)]
    for camera_id, camera in cameras.items():
        model = int(pycolmap.CameraModelId.__members__[camera.model])
        parts += [_number(camera_id, 4), _number(model, 4), _number(camera.width, 8), _number(camera.height, 8)]
        parts.append(np.array(camera.params, "<f8").tobytes())
    return b"".join(parts)


def _images_bytes(images: tuple[ColmapImage, ...]) -> bytes:
    parts = [_number(len(images), 8)]
    for image in images:
        pose = np.concatenate([image.quaternion, image.translation]).astype("<f8")
        parts += [_number(image.image_id, 4), pose.tobytes(), _number(image.camera_id, 4)]
        parts += [image.name.encode() + b"\0", _number(len(image.xy), 8)]
        keypoints = np.empty(len(image.xy), np.dtype([("xy", "<f8", 2), ("id", "<i8")]))
        keypoints["xy"], keypoints["id"] = image.xy, image.point_ids
        parts.append(keypoints.tobytes())
    return b"".join(parts)


def _points_bytes(points: ColmapPoints) -> bytes:
    length = np.diff(points.track_start)
    rows = np.empty(len(points.ids), POINT_DTYPE)
    rows["id"], rows["xyz"], rows["rgb"] = points.ids, points.xyz, points.rgb
    rows["error"], rows["length"] = points.error, length
    start = POINT_BYTES * np.arange(len(rows)) + 8 * points.track_start[:-1]
    out = np.empty(POINT_BYTES * len(rows) + 8 * int(points.track_start[-1]), np.uint8)
    out[start[:, None] + np.arange(POINT_BYTES)] = rows.view(np.uint8).reshape(-1, POINT_BYTES)
    elements = np.stack([points.track_image_ids, points.track_keypoints], axis=1).astype("<u4")
    within = np.arange(int(points.track_start[-1])) - np.repeat(points.track_start[:-1], length)
    at = np.repeat(start + POINT_BYTES, length) + 8 * within
    out[at[:, None] + np.arange(8)] = elements.view(np.uint8).reshape(-1, 8)
    return _number(len(rows), 8) + out.tobytes()
